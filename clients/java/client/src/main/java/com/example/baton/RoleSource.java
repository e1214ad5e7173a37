package com.example.baton;

import java.net.http.HttpResponse;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;

/** {@code /leader/{role}/hold} */
final class RoleSource implements Source {
  static final long WAIT_SECONDS = 30;

  private final Sidecar sidecar;
  private final String path;
  private final Scope scope;

  RoleSource(Sidecar sidecar, String role, Scope scope) {
    this.sidecar = sidecar;
    this.path = "/leader/" + Sidecar.encode(role);
    this.scope = scope;
  }

  Grant open() throws InterruptedException {
    String query = "?wait=" + WAIT_SECONDS + "s&scope=" + scope.name().toLowerCase(Locale.ROOT);
    Hold hold = sidecar.hold(path + "/hold" + query, TimeUnit.SECONDS.toNanos(WAIT_SECONDS));
    Map<String, Object> line = Json.object(hold.firstLine.join());
    if (Boolean.TRUE.equals(line.get("leader"))
        && line.get("hold") instanceof String id
        && line.get("token") instanceof Long token
        && line.get("valid_for_ms") instanceof Long validForMs) {
      return new Grant(hold, id, token, TimeUnit.MILLISECONDS.toNanos(validForMs));
    }
    hold.close();
    throw new UnreachableException("the sidecar's first line does not say that this replica leads");
  }

  @Override
  public Optional<String> lostBy(Map<String, Object> line, Grant grant) {
    if (Boolean.FALSE.equals(line.get("leader"))) {
      return Optional.of(
          line.get("reason") instanceof String reason ? reason : "this replica does not lead");
    }
    return line.get("token") instanceof Long token && token != grant.token()
        ? Optional.of("another term has begun")
        : Optional.empty();
  }

  @Override
  public Answer ask(Grant grant, long timeoutNanos) throws InterruptedException {
    HttpResponse<String> response =
        sidecar.send(
            sidecar.request("GET", path + "?hold=" + Sidecar.encode(grant.id())), timeoutNanos);
    if (response.statusCode() == 410) {
      return new Answer.Lost("the sidecar knows nothing of its connection any more");
    }
    if (response.statusCode() != 200) {
      return new Answer.Unclear();
    }
    Map<String, Object> answer = Json.object(response.body());
    Optional<String> lost = lostBy(answer, grant);
    if (lost.isPresent()) {
      return new Answer.Lost(lost.get());
    }
    return Boolean.TRUE.equals(answer.get("leader"))
            && answer.get("token") instanceof Long
            && answer.get("valid_for_ms") instanceof Long validForMs
        ? new Answer.Valid(TimeUnit.MILLISECONDS.toNanos(validForMs))
        : new Answer.Unclear();
  }

  @Override
  public void leave(Grant grant) {
    sidecar.tell("POST", path + "/drained?hold=" + Sidecar.encode(grant.id()));
  }

  @Override
  public BatonException lost(String reason) {
    return new LeadLostException("the lead is over: " + reason);
  }
}
