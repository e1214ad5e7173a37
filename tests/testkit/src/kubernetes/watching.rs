//! Watches: what there is, and then every change.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream;
use http_body_util::{BodyExt, StreamBody};
use hyper::Response;
use hyper::body::Frame;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::{Asked, Key, Reply, Shared, status};

/// One watch's place in the events.
struct Watching {
    shared: Arc<Shared>,
    key: Key,
    next: usize,
    first: Option<Value>,
    changed: watch::Receiver<u64>,
    ended: watch::Receiver<(u64, bool)>,
    over: bool,
}

/// Begins with what there is, unless a version is named, and goes on with every change.
pub(super) fn watch_stream(asked: &Asked, shared: &Arc<Shared>) -> Reply {
    let key = asked.key();
    let (changed, ended) = (shared.changed.subscribe(), shared.ended.subscribe());
    let world = shared.world();
    let from = asked.query.get("resourceVersion").and_then(|text| text.parse::<u64>().ok());
    let first =
        world.objects.get(&key).filter(|_| from.is_none()).map(|object| json!({"type": "ADDED", "object": object}));
    let seen = world.events.iter().position(|(version, ..)| from.is_some_and(|from| *version > from));
    let next = seen.unwrap_or(world.events.len());
    drop(world);
    let watching = Watching { shared: Arc::clone(shared), key, next, first, changed, ended, over: false };
    let lines = stream::unfold(watching, |mut watching| async move {
        let line = watching.next_line().await?;
        let frame = Frame::data(Bytes::from(format!("{line}\n")));
        Some((Ok::<_, Infallible>(frame), watching))
    });
    let response = Response::builder().header("content-type", "application/json");
    response.body(BodyExt::boxed(StreamBody::new(sync_stream(lines)))).expect("a response")
}

/// A stream that is only ever used by one task, as one that could be shared: bodies have to be.
fn sync_stream<S>(stream: S) -> impl futures_util::Stream<Item = S::Item> + Send + Sync + 'static
where
    S: futures_util::Stream + Send + 'static,
    S::Item: Send + 'static,
{
    let (sender, receiver) = tokio::sync::mpsc::channel(1);
    tokio::spawn(async move {
        use futures_util::StreamExt;
        let mut stream = std::pin::pin!(stream);
        loop {
            tokio::select! {
                item = stream.next() => match item {
                    Some(item) => if sender.send(item).await.is_err() { return },
                    None => return,
                },
                () = sender.closed() => return,
            }
        }
    });
    stream::unfold(receiver, |mut receiver| async move { receiver.recv().await.map(|item| (item, receiver)) })
}

impl Watching {
    async fn next_line(&mut self) -> Option<Value> {
        if self.over {
            return None;
        }
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        loop {
            {
                let world = self.shared.world();
                while let Some((_, kind, key, object)) = world.events.get(self.next) {
                    self.next += 1;
                    if *key == self.key {
                        return Some(json!({"type": kind, "object": object}));
                    }
                }
            }
            tokio::select! {
                changed = self.changed.changed() => changed.ok()?,
                ended = self.ended.changed() => {
                    ended.ok()?;
                    if !self.ended.borrow_and_update().1 {
                        return None;
                    }
                    self.over = true;
                    let gone = status(410, "Expired", self.key.0, "", "too old resource version: 1 (2)");
                    return Some(json!({"type": "ERROR", "object": gone}));
                }
            }
        }
    }
}
