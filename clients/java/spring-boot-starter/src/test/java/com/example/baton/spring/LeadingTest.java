package com.example.baton.spring;

import static org.assertj.core.api.Assertions.assertThat;

import com.example.baton.Baton;
import com.example.baton.Eventually;
import com.example.baton.Lead;
import com.example.baton.LeadLostException;
import com.example.baton.Replicas;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.springframework.boot.actuate.health.Health;
import org.springframework.boot.actuate.health.HealthIndicator;
import org.springframework.boot.actuate.health.Status;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.test.context.FilteredClassLoader;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.context.event.EventListener;

/** Beans beside real sidecars. */
@Timeout(120)
class LeadingTest {
  private Replicas replicas;
  private int leader;
  private ApplicationContextRunner runner;

  @BeforeEach
  void start() throws Exception {
    replicas = Replicas.start(2);
    leader = replicas.leader();
    runner =
        new ApplicationContextRunner()
            .withConfiguration(
                AutoConfigurations.of(
                    BatonAutoConfiguration.class, BatonHealthAutoConfiguration.class))
            .withPropertyValues("baton.url=" + replicas.urlOf(leader), "the.role=scheduler");
  }

  @AfterEach
  void end() {
    replicas.close();
  }

  /** Steps that are called again and again. */
  static class Steps {
    final List<String> heard = new CopyOnWriteArrayList<>();
    volatile boolean isDaemon = true;

    @Leading(value = "${the.role}", fixedDelay = "10ms")
    void step(Lead lead) {
      isDaemon = Thread.currentThread().isDaemon();
      heard.add("works " + (lead.token() > 0));
      throw new IllegalStateException("it is called again all the same");
    }

    @EventListener
    void began(LeadBeganEvent event) {
      heard.add("began " + event.lead().isValid());
    }

    @EventListener
    void ended(LeadEndedEvent event) {
      heard.add("ended " + Thread.currentThread().isInterrupted());
    }
  }

  @Test
  void aMethodIsCalledAgainAndAgainUntilTheContextEnds() throws Exception {
    long[] closedAt = new long[1];
    Duration[] promised = new Duration[1];
    List<String> heard = new CopyOnWriteArrayList<>();
    runner
        .withBean(Steps.class)
        .run(
            context -> {
              List<String> now = context.getBean(Steps.class).heard;
              Eventually.until("it works", () -> now.size() > 3);
              assertThat(context.getBean(Steps.class).isDaemon)
                  .as("whether an app without a server would end")
                  .isFalse();
              HealthIndicator health = context.getBean(HealthIndicator.class);
              assertThat(health.health())
                  .isEqualTo(Health.up().withDetail("scheduler", "leads").build());
              closedAt[0] = System.nanoTime();
              try (Lead probe = context.getBean(Baton.class).leading("scheduler")) {
                promised[0] = probe.remaining();
              }
              context.close();
              heard.addAll(now);
            });
    assertThat(heard).startsWith("began true", "works true", "works true").endsWith("ended false");
    Eventually.within(
        promised[0].minusNanos(System.nanoTime() - closedAt[0]),
        "the other replica leads at once",
        () -> replicas.leads(1 - leader));
  }

  /** One long step. */
  static class Waits {
    final List<String> heard = new CopyOnWriteArrayList<>();

    @Leading("scheduler")
    void wait(Lead lead) throws InterruptedException {
      heard.add("works");
      try {
        Eventually.workUntilInterrupted();
      } catch (InterruptedException over) {
        try {
          lead.token();
        } catch (LeadLostException lost) {
          heard.add("lost");
        }
        throw over;
      }
    }
  }

  @Test
  void aMethodIsInterruptedWhenTheLeadIsOver() {
    runner
        .withBean(Waits.class)
        .run(
            context -> {
              List<String> heard = context.getBean(Waits.class).heard;
              Eventually.until("it works", () -> heard.equals(List.of("works")));
              replicas.request(leader, "POST", "/leader/scheduler/resign", "{}");
              Eventually.until("it is interrupted", () -> heard.equals(List.of("works", "lost")));
              Eventually.until("the other leads", () -> replicas.leads(1 - leader));
              HealthIndicator health = context.getBean(HealthIndicator.class);
              assertThat(health.health())
                  .isEqualTo(Health.up().withDetail("scheduler", "does not lead").build());
            });
  }

  @Test
  void whoMayNotLeadIsUnhealthy() {
    runner
        .withBean(Steps.class)
        .withPropertyValues("the.role=nobody")
        .run(
            context -> {
              HealthIndicator health = context.getBean(HealthIndicator.class);
              Eventually.until(
                  "it is refused", () -> health.health().getStatus().equals(Status.DOWN));
              assertThat(health.health().getDetails().get("nobody").toString())
                  .contains("unknown-role");
            });
  }

  @Test
  void aRoleHasOneMethod() {
    runner
        .withBean(Steps.class)
        .withBean(Waits.class)
        .run(context -> assertThat(context).getFailure().hasMessageContaining("second method"));
  }

  /** Its method takes what nobody gives. */
  static class Strange {
    @Leading("scheduler")
    void work(String text) {
      throw new AssertionError(text);
    }
  }

  @Test
  void aMethodTakesTheLeadOrNothing() {
    runner
        .withBean(Strange.class)
        .run(context -> assertThat(context).getFailure().hasMessageContaining("takes other than"));
  }

  @Test
  void actuatorIsNotNeeded() {
    runner
        .withClassLoader(new FilteredClassLoader("org.springframework.boot.actuate"))
        .run(
            context ->
                assertThat(context)
                    .hasNotFailed()
                    .hasSingleBean(Baton.class)
                    .doesNotHaveBean("batonHealthIndicator"));
  }
}
