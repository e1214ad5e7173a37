//! A watch on one object. It begins with what the object is at that moment, so that nothing is resumed: an ended one
//! (they all end, after minutes) is followed by another.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use k8s_openapi::api::coordination::v1::Lease;
use kube::core::WatchEvent;

use super::errors::chain;
use crate::base::Backoff;
use crate::base::clock::{BootClock, Clock};
use crate::protocol::Mono;

/// One that lasts so much longer than the server was asked for is dead.
const GRACE: Duration = Duration::from_secs(10);
/// One that lived for so long works; after one that ended sooner the pause is longer.
const STEADY: Duration = Duration::from_secs(1);

/// An object that says its name.
pub trait Named {
    fn name(&self) -> Option<&str>;
}

impl Named for Lease {
    fn name(&self) -> Option<&str> {
        self.metadata.name.as_deref()
    }
}

/// What a watch tells.
#[derive(Debug)]
pub enum Change<T> {
    /// The object is so.
    Present(T),
    /// It is gone; this was its last state.
    Gone(T),
}

pub struct Watch<T> {
    events: BoxStream<'static, Result<WatchEvent<T>, kube::Error>>,
    name: String,
    opened_at: Mono,
    over_at: Mono,
}

impl<T: Named> Watch<T> {
    pub(super) fn new(
        events: BoxStream<'static, Result<WatchEvent<T>, kube::Error>>,
        name: &str,
        seconds: u32,
    ) -> Self {
        let opened_at = BootClock.now();
        let over_at = opened_at + Duration::from_secs(seconds.into()) + GRACE;
        Self { events, name: name.to_owned(), opened_at, over_at }
    }

    /// The next change. Nothing is lost when this is dropped before it ends.
    ///
    /// # Errors
    /// The watch is over; why, in words.
    pub async fn next(&mut self) -> Result<Change<T>, String> {
        loop {
            let event = tokio::time::timeout(self.over_at.since(BootClock.now()), self.events.next()).await;
            let change = match event {
                Ok(Some(Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)))) => Change::Present(object),
                Ok(Some(Ok(WatchEvent::Deleted(object)))) => Change::Gone(object),
                Ok(Some(Ok(WatchEvent::Bookmark(_)))) => continue,
                // 410: the server no longer knows what happened since. The next watch begins with what is.
                Ok(Some(Ok(WatchEvent::Error(status)))) => return Err(format!("{} ({})", status.message, status.code)),
                Ok(Some(Err(error))) => return Err(chain(&error)),
                Ok(None) | Err(_) => return Err("its time was up".to_owned()),
            };
            let (Change::Present(object) | Change::Gone(object)) = &change;
            if object.name() == Some(&self.name) {
                return Ok(change);
            }
        }
    }
}

/// The pauses between the watches of one object.
#[derive(Debug)]
pub struct Reopening(Backoff);

impl Reopening {
    pub const fn new(backoff: Backoff) -> Self {
        Self(backoff)
    }

    /// It was open, and is over.
    pub fn ended<T>(&mut self, watch: &Watch<T>) {
        if BootClock.now().since(watch.opened_at) >= STEADY {
            self.0.reset();
        }
    }

    /// How long to wait before the next. `most`: it does not grow beyond this.
    pub fn pause(&mut self, most: Duration) -> Duration {
        self.0.next(most)
    }
}
