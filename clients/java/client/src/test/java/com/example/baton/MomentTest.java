package com.example.baton;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import org.junit.jupiter.api.Test;

class MomentTest {
  private static final long MS = 1_000_000;

  @Test
  void theClockThatLeavesLessTimeCounts() {
    Moment then = new Moment(5 * MS, 70 * MS).plusNanos(100 * MS);
    assertEquals(90 * MS, new Moment(5 * MS, 70 * MS).nanosUntil(then), "uptime is 10 ms vague");
    assertEquals(40 * MS, new Moment(65 * MS, 70 * MS).nanosUntil(then), "it stood still");
    assertEquals(-10 * MS, new Moment(5 * MS, 170 * MS).nanosUntil(then), "the machine slept");
  }

  @Test
  void theSystemsClocksGoOnTogether() throws Exception {
    Moment began = SystemClock.INSTANCE.now();
    Eventually.until("100 ms have passed", () -> System.nanoTime() - began.awakeNanos() > 100 * MS);
    Moment now = SystemClock.INSTANCE.now();
    long apart =
        (now.uptimeNanos() - now.awakeNanos()) - (began.uptimeNanos() - began.awakeNanos());
    assertTrue(Math.abs(apart) < Duration.ofSeconds(1).toNanos(), "apart by " + apart + " ns");
    assertTrue(now.uptimeNanos() > began.uptimeNanos(), "the uptime goes on");
  }
}
