package com.example.baton;

/** A lead is over: nothing may be done in its name any more. */
public final class LeadLostException extends BatonException {
  private static final long serialVersionUID = 1L;

  LeadLostException(String message) {
    super(message);
  }
}
