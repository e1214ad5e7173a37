package com.example.baton.shedlock;

import java.time.Duration;
import java.util.Optional;
import net.javacrumbs.shedlock.core.SimpleLock;

/**
 * What ShedLock is given of a lock. Unlike its own abstract class, this may be unlocked when it
 * could not be extended: ShedLock's executor does, too, and would throw over it.
 */
final class TaskLock implements SimpleLock {
  private final Holding holding;
  private final Runnable onUnlock;
  private boolean done;

  TaskLock(Holding holding, Runnable onUnlock) {
    this.holding = holding;
    this.onUnlock = onUnlock;
  }

  @Override
  public void unlock() {
    requireNotDone();
    done = true;
    onUnlock.run();
    holding.release();
  }

  @Override
  public Optional<SimpleLock> extend(Duration lockAtMostFor, Duration lockAtLeastFor) {
    requireNotDone();
    if (!holding.extend(lockAtMostFor, lockAtLeastFor)) {
      return Optional.empty();
    }
    done = true;
    return Optional.of(new TaskLock(holding, onUnlock));
  }

  private void requireNotDone() {
    if (done) {
      throw new IllegalStateException(
          "the lock " + holding.name() + " has been unlocked or extended already");
    }
  }
}
