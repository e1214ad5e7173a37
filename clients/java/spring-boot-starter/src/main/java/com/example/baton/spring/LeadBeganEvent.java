package com.example.baton.spring;

import com.example.baton.Lead;
import org.springframework.context.ApplicationEvent;

/**
 * This replica leads. It is published before the work begins, by the thread that will do it: a
 * listener can raise a fence with the lead's token.
 */
public final class LeadBeganEvent extends ApplicationEvent {
  private static final long serialVersionUID = 1L;

  LeadBeganEvent(Lead lead) {
    super(lead);
  }

  /**
   * The lead that has begun.
   *
   * @return the lead
   */
  public Lead lead() {
    return (Lead) getSource();
  }
}
