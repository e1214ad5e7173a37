package com.example.reports;

import com.example.baton.Lead;
import com.example.baton.spring.JobRoutes;
import com.example.baton.spring.LeadBeganEvent;
import com.example.baton.spring.LeadEndedEvent;
import com.example.baton.spring.Leading;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.context.annotation.Bean;
import org.springframework.context.event.EventListener;
import org.springframework.stereotype.Component;
import org.springframework.web.servlet.function.RouterFunction;
import org.springframework.web.servlet.function.ServerResponse;

/** Writes reports where this replica leads. */
@SpringBootApplication
public class ReportsApplication {
  public static void main(String[] arguments) {
    SpringApplication.run(ReportsApplication.class, arguments);
  }

  @Component
  static class Reports {
    @Leading("scheduler")
    void write(Lead lead) {
      System.out.println("a report, written with token " + lead.token());
    }

    @EventListener
    void began(LeadBeganEvent event) {
      System.out.println("this replica leads " + event.lead().name());
    }

    @EventListener
    void ended(LeadEndedEvent event) {
      System.out.println("this replica leads no longer " + event.lead().name());
    }
  }

  @Bean
  RouterFunction<ServerResponse> nightly() {
    return JobRoutes.job("/jobs/nightly", run -> "done with token " + run.token());
  }
}
