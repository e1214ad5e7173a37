package com.example.baton.integration;

import com.example.baton.HeldLock;
import java.util.Map;
import java.util.concurrent.locks.ReentrantLock;

/** What excludes the threads of this process from each other, and counts how often one is in. */
final class LocalLock {
  final ReentrantLock mutex = new ReentrantLock();

  /** The sidecar's lock: of the thread that has the mutex. */
  HeldLock held;

  /** How many hold it or wait for it, each as often as it does; changed by its map only. */
  private int uses;

  /** The name's, which {@link #leave} is to follow. */
  static LocalLock enter(Map<String, LocalLock> inUse, String name) {
    return inUse.compute(
        name,
        (key, known) -> {
          LocalLock local = known == null ? new LocalLock() : known;
          local.uses++;
          return local;
        });
  }

  static void leave(Map<String, LocalLock> inUse, String name) {
    inUse.computeIfPresent(name, (key, local) -> --local.uses == 0 ? null : local);
  }
}
