package com.example.baton;

import java.io.IOException;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodySubscribers;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** Requests to the sidecar. */
final class Sidecar {
  private static final Duration CONNECT_TIMEOUT = Duration.ofSeconds(2);

  /** What the sidecar may add to a wait. */
  private static final long SLACK_NANOS = TimeUnit.SECONDS.toNanos(5);

  /** How long the word that the work has stopped may take. */
  private static final long LEAVE_SECONDS = 1;

  private final HttpClient http =
      HttpClient.newBuilder()
          .version(HttpClient.Version.HTTP_1_1)
          .proxy(HttpClient.Builder.NO_PROXY)
          .followRedirects(HttpClient.Redirect.NEVER)
          .connectTimeout(CONNECT_TIMEOUT)
          .build();

  private final String url;
  private final Path tokenFile;

  /** The token file may be null. */
  Sidecar(URI url, Path tokenFile) {
    boolean isHttp = "http".equals(url.getScheme()) || "https".equals(url.getScheme());
    if (!isHttp || url.getHost() == null || url.getQuery() != null || url.getFragment() != null) {
      throw new IllegalArgumentException(
          "not a sidecar's address, such as http://127.0.0.1:4040: " + url);
    }
    this.url = url.toString().replaceFirst("/+$", "");
    this.tokenFile = tokenFile;
  }

  /** Text as a segment of a path, or as a value of a query. */
  static String encode(String text) {
    return URLEncoder.encode(text, StandardCharsets.UTF_8).replace("+", "%20");
  }

  HttpRequest request(String method, String path) {
    HttpRequest.Builder request =
        HttpRequest.newBuilder(URI.create(url + path)).method(method, BodyPublishers.noBody());
    if (tokenFile != null) {
      request.header("Authorization", "Bearer " + token());
    }
    return request.build();
  }

  private String token() {
    try {
      return Files.readString(tokenFile).strip();
    } catch (IOException error) {
      throw new BatonException(
          "the file with the sidecar's token cannot be read: " + tokenFile, error);
    }
  }

  /** One request, over a connection of its own. */
  HttpResponse<String> send(HttpRequest request, long timeoutNanos) throws InterruptedException {
    CompletableFuture<HttpResponse<String>> response = http.sendAsync(request, WholeAnswer::new);
    try {
      return get(response, request, timeoutNanos);
    } finally {
      response.cancel(true);
    }
  }

  /**
   * One request whose answer changes nothing. It is waited for, also by an interrupted thread; that
   * it cannot be sent changes nothing either.
   */
  void tell(String method, String path) {
    HttpRequest request;
    try {
      request = request(method, path);
    } catch (BatonException noToken) {
      return;
    }
    CompletableFuture<HttpResponse<String>> response = http.sendAsync(request, WholeAnswer::new);
    response.copy().orTimeout(LEAVE_SECONDS, TimeUnit.SECONDS).exceptionally(error -> null).join();
    response.cancel(true);
  }

  /**
   * A connection that lasts, once its first line has come.
   *
   * @throws RefusedException if the sidecar answers with another status than 200
   */
  Hold hold(String path, long waitNanos) throws InterruptedException {
    Hold hold = new Hold();
    HttpRequest request = request("GET", path);
    CompletableFuture<HttpResponse<String>> response =
        http.sendAsync(
            request,
            head ->
                head.statusCode() == 200
                    ? BodySubscribers.fromLineSubscriber(
                        hold, end -> "", StandardCharsets.UTF_8, null)
                    : new WholeAnswer(head));
    boolean begun = false;
    try {
      get(CompletableFuture.anyOf(hold.firstLine, response), request, waitNanos + SLACK_NANOS);
      begun = hold.firstLine.isDone() && !hold.firstLine.isCompletedExceptionally();
      if (!begun) {
        throw refusal(response.join());
      }
      return hold;
    } finally {
      if (!begun) {
        response.cancel(true);
      }
    }
  }

  private static <T> T get(CompletableFuture<T> response, HttpRequest request, long timeoutNanos)
      throws InterruptedException {
    String what = "no answer to " + request.method() + " " + request.uri();
    try {
      return response.get(timeoutNanos, TimeUnit.NANOSECONDS);
    } catch (ExecutionException error) {
      throw new UnreachableException(what + ": " + error.getCause(), error.getCause());
    } catch (TimeoutException error) {
      throw new UnreachableException(what + " in time", error);
    }
  }

  private static RefusedException refusal(HttpResponse<String> response) {
    Map<String, Object> problem = Json.object(response.body());
    return "urn:baton:problem:lock-held".equals(problem.get("type"))
        ? new LockHeldException(response.statusCode(), problem)
        : new RefusedException(response.statusCode(), problem);
  }
}
