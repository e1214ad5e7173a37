//! The store's side: what one atomic step does to the locks of one store. This is the reference: the memory store runs
//! it, the simulation runs it, and the scripts are held against it by random operations, each against the function of
//! its name: `lock_acquire.lua`, `lock_extend.lua`, `lock_confirm.lua`, `lock_release.lua`, `lock_hand_over.lua`,
//! `lock_cancel.lua`, `lock_beat.lua` and `lock_inspect.lua`, with `lock_take.lua`, `lock_let_go.lua` and
//! `lock_common.lua`, which they share.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::super::ids::{SessionId, StoreTime, Token};
use super::super::locks::{
    AcquireReply, AcquireRequest, CancelRequest, ExtendReply, ExtendRequest, HandOverRequest, LockGrant, LockId,
    LockInsight, LockName, LockReleaseReply, LockReleaseRequest, Queueing, RECORD_SPAN, Restore, TICKET_SPAN, Wake,
};
use super::guard::is_generation;
use super::lease::{Server, TokensExhausted};
use super::lock_cell::{Cell, Holder, Living, Ticket, lives};

/// Which generation of the server the store's locks were written under, and until when it is shut for new grants.
#[derive(Clone, Debug)]
struct Generation {
    id: Arc<str>,
    guarded_until: StoreTime,
}

/// All locks of one store.
#[derive(Clone, Debug, Default)]
pub struct LockSpace {
    cells: BTreeMap<LockName, Cell>,
    living: Living,
    generation: Option<Generation>,
}

impl LockSpace {
    /// A store that knows of no lock. Unless its server has just started, it is open.
    pub fn new() -> Self {
        Self::default()
    }

    /// R1 with R3 and R5, for one name or several.
    ///
    /// # Errors
    /// [`TokensExhausted`] when the next token would reach 2^53; nothing is changed then.
    pub fn acquire(
        &mut self,
        server: Server<'_>,
        request: &AcquireRequest,
    ) -> Result<(AcquireReply, Vec<Wake>), TokensExhausted> {
        self.take(server, request, false)
    }

    /// `yields`: it overtakes nobody who waits.
    fn take(
        &mut self,
        server: Server<'_>,
        request: &AcquireRequest,
        yields: bool,
    ) -> Result<(AcquireReply, Vec<Wake>), TokensExhausted> {
        let now = server.now;
        let guarded = self.prepare(server, request.guard);
        if request.queueing != Queueing::No {
            self.living.insert(request.session, now.plus(TICKET_SPAN));
        }
        for name in &request.names {
            self.cells.entry(name.clone()).or_default().tidy(now);
        }
        if let Some(grant) = self.take_again(now, request, guarded.is_some()) {
            let wakes = self.leave_queues(now, &request.names, request.session, request.id);
            return Ok((AcquireReply::Granted(grant), wakes));
        }
        if let Some((name, permits)) = self.disagreement(now, request) {
            return Ok((AcquireReply::PermitsDiffer { name, permits }, Vec::new()));
        }
        for name in &request.names {
            let cell = self.cells.entry(name.clone()).or_default();
            cell.permits = request.permits;
        }
        let shut = request.names.iter().find(|name| !self.is_open(name, now, request, yields)).cloned();
        if shut.is_some() || guarded.is_some() {
            return Ok(self.wait_for(now, request, shut, guarded));
        }
        let before = request.names.iter().map(|name| self.cells[name].token).max().unwrap_or(Token::NONE);
        let before = before.max(request.floor).get().max(now.0);
        let token = Token::new(before.saturating_add(1)).ok_or(TokensExhausted)?;
        let holder = Holder {
            id: request.id,
            session: request.session,
            owner: Arc::clone(&request.owner),
            identity: Arc::clone(&request.identity),
            token,
            holds: 1,
            request: request.id,
            lease: request.lease,
            expires_at: now.plus(request.lease),
        };
        for name in &request.names {
            let cell = self.cells.entry(name.clone()).or_default();
            cell.token = token;
            cell.holders.push(holder.clone());
        }
        let wakes = self.leave_queues(now, &request.names, request.session, request.id);
        Ok((AcquireReply::Granted(holder.grant()), wakes))
    }

    /// The owner has it already: by this very request, whose answer was lost, or by an earlier one. Not under a guard:
    /// a store that has forgotten the end of a lock, and who got it then, would grant it beside them.
    fn take_again(&mut self, now: StoreTime, request: &AcquireRequest, is_guarded: bool) -> Option<LockGrant> {
        if is_guarded {
            return None;
        }
        let (first, rest) = request.names.split_first()?;
        let mine = |holder: &&Holder| {
            holder.id == request.id || (holder.session == request.session && holder.owner == request.owner)
        };
        let id = self.cells[first].holders.iter().find(mine)?.id;
        let everywhere = |name: &LockName| self.cells[name].holders.iter().any(|holder| holder.id == id);
        if !rest.iter().all(everywhere) {
            return None;
        }
        let mut grant = None;
        for name in &request.names {
            let holder = self.cells.get_mut(name)?.held_under(id)?;
            if holder.request != request.id && holder.id != request.id {
                holder.holds += 1;
                holder.request = request.id;
            }
            holder.lease = holder.lease.max(request.lease);
            holder.expires_at = holder.expires_at.max(now.plus(request.lease));
            grant = Some(holder.grant());
        }
        grant
    }

    fn disagreement(&mut self, now: StoreTime, request: &AcquireRequest) -> Option<(LockName, u32)> {
        request.names.iter().find_map(|name| {
            let cell = self.cells.get_mut(name)?;
            let in_use = cell.in_use_beside(request.session, request.id, now, &self.living);
            (in_use && cell.permits != request.permits).then(|| (name.clone(), cell.permits))
        })
    }

    fn is_open(&mut self, name: &LockName, now: StoreTime, request: &AcquireRequest, yields: bool) -> bool {
        let cell = self.cells.get_mut(name);
        cell.is_some_and(|cell| cell.is_open_to((request.session, request.id), yields, now, &self.living))
    }

    /// Not now: a ticket for who waits. One whose turn it is for a name that it cannot use yet passes the word on.
    fn wait_for(
        &mut self,
        now: StoreTime,
        request: &AcquireRequest,
        shut: Option<LockName>,
        guarded: Option<Duration>,
    ) -> (AcquireReply, Vec<Wake>) {
        let mut wakes = Vec::new();
        if request.queueing != Queueing::No {
            let fair = request.queueing == Queueing::Fair;
            for name in &request.names {
                let cell = self.cells.entry(name.clone()).or_default();
                let place = cell.place(request.session, request.id);
                if place.is_none() {
                    cell.tickets.push(Ticket { session: request.session, id: request.id, fair });
                } else if guarded.is_none() && cell.is_open_to((request.session, request.id), false, now, &self.living)
                {
                    // The dead before it may have gone.
                    let place = cell.place(request.session, request.id);
                    wakes.extend(cell.next(name, place, now, &self.living));
                }
            }
        }
        let reply = match (shut, guarded) {
            (Some(name), _) => {
                let cell = &self.cells[&name];
                let ahead = cell.place(request.session, request.id).unwrap_or(cell.tickets.len());
                let ahead = u32::try_from(ahead).unwrap_or(u32::MAX);
                AcquireReply::Held { holder: cell.first_to_end(now), ahead, name }
            }
            (None, remaining) => AcquireReply::Guarded { remaining: remaining.unwrap_or(Duration::ZERO) },
        };
        (reply, wakes)
    }

    /// Takes a request's tickets away, and wakes who can go on.
    fn leave_queues(&mut self, now: StoreTime, names: &[LockName], session: SessionId, id: LockId) -> Vec<Wake> {
        let mut wakes = Vec::new();
        for name in names {
            if let Some(cell) = self.cells.get_mut(name) {
                cell.tickets.retain(|ticket| !ticket.is(session, id));
                wakes.extend(cell.next(name, None, now, &self.living));
            }
        }
        wakes
    }

    /// R4 for locks: extends, or puts back. All names or none.
    pub fn extend(&mut self, server: Server<'_>, request: &ExtendRequest) -> ExtendReply {
        let now = server.now;
        self.prepare(server, request.guard);
        for name in &request.names {
            if let Some(cell) = self.cells.get_mut(name) {
                cell.tidy(now);
            }
        }
        let missing: Vec<&LockName> = request.names.iter().filter(|name| !self.holds(name, request.id)).collect();
        let restore = request.restore.as_deref();
        if !missing.iter().all(|name| restore.is_some_and(|lost| self.may_return(now, name, lost))) {
            return ExtendReply::Lost;
        }
        let restored = !missing.is_empty();
        if let Some(lost) = restore {
            let missing: Vec<LockName> = missing.into_iter().cloned().collect();
            for name in missing {
                let cell = self.cells.entry(name).or_default();
                cell.token = cell.token.max(lost.token);
                cell.permits = lost.permits;
                cell.used_at = now;
                cell.holders.push(Holder::put_back(request.id, lost, now));
                cell.holders.sort_by_key(|holder| holder.token);
            }
        }
        let mut reply = ExtendReply::Lost;
        for name in &request.names {
            if let Some(holder) = self.cells.get_mut(name).and_then(|cell| cell.held_under(request.id)) {
                let lease = request.lease.unwrap_or(holder.lease);
                holder.lease = lease;
                holder.expires_at = now.plus(lease);
                reply = ExtendReply::Extended { token: holder.token, holds: holder.holds, lease, restored };
            }
        }
        reply
    }

    fn holds(&self, name: &LockName, id: LockId) -> bool {
        self.cells.get(name).is_some_and(|cell| cell.holders.iter().any(|holder| holder.id == id))
    }

    /// Whether a lock that is gone can be put back: nobody came since, and it was not released.
    fn may_return(&mut self, now: StoreTime, name: &LockName, lost: &Restore) -> bool {
        let Some(cell) = self.cells.get_mut(name) else { return lost.token > Token::NONE && lost.permits > 0 };
        let room = cell.holders.len() < lost.permits as usize;
        let newest = cell.holders.iter().all(|holder| holder.token < lost.token);
        let last = cell.token <= lost.token && cell.ended < lost.token && newest;
        let agree = |cell: &mut Cell| {
            cell.permits == lost.permits || (cell.holders.is_empty() && cell.meet(0, now, &self.living).is_none())
        };
        room && last && agree(cell)
    }

    /// R7: gives a lock back, or one of several holds. Never another's.
    pub fn release(&mut self, server: Server<'_>, request: &LockReleaseRequest) -> (LockReleaseReply, Vec<Wake>) {
        let (reply, freed) = self.let_go(server.now, request);
        (reply, self.wake_next(server.now, &freed))
    }

    /// Returns the names besides whose lock is now another's to have.
    fn let_go(&mut self, now: StoreTime, request: &LockReleaseRequest) -> (LockReleaseReply, Vec<LockName>) {
        let (mut reply, mut freed) = (LockReleaseReply::NotHeld, Vec::new());
        for name in &request.names {
            let Some(cell) = self.cells.get_mut(name) else { continue };
            cell.tidy(now);
            if let Some(holder) = cell.held_under(request.id) {
                if holder.request != request.request && holder.holds > 1 && !request.entirely {
                    holder.holds -= 1;
                    holder.request = request.request;
                    reply = LockReleaseReply::Released { holds: holder.holds };
                } else if holder.request == request.request && !request.entirely {
                    // The same release once more.
                    reply = LockReleaseReply::Released { holds: holder.holds };
                } else {
                    cell.end(request.id, request.request);
                    freed.push(name.clone());
                    reply = LockReleaseReply::Released { holds: 0 };
                }
            } else if cell.released == Some((request.id, request.request)) && reply == LockReleaseReply::NotHeld {
                reply = LockReleaseReply::Released { holds: 0 };
            }
        }
        (reply, freed)
    }

    /// Who is first in the queues of these names, where something is free.
    fn wake_next(&mut self, now: StoreTime, names: &[LockName]) -> Vec<Wake> {
        let Self { cells, living, .. } = self;
        names.iter().filter_map(|name| cells.get_mut(name)?.next(name, None, now, living)).collect()
    }

    /// R7 and then R1, in one step: gives a lock back and asks for it on behalf of another request of the same sidecar.
    /// Whoever is first in the queue is only woken when that request does not get it.
    ///
    /// Each half is what it is alone. So a lock that was not held any more is asked for all the same, and what is given
    /// back stays so whatever the other half comes to.
    pub fn hand_over(
        &mut self,
        server: Server<'_>,
        request: &HandOverRequest,
    ) -> (LockReleaseReply, Result<AcquireReply, TokensExhausted>, Vec<Wake>) {
        let HandOverRequest { release, acquire, yields } = request;
        let (released, freed) = self.let_go(server.now, release);
        let (acquired, mut wakes) = match self.take(server, acquire, *yields) {
            Ok((reply, wakes)) => (Ok(reply), wakes),
            Err(error) => (Err(error), Vec::new()),
        };
        if !matches!(acquired, Ok(AcquireReply::Granted(_))) {
            let due = self.wake_next(server.now, &freed);
            // It has just been told that it cannot have it.
            wakes.extend(due.into_iter().filter(|wake| (wake.session, wake.id) != (acquire.session, acquire.id)));
        }
        (released, acquired, wakes)
    }

    /// Ends a request that waited, or whose answer never came. What it got meanwhile is given back.
    pub fn cancel(&mut self, server: Server<'_>, request: &CancelRequest) -> Vec<Wake> {
        for name in &request.names {
            let Some(cell) = self.cells.get_mut(name) else { continue };
            cell.tidy(server.now);
            if cell.held_under(request.id).is_some() {
                cell.end(request.id, request.id);
            }
            // A hold of a lock that its owner had already.
            if let Some(holder) = cell.holders.iter_mut().find(|holder| holder.request == request.id) {
                holder.holds = holder.holds.saturating_sub(1).max(1);
                holder.request = holder.id;
            }
        }
        self.leave_queues(server.now, &request.names, request.session, request.id)
    }

    /// A sidecar's sign of life, for as long as any of its requests waits.
    pub fn beat(&mut self, server: Server<'_>, session: SessionId) {
        self.living.retain(|_, until| server.now < *until);
        self.living.insert(session, server.now.plus(TICKET_SPAN));
    }

    /// A lock as it stands; changes nothing.
    pub fn inspect(&self, server: Server<'_>, name: &LockName) -> LockInsight {
        let Some(mut cell) = self.cells.get(name).cloned() else { return LockInsight::default() };
        cell.tidy(server.now);
        let waiting = cell.waiting(server.now, &self.living);
        let used = !cell.holders.is_empty() || waiting > 0;
        LockInsight {
            holders: cell.holders.iter().map(|holder| holder.told(server.now)).collect(),
            permits: used.then_some(cell.permits),
            waiting: u32::try_from(waiting).unwrap_or(u32::MAX),
        }
    }

    /// Whether it knows of no name.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// Drops the records of names that nobody has used for a day.
    pub fn sweep(&mut self, now: StoreTime) {
        self.living.retain(|_, until| now < *until);
        let living = &self.living;
        self.cells.retain(|_, cell| {
            cell.holders.retain(|holder| now < holder.expires_at);
            cell.tickets.retain(|ticket| lives(living, ticket.session, now));
            !(cell.holders.is_empty() && cell.tickets.is_empty()) || now.since(cell.used_at) < RECORD_SPAN
        });
    }

    /// A fault: everything is forgotten, as by FLUSHALL or a restart without data.
    pub fn forget(&mut self) {
        *self = Self::default();
    }

    /// R6: whether a grant that the replicas have acknowledged counts, as [`super::LeaseCell::confirm`] for
    /// roles.
    pub fn confirm(&self, server: Server<'_>) -> bool {
        self.generation
            .as_ref()
            .is_some_and(|generation| *generation.id == *server.generation && generation.guarded_until <= server.now)
    }

    /// R5 for the whole store: notices another generation of the server. Returns how long it stays shut for new grants.
    fn prepare(&mut self, server: Server<'_>, guard: Option<Duration>) -> Option<Duration> {
        let guard = guard?;
        let present = self.generation.take();
        let (id, guarded_until) = match present {
            // No guard is longer than that: one that seems so was set before the store's clock was stepped back.
            Some(generation) if is_generation(&generation.id, server) => {
                (generation.id, generation.guarded_until.min(server.now.plus(guard)))
            }
            Some(_) => (Arc::from(server.generation), server.now.plus(guard)),
            None => (Arc::from(server.generation), server.now.plus(guard.saturating_sub(server.uptime))),
        };
        self.generation = Some(Generation { id, guarded_until });
        (server.now < guarded_until).then(|| guarded_until.since(server.now))
    }
}

#[cfg(test)]
mod tests;
