//! One name: who holds it and who waits for it. On Redis `lock_common.lua` does this.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::super::ids::{SessionId, StoreTime, Token};
use super::super::locks::{
    AcquireRequest, DEAD_DROPPED_MAX, LockGrant, LockHolder, LockId, LockName, RECORD_SPAN, RELEASED_KEPT, Restore,
    TICKET_SPAN, TICKETS_CHECKED, TurnSeat, Wake,
};

/// One hold of a lock.
#[derive(Clone, Debug)]
pub(super) struct Hold {
    pub(super) id: LockId,
    pub(super) session: SessionId,
    pub(super) owner: Arc<str>,
    pub(super) identity: Arc<str>,
    /// The same for all holds of one owner.
    pub(super) token: Token,
    /// The longest that it was granted or extended for.
    pub(super) lease: Duration,
    pub(super) expires_at: StoreTime,
    /// It goes from request to request beside its sidecar, which alone knows whose it is.
    pub(super) in_turn: bool,
    /// It is not free before, though it may be given back.
    pub(super) keep_until: StoreTime,
    /// It was given back before that.
    pub(super) rests: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    pub(super) session: SessionId,
    pub(super) id: LockId,
    pub(super) fair: bool,
    /// Its place. A request for several names has the same in all queues.
    pub(super) order: u64,
}

/// One name.
#[derive(Clone, Debug, Default)]
pub(super) struct Cell {
    /// The last one granted.
    pub(super) token: Token,
    /// The greatest under which nothing is held any more: no permit under it or an earlier one returns.
    pub(super) ended: Token,
    /// The holds that were given back last, the latest at the end.
    pub(super) released: Vec<LockId>,
    /// As those agree who hold it or wait.
    pub(super) permits: u32,
    /// By token. Those of one owner, who has it several times, have the same.
    pub(super) holds: Vec<Hold>,
    /// Whether there has been a fair ticket. Then nobody has it in turn.
    pub(super) is_fair: bool,
    /// In the order of their coming. Those of the dead are dropped when they are met, so that a step costs what it
    /// drops and not what waits.
    pub(super) tickets: Vec<Ticket>,
    /// The longest lease that was granted.
    pub(super) longest: Duration,
    pub(super) used_at: StoreTime,
}

/// Sessions that gave a sign of life, and until when that counts.
pub(super) type Living = HashMap<SessionId, StoreTime>;

pub(super) fn lives(living: &Living, session: SessionId, now: StoreTime) -> bool {
    living.get(&session).is_some_and(|until| now < *until)
}

/// No ticket stands for longer than that: one that seems to had its sign of life before the store's clock was stepped
/// back.
pub(super) fn cut(living: &mut Living, now: StoreTime) {
    living.values_mut().for_each(|until| *until = (*until).min(now.plus(TICKET_SPAN)));
}

impl Cell {
    /// Leases end by themselves; and none is longer than it was granted for: one that seems so began before the store's
    /// clock was stepped back.
    pub(super) fn tidy(&mut self, now: StoreTime) {
        self.holds.retain(|hold| now < hold.expires_at);
        for hold in &mut self.holds {
            hold.expires_at = hold.expires_at.min(now.plus(hold.lease));
            hold.keep_until = hold.keep_until.min(now.plus(hold.lease));
        }
        self.used_at = now;
    }

    pub(super) fn held_under(&mut self, id: LockId) -> Option<&mut Hold> {
        self.holds.iter_mut().find(|hold| hold.id == id && !hold.rests)
    }

    /// The hold of this id, or of the seat in whose turn it was granted; as far as it is this sidecar's to change. None
    /// that rests: it was given back.
    pub(super) fn find(&self, id: LockId, seat: Option<&TurnSeat>, session: SessionId) -> Option<LockId> {
        if self.holds.iter().any(|hold| hold.id == id && hold.rests) {
            return None;
        }
        let is_theirs = |hold: &&Hold| !hold.rests && (!hold.in_turn || hold.session == session);
        let found = |id| self.holds.iter().filter(is_theirs).find(|hold| hold.id == id);
        found(id).or_else(|| found(seat?.id)).map(|hold| hold.id)
    }

    /// The tickets of requests that were served in a turn go.
    pub(super) fn forget_served(&mut self, session: SessionId, seat: Option<&TurnSeat>) {
        if let Some(TurnSeat { served, .. }) = seat {
            self.tickets.retain(|ticket| ticket.session != session || !served.contains(&ticket.id));
        }
    }

    /// Whether a hold has this token; or, in a turn, may have it.
    pub(super) fn is_under(&self, hold: &Hold, token: Token) -> bool {
        hold.token == token || (hold.in_turn && (hold.token..=self.token).contains(&token))
    }

    /// How many holds there are under a token: of one owner.
    pub(super) fn holds_under(&self, token: Token) -> usize {
        self.holds.iter().filter(|hold| hold.token == token && !hold.rests).count()
    }

    pub(super) fn add(&mut self, hold: Hold) {
        self.token = self.token.max(hold.token);
        self.longest = self.longest.max(hold.lease);
        self.holds.push(hold);
        self.holds.sort_by_key(|hold| hold.token);
    }

    pub(super) fn place(&self, session: SessionId, id: LockId) -> Option<usize> {
        self.tickets.iter().position(|ticket| ticket.is(session, id))
    }

    /// Whether it is free is a matter of owners and not of holds.
    pub(super) fn free(&self) -> usize {
        (self.permits as usize).saturating_sub(self.owners().count())
    }

    /// The holds of each owner: those under one token.
    fn owners(&self) -> impl Iterator<Item = &[Hold]> {
        self.holds.chunk_by(|one, other| one.token == other.token)
    }

    /// The first ticket from this place on whose sidecar lives.
    pub(super) fn meet(&mut self, from: usize, now: StoreTime, living: &Living) -> Option<Ticket> {
        let queue = self.tickets.get(from..)?;
        let dead = queue.iter().take_while(|ticket| !lives(living, ticket.session, now)).count();
        self.tickets.drain(from..from + dead);
        self.tickets.get(from).copied()
    }

    /// Drops some of the dead at the head of the queue, whose places those behind them count.
    pub(super) fn drop_dead(&mut self, now: StoreTime, living: &Living) {
        let head = self.tickets.iter().take(DEAD_DROPPED_MAX);
        let dead = head.take_while(|ticket| !lives(living, ticket.session, now)).count();
        self.tickets.drain(..dead);
    }

    /// Whether somebody uses the name who must agree with this request on the number of permits.
    pub(super) fn in_use_beside(&mut self, session: SessionId, id: LockId, now: StoreTime, living: &Living) -> bool {
        if !self.holds.is_empty() {
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

    /// Whether a hold rests: who waits is to learn when that is over.
    fn rests(&self) -> bool {
        self.holds.iter().any(|hold| hold.rests)
    }

    /// The one to wake when it is free: the first ticket, or the first after this place.
    pub(super) fn next(
        &mut self,
        name: &LockName,
        after: Option<usize>,
        now: StoreTime,
        living: &Living,
    ) -> Option<Wake> {
        if self.free() == 0 && !self.rests() {
            return None;
        }
        let ticket = self.meet(after.map_or(0, |place| place + 1), now, living)?;
        Some(Wake { session: ticket.session, id: ticket.id, name: name.clone() })
    }

    /// Gives a hold back that is to be shut for longer. As [`Self::end`]; none, too, where it is not.
    pub(super) fn rest(&mut self, id: LockId, now: StoreTime) -> Option<usize> {
        let hold = self.held_under(id).filter(|hold| now < hold.keep_until)?;
        (hold.rests, hold.in_turn, hold.expires_at) = (true, false, hold.keep_until);
        let token = hold.token;
        Some(self.left(id, token))
    }

    /// Takes a hold away. Returns how many its owner has left; none where it is not held.
    pub(super) fn end(&mut self, id: LockId) -> Option<usize> {
        let at = self.holds.iter().position(|hold| hold.id == id && !hold.rests)?;
        let Hold { token, .. } = self.holds.remove(at);
        Some(self.left(id, token))
    }

    /// How many holds its owner has left.
    fn left(&mut self, id: LockId, token: Token) -> usize {
        self.forget_hold(id);
        let left = self.holds_under(token);
        if left == 0 {
            // All of its turn, too.
            self.ended = self.ended.max(if self.permits == 1 { self.token } else { token });
        }
        left
    }

    /// What was given back under this id does not come again.
    pub(super) fn forget_hold(&mut self, id: LockId) {
        self.released.push(id);
        let old = self.released.len().saturating_sub(RELEASED_KEPT);
        self.released.drain(..old);
    }

    /// A hold went from one request to another in a turn. Who has it now has not given it back, whatever became of an
    /// earlier hold of that request.
    pub(super) fn pass_on(&mut self, from: LockId, to: LockId) {
        self.forget_hold(from);
        self.released.retain(|released| *released != to);
    }

    /// Whether a hold that is gone can be put back: it was not released, and nobody came since.
    pub(super) fn may_return(
        &mut self,
        (session, id): (SessionId, LockId),
        lost: &Restore,
        now: StoreTime,
        living: &Living,
    ) -> bool {
        let is_last = Token::NONE < lost.token && self.token <= lost.last && !self.released.contains(&id);
        let has_room = match lost.permits {
            // Though all that its owner had besides, as far as is known here, was given back.
            1 => self.holds.iter().all(|hold| hold.is_beside(lost, session) || self.is_older(hold, lost, session)),
            permits => {
                let is_later = self.ended < lost.token && self.holds.iter().all(|hold| hold.token < lost.token);
                is_later && self.holds.len() < permits as usize
            }
        };
        let agree = |cell: &mut Self| cell.holds.is_empty() && cell.meet(0, now, living).is_none();
        is_last && has_room && (self.permits == lost.permits || agree(self))
    }

    /// Puts it back. What stands of earlier owners was over when this was granted: a store that was set back to a
    /// moment before that does not know.
    pub(super) fn put_back(&mut self, (session, id): (SessionId, LockId), lost: &Restore, now: StoreTime) {
        if lost.permits == 1 {
            self.holds.retain(|hold| hold.is_beside(lost, session));
        }
        (self.permits, self.used_at) = (lost.permits, now);
        self.add(Hold::put_back(id, session, lost, now));
        self.token = self.token.max(lost.last);
    }

    /// Whether a hold is of an earlier owner: with all of its turn, but for the sidecar's own, which knows who has it.
    fn is_older(&self, hold: &Hold, lost: &Restore, session: SessionId) -> bool {
        let last = if hold.in_turn && hold.session != session { self.token } else { hold.token };
        last < lost.token
    }

    /// Who holds it.
    pub(super) fn told(&self, now: StoreTime) -> Vec<LockHolder> {
        self.owners().filter_map(|holds| Hold::told(holds, now)).collect()
    }

    pub(super) fn first_to_end(&self, now: StoreTime) -> Option<LockHolder> {
        self.told(now).into_iter().min_by_key(|holder| holder.remaining)
    }

    pub(super) fn grant(&self, token: Token, tokens: u32) -> LockGrant {
        LockGrant { token, holds: u32::try_from(self.holds_under(token)).unwrap_or(u32::MAX), tokens }
    }

    /// Whether it need not be remembered any more.
    pub(super) fn is_over(&self, now: StoreTime) -> bool {
        self.holds.is_empty() && self.tickets.is_empty() && now.since(self.used_at) >= self.longest + RECORD_SPAN
    }

    /// How many wait. So far down the queue the dead are told from the living; behind it, who has not been met counts.
    pub(super) fn waiting(&self, now: StoreTime, living: &Living) -> usize {
        let checked = self.tickets.len().min(TICKETS_CHECKED);
        let (front, rest) = self.tickets.split_at(checked);
        front.iter().filter(|ticket| lives(living, ticket.session, now)).count() + rest.len()
    }
}

/// Until when it is not free: nothing, for who asks for none.
fn kept(at_least: Duration, now: StoreTime) -> StoreTime {
    if at_least.is_zero() { StoreTime(0) } else { now.plus(at_least) }
}

impl Ticket {
    pub(super) fn is(&self, session: SessionId, id: LockId) -> bool {
        (self.session, self.id) == (session, id)
    }
}

impl Hold {
    pub(super) fn granted(request: &AcquireRequest, token: Token, now: StoreTime) -> Self {
        Self {
            id: request.id,
            session: request.session,
            owner: Arc::clone(&request.owner),
            identity: Arc::clone(&request.identity),
            token,
            lease: request.lease,
            expires_at: now.plus(request.lease),
            in_turn: false,
            keep_until: kept(request.at_least, now),
            rests: false,
        }
    }

    /// Whether it is one more of the owner that has lost one.
    fn is_beside(&self, lost: &Restore, session: SessionId) -> bool {
        (self.token, &self.owner, self.session) == (lost.token, &lost.owner, session)
    }

    /// As its sidecar knows it.
    fn put_back(id: LockId, session: SessionId, lost: &Restore, now: StoreTime) -> Self {
        Self {
            id,
            session,
            owner: Arc::clone(&lost.owner),
            identity: Arc::clone(&lost.identity),
            token: lost.token,
            lease: lost.lease,
            expires_at: now.plus(lost.lease),
            in_turn: false,
            keep_until: kept(lost.at_least, now),
            rests: false,
        }
    }

    /// Its sidecar tells who has it now, where it went from request to request there.
    pub(super) fn settle(&mut self, id: LockId, known: Option<&Restore>) {
        if let (true, Some(known)) = (self.in_turn, known) {
            (self.owner, self.identity) = (Arc::clone(&known.owner), Arc::clone(&known.identity));
            self.token = known.token;
        }
        (self.id, self.in_turn) = (id, false);
    }

    /// It lasts for this long from now: never less long than it did.
    pub(super) fn extend(&mut self, lease: Duration, now: StoreTime) {
        self.lease = self.lease.max(lease);
        self.expires_at = self.expires_at.max(now.plus(lease));
    }

    /// Those of one owner.
    fn told(holds: &[Self], now: StoreTime) -> Option<LockHolder> {
        let first = holds.first()?;
        Some(LockHolder {
            owner: Arc::clone(&first.owner),
            identity: Arc::clone(&first.identity),
            token: first.token,
            holds: u32::try_from(holds.len()).unwrap_or(u32::MAX),
            remaining: holds.iter().map(|hold| hold.expires_at.since(now)).max().unwrap_or_default(),
        })
    }
}
