package com.example.baton.shedlock;

import static org.junit.jupiter.api.Assertions.assertTrue;

import com.example.baton.Replicas;
import java.io.BufferedReader;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The example does what it says, as it stands. */
@Timeout(120)
class ExampleTest {
  private static final Path EXAMPLE = Path.of("examples/Nightly.java");

  @Test
  void itIsInTheReadme() throws IOException {
    String readme = Files.readString(Path.of("README.md"));
    assertTrue(readme.contains("```java\n" + Files.readString(EXAMPLE) + "```\n"));
  }

  @Test
  void itActsWithItsToken() throws Exception {
    String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
    String classes = System.getProperty("java.class.path");
    try (Replicas replicas = Replicas.start(1)) {
      ProcessBuilder builder =
          new ProcessBuilder(java, "-cp", classes, EXAMPLE.toString())
              .redirectError(ProcessBuilder.Redirect.DISCARD);
      builder.environment().put("BATON_URL", replicas.urlOf(0).toString());
      Process process = builder.start();
      try (BufferedReader output = process.inputReader()) {
        String line = output.readLine();
        assertTrue(line != null && line.matches("acting with token \\d+"), line);
      } finally {
        process.destroyForcibly().onExit().join();
      }
    }
  }
}
