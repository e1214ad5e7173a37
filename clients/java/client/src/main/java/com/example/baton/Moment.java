package com.example.baton;

import java.util.concurrent.TimeUnit;

/** A moment by two clocks: one that stands still while the machine sleeps, and one that goes on. */
record Moment(long awakeNanos, long uptimeNanos) {
  /** The uptime is told in hundredths of a second, rounded down: it is less than this behind. */
  static final long UPTIME_RESOLUTION_NANOS = TimeUnit.MILLISECONDS.toNanos(10);

  Moment plusNanos(long nanos) {
    return new Moment(awakeNanos + nanos, uptimeNanos + nanos);
  }

  /** How long it is until then, by the clock that leaves less time; negative if that is over. */
  long nanosUntil(Moment then) {
    return Math.min(
        then.awakeNanos - awakeNanos, then.uptimeNanos - uptimeNanos - UPTIME_RESOLUTION_NANOS);
  }
}
