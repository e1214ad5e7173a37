//! The world: true time, a network that delays and loses, leaders one after the other, and one store.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use baton::protocol::jobs::{
    BackoffPolicy, ClaimedJob, ClaimedPlan, Ending, JobName, JobPut, JobPutReply, JobRegistry, JobSettle,
    JobSettleReply, JobTake, JobTakeReply, JobTaker, Moment, OnInterrupt, Revision, RuntimePlan, RuntimeState,
    Settlement, Slot, StoredJob, TakeAnswer, TakeId, TakerAction, TakerEvent, TakerInput, Timetable, Wall,
};
use baton::protocol::{Mono, RoleName, StoreTime, Token};

use super::checker::{Checker, Errand};
use crate::clockwork::{MS, Nanos, SECOND, Timeline};
use crate::jobs::world::Every;

/// When a request counts as unanswered; it is not executed after that.
const TIMEOUT: Nanos = 500 * MS;
const FAULTS_UNTIL: Nanos = 60 * SECOND;
/// From there on all is well, and in the end everything must be done.
const END: Nanos = FAULTS_UNTIL + 120 * SECOND;
const BEGIN_MS: u64 = 1_200_000_000_000;
/// How far a replica that takes over may be behind.
const LAG: Nanos = 300 * MS;

/// What protects; switched off to show that it is missed.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// A later term shuts earlier ones out.
    pub fence: bool,
    /// A take without an answer is repeated under its number.
    pub numbered: bool,
    /// What the store has given and nobody knows of is asked for.
    pub recover: bool,
    /// Each attempt is settled by its own token.
    pub tickets: bool,
    /// Nothing starts without the time to cancel it.
    pub room: bool,
}

impl Rules {
    pub const ALL: Self = Self { fence: true, numbered: true, recover: true, tickets: true, room: true };
}

#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    pub seed: u64,
    pub rules: Rules,
    /// The store fails over to a replica that lags: some of what it has said is lost.
    pub lags: bool,
    pub log: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    Spec { number: u64, every: Option<u64>, repeats: u32 },
    State(RuntimeState),
}

#[derive(Debug)]
enum Call {
    Take(TakeId, JobTake),
    Settle(JobName, JobSettle<RuntimeState>),
    Look(JobName, Revision),
}

#[derive(Debug)]
enum Happening {
    /// A leader's timer.
    Wake {
        term: Token,
        number: u64,
    },
    Arrives {
        term: Token,
        call: Call,
        until: Nanos,
    },
    Tell {
        term: Token,
        input: Box<TakerInput<Errand>>,
    },
    /// The app has done its work, or not.
    Ends {
        term: Token,
        name: JobName,
        ticket: Token,
        ending: Ending,
    },
    Put(u64),
    Delete(u64),
    Fault,
    /// The lease of the one before is over.
    Leads,
    Snapshot,
}

struct Leader {
    term: Token,
    taker: JobTaker<Errand>,
    /// It is the leader's time still.
    room: bool,
    wakes: u64,
    running: BTreeMap<JobName, (Token, Errand, Slot)>,
}

pub struct World {
    scenario: Scenario,
    rng: fastrand::Rng,
    now: Nanos,
    timeline: Timeline<Happening>,
    store: JobRegistry<Body>,
    snapshots: Vec<(Nanos, JobRegistry<Body>)>,
    leader: Option<Leader>,
    /// Whose time is over, and who does not know it yet.
    stale: Option<Leader>,
    /// The greatest term that has taken.
    taken_by: Token,
    terms: u64,
    checker: Checker,
    log: Vec<String>,
    put: u64,
}

#[derive(Debug)]
pub struct Verdict {
    pub complaints: Vec<String>,
    pub first: Option<String>,
    pub log: Vec<String>,
    pub starts: u64,
    pub terms: u64,
    pub put: u64,
}

fn role() -> RoleName {
    RoleName::new("scheduler").expect("a DNS label")
}

impl World {
    pub fn play(scenario: Scenario) -> Verdict {
        let mut world = Self {
            scenario,
            rng: fastrand::Rng::with_seed(scenario.seed),
            now: 0,
            timeline: Timeline::new(),
            store: JobRegistry::default(),
            snapshots: Vec::new(),
            leader: None,
            stale: None,
            taken_by: Token::NONE,
            terms: 0,
            checker: Checker::new(scenario.lags),
            log: Vec::new(),
            put: 0,
        };
        world.timeline.plan(0, Happening::Leads);
        world.timeline.plan(0, Happening::Snapshot);
        world.timeline.plan(SECOND, Happening::Put(0));
        world.timeline.plan(3 * SECOND, Happening::Fault);
        while let Some((when, happening)) = world.timeline.next(END) {
            world.now = when;
            world.happen(happening);
        }
        let left: Vec<String> = world.store.list(None, 1_000).iter().map(|(name, _)| name.to_string()).collect();
        world.checker.end(&left);
        let Checker { complaints, first, starts, .. } = world.checker;
        let complaints = complaints.into_iter().collect();
        Verdict { complaints, first, log: world.log, starts, terms: world.terms, put: world.put }
    }

    fn note(&mut self, what: impl FnOnce() -> String) {
        if self.scenario.log {
            let line: String = format!("{:>9} ms {}", self.now / MS, what()).chars().take(300).collect();
            self.log.push(line);
        }
    }

    fn wall(&self) -> Wall {
        Wall::from_millis(BEGIN_MS + self.now / MS)
    }

    fn moment(&self, leader: &Leader) -> Moment {
        let room = leader.room || !self.scenario.rules.room;
        Moment { mono: Mono::from_nanos(self.now + SECOND), wall: self.wall(), room, places: usize::MAX }
    }

    fn span(&mut self, from: Nanos, to: Nanos) -> Nanos {
        self.rng.u64(from..to)
    }

    fn is_calm(&self) -> bool {
        self.now >= FAULTS_UNTIL
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Leads => self.leads(),
            Happening::Fault => self.fault(),
            Happening::Snapshot => {
                self.snapshots.retain(|(at, _)| *at + LAG >= self.now);
                self.snapshots.push((self.now, self.store.clone()));
                if self.scenario.lags && !self.is_calm() {
                    self.timeline.plan(self.now + 50 * MS, Happening::Snapshot);
                }
            }
            Happening::Put(number) => self.client_puts(number),
            Happening::Delete(number) => {
                let name = name_of(number);
                // Whoever deletes it wants no run any more; one may go on.
                let (deleted, news) = self.store.delete(&name);
                self.checker.forget(&name);
                self.note(|| format!("{name} is deleted: {deleted}"));
                self.tell_all(news, &name);
            }
            Happening::Arrives { term, call, until } => self.arrives(term, call, until),
            Happening::Wake { term, number } => {
                // Another timer may have been set since.
                let set = [&self.leader, &self.stale].into_iter().flatten().find(|leader| leader.term == term);
                if set.is_some_and(|leader| leader.wakes == number) {
                    self.with(term, |world, leader| {
                        let now = world.moment(leader);
                        leader.taker.handle_timeout(now);
                    });
                }
            }
            Happening::Tell { term, input } => {
                self.with(term, |world, leader| {
                    let now = world.moment(leader);
                    leader.taker.handle_input(now, *input);
                });
            }
            Happening::Ends { term, name, ticket, ending } => self.app_ends(term, name, ticket, ending),
        }
    }

    /// Whoever has this term, and lives: then does what its taker asks for.
    fn with(&mut self, term: Token, act: impl FnOnce(&mut Self, &mut Leader)) {
        for is_stale in [false, true] {
            let place = if is_stale { &mut self.stale } else { &mut self.leader };
            let Some(mut leader) = place.take_if(|leader| leader.term == term) else { continue };
            act(self, &mut leader);
            self.act(&mut leader);
            *(if is_stale { &mut self.stale } else { &mut self.leader }) = Some(leader);
            return;
        }
    }

    fn leads(&mut self) {
        self.terms += 1;
        let term = Token::new(1_000_000 * self.terms).expect("below 2^53");
        let now =
            Moment { mono: Mono::from_nanos(self.now + SECOND), wall: self.wall(), room: true, places: usize::MAX };
        let taker = JobTaker::new(role(), term, now);
        let mut leader = Leader { term, taker, room: true, wakes: 0, running: BTreeMap::new() };
        self.note(|| format!("{term} leads"));
        self.act(&mut leader);
        self.leader = Some(leader);
        let gap = Happening::Tell { term, input: Box::new(TakerInput::Gap) };
        self.timeline.plan(self.now + 5 * MS, gap);
    }

    fn fault(&mut self) {
        if self.is_calm() {
            return;
        }
        let next = self.span(500 * MS, 4 * SECOND);
        self.timeline.plan(self.now + next, Happening::Fault);
        match self.rng.u8(0..8) {
            0..=1 => {
                let killed = self.leader.take();
                self.note(|| format!("{:?} is killed", killed.map(|leader| leader.term)));
                self.succeed();
            }
            // Its time is over; what it has sent is on its way, and it does not know yet.
            2..=3 => {
                self.stale = self.leader.take();
                if let Some(stale) = &mut self.stale {
                    stale.room = false;
                    let term = stale.term;
                    self.note(|| format!("{term} is stale"));
                }
                self.interrupt_all();
                self.succeed();
            }
            4 => {
                if let Some(term) = self.leader.as_ref().map(|leader| leader.term) {
                    self.note(|| format!("{term} resigns"));
                    self.with(term, |world, leader| {
                        let now = world.moment(leader);
                        leader.taker.handle_input(now, TakerInput::Closing);
                    });
                    self.stale = self.leader.take();
                    self.interrupt_all();
                    self.succeed();
                }
            }
            5 if self.scenario.lags => {
                if let Some((at, store)) = self.snapshots.first().cloned() {
                    self.store = store;
                    self.snapshots.clear();
                    self.note(|| format!("the store is as it was at {} ms", at / MS));
                    if let Some(term) = self.leader.as_ref().map(|leader| leader.term) {
                        let gap = Happening::Tell { term, input: Box::new(TakerInput::Gap) };
                        self.timeline.plan(self.now + 50 * MS, gap);
                    }
                }
            }
            _ => {}
        }
    }

    /// What runs under a term that is over is ended, by the guard of each attempt.
    fn interrupt_all(&mut self) {
        let Some(stale) = &self.stale else { return };
        let ends: Vec<_> =
            stale.running.iter().map(|(name, (ticket, ..))| (stale.term, name.clone(), *ticket)).collect();
        for (term, name, ticket) in ends {
            let after = self.span(0, 20 * MS);
            let ending = Ending::Interrupted;
            self.timeline.plan(self.now + after, Happening::Ends { term, name, ticket, ending });
        }
    }

    fn succeed(&mut self) {
        if self.leader.is_none() {
            let after = self.span(100 * MS, 2 * SECOND);
            self.timeline.plan(self.now + after, Happening::Leads);
        }
    }

    fn client_puts(&mut self, number: u64) {
        if self.is_calm() {
            return;
        }
        let pause = self.span(10 * MS, 600 * MS);
        self.timeline.plan(self.now + pause, Happening::Put(number + 1));
        // Now and then one is put in the place of another.
        let of = if self.rng.u8(0..8) == 0 { number.saturating_sub(self.rng.u64(1..4)) } else { number };
        let name = name_of(of);
        let every = (self.rng.u8(0..6) == 0).then(|| self.rng.u64(1..4));
        let slot = Wall::from_millis(self.wall().as_millis() + self.rng.u64(0..5_000));
        let put = JobPut {
            role: role(),
            slot,
            suspended: false,
            spec: Body::Spec { number, every, repeats: 3 },
            state: Body::State(RuntimeState::default()),
            overwrite: true,
        };
        self.put += 1;
        let stored = self.store.put(&name, put, StoreTime(self.now + number + 1)).expect("a moment");
        if let (JobPutReply::Created(revision) | JobPutReply::Replaced(revision), news) = stored {
            self.note(|| format!("{name} is put, for {slot:?}: {revision:?}"));
            self.checker.promise((name.clone(), revision));
            self.tell_all(news, &name);
        }
        if self.rng.u8(0..12) == 0 {
            let after = self.span(0, 6 * SECOND);
            self.timeline.plan(self.now + after, Happening::Delete(of));
        }
    }

    fn tell_all(&mut self, news: bool, name: &JobName) {
        let Some(term) = self.leader.as_ref().map(|leader| leader.term).filter(|_| news) else { return };
        let input = Box::new(TakerInput::Changed(name.clone()));
        self.timeline.plan(self.now + 2 * MS, Happening::Tell { term, input });
    }

    fn act(&mut self, leader: &mut Leader) {
        while let Some(action) = leader.taker.poll_action() {
            match action {
                TakerAction::Take { id, mut take } => {
                    if !self.scenario.rules.numbered && !take.all {
                        take.request += self.now;
                    }
                    self.send(leader.term, Call::Take(id, take));
                }
                TakerAction::Settle { name, settle } => self.send(leader.term, Call::Settle(name, settle)),
                TakerAction::Look { name, of } => self.send(leader.term, Call::Look(name, of)),
                TakerAction::Start { name, slot, scheduled, attempt, token, work } => {
                    let (term, room) = (leader.term, leader.room);
                    self.note(|| format!("{term} starts {name} of {slot}, attempt {attempt} ({token})"));
                    if !room {
                        self.checker.complain("was started when its time was over", name.as_str());
                    }
                    self.checker.started(work.clone(), scheduled.as_millis(), attempt);
                    leader.running.insert(name.clone(), (token, work, slot));
                    let takes = self.span(MS, 1_500 * MS);
                    let fails = !self.is_calm() && self.rng.u8(0..5) == 0;
                    let ending = if fails { Ending::Failed } else { Ending::Succeeded };
                    self.timeline.plan(self.now + takes, Happening::Ends { term, name, ticket: token, ending });
                }
                TakerAction::Cancel { name, token, why } => {
                    let term = leader.term;
                    self.note(|| format!("{term} cancels {name} ({token}): {why:?}"));
                    let ending = Ending::Cancelled;
                    self.timeline.plan(self.now + MS, Happening::Ends { term, name, ticket: token, ending });
                }
                TakerAction::Tell(TakerEvent::Superseded { fence }) => {
                    let term = leader.term;
                    self.note(|| format!("{term} is superseded by {fence}"));
                }
                TakerAction::Tell(_) => {}
            }
        }
        leader.wakes += 1;
        if let Some(at) = leader.taker.poll_timeout() {
            let when = at.as_nanos().saturating_sub(SECOND).max(self.now + 1);
            self.timeline.plan(when, Happening::Wake { term: leader.term, number: leader.wakes });
        }
    }

    fn send(&mut self, term: Token, call: Call) {
        let until = self.now + TIMEOUT;
        let unanswered = match &call {
            Call::Take(id, _) => TakerInput::TakeUnanswered(*id),
            Call::Settle(name, settle) => TakerInput::SettleUnanswered { name: name.clone(), ticket: settle.ticket },
            Call::Look(name, _) => TakerInput::Changed(name.clone()),
        };
        let lost = !self.is_calm() && self.rng.u8(0..20) == 0;
        let late = if self.rng.u8(0..10) == 0 { 600 * MS } else { 30 * MS };
        let (arrives, pause) = (self.now + self.span(MS, late), self.span(20 * MS, 100 * MS));
        // Whoever has the answer by then does not wait for one. A look that is answered is not to be made for ever.
        if lost || arrives > until || !matches!(call, Call::Look(..)) {
            self.timeline.plan(until + pause, Happening::Tell { term, input: Box::new(unanswered) });
        }
        if !lost {
            self.timeline.plan(arrives, Happening::Arrives { term, call, until });
        }
    }

    fn arrives(&mut self, term: Token, call: Call, until: Nanos) {
        if self.now > until {
            return;
        }
        let input = match call {
            Call::Take(id, take) => TakerInput::Took(id, self.take(term, take)),
            Call::Settle(name, settle) => {
                let ticket = settle.ticket;
                let reply = self.settle(term, &name, settle);
                TakerInput::Settled { name, ticket, reply }
            }
            Call::Look(name, of) => {
                let revision = self.store.get(&name).map(|job| job.revision);
                TakerInput::Looked { name, of, revision }
            }
        };
        let is_lost = !self.is_calm() && self.rng.u8(0..20) == 0;
        let back = self.now + self.span(MS, 20 * MS);
        if !is_lost && back <= until {
            self.timeline.plan(back, Happening::Tell { term, input: Box::new(input) });
        }
    }

    fn fenced(&self, term: Token) -> Token {
        // Without a fence every term is as good as the latest.
        if self.scenario.rules.fence { term } else { term.max(self.taken_by) }
    }

    fn take(&mut self, term: Token, take: JobTake) -> TakeAnswer<Errand> {
        let take = JobTake { token: self.fenced(take.token), ..take };
        match self.store.take(&take) {
            JobTakeReply::Stale { fence } => TakeAnswer::Stale { fence },
            JobTakeReply::Taken { jobs, next, held } => {
                // A store that has lost a term knows nothing of it.
                if term < self.taken_by && !self.scenario.lags {
                    self.checker.complain("is stale, and has taken", &term.to_string());
                }
                self.taken_by = self.taken_by.max(term);
                let held = if self.scenario.rules.recover { held } else { 0 };
                let jobs: Vec<_> = jobs.into_iter().map(claimed).collect();
                self.note(|| {
                    let names: Vec<_> = jobs.iter().map(|job| format!("{}/{}", job.name, job.attempt)).collect();
                    format!("{term} takes ({}{}) {names:?}", take.request, if take.all { ", all" } else { "" })
                });
                TakeAnswer::Taken { jobs, next, held }
            }
        }
    }

    fn settle(&mut self, term: Token, name: &JobName, settle: JobSettle<RuntimeState>) -> JobSettleReply {
        let JobSettle { token, revision, ticket, then } = settle;
        let then = match then {
            Settlement::Remove => Settlement::Remove,
            Settlement::Again { slot, due, attempt, state } => {
                Settlement::Again { slot, due, attempt, state: state.map(Body::State) }
            }
        };
        let ticket = match self.store.get(name) {
            Some(job) if !self.scenario.rules.tickets => ticket.max(job.ticket),
            _ => ticket,
        };
        let settle = JobSettle { token: self.fenced(token), revision, ticket, then };
        let reply = self.store.settle(name, settle);
        if reply == JobSettleReply::Settled && term < self.taken_by && !self.scenario.lags {
            self.checker.complain("is stale, and has settled", &term.to_string());
        }
        self.note(|| format!("{term} settles {name} ({ticket}): {reply:?}"));
        reply
    }

    fn app_ends(&mut self, term: Token, name: JobName, ticket: Token, ending: Ending) {
        let mut ended = None;
        self.with(term, |world, leader| {
            if leader.running.get(&name).is_none_or(|(token, ..)| *token != ticket) {
                return;
            }
            ended = leader.running.remove(&name).map(|(_, job, _)| job);
            let now = world.moment(leader);
            leader.taker.handle_input(now, TakerInput::Ended { name, ticket, ending, note: String::new() });
        });
        // What an app has done is done, whatever becomes of its leader.
        if let (Some(job), Ending::Succeeded) = (ended, ending) {
            self.checker.ended(job);
        }
    }
}

fn name_of(number: u64) -> JobName {
    JobName::new(format!("job-{number}")).expect("a DNS label")
}

fn claimed((name, job): (JobName, StoredJob<Body>)) -> ClaimedJob<Errand> {
    let (Body::Spec { every, repeats, .. }, Body::State(state)) = (&job.spec, &job.state) else {
        panic!("a spec and a state")
    };
    let plan = RuntimePlan {
        timetable: every.map(|every| Arc::new(Every(every)) as Arc<dyn Timetable>),
        repeats: every.map(|_| *repeats),
        expires: None,
        starting_deadline: None,
        backoff: BackoffPolicy { limit: 100, initial: Duration::from_millis(50), max: Duration::from_secs(1) },
        active_deadline: None,
        on_interrupt: OnInterrupt::Retry,
    };
    let work = (name.clone(), job.revision);
    let plan = ClaimedPlan::Known { plan, state: state.clone(), work };
    ClaimedJob::of(name, &job, plan)
}
