package com.example.baton;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Leads of a real sidecar. */
@Timeout(120)
class LeadTest {
  @Test
  void whenTheWorkHasStoppedAnotherReplicaLeadsAtOnce() throws Exception {
    try (Replicas replicas = Replicas.start(2)) {
      int leader = replicas.leader();
      int other = 1 - leader;
      CompletableFuture<Long> next =
          CompletableFuture.supplyAsync(
              () -> {
                try (Lead lead = replicas.baton(other).leading("scheduler")) {
                  return lead.token();
                } catch (InterruptedException neverSent) {
                  throw new AssertionError(neverSent);
                }
              });
      long token;
      Duration promised;
      Lead ended;
      try (Lead lead = replicas.baton(leader).leading("scheduler")) {
        ended = lead;
        token = lead.token();
        assertEquals("scheduler", lead.name());
        assertFalse(next.isDone());
        promised = lead.remaining();
      }
      assertTrue(next.get(promised.toMillis(), TimeUnit.MILLISECONDS) > token);
      assertThrows(LeadLostException.class, ended::token);
      assertFalse(ended.isValid());
    }
  }

  @Test
  void whoeverResignsEndsIt() throws Exception {
    AtomicInteger calls = new AtomicInteger();
    try (Replicas replicas = Replicas.start(2)) {
      int leader = replicas.leader();
      Duration promised;
      long resigned;
      try (Lead lead = replicas.baton(leader).leading("scheduler")) {
        promised = lead.remaining();
        resigned = System.nanoTime();
        lead.onLost(calls::incrementAndGet);
        CompletableFuture<Integer> status =
            replicas.statusElsewhere(leader, "POST", "/leader/scheduler/resign", "{}");
        Eventually.interrupted();
        assertEquals(202, status.get(30, TimeUnit.SECONDS));
        assertThrows(LeadLostException.class, lead::token);
        Eventually.until("it was called", () -> calls.get() == 1);
        lead.onLost(calls::incrementAndGet);
        assertEquals(2, calls.get(), "at once, when it is over");
        assertFalse(replicas.leads(1 - leader), "this one's work has not stopped");
      }
      Eventually.within(
          promised.minusNanos(System.nanoTime() - resigned),
          "the other leads",
          () -> replicas.leads(1 - leader));
      assertFalse(Thread.currentThread().isInterrupted());
    }
  }

  @Test
  void theNextLeadOfTheSameReplicaIsAnother() throws Exception {
    try (Replicas replicas = Replicas.start(1)) {
      long token;
      LeadOptions options = LeadOptions.DEFAULT.withScope(Scope.PROCESS);
      try (Lead lead = replicas.baton(0).leading("scheduler", options)) {
        token = lead.token();
      }
      // This replica stays out for a renewal period first.
      try (Lead lead = replicas.baton(0).leading("scheduler", options)) {
        assertTrue(lead.token() > token);
      }
    }
  }

  @Test
  void whoWaitsForTheLeadCanBeInterrupted() throws Exception {
    try (Replicas replicas = Replicas.start(2)) {
      Baton follower = replicas.baton(1 - replicas.leader());
      Thread waits = Thread.currentThread();
      Thread interrupts =
          new Thread(
              () -> {
                while (waits.getState() != Thread.State.TIMED_WAITING) {
                  Thread.onSpinWait();
                }
                waits.interrupt();
              });
      interrupts.setDaemon(true);
      interrupts.start();
      assertThrows(InterruptedException.class, () -> follower.leading("scheduler"));
      assertFalse(Thread.currentThread().isInterrupted());
    }
  }

  @Test
  void anUnknownRoleIsTold() throws Exception {
    try (Replicas replicas = Replicas.start(1)) {
      RefusedException refused =
          assertThrows(RefusedException.class, () -> replicas.baton(0).leading("nobody"));
      assertEquals(404, refused.status());
      assertEquals("urn:baton:problem:unknown-role", refused.type());
      assertTrue(refused.getMessage().contains("nobody"), refused.getMessage());
    }
  }

  @Test
  void aTokenThatIsWrongIsTold(@TempDir Path folder) throws Exception {
    Path right = Files.writeString(folder.resolve("right"), "open-sesame\n");
    Path wrong = Files.writeString(folder.resolve("wrong"), "open-barley\n");
    int port = Replicas.freePorts(1);
    Path configuration =
        Files.writeString(
            folder.resolve("config.yaml"),
            "api: { listen: \"127.0.0.1:"
                + port
                + "\", tokenFile: \""
                + right
                + "\" }\ntelemetry: { listen: \"127.0.0.1:"
                + (port + 100)
                + "\" }\nstore: { memory: {} }\nroles: [{ name: scheduler }]\n");
    Process sidecar = Replicas.run("run", "--config", configuration.toString());
    try {
      Baton.Builder builder = Baton.builder().url(Replicas.url(port));
      try (Lead lead = builder.tokenFile(right).build().leading("scheduler")) {
        assertTrue(lead.token() > 0);
      }
      Baton stranger = builder.tokenFile(wrong).build();
      RefusedException refused =
          assertThrows(RefusedException.class, () -> stranger.leading("scheduler"));
      assertEquals(401, refused.status());
      Baton forgetful = builder.tokenFile(folder.resolve("none")).build();
      BatonException unread =
          assertThrows(BatonException.class, () -> forgetful.leading("scheduler"));
      assertTrue(unread.getMessage().contains("none"), unread.getMessage());
    } finally {
      Replicas.end(sidecar);
    }
  }

  @Test
  void aSidecarThatIsNotThereYetIsWaitedFor() throws Exception {
    int port = Replicas.freePorts(1);
    CompletableFuture<Replicas> starting = new CompletableFuture<>();
    Thread waits = Thread.currentThread();
    Thread starts =
        new Thread(
            () -> {
              try {
                Eventually.until("it waits", () -> waits.getState() == Thread.State.TIMED_WAITING);
                starting.complete(Replicas.start(1, port));
              } catch (Exception | AssertionError error) {
                starting.completeExceptionally(error);
                waits.interrupt();
              }
            });
    starts.start();
    try (Lead lead = Baton.builder().url(Replicas.url(port)).build().leading("scheduler")) {
      assertTrue(lead.token() > 0);
    } finally {
      starting.get().close();
    }
  }
}
