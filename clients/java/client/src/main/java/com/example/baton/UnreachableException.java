package com.example.baton;

/**
 * There is no sidecar at the address, or it does not answer in time, or what it says is no answer.
 */
public final class UnreachableException extends BatonException {
  private static final long serialVersionUID = 1L;

  UnreachableException(String message) {
    super(message);
  }

  UnreachableException(String message, Throwable cause) {
    super(message, cause);
  }
}
