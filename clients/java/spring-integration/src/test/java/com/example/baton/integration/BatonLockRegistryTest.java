package com.example.baton.integration;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.example.baton.Baton;
import com.example.baton.Eventually;
import com.example.baton.LockLostException;
import com.example.baton.Replicas;
import com.example.baton.UnreachableException;
import java.io.BufferedReader;
import java.net.URI;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ConcurrentModificationException;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.springframework.dao.CannotAcquireLockException;

/** Locks of real sidecars. */
@Timeout(120)
class BatonLockRegistryTest {
  private static Replicas replicas;
  private static ExecutorService elsewhere;
  private static BatonLockRegistry here;
  private static BatonLockRegistry there;

  @BeforeAll
  static void start() throws Exception {
    replicas = Replicas.start(2);
    elsewhere = Executors.newCachedThreadPool();
    here = registry(replicas.urlOf(0));
    there = registry(replicas.urlOf(1));
  }

  @AfterAll
  static void end() {
    elsewhere.shutdownNow();
    replicas.close();
  }

  private static BatonLockRegistry registry(URI url) {
    return new BatonLockRegistry(Baton.builder().url(url).build(), "test/");
  }

  private static boolean isFree(String key) {
    BatonLock lock = there.obtain(key);
    if (!lock.tryLock()) {
      return false;
    }
    lock.unlock();
    return true;
  }

  private static <T> T inAnotherThread(Callable<T> call) throws Exception {
    return elsewhere.submit(call).get(30, TimeUnit.SECONDS);
  }

  private static void waitForWaiters(String key, int waiters) throws Exception {
    Eventually.until(
        waiters + " wait",
        () ->
            replicas
                .request(0, "GET", "/locks/test%2F" + key, "")
                .body()
                .contains("\"waiting\":" + waiters));
  }

  @Test
  void whatOneHoldsIsRefusedToTheOtherUntilItIsUnlocked() throws Exception {
    BatonLock lock = here.obtain("orders");
    lock.lock();
    long token = lock.token();
    assertFalse(there.obtain("orders").tryLock());
    assertFalse(inAnotherThread(() -> here.obtain("orders").tryLock()), "the same process's");
    assertThrows(
        TimeoutException.class,
        () -> there.executeLocked("orders", Duration.ofMillis(100), () -> {}));
    lock.unlock();
    BatonLock next = there.obtain("orders");
    assertTrue(next.tryLock());
    assertTrue(next.token() > token);
    next.unlock();
    assertThrows(IllegalMonitorStateException.class, next::token);
    assertThrows(IllegalMonitorStateException.class, next::unlock);
  }

  @Test
  void aThreadMayTakeItAgain() throws Exception {
    BatonLock lock = here.obtain("again");
    lock.lock();
    long token = lock.token();
    BatonLock same = here.obtain("again");
    assertTrue(same.tryLock());
    same.lock();
    assertTrue(same.tryLock(1, TimeUnit.SECONDS));
    assertEquals(token, same.token());
    for (int times = 0; times < 3; times++) {
      same.unlock();
      assertFalse(isFree("again"));
    }
    assertThrows(
        IllegalMonitorStateException.class,
        () -> {
          try {
            inAnotherThread(
                () -> {
                  here.obtain("again").unlock();
                  return null;
                });
          } catch (ExecutionException error) {
            throw error.getCause();
          }
        });
    lock.unlock();
    assertTrue(isFree("again"));
  }

  @Test
  void whoTriesWithTimeGetsItInTime() throws Exception {
    BatonLock lock = here.obtain("timed");
    lock.lock();
    long began = System.nanoTime();
    assertFalse(there.obtain("timed").tryLock(300, TimeUnit.MILLISECONDS));
    assertTrue(System.nanoTime() - began >= TimeUnit.MILLISECONDS.toNanos(300));
    Future<Boolean> waits =
        elsewhere.submit(
            () -> {
              BatonLock other = there.obtain("timed");
              boolean taken = other.tryLock(60, TimeUnit.SECONDS);
              other.unlock();
              return taken;
            });
    waitForWaiters("timed", 1);
    assertFalse(waits.isDone());
    lock.unlock();
    assertTrue(waits.get(30, TimeUnit.SECONDS));
  }

  @Test
  void aThreadOfTheSameProcessWaitsForItToo() throws Exception {
    BatonLock lock = here.obtain("threads");
    lock.lock();
    long token = lock.token();
    assertFalse(inAnotherThread(() -> here.obtain("threads").tryLock(100, TimeUnit.MILLISECONDS)));
    Future<Long> waits =
        elsewhere.submit(() -> here.executeLocked("threads", here.obtain("threads")::token));
    lock.unlock();
    assertTrue(waits.get(30, TimeUnit.SECONDS) > token);
    assertTrue(isFree("threads"));
  }

  @Test
  void anInterruptEndsTheWaitForOneThatMayBeInterrupted() throws Exception {
    BatonLock lock = here.obtain("interrupted");
    lock.lock();
    Future<?> waits =
        elsewhere.submit(
            () -> {
              there.obtain("interrupted").lockInterruptibly();
              return null;
            });
    waitForWaiters("interrupted", 1);
    waits.cancel(true);
    waitForWaiters("interrupted", 0);
    lock.unlock();
    assertTrue(isFree("interrupted"));
  }

  @Test
  void anInterruptDoesNotEndTheWaitForLock() throws Exception {
    BatonLock lock = here.obtain("patient");
    lock.lock();
    Thread[] thread = new Thread[1];
    Future<Boolean> waits =
        elsewhere.submit(
            () -> {
              thread[0] = Thread.currentThread();
              BatonLock other = there.obtain("patient");
              other.lock();
              boolean wasInterrupted = Thread.interrupted();
              other.unlock();
              return wasInterrupted;
            });
    waitForWaiters("patient", 1);
    thread[0].interrupt();
    lock.unlock();
    assertTrue(waits.get(30, TimeUnit.SECONDS));
  }

  @Test
  void aLossInterruptsAndIsToldByUnlock() throws Exception {
    BatonLock lock = here.obtain("lost");
    lock.lock();
    lock.lock();
    String body = "{\"token\":" + lock.token() + "}";
    Future<Integer> unlocked =
        elsewhere.submit(
            () -> replicas.request(1, "DELETE", "/locks/test%2Flost", body).statusCode());
    Eventually.interrupted();
    assertEquals(200, unlocked.get(30, TimeUnit.SECONDS));
    assertThrows(LockLostException.class, lock::token);
    assertFalse(lock.tryLock(), "what is lost is not taken again");
    assertThrows(CannotAcquireLockException.class, lock::lock);
    assertTrue(inAnotherThread(() -> isFree("lost")));
    lock.unlock();
    assertThrows(ConcurrentModificationException.class, lock::unlock);
    assertFalse(Thread.currentThread().isInterrupted());
    assertTrue(lock.tryLock(), "it is another one's now");
    lock.unlock();
  }

  @Test
  void itIsFreeWhenItsProcessIsKilled() throws Exception {
    String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
    String classes = System.getProperty("java.class.path");
    ProcessBuilder builder =
        new ProcessBuilder(java, "-cp", classes, Holder.class.getName(), "killed")
            .redirectError(ProcessBuilder.Redirect.DISCARD);
    builder.environment().put("BATON_URL", replicas.urlOf(0).toString());
    Process process = builder.start();
    try (BufferedReader output = process.inputReader()) {
      String token = output.readLine();
      assertTrue(token != null && token.matches("\\d+"), token);
      assertFalse(isFree("killed"));
    } finally {
      process.destroyForcibly().onExit().join();
    }
    // The sidecar's lease is 30 s.
    Eventually.within(Duration.ofSeconds(5), "it is free", () -> isFree("killed"));
  }

  @Test
  void thereAreNoConditions() {
    BatonLock lock = here.obtain("conditions");
    assertThrows(UnsupportedOperationException.class, lock::newCondition);
  }

  @Test
  void noSidecarIsTold() {
    BatonLock lock = registry(URI.create("http://127.0.0.1:1")).obtain("orders");
    for (int times = 0; times < 2; times++) {
      CannotAcquireLockException error =
          assertThrows(CannotAcquireLockException.class, lock::tryLock);
      assertInstanceOf(UnreachableException.class, error.getCause());
    }
  }
}
