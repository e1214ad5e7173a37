//! The locks that were granted through this sidecar: what it takes to put one back where the store has lost it, and all
//! names of a lock that is extended or released under one of them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::handover::Turn;
use super::is_exclusive;
use super::service::Granted;
use crate::protocol::{AcquireRequest, LockGrant, LockId, LockName, Mono, Restore, SessionId, Token};

/// More locks than an app holds. One beyond is not remembered: it is extended and released by its id alone.
const ENTRIES_MAX: usize = 100_000;

/// One lock.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) names: Vec<LockName>,
    pub(super) owner: Arc<str>,
    pub(super) token: Token,
    pub(super) holds: u32,
    pub(super) permits: u32,
    pub(super) lease: Duration,
    /// Until when it may be acted upon (R2).
    pub(super) valid_until: Mono,
    /// For how long it has gone from request to request here.
    pub(super) turn: Turn,
    /// How many renew it for its owner, and tell and count when it is lost.
    pub(super) keepers: u32,
}

impl Entry {
    /// The turn of a lock that may be handed over once it is given back: this is the last hold of it.
    pub(super) fn last_turn(&self) -> Option<Turn> {
        (self.holds <= 1 && is_exclusive(&self.names, self.permits)).then_some(self.turn)
    }

    /// What puts it back (R4).
    pub(super) fn restore(&self, session: SessionId, identity: &Arc<str>) -> Box<Restore> {
        Box::new(Restore {
            session,
            owner: Arc::clone(&self.owner),
            identity: Arc::clone(identity),
            token: self.token,
            holds: self.holds,
            permits: self.permits,
            lease: self.lease,
        })
    }
}

/// See the module. An entry goes when its lock is released, lost, or past its validity, and none is found past it: a
/// lock that nobody may act upon is never put back.
#[derive(Debug, Default)]
pub(super) struct Table {
    entries: HashMap<LockId, Entry>,
    /// Who holds a name alone and for itself. As its entry goes, this does.
    by_name: HashMap<LockName, LockId>,
}

impl Table {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Every name that is held, as often as it is.
    pub(super) fn each_name(&self, now: Mono, tell: impl FnMut(&LockName)) {
        let held = self.entries.values().filter(|entry| now < entry.valid_until);
        held.flat_map(|entry| &entry.names).for_each(tell);
    }

    /// The lock, while it may be acted upon.
    pub(super) fn get(&self, id: LockId, now: Mono) -> Option<&Entry> {
        self.entries.get(&id).filter(|entry| now < entry.valid_until)
    }

    /// The lock of who holds this name alone and for itself, while it may be acted upon.
    pub(super) fn holder_of(&self, name: &LockName, now: Mono) -> Option<&Entry> {
        self.get(*self.by_name.get(name)?, now)
    }

    /// Notes a grant. `valid_until` is the request's; a lock that its owner had already may be valid for longer.
    pub(super) fn granted(
        &mut self,
        grant: LockGrant,
        request: &AcquireRequest,
        valid_until: Mono,
        turn: Turn,
    ) -> Granted {
        let entry = Entry {
            names: request.names.clone(),
            owner: Arc::clone(&request.owner),
            token: grant.token,
            holds: grant.holds,
            permits: request.permits,
            lease: request.lease,
            valid_until,
            turn,
            keepers: 0,
        };
        let has_room = self.entries.len() < ENTRIES_MAX;
        let entry = match self.entries.get_mut(&grant.id) {
            Some(known) => {
                known.holds = grant.holds;
                known.lease = known.lease.max(entry.lease);
                known.valid_until = known.valid_until.max(valid_until);
                known.clone()
            }
            None if has_room => {
                if is_exclusive(&entry.names, entry.permits)
                    && let Some(name) = entry.names.first()
                {
                    self.by_name.insert(name.clone(), grant.id);
                }
                self.entries.entry(grant.id).or_insert(entry).clone()
            }
            None => entry,
        };
        let Entry { lease, valid_until, .. } = entry;
        Granted { id: grant.id, token: grant.token, holds: grant.holds, lease, valid_until }
    }

    /// Notes an extension.
    pub(super) fn extended(&mut self, id: LockId, holds: u32, lease: Duration, valid_until: Mono) {
        if let Some(entry) = self.entries.get_mut(&id) {
            (entry.holds, entry.lease, entry.valid_until) = (holds, lease, valid_until);
        }
    }

    /// Notes how many holds are left.
    pub(super) fn left(&mut self, id: LockId, holds: u32) {
        if holds == 0 {
            self.remove(id);
        } else if let Some(entry) = self.entries.get_mut(&id) {
            entry.holds = holds;
        }
    }

    /// Forgets a lock.
    pub(super) fn remove(&mut self, id: LockId) -> Option<Entry> {
        let entry = self.entries.remove(&id)?;
        if let Some(name) = entry.names.first()
            && self.by_name.get(name) == Some(&id)
        {
            self.by_name.remove(name);
        }
        Some(entry)
    }

    /// Notes that one more renews a lock from now on.
    pub(super) fn keeper_begins(&mut self, id: LockId) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.keepers += 1;
        }
    }

    /// Notes that one of them does so no more. The lock may have other holds, which nobody may renew.
    pub(super) fn keeper_ends(&mut self, id: LockId) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.keepers = entry.keepers.saturating_sub(1);
        }
    }

    /// Forgets what may not be acted upon any more, unless somebody is still to tell and count that.
    pub(super) fn tidy(&mut self, now: Mono) {
        self.entries.retain(|_, entry| entry.keepers > 0 || now < entry.valid_until);
        self.by_name.retain(|_, id| self.entries.contains_key(id));
    }
}
