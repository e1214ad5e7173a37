package com.example.baton;

import java.util.HashSet;
import java.util.Set;

/**
 * The interrupts that claims have sent to the thread that opened them. A thread has one flag for
 * all of its interrupts, so those of several claims, one within the other, are told apart here.
 */
final class Interrupts {
  private static final ThreadLocal<Interrupts> OF_THREAD = ThreadLocal.withInitial(Interrupts::new);

  private final Thread thread = Thread.currentThread();
  private final Set<Claim> senders = new HashSet<>();

  static Interrupts ofCurrentThread() {
    return OF_THREAD.get();
  }

  synchronized void send(Claim sender) {
    boolean isAnothers = thread.isInterrupted() && senders.isEmpty();
    thread.interrupt();
    // An interrupt that was pending is not ours to take back.
    if (!isAnothers) {
      senders.add(sender);
    }
  }

  /** The thread leaves the claim's scope: what it was sent and has not noticed ends here. */
  synchronized void takeBack(Claim sender) {
    boolean wasSent = senders.remove(sender);
    boolean isPending = wasSent && Thread.currentThread() == thread && Thread.interrupted();
    // What an outer claim has sent is to be noticed yet.
    if (isPending && !senders.isEmpty()) {
      thread.interrupt();
    }
  }
}
