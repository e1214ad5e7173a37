//! The sidecar's side, as small as it may be: each worker asks for a lock, holds it while it may, and gives it back.

use std::sync::Arc;
use std::time::Duration;

use baton::protocol::{
    AcquireReply, AcquireRequest, CancelRequest, ExtendReply, ExtendRequest, LockGrant, LockId, LockName,
    LockReleaseRequest, LockTurn, Mono, Queueing, Restore, TURN_MAX, Token, TurnSeat, is_reminder, valid_span,
};

use super::calls::{Answer, Body, Happening};
use super::world::{GUARD, LEASES_MS, MS, Nanos, SECOND, TIMEOUT, World, names, permits_of};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It wants nothing, for a while.
    Idle,
    Asking,
    Holding,
    GivingBack,
    Cancelling,
}

/// A lock that it was told of. Moments are the sidecar's own.
#[derive(Clone, Debug)]
struct Held {
    grant: LockGrant,
    valid_until: Nanos,
    extend_every: Nanos,
    give_back_at: Nanos,
    keep_until: Nanos,
    /// The turn that it has its place in, as long as the store may not know; and who of it has a ticket.
    given: Option<(LockTurn, Vec<LockId>)>,
    /// The turn may go on from here.
    passes: bool,
    /// The last token of its turn; else its own.
    last: Token,
}

#[derive(Debug)]
pub struct Worker {
    pub sidecar: usize,
    pub stage: Stage,
    /// It wants to be served in order, however it is queued.
    pub is_fair: bool,
    owner: Arc<str>,
    pub(super) request: Option<AcquireRequest>,
    /// The call that is out, or 0; and when it was sent.
    call: u64,
    sent_at: Nanos,
    calls: u64,
    began_at: Nanos,
    pub(super) wait_until: Nanos,
    pub(super) has_waited: bool,
    has_rested: bool,
    /// When it asks next, it stands back for who is queued elsewhere.
    yields: bool,
    /// How often it has found free what it cannot have.
    pub(super) free_looks: u32,
    pub(super) asks_again: bool,
    /// The token of what it named last as what its owner has, and the last one of that turn.
    beside: Option<(Token, Token)>,
    held: Option<Held>,
    release: Option<LockReleaseRequest>,
    step: u64,
}

impl Worker {
    pub fn new(sidecar: usize, owner: Arc<str>) -> Self {
        Self {
            sidecar,
            stage: Stage::Idle,
            is_fair: false,
            owner,
            request: None,
            call: 0,
            sent_at: 0,
            calls: 0,
            began_at: 0,
            wait_until: 0,
            has_waited: false,
            has_rested: false,
            yields: false,
            free_looks: 0,
            asks_again: false,
            beside: None,
            held: None,
            release: None,
            step: 0,
        }
    }

    /// Whether it waits for this name alone, with a ticket.
    pub fn waits_for(&self, name: &LockName) -> bool {
        let wants = |request: &AcquireRequest| request.names == [name.clone()] && request.queueing != Queueing::No;
        self.stage == Stage::Asking && self.has_waited && self.request.as_ref().is_some_and(wants)
    }

    /// Whether it waits for this name and others, and nobody may overtake it: then it is kept free for it.
    pub fn reserves(&self, name: &LockName, now: Nanos) -> bool {
        let wants = |request: &AcquireRequest| request.names.len() > 1 && request.names.contains(name);
        self.stage == Stage::Asking && now > self.began_at + SECOND && self.request.as_ref().is_some_and(wants)
    }

    /// Whether it still waits for the answer to this call, about this request.
    pub fn is_still(&self, call: u64, id: LockId) -> bool {
        self.call == call && self.is(id)
    }

    /// Whether a lock of these names may be passed on to it: it waits for just that, and nothing of it is under way.
    fn may_be_given(&self, sidecar: usize, names: &[LockName]) -> bool {
        let wants = |request: &AcquireRequest| {
            request.names == names && request.queueing == Queueing::Plain && request.at_least.is_zero()
        };
        let is_idle = self.stage == Stage::Asking && self.call == 0;
        self.sidecar == sidecar && is_idle && self.request.as_ref().is_some_and(wants)
    }

    /// Whether it is acting on this name, or about to give it back.
    fn has(&self, sidecar: usize, names: &[LockName]) -> bool {
        let is_its = self.request.as_ref().is_some_and(|request| request.names == names);
        self.sidecar == sidecar && self.stage == Stage::Holding && is_its
    }

    /// Whether it has this hold of just this name, or what has become of it in its turn.
    pub fn holds_alone(&self, id: LockId, name: &LockName) -> bool {
        let is_alone = self.request.as_ref().is_some_and(|request| request.names == [name.clone()]);
        let seat = self.held.as_ref().and_then(|held| held.given.as_ref()).map(|(turn, _)| turn.seat());
        is_alone && (self.is(id) || seat == Some(id))
    }

    /// Whether it was promised this, by its sidecar's clock.
    pub fn may_act(&self, id: LockId, now: Nanos) -> bool {
        let is_promised = self.held.as_ref().is_some_and(|held| now < held.valid_until);
        self.is(id) && self.stage == Stage::Holding && is_promised
    }

    pub fn is(&self, id: LockId) -> bool {
        self.request.as_ref().is_some_and(|request| request.id == id)
    }
}

impl World {
    /// Its next step is so far away, by its own clock.
    pub(super) fn plan(&mut self, worker: usize, span: Nanos) {
        let it = &mut self.workers[worker];
        it.step += 1;
        let (sidecar, step) = (it.sidecar, it.step);
        let when = self.local(sidecar) + span;
        let when = self.true_time(sidecar, when).max(self.now);
        self.at(when, Happening::Step { worker, step });
    }

    fn call(&mut self, worker: usize, body: Body) {
        let sidecar = self.workers[worker].sidecar;
        let number = self.begin_call(worker);
        self.send(sidecar, worker, number, body);
    }

    fn begin_call(&mut self, worker: usize) -> u64 {
        let sidecar = self.workers[worker].sidecar;
        let now = self.local(sidecar);
        let it = &mut self.workers[worker];
        it.calls += 1;
        it.step += 1;
        (it.call, it.sent_at, it.asks_again) = (it.calls, now, false);
        let number = it.call;
        let timeout = self.true_time(sidecar, now + TIMEOUT);
        self.at(timeout, Happening::GivenUp { worker, number });
        number
    }

    pub fn rest(&mut self, worker: usize) {
        let it = &mut self.workers[worker];
        // Whatever is out is nobody's any more.
        (it.stage, it.call, it.request, it.held, it.release) = (Stage::Idle, 0, None, None, None);
        let span = self.span(0, 2 * SECOND);
        self.plan(worker, span);
    }

    fn begin(&mut self, worker: usize) {
        if self.is_draining() {
            return;
        }
        let sidecar = self.workers[worker].sidecar;
        let [one, other, pool, bulk] = names();
        let several = self.one_in(5);
        let at = self.rng.usize(0..8).min(3);
        let is_bulk = at == 3 && !several;
        let names = if several { vec![one, other] } else { vec![[one, other, pool, bulk][at].clone()] };
        let mut queueing = [Queueing::No, Queueing::Plain, Queueing::Fair, Queueing::Fair][self.rng.usize(0..4)];
        if (several || is_bulk) && queueing == Queueing::Fair {
            queueing = Queueing::Plain;
        }
        self.workers[worker].is_fair = queueing == Queueing::Fair;
        if !self.scenario.rules.fair && queueing == Queueing::Fair {
            queueing = Queueing::Plain;
        }
        let it = &self.sidecars[sidecar];
        let floor = names.iter().filter_map(|name| it.floors.get(name)).max().copied().unwrap_or(Token::NONE);
        let session = it.session;
        let request = AcquireRequest {
            session,
            id: LockId::from_u128(self.rng.u128(..)),
            owner: Arc::clone(&self.workers[worker].owner),
            beside: None,
            identity: Arc::from(format!("sidecar-{sidecar}")),
            lease: Duration::from_millis(LEASES_MS[if is_bulk { 0 } else { self.rng.usize(0..LEASES_MS.len()) }]),
            at_least: Duration::ZERO,
            permits: permits_of(&names[0]),
            floor,
            queueing,
            yields: false,
            reminds: false,
            tokens: 1,
            guard: self.scenario.rules.guard.then_some(GUARD),
            names,
        };
        let is_kept = !is_bulk && self.one_in(6);
        let at_least = if is_kept { request.lease / self.rng.u32(1..=4) } else { Duration::ZERO };
        let request = AcquireRequest { at_least, ..request };
        let now = self.local(sidecar);
        let wait = if queueing == Queueing::No { 0 } else { self.span(SECOND, 20 * SECOND) };
        let it = &mut self.workers[worker];
        (it.stage, it.began_at, it.wait_until) = (Stage::Asking, now, now + wait);
        (it.has_waited, it.has_rested, it.yields, it.free_looks, it.beside) = (false, false, false, 0, None);
        it.request = Some(request.clone());
        let is_beside = self.workers.iter().any(|it| it.has(sidecar, &request.names));
        if is_beside && request.queueing == Queueing::Plain && permits_of(&request.names[0]) == 1 {
            // It counts on being given the lock.
            self.workers[worker].has_rested = true;
            self.plan(worker, 100 * MS);
        } else {
            self.ask(worker);
        }
    }

    pub(super) fn ask(&mut self, worker: usize) {
        let request = self.workers[worker].request.clone().expect("it asks for something");
        let holding = |mate: &usize| self.workers[*mate].stage == Stage::Holding;
        let mate = self.mates(worker).into_iter().find(holding);
        let mut beside = None;
        if let Some(mate) = mate {
            let ends_turn = self.scenario.rules.ends_turn;
            let it = &mut self.workers[mate];
            let held = it.held.as_mut().expect("it holds");
            held.passes &= !ends_turn;
            beside = it.request.as_ref().map(|request| request.id);
            let named = (held.grant.token, held.last);
            if held.given.is_some() && ends_turn {
                // The store is to know it before it is named.
                beside = None;
                if it.call == 0 {
                    let extension = self.extension(mate);
                    self.call(mate, Body::Extend(extension));
                }
            }
            self.workers[worker].beside = Some(named);
        }
        let it = &mut self.workers[worker];
        let is_plain = request.queueing == Queueing::Plain;
        let is_busy = it.has_waited || it.has_rested;
        let is_exclusive = request.names.len() == 1 && request.permits == 1 && request.at_least.is_zero();
        let tokens = if is_plain && is_exclusive && is_busy { TURN_MAX } else { 1 };
        let yields = std::mem::take(&mut it.yields);
        let reminds = is_reminder(it.free_looks);
        let (sidecar, began_at) = (it.sidecar, it.began_at);
        let for_long = self.local(sidecar) > began_at + SECOND;
        let queueing = if is_plain && request.names.len() > 1 && for_long { Queueing::Fair } else { request.queueing };
        self.call(worker, Body::Acquire(AcquireRequest { beside, tokens, yields, reminds, queueing, ..request }));
    }

    /// Who asks for the same names for the same owner, or has them.
    fn mates(&self, worker: usize) -> Vec<usize> {
        let it = &self.workers[worker];
        let names = |worker: &Worker| worker.request.as_ref().map(|request| request.names.clone());
        let is_mate = |other: &usize| {
            let mate = &self.workers[*other];
            *other != worker && mate.sidecar == it.sidecar && mate.owner == it.owner && names(mate) == names(it)
        };
        (0..self.workers.len()).filter(is_mate).collect()
    }

    pub fn step(&mut self, worker: usize, step: u64) {
        let it = &self.workers[worker];
        if it.step != step || it.call != 0 || !self.sidecars[it.sidecar].alive {
            return;
        }
        match it.stage {
            Stage::Idle => self.begin(worker),
            Stage::Asking if self.local(it.sidecar) >= it.wait_until => self.cancel(worker),
            Stage::Asking => self.ask(worker),
            Stage::Holding => self.hold(worker),
            Stage::GivingBack | Stage::Cancelling => self.repeat(worker),
        }
    }

    /// What was asked for a moment ago has no answer.
    pub fn given_up(&mut self, worker: usize, number: u64) {
        let it = &mut self.workers[worker];
        if it.call != number || !self.sidecars[it.sidecar].alive {
            return;
        }
        it.call = 0;
        if let Some(request) = &it.request {
            let names = request.names.clone();
            self.checker.disturbed(&names);
        }
        let pause = self.span(20 * MS, 100 * MS);
        self.plan(worker, pause);
    }

    pub fn answered(&mut self, worker: usize, number: u64, answer: Answer) {
        let it = &mut self.workers[worker];
        if it.call != number || !self.sidecars[it.sidecar].alive {
            return;
        }
        it.call = 0;
        match answer {
            Answer::Late => self.plan(worker, 0),
            Answer::Acquired(AcquireReply::Granted(grant)) => self.got(worker, grant),
            Answer::Acquired(reply) => self.not_now(worker, &reply),
            Answer::Extended(reply) => self.extended(worker, reply),
            Answer::Released => {
                self.wake_next(worker);
                self.rest(worker);
            }
            Answer::Cancelled => {
                self.seen.cancelled += 1;
                self.rest(worker);
            }
        }
    }

    /// What the store has granted.
    fn got(&mut self, worker: usize, grant: LockGrant) {
        let it = &self.workers[worker];
        let (sidecar, sent_at) = (it.sidecar, it.sent_at);
        let request = it.request.clone().expect("it asked");
        let since = if self.scenario.rules.from_sending { sent_at } else { self.local(sidecar) };
        let valid_until = since + u64::try_from(valid_span(request.lease).as_nanos()).expect("seconds");
        let turn = LockTurn::begin(request.id, grant, request.lease, Mono::from_nanos(since));
        if turn.is_none() && self.one_in(4) {
            // What was asked before the answer came arrives once more.
            self.send(sidecar, worker, 0, Body::Acquire(request));
        }
        self.seen.again += u64::from(grant.holds > 1);
        self.begin_to_hold(worker, grant, valid_until, turn.map(|turn| (turn, Vec::new())));
    }

    fn begin_to_hold(
        &mut self,
        worker: usize,
        grant: LockGrant,
        valid_until: Nanos,
        given: Option<(LockTurn, Vec<LockId>)>,
    ) {
        let it = &self.workers[worker];
        let sidecar = it.sidecar;
        let now = self.local(sidecar);
        let request = it.request.clone().expect("it asked");
        let lease = u64::try_from(request.lease.as_nanos()).expect("seconds");
        // Some give it back soon, or at once, some extend it, some stand still and give it back when it is no longer
        // theirs.
        let brief = self.span(MS, 10 * MS);
        let give_back_at =
            now + [lease / 3, lease * 2, lease * 4, lease / 2, brief, brief, brief][self.rng.usize(0..7)];
        let extend_every = if self.one_in(3) { 100 * lease } else { lease / 3 };
        let beside = self.workers[worker].beside.filter(|(token, _)| *token == grant.token);
        let beside = beside.map_or(grant.token, |(_, last)| last);
        let last = given.as_ref().map_or(beside, |(turn, _)| turn.last());
        for name in &request.names {
            let floor = self.sidecars[sidecar].floors.entry(name.clone()).or_insert(Token::NONE);
            *floor = last.max(*floor);
        }
        self.seen.waited += u64::from(self.workers[worker].has_waited);
        let it = &mut self.workers[worker];
        it.stage = Stage::Holding;
        let passes = given.is_some();
        let keep_until = now + u64::try_from(request.at_least.as_nanos()).expect("seconds");
        it.held = Some(Held { grant, valid_until, extend_every, give_back_at, keep_until, given, passes, last });
        for mate in self.mates(worker) {
            if self.workers[mate].stage == Stage::Asking {
                self.ask_soon(mate);
            }
        }
        // Nobody is told of a lock that is over already.
        if now < valid_until {
            let until = self.true_time(sidecar, valid_until);
            self.checker.acts(&request.names, worker, grant.token, until);
            self.plan(worker, (lease / 3).min(extend_every).min(give_back_at - now));
        } else {
            self.give_back(worker);
        }
    }

    /// The next thing to do with a lock that is held: extend it, or give it back.
    fn hold(&mut self, worker: usize) {
        let it = &self.workers[worker];
        let now = self.local(it.sidecar);
        let held = it.held.clone().expect("it holds");
        let stands_still = held.extend_every > 50 * SECOND;
        let is_over = now >= held.valid_until;
        if now >= held.give_back_at || (is_over && !stands_still) {
            self.give_back(worker);
        } else if stands_still {
            self.plan(worker, held.give_back_at - now);
        } else {
            let extension = self.extension(worker);
            self.call(worker, Body::Extend(extension));
        }
    }

    /// With all that is known of it; now and then for less than it was granted for. Its turn ends with that.
    fn extension(&mut self, worker: usize) -> ExtendRequest {
        let lease = self.one_in(4).then(|| Duration::from_millis(self.rng.u64(100..1_000)));
        let now = self.local(self.workers[worker].sidecar);
        let it = &mut self.workers[worker];
        let held = it.held.as_mut().expect("it holds");
        held.passes = false;
        let at_least = Duration::from_nanos(held.keep_until.saturating_sub(now));
        let (LockGrant { token, .. }, last, seat) = (held.grant, held.last, seat_of(held.given.as_ref()));
        let AcquireRequest { names, id, session, owner, identity, permits, lease: granted, .. } =
            it.request.clone().expect("it asked");
        let restore = Some(Box::new(Restore { owner, identity, token, last, permits, lease: granted, at_least }));
        let guard = self.scenario.rules.guard.then_some(GUARD);
        ExtendRequest { names, id, session, seat, lease, restore, guard }
    }

    fn extended(&mut self, worker: usize, reply: ExtendReply) {
        let it = &mut self.workers[worker];
        let (sidecar, sent_at) = (it.sidecar, it.sent_at);
        let request = it.request.clone().expect("it asked");
        let now = self.local(sidecar);
        let ExtendReply::Extended { lease, restored, .. } = reply else {
            // It acts to the end of what it was told, which is the worst that it may do.
            self.rest(worker);
            return;
        };
        self.seen.extended += 1;
        self.seen.restored += u64::from(restored);
        let since = if self.scenario.rules.from_sending { sent_at } else { now };
        let valid_until = since + u64::try_from(valid_span(lease).as_nanos()).expect("seconds");
        let held = self.workers[worker].held.as_mut().expect("it holds");
        held.given = None;
        // What is over is over, also when the extension succeeded.
        if now >= held.valid_until {
            self.give_back(worker);
            return;
        }
        held.valid_until = held.valid_until.max(valid_until);
        let (token, until) = (held.grant.token, held.valid_until);
        let every = held.extend_every.min(held.give_back_at.saturating_sub(now));
        let until = self.true_time(sidecar, until);
        self.checker.acts(&request.names, worker, token, until);
        self.plan(worker, every);
    }

    fn give_back(&mut self, worker: usize) {
        let it = &self.workers[worker];
        let (sidecar, held) = (it.sidecar, it.held.clone().expect("it holds"));
        let AcquireRequest { names, id, session, .. } = it.request.clone().expect("it asked");
        self.checker.stops(worker, held.grant.token);
        let is_last = self.mates(worker).into_iter().all(|mate| self.workers[mate].stage != Stage::Holding);
        let mut given = held.given;
        if held.passes
            && is_last
            && let Some((turn, served)) = given.take()
        {
            self.gone.insert(id);
            match self.pass_on(sidecar, &names, turn, served) {
                None => return self.rest(worker),
                rest => given = rest,
            }
        }
        let request = LockReleaseRequest { names, id, session, seat: seat_of(given.as_ref()) };
        // Other threads of its app may give it back, too.
        if self.one_in(5) {
            self.send(sidecar, worker, 0, Body::Release(request.clone()));
        }
        let it = &mut self.workers[worker];
        (it.stage, it.release) = (Stage::GivingBack, Some(request));
        self.repeat(worker);
    }

    /// Gives the lock to the next who waits beside the same sidecar, within its turn. What is left of the turn
    /// otherwise.
    fn pass_on(
        &mut self,
        sidecar: usize,
        names: &[LockName],
        mut turn: LockTurn,
        mut served: Vec<LockId>,
    ) -> Option<(LockTurn, Vec<LockId>)> {
        let next = self.workers.iter().position(|it| it.may_be_given(sidecar, names));
        let Some(next) = next else { return Some((turn, served)) };
        let now = Mono::from_nanos(self.local(sidecar));
        let it = &self.workers[next];
        let request = it.request.clone().expect("it waits");
        let has_ticket = it.has_waited;
        let Some(token) = turn.pass(now, request.lease) else { return Some((turn, served)) };
        if has_ticket {
            served.push(request.id);
        }
        self.note(|_| format!("worker {next} has {names:?} in turn under {token}"));
        self.in_turn(&request, token);
        let valid_until = turn.valid_until().as_nanos();
        self.begin_to_hold(next, LockGrant { token, holds: 1, tokens: 1 }, valid_until, Some((turn, served)));
        None
    }

    /// The turn is over, or there was none: the next asks by itself, after those who wait elsewhere.
    fn wake_next(&mut self, worker: usize) {
        let it = &self.workers[worker];
        let (sidecar, names) = (it.sidecar, it.request.as_ref().expect("it asked").names.clone());
        let next = self.workers.iter().position(|it| it.may_be_given(sidecar, &names));
        // One that has a ticket is woken by the store.
        if let Some(next) = next.filter(|next| !self.workers[*next].has_waited) {
            self.workers[next].yields = true;
            self.ask(next);
        }
    }

    pub(super) fn cancel(&mut self, worker: usize) {
        self.workers[worker].stage = Stage::Cancelling;
        self.repeat(worker);
    }

    /// The same release or cancellation again, until there is an answer.
    fn repeat(&mut self, worker: usize) {
        let it = &self.workers[worker];
        let body = match &it.release {
            Some(release) => Body::Release(release.clone()),
            None => {
                let AcquireRequest { names, session, id, .. } = it.request.clone().expect("it asked");
                Body::Cancel(CancelRequest { names, session, id, keeps: false })
            }
        };
        self.call(worker, body);
    }

    pub fn woken(&mut self, sidecar: usize, id: LockId, name: LockName) {
        if !self.sidecars[sidecar].alive {
            return;
        }
        let mine = |worker: &Worker| worker.sidecar == sidecar && worker.is(id);
        match self.workers.iter().position(mine) {
            Some(worker) if self.workers[worker].stage == Stage::Asking => self.ask_soon(worker),
            // It has left, or has the lock in a turn: the next one must hear of it.
            _ => {
                let keeps = self.scenario.rules.keeps && (self.gone.contains(&id) || self.was_granted(id));
                let session = self.sidecars[sidecar].session;
                self.send(sidecar, 0, 0, Body::Cancel(CancelRequest { names: vec![name], session, id, keeps }));
            }
        }
    }

    fn ask_soon(&mut self, worker: usize) {
        if self.workers[worker].call == 0 {
            self.ask(worker);
        } else {
            self.workers[worker].asks_again = true;
        }
    }

    /// Messages may have been missed: every waiter asks once.
    pub fn gap(&mut self, sidecar: usize) {
        let waits = |worker: &Worker| worker.sidecar == sidecar && worker.stage == Stage::Asking;
        let waiting: Vec<usize> = (0..self.workers.len()).filter(|at| waits(&self.workers[*at])).collect();
        if self.sidecars[sidecar].alive {
            waiting.into_iter().for_each(|worker| self.ask_soon(worker));
        }
    }
}

fn seat_of(given: Option<&(LockTurn, Vec<LockId>)>) -> Option<TurnSeat> {
    given.map(|(turn, served)| TurnSeat { id: turn.seat(), served: served.clone() })
}
