package com.example.baton;

/** What came of asking for more time. */
sealed interface Answer {
  /** It may be used for so long, from before it was asked. */
  record Valid(long nanos) implements Answer {}

  /** It is lost. */
  record Lost(String reason) implements Answer {}

  /** Neither was said: it is asked again. */
  record Unclear() implements Answer {}
}
