package com.example.baton.shedlock;

import com.example.baton.Baton;
import java.io.IOException;
import java.time.Duration;
import java.time.Instant;
import net.javacrumbs.shedlock.core.LockConfiguration;

/** A program that takes a lock, says so, and keeps it: its name, and for how long. */
final class Holder {
  private Holder() {}

  public static void main(String[] arguments) throws IOException {
    LockConfiguration configuration =
        new LockConfiguration(
            Instant.now(),
            arguments[0],
            Duration.parse(arguments[1]),
            Duration.parse(arguments[2]));
    System.out.println(new BatonLockProvider(Baton.create()).lock(configuration).isPresent());
    // Until it is killed, or whoever has started it is gone.
    System.in.read();
  }
}
