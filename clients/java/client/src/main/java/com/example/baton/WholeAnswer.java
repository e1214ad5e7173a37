package com.example.baton;

import java.io.ByteArrayOutputStream;
import java.net.http.HttpResponse.BodySubscriber;
import java.net.http.HttpResponse.ResponseInfo;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Flow;

/**
 * Reads an answer, and has its connection closed: what is asked next is asked over a new one. A
 * client of the JDK has no other way to say so than to cancel what it reads.
 */
final class WholeAnswer implements BodySubscriber<String> {
  private final CompletableFuture<String> body = new CompletableFuture<>();
  private final ByteArrayOutputStream read = new ByteArrayOutputStream();
  private final long length;
  private Flow.Subscription subscription;

  WholeAnswer(ResponseInfo response) {
    boolean empty = response.statusCode() == 204;
    length =
        empty ? 0 : response.headers().firstValueAsLong("Content-Length").orElse(Long.MAX_VALUE);
  }

  @Override
  public CompletionStage<String> getBody() {
    return body;
  }

  @Override
  public void onSubscribe(Flow.Subscription subscription) {
    this.subscription = subscription;
    subscription.request(Long.MAX_VALUE);
    endIfWhole();
  }

  @Override
  public void onNext(List<ByteBuffer> buffers) {
    for (ByteBuffer buffer : buffers) {
      byte[] bytes = new byte[buffer.remaining()];
      buffer.get(bytes);
      read.writeBytes(bytes);
    }
    endIfWhole();
  }

  @Override
  public void onError(Throwable error) {
    body.completeExceptionally(error);
  }

  @Override
  public void onComplete() {
    body.complete(read.toString(StandardCharsets.UTF_8));
  }

  private void endIfWhole() {
    if (read.size() >= length) {
      onComplete();
      subscription.cancel();
    }
  }
}
