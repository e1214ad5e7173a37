//! Replicas, an API server that keeps one versioned object, the network between them, and what can go wrong with all.
//! The replicas run the real `Election` and the real decisions of `protocol::lease_object`; the loop around them (look,
//! decide, write, decide anew) is the adapter's, in small.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;
use std::time::Duration;

use baton::protocol::lease_object::{self, Caution, LeaseRecord, Observation, Seen, Source, Step};
use baton::protocol::{
    Action, CampaignReply, Election, Event, Input, Mono, NoReply, Profile, RequestId, Rules, SessionId, Stamped,
    StoreTime, Timing, Token,
};
use fastrand::Rng;

use super::replica::{Call, Replica, Reply, Request};
use super::stranger::Stranger;
use super::{LEASE, MS, Nanos, SECOND, Scenario};

const ANSWER_VALIDITY_MS: u64 = 3_000;
const COMMAND_TIMEOUT: Nanos = SECOND;
const DECISIONS_MAX: u32 = 8;
/// How often an absent object is looked at.
const LOOK_PERIOD: Nanos = LEASE / 8;

/// What travels to the server.
#[derive(Clone, Debug)]
enum Leg {
    Look,
    Write(Box<Write>),
}

#[derive(Clone, Debug)]
struct Write {
    /// The version that was seen, or none to make it.
    on: Option<u64>,
    record: LeaseRecord,
    reply: Reply,
}

/// What comes back.
#[derive(Clone, Debug)]
enum Answer {
    Looked(Option<(u64, LeaseRecord)>),
    /// Done, as this version.
    Done(u64, Box<Write>),
    Conflict,
}

#[derive(Clone, Debug)]
pub enum Happening {
    Wake(usize),
    Arrive {
        from: usize,
        id: Option<RequestId>,
        sent_at: Mono,
        leg: Box<LegBox>,
    },
    Back {
        to: usize,
        id: Option<RequestId>,
        sent_at: Mono,
        answer: Box<AnswerBox>,
    },
    GiveUp {
        to: usize,
        id: RequestId,
    },
    Told {
        to: usize,
        version: u64,
        record: Option<Box<LeaseRecord>>,
    },
    Rewatch(usize),
    Poll(usize),
    /// A replica reads that the process of another has ended; nobody is left to act when its app has, too.
    Departed {
        to: usize,
        dead: usize,
        whole: bool,
    },
    Join,
    Fault,
    ServerUp,
    Stranger,
    Look,
}

/// Keeps what travels private to this file.
#[derive(Clone, Debug)]
pub struct LegBox(Leg);

/// The same.
#[derive(Clone, Debug)]
pub struct AnswerBox(Answer);

pub struct World {
    pub scenario: Scenario,
    pub rng: Rng,
    pub now: Nanos,
    pub queue: BinaryHeap<Reverse<(Nanos, u64)>>,
    pub happenings: BTreeMap<u64, Happening>,
    pub sequence: u64,
    pub replicas: Vec<Replica>,
    pub object: Option<(u64, LeaseRecord)>,
    pub version: u64,
    pub server_up: bool,
    pub stranger: Option<Stranger>,
    pub calm: bool,
    pub faults_end: Nanos,
    /// What went wrong first.
    pub broken: Option<String>,
    pub terms: u64,
    pub led_for: Nanos,
    pub last_led: Nanos,
    pub top: Token,
    pub looked_at: Nanos,
    pub log: Vec<String>,
}

impl World {
    pub fn new(scenario: Scenario) -> Self {
        Self {
            scenario,
            rng: Rng::with_seed(scenario.seed),
            now: 0,
            queue: BinaryHeap::new(),
            happenings: BTreeMap::new(),
            sequence: 0,
            replicas: Vec::new(),
            object: None,
            version: 1,
            server_up: true,
            stranger: scenario.stranger.then(Stranger::default),
            calm: false,
            faults_end: 0,
            broken: None,
            terms: 0,
            led_for: 0,
            last_led: 0,
            top: Token::NONE,
            looked_at: 0,
            log: Vec::new(),
        }
    }

    pub fn at(&mut self, when: Nanos, happening: Happening) {
        self.sequence += 1;
        self.queue.push(Reverse((when.max(self.now), self.sequence)));
        self.happenings.insert(self.sequence, happening);
    }

    pub fn next(&mut self, end: Nanos) -> Option<Happening> {
        let Reverse((when, sequence)) = *self.queue.peek()?;
        if when > end {
            return None;
        }
        self.queue.pop();
        self.now = when;
        self.happenings.remove(&sequence)
    }

    pub fn note(&mut self, text: impl FnOnce(&Self) -> String) {
        if self.scenario.log {
            let line = format!("{:>9.3} s  {}", self.now as f64 / SECOND as f64, text(self));
            self.log.push(line);
        }
    }

    fn wall(&self, at: usize) -> StoreTime {
        let us = 1_700_000_000_000_000 + i128::from(self.now / 1_000) + i128::from(self.replicas[at].wall_skew_us);
        StoreTime(u64::try_from(us).expect("after 1970"))
    }

    fn delay(&mut self, write: bool) -> Nanos {
        match self.rng.u8(0..100) {
            _ if self.calm => self.rng.u64(MS..20 * MS),
            // A write that lingers somewhere, long after its sender gave it up.
            0..=1 if write => self.rng.u64(SECOND..12 * SECOND),
            0..=9 => self.rng.u64(20 * MS..1_200 * MS),
            _ => self.rng.u64(MS..20 * MS),
        }
    }

    fn lost(&mut self) -> bool {
        !self.calm && self.rng.f64() < 0.02
    }

    pub fn join(&mut self) {
        let number = self.replicas.len();
        let ms = Duration::from_millis;
        let skew = i64::try_from(self.scenario.wall_skew_us).expect("small");
        let lease = Duration::from_nanos(LEASE);
        let profile = Profile {
            session: SessionId::from_u128(number as u128 + 1),
            attempts: Default::default(),
            // A restarted container keeps its pod's name.
            identity: Arc::from(format!("web-{}", number % 5)),
            timing: Timing::new(lease, lease / 3, ms(500), ms(ANSWER_VALIDITY_MS)).expect("the table's timings"),
            guard: true,
            app_checked: false,
            rules: Rules::KUBERNETES,
            role_stagger: Duration::ZERO,
            seed: self.rng.u64(..),
        };
        let (clock_offset, clock_ppm) =
            (self.rng.u64(1_000 * SECOND..100_000 * SECOND), self.rng.i64(-10_000..=10_000));
        let drift = i128::from(self.now) * i128::from(clock_ppm) / 1_000_000;
        let born = u64::try_from(i128::from(clock_offset) + i128::from(self.now) + drift).expect("positive");
        self.replicas.push(Replica {
            election: Election::new(profile, Mono::from_nanos(born)),
            observation: Observation::new(self.scenario.caution),
            version: None,
            clock_offset,
            clock_ppm,
            wall_skew_us: self.rng.i64(-skew..=skew),
            alive: true,
            paused_until: 0,
            cut_until: 0,
            watching: false,
            last_event_at: 0,
            promised_until: 0,
            calls: BTreeMap::new(),
            wake_planned: None,
        });
        self.note(|_| format!("replica-{number} joins"));
        self.at(self.now, Happening::Rewatch(number));
        self.at(self.now + LOOK_PERIOD, Happening::Poll(number));
        self.serve(number);
    }

    /// Lets the apps ask, and holds what they were told against P1.
    pub fn look_around(&mut self) {
        let now = self.now;
        let mut acting = Vec::new();
        let mut led = false;
        for (at, replica) in self.replicas.iter_mut().enumerate() {
            let local = replica.local(now);
            if replica.alive
                && now >= replica.paused_until
                && let Some(promise) = replica.election.leadership().promise(local)
            {
                let until = replica.when(local + promise.valid_for, now);
                replica.promised_until = replica.promised_until.max(until);
            }
            if replica.leads(now) || now < replica.promised_until {
                acting.push(format!("replica-{at}"));
            }
            led |= replica.leads(now);
        }
        if self.stranger.as_ref().is_some_and(|stranger| stranger.leads(now)) {
            acting.push("the stranger".to_owned());
            led = true;
        }
        if acting.len() > 1 {
            self.complain(format!("P1: {acting:?} may all act as leader"));
        }
        if led {
            self.led_for += now - self.looked_at;
            self.last_led = now;
        }
        self.looked_at = now;
    }

    fn complain(&mut self, what: String) {
        if self.broken.is_none() {
            self.broken = Some(format!("at {:.3} s: {what}", self.now as f64 / SECOND as f64));
        }
    }

    /// Whether a replica can take this now. A paused one takes it when it goes on.
    fn awake(&mut self, at: usize, happening: &Happening) -> bool {
        let replica = &self.replicas[at];
        if replica.alive && self.now < replica.paused_until {
            let later = replica.paused_until + MS;
            self.at(later, happening.clone());
        }
        let replica = &self.replicas[at];
        replica.alive && self.now >= replica.paused_until
    }

    pub fn happen(&mut self, happening: Happening) {
        let concerns = match &happening {
            Happening::Wake(at) | Happening::Rewatch(at) | Happening::Poll(at) => Some(*at),
            Happening::Back { to, .. } | Happening::GiveUp { to, .. } => Some(*to),
            Happening::Told { to, .. } | Happening::Departed { to, .. } => Some(*to),
            _ => None,
        };
        if concerns.is_some_and(|at| !self.awake(at, &happening)) {
            return;
        }
        match happening {
            Happening::Wake(at) => {
                if self.replicas[at].wake_planned.is_some_and(|planned| planned <= self.now) {
                    self.replicas[at].wake_planned = None;
                }
                let local = self.replicas[at].local(self.now);
                self.replicas[at].election.handle_timeout(local);
                self.serve(at);
            }
            Happening::Arrive { from, id, sent_at, leg } => self.arrive(from, id, sent_at, leg.0),
            Happening::Back { to, id, sent_at, answer } => self.back(to, id, sent_at, answer.0),
            Happening::GiveUp { to, id } => self.give_up(to, id),
            Happening::Told { to, version, record } => {
                if self.now >= self.replicas[to].cut_until {
                    self.take(to, Some(version), record.map(|record| (version, *record)), Source::Watch);
                }
            }
            Happening::Rewatch(at) => {
                self.replicas[at].watching = false;
                if self.server_up && self.now >= self.replicas[at].cut_until {
                    // Open first, then look: what happens in between is told.
                    self.replicas[at].watching = true;
                    self.send(at, None, Leg::Look);
                    self.input(at, Input::Gap);
                } else {
                    self.at(self.now + 300 * MS, Happening::Rewatch(at));
                }
            }
            Happening::Poll(at) => {
                if matches!(self.replicas[at].observation.seen(), Some(Seen::Absent) | None) {
                    self.send(at, None, Leg::Look);
                }
                self.at(self.now + LOOK_PERIOD, Happening::Poll(at));
            }
            Happening::Departed { to, dead, whole } => {
                let promise = Duration::from_millis(if whole { 0 } else { ANSWER_VALIDITY_MS });
                let session = SessionId::from_u128(dead as u128 + 1);
                self.input(to, Input::Departed { session, promise });
            }
            Happening::Join => self.join(),
            Happening::Fault => self.fault(),
            Happening::ServerUp => {
                self.server_up = true;
                self.note(|_| "the server is up".to_owned());
                for at in 0..self.replicas.len() {
                    let soon = self.now + self.rng.u64(0..SECOND);
                    self.at(soon, Happening::Rewatch(at));
                }
            }
            Happening::Stranger => {
                if self.server_up
                    && let Some(mut stranger) = self.stranger.take()
                {
                    stranger.round(self);
                    self.stranger = Some(stranger);
                }
                self.at(self.now + LEASE / 8, Happening::Stranger);
            }
            Happening::Look => {}
        }
    }

    pub fn input(&mut self, at: usize, input: Input) {
        self.note(|_| format!("replica-{at} <- {input:?}"));
        let local = self.replicas[at].local(self.now);
        self.replicas[at].election.handle_input(local, input);
        self.serve(at);
    }

    fn serve(&mut self, at: usize) {
        while let Some(action) = self.replicas[at].election.poll_action() {
            match action {
                Action::Campaign { id, request } => self.call(at, id, Request::Campaign(request)),
                Action::Renew { id, request } => self.call(at, id, Request::Renew(request)),
                Action::Release { id, request } => self.call(at, id, Request::Release(request)),
                Action::Tell(event) => {
                    self.note(|_| format!("replica-{at} tells {event:?}"));
                    if let Event::Elected { token } = event {
                        self.terms += 1;
                        if token <= self.top {
                            let top = self.top;
                            self.complain(format!("P2: replica-{at} is elected with {token} after {top}"));
                        }
                        self.top = self.top.max(token);
                    }
                }
            }
        }
        let replica = &self.replicas[at];
        if let Some(due) = replica.election.poll_timeout() {
            let when = replica.when(due, self.now);
            if replica.wake_planned.is_none_or(|planned| when < planned) {
                self.replicas[at].wake_planned = Some(when);
                self.at(when, Happening::Wake(at));
            }
        }
    }

    fn call(&mut self, at: usize, id: RequestId, request: Request) {
        self.note(|_| format!("replica-{at} -> {request:?}"));
        let replica = &mut self.replicas[at];
        let known = replica.observation.record().is_some();
        let looked = match &request {
            Request::Campaign(_) => !(known && replica.watching),
            Request::Renew(_) | Request::Release(_) => !known,
        };
        replica.calls.insert(id, Call { request, decisions: 0, looked, creating: false });
        self.at(self.now + COMMAND_TIMEOUT, Happening::GiveUp { to: at, id });
        if looked { self.send(at, Some(id), Leg::Look) } else { self.decide(at, id) }
    }

    /// What the adapter does between two answers.
    fn decide(&mut self, at: usize, id: RequestId) {
        let wall = self.wall(at);
        let replica = &mut self.replicas[at];
        let now = replica.local(self.now);
        let Some(call) = replica.calls.get_mut(&id) else { return };
        call.decisions += 1;
        let step = match &call.request {
            Request::Campaign(request) => {
                let step = lease_object::campaign(&replica.observation, request, Rules::KUBERNETES, (now, wall));
                reply_as(step.expect("the clock is not that far ahead"), Reply::Campaign)
            }
            Request::Renew(request) => {
                reply_as(lease_object::renew(&replica.observation, request, Rules::KUBERNETES, wall), Reply::Renew)
            }
            Request::Release(request) => {
                reply_as(lease_object::release(&replica.observation, request, wall), Reply::Release)
            }
        };
        match step {
            Step::Reply(reply) => {
                let held = replica.watching && matches!(reply, Reply::Campaign(CampaignReply::Held { .. }));
                if call.looked || held {
                    self.finish(at, id, Ok(reply));
                } else {
                    call.looked = true;
                    self.send(at, Some(id), Leg::Look);
                }
            }
            Step::Write { record, reply } => {
                let on = replica.version.filter(|_| replica.observation.record().is_some());
                call.creating = on.is_none();
                self.send(at, Some(id), Leg::Write(Box::new(Write { on, record, reply })));
            }
        }
    }

    fn finish(&mut self, at: usize, id: RequestId, reply: Result<Reply, NoReply>) {
        let Some(call) = self.replicas[at].calls.remove(&id) else { return };
        let stamped =
            |reply| Stamped { reply, store_time: StoreTime(self.replicas[at].local(self.now).as_nanos() / 1_000) };
        let input = match (call.request, reply) {
            (_, Ok(Reply::Campaign(reply))) => Input::Campaigned { id, reply: Ok(stamped(reply)) },
            (_, Ok(Reply::Renew(reply))) => {
                Input::Renewed { id, reply: Ok(Stamped { reply, store_time: StoreTime(0) }) }
            }
            (_, Ok(Reply::Release(reply))) => {
                Input::Released { id, reply: Ok(Stamped { reply, store_time: StoreTime(0) }) }
            }
            (Request::Campaign(_), Err(failure)) => Input::Campaigned { id, reply: Err(failure) },
            (Request::Renew(_), Err(failure)) => Input::Renewed { id, reply: Err(failure) },
            (Request::Release(_), Err(failure)) => Input::Released { id, reply: Err(failure) },
        };
        self.input(at, input);
    }

    fn give_up(&mut self, at: usize, id: RequestId) {
        let Some(call) = self.replicas[at].calls.get(&id) else { return };
        if call.creating {
            self.replicas[at].observation.create_unanswered();
        }
        self.finish(at, id, Err(NoReply::new("no answer in time")));
    }

    fn send(&mut self, from: usize, id: Option<RequestId>, leg: Leg) {
        let sent_at = self.replicas[from].local(self.now);
        let when = self.now + self.delay(matches!(leg, Leg::Write(_)));
        self.at(when, Happening::Arrive { from, id, sent_at, leg: Box::new(LegBox(leg)) });
    }

    fn arrive(&mut self, from: usize, id: Option<RequestId>, sent_at: Mono, leg: Leg) {
        if !self.server_up || self.now < self.replicas[from].cut_until || self.lost() {
            return;
        }
        let answer = match leg {
            Leg::Look => Answer::Looked(self.object.clone()),
            Leg::Write(write) => {
                if self.object.as_ref().map(|(version, _)| *version) == write.on {
                    let version = self.put(write.record.clone());
                    self.note(|_| format!("replica-{from}'s write is done: {:?}", write.record));
                    Answer::Done(version, write)
                } else {
                    Answer::Conflict
                }
            }
        };
        if !self.lost() {
            let when = self.now + self.delay(false);
            self.at(when, Happening::Back { to: from, id, sent_at, answer: Box::new(AnswerBox(answer)) });
        }
    }

    /// Stores a record, and tells the watches.
    pub fn put(&mut self, record: LeaseRecord) -> u64 {
        self.version += 1;
        self.object = Some((self.version, record.clone()));
        self.tell(Some(record));
        self.version
    }

    pub fn tell(&mut self, record: Option<LeaseRecord>) {
        let version = self.version;
        for to in 0..self.replicas.len() {
            if !self.replicas[to].watching || self.now < self.replicas[to].cut_until {
                continue;
            }
            let when = (self.now + self.delay(false)).max(self.replicas[to].last_event_at);
            self.replicas[to].last_event_at = when;
            self.at(when, Happening::Told { to, version, record: record.clone().map(Box::new) });
        }
    }

    fn back(&mut self, to: usize, id: Option<RequestId>, sent_at: Mono, answer: Answer) {
        if self.now < self.replicas[to].cut_until {
            return;
        }
        // Whoever gave up listens no more.
        if id.is_some_and(|id| !self.replicas[to].calls.contains_key(&id)) {
            return;
        }
        match answer {
            Answer::Looked(object) => {
                let version = object.as_ref().map(|(version, _)| *version);
                self.take(to, version, object, Source::Asked(sent_at));
                if let Some(id) = id {
                    self.decide(to, id);
                }
            }
            Answer::Done(version, write) => {
                let Write { on, record, reply } = *write;
                self.take(to, Some(version), Some((version, record)), Source::Asked(sent_at));
                if on.is_some() {
                    self.replicas[to].observation.updated();
                }
                if let Some(id) = id {
                    self.finish(to, id, Ok(reply));
                }
            }
            Answer::Conflict => {
                let Some(id) = id else { return };
                let Some(call) = self.replicas[to].calls.get_mut(&id) else { return };
                (call.looked, call.creating) = (true, false);
                if call.decisions >= DECISIONS_MAX {
                    self.finish(to, id, Err(NoReply::new("too many conflicts")));
                } else {
                    self.send(to, Some(id), Leg::Look);
                }
            }
        }
    }

    /// What is learned, whichever way.
    fn take(&mut self, at: usize, version: Option<u64>, object: Option<(u64, LeaseRecord)>, source: Source) {
        let now = self.replicas[at].local(self.now);
        let replica = &mut self.replicas[at];
        if !replica.observation.admit(version, object.is_some(), source, now) {
            return;
        }
        replica.version = object.as_ref().map(|(version, _)| *version);
        let before = replica.observation.record().cloned();
        let first = replica.observation.seen().is_none();
        let seen = object.map_or(Seen::Absent, |(_, record)| Seen::Present(record));
        let same = replica.observation.seen() == Some(&seen);
        replica.observation.see(seen, Duration::from_nanos(LEASE), now);
        if same || first {
            return;
        }
        match replica.observation.record().and_then(|record| lease_object::news(before.as_ref(), record)) {
            Some(said) => self.input(at, Input::Heard(said)),
            None => self.input(at, Input::Gap),
        }
    }
}

fn reply_as<R>(step: Step<R>, wrap: impl Fn(R) -> Reply) -> Step<Reply> {
    match step {
        Step::Reply(reply) => Step::Reply(wrap(reply)),
        Step::Write { record, reply } => Step::Write { record, reply: wrap(reply) },
    }
}

/// Every precaution, for scenarios.
pub const ALL: Caution = Caution::ALL;
