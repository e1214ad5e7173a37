package com.example.baton.spring;

import com.example.baton.Baton;
import com.example.baton.BatonException;
import com.example.baton.Lead;
import com.example.baton.LeadOptions;
import com.example.baton.Scope;
import java.time.Duration;
import java.util.function.Supplier;
import org.apache.commons.logging.Log;
import org.apache.commons.logging.LogFactory;
import org.springframework.context.ApplicationEventPublisher;

/** What runs while this replica leads a role, and the thread that runs it. */
final class LeadingMethod {
  private static final Log LOG = LogFactory.getLog(LeadingMethod.class);

  /** How long to wait after a refusal, which somebody has to mend. */
  private static final Duration REFUSAL_PAUSE = Duration.ofSeconds(10);

  /** Calls the bean's method. */
  @FunctionalInterface
  interface Work {
    void run(Lead lead) throws Exception;
  }

  private final String role;
  private final Scope scope;
  private final Duration fixedDelay;
  private final Work work;
  private final Supplier<Baton> baton;
  private final ApplicationEventPublisher events;
  private Thread thread;
  private volatile boolean stopping;
  private volatile Lead lead;
  private volatile BatonException refusal;

  LeadingMethod(
      String role,
      Scope scope,
      Duration fixedDelay,
      Work work,
      Supplier<Baton> baton,
      ApplicationEventPublisher events) {
    this.role = role;
    this.scope = scope;
    this.fixedDelay = fixedDelay;
    this.work = work;
    this.baton = baton;
    this.events = events;
  }

  String role() {
    return role;
  }

  boolean leads() {
    Lead current = lead;
    return current != null && current.isValid();
  }

  /** Why the sidecar does not let this app lead, or null. */
  BatonException refusal() {
    return refusal;
  }

  void start(Runnable onEnd) {
    stopping = false;
    thread =
        new Thread(
            () -> {
              try {
                run();
              } finally {
                onEnd.run();
              }
            },
            "baton leading " + role);
    // An app without a server lives as long as its context, also while it does not lead.
    thread.setDaemon(false);
    thread.start();
  }

  void stop() {
    stopping = true;
    thread.interrupt();
  }

  private void run() {
    while (!stopping) {
      try {
        leadOnce();
      } catch (InterruptedException interrupted) {
        // It is stopping: nobody else interrupts what waits for the lead.
      } catch (BatonException refused) {
        refusal = refused;
        LOG.error("the sidecar does not let this app lead the role " + role, refused);
        pause(REFUSAL_PAUSE);
      }
    }
  }

  /** An interrupt ends it: whoever has sent it has left word, too. */
  private static void pause(Duration pause) {
    try {
      Thread.sleep(pause.toMillis());
    } catch (InterruptedException interrupted) {
      // The lead is over, or this is stopping.
    }
  }

  private void leadOnce() throws InterruptedException {
    LeadOptions options = LeadOptions.DEFAULT.withScope(scope);
    try (Lead begun = baton.get().leading(role, options)) {
      refusal = null;
      lead = begun;
      publish(new LeadBeganEvent(begun));
      workWhileLeading(begun);
      lead = null;
      // What has ended the work is not for the listeners.
      Thread.interrupted();
      publish(new LeadEndedEvent(begun));
    }
  }

  private void workWhileLeading(Lead begun) {
    while (!stopping && begun.isValid()) {
      try {
        work.run(begun);
      } catch (Exception error) {
        // When it is over, what was interrupted may fail in any way.
        if (!stopping && begun.isValid()) {
          LOG.error("the work of the role " + role + " has failed", error);
        }
      }
      pause(fixedDelay);
    }
  }

  private void publish(Object event) {
    try {
      events.publishEvent(event);
    } catch (RuntimeException error) {
      LOG.error("a listener has failed when the lead of the role " + role + " changed", error);
    }
  }
}
