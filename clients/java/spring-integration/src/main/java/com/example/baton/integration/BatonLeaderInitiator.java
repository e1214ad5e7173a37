package com.example.baton.integration;

import com.example.baton.Baton;
import com.example.baton.Lead;
import com.example.baton.LeadLostException;
import com.example.baton.LeadOptions;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import org.springframework.context.ApplicationEventPublisher;
import org.springframework.context.ApplicationEventPublisherAware;
import org.springframework.context.SmartLifecycle;
import org.springframework.integration.leader.Candidate;
import org.springframework.integration.leader.Context;
import org.springframework.integration.leader.event.DefaultLeaderEventPublisher;
import org.springframework.integration.leader.event.LeaderEventPublisher;

/**
 * Has a candidate lead its role, from the context's start to its end. It is to be a bean.
 *
 * <p>When the lead begins, {@link Candidate#onGranted} is called, by a thread of the lead's own,
 * and then {@code OnGrantedEvent} is published. When it is over, or yielded, or the context ends,
 * that thread is interrupted while it works for the candidate, {@link Candidate#onRevoked} is
 * called, and {@code OnRevokedEvent} is published; the sidecar is told that the work has stopped
 * when that has returned, and not before. They are given a {@link LeadContext}.
 *
 * <p>A sidecar that is not there is waited for. One that refuses is asked again after 10 s.
 */
public final class BatonLeaderInitiator implements SmartLifecycle, ApplicationEventPublisherAware {
  /** That of Spring Integration's own: after what the candidate uses, and to be ended before. */
  private static final int PHASE = Integer.MAX_VALUE - 1000;

  private final Baton baton;
  private final Candidate candidate;
  private final LeadOptions options;
  private LeaderEventPublisher events = new DefaultLeaderEventPublisher();

  /** Null while it does not run. */
  private Campaign campaign;

  /** Of the campaign before: a candidate does not lead twice at once. */
  private CompletableFuture<Void> ended = CompletableFuture.completedFuture(null);

  /** Null before the first. */
  private volatile LeadContext last;

  /**
   * Has the candidate lead for others in the pod, too, and with the usual margin.
   *
   * @param baton the sidecar
   * @param candidate what leads its role, which is one of the sidecar's configuration
   */
  public BatonLeaderInitiator(Baton baton, Candidate candidate) {
    this(baton, candidate, LeadOptions.DEFAULT);
  }

  /**
   * Has the candidate lead.
   *
   * @param baton the sidecar
   * @param candidate what leads its role, which is one of the sidecar's configuration
   * @param options how to lead
   */
  public BatonLeaderInitiator(Baton baton, Candidate candidate, LeadOptions options) {
    this.baton = Objects.requireNonNull(baton, "baton");
    this.candidate = Objects.requireNonNull(candidate, "candidate");
    this.options = Objects.requireNonNull(options, "options");
  }

  /** What there is before the first lead. */
  private record NoLead(String role) implements Context {
    @Override
    public boolean isLeader() {
      return false;
    }

    @Override
    public String getRole() {
      return role;
    }
  }

  @Override
  public void setApplicationEventPublisher(ApplicationEventPublisher publisher) {
    events = new DefaultLeaderEventPublisher(publisher);
  }

  /**
   * The last lead.
   *
   * @return a context, of nobody's lead before the first
   */
  public Context getContext() {
    LeadContext last = this.last;
    return last == null ? new NoLead(candidate.getRole()) : last;
  }

  /**
   * The fencing token of the last lead, if that is not over: {@link LeadContext#token}.
   *
   * @return the token, greater than all before
   * @throws LeadLostException if the lead is over
   * @throws IllegalStateException if there has been none
   */
  public long token() {
    LeadContext last = this.last;
    if (last == null) {
      throw new IllegalStateException("this replica has not led " + candidate.getRole() + " yet");
    }
    return last.token();
  }

  @Override
  public synchronized void start() {
    if (campaign == null) {
      campaign = new Campaign(baton, candidate.getRole(), options, this::context);
      ended.thenRun(campaign::start);
    }
  }

  private LeadContext context(Lead lead) {
    last = new LeadContext(lead, candidate, this, events);
    return last;
  }

  /** Ends the lead, and does not wait for that: the candidate or a listener may call this. */
  @Override
  public void stop() {
    stop(() -> {});
  }

  /** The context waits for the candidate to stop, for as long as it waits for its other parts. */
  @Override
  public synchronized void stop(Runnable callback) {
    if (campaign == null) {
      callback.run();
    } else {
      ended = campaign.stop();
      ended.thenRun(callback);
      campaign = null;
    }
  }

  @Override
  public synchronized boolean isRunning() {
    return campaign != null;
  }

  @Override
  public int getPhase() {
    return PHASE;
  }
}
