package com.example.baton;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Locks of a real sidecar. */
@Timeout(120)
class LockTest {
  private static final LockOptions WAITING = LockOptions.DEFAULT.withMaxWait(LockOptions.FOREVER);

  private static Replicas replicas;
  private static Baton here;
  private static Baton there;

  @BeforeAll
  static void start() throws Exception {
    replicas = Replicas.start(2);
    here = replicas.baton(0);
    there = replicas.baton(1);
  }

  @AfterAll
  static void end() {
    replicas.close();
  }

  @Test
  void whatOneHoldsIsRefusedToAnotherWithItsHolder() throws Exception {
    LockOptions options =
        LockOptions.DEFAULT.withOwner("worker 7").withLease(Duration.ofSeconds(20)).withFair(true);
    try (HeldLock lock = here.lock("orders/42", options)) {
      assertEquals("orders/42", lock.name());
      LockHeldException held = assertThrows(LockHeldException.class, () -> there.lock("orders/42"));
      assertEquals(409, held.status());
      LockHolder holder = held.holder().orElseThrow();
      assertEquals(Optional.of("worker 7"), holder.owner());
      assertEquals(lock.token(), holder.token());
      assertTrue(holder.endsIn().compareTo(Duration.ofSeconds(20)) <= 0, holder.toString());
      try (HeldLock again = here.lock("orders/42", options)) {
        assertEquals(lock.token(), again.token(), "the same owner's");
      }
    }
  }

  @Test
  void itIsFreeAfterItsScope() throws Exception {
    HeldLock lock = here.lock("free");
    long token = lock.token();
    lock.close();
    assertThrows(LockLostException.class, lock::token);
    try (HeldLock next = there.lock("free")) {
      assertTrue(next.token() > token);
    }
  }

  @Test
  void whoWaitsGetsIt() throws Exception {
    CompletableFuture<Long> next;
    long token;
    try (HeldLock lock = here.lock("waited-for")) {
      token = lock.token();
      LockOptions shortly = LockOptions.DEFAULT.withMaxWait(Duration.ofMillis(100));
      assertThrows(LockHeldException.class, () -> there.lock("waited-for", shortly));
      next =
          CompletableFuture.supplyAsync(
              () -> {
                try (HeldLock waited = there.lock("waited-for", WAITING)) {
                  return waited.token();
                } catch (InterruptedException neverSent) {
                  throw new AssertionError(neverSent);
                }
              });
      Eventually.until(
          "the other waits",
          () ->
              replicas.request(0, "GET", "/locks/waited-for", "").body().contains("\"waiting\":1"));
      assertFalse(next.isDone());
    }
    assertTrue(next.get(30, TimeUnit.SECONDS) > token);
  }

  @Test
  void anOperatorsUnlockEndsIt() throws Exception {
    try (HeldLock lock = here.lock("unlocked")) {
      String token = "{\"token\":" + lock.token() + "}";
      CompletableFuture<Integer> status =
          replicas.statusElsewhere(1, "DELETE", "/locks/unlocked", token);
      Eventually.interrupted();
      assertEquals(200, status.get(30, TimeUnit.SECONDS));
      LockLostException lost = assertThrows(LockLostException.class, lock::token);
      assertTrue(lost.getMessage().contains("operator"), lost.getMessage());
    }
    assertFalse(Thread.currentThread().isInterrupted());
  }

  @Test
  void aShortLeaseIsExtended() throws Exception {
    LockOptions options = LockOptions.DEFAULT.withLease(Duration.ofSeconds(1));
    try (HeldLock lock = here.lock("short", options)) {
      long began = System.nanoTime();
      Eventually.until(
          "three leases have passed",
          () -> lock.token() > 0 && System.nanoTime() - began > Duration.ofSeconds(3).toNanos());
      assertThrows(LockHeldException.class, () -> there.lock("short"));
    }
  }

  @Test
  void permitsAreCounted() throws Exception {
    LockOptions two = LockOptions.DEFAULT.withPermits(2);
    try (HeldLock first = here.lock("permits", two);
        HeldLock second = there.lock("permits", two)) {
      assertTrue(first.isValid() && second.isValid());
      assertThrows(LockHeldException.class, () -> here.lock("permits", two));
      RefusedException differ =
          assertThrows(
              RefusedException.class,
              () -> here.lock("permits", LockOptions.DEFAULT.withPermits(3)));
      assertEquals("urn:baton:problem:permits-differ", differ.type());
    }
  }

  @Test
  void noSidecarIsTold() {
    Baton nobody = Baton.builder().url(Replicas.url(Replicas.freePorts(1))).build();
    assertThrows(UnreachableException.class, () -> nobody.lock("orders", WAITING));
  }

  private static boolean isFree(String name) throws InterruptedException {
    try {
      there.lock(name).close();
      return true;
    } catch (LockHeldException held) {
      return false;
    }
  }

  @Test
  void itRestsForAsLongAsWasAskedFor() throws Exception {
    Duration atLeast = Duration.ofSeconds(2);
    long began = System.nanoTime();
    here.lock("rests", LockOptions.DEFAULT.withAtLeast(atLeast)).close();
    Eventually.until("it is free", () -> isFree("rests"));
    assertTrue(System.nanoTime() - began >= atLeast.toNanos());
  }

  @Test
  void itIsLostAfterAsLongAsWasAskedFor() throws Exception {
    Duration max = Duration.ofSeconds(2);
    long asked = System.nanoTime();
    try (HeldLock lock = here.lock("hangs", LockOptions.DEFAULT.withMax(max))) {
      Duration passed = Duration.ofNanos(System.nanoTime() - asked);
      assertTrue(lock.remaining().compareTo(max.minus(passed)) <= 0, "though the lease is longer");
      Eventually.interrupted();
      long ended = System.nanoTime() - asked;
      assertTrue(ended <= max.plusSeconds(1).toNanos(), ended + " ns");
      assertTrue(ended >= max.dividedBy(2).toNanos(), ended + " ns");
      assertThrows(LockLostException.class, lock::token);
      Eventually.until("it is free", () -> isFree("hangs"));
    }
  }
}
