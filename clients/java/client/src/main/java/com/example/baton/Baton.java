package com.example.baton;

import java.net.URI;
import java.nio.file.Path;
import java.util.Set;
import java.util.concurrent.TimeUnit;

/**
 * The sidecar of this pod. One is enough for an app, and may be used by many threads at once.
 *
 * <pre>{@code
 * Baton baton = Baton.create();
 * try (Lead lead = baton.leading("scheduler")) {
 *   while (lead.isValid()) work(lead.token());
 * }
 * }</pre>
 */
public final class Baton {
  private static final String DEFAULT_URL = "http://127.0.0.1:4040";
  private static final long PAUSE_MIN_MS = 50;
  private static final long PAUSE_MAX_MS = 1_000;

  /** What asking again does not mend. */
  private static final Set<Integer> FINAL_STATUSES = Set.of(400, 401, 403, 404);

  private final Sidecar sidecar;
  private final Clock clock;

  private Baton(Sidecar sidecar, Clock clock) {
    this.sidecar = sidecar;
    this.clock = clock;
  }

  /**
   * The sidecar at the address that the environment's {@code BATON_URL} names, else at {@code
   * http://127.0.0.1:4040}; with the token of the file that {@code BATON_TOKEN_FILE} names, if it
   * does. Nothing is asked yet.
   *
   * @return the sidecar, whether it is there or not
   * @throws IllegalArgumentException if the environment's address is none
   */
  public static Baton create() {
    return builder().build();
  }

  /**
   * For a sidecar that is not where {@link #create} finds it.
   *
   * @return a builder that does what {@link #create} does if nothing is said
   */
  public static Builder builder() {
    return new Builder();
  }

  /**
   * Waits until this replica leads, for scope {@link Scope#POD} and with the usual margin.
   *
   * @param role a role of the sidecar's configuration
   * @return the lead
   * @throws InterruptedException if this thread is interrupted while it waits
   * @throws RefusedException if there is no such role, or the sidecar does not let this app in
   * @throws BatonException if the file with the token cannot be read
   */
  public Lead leading(String role) throws InterruptedException {
    return leading(role, LeadOptions.DEFAULT);
  }

  /**
   * Waits until this replica leads. A sidecar that is not there, or refuses for a reason that may
   * pass, is waited for.
   *
   * @param role a role of the sidecar's configuration
   * @param options how to lead
   * @return the lead
   * @throws InterruptedException if this thread is interrupted while it waits
   * @throws RefusedException if there is no such role, or the sidecar does not let this app in
   * @throws BatonException if the file with the token cannot be read
   */
  public Lead leading(String role, LeadOptions options) throws InterruptedException {
    RoleSource source = new RoleSource(sidecar, role, options.scope());
    long pauseMs = 0;
    while (true) {
      TimeUnit.MILLISECONDS.sleep(pauseMs);
      pauseMs = Math.max(PAUSE_MIN_MS, Math.min(2 * pauseMs, PAUSE_MAX_MS));
      long asked = System.nanoTime();
      try {
        Lead lead = new Lead(role, source, source.open(), clock, options.margin());
        if (lead.begins()) {
          return lead;
        }
      } catch (RefusedException refused) {
        if (FINAL_STATUSES.contains(refused.status())) {
          throw refused;
        }
        long waited = System.nanoTime() - asked;
        if (refused.status() == 409
            && waited >= TimeUnit.SECONDS.toNanos(RoleSource.WAIT_SECONDS)) {
          pauseMs = 0;
        }
      } catch (UnreachableException unreachable) {
        // It may come, or come back.
      }
    }
  }

  /**
   * Takes a lock without waiting, for nobody in particular.
   *
   * @param name any text of 1 to 200 bytes
   * @return the lock, until it is closed
   * @throws InterruptedException if this thread is interrupted
   * @throws LockHeldException if another holds it
   * @throws RefusedException if the sidecar cannot grant it now, or does not let this app in
   * @throws UnreachableException if there is no sidecar
   * @throws LockLostException if it was lost at once
   * @throws BatonException if the file with the token cannot be read
   */
  public HeldLock lock(String name) throws InterruptedException {
    return lock(name, LockOptions.DEFAULT);
  }

  /**
   * Takes a lock, and holds it for as long as this process lives and it is not closed.
   *
   * @param name any text of 1 to 200 bytes
   * @param options how to take it
   * @return the lock, until it is closed
   * @throws InterruptedException if this thread is interrupted while it waits
   * @throws LockHeldException if another holds it, and the wait is over
   * @throws RefusedException if the sidecar cannot grant it now, or does not let this app in
   * @throws UnreachableException if there is no sidecar
   * @throws LockLostException if it was lost at once
   * @throws BatonException if the file with the token cannot be read
   */
  public HeldLock lock(String name, LockOptions options) throws InterruptedException {
    LockSource source = new LockSource(sidecar, name, options, clock);
    HeldLock lock = new HeldLock(name, source, source.open(), clock, options.margin());
    if (!lock.begins()) {
      lock.token();
    }
    return lock;
  }

  /** Where the sidecar is, and what it wants. */
  public static final class Builder {
    private URI url;
    private Path tokenFile;
    private Clock clock = SystemClock.INSTANCE;

    private Builder() {}

    /**
     * The sidecar's address, in place of the environment's {@code BATON_URL}.
     *
     * @param url the address; null for none
     * @return this builder
     */
    public Builder url(URI url) {
      this.url = url;
      return this;
    }

    /**
     * The file with the token that the sidecar wants, in place of the environment's {@code
     * BATON_TOKEN_FILE}. It is read for each request.
     *
     * @param tokenFile the file; null for none
     * @return this builder
     */
    public Builder tokenFile(Path tokenFile) {
      this.tokenFile = tokenFile;
      return this;
    }

    Builder clock(Clock clock) {
      this.clock = clock;
      return this;
    }

    /**
     * The sidecar. Nothing is asked yet.
     *
     * @return the sidecar, whether it is there or not
     * @throws IllegalArgumentException if the address is none
     */
    public Baton build() {
      URI address = url != null ? url : URI.create(environment("BATON_URL", DEFAULT_URL));
      String file = environment("BATON_TOKEN_FILE", null);
      Path token = tokenFile == null && file != null ? Path.of(file) : tokenFile;
      return new Baton(new Sidecar(address, token), clock);
    }

    private static String environment(String variable, String otherwise) {
      String value = System.getenv(variable);
      return value == null || value.isEmpty() ? otherwise : value;
    }
  }
}
