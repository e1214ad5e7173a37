package com.example.baton;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalInt;
import java.util.concurrent.CopyOnWriteArrayList;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

@Timeout(60)
class JobHandlerTest {
  private static final byte[] BODY = "the body".getBytes(StandardCharsets.UTF_8);

  private final List<JobRun> runs = new CopyOnWriteArrayList<>();

  private static Map<String, String> headers(long token) {
    Map<String, String> headers = new HashMap<>();
    headers.put("Baton-Run-Id", "nightly-1763690400");
    headers.put("Baton-Scheduled-Time", "2025-11-21T02:00:00Z");
    headers.put("Baton-Attempt", "2");
    headers.put("Baton-Fencing-Token", Long.toString(token));
    return headers;
  }

  private JobHandler handler(JobWork work) {
    return new JobHandler(
        run -> {
          runs.add(run);
          return work.run(run);
        });
  }

  @Test
  void theWorkIsGivenTheRunAndItsNoteIsTheAnswer() {
    JobHandler handler = handler(run -> "41 rows");
    assertEquals(new JobAnswer(200, "41 rows"), handler.handle(headers(7)::get, BODY));
    JobRun run = runs.get(0);
    assertEquals("nightly-1763690400", run.id());
    assertEquals(Instant.parse("2025-11-21T02:00:00Z"), run.scheduledTime());
    assertEquals(2, run.attempt());
    assertEquals(7, run.token());
    assertEquals(OptionalInt.empty(), run.shard());
    assertArrayEquals(BODY, run.body());
    assertEquals(
        new JobAnswer(200, ""), new JobHandler(none -> null).handle(headers(7)::get, BODY));
  }

  @Test
  void whatIsThrownIsTheAnswer() {
    JobHandler fails =
        new JobHandler(
            run -> {
              throw new IOException("the disk is full");
            });
    assertEquals(new JobAnswer(500, "the disk is full"), fails.handle(headers(7)::get, BODY));
    JobHandler errs =
        new JobHandler(
            run -> {
              throw new StackOverflowError();
            });
    assertEquals(
        new JobAnswer(500, "java.lang.StackOverflowError"), errs.handle(headers(7)::get, BODY));
  }

  @Test
  void aSmallerTokenIsRefusedAndAnEqualOneIsNot() {
    JobHandler handler = handler(run -> null);
    assertEquals(200, handler.handle(headers(7)::get, BODY).status());
    assertEquals(409, handler.handle(headers(6)::get, BODY).status());
    assertEquals(200, handler.handle(headers(7)::get, BODY).status());
    assertEquals(2, runs.size(), "the work of the smaller one is not begun");
  }

  @Test
  void shardsHaveTokensOfTheirOwn() {
    JobHandler handler = handler(run -> null);
    for (int shard = 0; shard < 2; shard++) {
      Map<String, String> headers = headers(7 - shard);
      headers.put("Baton-Shard", Integer.toString(shard));
      assertEquals(200, handler.handle(headers::get, BODY).status());
      assertEquals(OptionalInt.of(shard), runs.get(shard).shard());
    }
  }

  @ParameterizedTest
  @CsvSource({
    "Baton-Run-Id,",
    "Baton-Scheduled-Time,",
    "Baton-Scheduled-Time,yesterday",
    "Baton-Attempt,",
    "Baton-Attempt,first",
    "Baton-Fencing-Token,",
    "Baton-Fencing-Token,1.5",
    "Baton-Shard,x"
  })
  void whatNoSidecarSendsIsABadRequest(String header, String value) {
    Map<String, String> headers = headers(7);
    headers.put(header, value);
    JobAnswer answer = handler(run -> null).handle(headers::get, BODY);
    assertEquals(400, answer.status());
    assertTrue(runs.isEmpty());
  }

  @Test
  void aSidecarsJobIsDoneThroughTheServerOfTheJdk() throws Exception {
    HttpServer server =
        HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
    server.createContext(
        "/jobs",
        handler(
            run -> {
              if (run.attempt() == 1) {
                throw new IllegalStateException("not at once: é");
              }
              return "done: é";
            }));
    server.start();
    try (Replicas replicas = Replicas.start(1)) {
      String job =
          "{\"in\":\"10ms\",\"backoffLimit\":3,\"data\":{\"order\":42},\"run\":{\"http\":{\"url\":"
              + "\"http://127.0.0.1:%d/jobs\",\"body\":\"{{data}}\"}}}"
                  .formatted(server.getAddress().getPort());
      assertEquals(201, replicas.request(0, "PUT", "/jobs/it", job).statusCode());
      Eventually.until("two attempts were made", () -> runs.size() == 2);
      assertTrue(runs.get(0).token() < runs.get(1).token(), runs.toString());
      assertEquals("{\"order\":42}", new String(runs.get(1).body(), StandardCharsets.UTF_8));
    } finally {
      server.stop(0);
    }
  }
}
