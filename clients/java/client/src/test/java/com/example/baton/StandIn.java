package com.example.baton;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;

/** A sidecar that leads, and whose answers a test decides. */
final class StandIn implements AutoCloseable {
  static final long TOKEN = 41;
  static final String HOLD = "41-1";

  /** Writes what is answered to the question who leads. */
  @FunctionalInterface
  interface Answer {
    void write(OutputStream out) throws IOException, InterruptedException;
  }

  /** One request: its first line and headers, and the port that it came from. */
  record Request(String head, int port) {
    boolean begins(String line) {
      return head.startsWith(line);
    }
  }

  final List<Request> requests = new CopyOnWriteArrayList<>();
  final CountDownLatch holdIsClosed = new CountDownLatch(1);
  private final ServerSocket server = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
  private volatile Answer answer;
  private volatile Socket hold;

  StandIn(Answer answer) throws IOException {
    this.answer = answer;
    start(this::accept);
  }

  /** It leads for so long at a time. */
  static StandIn leading(long validForMs) throws IOException {
    return new StandIn(says(validForMs));
  }

  static Answer says(long validForMs) {
    return says("200 OK", led(TOKEN, validForMs));
  }

  static Answer says(String status, String body) {
    String head = "HTTP/1.1 " + status + "\r\nContent-Length: " + body.length() + "\r\n\r\n";
    return out -> write(out, head + body);
  }

  static String led(long token, long validForMs) {
    return "{\"leader\":true,\"token\":" + token + ",\"valid_for_ms\":" + validForMs + "}";
  }

  void answer(Answer answer) {
    this.answer = answer;
  }

  URI url() {
    return URI.create("http://127.0.0.1:" + server.getLocalPort());
  }

  List<Request> asked() {
    return requests.stream().filter(request -> request.begins("GET /leader/it?")).toList();
  }

  List<Request> drained() {
    return requests.stream().filter(request -> request.begins("POST /leader/it/drained")).toList();
  }

  /** Another line on the connection that lasts. */
  void line(String line) throws IOException {
    write(
        hold.getOutputStream(), Integer.toHexString(line.length() + 1) + "\r\n" + line + "\n\r\n");
  }

  void endHold() throws IOException {
    write(hold.getOutputStream(), "0\r\n\r\n");
  }

  static void write(OutputStream out, String text) throws IOException {
    out.write(text.getBytes(StandardCharsets.UTF_8));
    out.flush();
  }

  private static void start(Runnable run) {
    Thread thread = new Thread(run, "stand-in");
    thread.setDaemon(true);
    thread.start();
  }

  private void accept() {
    try {
      while (true) {
        Socket socket = server.accept();
        start(() -> serve(socket));
      }
    } catch (IOException closed) {
      // The test is over.
    }
  }

  private void serve(Socket socket) {
    try (socket) {
      BufferedReader in =
          new BufferedReader(
              new InputStreamReader(socket.getInputStream(), StandardCharsets.US_ASCII));
      for (String head = head(in); !head.isEmpty(); head = head(in)) {
        requests.add(new Request(head, socket.getPort()));
        if (head.startsWith("GET /leader/it/hold?")) {
          hold = socket;
          write(socket.getOutputStream(), "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
          // What lines say about time is not to be counted.
          line(led(TOKEN, 60_000).replace("}", ",\"hold\":\"" + HOLD + "\"}"));
        } else if (head.startsWith("POST")) {
          says("202 Accepted", "{}").write(socket.getOutputStream());
        } else {
          answer.write(socket.getOutputStream());
        }
      }
    } catch (IOException left) {
      // The client has gone.
    } catch (InterruptedException neverSent) {
      throw new AssertionError(neverSent);
    } finally {
      if (socket == hold) {
        holdIsClosed.countDown();
      }
    }
  }

  private static String head(BufferedReader in) throws IOException {
    StringBuilder head = new StringBuilder();
    for (String line = in.readLine(); line != null && !line.isEmpty(); line = in.readLine()) {
      head.append(line).append('\n');
    }
    return head.toString();
  }

  @Override
  public void close() {
    try {
      server.close();
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }
}
