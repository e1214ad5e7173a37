package com.example.baton;

import java.time.Duration;
import java.util.concurrent.TimeUnit;

/** Lets what is tested for last so long: a fault, or work. */
final class Lasting {
  private Lasting() {}

  static void lastFor(Duration duration) throws InterruptedException {
    TimeUnit.NANOSECONDS.sleep(duration.toNanos());
  }
}
