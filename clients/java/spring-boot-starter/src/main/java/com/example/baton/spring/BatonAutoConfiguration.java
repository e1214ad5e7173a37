package com.example.baton.spring;

import com.example.baton.Baton;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.context.properties.EnableConfigurationProperties;
import org.springframework.context.ApplicationEventPublisher;
import org.springframework.context.annotation.Bean;

/** The sidecar as a bean, and what runs the methods with {@link Leading}. */
@AutoConfiguration
@EnableConfigurationProperties(BatonProperties.class)
public class BatonAutoConfiguration {
  /** Made by Spring. */
  BatonAutoConfiguration() {}

  @Bean
  @ConditionalOnMissingBean
  Baton baton(BatonProperties properties) {
    return Baton.builder().url(properties.url()).tokenFile(properties.tokenFile()).build();
  }

  @Bean
  static LeadingMethods batonLeadingMethods(
      ObjectProvider<Baton> baton, ApplicationEventPublisher events) {
    return new LeadingMethods(baton, events);
  }
}
