package com.example.baton.integration;

import com.example.baton.Baton;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.ConcurrentHashMap;
import org.springframework.integration.support.locks.LockRegistry;

/**
 * Locks of the sidecar, for Spring Integration. A lock is held for as long as this process lives
 * and it is not unlocked, and is free at once when it dies. Nothing is kept of a lock that no
 * thread holds or waits for.
 */
public final class BatonLockRegistry implements LockRegistry {
  private final Baton baton;
  private final String prefix;
  private final Map<String, LocalLock> inUse = new ConcurrentHashMap<>();

  /**
   * A registry whose locks are those of this sidecar's store.
   *
   * @param baton the sidecar
   * @param prefix what comes before a key in the name of the sidecar's lock, such as {@code
   *     orders/}. Registries with the same prefix have the same locks
   */
  public BatonLockRegistry(Baton baton, String prefix) {
    this.baton = Objects.requireNonNull(baton, "baton");
    this.prefix = Objects.requireNonNull(prefix, "prefix");
  }

  /**
   * The lock of a key. All that are obtained for a key are one lock.
   *
   * @param lockKey what has the lock's name for its text: with the prefix, 1 to 200 bytes
   * @return the lock, which nobody has taken yet
   */
  @Override
  public BatonLock obtain(Object lockKey) {
    return new BatonLock(baton, prefix + lockKey, inUse);
  }
}
