//! A lock that goes from one request of this sidecar to the next in one step of the store, without anybody being woken.
//! All there is about it is here: the rest of the room opens a [`Slot`], stands in [`Lines`], keeps a [`Turn`] beside
//! each lock, and asks [`hand_over`] before it releases one.
//!
//! Others wait for it beside other sidecars, and have tickets: so a lock goes on here for a turn only. Then the next
//! request stands back for everybody who is queued before it.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::held::Held;
use super::service::LockService;
use super::waiters::Waiter;
use crate::protocol::{
    AcquireReply, AcquireRequest, HandOverRequest, LockName, LockReleaseReply, LockReleaseRequest, Mono, Queueing,
};
use crate::store::{HandedOver, StoreError};
use crate::telemetry::StoreCommand;

/// How often in a row a lock is handed over here while others may wait for it elsewhere.
pub(super) const TURN_MAX: u32 = 32;
/// For how long, if that is over first.
const TURN_SPAN: Duration = Duration::from_millis(50);

/// How long a lock has gone from request to request of this sidecar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    begun: Mono,
    handovers: u32,
}

impl Turn {
    pub(super) fn begin(now: Mono) -> Self {
        Self { begun: now, handovers: 0 }
    }

    fn is_over(self, now: Mono) -> bool {
        self.handovers >= TURN_MAX || now.since(self.begun) >= TURN_SPAN
    }

    /// That of who gets the lock next.
    fn next(self, now: Mono) -> Self {
        if self.is_over(now) { Self::begin(now) } else { Self { handovers: self.handovers + 1, ..self } }
    }
}

/// One request to the store for a lock.
#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) reply: Result<AcquireReply, StoreError>,
    /// What is granted counts from then (R2).
    pub(super) sent_at: Mono,
    pub(super) turn: Turn,
}

/// Where a request that sleeps can be handed a lock: whoever takes the sender makes an attempt on its behalf.
#[derive(Debug, Default)]
pub(super) struct Slot(Mutex<Option<oneshot::Sender<Attempt>>>);

impl Slot {
    /// The request does nothing of its own for a while.
    pub(super) fn open(&self) -> oneshot::Receiver<Attempt> {
        let (offer, handed) = oneshot::channel();
        *self.0.lock() = Some(offer);
        handed
    }

    /// The request is about to ask, or to leave: nothing is handed over to it from now on. What is being handed over
    /// has to be waited for.
    pub(super) async fn close(&self, handed: oneshot::Receiver<Attempt>) -> Option<Attempt> {
        if self.take().is_some() { None } else { handed.await.ok() }
    }

    fn take(&self) -> Option<oneshot::Sender<Attempt>> {
        self.0.lock().take()
    }
}

/// Whether a lock is of one name, and one holder's alone: only such a lock is handed over.
pub(super) fn is_exclusive(names: &[LockName], permits: u32) -> bool {
    names.len() == 1 && permits == 1
}

/// Of each name, the requests that wait for it alone and for themselves, in the order of their coming.
#[derive(Debug, Default)]
pub(super) struct Lines(Mutex<HashMap<LockName, VecDeque<Arc<Waiter>>>>);

impl Lines {
    /// Stands in line. The name, if this request may rest because the lock will come to it: another has it here, or
    /// others stand before it.
    pub(super) fn join<'a>(&self, waiter: &'a Arc<Waiter>, held: &Held, now: Mono) -> Option<&'a LockName> {
        let name = name_of(waiter)?;
        let AcquireRequest { queueing, owner, .. } = &waiter.request;
        let mut lines = self.0.lock();
        let line = lines.entry(name.clone()).or_default();
        line.push_back(Arc::clone(waiter));
        // An owner may take its own lock again.
        let may_rest = held.owner_of(name, now).map_or(line.len() > 1, |holder| holder != *owner);
        (may_rest && *queueing == Queueing::Plain).then_some(name)
    }

    pub(super) fn leave(&self, waiter: &Waiter) {
        let Some(name) = name_of(waiter) else { return };
        let mut lines = self.0.lock();
        if let Some(line) = lines.get_mut(name) {
            line.retain(|other| other.request.id != waiter.request.id);
            if line.is_empty() {
                lines.remove(name);
            }
        }
    }

    /// A request of this owner was granted: those of the same owner may have the lock, too.
    pub(super) fn ring(&self, granted: &Waiter) {
        let Some(name) = name_of(granted) else { return };
        let AcquireRequest { id, ref owner, .. } = granted.request;
        let lines = self.0.lock();
        let others = lines.get(name).into_iter().flatten().filter(|other| other.request.id != id);
        others.filter(|other| other.request.owner == *owner).for_each(|other| other.bell.notify_one());
    }

    /// Who has waited for the longest, of those who sleep.
    fn next(&self, name: &LockName) -> Option<(Arc<Waiter>, oneshot::Sender<Attempt>)> {
        self.0.lock().get(name)?.iter().find_map(|waiter| Some((Arc::clone(waiter), waiter.slot.take()?)))
    }
}

fn name_of(waiter: &Waiter) -> Option<&LockName> {
    let AcquireRequest { names, permits, .. } = &waiter.request;
    names.first().filter(|_| is_exclusive(names, *permits))
}

/// Gives a lock back and asks for it on behalf of a request that waits here, if any does. None when nobody does, or
/// when there is no answer: then it has to be given back by itself, by the same request.
pub(super) async fn hand_over(
    service: &LockService,
    release: &LockReleaseRequest,
    turn: Turn,
) -> Option<LockReleaseReply> {
    let (waiter, offer) = service.lines.next(release.names.first()?)?;
    let acquire = AcquireRequest { floor: service.held.floor(), ..waiter.request.clone() };
    let sent_at = service.now();
    let request = HandOverRequest { release: release.clone(), acquire, yields: turn.is_over(sent_at) };
    let (released, reply) = match service.timed(StoreCommand::LockHandOver, service.store.hand_over(request)).await {
        Ok(HandedOver { released, acquired }) => (Some(released), acquired),
        // It asks again by itself: it may have it.
        Err(error) => (None, Err(error)),
    };
    // A waiter does not leave before it is told.
    let _ = offer.send(Attempt { reply, sent_at, turn: turn.next(sent_at) });
    released
}
