//! A world of replicas, apps, one logical store and the network between them, driven by a seed. The replicas run the
//! real `Election`, the store runs the real `LeaseCell`; everything else here is what can go wrong.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use baton::protocol::{
    Action, Announcement, CampaignRequest, Election, Event, Failure, Input, LeaseCell, Profile, ReleaseRequest,
    RenewReply, RenewRequest, RequestId, Rules, Server, SessionId, Stamped, StoreTime, Timing,
};
use fastrand::Rng;

use crate::checker::{Checker, Watched};
use crate::clockwork::{AppHabit, LocalClock, MS, Nanos, SECOND, Timeline};
use crate::departures::{Account, Evidence, Pod};
use crate::faults::Fault;

/// The timings of the table in section 1: a lease of 10 s renewed every third, stepping down 0.5 s early, answers good
/// for 3 s.
pub const LEASE: Nanos = 10 * SECOND;
const MARGIN_MS: u64 = 500;
pub const ANSWER_VALIDITY_MS: u64 = 3_000;
/// When a replica gives a request up.
const COMMAND_TIMEOUT: Nanos = SECOND;
/// How often the lagging replica of the store catches up, when it does.
const REPLICATION_PERIOD: Nanos = 200 * MS;

/// What a run is about.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    pub seed: u64,
    pub rules: Rules,
    /// R6: a write counts once the store's replica has it.
    pub acks: bool,
    pub fault: Fault,
    /// What is taken for the proof that a process has ended.
    pub evidence: Evidence,
    /// How many replicas at the start.
    pub replicas: usize,
    /// How many there may ever be, the restarted ones included.
    pub replicas_max: usize,
    /// The least and the longest time from one fault to the next.
    pub fault_gap: (Nanos, Nanos),
    /// When the last fault may begin.
    pub faults_until: Nanos,
    /// True: the network is lossy to the end and only the length counts, as in the published table. False: after the
    /// last fault it is calm, and a leader must be there within two leases and a second.
    pub table: bool,
    /// Keep a log of every event, to be printed.
    pub log: bool,
}

pub struct Replica {
    pub election: Election,
    pub session: SessionId,
    pub pod: Pod,
    clock: LocalClock,
    pub alive: bool,
    pub paused_until: Nanos,
    pub cut_until: Nanos,
    /// The server of the other side of a split, while there is one.
    pub side: Option<usize>,
    habit: AppHabit,
    /// Until when, in true time, the app may act on an answer it has read.
    pub promised_until: Nanos,
    outstanding: BTreeMap<RequestId, Sent>,
    wake_planned: Option<Nanos>,
}

impl Watched for Replica {
    fn leads(&self, now: Nanos) -> bool {
        self.alive && self.election.standing().leads(self.clock.shows(now))
    }

    fn acts(&self, now: Nanos) -> bool {
        self.leads(now) || now < self.promised_until
    }
}

#[derive(Clone, Debug)]
enum Request {
    Campaign(CampaignRequest),
    Renew(RenewRequest),
    Release(ReleaseRequest),
}

#[derive(Clone, Copy, Debug)]
enum Sent {
    Campaign,
    Renew,
    Release,
}

#[derive(Clone)]
pub struct Store {
    pub cell: LeaseCell,
    run_id: String,
    born: i128,
    pub up: bool,
    pub skew_us: i64,
    /// An old master that lost its office but is still served to some (a split).
    pub deposed: bool,
}

impl Store {
    fn server(&self, now: Nanos) -> Server<'_> {
        let wall = 1_700_000_000_000_000 + i128::from(now / 1_000) + i128::from(self.skew_us);
        Server {
            now: StoreTime(u64::try_from(wall).expect("after 1970")),
            uptime: Duration::from_nanos(u64::try_from(i128::from(now) - self.born).expect("born before now")),
            run_id: &self.run_id,
        }
    }
}

#[derive(Clone, Debug)]
pub enum Happening {
    Wake(usize),
    Arrive {
        from: usize,
        to: usize,
        id: RequestId,
        request: Box<RequestBox>,
    },
    Answer {
        to: usize,
        input: Box<Input>,
        id: RequestId,
    },
    GiveUp {
        to: usize,
        id: RequestId,
    },
    News {
        to: usize,
        news: Announcement,
    },
    Gap(usize),
    AppDrained(usize),
    /// An account of the end of a process reaches a replica.
    Departed {
        to: usize,
        account: Account,
    },
    /// The container starts again in its pod.
    Restart(Pod),
    Replicate,
    Fault,
    StoreUp {
        store: usize,
        forget: bool,
        restarted: bool,
    },
    SplitEnds,
    Join,
    Look,
}

/// Keeps the request's kind private to this file.
#[derive(Clone, Debug)]
pub struct RequestBox(Request);

pub struct World {
    pub scenario: Scenario,
    pub rng: Rng,
    pub now: Nanos,
    timeline: Timeline<Happening>,
    pub replicas: Vec<Replica>,
    pub stores: Vec<Store>,
    pub master: usize,
    lagging: Store,
    generation: u64,
    /// What there is to be read of ends.
    pub ends: Vec<Account>,
    pub checker: Checker,
    /// When the last fault is over, as far as is known.
    pub faults_end: Nanos,
    pub calm: bool,
    pub log: Vec<String>,
}

impl World {
    pub fn new(scenario: Scenario) -> Self {
        let store = Store {
            cell: LeaseCell::new(scenario.rules),
            run_id: "1".to_owned(),
            born: -i128::from(100 * SECOND),
            up: true,
            skew_us: 0,
            deposed: false,
        };
        Self {
            scenario,
            rng: Rng::with_seed(scenario.seed),
            now: 0,
            timeline: Timeline::new(),
            replicas: Vec::new(),
            stores: vec![store.clone()],
            master: 0,
            lagging: store,
            generation: 1,
            ends: Vec::new(),
            checker: Checker::default(),
            faults_end: 0,
            calm: false,
            log: Vec::new(),
        }
    }

    /// A span, evenly spread.
    pub fn span(&mut self, least: Nanos, most: Nanos) -> Nanos {
        self.rng.u64(least..=most)
    }

    /// True once in a while.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.rng.f64() < probability
    }

    pub fn note(&mut self, text: impl FnOnce(&Self) -> String) {
        if self.scenario.log {
            let line = format!("{:>9.3} s  {}", self.now as f64 / SECOND as f64, text(self));
            self.log.push(line);
        }
    }

    pub fn at(&mut self, when: Nanos, happening: Happening) {
        self.timeline.plan(when.max(self.now), happening);
    }

    /// Takes the next happening that is due before `end`.
    pub fn next(&mut self, end: Nanos) -> Option<Happening> {
        let (when, happening) = self.timeline.next(end)?;
        self.now = when;
        Some(happening)
    }

    pub fn join(&mut self) {
        self.start_in(Pod(self.replicas.len()));
    }

    /// A new process in this pod.
    pub fn start_in(&mut self, pod: Pod) {
        if self.replicas.len() >= self.scenario.replicas_max {
            return;
        }
        let session = SessionId::from_u128(self.replicas.len() as u128 + 1);
        let clock = LocalClock::any(&mut self.rng);
        let habit = AppHabit::any(&mut self.rng);
        let ms = Duration::from_millis;
        let lease = Duration::from_nanos(LEASE);
        let profile = Profile {
            session,
            attempts: Default::default(),
            identity: Arc::from(format!("replica-{}", self.replicas.len())),
            timing: Timing::new(lease, lease / 3, ms(MARGIN_MS), ms(ANSWER_VALIDITY_MS)).expect("the table's timings"),
            guard: true,
            app_checked: false,
            rules: self.scenario.rules,
            place: Duration::ZERO,
            seed: self.rng.u64(..),
        };
        let election = Election::new(profile, clock.shows(self.now));
        self.replicas.push(Replica {
            election,
            session,
            pod,
            clock,
            alive: true,
            paused_until: 0,
            cut_until: 0,
            side: None,
            habit,
            promised_until: 0,
            outstanding: BTreeMap::new(),
            wake_planned: None,
        });
        let new = self.replicas.len() - 1;
        self.note(|_| format!("replica-{new} joins"));
        self.watch_from(new);
        self.serve(new);
    }

    /// Lets the apps ask, and holds the answers against the promises.
    pub fn look_around(&mut self) {
        let now = self.now;
        for at in 0..self.replicas.len() {
            let sometimes = self.rng.u8(0..16) == 0;
            let replica = &mut self.replicas[at];
            let asks = match replica.habit {
                AppHabit::Always | AppHabit::Drains => true,
                AppHabit::Sometimes => sometimes,
            };
            if !(asks && replica.alive) || now < replica.paused_until {
                continue;
            }
            let local = replica.clock.shows(now);
            if let Some(promise) = replica.election.standing().promise(local) {
                let until = replica.clock.when(local + promise.valid_for, now);
                replica.promised_until = replica.promised_until.max(until);
            } else if matches!(replica.habit, AppHabit::Drains) && replica.election.is_draining() {
                let soon = now + self.rng.u64(0..500 * MS);
                self.at(soon, Happening::AppDrained(at));
            }
        }
        self.checker.observe(now, &self.replicas);
    }

    fn delay(&mut self) -> Nanos {
        if self.calm || self.rng.u8(0..10) != 0 { self.span(MS, 20 * MS) } else { self.span(20 * MS, 1_200 * MS) }
    }

    fn lost(&mut self) -> bool {
        !self.calm && self.chance(0.01)
    }

    pub fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Wake(at) => {
                if self.replicas[at].wake_planned == Some(self.now) {
                    self.replicas[at].wake_planned = None;
                }
                if self.awake(at, Happening::Wake(at)) {
                    let local = self.replicas[at].clock.shows(self.now);
                    self.replicas[at].election.handle_timeout(local);
                    self.serve(at);
                }
            }
            Happening::Arrive { from, to, id, request } => self.arrive(from, to, id, request.0),
            Happening::Answer { to, input, id } => {
                if self.awake(to, Happening::Answer { to, input: input.clone(), id })
                    && self.replicas[to].outstanding.remove(&id).is_some()
                {
                    self.input(to, *input);
                }
            }
            Happening::GiveUp { to, id } => {
                if self.awake(to, Happening::GiveUp { to, id })
                    && let Some(sent) = self.replicas[to].outstanding.remove(&id)
                {
                    let failure = Failure { reason: "no answer in time".to_owned() };
                    let input = match sent {
                        Sent::Campaign => Input::Campaigned { id, reply: Err(failure) },
                        Sent::Renew => Input::Renewed { id, reply: Err(failure) },
                        Sent::Release => Input::Released { id, reply: Err(failure) },
                    };
                    self.input(to, input);
                }
            }
            Happening::News { to, news } => {
                // What waited while a replica was paused is dropped; it looks by itself when it goes on.
                let replica = &self.replicas[to];
                if replica.alive && self.now >= replica.paused_until && self.now >= replica.cut_until {
                    self.input(to, Input::Heard(news));
                }
            }
            Happening::Gap(at) => {
                if self.awake(at, Happening::Gap(at)) && self.now >= self.replicas[at].cut_until {
                    self.input(at, Input::Gap);
                }
            }
            Happening::AppDrained(at) => {
                if self.awake(at, Happening::AppDrained(at)) && self.replicas[at].election.is_draining() {
                    self.replicas[at].promised_until = 0;
                    self.input(at, Input::Drained);
                }
            }
            Happening::Departed { to, account } => {
                if self.awake(to, Happening::Departed { to, account }) {
                    self.hear_of_an_end(to, account);
                }
            }
            Happening::Restart(pod) => self.start_in(pod),
            Happening::Replicate => {
                if self.chance(0.7) {
                    self.lagging = self.stores[self.master].clone();
                }
                self.at(self.now + REPLICATION_PERIOD, Happening::Replicate);
            }
            Happening::Look => {}
            Happening::Join => self.join(),
            Happening::Fault => self.fault(),
            Happening::StoreUp { store, forget, restarted } => self.store_up(store, forget, restarted),
            Happening::SplitEnds => {
                self.note(|_| "the split ends".to_owned());
                for at in 0..self.replicas.len() {
                    if self.replicas[at].side.take().is_some() {
                        self.at(self.now, Happening::Gap(at));
                    }
                }
            }
        }
    }

    /// Whether a replica can take this now. A paused one takes it when it goes on.
    fn awake(&mut self, at: usize, happening: Happening) -> bool {
        let replica = &self.replicas[at];
        if !replica.alive {
            return false;
        }
        if self.now < replica.paused_until {
            let later = replica.paused_until + MS;
            self.at(later, happening);
            return false;
        }
        true
    }

    pub fn input(&mut self, at: usize, input: Input) {
        self.note(|world| {
            format!("replica-{at} <- {input:?} (state {})", {
                let replica = &world.replicas[at];
                replica.election.view(replica.clock.shows(world.now)).state
            })
        });
        let local = self.replicas[at].clock.shows(self.now);
        self.replicas[at].election.handle_input(local, input);
        self.serve(at);
    }

    /// Does what the election asks for.
    fn serve(&mut self, at: usize) {
        while let Some(action) = self.replicas[at].election.poll_action() {
            match action {
                Action::Campaign { id, request } => self.send(at, id, Sent::Campaign, Request::Campaign(request)),
                Action::Renew { id, request } => self.send(at, id, Sent::Renew, Request::Renew(request)),
                Action::Release { id, request } => self.send(at, id, Sent::Release, Request::Release(request)),
                Action::Tell(event) => {
                    self.note(|_| format!("replica-{at} tells {event:?}"));
                    if let Event::Elected { token } = event {
                        self.checker.elected(self.now, at, token);
                    }
                }
            }
        }
        let replica = &self.replicas[at];
        if let Some(due) = replica.election.poll_timeout() {
            let when = replica.clock.when(due, self.now);
            if replica.wake_planned.is_none_or(|planned| when < planned) {
                self.replicas[at].wake_planned = Some(when);
                self.at(when, Happening::Wake(at));
            }
        }
    }

    fn send(&mut self, from: usize, id: RequestId, sent: Sent, request: Request) {
        self.replicas[from].outstanding.insert(id, sent);
        self.note(|_| format!("replica-{from} -> {request:?}"));
        let to = self.replicas[from].side.unwrap_or(self.master);
        let copies = if self.lost() { 2 } else { 1 };
        for _ in 0..copies {
            let when = self.now + self.delay();
            self.at(when, Happening::Arrive { from, to, id, request: Box::new(RequestBox(request.clone())) });
        }
        let give_up = self.now + COMMAND_TIMEOUT;
        self.at(give_up, Happening::GiveUp { to: from, id });
    }

    fn arrive(&mut self, from: usize, to: usize, id: RequestId, request: Request) {
        if !self.stores[to].up || self.now < self.replicas[from].cut_until || self.lost() {
            return;
        }
        let leads = self.replicas[from].leads(self.now);
        let standing = self.replicas[from].election.standing().remaining(self.replicas[from].clock.shows(self.now));
        let store = self.stores[to].clone();
        let server = store.server(self.now);
        let cell = &mut self.stores[to].cell;
        let store_time = server.now;
        let (input, news) = match request {
            Request::Campaign(request) => {
                let (reply, news) = cell.campaign(server, &request).expect("the clock is not that far ahead");
                (Input::Campaigned { id, reply: Ok(Stamped { reply, store_time }) }, news)
            }
            Request::Renew(request) => {
                let (mut reply, news) = cell.renew(server, &request);
                let lost = matches!(reply, RenewReply::Lost { .. });
                if lost && leads && standing.is_some_and(|(token, _)| token == request.token) {
                    self.checker.refused_incumbent(self.now, from);
                }
                if let RenewReply::Renewed { audience, .. } = &mut reply {
                    *audience = u32::try_from(self.replicas.len()).expect("few");
                }
                (Input::Renewed { id, reply: Ok(Stamped { reply, store_time }) }, news)
            }
            Request::Release(request) => {
                let (reply, news) = cell.release(server, &request);
                (Input::Released { id, reply: Ok(Stamped { reply, store_time }) }, news)
            }
        };
        self.note(|_| format!("store {to} answers replica-{from}: {input:?}"));
        if let Some(news) = news {
            let released = matches!(input, Input::Released { .. });
            self.publish(from, to, &news);
            if self.scenario.acks && !released {
                if self.stores[to].deposed {
                    return;
                }
                self.lagging = self.stores[to].clone();
            }
        }
        if !self.lost() {
            let when = self.now + self.delay();
            self.at(when, Happening::Answer { to: from, input: Box::new(input), id });
        }
    }

    fn publish(&mut self, from: usize, store: usize, news: &Announcement) {
        if !self.scenario.rules.heartbeats {
            return;
        }
        for to in 0..self.replicas.len() {
            let replica = &self.replicas[to];
            let listens = replica.alive && replica.side.unwrap_or(self.master) == store;
            if to == from || !listens || self.now < replica.cut_until || (!self.calm && self.chance(0.02)) {
                continue;
            }
            let when = self.now + self.delay();
            self.at(when, Happening::News { to, news: news.clone() });
        }
    }

    /// A new server process takes over what `lagging` knows.
    pub fn promote(&mut self) -> usize {
        self.generation += 1_000;
        let run_id = self.generation.to_string();
        let promoted =
            Store { run_id, born: -i128::from(100 * SECOND), up: false, deposed: false, ..self.lagging.clone() };
        self.stores.push(promoted);
        self.master = self.stores.len() - 1;
        self.master
    }

    fn store_up(&mut self, store: usize, forget: bool, restarted: bool) {
        if restarted {
            self.generation += 1;
            self.stores[store].run_id = self.generation.to_string();
            self.stores[store].born = i128::from(self.now);
        }
        if forget {
            self.stores[store].cell.forget();
        }
        self.stores[store].up = true;
        self.note(|_| format!("store {store} is up{}", if forget { ", empty" } else { "" }));
        // Every subscription is renewed, sooner or later.
        for at in 0..self.replicas.len() {
            let when = self.now + self.delay();
            self.at(when, Happening::Gap(at));
        }
        if self.chance(0.5) {
            self.join();
        }
    }
}
