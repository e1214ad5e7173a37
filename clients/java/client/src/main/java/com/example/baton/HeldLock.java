package com.example.baton;

import java.time.Duration;

/** A lock that is held: {@link Baton#lock(String)}. */
public final class HeldLock extends Claim {
  HeldLock(String name, Source source, Grant grant, Clock clock, Duration margin) {
    super(name, source, grant, clock, margin);
  }
}
