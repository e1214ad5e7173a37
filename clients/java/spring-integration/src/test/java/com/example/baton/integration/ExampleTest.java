package com.example.baton.integration;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.example.baton.Eventually;
import com.example.baton.Replicas;
import java.io.BufferedReader;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The examples do what they say, as they stand. */
@Timeout(120)
class ExampleTest {
  private static final Path FOLDER = Path.of("examples");

  private Replicas replicas;
  private Process process;

  @BeforeEach
  void start() throws Exception {
    replicas = Replicas.start(2);
  }

  @AfterEach
  void end() {
    if (process != null) {
      process.destroyForcibly().onExit().join();
    }
    replicas.close();
  }

  private BufferedReader run(String example) throws Exception {
    String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
    String classes = System.getProperty("java.class.path");
    String file = FOLDER.resolve(example + ".java").toString();
    ProcessBuilder builder =
        new ProcessBuilder(java, "-cp", classes, file)
            .redirectError(ProcessBuilder.Redirect.DISCARD);
    builder.environment().put("BATON_URL", replicas.urlOf(replicas.leader()).toString());
    process = builder.start();
    return process.inputReader();
  }

  @ParameterizedTest
  @ValueSource(strings = {"Reports", "Orders"})
  void theyAreInTheReadme(String example) throws IOException {
    String readme = Files.readString(Path.of("README.md"));
    String code = Files.readString(FOLDER.resolve(example + ".java"));
    assertTrue(readme.contains("```java\n" + code + "```\n"));
  }

  @Test
  void aFlowRunsWhereThisReplicaLeadsAndNotAfterThat() throws Exception {
    BufferedReader output = run("Reports");
    for (int times = 0; times < 2; times++) {
      String line = output.readLine();
      assertTrue(line != null && line.matches("acting with token \\d+"), line);
    }
    int leader = replicas.leader();
    replicas.request(leader, "POST", "/leader/scheduler/resign", "{}");
    Eventually.until("the other leads", () -> replicas.leads(1 - leader));
    // Half a second is the flow's pause.
    while (output.ready()) {
      output.readLine();
    }
    long began = System.nanoTime();
    Eventually.until("three pauses have passed", () -> System.nanoTime() - began > 1_500_000_000L);
    assertTrue(process.isAlive() && !output.ready(), "it does nothing where it does not lead");
  }

  @Test
  void anOrderIsWorkedOn() throws Exception {
    String line = run("Orders").readLine();
    assertTrue(line != null && line.matches("working on order 42 with token \\d+"), line);
    assertEquals(0, process.waitFor());
  }
}
