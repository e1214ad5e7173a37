package com.example.baton;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.IOException;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The examples do what they say, as they stand. */
@Timeout(120)
class ExamplesTest {
  private static final Path FOLDER = Path.of("../examples");

  @ParameterizedTest
  @ValueSource(strings = {"Leader.java", "Locker.java", "Jobs.java"})
  void theyAreInTheReadme(String example) throws IOException {
    String readme = Files.readString(Path.of("../README.md"));
    String program = Files.readString(FOLDER.resolve(example));
    assertTrue(readme.contains("```java\n" + program + "```\n"));
  }

  @ParameterizedTest
  @ValueSource(strings = {"Leader", "Locker"})
  void theyWorkWithTheirToken(String example) throws Exception {
    try (Replicas replicas = Replicas.start(1)) {
      Process process = start(example, replicas.urlOf(0).toString());
      try (BufferedReader output = process.inputReader()) {
        String line = output.readLine();
        assertTrue(line != null && line.matches("(acting|working .*) with token \\d+"), line);
      } finally {
        Replicas.end(process);
      }
    }
  }

  @Test
  void jobsAreDone() throws Exception {
    int port = Replicas.freePorts(1);
    Process process = start("Jobs", "http://127.0.0.1:4040", "-Dport=" + port);
    HttpRequest request =
        HttpRequest.newBuilder(Replicas.url(port).resolve("/jobs/nightly"))
            .header("Baton-Run-Id", "nightly-1763690400")
            .header("Baton-Scheduled-Time", "2025-11-21T02:00:00Z")
            .header("Baton-Attempt", "1")
            .header("Baton-Fencing-Token", "41")
            .build();
    HttpClient http = HttpClient.newBuilder().proxy(HttpClient.Builder.NO_PROXY).build();
    try {
      Eventually.until(
          "it answers",
          () -> {
            try {
              String note = http.send(request, BodyHandlers.ofString()).body();
              return note.equals("the report of 2025-11-21T02:00:00Z, token 41");
            } catch (IOException notYet) {
              return false;
            }
          });
    } finally {
      Replicas.end(process);
    }
  }

  private static Process start(String example, String url, String... options) throws IOException {
    String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
    String file = FOLDER.resolve(example + ".java").toString();
    List<String> command = new ArrayList<>(List.of(java, "-cp", "target/classes:target/lib/*"));
    command.addAll(List.of(options));
    command.add(file);
    ProcessBuilder builder =
        new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT);
    builder.environment().put("BATON_URL", url);
    return builder.start();
  }
}
