package com.example.baton;

import java.time.Duration;

/** This replica leads a role: {@link Baton#leading(String)}. */
public final class Lead extends Claim {
  Lead(String role, Source source, Grant grant, Clock clock, Duration margin) {
    super(role, source, grant, clock, margin);
  }
}
