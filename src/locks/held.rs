//! The holds that were granted through this sidecar: what it takes to put one back where the store has lost it, all
//! names of one that is extended or released under one of them, and which one an owner names to take its lock again.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::service::{ANSWER_SPAN, Granted};
use super::turns::{Given, Passed, is_exclusive};
use crate::base::sync::Mutex;
use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::protocol::{AcquireRequest, LockGrant, LockId, LockName, LockTurn, Mono, Restore, Token, TurnSeat};
use crate::telemetry::{LockEvent, Telemetry};

/// More than an app holds. One beyond is not remembered: it is extended and released by its id alone.
const LOCKS_MAX: usize = 100_000;

/// How long after its validity a hold may still stand in the store, beyond the margin: its request was on the way.
const ON_THE_WAY_MAX: Duration = Duration::from_secs(2);

/// One hold.
#[derive(Clone, Debug)]
pub(super) struct HeldLock {
    pub(super) names: Vec<LockName>,
    owner: Arc<str>,
    token: Token,
    /// The last token of its turn; else the same.
    last: Token,
    permits: u32,
    /// The longest that it was granted or extended for.
    lease: Duration,
    /// Until when it is shut at least.
    keep_until: Mono,
    /// Until when it may be acted upon (R2).
    pub(super) valid_until: Mono,
    /// Past which nothing is promised of it, however often it is extended.
    promised_max: Option<Mono>,
    /// The turn that it has its place in, as long as the store may not know that it is its turn.
    given: Option<Given>,
    /// The turn may go on from here.
    passes: bool,
    /// Another had it before, in the same turn: the store has not granted it, and may have a ticket for it.
    pub(super) was_passed: bool,
    /// One request about it is under way at a time: what is extended late must not put back what is given back.
    pub(super) asking: Arc<tokio::sync::Mutex<()>>,
    /// Whoever renews it for its owner has this, too: that one tells and counts when it is lost. It is rung when an
    /// operator has ended it.
    renewed: Arc<Notify>,
}

/// A hold beside which its owner asks for another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Beside {
    pub(super) id: LockId,
    token: Token,
    /// The last token of its turn, which nobody else was granted.
    last: Token,
    /// The store knows that it is its turn.
    pub(super) is_told: bool,
}

impl HeldLock {
    fn new(request: &AcquireRequest, token: Token, valid_until: Mono, given: Option<Given>) -> Self {
        Self {
            names: request.names.clone(),
            owner: Arc::clone(&request.owner),
            token,
            last: given.as_ref().map_or(token, |given| given.turn.last()),
            permits: request.permits,
            lease: request.lease,
            keep_until: Mono::default(),
            valid_until,
            promised_max: None,
            passes: given.is_some(),
            given,
            was_passed: false,
            asking: Arc::default(),
            renewed: Arc::default(),
        }
    }

    /// What the store is to be told of its turn, and what is left of that.
    pub(super) fn given(&self) -> Option<Given> {
        self.given.clone()
    }

    /// What puts it back from now on (R4).
    pub(super) fn restore(self, identity: &Arc<str>, now: Mono) -> Box<Restore> {
        let at_least = self.keep_until.since(now);
        let Self { owner, token, last, permits, lease, .. } = self;
        Box::new(Restore { owner, identity: Arc::clone(identity), token, last, permits, lease, at_least })
    }

    /// From when on the store has certainly forgotten it.
    fn ends_at(&self) -> Mono {
        self.valid_until + self.lease / 25 + ON_THE_WAY_MAX
    }
}

/// See the module. A hold goes when it is released, lost, or when its lease is over. Past its validity, a little before
/// that, it is only there to be given back on all of its names: what nobody may act upon is never put back.
#[derive(Debug)]
pub(super) struct Held {
    locks: Mutex<HashMap<LockId, HeldLock>>,
    /// Those that were given back here and went on in their turn, until their lease would have ended: the store still
    /// has the seat, under one of these names perhaps, and must not be asked about it.
    gone: Mutex<HashMap<LockId, Mono>>,
    /// The holds whose first name this is, but for permits of semaphores. They may be gone since: tidied with the rest.
    by_name: Mutex<HashMap<LockName, Vec<LockId>>>,
    /// The greatest token seen of any lock (R3).
    floor: AtomicU64,
    telemetry: Telemetry,
}

impl Held {
    pub(super) fn new(telemetry: Telemetry) -> Self {
        Self {
            locks: Mutex::default(),
            gone: Mutex::default(),
            by_name: Mutex::default(),
            floor: AtomicU64::new(0),
            telemetry,
        }
    }

    /// A token was seen.
    pub(super) fn saw(&self, token: Token) {
        self.floor.fetch_max(token.get(), Ordering::Relaxed);
    }

    pub(super) fn floor(&self) -> Token {
        Token::new(self.floor.load(Ordering::Relaxed)).unwrap_or(Token::NONE)
    }

    /// Every name that is held, as often as it is.
    pub(super) fn each_name(&self, now: Mono, tell: impl FnMut(&LockName)) {
        let locks = self.locks.lock();
        locks.values().filter(|lock| now < lock.valid_until).flat_map(|lock| &lock.names).for_each(tell);
    }

    /// The hold, while it may be acted upon.
    pub(super) fn get(&self, id: LockId, now: Mono) -> Option<HeldLock> {
        self.locks.lock().get(&id).filter(|lock| now < lock.valid_until).cloned()
    }

    /// What is kept while a request about a hold is under way.
    pub(super) fn asking(&self, id: LockId) -> Arc<tokio::sync::Mutex<()>> {
        self.locks.lock().get(&id).map(|lock| Arc::clone(&lock.asking)).unwrap_or_default()
    }

    /// Whether a hold is known here, and not of this name.
    pub(super) fn is_of_others(&self, id: LockId, name: &LockName) -> bool {
        self.locks.lock().get(&id).is_some_and(|lock| !lock.names.contains(name))
    }

    /// Whether a hold is known here, and of this name alone.
    pub(super) fn is_alone(&self, id: LockId, name: &LockName) -> bool {
        self.locks.lock().get(&id).is_some_and(|lock| lock.names == std::slice::from_ref(name))
    }

    /// The holds whose first name this is, and that may be acted upon.
    fn under(&self, name: &LockName, now: Mono) -> Vec<(LockId, HeldLock)> {
        let ids = self.by_name.lock().get(name).cloned().unwrap_or_default();
        ids.into_iter().filter_map(|id| Some((id, self.get(id, now)?))).collect()
    }

    /// The owner that holds this name alone and for itself, while it may be acted upon.
    pub(super) fn owner_of(&self, name: &LockName, now: Mono) -> Option<Arc<str>> {
        let is_exclusive = |(_, lock): &(LockId, HeldLock)| is_exclusive(&lock.names, lock.permits);
        self.under(name, now).into_iter().find(is_exclusive).map(|(_, lock)| lock.owner)
    }

    /// The hold that the owner of a request has of just its names: the one that lasts the longest. Its turn ends with
    /// that.
    pub(super) fn beside(&self, request: &AcquireRequest, now: Mono) -> Option<Beside> {
        let AcquireRequest { names, owner, permits, .. } = request;
        if *permits > 1 {
            return None;
        }
        let mine = |(_, lock): &(LockId, HeldLock)| lock.owner == *owner && lock.names == *names;
        let holds = self.under(names.first()?, now).into_iter().filter(mine);
        let (id, _) = holds.max_by_key(|(_, lock)| lock.valid_until)?;
        let mut locks = self.locks.lock();
        let lock = locks.get_mut(&id)?;
        lock.passes = false;
        Some(Beside { id, token: lock.token, last: lock.last, is_told: lock.given.is_none() })
    }

    /// Whose turn it is in this seat, if the store is to be told.
    pub(super) fn in_seat(&self, name: &LockName, seat: LockId, now: Mono) -> Option<LockId> {
        let is_in = |(_, lock): &(LockId, HeldLock)| lock.given.as_ref().is_some_and(|given| given.turn.seat() == seat);
        self.under(name, now).into_iter().find(is_in).map(|(id, _)| id)
    }

    /// Notes what the store has granted; beside this, where it has the same token.
    pub(super) fn granted(
        &self,
        grant: LockGrant,
        request: &AcquireRequest,
        beside: Option<Beside>,
        valid_until: Mono,
        turn: Option<LockTurn>,
    ) -> Granted {
        let given = turn.map(|turn| Given { turn, served: Vec::new() });
        let mut lock = HeldLock::new(request, grant.token, valid_until, given);
        if let Some(beside) = beside.filter(|beside| beside.token == grant.token) {
            lock.last = beside.last;
        }
        self.note(request, grant.holds, lock)
    }

    /// Notes what was passed on.
    pub(super) fn passed(&self, request: &AcquireRequest, Passed { token, given }: Passed) -> Granted {
        let valid_until = given.turn.valid_until();
        let lock = HeldLock { was_passed: true, ..HeldLock::new(request, token, valid_until, Some(given)) };
        self.note(request, 1, lock)
    }

    fn note(&self, request: &AcquireRequest, holds: u32, lock: HeldLock) -> Granted {
        let AcquireRequest { id, lease, permits, .. } = *request;
        let (token, valid_until) = (lock.token, lock.valid_until);
        let mut locks = self.locks.lock();
        if locks.len() < LOCKS_MAX {
            if permits == 1
                && let Some(name) = request.names.first()
            {
                self.by_name.lock().entry(name.clone()).or_default().push(id);
            }
            locks.insert(id, lock);
        }
        self.count(&locks);
        Granted { id, token, holds, lease, valid_until }
    }

    /// A hold is shut until then, even if it is given back before.
    pub(super) fn keep(&self, id: LockId, until: Mono) {
        if let Some(lock) = self.locks.lock().get_mut(&id) {
            lock.keep_until = until;
        }
    }

    /// Nothing is promised of a hold past this moment.
    pub(super) fn promise_at_most(&self, id: LockId, until: Mono) {
        if let Some(lock) = self.locks.lock().get_mut(&id) {
            lock.promised_max = Some(until);
            lock.valid_until = lock.valid_until.min(until);
        }
    }

    /// A hold is about to be extended: its turn ends here. What the store is to be told of it.
    pub(super) fn seat(&self, id: LockId) -> Option<TurnSeat> {
        let mut locks = self.locks.lock();
        let lock = locks.get_mut(&id)?;
        lock.passes = false;
        lock.given.as_ref().map(Given::seat)
    }

    /// As if its validity ended then.
    #[cfg(test)]
    pub(super) fn shorten(&self, id: LockId, valid_until: Mono) {
        self.locks.lock().get_mut(&id).expect("it is held").valid_until = valid_until;
    }

    /// Notes an extension. Returns until when the hold may be acted upon now: never less long than before. None, if it
    /// is not known (any more).
    pub(super) fn extended(&self, id: LockId, lease: Duration, valid_until: Mono) -> Option<Mono> {
        let mut locks = self.locks.lock();
        let lock = locks.get_mut(&id)?;
        let valid_until = lock.promised_max.map_or(valid_until, |most| most.min(valid_until));
        (lock.lease, lock.valid_until) = (lock.lease.max(lease), lock.valid_until.max(valid_until));
        // It has been told now.
        lock.given = None;
        Some(lock.valid_until)
    }

    /// A hold is about to be given back: nothing puts it back from here on. The hold as it was; and whether its turn
    /// may go on, because it is the last hold of the lock.
    pub(super) fn begin_release(&self, id: LockId, now: Mono) -> Option<(HeldLock, bool)> {
        if let Some(lock) = self.locks.lock().get(&id).filter(|lock| lock.given.is_some()) {
            // What the store has never heard of is only remembered for who sends the same release again.
            let until = if lock.was_passed { now + ANSWER_SPAN } else { lock.ends_at() };
            self.gone.lock().insert(id, until);
        }
        let known = self.forget(id)?;
        let is_last = known.names.first().is_some_and(|name| self.under(name, now).is_empty());
        let passes = is_last && known.passes && now < known.valid_until;
        Some((known, passes))
    }

    /// Whether a hold was given back here in a turn.
    pub(super) fn is_gone(&self, id: LockId) -> bool {
        self.gone.lock().contains_key(&id)
    }

    /// Whether a hold has its place in a turn.
    pub(super) fn is_in_turn(&self, id: LockId) -> bool {
        self.locks.lock().get(&id).is_some_and(|lock| lock.given.is_some())
    }

    /// A hold was given back.
    pub(super) fn forget(&self, id: LockId) -> Option<HeldLock> {
        self.remove(&mut self.locks.lock(), id)
    }

    fn remove(&self, locks: &mut HashMap<LockId, HeldLock>, id: LockId) -> Option<HeldLock> {
        let known = locks.remove(&id);
        if let Some(name) = known.as_ref().and_then(|lock| lock.names.first()) {
            let mut by_name = self.by_name.lock();
            if let Some(ids) = by_name.get_mut(name) {
                ids.retain(|other| *other != id);
                if ids.is_empty() {
                    by_name.remove(name);
                }
            }
        }
        self.count(locks);
        known
    }

    /// A lock is gone. One that was given back meanwhile is not lost.
    pub(super) fn lost(&self, id: LockId, name: &LockName) {
        if let Some(lock) = self.forget(id) {
            self.telemetry.record_lock(&LockEvent::Lost { name: name.clone(), token: lock.token });
        }
    }

    /// The same of one whose promise is over. Not, if an extension has made that longer: until when it stands then.
    pub(super) fn lost_unless_promised(&self, id: LockId, name: &LockName, now: Mono) -> Option<Mono> {
        let mut locks = self.locks.lock();
        let promised = locks.get(&id).map(|lock| lock.valid_until).filter(|until| now < *until);
        if promised.is_none()
            && let Some(lock) = self.remove(&mut locks, id)
        {
            self.telemetry.record_lock(&LockEvent::Lost { name: name.clone(), token: lock.token });
        }
        promised
    }

    /// Keeps a hold past its lease until this is dropped, so that [`Self::lost`] finds it.
    pub(super) fn renewed(&self, id: LockId) -> Option<Arc<Notify>> {
        self.locks.lock().get(&id).map(|lock| Arc::clone(&lock.renewed))
    }

    /// Forgets what does not stand any more, unless somebody is still to tell and count that.
    pub(super) fn tidy(&self, now: Mono) {
        let mut locks = self.locks.lock();
        locks.retain(|_, lock| now < lock.ends_at() || Arc::strong_count(&lock.renewed) > 1);
        self.gone.lock().retain(|_, until| now < *until);
        self.by_name.lock().retain(|_, ids| {
            ids.retain(|id| locks.contains_key(id));
            !ids.is_empty()
        });
        self.count(&locks);
    }

    fn count(&self, locks: &HashMap<LockId, HeldLock>) {
        self.telemetry.locks_held(locks.len());
    }
}

#[cfg(feature = "shuttle")]
#[cfg(test)]
mod schedules;
