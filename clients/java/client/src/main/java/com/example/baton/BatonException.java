package com.example.baton;

/** What the calls of this package throw for the sidecar's sake. */
public class BatonException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  BatonException(String message) {
    super(message);
  }

  BatonException(String message, Throwable cause) {
    super(message, cause);
  }
}
