package com.example.baton;

/** A lock is over: nothing may be done in its name any more. */
public final class LockLostException extends BatonException {
  private static final long serialVersionUID = 1L;

  LockLostException(String message) {
    super(message);
  }
}
