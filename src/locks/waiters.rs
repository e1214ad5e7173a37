//! Who waits for a lock, who is woken, and to whom a lock may be handed over.

use parking_lot::{Mutex, MutexGuard};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, oneshot};

use super::handover::Offered;
use super::is_exclusive;
use crate::protocol::{AcquireRequest, LockId, LockName, Mono};
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

/// What rouses a waiter. Each keeps one ring, so that none is lost which overtakes the answer it belongs to.
#[derive(Debug, Default)]
pub(super) struct Bell {
    /// The lock may be free: ask.
    pub(super) free: Notify,
    /// What was offered has come to something.
    pub(super) offered: Notify,
}

/// What a waiter is doing.
#[derive(Debug)]
enum Doing {
    /// A request of its own is out.
    Asking,
    /// Nothing. `ticket`: the store has queued it.
    Nothing { ticket: bool },
    /// A lock is being handed over to it; what comes of it is told here.
    Offered(oneshot::Receiver<Offered>),
}

#[derive(Debug)]
struct Waiter {
    bell: Arc<Bell>,
    request: Arc<AcquireRequest>,
    doing: Doing,
}

#[derive(Debug, Default)]
struct Inner {
    waiters: HashMap<LockId, Waiter>,
    /// Of each name, those who want it alone and for themselves, in the order of their coming.
    lines: HashMap<LockName, VecDeque<LockId>>,
    answered: VecDeque<(Mono, LockId)>,
    holds: usize,
}

impl Inner {
    fn line(&self, name: &LockName) -> impl Iterator<Item = (LockId, &Waiter)> {
        let line = self.lines.get(name).into_iter().flatten();
        line.filter_map(|id| Some((*id, self.waiters.get(id)?)))
    }

    /// Whether the store hears of a name's line: by a ticket, or by a request that is out.
    fn is_represented(&self, name: &LockName) -> bool {
        self.line(name).any(|(_, waiter)| !matches!(waiter.doing, Doing::Nothing { ticket: false }))
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Waiting {
    inner: Mutex<Inner>,
    max: usize,
    telemetry: Telemetry,
}

/// A waiter to whom a lock is being handed over. It waits until it is told what came of it, or this is dropped.
#[derive(Debug)]
pub(super) struct Offer {
    pub(super) request: Arc<AcquireRequest>,
    bell: Arc<Bell>,
    answer: Option<oneshot::Sender<Offered>>,
}

impl Offer {
    pub(super) fn answer(mut self, offered: Offered) {
        if let Some(answer) = self.answer.take() {
            // A waiter does not leave before it is told.
            let _ = answer.send(offered);
        }
    }
}

impl Drop for Offer {
    fn drop(&mut self) {
        self.answer = None;
        self.bell.offered.notify_one();
    }
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
        self.inner.lock()
    }

    /// Takes a place for a request that will wait, and is about to ask; none when there is no more room.
    pub(super) fn enter(&self, request: &Arc<AcquireRequest>) -> Option<Arc<Bell>> {
        let mut inner = self.lock();
        if inner.waiters.len() + inner.holds >= self.max {
            return None;
        }
        let bell = Arc::new(Bell::default());
        let waiter = Waiter { bell: Arc::clone(&bell), request: Arc::clone(request), doing: Doing::Asking };
        inner.waiters.insert(request.id, waiter);
        if let Some(name) = exclusive_name(request) {
            match inner.lines.get_mut(name) {
                Some(line) => line.push_back(request.id),
                None => drop(inner.lines.insert(name.clone(), VecDeque::from([request.id]))),
            }
        }
        self.telemetry.locks_waiting(inner.waiters.len());
        Some(bell)
    }

    /// The request waits no more. `answered`: it was granted, so a wake-up that comes late is no ticket left behind.
    pub(super) fn leave(&self, id: LockId, answered: bool, now: Mono) {
        let mut inner = self.lock();
        if let Some(waiter) = inner.waiters.remove(&id) {
            if let Some(name) = exclusive_name(&waiter.request)
                && let Some(line) = inner.lines.get_mut(name)
            {
                if let Some(place) = line.iter().position(|other| *other == id) {
                    line.remove(place);
                }
                if line.is_empty() {
                    inner.lines.remove(name);
                }
            }
            if answered {
                inner.answered.push_back((now, id));
            }
        }
        self.telemetry.locks_waiting(inner.waiters.len());
    }

    /// The request does nothing for a while, so that a lock may be handed over to it.
    pub(super) fn nap(&self, id: LockId, ticket: bool) {
        if let Some(waiter) = self.lock().waiters.get_mut(&id) {
            waiter.doing = Doing::Nothing { ticket };
        }
    }

    /// The request is about to ask, or to leave: nothing is handed over to it from now on. What is being handed over
    /// has to be waited for.
    pub(super) fn rouse(&self, id: LockId) -> Option<oneshot::Receiver<Offered>> {
        let mut inner = self.lock();
        let waiter = inner.waiters.get_mut(&id)?;
        match std::mem::replace(&mut waiter.doing, Doing::Asking) {
            Doing::Offered(offered) => Some(offered),
            Doing::Asking | Doing::Nothing { .. } => None,
        }
    }

    /// Picks whom a lock of this name is handed over to: who has waited here for the longest, and has nothing under
    /// way.
    pub(super) fn offer(&self, name: &LockName) -> Option<Offer> {
        let mut inner = self.lock();
        let is_idle = |(_, waiter): &(LockId, &Waiter)| matches!(waiter.doing, Doing::Nothing { .. });
        let (id, _) = inner.line(name).find(is_idle)?;
        let waiter = inner.waiters.get_mut(&id)?;
        let (answer, offered) = oneshot::channel();
        waiter.doing = Doing::Offered(offered);
        let (request, bell) = (Arc::clone(&waiter.request), Arc::clone(&waiter.bell));
        Some(Offer { request, bell, answer: Some(answer) })
    }

    /// Whether somebody waits for this name of whom the store knows, or is about to.
    pub(super) fn is_represented(&self, name: &LockName) -> bool {
        self.lock().is_represented(name)
    }

    /// Somebody of this name's line has left, or lost the lock: if the store does not hear of the others otherwise, the
    /// first asks.
    pub(super) fn represent(&self, name: &LockName) {
        let inner = self.lock();
        if !inner.is_represented(name)
            && let Some((_, first)) = inner.line(name).next()
        {
            first.bell.free.notify_one();
        }
    }

    /// Takes a place for a connection that holds a lock.
    pub(super) fn hold(self: &Arc<Self>) -> Option<HoldPlace> {
        let mut inner = self.lock();
        (inner.waiters.len() + inner.holds < self.max).then(|| {
            inner.holds += 1;
            HoldPlace(Arc::clone(self))
        })
    }

    /// The store says that this request should ask again.
    pub(super) fn wake(&self, id: LockId) -> Heard {
        let inner = self.lock();
        match inner.waiters.get(&id) {
            Some(waiter) => {
                waiter.bell.free.notify_one();
                Heard::Rung
            }
            None if inner.answered.iter().any(|(_, answered)| *answered == id) => Heard::Answered,
            None => Heard::Unknown,
        }
    }

    /// Everybody should ask again.
    pub(super) fn wake_all(&self) {
        self.lock().waiters.values().for_each(|waiter| waiter.bell.free.notify_one());
    }

    /// Every name that is waited for, as often as it is.
    pub(super) fn each_name(&self, tell: impl FnMut(&LockName)) {
        self.lock().waiters.values().flat_map(|waiter| &waiter.request.names).for_each(tell);
    }

    /// How many wait.
    pub(super) fn count(&self) -> usize {
        self.lock().waiters.len()
    }

    /// Whether nobody waits, and nobody is remembered who did.
    pub(super) fn is_empty(&self) -> bool {
        let inner = self.lock();
        inner.waiters.is_empty() && inner.answered.is_empty()
    }

    /// Forgets requests that were answered a while ago.
    pub(super) fn tidy(&self, now: Mono) {
        let mut inner = self.lock();
        while inner.answered.front().is_some_and(|(at, _)| now.since(*at) > ANSWERED_SPAN) {
            inner.answered.pop_front();
        }
    }
}

/// The one name that a request wants for itself.
fn exclusive_name(request: &AcquireRequest) -> Option<&LockName> {
    request.names.first().filter(|_| is_exclusive(&request.names, request.permits))
}
