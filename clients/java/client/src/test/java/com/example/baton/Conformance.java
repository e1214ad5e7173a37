package com.example.baton;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.concurrent.TimeUnit;

/** What the suite for all clients runs: it works while it leads, and says what it does. */
final class Conformance {
  private static final Duration STEP = Duration.ofMillis(5);
  private static final Sleeper CLOCK = new Sleeper();
  private static volatile boolean ended;

  private Conformance() {}

  public static void main(String[] arguments) {
    Thread worker = Thread.currentThread();
    Thread listener = new Thread(() -> listen(worker), "listener");
    listener.setDaemon(true);
    listener.start();
    Baton baton = Baton.builder().clock(CLOCK).build();
    try {
      while (!ended) {
        try (Lead lead = baton.leading(arguments[0])) {
          work(lead);
          say("left", System.nanoTime());
        }
      }
    } catch (InterruptedException end) {
      // It waited for the lead.
    }
  }

  private static void work(Lead lead) {
    boolean begun = false;
    try {
      while (!ended) {
        long at = System.nanoTime();
        long token = lead.token();
        if (!begun) {
          begun = true;
          say("begins", token, at);
        }
        say("works", token, at);
        Lasting.lastFor(STEP);
      }
    } catch (LeadLostException | InterruptedException over) {
      if (!ended) {
        say("cancelled", System.nanoTime());
      }
    }
    takeTime();
  }

  /** The work needs 30 ms to stop, whoever interrupts it. */
  private static void takeTime() {
    long until = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(30);
    while (System.nanoTime() < until) {
      try {
        Lasting.lastFor(Duration.ofNanos(until - System.nanoTime()));
      } catch (InterruptedException interrupted) {
        // It stops already.
      }
    }
  }

  /** Does what is told on the standard input. */
  private static void listen(Thread worker) {
    BufferedReader input =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
    try {
      for (String line = input.readLine(); line != null; line = input.readLine()) {
        String[] words = line.split(" ");
        if (!words[0].equals("sleep")) {
          break;
        }
        CLOCK.sleep(Duration.ofMillis(Long.parseLong(words[1])));
        say("slept", System.nanoTime());
      }
    } catch (IOException closed) {
      // As if it had ended.
    }
    ended = true;
    worker.interrupt();
  }

  private static void say(String what, long at) {
    System.out.println("{\"is\":\"" + what + "\",\"at\":" + at + "}");
  }

  private static void say(String what, long token, long at) {
    System.out.println("{\"is\":\"" + what + "\",\"token\":" + token + ",\"at\":" + at + "}");
  }
}
