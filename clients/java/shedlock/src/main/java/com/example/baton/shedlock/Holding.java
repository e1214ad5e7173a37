package com.example.baton.shedlock;

import com.example.baton.Baton;
import com.example.baton.BatonException;
import com.example.baton.HeldLock;
import com.example.baton.LockHeldException;
import com.example.baton.LockLostException;
import com.example.baton.LockOptions;
import java.time.Duration;
import java.util.Optional;
import java.util.UUID;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.support.LockException;

/** A lock from its task's begin to its end, whatever it is extended by. */
final class Holding {
  /**
   * How long the sidecar's lock lasts when the sidecar has died, where {@code lockAtMostFor} is not
   * shorter: what the sidecar has for its own usual lease.
   */
  private static final Duration LEASE = Duration.ofSeconds(30);

  private final Baton baton;
  private final String name;

  /** Whoever extends a lock takes it again, and nobody else is to. */
  private final String owner = UUID.randomUUID().toString();

  /** Volatile, for whoever keeps the lock alive extends it in another thread. */
  private volatile HeldLock held;

  private Holding(Baton baton, String name) {
    this.baton = baton;
    this.name = name;
  }

  /** Empty if another has the lock. */
  static Optional<Holding> take(Baton baton, LockConfiguration configuration) {
    Holding holding = new Holding(baton, configuration.getName());
    Optional<HeldLock> taken =
        holding.ask(configuration.getLockAtMostFor(), configuration.getLockAtLeastFor());
    taken.ifPresent(lock -> holding.held = lock);
    return taken.map(lock -> holding);
  }

  private Optional<HeldLock> ask(Duration lockAtMostFor, Duration lockAtLeastFor) {
    LockOptions options =
        LockOptions.DEFAULT
            .withOwner(owner)
            .withLease(shorter(lockAtMostFor, longer(LEASE, lockAtLeastFor)))
            .withAtLeast(lockAtLeastFor)
            .withMax(lockAtMostFor);
    try {
      return Optional.of(baton.lock(name, options));
    } catch (LockHeldException another) {
      return Optional.empty();
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      throw new LockException("interrupted while taking the lock " + name, interrupted);
    } catch (BatonException error) {
      throw new LockException(
          "the lock " + name + " cannot be taken: " + error.getMessage(), error);
    }
  }

  private static Duration shorter(Duration one, Duration other) {
    return one.compareTo(other) < 0 ? one : other;
  }

  private static Duration longer(Duration one, Duration other) {
    return one.compareTo(other) < 0 ? other : one;
  }

  String name() {
    return name;
  }

  /** The check and the token. */
  long token() {
    try {
      return held.token();
    } catch (LockLostException lost) {
      throw new LockException("the lock " + name + ": " + lost.getMessage(), lost);
    }
  }

  /** False if it is over. It is taken again first, and what it was before is given back then. */
  boolean extend(Duration lockAtMostFor, Duration lockAtLeastFor) {
    HeldLock before = held;
    Optional<HeldLock> taken =
        before.isValid() ? ask(lockAtMostFor, lockAtLeastFor) : Optional.empty();
    if (taken.isEmpty()) {
      return false;
    }
    // If it was lost meanwhile, another may have had it.
    if (!before.isValid()) {
      taken.get().close();
      return false;
    }
    held = taken.get();
    before.close();
    return true;
  }

  void release() {
    held.close();
  }
}
