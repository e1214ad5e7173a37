package com.example.baton.integration;

import com.example.baton.Baton;
import java.util.concurrent.TimeUnit;

/** A program that takes a lock, says its token, and keeps it. */
final class Holder {
  private Holder() {}

  public static void main(String[] arguments) throws InterruptedException {
    BatonLock lock = new BatonLockRegistry(Baton.create(), "test/").obtain(arguments[0]);
    lock.lock();
    System.out.println(lock.token());
    TimeUnit.HOURS.sleep(1);
  }
}
