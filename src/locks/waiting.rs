//! Who waits for a lock, and who is woken.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::protocol::{LockId, LockName, Mono};
use crate::telemetry::Telemetry;

/// How long a request that has been answered is remembered: a wake-up may have been on its way to it.
const ANSWERED_SPAN: Duration = Duration::from_secs(30);

/// What a wake-up means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// Somebody waits for it, and was woken.
    Rung,
    /// The request was answered meanwhile; there is nothing to do.
    Answered,
    /// Nobody knows of it: its ticket must go, or nobody behind it is woken.
    Unknown,
}

#[derive(Debug, Default)]
struct Inner {
    bells: HashMap<LockId, (Arc<Notify>, Vec<LockName>)>,
    answered: VecDeque<(Mono, LockId)>,
    holds: usize,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Waiting {
    inner: Mutex<Inner>,
    max: usize,
    telemetry: Telemetry,
}

/// One place for a connection that holds a lock, given back on drop.
#[derive(Debug)]
pub(super) struct HoldPlace(Arc<Waiting>);

impl Drop for HoldPlace {
    fn drop(&mut self) {
        self.0.lock().holds -= 1;
    }
}

impl Waiting {
    /// Room for `max` requests that wait and connections that hold, together.
    pub(super) fn new(max: usize, telemetry: Telemetry) -> Self {
        Self { inner: Mutex::default(), max, telemetry }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing panics while it is held.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place for a request that will wait; none when there is no more room. The bell keeps one ring, so that a
    /// wake-up which overtakes the answer it belongs to is not lost.
    pub(super) fn enter(&self, id: LockId, names: &[LockName]) -> Option<Arc<Notify>> {
        let mut inner = self.lock();
        if inner.bells.len() + inner.holds >= self.max {
            return None;
        }
        let bell = Arc::new(Notify::new());
        inner.bells.insert(id, (Arc::clone(&bell), names.to_vec()));
        self.telemetry.locks_waiting(inner.bells.len());
        Some(bell)
    }

    /// The request waits no more. `answered`: it was granted, so a wake-up that comes late is no ticket left behind.
    pub(super) fn leave(&self, id: LockId, answered: bool, now: Mono) {
        let mut inner = self.lock();
        if inner.bells.remove(&id).is_some() && answered {
            inner.answered.push_back((now, id));
        }
        self.telemetry.locks_waiting(inner.bells.len());
    }

    /// Takes a place for a connection that holds a lock.
    pub(super) fn hold(self: &Arc<Self>) -> Option<HoldPlace> {
        let mut inner = self.lock();
        (inner.bells.len() + inner.holds < self.max).then(|| {
            inner.holds += 1;
            HoldPlace(Arc::clone(self))
        })
    }

    /// The store says that this request should ask again.
    pub(super) fn wake(&self, id: LockId) -> Heard {
        let inner = self.lock();
        match inner.bells.get(&id) {
            Some((bell, _)) => {
                bell.notify_one();
                Heard::Rung
            }
            None if inner.answered.iter().any(|(_, answered)| *answered == id) => Heard::Answered,
            None => Heard::Unknown,
        }
    }

    /// Everybody should ask again.
    pub(super) fn wake_all(&self) {
        self.lock().bells.values().for_each(|(bell, _)| bell.notify_one());
    }

    /// Every name that is waited for, as often as it is.
    pub(super) fn each_name(&self, tell: impl FnMut(&LockName)) {
        self.lock().bells.values().flat_map(|(_, names)| names).for_each(tell);
    }

    /// How many wait.
    pub(super) fn count(&self) -> usize {
        self.lock().bells.len()
    }

    /// Whether nobody waits, and nobody is remembered who did.
    pub(super) fn is_empty(&self) -> bool {
        let inner = self.lock();
        inner.bells.is_empty() && inner.answered.is_empty()
    }

    /// Forgets requests that were answered a while ago.
    pub(super) fn tidy(&self, now: Mono) {
        let mut inner = self.lock();
        while inner.answered.front().is_some_and(|(at, _)| now.since(*at) > ANSWERED_SPAN) {
            inner.answered.pop_front();
        }
    }
}
