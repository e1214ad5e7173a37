package com.example.baton;

/** What promises are counted by. */
@FunctionalInterface
interface Clock {
  Moment now();
}
