package com.example.baton;

import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.fail;

import java.time.Duration;
import java.util.concurrent.Callable;

/** Waits for states, with a bound. */
public final class Eventually {
  /** Longer than anything takes that is waited for. */
  static final Duration PATIENCE = Duration.ofSeconds(30);

  private Eventually() {}

  public static void until(String what, Callable<Boolean> reached) throws Exception {
    within(PATIENCE, what, reached);
  }

  /** Waits for an interrupt of this thread, and takes it back. */
  public static void interrupted() {
    assertThrows(InterruptedException.class, Eventually::workUntilInterrupted);
  }

  /** Work that ends by an interrupt. One that does not come is a failure. */
  public static void workUntilInterrupted() throws InterruptedException {
    Lasting.lastFor(PATIENCE);
    fail("waited too long: an interrupt");
  }

  public static void within(Duration bound, String what, Callable<Boolean> reached)
      throws Exception {
    long ends = System.nanoTime() + bound.toNanos();
    while (!reached.call()) {
      if (System.nanoTime() > ends) {
        fail("waited too long: " + what);
      }
      Thread.sleep(5);
    }
  }
}
