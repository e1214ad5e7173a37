package com.example.baton.spring;

import com.example.baton.Lead;
import org.springframework.context.ApplicationEvent;

/**
 * This replica leads no longer. It is published when the method has returned, and before the
 * sidecar is told so: what listeners stop has stopped when the next replica leads.
 */
public final class LeadEndedEvent extends ApplicationEvent {
  private static final long serialVersionUID = 1L;

  LeadEndedEvent(Lead lead) {
    super(lead);
  }

  /**
   * The lead that has ended.
   *
   * @return the lead; at the context's shutdown it may be valid until its listeners have returned
   */
  public Lead lead() {
    return (Lead) getSource();
  }
}
