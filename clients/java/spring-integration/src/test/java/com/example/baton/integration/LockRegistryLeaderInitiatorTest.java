package com.example.baton.integration;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.example.baton.Baton;
import com.example.baton.Eventually;
import com.example.baton.Replicas;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.springframework.integration.leader.AbstractCandidate;
import org.springframework.integration.leader.Context;
import org.springframework.integration.support.leader.LockRegistryLeaderInitiator;

/** What Spring Integration's own initiator does with this registry, as the README says. */
@Timeout(120)
class LockRegistryLeaderInitiatorTest {
  private Replicas replicas;
  private BatonLockRegistry here;
  private BatonLockRegistry there;

  @BeforeEach
  void start() throws Exception {
    replicas = Replicas.start(2);
    here = registry(0);
    there = registry(1);
  }

  @AfterEach
  void end() {
    replicas.close();
  }

  private BatonLockRegistry registry(int replica) {
    return new BatonLockRegistry(Baton.builder().url(replicas.urlOf(replica)).build(), "leads/");
  }

  private boolean isFree() {
    BatonLock lock = there.obtain("it");
    boolean taken = lock.tryLock();
    if (taken) {
      lock.unlock();
    }
    return taken;
  }

  /** Writes down what it is told, and whether its lock is free when it is revoked. */
  private class Scribe extends AbstractCandidate {
    final List<String> heard = new CopyOnWriteArrayList<>();
    volatile Context context;

    Scribe() {
      super("scribe", "it");
    }

    @Override
    public void onGranted(Context granted) {
      context = granted;
      heard.add("granted");
    }

    @Override
    public void onRevoked(Context revoked) {
      boolean isFree = CompletableFuture.supplyAsync(() -> isFree()).join();
      heard.add(isFree ? "revoked, and free" : "revoked");
    }
  }

  @Test
  void aLossIsToldAtOnce() throws Exception {
    Scribe scribe = new Scribe();
    LockRegistryLeaderInitiator initiator = new LockRegistryLeaderInitiator(here, scribe);
    // It would notice by itself after an hour.
    initiator.setHeartBeatMillis(TimeUnit.HOURS.toMillis(1));
    initiator.start();
    try {
      Eventually.until("it leads", () -> scribe.heard.size() == 1);
      String held = replicas.request(1, "GET", "/locks/leads%2Fit", "").body();
      String token = held.replaceFirst(".*\"token\":(\\d+).*", "$1");
      replicas.request(1, "DELETE", "/locks/leads%2Fit", "{\"token\":" + token + "}");
      Eventually.until("it leads again", () -> scribe.heard.size() == 3);
      assertEquals("granted", scribe.heard.get(2));
    } finally {
      initiator.stop();
    }
  }

  @Test
  void whoYieldsUnlocksBeforeItIsRevoked() throws Exception {
    Scribe scribe = new Scribe();
    LockRegistryLeaderInitiator initiator = new LockRegistryLeaderInitiator(here, scribe);
    initiator.setHeartBeatMillis(50);
    initiator.start();
    try {
      Eventually.until("it leads", () -> scribe.heard.size() == 1);
      scribe.context.yield();
      Eventually.until("it is revoked", () -> scribe.heard.size() >= 2);
      assertEquals("revoked, and free", scribe.heard.get(1));
    } finally {
      initiator.stop();
    }
  }
}
