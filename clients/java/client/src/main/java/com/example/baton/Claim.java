package com.example.baton;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/**
 * What is held for as long as the sidecar promises, less a margin: a {@link Lead} or a {@link
 * HeldLock}. It is for a try-with-resources statement.
 *
 * <p>When it is over, the thread that opened it is interrupted, so that what waits there ends. An
 * interrupt that was sent so and has not been noticed is taken back by {@link #close}. (One that
 * comes from elsewhere between the two is taken for it.)
 *
 * <p>Two daemon threads work for it: one asks for more time, and one sees to its end.
 */
public abstract sealed class Claim implements AutoCloseable permits Lead, HeldLock {
  private static final long MARGIN_MIN_NANOS = TimeUnit.MILLISECONDS.toNanos(20);

  /** How often the clock is looked at: a wait does not notice that the machine has slept. */
  private static final long LOOK_NANOS = TimeUnit.MILLISECONDS.toNanos(500);

  private static final long TIMEOUT_MIN_NANOS = TimeUnit.MILLISECONDS.toNanos(50);
  private static final long TIMEOUT_MAX_NANOS = TimeUnit.SECONDS.toNanos(2);
  private static final long PAUSE_MIN_NANOS = TimeUnit.MILLISECONDS.toNanos(10);
  private static final long PAUSE_MAX_NANOS = TimeUnit.MILLISECONDS.toNanos(100);

  private final String name;
  private final Source source;
  private final Grant grant;
  private final Clock clock;
  private final Duration margin;
  private final List<Runnable> onLost = new ArrayList<>();
  private Thread asker;

  /** Null until the first promise. */
  private Moment deadline;

  /** Null until it is over. */
  private String reason;

  /** Of the thread that opened it, once it has begun. */
  private Interrupts interrupts;

  private boolean closed;

  /** The margin may be null. */
  Claim(String name, Source source, Grant grant, Clock clock, Duration margin) {
    this.name = name;
    this.source = source;
    this.grant = grant;
    this.clock = clock;
    this.margin = margin;
  }

  static void requireMargin(Duration margin) {
    if (margin != null && margin.isNegative()) {
      throw new IllegalArgumentException("a negative margin: " + margin);
    }
  }

  /**
   * What is held.
   *
   * @return the role, or the lock's name
   */
  public final String name() {
    return name;
  }

  /**
   * The fencing token, if this is not over. Reading it is the check: read it each time that
   * something is written with it, and hand it on to what is written to.
   *
   * @return the token, greater than all before
   * @throws LeadLostException if the lead is over
   * @throws LockLostException if the lock is over
   */
  public final long token() {
    String reason;
    synchronized (this) {
      reason = over();
    }
    if (reason != null) {
      throw source.lost(reason);
    }
    return grant.token();
  }

  /**
   * Whether this is not over.
   *
   * @return false once it is over, and ever after
   */
  public final synchronized boolean isValid() {
    return over() == null;
  }

  /**
   * For how long this lasts if the sidecar promises no more. A step of the work that takes longer
   * is not to be begun.
   *
   * @return the time that is left, less the margin; zero when this is over
   */
  public final synchronized Duration remaining() {
    long leftNanos = reason == null ? clock.now().nanosUntil(deadline) : 0;
    return Duration.ofNanos(Math.max(0, leftNanos));
  }

  /**
   * Calls this once when it is over, but for {@link #close}, in a thread of its own; at once and in
   * this thread if it is over.
   *
   * @param call what stops work of other threads, say
   */
  public final void onLost(Runnable call) {
    synchronized (this) {
      if (closed) {
        return;
      }
      if (over() == null) {
        onLost.add(call);
        return;
      }
    }
    call.run();
  }

  /**
   * Tells the sidecar that the work has stopped, in all threads, and waits a second at the most for
   * its answer. It is called by the thread that opened this.
   */
  @Override
  public final void close() {
    synchronized (this) {
      if (closed) {
        return;
      }
      closed = true;
    }
    end("it was closed");
    interrupts.takeBack(this);
    source.leave(grant);
    disconnect();
  }

  /** Whether it may be used. False: it was lost before, and nothing remains of it. */
  final boolean begins() throws InterruptedException {
    grant.hold().listen(this::hear, () -> end("the connection to the sidecar has ended"));
    asker = start("asks", this::ask);
    boolean begun = false;
    try {
      synchronized (this) {
        while (deadline == null && reason == null) {
          wait();
        }
        begun = over() == null;
        interrupts = Interrupts.ofCurrentThread();
      }
      return begun;
    } finally {
      if (begun) {
        start("watches", this::watch);
      } else {
        end("it has not begun");
        disconnect();
      }
    }
  }

  private Thread start(String does, Runnable run) {
    Thread thread = new Thread(run, "baton " + name + " " + does);
    thread.setDaemon(true);
    thread.start();
    return thread;
  }

  private void disconnect() {
    grant.hold().close();
    asker.interrupt();
  }

  private synchronized void end(String reason) {
    if (this.reason == null) {
      String ranOut = over();
      this.reason = ranOut == null ? reason : ranOut;
      notifyAll();
    }
  }

  /** Why it is over, or null: what has run out is over, whoever notices that later. */
  private String over() {
    boolean ranOut = reason == null && deadline != null && clock.now().nanosUntil(deadline) <= 0;
    return ranOut ? "what the sidecar promised has run out" : reason;
  }

  private void hear(Map<String, Object> line) {
    source.lostBy(line, grant).ifPresent(this::end);
  }

  private void ask() {
    long validityNanos = grant.validityNanos();
    long pauseNanos = 0;
    try {
      while (!isOverAfter(pauseNanos)) {
        Moment asked = clock.now();
        long began = System.nanoTime();
        Answer answer = ask(within(TIMEOUT_MIN_NANOS, validityNanos / 3, TIMEOUT_MAX_NANOS));
        if (answer instanceof Answer.Valid valid) {
          validityNanos = valid.nanos();
          extend(asked, validityNanos);
          long spent = System.nanoTime() - began;
          pauseNanos = Math.max(PAUSE_MIN_NANOS, validityNanos / 3 - spent);
        } else if (answer instanceof Answer.Lost lost) {
          end(lost.reason());
        } else {
          pauseNanos = within(PAUSE_MIN_NANOS, validityNanos / 10, PAUSE_MAX_NANOS);
        }
      }
    } catch (InterruptedException disconnected) {
      // There is nothing more to ask.
    }
  }

  private Answer ask(long timeoutNanos) throws InterruptedException {
    try {
      return source.ask(grant, timeoutNanos);
    } catch (BatonException unanswered) {
      return new Answer.Unclear();
    }
  }

  private static long within(long least, long value, long most) {
    return Math.max(least, Math.min(value, most));
  }

  private synchronized void extend(Moment asked, long validityNanos) {
    long marginNanos =
        margin == null
            ? Math.max(MARGIN_MIN_NANOS, validityNanos / 10)
            : TimeUnit.NANOSECONDS.convert(margin);
    Moment until = asked.plusNanos(validityNanos - marginNanos);
    Moment now = clock.now();
    long leftNanos = deadline == null ? 0 : now.nanosUntil(deadline);
    if (over() == null && now.nanosUntil(until) > leftNanos) {
      deadline = until;
      notifyAll();
    }
  }

  private synchronized boolean isOverAfter(long nanos) throws InterruptedException {
    long began = System.nanoTime();
    long leftNanos = nanos;
    while (over() == null && leftNanos > 0) {
      TimeUnit.NANOSECONDS.timedWait(this, leftNanos);
      leftNanos = nanos - (System.nanoTime() - began);
    }
    return over() != null;
  }

  private void watch() {
    List<Runnable> calls;
    synchronized (this) {
      while (over() == null) {
        try {
          long leftNanos = clock.now().nanosUntil(deadline);
          TimeUnit.NANOSECONDS.timedWait(this, within(1, leftNanos, LOOK_NANOS));
        } catch (InterruptedException neverSent) {
          throw new AssertionError(neverSent);
        }
      }
      end(over());
      if (closed) {
        return;
      }
      interrupts.send(this);
      calls = List.copyOf(onLost);
    }
    calls.forEach(Claim::callWhateverItThrows);
  }

  /** One that fails does not keep the next from stopping its work. */
  private static void callWhateverItThrows(Runnable call) {
    try {
      call.run();
    } catch (RuntimeException error) {
      Thread thread = Thread.currentThread();
      thread.getUncaughtExceptionHandler().uncaughtException(thread, error);
    }
  }
}
