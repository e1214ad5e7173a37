//! A lock that goes from one request of this sidecar to the next, without a word to the store ([`LockTurn`]). All there
//! is about it is here: the rest of the room opens a [`Slot`], stands in [`Lines`], keeps the turn beside each lock,
//! and asks [`pass_on`] before it releases one.
//!
//! Others wait for it beside other sidecars, and have tickets: so it goes on here for a turn only. Then the next
//! request asks the store, and stands back for everybody who is queued before it.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use tokio::sync::oneshot;

use super::extend::extend_once;
use super::held::Held;
use super::service::LockService;
use super::waiters::Waiter;
use crate::base::sync::Mutex;
use crate::base::sync::atomic::Ordering;
use crate::protocol::{AcquireRequest, LockId, LockName, LockTurn, Mono, Queueing, Token, TurnSeat};

/// A lock on its way from one request to the next, with the token that this one has.
#[derive(Debug)]
pub(super) struct Passed {
    pub(super) token: Token,
    pub(super) given: Given,
}

/// A turn under way.
#[derive(Clone, Debug)]
pub(super) struct Given {
    pub(super) turn: LockTurn,
    /// Requests that were served in it and have tickets.
    pub(super) served: Vec<LockId>,
}

impl Given {
    pub(super) fn seat(&self) -> TurnSeat {
        TurnSeat { id: self.turn.seat(), served: self.served.clone() }
    }
}

/// Where a request that sleeps can be given a lock.
#[derive(Debug, Default)]
pub(super) struct Slot(Mutex<Option<oneshot::Sender<Passed>>>);

impl Slot {
    /// The request does nothing of its own for a while.
    pub(super) fn open(&self) -> oneshot::Receiver<Passed> {
        let (offer, passed) = oneshot::channel();
        *self.0.lock() = Some(offer);
        passed
    }

    /// The request is about to ask, or to leave: nothing is passed on to it from now on. What was is returned.
    pub(super) async fn close(&self, passed: oneshot::Receiver<Passed>) -> Option<Passed> {
        if self.take().is_some() { None } else { passed.await.ok() }
    }

    /// The request sleeps, at this moment.
    fn is_open(&self) -> bool {
        self.0.lock().is_some()
    }

    fn take(&self) -> Option<oneshot::Sender<Passed>> {
        self.0.lock().take()
    }
}

/// Whether a lock is of one name, and one holder's alone: only such a lock is passed on.
pub(super) fn is_exclusive(names: &[LockName], permits: u32) -> bool {
    names.len() == 1 && permits == 1
}

/// Whether a request may have its lock from another one, and pass it on: not where it is to be shut for a while after.
pub(super) fn may_have_turns(request: &AcquireRequest) -> bool {
    is_exclusive(&request.names, request.permits) && request.at_least.is_zero()
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

    /// Whether others wait for the same beside this request.
    pub(super) fn has_others(&self, request: &AcquireRequest) -> bool {
        let lines = self.0.lock();
        let line = request.names.first().and_then(|name| lines.get(name));
        line.into_iter().flatten().any(|other| other.request.id != request.id)
    }

    /// A request of this owner was granted: those of the same owner may have the lock, too.
    pub(super) fn ring(&self, granted: &Waiter) {
        let AcquireRequest { id, ref owner, ref names, permits, .. } = granted.request;
        let Some(name) = names.first().filter(|_| is_exclusive(names, permits)) else { return };
        let lines = self.0.lock();
        let others = lines.get(name).into_iter().flatten().filter(|other| other.request.id != id);
        others.filter(|other| other.request.owner == *owner).for_each(|other| other.bell.notify_one());
    }

    /// The turn is over, or there was none: who has waited for the longest asks by itself, after those who wait
    /// elsewhere. One that has a ticket is woken by the store when it is its turn.
    pub(super) fn wake_next(&self, name: &LockName) {
        let lines = self.0.lock();
        let first = lines.get(name).and_then(VecDeque::front);
        if let Some(first) = first.filter(|first| !first.has_ticket.load(Ordering::Relaxed)) {
            first.yields.store(true, Ordering::Relaxed);
            first.bell.notify_one();
        }
    }

    /// Gives a lock to who has waited for the longest, of those who sleep, if the turn goes on with it. A fair
    /// request has its place in the store, and is not passed by.
    fn pass(&self, name: &LockName, given: Given, now: Mono) -> Result<(), Given> {
        let lines = self.0.lock();
        let line = lines.get(name).into_iter().flatten();
        let mut plain = line.take_while(|waiter| waiter.request.queueing == Queueing::Plain);
        let Some(waiter) = plain.find(|waiter| waiter.slot.is_open()) else { return Err(given) };
        let mut turn = given.turn.clone();
        let (Some(token), Some(offer)) = (turn.pass(now, waiter.request.lease), waiter.slot.take()) else {
            return Err(given);
        };
        let mut served = given.served;
        if waiter.has_ticket.load(Ordering::Relaxed) {
            served.push(waiter.request.id);
        }
        // A waiter does not leave before it is told.
        let _ = offer.send(Passed { token, given: Given { turn, served } });
        Ok(())
    }
}

fn name_of(waiter: &Waiter) -> Option<&LockName> {
    waiter.request.names.first().filter(|_| may_have_turns(&waiter.request))
}

/// Passes a lock on within its turn, if somebody waits here who may have it. What is left of the turn otherwise.
pub(super) fn pass_on(service: &LockService, name: &LockName, given: Given) -> Result<(), Given> {
    if service.is_stopping() { Err(given) } else { service.lines.pass(name, given, service.now()) }
}

/// At the end of a turn the store is told who has the lock, if somebody still has: so that it can be seen, extended and
/// released through every sidecar.
pub(super) async fn settle(service: Arc<LockService>, name: LockName, turn: LockTurn) {
    tokio::select! {
        () = tokio::time::sleep(turn.ends_at().since(service.now())) => {}
        () = service.upkeep.stopping() => {}
    }
    if let Some(id) = service.held.in_seat(&name, turn.seat(), service.now()) {
        // Whoever extends or releases it tells the same.
        let _ = extend_once(&service, &name, id, None).await;
    }
}

#[cfg(feature = "shuttle")]
#[cfg(test)]
mod schedules;
