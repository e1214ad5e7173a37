//! The locks that were granted through this sidecar: what it takes to put one back where the store has lost it, and all
//! names of a lock that is extended or released under one of them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use super::handover::{Turn, is_exclusive};
use super::service::Granted;
use crate::protocol::{AcquireRequest, LockGrant, LockId, LockName, Mono, Restore, SessionId, Token};
use crate::telemetry::{LockEvent, Telemetry};

/// More than an app holds. One beyond is not remembered: it is extended and released by its id alone.
const LOCKS_MAX: usize = 100_000;

/// One lock.
#[derive(Clone, Debug)]
pub(super) struct HeldLock {
    pub(super) names: Vec<LockName>,
    owner: Arc<str>,
    token: Token,
    holds: u32,
    permits: u32,
    lease: Duration,
    /// Until when it may be acted upon (R2).
    pub(super) valid_until: Mono,
    turn: Turn,
    /// Whoever renews it for its owner has this, too: that one tells and counts when it is lost.
    renewed: Arc<()>,
}

impl HeldLock {
    /// The turn of a lock that may be handed over once it is given back: this is the last hold of it.
    pub(super) fn last_turn(&self) -> Option<Turn> {
        (self.holds <= 1 && is_exclusive(&self.names, self.permits)).then_some(self.turn)
    }

    /// What puts it back (R4).
    pub(super) fn restore(self, session: SessionId, identity: &Arc<str>) -> Box<Restore> {
        let Self { owner, token, holds, permits, lease, .. } = self;
        Box::new(Restore { session, owner, identity: Arc::clone(identity), token, holds, permits, lease })
    }
}

/// See the module. A lock goes when it is released, lost, or past its validity, and none is found past it: a lock that
/// nobody may act upon is never put back.
#[derive(Debug)]
pub(super) struct Held {
    locks: Mutex<HashMap<LockId, HeldLock>>,
    /// Who holds a name alone and for itself. It may be gone since: tidied with the rest.
    by_name: Mutex<HashMap<LockName, LockId>>,
    /// The greatest token seen of any lock (R3).
    floor: AtomicU64,
    telemetry: Telemetry,
}

impl Held {
    pub(super) fn new(telemetry: Telemetry) -> Self {
        Self { locks: Mutex::default(), by_name: Mutex::default(), floor: AtomicU64::new(0), telemetry }
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

    /// The lock, while it may be acted upon.
    pub(super) fn get(&self, id: LockId, now: Mono) -> Option<HeldLock> {
        self.locks.lock().get(&id).filter(|lock| now < lock.valid_until).cloned()
    }

    /// The owner that holds this name alone and for itself, while it may be acted upon.
    pub(super) fn owner_of(&self, name: &LockName, now: Mono) -> Option<Arc<str>> {
        let id = *self.by_name.lock().get(name)?;
        self.get(id, now).map(|lock| lock.owner)
    }

    /// Notes a grant. `valid_until` is the request's; a lock that its owner had already may be valid for longer.
    pub(super) fn granted(&self, grant: LockGrant, request: &AcquireRequest, valid_until: Mono, turn: Turn) -> Granted {
        let LockGrant { id, token, holds } = grant;
        let mut locks = self.locks.lock();
        let lock = match locks.remove(&id) {
            Some(known) => HeldLock {
                holds,
                lease: known.lease.max(request.lease),
                valid_until: known.valid_until.max(valid_until),
                ..known
            },
            None => HeldLock {
                names: request.names.clone(),
                owner: Arc::clone(&request.owner),
                token,
                holds,
                permits: request.permits,
                lease: request.lease,
                valid_until,
                turn,
                renewed: Arc::default(),
            },
        };
        let granted = Granted { id, token, holds, lease: lock.lease, valid_until: lock.valid_until };
        if locks.len() < LOCKS_MAX {
            if is_exclusive(&lock.names, lock.permits) {
                self.by_name.lock().extend(lock.names.first().map(|name| (name.clone(), id)));
            }
            locks.insert(id, lock);
        }
        self.count(locks);
        granted
    }

    /// Notes an extension.
    pub(super) fn extended(&self, id: LockId, holds: u32, lease: Duration, valid_until: Mono) {
        if let Some(lock) = self.locks.lock().get_mut(&id) {
            (lock.holds, lock.lease, lock.valid_until) = (holds, lease, valid_until);
        }
    }

    /// A hold is about to be given back: if it is the last, nothing puts the lock back from here on. The lock as it
    /// was, if it could be acted upon.
    pub(super) fn begin_release(&self, id: LockId, now: Mono) -> Option<HeldLock> {
        let mut locks = self.locks.lock();
        let known = locks.get(&id).filter(|lock| now < lock.valid_until).cloned();
        if known.as_ref().is_none_or(|lock| lock.holds <= 1) {
            locks.remove(&id);
        }
        self.count(locks);
        known
    }

    /// Notes how many holds are left.
    pub(super) fn left(&self, id: LockId, holds: u32) {
        let mut locks = self.locks.lock();
        if holds == 0 {
            locks.remove(&id);
        } else if let Some(lock) = locks.get_mut(&id) {
            lock.holds = holds;
        }
        self.count(locks);
    }

    /// A lock is gone. One that was given back meanwhile is not lost.
    pub(super) fn lost(&self, id: LockId, name: &LockName) {
        let mut locks = self.locks.lock();
        if let Some(lock) = locks.remove(&id) {
            self.telemetry.record_lock(&LockEvent::Lost { name: name.clone(), token: lock.token });
        }
        self.count(locks);
    }

    /// Keeps a lock past its validity until this is dropped, so that [`Self::lost`] finds it. The lock may have other
    /// holds, which nobody may renew.
    pub(super) fn renewed(&self, id: LockId) -> Option<Arc<()>> {
        self.locks.lock().get(&id).map(|lock| Arc::clone(&lock.renewed))
    }

    /// Forgets what may not be acted upon any more, unless somebody is still to tell and count that.
    pub(super) fn tidy(&self, now: Mono) {
        let mut locks = self.locks.lock();
        locks.retain(|_, lock| now < lock.valid_until || Arc::strong_count(&lock.renewed) > 1);
        self.by_name.lock().retain(|_, id| locks.contains_key(id));
        self.count(locks);
    }

    fn count(&self, locks: MutexGuard<'_, HashMap<LockId, HeldLock>>) {
        self.telemetry.locks_held(locks.len());
    }
}
