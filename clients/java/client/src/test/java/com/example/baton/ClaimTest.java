package com.example.baton;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** What becomes of answers that no real sidecar gives when it is wanted. */
@Timeout(60)
class ClaimTest {
  private static final long LONG_MS = 50_000;

  private final Sleeper clock = new Sleeper();

  private Baton baton(StandIn sidecar) {
    return Baton.builder().url(sidecar.url()).clock(clock).build();
  }

  /** Waits for what never comes, and is interrupted. */
  private static void endIsNoticed() {
    Eventually.interrupted();
  }

  @Test
  void theMarginIsATenthAndAtLeast20Milliseconds() throws Exception {
    try (StandIn sidecar = StandIn.leading(LONG_MS)) {
      try (Lead lead = baton(sidecar).leading("it")) {
        assertBetween(40_000, lead.remaining(), 45_000);
      }
      sidecar.answer(StandIn.says(150));
      try (Lead lead = baton(sidecar).leading("it")) {
        assertBetween(0, lead.remaining(), 130);
      }
    }
  }

  @Test
  void theMarginThatIsGivenCounts() throws Exception {
    LeadOptions options = LeadOptions.DEFAULT.withMargin(Duration.ofMillis(20_000));
    try (StandIn sidecar = StandIn.leading(LONG_MS);
        Lead lead = baton(sidecar).leading("it", options)) {
      assertBetween(25_000, lead.remaining(), 30_000);
    }
  }

  private static void assertBetween(long leastMs, Duration actual, long mostMs) {
    assertTrue(
        actual.toMillis() >= leastMs && actual.toMillis() <= mostMs,
        actual + " is not from " + leastMs + " to " + mostMs + " ms");
  }

  @Test
  void aValidityNeverShrinks() throws Exception {
    try (StandIn sidecar = StandIn.leading(5_000);
        Lead lead = baton(sidecar).leading("it", LeadOptions.DEFAULT.withMargin(Duration.ZERO))) {
      sidecar.answer(StandIn.says(1_000));
      int asked = sidecar.asked().size();
      Eventually.until("it was asked again", () -> sidecar.asked().size() > asked + 1);
      assertTrue(lead.remaining().toMillis() > 1_000, () -> "left: " + lead.remaining());
    }
  }

  @ParameterizedTest
  @MethodSource("unclear")
  void whatIsNoClearAnswerIsAskedAgainOverANewConnection(StandIn.Answer unclear) throws Exception {
    try (StandIn sidecar = new StandIn(unclear)) {
      Thread waiting = Thread.currentThread();
      AtomicInteger before = new AtomicInteger();
      Thread judge =
          new Thread(
              () -> {
                try {
                  Eventually.until("it asks on", () -> sidecar.asked().size() >= 3);
                  before.set(sidecar.asked().size());
                  sidecar.answer(StandIn.says(LONG_MS));
                } catch (Exception | AssertionError late) {
                  waiting.interrupt();
                }
              });
      judge.start();
      try (Lead lead = baton(sidecar).leading("it")) {
        assertEquals(StandIn.TOKEN, lead.token());
        assertTrue(sidecar.asked().size() > before.get(), "nothing that was said before counts");
        Set<Integer> ports =
            sidecar.asked().stream().map(StandIn.Request::port).collect(Collectors.toSet());
        assertEquals(sidecar.asked().size(), ports.size(), "connections");
      }
    }
  }

  static Stream<StandIn.Answer> unclear() {
    String led = StandIn.led(StandIn.TOKEN, LONG_MS);
    return Stream.of(
        StandIn.says("500 Internal Server Error", led),
        StandIn.says("503 Service Unavailable", ""),
        StandIn.says("307 Temporary Redirect\r\nLocation: /leader/it?elsewhere", ""),
        StandIn.says("200 OK", "leader: true"),
        StandIn.says("200 OK", ""),
        StandIn.says("200 OK", led.replace("41", "\"41\"")),
        StandIn.says("200 OK", led.replace("valid_for_ms", "valid")),
        StandIn.says(20),
        out -> {
          StandIn.write(out, "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n" + led);
          throw new IOException("it breaks off");
        },
        out -> {
          throw new IOException("it is closed");
        });
  }

  @ParameterizedTest
  @MethodSource("ends")
  void whatEndsItInterrupts(String reason, End end) throws Exception {
    AtomicInteger calls = new AtomicInteger();
    try (StandIn sidecar = StandIn.leading(2_000)) {
      try (Lead lead =
          baton(sidecar).leading("it", LeadOptions.DEFAULT.withMargin(Duration.ZERO))) {
        lead.onLost(calls::incrementAndGet);
        end.play(sidecar, clock);
        endIsNoticed();
        LeadLostException lost = assertThrows(LeadLostException.class, lead::token);
        assertTrue(lost.getMessage().contains(reason), lost.getMessage());
        assertFalse(lead.isValid());
        assertEquals(Duration.ZERO, lead.remaining());
        Eventually.until("it was called", () -> calls.get() == 1);
        assertEquals(0, sidecar.drained().size(), "its work has not stopped");
      }
      assertEquals(1, calls.get());
      assertEquals(1, sidecar.drained().size());
      assertTrue(sidecar.drained().get(0).begins("POST /leader/it/drained?hold=" + StandIn.HOLD));
      assertFalse(Thread.currentThread().isInterrupted());
    }
  }

  /** How a lead ends. */
  @FunctionalInterface
  interface End {
    void play(StandIn sidecar, Sleeper clock) throws Exception;
  }

  private static Arguments end(String reason, End end) {
    return Arguments.of(reason, end);
  }

  static Stream<Arguments> ends() {
    String followed = "{\"leader\":false,\"token\":null,\"reason\":\"web-1 leads\"}";
    return Stream.of(
        end("web-1 leads", (it, clock) -> it.answer(StandIn.says("200 OK", followed))),
        end("another term", (it, clock) -> it.answer(StandIn.says("200 OK", StandIn.led(42, 9)))),
        end("knows nothing", (it, clock) -> it.answer(StandIn.says("410 Gone", ""))),
        end("web-1 leads", (it, clock) -> it.line(followed)),
        end("another term", (it, clock) -> it.line(StandIn.led(42, 9))),
        end("connection", (it, clock) -> it.endHold()),
        end("run out", (it, clock) -> it.answer(StandIn.says("500 Oh", ""))),
        end("run out", (it, clock) -> it.answer(out -> Lasting.lastFor(Duration.ofHours(1)))),
        end("run out", (it, clock) -> it.answer(ClaimTest::trickle)),
        end("run out", (it, clock) -> clock.sleep(Duration.ofHours(1))));
  }

  private static void trickle(OutputStream out) throws IOException, InterruptedException {
    String led = StandIn.led(StandIn.TOKEN, 2_000);
    StandIn.write(out, "HTTP/1.1 200 OK\r\nContent-Length: " + led.length() + "\r\n\r\n");
    for (char letter : led.toCharArray()) {
      Lasting.lastFor(Duration.ofMillis(60));
      StandIn.write(out, String.valueOf(letter));
    }
  }

  @Test
  void aLeadThatIsOverStaysSoWhenAnAnswerComes() throws Exception {
    try (StandIn sidecar = StandIn.leading(LONG_MS);
        Lead lead = baton(sidecar).leading("it")) {
      clock.sleep(Duration.ofMillis(LONG_MS));
      assertThrows(LeadLostException.class, lead::token, "at once, whoever has noticed");
      endIsNoticed();
      assertThrows(LeadLostException.class, lead::token);
    }
  }

  @Test
  void whoClosesItIsNeitherInterruptedNorCalled() throws Exception {
    AtomicInteger calls = new AtomicInteger();
    try (StandIn sidecar = StandIn.leading(LONG_MS)) {
      Lead lead = baton(sidecar).leading("it");
      lead.onLost(calls::incrementAndGet);
      lead.close();
      lead.close();
      assertThrows(LeadLostException.class, lead::token);
      assertTrue(sidecar.holdIsClosed.await(30, TimeUnit.SECONDS), "its connection is closed");
      Eventually.until("its threads have ended", () -> threadsOf("baton it").isEmpty());
      assertEquals(1, sidecar.drained().size());
      assertEquals(0, calls.get());
      assertFalse(Thread.currentThread().isInterrupted());
    }
  }

  @Test
  void whoCannotReadTheTokenAtItsEndHangsUpAllTheSame(@TempDir Path folder) throws Exception {
    Path file = Files.writeString(folder.resolve("token"), "open-sesame\n");
    try (StandIn sidecar = StandIn.leading(LONG_MS)) {
      Lead lead = Baton.builder().url(sidecar.url()).tokenFile(file).build().leading("it");
      Files.delete(file);
      lead.close();
      assertTrue(sidecar.holdIsClosed.await(30, TimeUnit.SECONDS), "its connection is closed");
    }
  }

  private static Set<String> threadsOf(String prefix) {
    return Thread.getAllStackTraces().keySet().stream()
        .map(Thread::getName)
        .filter(name -> name.startsWith(prefix))
        .collect(Collectors.toSet());
  }

  @Test
  void allThreadsAreDaemons() throws Exception {
    Set<Thread> before = Thread.getAllStackTraces().keySet();
    try (StandIn sidecar = StandIn.leading(LONG_MS);
        Lead lead = baton(sidecar).leading("it")) {
      assertTrue(lead.isValid());
      for (Thread thread : Thread.getAllStackTraces().keySet()) {
        assertTrue(before.contains(thread) || thread.isDaemon(), thread.getName());
      }
      assertEquals(Set.of("baton it asks", "baton it watches"), threadsOf("baton it"));
    }
  }

  @Test
  void anInterruptThatWasNotNoticedIsTakenBack() throws Exception {
    try (StandIn sidecar = StandIn.leading(LONG_MS)) {
      Lead lead = baton(sidecar).leading("it");
      sidecar.endHold();
      spinUntilInterrupted();
      assertFalse(lead.isValid());
      lead.close();
      assertFalse(Thread.currentThread().isInterrupted());
    }
  }

  private static void spinUntilInterrupted() {
    long ends = System.nanoTime() + Eventually.PATIENCE.toNanos();
    while (!Thread.currentThread().isInterrupted()) {
      assertTrue(System.nanoTime() < ends, "it is interrupted");
      Thread.onSpinWait();
    }
  }

  @Test
  void anInterruptFromElsewhereStays() throws Exception {
    try (StandIn sidecar = StandIn.leading(LONG_MS)) {
      Lead lead = baton(sidecar).leading("it");
      Thread.currentThread().interrupt();
      lead.onLost(() -> sidecar.requests.add(new StandIn.Request("lost", 0)));
      sidecar.endHold();
      long ends = System.nanoTime() + Eventually.PATIENCE.toNanos();
      while (sidecar.requests.stream().noneMatch(request -> request.begins("lost"))) {
        assertTrue(System.nanoTime() < ends, "it is lost");
      }
      lead.close();
      assertTrue(Thread.interrupted(), "it was there before");
      assertEquals(1, sidecar.drained().size(), "the sidecar is told all the same");
    }
  }

  @Test
  void theInterruptOfAnOuterScopeOutlastsAnInnerOne() throws Exception {
    try (StandIn outside = StandIn.leading(LONG_MS);
        StandIn inside = StandIn.leading(LONG_MS);
        Lead outer = baton(outside).leading("it")) {
      Lead inner = baton(inside).leading("it");
      inside.endHold();
      spinUntilInterrupted();
      outside.endHold();
      AtomicInteger calls = new AtomicInteger();
      outer.onLost(calls::incrementAndGet);
      long ends = System.nanoTime() + Eventually.PATIENCE.toNanos();
      while (calls.get() == 0) {
        assertTrue(System.nanoTime() < ends, "the outer one is lost");
      }
      inner.close();
      endIsNoticed();
    }
    assertFalse(Thread.currentThread().isInterrupted());
  }

  @Test
  void whoIsInterruptedWhileItWaitsLeavesNoConnection() throws Exception {
    try (ServerSocket server = new ServerSocket(0, 50, InetAddress.getLoopbackAddress())) {
      Thread waits = Thread.currentThread();
      CompletableFuture<Boolean> closed =
          CompletableFuture.supplyAsync(
              () -> {
                try (Socket socket = server.accept()) {
                  boolean asked = socket.getInputStream().read() == 'G';
                  waits.interrupt();
                  // All of the request, and that there is no more.
                  return asked && socket.getInputStream().readAllBytes().length > 0;
                } catch (IOException error) {
                  throw new UncheckedIOException(error);
                }
              });
      Baton baton = Baton.builder().url(Replicas.url(server.getLocalPort())).build();
      assertThrows(InterruptedException.class, () -> baton.leading("it"));
      assertTrue(closed.get(30, TimeUnit.SECONDS));
    }
  }

  @Test
  void theTokenFileIsReadForEachRequest(@TempDir Path folder) throws Exception {
    Path file = Files.writeString(folder.resolve("token"), "first\n");
    try (StandIn sidecar = StandIn.leading(300)) {
      Baton baton = Baton.builder().url(sidecar.url()).tokenFile(file).build();
      try (Lead lead = baton.leading("it")) {
        assertTrue(lead.isValid());
        Files.writeString(file, "second\n");
        Eventually.until(
            "the second one is sent",
            () ->
                sidecar.asked().stream()
                    .anyMatch(asked -> asked.head().contains("Authorization: Bearer second\n")));
      }
      assertTrue(sidecar.requests.get(0).head().contains("Authorization: Bearer first\n"));
    }
  }

  @Test
  void optionsThatCannotBeAreRefused() {
    Duration negative = Duration.ofMillis(-1);
    assertThrows(IllegalArgumentException.class, () -> LeadOptions.DEFAULT.withMargin(negative));
    assertThrows(IllegalArgumentException.class, () -> LockOptions.DEFAULT.withMaxWait(negative));
    for (String url : new String[] {"127.0.0.1:4040", "ftp://host", "http://", "http://h?q"}) {
      assertThrows(
          IllegalArgumentException.class, () -> Baton.builder().url(URI.create(url)).build(), url);
    }
  }
}
