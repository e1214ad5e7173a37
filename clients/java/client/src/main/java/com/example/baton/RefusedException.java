package com.example.baton;

import java.util.Map;

/** The sidecar refuses a request. */
public class RefusedException extends BatonException {
  private static final long serialVersionUID = 1L;

  /** The status of HTTP. */
  private final int status;

  /** The kind of the problem. */
  private final String type;

  RefusedException(int status, Map<String, Object> problem) {
    super(status + " " + text(problem, "type", "about:blank") + ": " + text(problem, "detail", ""));
    this.status = status;
    this.type = text(problem, "type", "about:blank");
  }

  /**
   * The status of HTTP.
   *
   * @return 400 to 599, or a redirect's, which is not followed
   */
  public int status() {
    return status;
  }

  /**
   * What it is, for programs.
   *
   * @return {@code urn:baton:problem:unknown-role}, say
   */
  public String type() {
    return type;
  }

  private static String text(Map<String, Object> problem, String field, String otherwise) {
    return problem.get(field) instanceof String text ? text : otherwise;
  }
}
