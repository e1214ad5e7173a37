package com.example.baton;

import java.util.Map;
import java.util.Optional;

/** Another holds the lock, and the time to wait for it is over. */
public final class LockHeldException extends RefusedException {
  private static final long serialVersionUID = 1L;

  /** Who holds it, or null. */
  private final transient LockHolder holder;

  LockHeldException(int status, Map<String, Object> problem) {
    super(status, problem);
    this.holder = problem.get("holder") instanceof Map<?, ?> fields ? LockHolder.of(fields) : null;
  }

  /**
   * Who holds the lock.
   *
   * @return empty if the sidecar does not know
   */
  public Optional<LockHolder> holder() {
    return Optional.ofNullable(holder);
  }
}
