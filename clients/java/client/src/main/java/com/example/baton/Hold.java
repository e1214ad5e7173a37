package com.example.baton;

import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Flow;
import java.util.function.Consumer;

/** A connection by which the sidecar sees that this process lives, and its lines of JSON. */
final class Hold implements Flow.Subscriber<String> {
  final CompletableFuture<String> firstLine = new CompletableFuture<>();
  private final CompletableFuture<Void> ended = new CompletableFuture<>();
  private volatile Flow.Subscription subscription;
  private volatile Consumer<Map<String, Object>> onLine;

  /** Hears the lines after the first one, and that there are no more. */
  void listen(Consumer<Map<String, Object>> onLine, Runnable onEnd) {
    this.onLine = onLine;
    ended.thenRun(onEnd);
    subscription.request(Long.MAX_VALUE);
  }

  void close() {
    subscription.cancel();
  }

  @Override
  public void onSubscribe(Flow.Subscription subscription) {
    this.subscription = subscription;
    subscription.request(1);
  }

  @Override
  public void onNext(String line) {
    if (!firstLine.complete(line)) {
      onLine.accept(Json.object(line));
    }
  }

  @Override
  public void onError(Throwable error) {
    firstLine.completeExceptionally(error);
    ended.complete(null);
  }

  @Override
  public void onComplete() {
    firstLine.completeExceptionally(
        new UnreachableException("the connection ended without a line"));
    ended.complete(null);
  }
}
