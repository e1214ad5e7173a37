package com.example.baton;

import java.time.Duration;
import java.time.temporal.ChronoUnit;
import java.util.Objects;

/**
 * How to take a lock. What is null is left to the sidecar.
 *
 * @param maxWait how long to wait for the lock; {@link Duration#ZERO} not to wait, {@link #FOREVER}
 *     for as long as it takes
 * @param owner who takes it, 1 to 200 bytes. The same owner may take it again; null for nobody in
 *     particular, who may not
 * @param lease how long the lock lasts when the sidecar has died, at least 100 ms
 * @param fair whether it is first come, first served
 * @param permits how many may hold the name at once, 1 to 100. All who use it ask for the same
 *     number
 * @param atLeast for how long nobody else gets the lock, though it is given back before or this
 *     process dies; at most the lease
 * @param max when it is lost though it is still held, 100 ms to 24 h after it is asked for: a wait
 *     counts, too. Null for never
 * @param margin how long before the end of what the sidecar promised the lock is over. Null for a
 *     tenth of what is promised at once, and 20 ms at the least
 */
public record LockOptions(
    Duration maxWait,
    String owner,
    Duration lease,
    boolean fair,
    Integer permits,
    Duration atLeast,
    Duration max,
    Duration margin) {
  /** A wait without end. */
  public static final Duration FOREVER = ChronoUnit.FOREVER.getDuration();

  /** No wait, no owner, and the sidecar's own lease. */
  public static final LockOptions DEFAULT =
      new LockOptions(Duration.ZERO, null, null, false, null, null, null, null);

  /**
   * The options that are given.
   *
   * @param maxWait as of the record
   * @param owner as of the record
   * @param lease as of the record
   * @param fair as of the record
   * @param permits as of the record
   * @param atLeast as of the record
   * @param max as of the record
   * @param margin as of the record
   * @throws IllegalArgumentException if the wait or the margin is negative
   */
  public LockOptions {
    if (Objects.requireNonNull(maxWait, "maxWait").isNegative()) {
      throw new IllegalArgumentException("a negative wait: " + maxWait);
    }
    Claim.requireMargin(margin);
  }

  /**
   * These options with another wait.
   *
   * @param maxWait how long to wait for the lock
   * @return new options
   * @throws IllegalArgumentException if it is negative
   */
  public LockOptions withMaxWait(Duration maxWait) {
    return new LockOptions(maxWait, owner, lease, fair, permits, atLeast, max, margin);
  }

  /**
   * These options with another owner.
   *
   * @param owner who takes the lock
   * @return new options
   */
  public LockOptions withOwner(String owner) {
    return new LockOptions(maxWait, owner, lease, fair, permits, atLeast, max, margin);
  }

  /**
   * These options with another lease.
   *
   * @param lease how long the lock lasts when the sidecar has died
   * @return new options
   */
  public LockOptions withLease(Duration lease) {
    return new LockOptions(maxWait, owner, lease, fair, permits, atLeast, max, margin);
  }

  /**
   * These options with or without fairness.
   *
   * @param fair whether it is first come, first served
   * @return new options
   */
  public LockOptions withFair(boolean fair) {
    return new LockOptions(maxWait, owner, lease, fair, permits, atLeast, max, margin);
  }

  /**
   * These options with another number of permits.
   *
   * @param permits how many may hold the name at once
   * @return new options
   */
  public LockOptions withPermits(int permits) {
    return new LockOptions(maxWait, owner, lease, fair, permits, atLeast, max, margin);
  }

  /**
   * These options with a rest.
   *
   * @param atLeast for how long nobody else gets the lock, though it is given back before
   * @return new options
   */
  public LockOptions withAtLeast(Duration atLeast) {
    return new LockOptions(maxWait, owner, lease, fair, permits, atLeast, max, margin);
  }

  /**
   * These options with an end.
   *
   * @param max when the lock is lost though it is still held, from when it is asked for
   * @return new options
   */
  public LockOptions withMax(Duration max) {
    return new LockOptions(maxWait, owner, lease, fair, permits, atLeast, max, margin);
  }

  /**
   * These options with another margin.
   *
   * @param margin how long before the end of what was promised the lock is over
   * @return new options
   * @throws IllegalArgumentException if it is negative
   */
  public LockOptions withMargin(Duration margin) {
    return new LockOptions(maxWait, owner, lease, fair, permits, atLeast, max, margin);
  }
}
