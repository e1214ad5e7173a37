package com.example.baton;

import java.util.Map;
import java.util.Optional;

/** Where claims come from: a role, or a lock. */
interface Source {
  /** Why the claim is lost, if this line of its connection says so. */
  Optional<String> lostBy(Map<String, Object> line, Grant grant);

  /** Asks for more time. */
  Answer ask(Grant grant, long timeoutNanos) throws InterruptedException;

  /** Says that the work has stopped. Whether that is heard is not told. */
  void leave(Grant grant);

  /** What is thrown when the token of a claim that is over is read. */
  BatonException lost(String reason);
}
