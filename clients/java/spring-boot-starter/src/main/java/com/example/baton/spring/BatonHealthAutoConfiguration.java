package com.example.baton.spring;

import org.springframework.boot.actuate.autoconfigure.health.ConditionalOnEnabledHealthIndicator;
import org.springframework.boot.actuate.health.AbstractHealthIndicator;
import org.springframework.boot.actuate.health.Health;
import org.springframework.boot.actuate.health.HealthIndicator;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.context.annotation.Bean;

/** Tells which roles this replica leads, where Actuator is there. */
@AutoConfiguration(after = BatonAutoConfiguration.class)
@ConditionalOnClass({HealthIndicator.class, ConditionalOnEnabledHealthIndicator.class})
public class BatonHealthAutoConfiguration {
  /** Made by Spring. */
  BatonHealthAutoConfiguration() {}

  @Bean
  @ConditionalOnEnabledHealthIndicator("baton")
  @ConditionalOnMissingBean(name = "batonHealthIndicator")
  HealthIndicator batonHealthIndicator(LeadingMethods methods) {
    return new Indicator(methods);
  }

  /** Not to lead is healthy. Not to be let lead is not. */
  private static final class Indicator extends AbstractHealthIndicator {
    private final LeadingMethods methods;

    private Indicator(LeadingMethods methods) {
      this.methods = methods;
    }

    @Override
    protected void doHealthCheck(Health.Builder builder) {
      builder.up();
      for (LeadingMethod method : methods.all()) {
        if (method.refusal() == null) {
          builder.withDetail(method.role(), method.leads() ? "leads" : "does not lead");
        } else {
          builder.down().withDetail(method.role(), method.refusal().getMessage());
        }
      }
    }
  }
}
