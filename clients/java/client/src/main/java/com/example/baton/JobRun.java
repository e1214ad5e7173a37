package com.example.baton;

import java.time.Instant;
import java.util.OptionalInt;

/**
 * An attempt at a run of a job, as the sidecar asks for it.
 *
 * @param id the run's, the same for all its attempts
 * @param scheduledTime when it was due
 * @param attempt 1, 2, 3, …
 * @param token the fencing token of this attempt: hand it on to whatever is written to
 * @param shard the number of its shard, where the role is split
 * @param body what the job's configuration has the sidecar send
 */
public record JobRun(
    String id, Instant scheduledTime, int attempt, long token, OptionalInt shard, byte[] body) {}
