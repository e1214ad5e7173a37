package com.example.baton;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.io.UncheckedIOException;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;

/**
 * {@link System#nanoTime} beside the uptime of Linux, since the former stands still while the
 * machine sleeps. Where there is no {@code /proc/uptime}, a sleep goes unnoticed.
 */
final class SystemClock implements Clock {
  static final Clock INSTANCE = new SystemClock();

  /** Null where there is none. Reading a channel would end when its thread is interrupted. */
  private final RandomAccessFile uptime;

  private SystemClock() {
    RandomAccessFile file = null;
    try {
      file = new RandomAccessFile("/proc/uptime", "r");
    } catch (FileNotFoundException notLinux) {
      // The one clock is told twice.
    }
    uptime = file;
  }

  @Override
  public Moment now() {
    long awakeNanos = System.nanoTime();
    return new Moment(awakeNanos, uptime == null ? awakeNanos : uptimeNanos());
  }

  private synchronized long uptimeNanos() {
    byte[] text = new byte[64];
    try {
      uptime.seek(0);
      int length = uptime.read(text);
      String seconds = new String(text, 0, length, StandardCharsets.US_ASCII).split(" ", 2)[0];
      return new BigDecimal(seconds).movePointRight(9).longValue();
    } catch (IOException error) {
      throw new UncheckedIOException("the uptime cannot be read", error);
    }
  }
}
