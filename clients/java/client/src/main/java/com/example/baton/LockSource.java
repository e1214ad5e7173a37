package com.example.baton;

import java.net.http.HttpResponse;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;

/** {@code /locks/{name}/hold} */
final class LockSource implements Source {
  /** The longest that the sidecar waits. */
  private static final long WAIT_MAX_MS = TimeUnit.HOURS.toMillis(1);

  private final Sidecar sidecar;
  private final String path;
  private final LockOptions options;
  private final Clock clock;
  private final Moment asked;

  LockSource(Sidecar sidecar, String name, LockOptions options, Clock clock) {
    this.sidecar = sidecar;
    this.path = "/locks/" + Sidecar.encode(name);
    this.options = options;
    this.clock = clock;
    this.asked = clock.now();
  }

  Grant open() throws InterruptedException {
    long began = System.nanoTime();
    long waitNanos = TimeUnit.NANOSECONDS.convert(options.maxWait());
    while (true) {
      long asked = System.nanoTime();
      long leftMs = TimeUnit.NANOSECONDS.toMillis(waitNanos - (asked - began));
      try {
        return open(Math.max(0, Math.min(leftMs, WAIT_MAX_MS)));
      } catch (LockHeldException held) {
        long waitedMs = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - asked);
        if (leftMs <= WAIT_MAX_MS || waitedMs < WAIT_MAX_MS) {
          throw held;
        }
      }
    }
  }

  private Grant open(long waitMs) throws InterruptedException {
    Hold hold = sidecar.hold(path + "/hold" + query(waitMs), TimeUnit.MILLISECONDS.toNanos(waitMs));
    Map<String, Object> line = Json.object(hold.firstLine.join());
    if (line.get("lock") instanceof String id
        && line.get("token") instanceof Long token
        && line.get("valid_for_ms") instanceof Long validForMs) {
      return new Grant(hold, id, token, TimeUnit.MILLISECONDS.toNanos(validForMs));
    }
    hold.close();
    throw new UnreachableException("the sidecar's first line does not name the lock");
  }

  private String query(long waitMs) {
    StringBuilder query = new StringBuilder("?wait=" + waitMs + "ms");
    if (options.owner() != null) {
      query.append("&owner=").append(Sidecar.encode(options.owner()));
    }
    if (options.lease() != null) {
      query.append("&lease=").append(options.lease().toMillis()).append("ms");
    }
    if (options.fair()) {
      query.append("&fair=true");
    }
    if (options.permits() != null) {
      query.append("&permits=").append(options.permits());
    }
    if (options.atLeast() != null) {
      query.append("&atLeast=").append(options.atLeast().toMillis()).append("ms");
    }
    if (options.max() != null) {
      query.append("&max=").append(options.max().toMillis()).append("ms");
    }
    return query.toString();
  }

  @Override
  public Optional<String> lostBy(Map<String, Object> line, Grant grant) {
    return line.containsKey("lost")
        ? Optional.of(String.valueOf(line.get("lost")))
        : Optional.empty();
  }

  @Override
  public Answer ask(Grant grant, long timeoutNanos) throws InterruptedException {
    HttpResponse<String> response =
        sidecar.send(sidecar.request("PUT", path + "/" + grant.id()), timeoutNanos);
    if (response.statusCode() == 410) {
      return new Answer.Lost("the sidecar does not hold it any more");
    }
    Optional<Long> validForMs =
        response.headers().firstValue("Baton-Valid-For-Ms").map(Json::whole);
    return response.statusCode() == 204 && validForMs.isPresent()
        ? new Answer.Valid(
            Math.min(TimeUnit.MILLISECONDS.toNanos(validForMs.get()), nanosUntilMax()))
        : new Answer.Unclear();
  }

  /** The sidecar ends the lock then, whatever it has answered before. */
  private long nanosUntilMax() {
    return options.max() == null
        ? Long.MAX_VALUE
        : clock.now().nanosUntil(asked.plusNanos(TimeUnit.NANOSECONDS.convert(options.max())));
  }

  @Override
  public void leave(Grant grant) {
    sidecar.tell("DELETE", path + "/" + grant.id());
  }

  @Override
  public BatonException lost(String reason) {
    return new LockLostException("the lock is over: " + reason);
  }
}
