package com.example.baton;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ThreadLocalRandom;

/** Real sidecars: {@code baton dev}. */
public final class Replicas implements AutoCloseable {
  private static final HttpClient HTTP =
      HttpClient.newBuilder().proxy(HttpClient.Builder.NO_PROXY).build();

  private final Process process;
  private final int port;
  private final int count;

  private Replicas(Process process, int port, int count) {
    this.process = process;
    this.port = port;
    this.count = count;
  }

  /** With a lease of 15 s they promise 5 s at once. */
  public static Replicas start(int count) throws Exception {
    return start(count, freePorts(count));
  }

  public static Replicas start(int count, int port) throws Exception {
    Process process = run("dev", "--replicas", "" + count, "--lease", "15s", "--port", "" + port);
    Replicas replicas = new Replicas(process, port, count);
    Eventually.until("a replica leads", () -> replicas.leader() >= 0);
    return replicas;
  }

  /** The program under the name that the tests are given. */
  static Process run(String... arguments) throws IOException {
    String program = System.getenv("BATON_BIN");
    if (program == null) {
      throw new AssertionError("BATON_BIN is to name the program baton, which these tests run");
    }
    List<String> command = new ArrayList<>(List.of(program));
    command.addAll(List.of(arguments));
    return new ProcessBuilder(command)
        .redirectErrorStream(true)
        .redirectOutput(ProcessBuilder.Redirect.DISCARD)
        .start();
  }

  /** As many ports in a row that are free, and those for telemetry, 100 above. */
  public static int freePorts(int count) {
    while (true) {
      int port = ThreadLocalRandom.current().nextInt(20_000, 32_000);
      if (areFree(port, count) && areFree(port + 100, count)) {
        return port;
      }
    }
  }

  private static boolean areFree(int port, int count) {
    for (int offset = 0; offset < count; offset++) {
      try (ServerSocket socket =
          new ServerSocket(port + offset, 1, InetAddress.getLoopbackAddress())) {
        assert socket.isBound();
      } catch (IOException taken) {
        return false;
      }
    }
    return true;
  }

  public static URI url(int port) {
    return URI.create("http://127.0.0.1:" + port);
  }

  public URI urlOf(int replica) {
    return url(port + replica);
  }

  Baton baton(int replica) {
    return Baton.builder().url(urlOf(replica)).build();
  }

  /** The number of the one that leads, or -1. */
  public int leader() throws InterruptedException {
    for (int replica = 0; replica < count; replica++) {
      if (leads(replica)) {
        return replica;
      }
    }
    return -1;
  }

  /** Promises nothing, so that nothing waits for it. */
  public boolean leads(int replica) throws InterruptedException {
    try {
      return request(replica, "GET", "/status", "").body().contains("\"leads\":true");
    } catch (IOException notYet) {
      return false;
    }
  }

  public HttpResponse<String> request(int replica, String method, String path, String body)
      throws IOException, InterruptedException {
    HttpRequest request =
        HttpRequest.newBuilder(URI.create(urlOf(replica) + path))
            .header("Content-Type", "application/json")
            .method(method, BodyPublishers.ofString(body))
            .build();
    return HTTP.send(request, BodyHandlers.ofString());
  }

  /** What ends a scope of this thread, whose interrupt is not to end the request. */
  CompletableFuture<Integer> statusElsewhere(int replica, String method, String path, String body) {
    return CompletableFuture.supplyAsync(
        () -> {
          try {
            return request(replica, method, path, body).statusCode();
          } catch (IOException | InterruptedException error) {
            throw new CompletionException(error);
          }
        });
  }

  /** As kill -9 would. Another takes its place after 3 s. */
  public void kill(int replica) {
    try {
      int status = run("dev", "kill", "--port", "" + port, "" + replica).waitFor();
      if (status != 0) {
        throw new AssertionError("baton dev kill ended with " + status);
      }
    } catch (IOException | InterruptedException error) {
      throw new CompletionException(error);
    }
  }

  @Override
  public void close() {
    end(process);
  }

  static void end(Process process) {
    process.destroyForcibly().onExit().join();
  }
}
