import com.example.baton.Baton;
import com.example.baton.integration.BatonLeaderInitiator;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.integration.config.EnableIntegration;
import org.springframework.integration.dsl.IntegrationFlow;
import org.springframework.integration.leader.DefaultCandidate;

/** A flow that runs where this replica leads. */
@Configuration
@EnableIntegration
public class Reports {
  @Bean
  BatonLeaderInitiator leaderInitiator() {
    return new BatonLeaderInitiator(Baton.create(), new DefaultCandidate("reports", "scheduler"));
  }

  @Bean
  IntegrationFlow writer(BatonLeaderInitiator initiator) {
    return IntegrationFlow.fromSupplier(
            initiator::token,
            source ->
                source
                    .poller(poller -> poller.fixedDelay(500))
                    .autoStartup(false)
                    .role("scheduler"))
        .handle(report -> System.out.println("acting with token " + report.getPayload()))
        .get();
  }

  public static void main(String[] arguments) {
    new AnnotationConfigApplicationContext(Reports.class).registerShutdownHook();
  }
}
