package com.example.baton;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpHandler;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.DateTimeException;
import java.time.Instant;
import java.util.HashMap;
import java.util.Map;
import java.util.Objects;
import java.util.OptionalInt;
import java.util.function.UnaryOperator;

/**
 * Does a job's work when the sidecar asks for it: with the HTTP server of the JDK, as its handler,
 * or with any other by {@link #handle(UnaryOperator, byte[])}.
 *
 * <p>The answer is 200 with what the work returns, or 500 with the message of what it throws. A
 * request that no sidecar has sent is answered with 400. One whose token is smaller than one that
 * was seen is answered with 409, without the work: a later leader has sent that. (Tokens of
 * different shards have nothing to do with each other.)
 */
public final class JobHandler implements HttpHandler {
  private final JobWork work;

  /** The greatest token of each shard; of an unsplit role there is one. */
  private final Map<OptionalInt, Long> greatestTokens = new HashMap<>();

  /**
   * A handler for one job.
   *
   * @param work what is called for each attempt, by the thread that handles the request; by several
   *     at once if the job's attempts are
   */
  public JobHandler(JobWork work) {
    this.work = Objects.requireNonNull(work, "work");
  }

  /**
   * Handles a request, whatever server it came to.
   *
   * @param header gives the value of the header that it is given the name of, in whatever case, or
   *     null: {@code request::getHeader} of a servlet, say
   * @param body the request's body
   * @return what is to be answered
   */
  public JobAnswer handle(UnaryOperator<String> header, byte[] body) {
    JobRun run;
    try {
      run = run(header, body);
    } catch (IllegalArgumentException | DateTimeException error) {
      return new JobAnswer(400, "not a request of the sidecar for a job: " + error.getMessage());
    }
    long greatest = raise(run);
    if (run.token() < greatest) {
      return new JobAnswer(409, "token " + run.token() + ": a later leader has sent " + greatest);
    }
    try {
      String note = work.run(run);
      return new JobAnswer(200, note == null ? "" : note);
    } catch (Throwable thrown) {
      // An attempt that ends by an error of any kind has failed, and the sidecar is to know why.
      if (thrown instanceof InterruptedException) {
        Thread.currentThread().interrupt();
      }
      return new JobAnswer(500, Objects.requireNonNullElse(thrown.getMessage(), thrown.toString()));
    }
  }

  /** Handles a request to the HTTP server of the JDK. */
  @Override
  public void handle(HttpExchange exchange) throws IOException {
    try (exchange) {
      byte[] body = exchange.getRequestBody().readAllBytes();
      JobAnswer answer = handle(exchange.getRequestHeaders()::getFirst, body);
      byte[] text = answer.text().getBytes(StandardCharsets.UTF_8);
      exchange.getResponseHeaders().set("Content-Type", "text/plain; charset=utf-8");
      exchange.sendResponseHeaders(answer.status(), text.length == 0 ? -1 : text.length);
      exchange.getResponseBody().write(text);
    }
  }

  private static JobRun run(UnaryOperator<String> header, byte[] body) {
    String shard = header.apply("Baton-Shard");
    return new JobRun(
        required(header, "Baton-Run-Id"),
        Instant.parse(required(header, "Baton-Scheduled-Time")),
        Integer.parseInt(required(header, "Baton-Attempt")),
        Long.parseLong(required(header, "Baton-Fencing-Token")),
        shard == null ? OptionalInt.empty() : OptionalInt.of(Integer.parseInt(shard)),
        body);
  }

  private static String required(UnaryOperator<String> header, String name) {
    String value = header.apply(name);
    if (value == null) {
      throw new IllegalArgumentException("the header " + name + " is missing");
    }
    return value;
  }

  private synchronized long raise(JobRun run) {
    return greatestTokens.merge(run.shard(), run.token(), Math::max);
  }
}
