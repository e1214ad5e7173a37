//! The store's side: what one atomic step does to the locks of one store. This is the reference: the memory store runs
//! it, the simulation runs it, and the scripts are held against it by random operations, each against the function of
//! its name: `lock_acquire.lua`, `lock_extend.lua`, `lock_confirm.lua`, `lock_release.lua`, `lock_cancel.lua`,
//! `lock_beat.lua`, `lock_unlock.lua`, `lock_inspect.lua` and `lock_names.lua`, with `lock_head.lua` and
//! `lock_common.lua`, which they share. What is most frequent has short ways: `lock_free.lua` to acquire, and
//! `lock_only.lua` to release.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::super::ids::{SessionId, StoreTime, Token};
use super::super::locks::{
    AcquireReply, AcquireRequest, CancelRequest, ExtendReply, ExtendRequest, HOLDS_MAX, LockGrant, LockId, LockInsight,
    LockName, LockReleaseReply, LockReleaseRequest, Queueing, TICKET_SPAN, UnlockReply, UnlockRequest, Unlocked, Wake,
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
        let now = server.now;
        let guarded = self.prepare(server, request.guard);
        cut(&mut self.living, now);
        for name in &request.names {
            self.cells.entry(name.clone()).or_default().tidy(now);
        }
        let is_alone = |name| self.cells[name].holds.is_empty() && self.cells[name].tickets.is_empty();
        // Who gets it at once has no ticket that had to stand.
        if request.queueing != Queueing::No && (guarded.is_some() || !request.names.iter().all(is_alone)) {
            self.living.insert(request.session, now.plus(TICKET_SPAN));
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
        let shut = request.names.iter().find(|name| !self.is_open(name, now, request)).cloned();
        if shut.is_some() || guarded.is_some() {
            return Ok(self.wait_for(now, request, shut, guarded));
        }
        let tokens = self.block(request);
        let token = self.next_token(now, request, tokens)?;
        self.hold(now, request, token);
        if let (true, [name]) = (tokens > 1, request.names.as_slice())
            && let Some(cell) = self.cells.get_mut(name)
        {
            cell.token = self.floor;
            cell.holds.iter_mut().for_each(|hold| hold.in_turn = true);
        }
        let wakes = self.leave_queues(now, &request.names, request.session, request.id);
        Ok((AcquireReply::Granted(LockGrant { token, holds: 1, tokens }), wakes))
    }

    /// With how many tokens the lock is granted: nobody has it in turn where that could pass a fair request by.
    fn block(&self, request: &AcquireRequest) -> u32 {
        match request.names.as_slice() {
            [name] if request.permits == 1 && request.at_least.is_zero() && !self.cells[name].is_fair => {
                request.tokens.max(1)
            }
            _ => 1,
        }
    }

    /// R3: above all that were, and so many in a row.
    fn next_token(&mut self, now: StoreTime, request: &AcquireRequest, tokens: u32) -> Result<Token, TokensExhausted> {
        let before = request.names.iter().map(|name| self.cells[name].token).max().unwrap_or(Token::NONE);
        let before = before.max(request.floor).max(self.floor).get().max(now.0);
        self.floor = Token::new(before.saturating_add(u64::from(tokens))).ok_or(TokensExhausted)?;
        Token::new(before + 1).ok_or(TokensExhausted)
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
            let (token, in_turn) = (hold.token, hold.in_turn);
            cell.longest = cell.longest.max(request.lease);
            let block = if in_turn { cell.token.get() - token.get() + 1 } else { 1 };
            grant = Some(cell.grant(token, u32::try_from(block).unwrap_or(1)));
        }
        grant
    }

    /// Its owner has the lock already, under the hold that it names: one more beside that.
    fn take_beside(&mut self, now: StoreTime, request: &AcquireRequest) -> Option<LockGrant> {
        let beside = request.beside.filter(|_| request.permits == 1)?;
        let token_of = |name: &LockName| {
            let cell = &self.cells[name];
            let is_named = |hold: &&Hold| hold.id == beside && hold.session == request.session && !hold.rests;
            let hold = cell.holds.iter().find(is_named)?;
            (cell.permits == 1 && cell.holds.len() < HOLDS_MAX).then_some(hold.token)
        };
        let (first, rest) = request.names.split_first()?;
        let token = token_of(first)?;
        if !rest.iter().all(|name| token_of(name) == Some(token)) {
            return None;
        }
        self.hold(now, request, token);
        Some(self.cells[first].grant(token, 1))
    }

    fn disagreement(&mut self, now: StoreTime, request: &AcquireRequest) -> Option<(LockName, u32)> {
        request.names.iter().find_map(|name| {
            let cell = self.cells.get_mut(name)?;
            let in_use = cell.in_use_beside(request.session, request.id, now, &self.living);
            (in_use && cell.permits != request.permits).then(|| (name.clone(), cell.permits))
        })
    }

    fn is_open(&mut self, name: &LockName, now: StoreTime, request: &AcquireRequest) -> bool {
        let cell = self.cells.get_mut(name);
        cell.is_some_and(|cell| cell.is_open_to((request.session, request.id), request.yields, now, &self.living))
    }

    /// Not now: a ticket for who waits. One whose turn it is for a name that it cannot use yet passes the word on.
    fn wait_for(
        &mut self,
        now: StoreTime,
        request: &AcquireRequest,
        shut: Option<LockName>,
        guarded: Option<Duration>,
    ) -> (AcquireReply, Vec<Wake>) {
        let mut wakes = match request.queueing {
            Queueing::No => Vec::new(),
            Queueing::Plain | Queueing::Fair => self.queue(now, request, guarded.is_some()),
        };
        let reply = match (shut, guarded) {
            (Some(name), _) => {
                let cell = self.cells.entry(name.clone()).or_default();
                cell.drop_dead(now, &self.living);
                let ahead = cell.place(request.session, request.id).unwrap_or(cell.tickets.len());
                let is_free = cell.free() > 0;
                if request.reminds && is_free && ahead > 0 {
                    wakes.extend(cell.next(&name, None, now, &self.living));
                }
                let ahead = u32::try_from(ahead).unwrap_or(u32::MAX);
                let holder = cell.first_to_end(now).filter(|_| !is_free);
                AcquireReply::Held { holder, ahead, name }
            }
            (None, remaining) => AcquireReply::Guarded { remaining: remaining.unwrap_or(Duration::ZERO) },
        };
        (reply, wakes)
    }

    /// The tickets of a request, all with one number: so those who wait for several names are in one order everywhere.
    fn queue(&mut self, now: StoreTime, request: &AcquireRequest, is_guarded: bool) -> Vec<Wake> {
        let (session, id, fair) = (request.session, request.id, request.queueing == Queueing::Fair);
        let cells: Vec<&Cell> = request.names.iter().map(|name| &self.cells[name]).collect();
        let is_queued = cells.iter().all(|cell| cell.place(session, id).is_some());
        let order =
            cells.iter().filter_map(|cell| cell.tickets.last()).map(|ticket| ticket.order).max().unwrap_or(0) + 1;
        let mut wakes = Vec::new();
        for name in &request.names {
            let Some(cell) = self.cells.get_mut(name) else { continue };
            cell.is_fair |= fair;
            if !is_queued {
                cell.tickets.retain(|ticket| !ticket.is(session, id));
                cell.tickets.push(Ticket { session, id, fair, order });
                continue;
            }
            cell.tickets.iter_mut().filter(|ticket| ticket.is(session, id)).for_each(|ticket| ticket.fair |= fair);
            // Nobody behind a fair one could have it.
            let lets_by = !fair || cell.free() > 1;
            if !is_guarded && lets_by && cell.is_open_to((session, id), false, now, &self.living) {
                // The dead before it may have gone.
                let place = cell.place(session, id);
                wakes.extend(cell.next(name, place, now, &self.living));
            }
        }
        wakes
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
        let (now, id, restore) = (server.now, request.id, request.restore.as_deref());
        self.prepare(server, request.guard);
        cut(&mut self.living, now);
        for name in &request.names {
            if let Some(cell) = self.cells.get_mut(name) {
                cell.tidy(now);
            }
        }
        let missing: Vec<&LockName> = request.names.iter().filter(|name| !self.has(name, request)).collect();
        for name in &missing {
            let Some(lost) = restore else { return ExtendReply::Lost };
            let may_return = match self.cells.get_mut(*name) {
                Some(cell) => cell.may_return((request.session, id), lost, now, &self.living),
                None => lost.token > Token::NONE && lost.permits > 0,
            };
            if !may_return {
                return ExtendReply::Lost;
            }
        }
        if let Some(lost) = restore {
            for name in &missing {
                let cell = self.cells.entry((*name).clone()).or_default();
                cell.put_back((request.session, id), lost, now);
                self.floor = self.floor.max(lost.last);
            }
        }
        let (restored, mut reply) = (!missing.is_empty(), ExtendReply::Lost);
        for name in &request.names {
            let Some(cell) = self.cells.get_mut(name) else { continue };
            cell.forget_served(request.session, request.seat.as_ref());
            let Some(found) = cell.find(id, request.seat.as_ref(), request.session) else { continue };
            if found != id {
                cell.pass_on(found, id);
            }
            let Some(hold) = cell.held_under(found) else { continue };
            hold.settle(id, restore);
            let lease = request.lease.unwrap_or(hold.lease);
            hold.extend(lease, now);
            let token = hold.token;
            cell.longest = cell.longest.max(lease);
            reply = ExtendReply::Extended { token, holds: cell.grant(token, 1).holds, lease, restored };
        }
        reply
    }

    /// Whether a hold that is to be extended is there.
    fn has(&self, name: &LockName, request: &ExtendRequest) -> bool {
        let find = |cell: &Cell| cell.find(request.id, request.seat.as_ref(), request.session);
        self.cells.get(name).and_then(find).is_some()
    }

    fn holds(&self, name: &LockName, id: LockId) -> bool {
        self.cells.get(name).is_some_and(|cell| cell.holds.iter().any(|hold| hold.id == id && !hold.rests))
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
            cell.forget_served(request.session, request.seat.as_ref());
            let found = cell.find(request.id, request.seat.as_ref(), request.session);
            let left = found.and_then(|found| cell.rest(found, now).or_else(|| cell.end(found)));
            if found.is_some_and(|found| found != request.id) {
                cell.forget_hold(request.id);
            }
            if left.is_some() || cell.released.contains(&request.id) {
                reply = LockReleaseReply::Released;
            }
            if left == Some(0) || request.seat.as_ref().is_some_and(|seat| !seat.served.is_empty()) {
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

    /// Ends a request that waited, or whose answer never came. What it got meanwhile is given back.
    pub fn cancel(&mut self, server: Server<'_>, request: &CancelRequest) -> Vec<Wake> {
        cut(&mut self.living, server.now);
        for name in &request.names {
            if let Some(cell) = self.cells.get_mut(name) {
                cell.tidy(server.now);
                if !request.keeps {
                    cell.end(request.id);
                }
            }
        }
        self.leave_queues(server.now, &request.names, request.session, request.id)
    }

    /// A sidecar's sign of life, for as long as any of its requests waits.
    pub fn beat(&mut self, server: Server<'_>, session: SessionId) {
        self.living.retain(|_, until| server.now < *until);
        self.living.insert(session, server.now.plus(TICKET_SPAN));
    }

    /// An operator's word: ends the holds under this token, whoever has them, and tells their sidecars.
    pub fn unlock(&mut self, server: Server<'_>, request: &UnlockRequest) -> (UnlockReply, Vec<Unlocked>, Vec<Wake>) {
        let (now, UnlockRequest { name, token }) = (server.now, request);
        cut(&mut self.living, now);
        let nobody = || UnlockReply::Differs { holders: Vec::new() };
        let Some(cell) = self.cells.get_mut(name) else { return (nobody(), Vec::new(), Vec::new()) };
        cell.tidy(now);
        let holders = cell.told(now);
        let under: Vec<Hold> = cell.holds.iter().filter(|hold| cell.is_under(hold, *token)).cloned().collect();
        let Some(first) = under.first() else {
            let reply = match holders.is_empty() && *token <= cell.ended {
                true => UnlockReply::Unlocked { holder: None },
                false => UnlockReply::Differs { holders },
            };
            return (reply, Vec::new(), Vec::new());
        };
        for hold in &under {
            cell.holds.iter_mut().filter(|one| one.id == hold.id).for_each(|one| one.rests = false);
            cell.end(hold.id);
        }
        if cell.permits == 1 {
            // As if somebody had come since: nothing of that owner returns, whatever is known of it here.
            cell.token = Token::new(cell.token.get() + 1).unwrap_or(cell.token);
        }
        let holder = holders.into_iter().find(|holder| holder.token == first.token);
        let told = under.iter().map(|hold| Unlocked { session: hold.session, id: hold.id, name: name.clone() });
        (UnlockReply::Unlocked { holder }, told.collect(), self.wake_next(now, std::slice::from_ref(name)))
    }

    /// The names of which there is a record, some of them in use, from this place on: so many at the most, and the
    /// place to go on from, 0 at the end.
    pub fn names(&self, from: u64, most: usize) -> (Vec<LockName>, u64) {
        let skipped = usize::try_from(from).unwrap_or(usize::MAX);
        let names: Vec<LockName> = self.cells.keys().skip(skipped).take(most).cloned().collect();
        let next = skipped.saturating_add(names.len());
        (names, if next < self.cells.len() { next as u64 } else { 0 })
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
