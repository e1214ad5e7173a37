package com.example.baton;

/** The work of a job. */
@FunctionalInterface
public interface JobWork {
  /**
   * Does it.
   *
   * @param run the attempt
   * @return a note of it, for people; null for none
   * @throws Exception if the attempt has failed. The message is its note
   */
  String run(JobRun run) throws Exception;
}
