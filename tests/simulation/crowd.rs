//! Many candidates for one role, without any fault but the end of a leader: how many ask the store then, and how soon
//! one of them leads. The store is one server that does one thing after the other, and telling a thousand listeners
//! takes it longer than a script.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use baton::protocol::{
    Action, Announcement, CampaignRequest, Election, Event, Input, LeaseCell, Mono, Profile, ReleaseRequest,
    RenewReply, RenewRequest, RequestId, Rules, Server, SessionId, Stamped, StoreTime, Timing,
};
use fastrand::Rng;

use crate::clockwork::{MS, Nanos, SECOND, Timeline};

const MICRO: Nanos = MS / 1_000;
const LEASE: Duration = Duration::from_secs(15);
const RENEW_PERIOD: Nanos = 5 * SECOND;
/// What a script takes the server, and what each listener takes it besides when the script publishes: more where it
/// has no processor of its own.
const SCRIPT: Nanos = 30 * MICRO;
const TELLING: Nanos = 4 * MICRO;
const TELLING_TOGETHER: Nanos = 10 * MICRO;
/// One way through the network.
const NETWORK: (Nanos, Nanos) = (100 * MICRO, 500 * MICRO);
/// How long a candidate takes to do what it hears: it has other things to do, and a processor with others.
const ATTENTION: (Nanos, Nanos) = (50 * MICRO, MS);
/// And how long it takes one of many that share a thread, while the others wait.
const HEARING: Nanos = 40 * MICRO;
/// How many threads there are where many share them.
const THREADS: usize = 2;

/// How a leader goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Resignation,
    Crash,
}

/// Where the candidates are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Each on a machine of its own.
    Apart,
    /// All on a few threads: they hear one after the other, and do what time demands in turn with that.
    Together,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Failover {
    /// Campaigns that reached the store, the one that was granted included.
    pub campaigns: u64,
    /// From the resignation, or from the end of the lease, to the next leader.
    pub took: Nanos,
}

enum Request {
    Campaign(CampaignRequest),
    Renew(RenewRequest),
    Release(ReleaseRequest),
}

enum Happening {
    Wake(usize),
    Arrive {
        from: usize,
        id: RequestId,
        request: Request,
    },
    Answer {
        to: usize,
        input: Input,
    },
    News {
        to: usize,
        news: Announcement,
    },
    /// A thread is free for the next that waits for it.
    Turn(usize),
}

/// One that candidates share, with what waits for it.
#[derive(Default)]
struct Thread {
    waiting: VecDeque<Happening>,
    busy: bool,
}

struct Replica {
    election: Election,
    alive: bool,
    wake_planned: Option<Nanos>,
}

pub struct Crowd {
    rng: Rng,
    now: Nanos,
    timeline: Timeline<Happening>,
    replicas: Vec<Replica>,
    /// None where each has one of its own.
    threads: Vec<Thread>,
    cell: LeaseCell,
    /// Until when the server is busy with what came before.
    busy_until: Nanos,
    /// When the lease ends if nobody renews it.
    lease_ends: Nanos,
    leader: Option<usize>,
    campaigns: u64,
}

impl Crowd {
    /// So many candidates, of which one has led for long enough that all have heard how many they are.
    pub fn start(size: usize, place: Place, seed: u64) -> Self {
        let threads = if place == Place::Together { THREADS } else { 0 };
        let mut crowd = Self {
            rng: Rng::with_seed(seed),
            now: 100 * SECOND,
            timeline: Timeline::new(),
            replicas: Vec::new(),
            threads: (0..threads).map(|_| Thread::default()).collect(),
            cell: LeaseCell::new(Rules::REDIS),
            busy_until: 0,
            lease_ends: 0,
            leader: None,
            campaigns: 0,
        };
        crowd.join();
        while crowd.leader.is_none() {
            crowd.step();
        }
        for _ in 1..size {
            crowd.join();
        }
        crowd.play(2 * RENEW_PERIOD + SECOND);
        crowd
    }

    fn join(&mut self) {
        let session = SessionId::from_u128(self.replicas.len() as u128 + 1);
        let timing = Timing::from_lease(LEASE).expect("the default lease");
        let profile = Profile {
            session,
            attempts: Default::default(),
            identity: Arc::from(format!("replica-{session}")),
            timing,
            guard: true,
            app_checked: false,
            rules: Rules::REDIS,
            role_stagger: Duration::ZERO,
            seed: self.rng.u64(..),
        };
        let election = Election::new(profile, Mono::from_nanos(self.now));
        self.replicas.push(Replica { election, alive: true, wake_planned: None });
        self.serve(self.replicas.len() - 1);
    }

    /// Lets time pass.
    pub fn play(&mut self, span: Nanos) {
        let end = self.now + span;
        while let Some((when, happening)) = self.timeline.next(end) {
            self.now = when;
            self.happen(happening);
        }
        self.now = end;
    }

    fn step(&mut self) {
        let (when, happening) = self.timeline.next(Nanos::MAX).expect("something is always due");
        self.now = when;
        self.happen(happening);
    }

    /// The leader goes, and another comes; then time passes until nothing more comes of it.
    pub fn fail_over(&mut self, end: End) -> Failover {
        let old = self.leader.take().expect("somebody leads");
        self.campaigns = 0;
        let from = match end {
            End::Resignation => {
                self.input(old, Input::Resign { cooldown: Duration::from_secs(1) });
                self.now
            }
            End::Crash => {
                self.replicas[old].alive = false;
                self.lease_ends
            }
        };
        while self.leader.is_none() {
            self.step();
        }
        let took = self.now.saturating_sub(from);
        self.play(SECOND);
        let campaigns = self.campaigns;
        if end == End::Crash {
            self.join();
        }
        Failover { campaigns, took }
    }

    /// What a candidate does has to wait for its thread.
    fn happen(&mut self, happening: Happening) {
        let of = match &happening {
            Happening::Wake(at) | Happening::Answer { to: at, .. } | Happening::News { to: at, .. } => Some(*at),
            Happening::Arrive { .. } | Happening::Turn(_) => None,
        };
        let Some(of) = of.filter(|_| !self.threads.is_empty()) else { return self.carry_out(happening) };
        let number = of % self.threads.len();
        let thread = &mut self.threads[number];
        thread.waiting.push_back(happening);
        if !thread.busy {
            thread.busy = true;
            self.timeline.plan(self.now, Happening::Turn(number));
        }
    }

    fn take_turn(&mut self, number: usize) {
        let thread = &mut self.threads[number];
        let Some(next) = thread.waiting.pop_front() else {
            thread.busy = false;
            return;
        };
        let takes = if matches!(next, Happening::Wake(_)) { HEARING / 10 } else { HEARING };
        self.timeline.plan(self.now + takes, Happening::Turn(number));
        self.carry_out(next);
    }

    fn carry_out(&mut self, happening: Happening) {
        match happening {
            Happening::Turn(number) => self.take_turn(number),
            Happening::Wake(at) => {
                let replica = &mut self.replicas[at];
                if replica.wake_planned.is_some_and(|planned| planned <= self.now) {
                    replica.wake_planned = None;
                }
                if replica.alive {
                    replica.election.handle_timeout(Mono::from_nanos(self.now));
                    self.serve(at);
                }
            }
            Happening::Arrive { from, id, request } => self.arrive(from, id, &request),
            Happening::Answer { to, input } => self.input(to, input),
            Happening::News { to, news } => self.input(to, Input::Heard(news)),
        }
    }

    fn input(&mut self, to: usize, input: Input) {
        if self.replicas[to].alive {
            self.replicas[to].election.handle_input(Mono::from_nanos(self.now), input);
            self.serve(to);
        }
    }

    /// Does what an election asks for.
    fn serve(&mut self, at: usize) {
        while let Some(action) = self.replicas[at].election.poll_action() {
            let (id, request) = match action {
                Action::Campaign { id, request } => (id, Request::Campaign(request)),
                Action::Renew { id, request } => (id, Request::Renew(request)),
                Action::Release { id, request } => (id, Request::Release(request)),
                Action::Tell(event) => {
                    if let Event::Elected { .. } = event {
                        assert_eq!(self.leader, None, "one leader at a time");
                        self.leader = Some(at);
                    }
                    continue;
                }
            };
            let when = self.now + self.rng.u64(NETWORK.0..NETWORK.1);
            self.timeline.plan(when, Happening::Arrive { from: at, id, request });
        }
        let replica = &mut self.replicas[at];
        if let Some(due) = replica.election.poll_timeout() {
            let when = due.as_nanos().max(self.now);
            if replica.wake_planned.is_none_or(|planned| when < planned) {
                replica.wake_planned = Some(when);
                self.timeline.plan(when, Happening::Wake(at));
            }
        }
    }

    /// The server takes one request after the other.
    fn arrive(&mut self, from: usize, id: RequestId, request: &Request) {
        let begun = self.now.max(self.busy_until);
        let store_time = StoreTime(1_700_000_000_000_000 + begun / MICRO);
        // Long enough for no guard of a fresh server to be in force.
        let server = Server { now: store_time, uptime: Duration::from_nanos(begun), generation: "1" };
        let listeners = self.replicas.len();
        let (input, news) = match request {
            Request::Campaign(request) => {
                self.campaigns += 1;
                let (reply, news) = self.cell.campaign(server, request).expect("the clock is not that far ahead");
                (Input::Campaigned { id, reply: Ok(Stamped { reply, store_time }) }, news)
            }
            Request::Renew(request) => {
                let (mut reply, news) = self.cell.renew(server, request);
                if let RenewReply::Renewed { audience, .. } = &mut reply {
                    *audience = u32::try_from(listeners).expect("few");
                }
                (Input::Renewed { id, reply: Ok(Stamped { reply, store_time }) }, news)
            }
            Request::Release(request) => {
                let (reply, news) = self.cell.release(server, request);
                (Input::Released { id, reply: Ok(Stamped { reply, store_time }) }, news)
            }
        };
        self.busy_until = begun + SCRIPT;
        if let Some(news) = news {
            self.lease_ends = begun + u64::try_from(LEASE.as_nanos()).expect("seconds");
            self.publish(&news);
        }
        let when = self.busy_until + self.rng.u64(NETWORK.0..NETWORK.1);
        self.timeline.plan(when, Happening::Answer { to: from, input });
    }

    /// One listener after the other, in another order each time.
    fn publish(&mut self, news: &Announcement) {
        let mut listeners: Vec<usize> = (0..self.replicas.len()).collect();
        self.rng.shuffle(&mut listeners);
        let telling = if self.threads.is_empty() { TELLING } else { TELLING_TOGETHER };
        for to in listeners {
            self.busy_until += telling;
            let way = self.rng.u64(NETWORK.0..NETWORK.1) + self.rng.u64(ATTENTION.0..ATTENTION.1);
            self.timeline.plan(self.busy_until + way, Happening::News { to, news: news.clone() });
        }
    }
}

/// Means of some failovers: how many campaigns, and how many milliseconds. Half of them come right after each other,
/// and half with a renewal in between.
fn mean(size: usize, place: Place, end: End) -> (f64, f64) {
    const FAILOVERS: u32 = 24;
    let mut crowd = Crowd::start(size, place, 7);
    let (mut campaigns, mut took_ms) = (0.0, 0.0);
    for number in 0..FAILOVERS {
        let failover = crowd.fail_over(end);
        campaigns += failover.campaigns as f64 / f64::from(FAILOVERS);
        took_ms += failover.took as f64 / MS as f64 / f64::from(FAILOVERS);
        if number >= FAILOVERS / 2 {
            crowd.play(RENEW_PERIOD);
        }
    }
    (campaigns, took_ms)
}

/// Of a thousand that share threads a hundred ask after a release if the spread does not grow with them. Hundreds ask,
/// apart or together, if they forget how many they are whenever one is granted, or leads that does not know.
#[test]
fn of_a_thousand_candidates_no_more_ask_than_of_thirty_and_the_next_one_leads_as_soon() {
    for (place, later_ms_max) in [(Place::Apart, 10.0), (Place::Together, 50.0)] {
        for end in [End::Resignation, End::Crash] {
            let (_, took_ms_of_three) = mean(3, place, end);
            for size in [30, 300, 1_000] {
                let (campaigns, took_ms) = mean(size, place, end);
                let case = format!("{place:?}, {end:?}, {size} candidates");
                println!("{case}: {campaigns:.1} campaigns, {took_ms:.2} ms; 3: {took_ms_of_three:.2} ms");
                // Each looks once in ten leases whatever it hears, and a crash takes a lease.
                let routine = if matches!(end, End::Crash) { size as f64 * 0.11 } else { 0.0 };
                assert!(campaigns <= 12.0 + routine, "{case}: {campaigns} ask");
                assert!(took_ms <= took_ms_of_three + later_ms_max, "{case}: {took_ms} ms");
            }
        }
    }
}
