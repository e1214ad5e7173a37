//! One name: who holds it and who waits for it. On Redis `lock_common.lua` does this.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::super::ids::{SessionId, StoreTime, Token};
use super::super::locks::{LockGrant, LockHolder, LockId, LockName, Restore, TICKETS_CHECKED, Wake};

/// Who holds a lock.
#[derive(Clone, Debug)]
pub(super) struct Holder {
    pub(super) id: LockId,
    pub(super) session: SessionId,
    pub(super) owner: Arc<str>,
    pub(super) identity: Arc<str>,
    pub(super) token: Token,
    pub(super) holds: u32,
    /// The last request that changed `holds`: a repeated one changes nothing.
    pub(super) request: LockId,
    /// How long it was granted for.
    pub(super) lease: Duration,
    pub(super) expires_at: StoreTime,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    pub(super) session: SessionId,
    pub(super) id: LockId,
    pub(super) fair: bool,
}

/// One name.
#[derive(Clone, Debug, Default)]
pub(super) struct Cell {
    /// The last one granted.
    pub(super) token: Token,
    /// The greatest that was given back: neither it nor an earlier one returns.
    pub(super) ended: Token,
    /// The lock that was released last, and by which request.
    pub(super) released: Option<(LockId, LockId)>,
    /// As those agree who hold it or wait.
    pub(super) permits: u32,
    /// At most `permits`, by token.
    pub(super) holders: Vec<Holder>,
    /// In the order of their coming. Those of the dead are dropped when they are met, so that a step costs what it
    /// drops and not what waits.
    pub(super) tickets: Vec<Ticket>,
    pub(super) used_at: StoreTime,
}

/// Sessions that gave a sign of life, and until when that counts.
pub(super) type Living = HashMap<SessionId, StoreTime>;

pub(super) fn lives(living: &Living, session: SessionId, now: StoreTime) -> bool {
    living.get(&session).is_some_and(|until| now < *until)
}

impl Cell {
    /// Leases end by themselves.
    pub(super) fn tidy(&mut self, now: StoreTime) {
        self.holders.retain(|holder| now < holder.expires_at);
        self.used_at = now;
    }

    pub(super) fn held_under(&mut self, id: LockId) -> Option<&mut Holder> {
        self.holders.iter_mut().find(|holder| holder.id == id)
    }

    pub(super) fn place(&self, session: SessionId, id: LockId) -> Option<usize> {
        self.tickets.iter().position(|ticket| ticket.is(session, id))
    }

    pub(super) fn free(&self) -> usize {
        (self.permits as usize).saturating_sub(self.holders.len())
    }

    /// The first ticket from this place on whose sidecar lives.
    pub(super) fn meet(&mut self, from: usize, now: StoreTime, living: &Living) -> Option<Ticket> {
        let queue = self.tickets.get(from..)?;
        let dead = queue.iter().take_while(|ticket| !lives(living, ticket.session, now)).count();
        self.tickets.drain(from..from + dead);
        self.tickets.get(from).copied()
    }

    /// Whether somebody uses the name who must agree with this request on the number of permits.
    pub(super) fn in_use_beside(&mut self, session: SessionId, id: LockId, now: StoreTime, living: &Living) -> bool {
        if !self.holders.is_empty() {
            return true;
        }
        match self.meet(0, now, living) {
            Some(ticket) if ticket.is(session, id) => self.meet(1, now, living).is_some(),
            first => first.is_some(),
        }
    }

    /// Whether this request may have it now: nobody overtakes a fair ticket, and one that yields overtakes none.
    pub(super) fn is_open_to(
        &mut self,
        (session, id): (SessionId, LockId),
        yields: bool,
        now: StoreTime,
        living: &Living,
    ) -> bool {
        let free = self.free();
        let (mut first, mut at) = (0, 0);
        while first < free {
            match self.tickets.get(at) {
                Some(ticket) if !ticket.is(session, id) => {
                    if !ticket.fair && !yields {
                        at += 1;
                    } else if lives(living, ticket.session, now) {
                        at += 1;
                        first += 1;
                    } else {
                        self.tickets.remove(at);
                    }
                }
                _ => return true,
            }
        }
        false
    }

    /// The one to wake when it is free: the first ticket, or the first after this place.
    pub(super) fn next(
        &mut self,
        name: &LockName,
        after: Option<usize>,
        now: StoreTime,
        living: &Living,
    ) -> Option<Wake> {
        if self.free() == 0 {
            return None;
        }
        let ticket = self.meet(after.map_or(0, |place| place + 1), now, living)?;
        Some(Wake { session: ticket.session, id: ticket.id, name: name.clone() })
    }

    pub(super) fn end(&mut self, id: LockId, request: LockId) {
        for ended in self.holders.extract_if(.., |holder| holder.id == id) {
            self.ended = self.ended.max(ended.token);
        }
        self.released = Some((id, request));
    }

    pub(super) fn first_to_end(&self, now: StoreTime) -> Option<LockHolder> {
        self.holders.iter().min_by_key(|holder| holder.expires_at).map(|holder| holder.told(now))
    }

    /// How many wait. So far down the queue the dead are told from the living; behind it, who has not been met counts.
    pub(super) fn waiting(&self, now: StoreTime, living: &Living) -> usize {
        let checked = self.tickets.len().min(TICKETS_CHECKED);
        let (front, rest) = self.tickets.split_at(checked);
        front.iter().filter(|ticket| lives(living, ticket.session, now)).count() + rest.len()
    }
}

impl Ticket {
    pub(super) fn is(&self, session: SessionId, id: LockId) -> bool {
        (self.session, self.id) == (session, id)
    }
}

impl Holder {
    /// As its sidecar knows it.
    pub(super) fn put_back(id: LockId, lost: &Restore, now: StoreTime) -> Self {
        Self {
            id,
            session: lost.session,
            owner: Arc::clone(&lost.owner),
            identity: Arc::clone(&lost.identity),
            token: lost.token,
            holds: lost.holds,
            request: id,
            lease: lost.lease,
            expires_at: now.plus(lost.lease),
        }
    }

    pub(super) fn told(&self, now: StoreTime) -> LockHolder {
        LockHolder {
            owner: Arc::clone(&self.owner),
            identity: Arc::clone(&self.identity),
            token: self.token,
            holds: self.holds,
            remaining: self.expires_at.since(now),
        }
    }

    pub(super) fn grant(&self) -> LockGrant {
        LockGrant { id: self.id, token: self.token, holds: self.holds }
    }
}
