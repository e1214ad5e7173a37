package com.example.baton.integration;

import com.example.baton.Lead;
import com.example.baton.LeadLostException;
import org.apache.commons.logging.Log;
import org.apache.commons.logging.LogFactory;
import org.springframework.integration.leader.Candidate;
import org.springframework.integration.leader.Context;
import org.springframework.integration.leader.event.LeaderEventPublisher;

/**
 * One lead of a candidate. It is what the candidate and the listeners are given, and has the
 * fencing token, too.
 */
public final class LeadContext implements Context {
  private static final Log LOG = LogFactory.getLog(LeadContext.class);

  private final Lead lead;
  private final Candidate candidate;
  private final Object source;
  private final LeaderEventPublisher events;
  private final Thread thread;

  /** Whether the candidate is to stop. */
  private boolean ending;

  /** Whether the thread is to be interrupted then. */
  private boolean granting;

  LeadContext(Lead lead, Candidate candidate, Object source, LeaderEventPublisher events) {
    this.lead = lead;
    this.candidate = candidate;
    this.source = source;
    this.events = events;
    this.thread = new Thread(this::run, "baton candidate of " + lead.name());
    this.thread.setDaemon(true);
  }

  /**
   * Whether the candidate leads.
   *
   * @return false once the lead is over, or to be ended, and ever after
   */
  @Override
  public boolean isLeader() {
    return !isEnding() && lead.isValid();
  }

  /**
   * The fencing token, if the lead is not over. Reading it is the check: read it each time that
   * something is written with it, and hand it on to what is written to.
   *
   * @return the token, greater than all before
   * @throws LeadLostException if the lead is over
   */
  public long token() {
    return lead.token();
  }

  /** Ends the lead: the candidate is told first, then the sidecar, and then another one leads. */
  @Override
  public synchronized void yield() {
    ending = true;
    notifyAll();
    if (granting && Thread.currentThread() != thread) {
      thread.interrupt();
    }
  }

  @Override
  public String getRole() {
    return lead.name();
  }

  @Override
  public String toString() {
    return "LeadContext{role=" + getRole() + ", isLeader=" + isLeader() + "}";
  }

  /** Returns when the candidate and the listeners have been told of the end. */
  void serve() {
    thread.start();
    while (thread.isAlive()) {
      try {
        thread.join();
      } catch (InterruptedException over) {
        this.yield();
      }
    }
  }

  private void run() {
    if (!beginsGranting()) {
      return;
    }
    try {
      candidate.onGranted(this);
      if (isLeader()) {
        publish(() -> events.publishOnGranted(source, this, getRole()));
      }
      awaitEnding();
    } catch (InterruptedException over) {
      // The candidate has stopped, or is to be told.
    } catch (RuntimeException error) {
      LOG.error("the candidate for the role " + getRole() + " has failed: the lead ends", error);
    } finally {
      revoke();
    }
  }

  /** False if it is to end before it has begun: then nobody is told of it. */
  private synchronized boolean beginsGranting() {
    granting = !ending;
    return granting;
  }

  private synchronized boolean isEnding() {
    return ending;
  }

  private synchronized void awaitEnding() throws InterruptedException {
    while (!ending) {
      wait();
    }
  }

  /** What stops the work is not interrupted: it may have to wait for that. */
  private void revoke() {
    synchronized (this) {
      ending = true;
      granting = false;
      Thread.interrupted();
    }
    try {
      candidate.onRevoked(this);
    } catch (RuntimeException error) {
      LOG.error("the candidate for the role " + getRole() + " has failed to stop", error);
    }
    publish(() -> events.publishOnRevoked(source, this, getRole()));
  }

  /** A listener that fails ends no lead, and keeps none. */
  private void publish(Runnable event) {
    try {
      event.run();
    } catch (RuntimeException error) {
      LOG.error("a listener has failed when the lead of " + getRole() + " changed", error);
    }
  }
}
