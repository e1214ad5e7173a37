package com.example.baton.shedlock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.example.baton.Baton;
import com.example.baton.Eventually;
import com.example.baton.Replicas;
import com.example.baton.UnreachableException;
import java.io.IOException;
import java.lang.reflect.Constructor;
import java.net.URI;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import net.javacrumbs.shedlock.core.DefaultLockingTaskExecutor;
import net.javacrumbs.shedlock.core.ExtensibleLockProvider;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.LockExtender;
import net.javacrumbs.shedlock.core.LockingTaskExecutor;
import net.javacrumbs.shedlock.core.SimpleLock;
import net.javacrumbs.shedlock.support.KeepAliveLockProvider;
import net.javacrumbs.shedlock.support.LockException;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** ShedLock beside real sidecars. */
@Timeout(120)
class BatonLockProviderTest {
  private static final Duration LONG = Duration.ofMinutes(10);

  private static Replicas replicas;
  private static BatonLockProvider here;
  private static BatonLockProvider there;

  /** Beside a sidecar that one test kills. */
  private static BatonLockProvider mortal;

  @BeforeAll
  static void start() throws Exception {
    replicas = Replicas.start(3);
    here = provider(replicas.urlOf(0));
    there = provider(replicas.urlOf(1));
    mortal = provider(replicas.urlOf(2));
  }

  @AfterAll
  static void end() {
    replicas.close();
  }

  private static BatonLockProvider provider(URI url) {
    return new BatonLockProvider(Baton.builder().url(url).build());
  }

  private static LockConfiguration named(String name, Duration atMost, Duration atLeast) {
    return new LockConfiguration(Instant.now(), name, atMost, atLeast);
  }

  private static Optional<SimpleLock> lock(BatonLockProvider provider, String name) {
    return provider.lock(named(name, LONG, Duration.ZERO));
  }

  /** Whether it is free there, which leaves it so. */
  private static boolean isFree(String name) {
    Optional<SimpleLock> lock = lock(there, name);
    lock.ifPresent(SimpleLock::unlock);
    return lock.isPresent();
  }

  private static void unlockAsOperator(String name, long token) {
    String body = "{\"token\":" + token + "}";
    try {
      assertEquals(200, replicas.request(1, "DELETE", "/locks/" + name, body).statusCode());
    } catch (IOException | InterruptedException error) {
      throw new CompletionException(error);
    }
  }

  @Test
  void whatOneHoldsIsRefusedToTheOtherUntilItIsUnlocked() {
    SimpleLock lock = lock(here, "nightly").orElseThrow();
    long token = BatonLockProvider.currentToken();
    assertTrue(lock(there, "nightly").isEmpty());
    assertTrue(lock(here, "nightly").isEmpty(), "the same process's");
    assertEquals(token, BatonLockProvider.currentToken());
    lock.unlock();
    SimpleLock next = lock(there, "nightly").orElseThrow();
    assertTrue(BatonLockProvider.currentToken() > token);
    next.unlock();
    assertThrows(IllegalStateException.class, lock::unlock);
    assertThrows(IllegalStateException.class, BatonLockProvider::currentToken);
  }

  private static Process hold(String name, Duration atMost, Duration atLeast) throws Exception {
    String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
    String classes = System.getProperty("java.class.path");
    ProcessBuilder builder =
        new ProcessBuilder(
                java, "-cp", classes, Holder.class.getName(), name, "" + atMost, "" + atLeast)
            .redirectError(ProcessBuilder.Redirect.DISCARD);
    builder.environment().put("BATON_URL", replicas.urlOf(0).toString());
    Process process = builder.start();
    assertEquals("true", process.inputReader().readLine());
    return process;
  }

  private static void kill(Process process) {
    process.destroyForcibly().onExit().join();
  }

  @Test
  void itIsFreeWhenItsProcessIsKilled() throws Exception {
    Process process = hold("killed", LONG, Duration.ZERO);
    try {
      assertFalse(isFree("killed"));
    } finally {
      kill(process);
    }
    // Not after lockAtMostFor, and not after the lease of 30 s.
    Eventually.within(Duration.ofSeconds(5), "it is free", () -> isFree("killed"));
  }

  @Test
  void lockAtLeastForOutlivesTheProcess() throws Exception {
    long began = System.nanoTime();
    Duration atLeast = Duration.ofSeconds(6);
    Process process = hold("short-lived", LONG, atLeast);
    kill(process);
    assertFalse(isFree("short-lived"));
    Eventually.within(atLeast.plusSeconds(5), "it is free", () -> isFree("short-lived"));
    assertTrue(System.nanoTime() - began >= atLeast.toNanos());
  }

  @Test
  void aProcessThatStandsStillLosesItAfterLockAtMostFor() throws Exception {
    Process process = hold("stopped", Duration.ofSeconds(3), Duration.ZERO);
    try {
      String pid = "" + process.pid();
      assertEquals(0, new ProcessBuilder("kill", "-STOP", pid).start().waitFor());
      Eventually.within(Duration.ofSeconds(5), "it is free", () -> isFree("stopped"));
    } finally {
      kill(process);
    }
  }

  @Test
  void lockAtMostForEndsIt() throws Exception {
    Duration atMost = Duration.ofSeconds(2);
    long began = System.nanoTime();
    SimpleLock lock = here.lock(named("hangs", atMost, Duration.ZERO)).orElseThrow();
    assertTrue(BatonLockProvider.currentToken() > 0);
    assertFalse(isFree("hangs"));
    Eventually.interrupted();
    assertThrows(LockException.class, BatonLockProvider::currentToken);
    assertTrue(System.nanoTime() - began <= atMost.plusSeconds(1).toNanos());
    Eventually.within(Duration.ofSeconds(4), "it is free", () -> isFree("hangs"));
    assertTrue(System.nanoTime() - began >= atMost.toNanos());
    assertTrue(lock.extend(LONG, Duration.ZERO).isEmpty());
    lock.unlock();
    assertThrows(IllegalStateException.class, BatonLockProvider::currentToken);
  }

  @Test
  void aTaskThatNoticesNoInterruptLeavesNoneBehind() throws Exception {
    SimpleLock lock = here.lock(named("deaf", Duration.ofMillis(500), Duration.ZERO)).orElseThrow();
    while (!Thread.currentThread().isInterrupted()) {
      Thread.onSpinWait();
    }
    lock.unlock();
    assertFalse(Thread.currentThread().isInterrupted());
  }

  @Test
  void anotherThreadsUnlockDoesNotTakeTheInterruptBack() throws Exception {
    SimpleLock lock =
        here.lock(named("foreign", Duration.ofMillis(500), Duration.ZERO)).orElseThrow();
    while (!Thread.currentThread().isInterrupted()) {
      Thread.onSpinWait();
    }
    CompletableFuture.runAsync(lock::unlock).join();
    assertTrue(Thread.interrupted());
  }

  @Test
  void lockAtLeastForKeepsIt() throws Exception {
    Duration atLeast = Duration.ofSeconds(2);
    long began = System.nanoTime();
    SimpleLock lock = here.lock(named("early", LONG, atLeast)).orElseThrow();
    lock.unlock();
    assertTrue(System.nanoTime() - began < atLeast.toNanos(), "its task does not wait");
    assertThrows(IllegalStateException.class, BatonLockProvider::currentToken);
    Eventually.within(Duration.ofSeconds(5), "it is free", () -> isFree("early"));
    assertTrue(System.nanoTime() - began >= atLeast.toNanos());
  }

  @Test
  void afterLockAtLeastForItIsFreeAtOnce() throws Exception {
    long began = System.nanoTime();
    Duration atLeast = Duration.ofMillis(200);
    SimpleLock lock = here.lock(named("late", LONG, atLeast)).orElseThrow();
    Eventually.until("it has passed", () -> System.nanoTime() - began > atLeast.toNanos());
    lock.unlock();
    assertTrue(isFree("late"));
  }

  @Test
  void anExtensionCountsFromNow() throws Throwable {
    LockingTaskExecutor executor = new DefaultLockingTaskExecutor(here);
    long began = System.nanoTime();
    executor.executeWithLock(
        (LockingTaskExecutor.Task)
            () -> {
              long token = BatonLockProvider.currentToken();
              LockExtender.extendActiveLock(Duration.ofSeconds(30), Duration.ZERO);
              Eventually.until(
                  "lockAtMostFor has passed",
                  () -> System.nanoTime() - began > Duration.ofSeconds(2).toNanos());
              assertEquals(token, BatonLockProvider.currentToken());
              assertFalse(isFree("extended"));
            },
        named("extended", Duration.ofSeconds(1), Duration.ZERO));
    assertTrue(isFree("extended"));
    assertThrows(IllegalStateException.class, BatonLockProvider::currentToken);
  }

  @Test
  void anExtensionCanBeShorter() throws Exception {
    SimpleLock first = lock(here, "shorter").orElseThrow();
    SimpleLock lock = first.extend(Duration.ofMillis(500), Duration.ZERO).orElseThrow();
    assertThrows(IllegalStateException.class, first::unlock);
    assertThrows(IllegalStateException.class, () -> first.extend(LONG, Duration.ZERO));
    Eventually.interrupted();
    Eventually.within(Duration.ofSeconds(5), "it is free", () -> isFree("shorter"));
    lock.unlock();
  }

  @Test
  void anExtensionHasALockAtLeastForOfItsOwn() throws Exception {
    long began = System.nanoTime();
    Duration atLeast = Duration.ofSeconds(2);
    lock(here, "longer").orElseThrow().extend(LONG, atLeast).orElseThrow().unlock();
    Eventually.within(Duration.ofSeconds(5), "it is free", () -> isFree("longer"));
    assertTrue(System.nanoTime() - began >= atLeast.toNanos());
  }

  @Test
  void itCanBeExtendedAgainWhileItsFirstRests() throws Exception {
    SimpleLock lock = here.lock(named("thrice", LONG, Duration.ofSeconds(2))).orElseThrow();
    long token = BatonLockProvider.currentToken();
    for (int times = 0; times < 3; times++) {
      lock = lock.extend(LONG, Duration.ofSeconds(1)).orElseThrow();
      assertEquals(token, BatonLockProvider.currentToken());
      assertFalse(isFree("thrice"));
    }
    lock.unlock();
    Eventually.within(Duration.ofSeconds(5), "it is free", () -> isFree("thrice"));
  }

  @Test
  void whoKeepsItAliveDoesSoFromAnotherThread() throws Exception {
    SimpleLock lock = lock(here, "alive").orElseThrow();
    long token = BatonLockProvider.currentToken();
    SimpleLock extended =
        CompletableFuture.supplyAsync(() -> lock.extend(LONG, Duration.ZERO).orElseThrow())
            .get(30, TimeUnit.SECONDS);
    assertEquals(token, BatonLockProvider.currentToken());
    unlockAsOperator("alive", token);
    Eventually.until("it is lost", () -> currentTokenIsRefused("operator"));
    assertFalse(Thread.currentThread().isInterrupted(), "it is the other thread's");
    extended.unlock();
    assertThrows(IllegalStateException.class, BatonLockProvider::currentToken);
  }

  @Test
  void shedLocksOwnKeepAliveDoes() throws Exception {
    // Its public constructor wants half a minute.
    Constructor<KeepAliveLockProvider> constructor =
        KeepAliveLockProvider.class.getDeclaredConstructor(
            ExtensibleLockProvider.class, ScheduledExecutorService.class, Duration.class);
    constructor.setAccessible(true);
    Duration atMost = Duration.ofSeconds(2);
    ScheduledExecutorService timer = Executors.newSingleThreadScheduledExecutor();
    long began = System.nanoTime();
    SimpleLock lock =
        constructor
            .newInstance(here, timer, atMost)
            .lock(named("kept-alive", atMost, Duration.ZERO))
            .orElseThrow();
    long token = BatonLockProvider.currentToken();
    Eventually.until(
        "lockAtMostFor has passed twice", () -> System.nanoTime() - began > 2 * atMost.toNanos());
    assertEquals(token, BatonLockProvider.currentToken());
    assertFalse(isFree("kept-alive"));
    lock.unlock();
    timer.shutdown();
    assertTrue(isFree("kept-alive"));
  }

  @Test
  void aLostLockInterruptsItsTaskAndHasNoToken() throws Throwable {
    LockingTaskExecutor executor = new DefaultLockingTaskExecutor(here);
    executor.executeWithLock(
        (LockingTaskExecutor.Task)
            () -> {
              long token = BatonLockProvider.currentToken();
              CompletableFuture<Void> unlocked =
                  CompletableFuture.runAsync(() -> unlockAsOperator("lost", token));
              Eventually.interrupted();
              unlocked.get(30, TimeUnit.SECONDS);
              assertTrue(currentTokenIsRefused("operator"));
              assertThrows(
                  LockExtender.LockCanNotBeExtendedException.class,
                  () -> LockExtender.extendActiveLock(LONG, Duration.ZERO));
              assertTrue(isFree("lost"));
            },
        named("lost", LONG, LONG));
    assertFalse(Thread.currentThread().isInterrupted());
  }

  @Test
  void itsSidecarsDeathIsToldAndTheLockEndsAfterLockAtMostFor() throws Exception {
    long began = System.nanoTime();
    Duration atMost = Duration.ofSeconds(10);
    SimpleLock lock = mortal.lock(named("orphan", atMost, Duration.ZERO)).orElseThrow();
    CompletableFuture<Void> killed = CompletableFuture.runAsync(() -> replicas.kill(2));
    Eventually.interrupted();
    killed.get(30, TimeUnit.SECONDS);
    assertThrows(LockException.class, BatonLockProvider::currentToken);
    lock.unlock();
    assertTrue(System.nanoTime() - began < atMost.toNanos());
    Eventually.within(atMost.plusSeconds(5), "it is free", () -> isFree("orphan"));
  }

  @Test
  void noTwoTasksAreAtWorkAtOnce() throws Exception {
    int[] counter = new int[1];
    List<CompletableFuture<Void>> tasks = new ArrayList<>();
    ExecutorService pool = Executors.newFixedThreadPool(4);
    for (int task = 0; task < 4; task++) {
      LockingTaskExecutor executor = new DefaultLockingTaskExecutor(task % 2 == 0 ? here : there);
      tasks.add(CompletableFuture.runAsync(() -> increment(executor, counter, 25), pool));
    }
    CompletableFuture.allOf(tasks.toArray(CompletableFuture[]::new)).get(60, TimeUnit.SECONDS);
    pool.shutdown();
    assertEquals(100, counter[0]);
  }

  private static void increment(LockingTaskExecutor executor, int[] counter, int times) {
    int done = 0;
    while (done < times) {
      int before = done;
      int[] now = {before};
      executor.executeWithLock(
          (Runnable)
              () -> {
                int read = counter[0];
                Thread.yield();
                counter[0] = read + 1;
                now[0]++;
              },
          named("counter", LONG, Duration.ZERO));
      done = now[0];
    }
  }

  private static boolean currentTokenIsRefused(String why) {
    try {
      return BatonLockProvider.currentToken() < 0;
    } catch (LockException over) {
      assertTrue(over.getMessage().contains(why), over.getMessage());
      return true;
    }
  }

  @Test
  void theTokenIsOfTheInnermostLock() {
    SimpleLock outer = lock(here, "outer").orElseThrow();
    long token = BatonLockProvider.currentToken();
    SimpleLock inner = lock(there, "inner").orElseThrow();
    assertTrue(BatonLockProvider.currentToken() != token);
    inner.unlock();
    assertEquals(token, BatonLockProvider.currentToken());
    outer.unlock();
  }

  @Test
  void anotherThreadMayUnlockIt() throws Exception {
    SimpleLock lock = lock(here, "elsewhere").orElseThrow();
    CompletableFuture.runAsync(lock::unlock).get(30, TimeUnit.SECONDS);
    assertTrue(isFree("elsewhere"));
    assertThrows(IllegalStateException.class, BatonLockProvider::currentToken);
  }

  @Test
  void anInterruptEndsTheWaitForTheSidecar() throws Exception {
    Thread.currentThread().interrupt();
    LockException error = assertThrows(LockException.class, () -> lock(here, "interrupted"));
    assertTrue(Thread.interrupted());
    assertInstanceOf(InterruptedException.class, error.getCause());
    Eventually.until("it is free", () -> isFree("interrupted"));
  }

  @Test
  void noSidecarIsTold() {
    BatonLockProvider nobody = provider(URI.create("http://127.0.0.1:1"));
    LockException error = assertThrows(LockException.class, () -> lock(nobody, "nightly"));
    assertInstanceOf(UnreachableException.class, error.getCause());
  }

  @Test
  void whatTheSidecarRefusesIsTold() {
    LockException error = assertThrows(LockException.class, () -> lock(here, "x".repeat(201)));
    assertTrue(error.getMessage().contains("bad-parameter"), error.getMessage());
  }

  @Test
  void aLockAtMostForThatTheSidecarDoesNotKnowIsTold() {
    for (Duration atMost : List.of(Duration.ofMillis(50), Duration.ofHours(25))) {
      LockException error =
          assertThrows(
              LockException.class, () -> here.lock(named("bounds", atMost, Duration.ZERO)));
      assertTrue(error.getMessage().contains("bad-parameter"), error.getMessage());
    }
  }
}
