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
    AcquireReply, AcquireRequest, CancelRequest, ExtendReply, ExtendRequest, HOLDS_MAX, HandOverRequest, LockGrant,
    LockId, LockInsight, LockName, LockReleaseReply, LockReleaseRequest, Queueing, TICKET_SPAN, Wake,
};
use super::guard::is_generation;
use super::lease::{Server, TokensExhausted};
use super::lock_cell::{Cell, Hold, Living, Ticket, cut, lives};

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
    /// The greatest token of any name (R3): names are forgotten, and where the store's clock was stepped back, it alone
    /// does not tell what they had.
    floor: Token,
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
        cut(&mut self.living, now);
        for name in &request.names {
            self.cells.entry(name.clone()).or_default().tidy(now);
        }
        if let Some(name) = request.names.iter().find(|name| self.cells[name].released.contains(&request.id)) {
            // A late repetition, of what was given back since: nobody waits for it.
            let holder = self.cells[name].first_to_end(now);
            return Ok((AcquireReply::Held { name: name.clone(), holder, ahead: 0 }, Vec::new()));
        }
        // Not under a guard: a store that has forgotten the end of a lock, and who got it then, would grant it beside
        // them.
        if guarded.is_none()
            && let Some(grant) = self.take_again(now, request).or_else(|| self.take_beside(now, request))
        {
            let wakes = self.leave_queues(now, &request.names, request.session, request.id);
            return Ok((AcquireReply::Granted(grant), wakes));
        }
        if let Some((name, permits)) = self.disagreement(now, request) {
            return Ok((AcquireReply::PermitsDiffer { name, permits }, Vec::new()));
        }
        for name in &request.names {
            self.cells.entry(name.clone()).or_default().permits = request.permits;
        }
        let shut = request.names.iter().find(|name| !self.is_open(name, now, request, yields)).cloned();
        if shut.is_some() || guarded.is_some() {
            return Ok(self.wait_for(now, request, shut, guarded));
        }
        let token = self.next_token(now, request)?;
        self.hold(now, request, token);
        let wakes = self.leave_queues(now, &request.names, request.session, request.id);
        Ok((AcquireReply::Granted(LockGrant { token, holds: 1 }), wakes))
    }

    /// R3: above all that were.
    fn next_token(&mut self, now: StoreTime, request: &AcquireRequest) -> Result<Token, TokensExhausted> {
        let before = request.names.iter().map(|name| self.cells[name].token).max().unwrap_or(Token::NONE);
        let before = before.max(request.floor).max(self.floor).get().max(now.0);
        let token = Token::new(before.saturating_add(1)).ok_or(TokensExhausted)?;
        self.floor = token;
        Ok(token)
    }

    fn hold(&mut self, now: StoreTime, request: &AcquireRequest, token: Token) {
        for name in &request.names {
            let cell = self.cells.entry(name.clone()).or_default();
            cell.add(Hold::granted(request, token, now));
        }
    }

    /// This very request was granted before, and its answer lost.
    fn take_again(&mut self, now: StoreTime, request: &AcquireRequest) -> Option<LockGrant> {
        if !request.names.iter().all(|name| self.holds(name, request.id)) {
            return None;
        }
        let mut grant = None;
        for name in &request.names {
            let cell = self.cells.get_mut(name)?;
            let hold = cell.held_under(request.id)?;
            hold.extend(request.lease, now);
            let token = hold.token;
            cell.longest = cell.longest.max(request.lease);
            grant = Some(cell.grant(token));
        }
        grant
    }

    /// Its owner has the lock already, under the hold that it names: one more beside that.
    fn take_beside(&mut self, now: StoreTime, request: &AcquireRequest) -> Option<LockGrant> {
        let beside = request.beside.filter(|_| request.permits == 1)?;
        let token_of = |name: &LockName| {
            let cell = &self.cells[name];
            let hold = cell.holds.iter().find(|hold| hold.id == beside && hold.session == request.session)?;
            (cell.permits == 1 && cell.holds.len() < HOLDS_MAX).then_some(hold.token)
        };
        let (first, rest) = request.names.split_first()?;
        let token = token_of(first)?;
        if !rest.iter().all(|name| token_of(name) == Some(token)) {
            return None;
        }
        self.hold(now, request, token);
        Some(self.cells[first].grant(token))
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
                let cell = self.cells.entry(name.clone()).or_default();
                cell.drop_dead(now, &self.living);
                let ahead = cell.place(request.session, request.id).unwrap_or(cell.tickets.len());
                let ahead = u32::try_from(ahead).unwrap_or(u32::MAX);
                let holder = cell.first_to_end(now).filter(|_| cell.free() == 0);
                AcquireReply::Held { holder, ahead, name }
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
        let (now, id) = (server.now, request.id);
        self.prepare(server, request.guard);
        cut(&mut self.living, now);
        for name in &request.names {
            if let Some(cell) = self.cells.get_mut(name) {
                cell.tidy(now);
            }
        }
        let missing: Vec<&LockName> = request.names.iter().filter(|name| !self.holds(name, id)).collect();
        for name in &missing {
            let Some(lost) = request.restore.as_deref() else { return ExtendReply::Lost };
            let may_return = match self.cells.get_mut(*name) {
                Some(cell) => cell.may_return(id, lost, now, &self.living),
                None => lost.token > Token::NONE && lost.permits > 0,
            };
            if !may_return {
                return ExtendReply::Lost;
            }
        }
        if let Some(lost) = request.restore.as_deref() {
            for name in &missing {
                let cell = self.cells.entry((*name).clone()).or_default();
                cell.permits = lost.permits;
                cell.used_at = now;
                cell.add(Hold::put_back(id, lost, now));
                self.floor = self.floor.max(lost.token);
            }
        }
        let (restored, mut reply) = (!missing.is_empty(), ExtendReply::Lost);
        for name in &request.names {
            let Some(cell) = self.cells.get_mut(name) else { continue };
            let Some(hold) = cell.held_under(id) else { continue };
            let lease = request.lease.unwrap_or(hold.lease);
            hold.extend(lease, now);
            let token = hold.token;
            cell.longest = cell.longest.max(lease);
            reply = ExtendReply::Extended { token, holds: cell.grant(token).holds, lease, restored };
        }
        reply
    }

    fn holds(&self, name: &LockName, id: LockId) -> bool {
        self.cells.get(name).is_some_and(|cell| cell.holds.iter().any(|hold| hold.id == id))
    }

    /// R7: gives a hold back. Never another's.
    pub fn release(&mut self, server: Server<'_>, request: &LockReleaseRequest) -> (LockReleaseReply, Vec<Wake>) {
        let (reply, freed) = self.let_go(server.now, request);
        (reply, self.wake_next(server.now, &freed))
    }

    /// Returns the names besides whose lock is now another's to have.
    fn let_go(&mut self, now: StoreTime, request: &LockReleaseRequest) -> (LockReleaseReply, Vec<LockName>) {
        let (mut reply, mut freed) = (LockReleaseReply::NotHeld, Vec::new());
        cut(&mut self.living, now);
        for name in &request.names {
            let Some(cell) = self.cells.get_mut(name) else { continue };
            cell.tidy(now);
            let left = cell.end(request.id);
            if left.is_some() || cell.released.contains(&request.id) {
                reply = LockReleaseReply::Released;
            }
            if left == Some(0) {
                freed.push(name.clone());
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
        cut(&mut self.living, server.now);
        for name in &request.names {
            if let Some(cell) = self.cells.get_mut(name) {
                cell.tidy(server.now);
                cell.end(request.id);
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
        let mut living = self.living.clone();
        cut(&mut living, server.now);
        let waiting = cell.waiting(server.now, &living);
        let used = !cell.holds.is_empty() || waiting > 0;
        LockInsight {
            holders: cell.told(server.now),
            permits: used.then_some(cell.permits),
            waiting: u32::try_from(waiting).unwrap_or(u32::MAX),
        }
    }

    /// Whether it knows of no name.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// Drops the records of names that nobody has used for long, and of which nothing can be put back.
    pub fn sweep(&mut self, now: StoreTime) {
        cut(&mut self.living, now);
        self.living.retain(|_, until| now < *until);
        let living = &self.living;
        self.cells.retain(|_, cell| {
            cell.holds.retain(|hold| now < hold.expires_at);
            cell.tickets.retain(|ticket| lives(living, ticket.session, now));
            !cell.is_over(now)
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
            // One that is over is forgotten: a step of the store's clock back does not begin it again. And none is
            // longer than that: one that seems so was set before such a step.
            Some(generation) if is_generation(&generation.id, server) => {
                let is_over = generation.guarded_until <= server.now;
                let latest = if is_over { StoreTime(0) } else { server.now.plus(guard) };
                (generation.id, generation.guarded_until.min(latest))
            }
            Some(_) => (Arc::from(server.generation), server.now.plus(guard)),
            None if server.uptime >= guard => (Arc::from(server.generation), StoreTime(0)),
            None => (Arc::from(server.generation), server.now.plus(guard.saturating_sub(server.uptime))),
        };
        self.generation = Some(Generation { id, guarded_until });
        (server.now < guarded_until).then(|| guarded_until.since(server.now))
    }
}

#[cfg(test)]
mod tests;
