//! The world: true time, a network that delays and loses, sidecars that stand still or die, and one store.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use baton::protocol::{
    AcquireReply, AcquireRequest, ExtendReply, LockId, LockInsight, LockName, LockReleaseRequest, LockSpace, Queueing,
    Server, SessionId, StoreTime, TICKET_SPAN, Token, Wake,
};

use super::calls::{Answer, Body, Call, Happening};
use super::checker::Checker;
use super::sidecar::{Stage, Worker};

/// True time in nanoseconds, or a sidecar's own.
pub type Nanos = u64;
pub const MS: Nanos = 1_000_000;
pub const SECOND: Nanos = 1_000 * MS;
/// A few, so that some who wait want the same.
pub const LEASES_MS: [u64; 3] = [2_500, 5_000, 8_000];
pub const LEASE_MAX: Nanos = 8 * SECOND;
/// When a command counts as unanswered.
pub const TIMEOUT: Nanos = SECOND;
/// At least the longest lease.
pub const GUARD: Duration = Duration::from_secs(10);
const STORE_START_US: u64 = 1_760_000_000_000_000;
const FAULTS_UNTIL: Nanos = 60 * SECOND;
/// From here on nobody begins anew.
const DRAIN_AT: Nanos = FAULTS_UNTIL + 30 * SECOND;
/// Enough for every wait, lease and ticket to end.
pub const END: Nanos = DRAIN_AT + 70 * SECOND;
/// So long after a fault nothing of it is left: tickets of the dead are dropped.
const AFTERMATH: Nanos = 9 * SECOND;

/// What protects; switched off to show that it is missed.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// R5: nobody new for a while after the store may have forgotten.
    pub guard: bool,
    /// R2: validity counts from the sending of the request, not from its answer.
    pub from_sending: bool,
    /// R7: a release names the lock by its id.
    pub by_id: bool,
    /// Nothing is executed after its sender has given it up.
    pub no_late: bool,
    /// Waiters are woken, and look by themselves.
    pub wakes: bool,
    /// Fair requests are queued as such.
    pub fair: bool,
    /// A hold that is named, or extended, is not passed on any more.
    pub ends_turn: bool,
    /// A wake for a request that had the lock in a turn takes its ticket away and nothing else.
    pub keeps: bool,
    /// Who waits looks when the lease ends that is in its way, also when others are before it.
    pub looks: bool,
    /// An operator ends the lock that was seen, and not another's.
    pub fenced: bool,
    /// What was taken for a time at least rests when it is given back before.
    pub rests: bool,
}

impl Rules {
    pub const ALL: Self = Self {
        guard: true,
        from_sending: true,
        by_id: true,
        no_late: true,
        wakes: true,
        fair: true,
        ends_turn: true,
        keeps: true,
        looks: true,
        fenced: true,
        rests: true,
    };
}

/// What goes wrong beside messages that are late or lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Faults {
    Mixed,
    /// The store's clock steps forwards, besides.
    ClockAhead,
    /// It steps back, and sidecars die.
    ClockBack,
    /// Sidecars die, with all that they have and wait for.
    Deaths,
    /// All but clock steps, and an operator who unlocks.
    Unlocks,
}

#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    pub seed: u64,
    pub rules: Rules,
    pub faults: Faults,
    pub log: bool,
}

/// What was seen in one run.
#[derive(Debug, Default)]
pub struct Verdict {
    pub complaints: BTreeSet<String>,
    pub first: Option<String>,
    pub log: Vec<String>,
    pub grants: u64,
    pub waited: u64,
    pub extended: u64,
    pub restored: u64,
    pub cancelled: u64,
    /// Passed on in a turn.
    pub passed: u64,
    /// By an owner that had it already.
    pub again: u64,
    pub late: u64,
    /// Ended by an operator.
    pub unlocked: u64,
    /// Not ended: another's by then, or nobody's.
    pub differed: u64,
}

pub struct Sidecar {
    pub session: SessionId,
    pub alive: bool,
    pub paused_until: Nanos,
    pub cut_until: Nanos,
    /// How much faster its clock runs than true time.
    pub ppm: i64,
    pub floors: BTreeMap<LockName, Token>,
    /// When, by its own clock, it heard what of the store's.
    pub heard: Option<(Nanos, StoreTime)>,
}

pub struct World {
    pub scenario: Scenario,
    pub rng: fastrand::Rng,
    pub now: Nanos,
    pub sidecars: Vec<Sidecar>,
    pub workers: Vec<Worker>,
    pub checker: Checker,
    pub seen: Verdict,
    pub space: LockSpace,
    pub up: bool,
    pub run_id: u64,
    pub born: Nanos,
    pub skew_us: i64,
    pub snapshots: VecDeque<LockSpace>,
    /// Until when what went wrong last may still matter.
    pub aftermath: Nanos,
    /// Until when the store grants nothing new (R5).
    pub shut_until: Nanos,
    /// Requests whose cancellation the store has executed.
    ended: BTreeSet<LockId>,
    /// Holds whose release it has executed, since it last forgot something.
    pub given_back: BTreeSet<LockId>,
    /// Requests that gave a lock on in a turn.
    pub gone: BTreeSet<LockId>,
    /// Holds that an operator has ended, since the store last forgot something.
    pub unlocked: BTreeSet<(LockId, LockName)>,
    /// Until when holds are shut at least.
    pub kept_until: BTreeMap<LockId, Nanos>,
    /// When each name was last asked about.
    pub met: BTreeMap<LockName, Nanos>,
    /// The token of every lock that was granted.
    pub tokens: BTreeMap<LockId, Token>,
    agenda: BTreeMap<(Nanos, u64), Happening>,
    sequence: u64,
}

/// The last is never asked for by fair requests.
pub fn names() -> [LockName; 4] {
    ["orders", "stock", "pool", "bulk"].map(|name| LockName::new(name).expect("a good name"))
}

pub fn permits_of(name: &LockName) -> u32 {
    if name.as_str() == "pool" { 3 } else { 1 }
}

impl World {
    pub fn play(scenario: Scenario) -> Verdict {
        let mut world = Self {
            scenario,
            rng: fastrand::Rng::with_seed(scenario.seed),
            now: 0,
            sidecars: Vec::new(),
            workers: Vec::new(),
            checker: Checker::default(),
            seen: Verdict::default(),
            space: LockSpace::new(),
            up: true,
            run_id: 1,
            born: 0,
            skew_us: 0,
            snapshots: VecDeque::new(),
            aftermath: 0,
            shut_until: 0,
            ended: BTreeSet::new(),
            given_back: BTreeSet::new(),
            gone: BTreeSet::new(),
            unlocked: BTreeSet::new(),
            kept_until: BTreeMap::new(),
            met: BTreeMap::new(),
            tokens: BTreeMap::new(),
            agenda: BTreeMap::new(),
            sequence: 0,
        };
        for _ in 0..3 {
            world.at(0, Happening::Join);
        }
        world.at(0, Happening::Snapshot);
        world.at(0, Happening::Tick);
        // After the guard of a server that has just started.
        let first = world.span(15 * SECOND, 20 * SECOND);
        world.at(first, Happening::Fault);
        world.at(first, Happening::Operator);
        while let Some(((when, _), happening)) = world.agenda.pop_first() {
            if when > END {
                break;
            }
            world.now = when;
            world.happen(happening);
            world.look();
        }
        world.judge_the_end();
        let World { checker, mut seen, .. } = world;
        (seen.complaints, seen.first) = (checker.complaints, checker.first);
        seen
    }

    pub fn at(&mut self, when: Nanos, happening: Happening) {
        self.sequence += 1;
        self.agenda.insert((when, self.sequence), happening);
    }

    pub fn after(&mut self, span: Nanos, happening: Happening) {
        self.at(self.now + span, happening);
    }

    pub fn span(&mut self, least: Nanos, most: Nanos) -> Nanos {
        self.rng.u64(least..=most)
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.rng.u64(0..n) == 0
    }

    pub fn note(&mut self, what: impl FnOnce(&Self) -> String) {
        // What comes after the first complaint explains nothing.
        if self.scenario.log && self.checker.first.is_none() {
            let line = format!("{:9.4} {}", self.now as f64 / SECOND as f64, what(self));
            self.seen.log.push(line);
        }
    }

    pub fn is_draining(&self) -> bool {
        self.now >= DRAIN_AT
    }

    pub fn has_faults(&self) -> bool {
        self.now < FAULTS_UNTIL
    }

    pub fn store_time(&self) -> StoreTime {
        StoreTime((STORE_START_US + self.now / 1_000).saturating_add_signed(self.skew_us))
    }

    /// A sidecar's own clock.
    pub fn local(&self, sidecar: usize) -> Nanos {
        let ppm = self.sidecars[sidecar].ppm;
        self.now.saturating_add_signed(i64::try_from(self.now).expect("minutes") * ppm / 1_000_000)
    }

    /// When that clock shows this.
    pub fn true_time(&self, sidecar: usize, local: Nanos) -> Nanos {
        let rate = 1_000_000_i64 + self.sidecars[sidecar].ppm;
        let now = self.local(sidecar);
        let ahead = i64::try_from(local).expect("minutes") - i64::try_from(now).expect("minutes");
        // Not before it shows this.
        self.now.saturating_add_signed(ahead * 1_000_000 / rate + 2)
    }

    fn paused_until(&self, happening: &Happening) -> Option<Nanos> {
        let sidecar = match happening {
            Happening::Answered { sidecar, .. } | Happening::Woken { sidecar, .. } => *sidecar,
            Happening::Unlocked { sidecar, .. } => *sidecar,
            Happening::Gap(sidecar) | Happening::Beat(sidecar) => *sidecar,
            Happening::GivenUp { worker, .. } | Happening::Step { worker, .. } => self.workers[*worker].sidecar,
            _ => return None,
        };
        Some(self.sidecars[sidecar].paused_until).filter(|until| self.now < *until)
    }

    fn happen(&mut self, happening: Happening) {
        if let Some(until) = self.paused_until(&happening) {
            self.at(until, happening);
            return;
        }
        match happening {
            Happening::Arrives(call) => self.arrives(call),
            Happening::Answered { sidecar, worker, number, answer, store_time } => {
                let heard_at = self.local(sidecar);
                self.sidecars[sidecar].heard = Some((heard_at, store_time));
                self.answered(worker, number, answer);
            }
            Happening::GivenUp { worker, number } => self.given_up(worker, number),
            Happening::Step { worker, step } => self.step(worker, step),
            Happening::Woken { sidecar, id, name } => self.woken(sidecar, id, name),
            Happening::Unlocked { sidecar, id, name } => self.hears_of_unlock(sidecar, id, &name),
            Happening::Operator => self.operator(),
            Happening::Unlock(request) => self.unlock(&request),
            Happening::Gap(sidecar) => self.gap(sidecar),
            Happening::Beat(sidecar) => self.beat(sidecar),
            Happening::BeatArrives(sidecar) => {
                if self.is_reached(sidecar) {
                    let session = self.sidecars[sidecar].session;
                    let run_id = self.run_id.to_string();
                    self.space.beat(server(self.store_time(), self.now - self.born, &run_id), session);
                    self.checker.sign_of_life(self.now, session);
                }
            }
            Happening::Snapshot => {
                self.snapshots.push_back(self.space.clone());
                if self.snapshots.len() > 5 {
                    self.snapshots.pop_front();
                }
                self.after(250 * MS, Happening::Snapshot);
            }
            Happening::Fault => self.fault(),
            Happening::StoreUp { forget, space } => self.store_up(forget, space),
            Happening::Join => self.join(),
            Happening::Tick => {
                let now = self.store_time();
                self.space.sweep(now);
                self.after(500 * MS, Happening::Tick);
            }
        }
    }

    pub fn is_reached(&self, sidecar: usize) -> bool {
        self.up && self.now >= self.sidecars[sidecar].cut_until
    }

    /// How long a request or an answer takes; now and then longer than anybody waits for it.
    fn delay(&mut self) -> Nanos {
        match self.rng.u32(0..40) {
            // Where the store's clock steps back, what is late seems to be in time.
            0 if self.scenario.faults != Faults::ClockBack => self.span(MS, 6 * SECOND),
            0..3 => self.span(MS, TIMEOUT * 9 / 10),
            _ => self.span(MS / 5, 5 * MS),
        }
    }

    /// Puts a request on its way.
    pub fn send(&mut self, sidecar: usize, worker: usize, number: u64, body: Body) {
        let now = self.local(sidecar);
        let asks_anew = self.sidecars[sidecar].heard.is_none_or(|(at, _)| (now - at + TIMEOUT) / 50 > TIMEOUT / 4);
        if asks_anew {
            self.sidecars[sidecar].heard = Some((now, self.store_time()));
        }
        let (heard_at, store_time) = self.sidecars[sidecar].heard.expect("just asked");
        // As the adapter of Redis does.
        let span = now - heard_at + TIMEOUT;
        let latest = store_time.plus(Duration::from_nanos(span - span / 50));
        let call = Call { sidecar, worker, number, latest, body };
        let fate = self.rng.u32(0..100);
        if fate < 2 || (asks_anew && !self.is_reached(sidecar)) {
            self.checker.disturbed(call.body.names());
        } else {
            let delay = self.delay();
            self.after(delay, Happening::Arrives(call));
        }
    }

    /// The store executes a request, and what it says about it goes out.
    fn arrives(&mut self, call: Call) {
        self.checker.disturbed(call.body.names());
        if !self.is_reached(call.sidecar) {
            return;
        }
        let store_time = self.store_time();
        let answer = if self.scenario.rules.no_late && store_time > call.latest {
            self.seen.late += 1;
            Answer::Late
        } else {
            let run_id = self.run_id.to_string();
            let (answer, wakes) = self.execute(server(store_time, self.now - self.born, &run_id), &call);
            self.note(|_| format!("{call:?}: {answer:?}, wakes {wakes:?}"));
            wakes.into_iter().for_each(|wake| self.publish(wake));
            answer
        };
        if call.number > 0 && self.rng.u32(0..100) >= 4 {
            let delay = self.delay();
            let Call { sidecar, worker, number, .. } = call;
            self.after(delay, Happening::Answered { sidecar, worker, number, answer, store_time });
        }
    }

    pub fn publish(&mut self, wake: Wake) {
        let Some(sidecar) = self.sidecars.iter().position(|sidecar| sidecar.session == wake.session) else { return };
        if self.scenario.rules.wakes && self.is_reached(sidecar) && !self.one_in(50) {
            let delay = self.span(MS / 5, 5 * MS);
            self.after(delay, Happening::Woken { sidecar, id: wake.id, name: wake.name });
        }
    }

    fn execute(&mut self, server: Server<'_>, call: &Call) -> (Answer, Vec<Wake>) {
        let before = self.holders(server, call.body.names());
        self.met.extend(call.body.names().iter().map(|name| (name.clone(), self.now)));
        let outcome = match &call.body {
            Body::Acquire(request) => {
                let at_least = if self.scenario.rules.rests { request.at_least } else { Duration::ZERO };
                let executed = AcquireRequest { at_least, ..request.clone() };
                let is_met =
                    request.names.iter().any(|name| self.space.inspect(server, name) != LockInsight::default());
                let (reply, wakes) = self.space.acquire(server, &executed).expect("tokens are left");
                // Who asks for what is free has no ticket that had to stand.
                if request.queueing != Queueing::No && (is_met || matches!(reply, AcquireReply::Guarded { .. })) {
                    self.checker.sign_of_life(self.now, request.session);
                }
                self.acquired(call.sidecar, (call.worker, call.number), request, &reply);
                (Answer::Acquired(reply), wakes)
            }
            Body::Extend(request) => {
                let reply = self.space.extend(server, request);
                if let (ExtendReply::Extended { restored: true, .. }, Some(lost)) = (reply, &request.restore) {
                    // As its sidecar has measured it.
                    let at_least = u64::try_from(lost.at_least.as_nanos()).expect("seconds");
                    self.kept_until.insert(request.id, self.now + at_least);
                }
                if reply == ExtendReply::Lost && self.workers[call.worker].may_act(request.id, self.local(call.sidecar))
                {
                    self.checker.loses(self.now, request);
                }
                (Answer::Extended(reply), Vec::new())
            }
            Body::Release(request) => {
                let (_, wakes) = self.space.release(server, &self.mistaken(server, request));
                self.given_back.insert(request.id);
                self.given_back.extend(request.seat.as_ref().map(|seat| seat.id));
                (Answer::Released, wakes)
            }
            Body::Cancel(request) => {
                self.checker.left(request.id);
                if !request.keeps {
                    self.checker.forgoes(request.id);
                    self.ended.insert(request.id);
                    self.given_back.insert(request.id);
                }
                (Answer::Cancelled, self.space.cancel(server, request))
            }
        };
        // What it overrules was over when it was granted.
        let overruled = match (&call.body, &outcome.0) {
            (Body::Extend(request), Answer::Extended(ExtendReply::Extended { token, restored: true, .. })) => {
                request.restore.as_ref().filter(|lost| lost.permits == 1).map_or(Token::NONE, |_| *token)
            }
            _ => Token::NONE,
        };
        let own: Vec<Token> = call.body.ids().iter().filter_map(|id| self.tokens.get(id).copied()).collect();
        let others = |holders: Vec<(LockName, Token, Duration)>| -> Vec<_> {
            holders.into_iter().filter(|(_, token, _)| !own.contains(token) && *token >= overruled).collect()
        };
        let after = self.holders(server, call.body.names());
        if others(before) != others(after) {
            self.checker.complain(self.now, format!("{:?} changed another's lock", call.body.ids()));
        }
        outcome
    }

    /// What the store answers to the call of a worker, by its number.
    fn acquired(&mut self, sidecar: usize, call: (usize, u64), request: &AcquireRequest, reply: &AcquireReply) {
        let (worker, number) = call;
        match reply {
            AcquireReply::Granted(grant) => {
                let it = &self.workers[worker];
                let waits = if number == 0 { it.is(request.id) } else { it.is_still(number, request.id) };
                if self.sidecars[sidecar].alive && (!waits || self.ended.contains(&request.id)) {
                    self.checker.complain(self.now, format!("{} is granted to nobody", request.id));
                }
                if grant.tokens > 1 {
                    self.checker.blocks.insert(grant.token);
                }
                let is_new = self.tokens.values().all(|token| *token != grant.token);
                if self.tokens.insert(request.id, grant.token) != Some(grant.token) {
                    // Unlocked before it heard of its grant, it asked again and has another.
                    self.unlocked.retain(|(id, _)| *id != request.id);
                }
                // Not what its owner has, or had, already. Anew, too, when its lease ran out before it heard of it.
                let at_least = u64::try_from(request.at_least.as_nanos()).expect("seconds");
                self.kept_until.insert(request.id, self.now + at_least);
                if is_new {
                    self.checker.keeps(self.now, request, at_least);
                    let permits = usize::try_from(request.permits).expect("small");
                    self.checker.granted(self.now, &request.names, request.id, grant.token, permits);
                    self.seen.grants += 1;
                } else {
                    self.checker.has_had_its_turn(request.id);
                }
            }
            AcquireReply::Held { .. } | AcquireReply::Guarded { .. } => {
                if let AcquireReply::Guarded { remaining } = reply {
                    // Begun by the first who asked after a failover, however long after it that was.
                    self.shut_until = self.now + u64::try_from(remaining.as_nanos()).expect("seconds");
                }
                // What was given back is not queued again, however late it comes.
                if request.queueing != Queueing::No && !self.given_back.contains(&request.id) {
                    let (session, id, is_fair) = (request.session, request.id, self.workers[worker].is_fair);
                    request.names.iter().for_each(|name| self.checker.queued(name, session, id, is_fair));
                }
            }
            AcquireReply::PermitsDiffer { .. } => self.checker.complain(self.now, format!("{reply:?}")),
        }
    }

    /// A request has the lock from another one of its sidecar.
    pub fn in_turn(&mut self, request: &AcquireRequest, token: Token) {
        self.seen.passed += 1;
        self.tokens.insert(request.id, token);
        // Where it was unlocked before it heard of its grant, it has another now.
        self.unlocked.retain(|(id, _)| *id != request.id);
        self.checker.rises_in_turn(self.now, &request.names, token);
        self.checker.left(request.id);
    }

    /// Whether the store, or another request, has ever given it a lock.
    pub fn was_granted(&self, id: LockId) -> bool {
        self.tokens.contains_key(&id)
    }

    /// The classic mistake: what is given back is whatever is held.
    fn mistaken(&self, server: Server<'_>, request: &LockReleaseRequest) -> LockReleaseRequest {
        let mut request = request.clone();
        if !self.scenario.rules.by_id
            && let Some(holder) = self.space.inspect(server, &request.names[0]).holders.first()
            && let Some((id, _)) = self.tokens.iter().find(|(_, token)| **token == holder.token)
        {
            request.id = *id;
        }
        request
    }

    fn holders(&self, server: Server<'_>, names: &[LockName]) -> Vec<(LockName, Token, Duration)> {
        let of_name = |name: &LockName| {
            let holders = self.space.inspect(server, name).holders;
            holders.into_iter().map(|holder| (name.clone(), holder.token, holder.remaining)).collect::<Vec<_>>()
        };
        names.iter().flat_map(of_name).collect()
    }

    fn join(&mut self) {
        let session = SessionId::from_u128(self.rng.u128(..));
        let ppm = self.rng.i64(-5_000..=5_000);
        let sidecar = self.sidecars.len();
        self.sidecars.push(Sidecar {
            session,
            alive: true,
            paused_until: 0,
            cut_until: 0,
            ppm,
            floors: BTreeMap::new(),
            heard: None,
        });
        self.after(0, Happening::Beat(sidecar));
        for at in 0..self.rng.usize(2..6) {
            let worker = self.workers.len();
            // Some of them are threads of one owner, who may have a lock several times at once.
            let owner = if at < 3 { format!("crew-{sidecar}") } else { format!("worker-{worker}") };
            self.workers.push(Worker::new(sidecar, Arc::from(owner)));
            self.rest(worker);
        }
    }

    fn beat(&mut self, sidecar: usize) {
        let waits = |worker: &Worker| worker.sidecar == sidecar && worker.stage == Stage::Asking;
        if self.sidecars[sidecar].alive {
            if self.workers.iter().any(waits) && self.is_reached(sidecar) {
                let delay = self.span(MS / 5, 5 * MS);
                self.after(delay, Happening::BeatArrives(sidecar));
            }
            self.after(u64::try_from(TICKET_SPAN.as_nanos()).expect("small") / 4, Happening::Beat(sidecar));
        }
    }

    /// Something has gone wrong until then.
    pub fn disturb(&mut self, until: Nanos) {
        self.aftermath = self.aftermath.max(until + AFTERMATH);
    }
}

pub fn server(now: StoreTime, uptime: Nanos, run_id: &str) -> Server<'_> {
    // It has been there for a while when the run begins.
    Server { now, uptime: Duration::from_nanos(uptime), generation: run_id }
}
