package com.example.baton.integration;

import com.example.baton.Baton;
import com.example.baton.BatonException;
import com.example.baton.Lead;
import com.example.baton.LeadOptions;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import org.apache.commons.logging.Log;
import org.apache.commons.logging.LogFactory;

/** What leads a role again and again, from a start to its stop. */
final class Campaign {
  private static final Log LOG = LogFactory.getLog(Campaign.class);

  /** How long to wait after a refusal, which somebody has to mend. */
  private static final long REFUSAL_PAUSE_SECONDS = 10;

  private final Baton baton;
  private final String role;
  private final LeadOptions options;
  private final Function<Lead, LeadContext> contexts;
  private final CompletableFuture<Void> ended = new CompletableFuture<>();
  private final Thread thread;
  private volatile boolean stopping;

  Campaign(Baton baton, String role, LeadOptions options, Function<Lead, LeadContext> contexts) {
    this.baton = baton;
    this.role = role;
    this.options = options;
    this.contexts = contexts;
    this.thread = new Thread(this::run, "baton leading " + role);
    // An app without a server lives as long as its context, also while it does not lead.
    this.thread.setDaemon(false);
  }

  void start() {
    thread.start();
  }

  /** Done when the sidecar has been told. */
  CompletableFuture<Void> stop() {
    stopping = true;
    thread.interrupt();
    return ended;
  }

  private void run() {
    try {
      while (!stopping) {
        leadOnce();
      }
    } finally {
      ended.complete(null);
    }
  }

  private void leadOnce() {
    try {
      try (Lead lead = baton.leading(role, options)) {
        contexts.apply(lead).serve();
      } catch (BatonException refused) {
        LOG.error("the sidecar does not let this app lead the role " + role, refused);
        TimeUnit.SECONDS.sleep(REFUSAL_PAUSE_SECONDS);
      }
    } catch (InterruptedException interrupted) {
      // It is stopping: nobody else interrupts what waits here.
    }
  }
}
