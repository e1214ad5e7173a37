package com.example.baton.spring;

import static org.assertj.core.api.Assertions.assertThat;

import com.example.baton.Eventually;
import com.example.baton.Replicas;
import com.example.reports.ReportsApplication;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.ExtendWith;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.boot.test.system.CapturedOutput;
import org.springframework.boot.test.system.OutputCaptureExtension;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.core.io.ClassPathResource;

/** The example does what it says, as it stands. */
@Timeout(120)
@ExtendWith(OutputCaptureExtension.class)
class ReportsApplicationTest {
  private static final HttpClient HTTP =
      HttpClient.newBuilder().proxy(HttpClient.Builder.NO_PROXY).build();

  @Test
  void reportsAreWrittenAndJobsAreDone(CapturedOutput output) throws Exception {
    try (Replicas replicas = Replicas.start(1)) {
      try (ConfigurableApplicationContext context =
          new SpringApplicationBuilder(ReportsApplication.class)
              .run("--baton.url=" + replicas.urlOf(0), "--server.port=0")) {
        Eventually.until("it works", () -> output.getOut().contains("a report, written with"));
        String port = context.getEnvironment().getProperty("local.server.port");
        URI job = URI.create("http://127.0.0.1:" + port + "/jobs/nightly");
        HttpResponse<String> done = send(job, "7");
        assertThat(done.statusCode()).isEqualTo(200);
        assertThat(done.body()).isEqualTo("done with token 7");
        assertThat(send(job, "6").statusCode()).isEqualTo(409);
        assertThat(send(job, "x").statusCode()).isEqualTo(400);
      }
    }
    assertThat(output.getOut())
        .containsSubsequence(
            "this replica leads scheduler",
            "a report, written with token ",
            "this replica leads no longer scheduler");
  }

  private static HttpResponse<String> send(URI job, String token)
      throws IOException, InterruptedException {
    HttpRequest request =
        HttpRequest.newBuilder(job)
            .header("Baton-Run-Id", "nightly-1763690400")
            .header("Baton-Scheduled-Time", "2025-11-21T02:00:00Z")
            .header("Baton-Attempt", "1")
            .header("Baton-Fencing-Token", token)
            .POST(BodyPublishers.ofString("{}"))
            .build();
    return HTTP.send(request, BodyHandlers.ofString());
  }

  @Test
  void itIsInTheReadme() throws IOException {
    String program =
        Files.readString(Path.of("examples/com/example/reports/ReportsApplication.java"));
    assertThat(Files.readString(Path.of("README.md"))).contains("```java\n" + program + "```\n");
  }

  @Test
  void editorsKnowTheProperties() throws IOException {
    String metadata =
        new ClassPathResource("META-INF/spring-configuration-metadata.json")
            .getContentAsString(StandardCharsets.UTF_8);
    assertThat(metadata).contains("\"baton.url\"", "\"baton.token-file\"", "The sidecar's address");
  }
}
