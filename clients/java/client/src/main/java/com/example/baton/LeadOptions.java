package com.example.baton;

import java.time.Duration;
import java.util.Objects;

/**
 * How to lead.
 *
 * @param scope who acts upon the lead
 * @param margin how long before the end of what the sidecar promised the lead is over: the longest
 *     that a step of the work takes to stop. Null for a tenth of what is promised at once, and 20
 *     ms at the least
 */
public record LeadOptions(Scope scope, Duration margin) {
  /** Scope {@link Scope#POD}, and the usual margin. */
  public static final LeadOptions DEFAULT = new LeadOptions(Scope.POD, null);

  /**
   * The options that are given.
   *
   * @param scope as of the record
   * @param margin as of the record
   * @throws IllegalArgumentException if the margin is negative
   */
  public LeadOptions {
    Objects.requireNonNull(scope, "scope");
    Claim.requireMargin(margin);
  }

  /**
   * These options with another scope.
   *
   * @param scope who acts upon the lead
   * @return new options
   */
  public LeadOptions withScope(Scope scope) {
    return new LeadOptions(scope, margin);
  }

  /**
   * These options with another margin.
   *
   * @param margin how long before the end of what was promised the lead is over
   * @return new options
   * @throws IllegalArgumentException if it is negative
   */
  public LeadOptions withMargin(Duration margin) {
    return new LeadOptions(scope, margin);
  }
}
