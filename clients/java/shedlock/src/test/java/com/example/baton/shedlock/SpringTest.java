package com.example.baton.shedlock;

import com.example.baton.Baton;
import com.example.baton.Eventually;
import com.example.baton.Replicas;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import net.javacrumbs.shedlock.core.LockProvider;
import net.javacrumbs.shedlock.spring.annotation.EnableSchedulerLock;
import net.javacrumbs.shedlock.spring.annotation.SchedulerLock;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.scheduling.annotation.EnableScheduling;
import org.springframework.scheduling.annotation.Scheduled;

/** ShedLock with Spring's scheduler, which goes on whatever the sidecar does. */
@Timeout(120)
class SpringTest {
  private static final int PORT = Replicas.freePorts(1);

  private static final AtomicInteger REFUSALS = new AtomicInteger();
  private static final AtomicLong TOKEN = new AtomicLong();

  @Configuration
  @EnableScheduling
  @EnableSchedulerLock(defaultLockAtMostFor = "PT10M")
  static class App {
    @Bean
    LockProvider lockProvider() {
      BatonLockProvider provider =
          new BatonLockProvider(Baton.builder().url(Replicas.url(PORT)).build());
      return configuration -> {
        try {
          return provider.lock(configuration);
        } catch (RuntimeException error) {
          REFUSALS.incrementAndGet();
          throw error;
        }
      };
    }

    @Scheduled(fixedRate = 50)
    @SchedulerLock(name = "often")
    public void work() {
      TOKEN.set(BatonLockProvider.currentToken());
    }
  }

  @Test
  void aRunWithoutASidecarIsSkippedAndTheNextIsNot() throws Exception {
    try (AnnotationConfigApplicationContext app =
        new AnnotationConfigApplicationContext(App.class)) {
      Eventually.until("runs are skipped", () -> REFUSALS.get() > 1);
      try (Replicas replicas = Replicas.start(1, PORT)) {
        Eventually.until("the task runs", () -> TOKEN.get() > 0);
        long token = TOKEN.get();
        Eventually.until("it runs again", () -> TOKEN.get() > token);
        assert replicas != null && app.isActive();
      }
    }
  }
}
