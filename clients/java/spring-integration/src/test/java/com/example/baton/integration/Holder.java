package com.example.baton.integration;

import com.example.baton.Baton;
import java.io.IOException;

/** A program that takes a lock, says its token, and keeps it. */
final class Holder {
  private Holder() {}

  public static void main(String[] arguments) throws IOException {
    BatonLock lock = new BatonLockRegistry(Baton.create(), "test/").obtain(arguments[0]);
    lock.lock();
    System.out.println(lock.token());
    // Until it is killed, or whoever has started it is gone.
    System.in.read();
  }
}
