package com.example.baton.integration;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.example.baton.Baton;
import com.example.baton.Eventually;
import com.example.baton.LeadLostException;
import com.example.baton.Replicas;
import com.sun.net.httpserver.HttpServer;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.springframework.context.ApplicationListener;
import org.springframework.context.support.GenericApplicationContext;
import org.springframework.integration.leader.AbstractCandidate;
import org.springframework.integration.leader.Context;
import org.springframework.integration.leader.event.AbstractLeaderEvent;
import org.springframework.integration.leader.event.OnGrantedEvent;

/** Candidates of two apps, each beside its real sidecar. */
@Timeout(120)
class BatonLeaderInitiatorTest {
  private Replicas replicas;
  private int leader;
  private final List<GenericApplicationContext> apps = new ArrayList<>();

  @BeforeEach
  void start() throws Exception {
    replicas = Replicas.start(2);
    leader = replicas.leader();
  }

  @AfterEach
  void end() {
    apps.forEach(GenericApplicationContext::close);
    replicas.close();
  }

  /** Something that happened, and when, as {@link System#nanoTime} tells it. */
  private record Heard(String what, long token, long atNanos) {}

  /** A candidate and a listener that write down what they are told. */
  private static class Scribe extends AbstractCandidate
      implements ApplicationListener<AbstractLeaderEvent> {
    final List<Heard> heard = new CopyOnWriteArrayList<>();
    volatile LeadContext context;

    Scribe() {
      super("scribe", "scheduler");
    }

    @Override
    public void onGranted(Context granted) throws InterruptedException {
      context = (LeadContext) granted;
      hear("granted", context.token());
    }

    @Override
    public void onRevoked(Context revoked) {
      assertFalse(revoked.isLeader());
      hear("revoked", 0);
    }

    @Override
    public void onApplicationEvent(AbstractLeaderEvent event) {
      assertEquals("scheduler", event.getRole());
      assertEquals(context, event.getContext());
      boolean granted = event instanceof OnGrantedEvent;
      hear(granted ? "granted event" : "revoked event", granted ? context.token() : 0);
    }

    void hear(String what, long token) {
      heard.add(new Heard(what, token, System.nanoTime()));
    }

    List<String> whats() {
      return heard.stream().map(Heard::what).toList();
    }

    void awaitHeard(String... whats) throws Exception {
      Eventually.until(List.of(whats) + " of " + whats(), () -> whats().equals(List.of(whats)));
    }
  }

  private GenericApplicationContext run(int replica, Scribe scribe) {
    Baton baton = Baton.builder().url(replicas.urlOf(replica)).build();
    GenericApplicationContext app = new GenericApplicationContext();
    app.registerBean("scribe", Scribe.class, () -> scribe);
    app.registerBean(BatonLeaderInitiator.class, () -> new BatonLeaderInitiator(baton, scribe));
    app.refresh();
    apps.add(app);
    return app;
  }

  private static void assertHandedOver(Scribe from, Scribe to) {
    Heard revoked = from.heard.get(3);
    Heard granted = to.heard.get(0);
    assertTrue(granted.atNanos() > revoked.atNanos(), from.heard + " and " + to.heard);
    assertTrue(granted.token() > from.heard.get(0).token());
    assertThrows(LeadLostException.class, from.context::token);
  }

  @Test
  void itIsRevokedHereBeforeItIsGrantedThere() throws Exception {
    Scribe here = new Scribe();
    Scribe there = new Scribe();
    run(leader, here);
    run(1 - leader, there);
    here.awaitHeard("granted", "granted event");
    assertTrue(here.context.isLeader());
    assertTrue(there.heard.isEmpty());
    replicas.request(leader, "POST", "/leader/scheduler/resign", "{}");
    there.awaitHeard("granted", "granted event");
    assertEquals(List.of("granted", "granted event", "revoked", "revoked event"), here.whats());
    assertHandedOver(here, there);
  }

  @Test
  void whoYieldsIsRevokedBeforeItIsGrantedThere() throws Exception {
    Scribe here = new Scribe();
    Scribe there = new Scribe();
    run(leader, here);
    run(1 - leader, there);
    here.awaitHeard("granted", "granted event");
    here.context.yield();
    assertFalse(here.context.isLeader());
    there.awaitHeard("granted", "granted event");
    assertEquals(List.of("granted", "granted event", "revoked", "revoked event"), here.whats());
    assertHandedOver(here, there);
  }

  @Test
  void theSidecarIsToldWhenItHasBeenRevoked() throws Exception {
    CountDownLatch stopped = new CountDownLatch(1);
    Scribe slow =
        new Scribe() {
          @Override
          public void onRevoked(Context revoked) {
            try {
              stopped.await();
            } catch (InterruptedException error) {
              hear("interrupted", 0);
            }
            super.onRevoked(revoked);
          }
        };
    Scribe there = new Scribe();
    run(leader, slow);
    run(1 - leader, there);
    slow.awaitHeard("granted", "granted event");
    slow.context.yield();
    // The lead goes on meanwhile: what the work has begun may still be brought to its end.
    long began = System.nanoTime();
    Eventually.until(
        "twice what the sidecar promises at once has passed",
        () -> slow.context.token() > 0 && System.nanoTime() - began > TimeUnit.SECONDS.toNanos(10));
    assertTrue(there.heard.isEmpty());
    stopped.countDown();
    there.awaitHeard("granted", "granted event");
    assertHandedOver(slow, there);
  }

  @Test
  void workInOnGrantedIsInterrupted() throws Exception {
    Scribe works =
        new Scribe() {
          @Override
          public void onGranted(Context granted) throws InterruptedException {
            super.onGranted(granted);
            Eventually.workUntilInterrupted();
          }
        };
    run(leader, works);
    works.awaitHeard("granted");
    replicas.request(leader, "POST", "/leader/scheduler/resign", "{}");
    works.awaitHeard("granted", "revoked", "revoked event");
    Eventually.until("the other leads", () -> replicas.leads(1 - leader));
  }

  @Test
  void whoYieldsInOnGrantedIsNotInterrupted() throws Exception {
    Scribe yields =
        new Scribe() {
          @Override
          public void onGranted(Context granted) throws InterruptedException {
            super.onGranted(granted);
            granted.yield();
            assertFalse(Thread.currentThread().isInterrupted());
          }
        };
    run(leader, yields);
    yields.awaitHeard("granted", "revoked", "revoked event");
    Eventually.until("the other leads", () -> replicas.leads(1 - leader));
  }

  @Test
  void whoFailsLeadsNoLonger() throws Exception {
    Scribe fails =
        new Scribe() {
          @Override
          public void onGranted(Context granted) throws InterruptedException {
            super.onGranted(granted);
            throw new IllegalStateException("as the test wants it");
          }
        };
    run(leader, fails);
    fails.awaitHeard("granted", "revoked", "revoked event");
    Eventually.until("the other leads", () -> replicas.leads(1 - leader));
  }

  @Test
  void theContextsEndWaitsForTheCandidate() throws Exception {
    Scribe here = new Scribe();
    Scribe there = new Scribe();
    GenericApplicationContext app = run(leader, here);
    run(1 - leader, there);
    here.awaitHeard("granted", "granted event");
    app.close();
    assertEquals(List.of("granted", "granted event", "revoked", "revoked event"), here.whats());
    there.awaitHeard("granted", "granted event");
    assertHandedOver(here, there);
  }

  @Test
  void itCanBeStartedAgain() throws Exception {
    Scribe here = new Scribe();
    BatonLeaderInitiator initiator = run(leader, here).getBean(BatonLeaderInitiator.class);
    here.awaitHeard("granted", "granted event");
    assertTrue(initiator.isRunning() && initiator.getContext().isLeader());
    assertEquals(here.heard.get(0).token(), initiator.token());
    initiator.stop();
    assertFalse(initiator.isRunning());
    initiator.start();
    Eventually.until("the other leads", () -> replicas.leads(1 - leader));
    replicas.request(1 - leader, "POST", "/leader/scheduler/resign", "{\"cooldown\":\"1h\"}");
    here.awaitHeard(
        "granted", "granted event", "revoked", "revoked event", "granted", "granted event");
  }

  @Test
  void whoRefusesIsAskedAgainAfterAWhileAndNotAfterTheStop() throws Exception {
    List<Long> askedAtNanos = new CopyOnWriteArrayList<>();
    HttpServer refuses =
        HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
    refuses.createContext(
        "/leader/scheduler/hold",
        exchange -> {
          askedAtNanos.add(System.nanoTime());
          exchange.sendResponseHeaders(404, -1);
          exchange.close();
        });
    refuses.start();
    try {
      URI url = URI.create("http://127.0.0.1:" + refuses.getAddress().getPort());
      BatonLeaderInitiator initiator =
          new BatonLeaderInitiator(Baton.builder().url(url).build(), new Scribe());
      initiator.start();
      Eventually.until("it is asked a second time", () -> askedAtNanos.size() == 2);
      long between = askedAtNanos.get(1) - askedAtNanos.get(0);
      assertTrue(between >= TimeUnit.SECONDS.toNanos(10), between + " ns");
      CountDownLatch stopped = new CountDownLatch(1);
      initiator.stop(stopped::countDown);
      // Well within the pause: it is not waited for, and nothing is asked after it.
      assertTrue(stopped.await(5, TimeUnit.SECONDS));
      assertEquals(2, askedAtNanos.size());
    } finally {
      refuses.stop(0);
    }
  }

  @Test
  void whatHasNotBeenStartedLeadsNothing() {
    Baton baton = Baton.builder().url(replicas.urlOf(leader)).build();
    Scribe scribe = new Scribe();
    BatonLeaderInitiator initiator = new BatonLeaderInitiator(baton, scribe);
    assertFalse(initiator.getContext().isLeader());
    assertEquals("scheduler", initiator.getContext().getRole());
    assertThrows(IllegalStateException.class, initiator::token);
    initiator.stop();
    assertFalse(initiator.isRunning());
  }
}
