package com.example.baton;

import java.time.Duration;
import java.util.Map;
import java.util.Optional;

/**
 * Who holds a lock.
 *
 * @param owner the owner, if it was taken by one
 * @param identity the replica through whose sidecar it was taken
 * @param token the holder's fencing token
 * @param endsIn when it ends if it is neither extended nor released
 */
public record LockHolder(Optional<String> owner, String identity, long token, Duration endsIn) {
  /** Null if these are not the fields of a holder. */
  static LockHolder of(Map<?, ?> fields) {
    if (fields.get("identity") instanceof String identity
        && fields.get("token") instanceof Long token
        && fields.get("ends_in_ms") instanceof Long endsInMs) {
      Optional<String> owner = Optional.ofNullable(fields.get("owner")).map(String.class::cast);
      return new LockHolder(owner, identity, token, Duration.ofMillis(endsInMs));
    }
    return null;
  }
}
