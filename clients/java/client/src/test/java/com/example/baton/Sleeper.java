package com.example.baton;

import java.time.Duration;
import java.util.concurrent.atomic.AtomicLong;

/** A clock of a machine that can be said to have slept. */
final class Sleeper implements Clock {
  private final AtomicLong sleptNanos = new AtomicLong();

  void sleep(Duration duration) {
    sleptNanos.addAndGet(duration.toNanos());
  }

  @Override
  public Moment now() {
    Moment now = SystemClock.INSTANCE.now();
    return new Moment(now.awakeNanos(), now.uptimeNanos() + sleptNanos.get());
  }
}
