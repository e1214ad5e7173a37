//! Who waits here for a lock, who is woken, and how many may wait and hold at once.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use super::turns::Slot;
use crate::base::sync::Mutex;
use crate::base::sync::atomic::AtomicBool;
use crate::protocol::{AcquireRequest, LockId, LockName, Mono};
use crate::telemetry::Telemetry;

/// How long a request that was granted is remembered: a wake-up may have been on its way to it.
const GRANTED_SPAN: Duration = Duration::from_secs(30);

/// A request for a lock.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) request: AcquireRequest,
    /// The lock may be free: ask. One ring is kept, so that none is lost which overtakes the answer it belongs to.
    pub(super) bell: Notify,
    pub(super) slot: Slot,
    /// The store has a ticket for it.
    pub(super) has_ticket: AtomicBool,
    /// When it asks next, it stands back for everybody who has a ticket before it.
    pub(super) yields: AtomicBool,
}

impl Waiter {
    pub(super) fn new(request: AcquireRequest) -> Self {
        let (has_ticket, yields) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { request, bell: Notify::new(), slot: Slot::default(), has_ticket, yields }
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Waiters {
    inner: Mutex<Inner>,
    places: Arc<Semaphore>,
    telemetry: Telemetry,
}

#[derive(Debug, Default)]
struct Inner {
    waiting: HashMap<LockId, (Arc<Waiter>, OwnedSemaphorePermit)>,
    granted: HashMap<LockId, Mono>,
}

impl Waiters {
    /// Room for `max` requests that wait and connections that hold, together.
    pub(super) fn new(max: usize, telemetry: Telemetry) -> Self {
        Self { inner: Mutex::default(), places: Arc::new(Semaphore::new(max)), telemetry }
    }

    /// A place, until it is dropped; none when all are taken.
    pub(super) fn place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.places).try_acquire_owned().ok()
    }

    /// Takes a place for a request; whether there was one.
    pub(super) fn enter(&self, waiter: &Arc<Waiter>) -> bool {
        let Some(place) = self.place() else { return false };
        let mut inner = self.inner.lock();
        inner.waiting.insert(waiter.request.id, (Arc::clone(waiter), place));
        self.telemetry.locks_waiting(inner.waiting.len());
        true
    }

    /// The request waits no more. If the store has granted it, a wake-up that comes late is no ticket left behind.
    pub(super) fn leave(&self, id: LockId, is_granted: bool, now: Mono) {
        let mut inner = self.inner.lock();
        if inner.waiting.remove(&id).is_some() && is_granted {
            inner.granted.insert(id, now);
        }
        self.telemetry.locks_waiting(inner.waiting.len());
    }

    /// The store says that this request should ask again; whether it is known here.
    pub(super) fn wake(&self, id: LockId) -> bool {
        let inner = self.inner.lock();
        if let Some((waiter, _)) = inner.waiting.get(&id) {
            waiter.bell.notify_one();
            return true;
        }
        inner.granted.contains_key(&id)
    }

    /// Everybody should ask again.
    pub(super) fn wake_all(&self) {
        self.inner.lock().waiting.values().for_each(|(waiter, _)| waiter.bell.notify_one());
    }

    /// Every name that is waited for, as often as it is.
    pub(super) fn each_name(&self, tell: impl FnMut(&LockName)) {
        self.inner.lock().waiting.values().flat_map(|(waiter, _)| &waiter.request.names).for_each(tell);
    }

    /// How many wait.
    pub(super) fn count(&self) -> usize {
        self.inner.lock().waiting.len()
    }

    /// Forgets requests that were granted a while ago.
    pub(super) fn tidy(&self, now: Mono) {
        self.inner.lock().granted.retain(|_, at| now.since(*at) <= GRANTED_SPAN);
    }
}

#[cfg(feature = "shuttle")]
#[cfg(test)]
mod schedules;
