package com.example.baton.shedlock;

import com.example.baton.Baton;
import java.util.Deque;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.ConcurrentLinkedDeque;
import net.javacrumbs.shedlock.core.ExtensibleLockProvider;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.SimpleLock;
import net.javacrumbs.shedlock.support.LockException;

/**
 * Locks of the sidecar, for ShedLock. A lock has ShedLock's name. The store keeps it for {@code
 * lockAtLeastFor}, and the sidecar ends it after {@code lockAtMostFor}, or when this process dies.
 *
 * <p>When a lock is over before its task is, the thread that has taken it is interrupted, so that
 * what waits there ends; and {@link #currentToken} throws. An interrupt that has not been noticed
 * is taken back when that thread unlocks.
 */
public final class BatonLockProvider implements ExtensibleLockProvider {
  private static final ThreadLocal<Deque<Holding>> OF_THREAD =
      ThreadLocal.withInitial(ConcurrentLinkedDeque::new);

  private final Baton baton;

  /**
   * A provider whose locks are those of this sidecar's store.
   *
   * @param baton the sidecar
   */
  public BatonLockProvider(Baton baton) {
    this.baton = Objects.requireNonNull(baton, "baton");
  }

  /**
   * The fencing token of the lock that this thread has taken last and not yet unlocked, if that is
   * not over. Reading it is the check: read it each time that something is written with it, in the
   * thread that runs the task, and hand it on to what is written to.
   *
   * @return the token, greater than all that this lock had before
   * @throws LockException if the lock is over
   * @throws IllegalStateException if this thread has not taken a lock
   */
  public static long currentToken() {
    Holding last = OF_THREAD.get().peekLast();
    if (last == null) {
      throw new IllegalStateException("this thread has taken no lock of Baton's");
    }
    return last.token();
  }

  /**
   * Takes a lock without waiting.
   *
   * @param configuration the lock's name, and for how long it is held
   * @return the lock; empty if another holds it
   * @throws LockException if there is no sidecar, or it cannot grant the lock now, or this thread
   *     is interrupted
   */
  @Override
  public Optional<SimpleLock> lock(LockConfiguration configuration) {
    return Holding.take(baton, configuration).map(BatonLockProvider::ofThisThread);
  }

  private static SimpleLock ofThisThread(Holding holding) {
    Deque<Holding> taken = OF_THREAD.get();
    taken.addLast(holding);
    return new TaskLock(holding, () -> taken.remove(holding));
  }
}
