package com.example.baton.integration;

import com.example.baton.Baton;
import com.example.baton.BatonException;
import com.example.baton.LockHeldException;
import com.example.baton.LockLostException;
import com.example.baton.LockOptions;
import java.time.Duration;
import java.util.ConcurrentModificationException;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.Lock;
import org.springframework.dao.CannotAcquireLockException;

/**
 * A lock of the sidecar: {@link BatonLockRegistry#obtain}. The thread that holds it may take it
 * again, and unlocks it as often. When it is lost, that thread is interrupted, so that what waits
 * there ends.
 */
public final class BatonLock implements Lock {
  private final Baton baton;
  private final String name;
  private final Map<String, LocalLock> inUse;

  BatonLock(Baton baton, String name, Map<String, LocalLock> inUse) {
    this.baton = baton;
    this.name = name;
    this.inUse = inUse;
  }

  /** How a thread takes what excludes the other threads of this process. */
  private interface Entry {
    boolean enter(LocalLock local) throws InterruptedException;
  }

  /**
   * Takes the lock, for as long as it takes. An interrupt does not end the wait.
   *
   * @throws CannotAcquireLockException if there is no sidecar, or it cannot grant the lock now, or
   *     this thread has taken it before and lost it
   */
  @Override
  public void lock() {
    boolean wasInterrupted = false;
    try {
      while (true) {
        try {
          lockInterruptibly();
          return;
        } catch (InterruptedException interrupted) {
          wasInterrupted = true;
        }
      }
    } finally {
      if (wasInterrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }

  /**
   * Takes the lock, for as long as it takes.
   *
   * @throws InterruptedException if this thread is interrupted while it waits
   * @throws CannotAcquireLockException if there is no sidecar, or it cannot grant the lock now, or
   *     this thread has taken it before and lost it
   */
  @Override
  public void lockInterruptibly() throws InterruptedException {
    Entry entry =
        local -> {
          local.mutex.lockInterruptibly();
          return true;
        };
    if (!take(entry, Long.MAX_VALUE)) {
      throw new CannotAcquireLockException("this thread has lost the lock " + name);
    }
  }

  /**
   * Takes the lock if it is free. An interrupt that comes meanwhile makes it fail.
   *
   * @return false if another holds it, or this thread has taken it before and lost it
   * @throws CannotAcquireLockException if there is no sidecar, or it cannot grant the lock now
   */
  @Override
  public boolean tryLock() {
    try {
      return take(local -> local.mutex.tryLock(), 0);
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      return false;
    }
  }

  /**
   * Takes the lock if it is free in time.
   *
   * @return false if another holds it all the time, or this thread has taken it before and lost it
   * @throws InterruptedException if this thread is interrupted while it waits
   * @throws CannotAcquireLockException if there is no sidecar, or it cannot grant the lock now
   */
  @Override
  public boolean tryLock(long time, TimeUnit unit) throws InterruptedException {
    long nanos = unit.toNanos(time);
    return take(local -> local.mutex.tryLock(nanos, TimeUnit.NANOSECONDS), nanos);
  }

  private boolean take(Entry entry, long waitNanos) throws InterruptedException {
    long began = System.nanoTime();
    LocalLock local = LocalLock.enter(inUse, name);
    boolean taken = false;
    try {
      if (entry.enter(local)) {
        try {
          long leftNanos = Math.max(0, waitNanos - (System.nanoTime() - began));
          taken = takeFromSidecar(local, Duration.ofNanos(leftNanos));
        } finally {
          if (!taken) {
            local.mutex.unlock();
          }
        }
      }
      return taken;
    } finally {
      if (!taken) {
        LocalLock.leave(inUse, name);
      }
    }
  }

  /** False if another has it. Of one that this thread has already: whether it is not lost. */
  private boolean takeFromSidecar(LocalLock local, Duration wait) throws InterruptedException {
    if (local.mutex.getHoldCount() > 1) {
      return local.held.isValid();
    }
    try {
      local.held = baton.lock(name, LockOptions.DEFAULT.withMaxWait(wait));
      return true;
    } catch (LockHeldException held) {
      return false;
    } catch (BatonException error) {
      throw new CannotAcquireLockException("the lock " + name + " cannot be taken", error);
    }
  }

  /**
   * Gives the lock back, if this thread has unlocked it as often as it has taken it.
   *
   * @throws IllegalMonitorStateException if this thread does not hold it
   * @throws ConcurrentModificationException if it was lost before, so that another may have had it
   *     in the meantime
   */
  @Override
  public void unlock() {
    LocalLock local = ofThisThread();
    boolean lost = false;
    try {
      if (local.mutex.getHoldCount() == 1) {
        lost = !local.held.isValid();
        local.held.close();
      }
    } finally {
      local.mutex.unlock();
      LocalLock.leave(inUse, name);
    }
    if (lost) {
      throw new ConcurrentModificationException(
          "the lock " + name + " was lost while it was held: another may have had it");
    }
  }

  /**
   * The fencing token, if this thread holds the lock and it is not lost. Reading it is the check:
   * read it each time that something is written with it, and hand it on to what is written to.
   *
   * @return the token, greater than all that this lock had before
   * @throws IllegalMonitorStateException if this thread does not hold it
   * @throws LockLostException if it is lost
   */
  public long token() {
    return ofThisThread().held.token();
  }

  private LocalLock ofThisThread() {
    LocalLock local = inUse.get(name);
    if (local == null || !local.mutex.isHeldByCurrentThread()) {
      throw new IllegalMonitorStateException("this thread does not hold the lock " + name);
    }
    return local;
  }

  /**
   * There are no conditions: another process could not signal them.
   *
   * @throws UnsupportedOperationException always
   */
  @Override
  public Condition newCondition() {
    throw new UnsupportedOperationException("a lock of the sidecar has no conditions");
  }

  @Override
  public String toString() {
    return "BatonLock " + name;
  }
}
