//! The world of the shards: replicas whose elections and balance are the real ones, and a store that is the reference.
//! A store without faults: what those do to a lease is the other worlds' matter, and a shard is a role like any other.

use std::sync::Arc;
use std::time::Duration;

use baton::protocol::{
    Action, Announcement, AppVersion, Balance, Election, Event, Input, LeaseCell, Mine, Participant, Policy, Portion,
    Presence, PresenceRequest, Profile, Rank, ReleaseReason, Rules, Server, SessionId, Stamped, State, StoreTime,
    Timing, View,
};
use fastrand::Rng;

use super::super::clockwork::{LocalClock, MS, Nanos, SECOND, Timeline};

pub const LEASE: Nanos = 3 * SECOND;
/// How often an app asks, and how often the checker looks.
const ASK: Nanos = 100 * MS;
const RUN_ID: &str = "the-server";

/// What befalls a replica, or all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disturbance {
    Start(usize),
    /// It is gone, and leaves its leases behind.
    Kill(usize),
    /// It hands over and ends.
    Stop(usize),
    Unwell(usize),
    Well(usize),
    /// It stands still until then.
    Pause(usize, Nanos),
    /// It says that it takes part, and its campaigns reach nobody until then.
    Feign(usize, Nanos),
    /// The store does not tell anybody who takes part until then.
    NoPresence(Nanos),
}

/// One run.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub seed: u64,
    pub replicas: usize,
    pub shards: u16,
    pub disturbances: Vec<(Nanos, Disturbance)>,
    pub end: Nanos,
    /// Off: every replica goes for every shard, and keeps what it gets.
    pub balanced: bool,
    /// By what some are preferred to lead the only shard there is; none: shards are spread evenly.
    pub preferring: Option<Preferring>,
}

/// What replicas say of themselves.
#[derive(Clone, Debug)]
pub struct Preferring {
    /// Of each replica.
    pub priorities: Vec<u32>,
    /// Those that start from then on run a newer version; none: versions count for nothing.
    pub rollout: Option<Nanos>,
    pub after: Nanos,
}

impl Preferring {
    /// Of a replica that starts now.
    fn policy(&self, replica: usize, now: Nanos) -> Policy {
        // A name does not tell which is newer, here the least of all.
        let version =
            |rollout| AppVersion::new(if now < rollout { "2" } else { "1" }, 1_760_000_000_000_000 + now / 1_000);
        let rank = Rank { priority: self.priorities[replica], version: self.rollout.map(version) };
        Policy::Preferred { rank, after: Duration::from_nanos(self.after) }
    }
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Verdict {
    /// Breaches of P1.
    pub two_owners: Vec<String>,
    /// When each term began, and of which shard.
    pub terms: Vec<(Nanos, u16)>,
    /// When each handover for the sake of evenness began.
    pub handovers: Vec<Nanos>,
    /// The longest that a shard had no owner though a replica was fit to lead it all the while.
    pub unowned_max: Nanos,
    /// The last moment at which the shards were not evenly spread over the fit replicas, or that of a role was not with
    /// one of the greatest priority.
    pub uneven_at: Nanos,
    /// How long after a leader stepped down another led, in the order of time. Its app drains at once.
    pub vacancies: Vec<Nanos>,
}

struct Replica {
    session: SessionId,
    clock: LocalClock,
    elections: Vec<Election>,
    balance: Balance,
    told: Vec<Option<Duration>>,
    views: Vec<View>,
    /// When each election is woken next; an earlier plan is void.
    wakes: Vec<Option<Nanos>>,
    alive: bool,
    healthy: bool,
    leaving: bool,
    paused_until: Nanos,
    feigns_until: Nanos,
    last_news_at: Nanos,
    /// Counts the plans to ask who takes part; only the last one counts.
    round: u64,
    asking: bool,
    /// Something has changed since it asked.
    dirty: bool,
}

impl Replica {
    fn is_fit(&self, now: Nanos) -> bool {
        self.alive && self.healthy && !self.leaving && now >= self.paused_until && now >= self.feigns_until
    }

    fn mine(&self, now: Nanos) -> Option<Mine> {
        let local = self.clock.shows(now);
        let mut mine = Mine::default();
        mine.portion.rank = self.balance.rank();
        for (shard, election) in (0..).zip(&self.elections) {
            let view = election.view(local);
            if view.state == State::Unhealthy {
                return None;
            }
            if election.leadership().leads(local) {
                mine.portion.leads.insert(shard);
                continue;
            }
            if view.stays_out {
                mine.portion.shuns.insert(shard);
            }
            if view.state == State::Standby && view.holder.is_some() {
                mine.elsewhere.insert(shard);
            }
        }
        Some(mine)
    }
}

enum Happening {
    Wake { replica: usize, session: SessionId, shard: u16 },
    Take { replica: usize, session: SessionId, shard: u16, input: Input },
    Ask { replica: usize, session: SessionId, round: u64 },
    Present { replica: usize, session: SessionId, members: Option<Vec<Participant>> },
    Look,
    Disturb(Disturbance),
}

/// See the module.
pub struct World {
    scenario: Scenario,
    rng: Rng,
    now: Nanos,
    timeline: Timeline<Happening>,
    replicas: Vec<Replica>,
    cells: Vec<LeaseCell>,
    presence: Presence,
    presence_from: Nanos,
    sessions: u128,
    unowned_since: Vec<Nanos>,
    vacant_since: Option<Nanos>,
    verdict: Verdict,
}

pub fn timing() -> Timing {
    Timing::from_lease(Duration::from_nanos(LEASE)).expect("a sane lease")
}

impl World {
    pub fn play(scenario: Scenario) -> Verdict {
        let mut rng = Rng::with_seed(scenario.seed);
        let mut timeline = Timeline::new();
        for (at, disturbance) in &scenario.disturbances {
            timeline.plan(*at, Happening::Disturb(*disturbance));
        }
        timeline.plan(0, Happening::Look);
        let mut world = Self {
            now: 0,
            timeline,
            replicas: Vec::new(),
            cells: (0..scenario.shards).map(|_| LeaseCell::new(Rules::REDIS)).collect(),
            presence: Presence::default(),
            presence_from: 0,
            sessions: 0,
            unowned_since: vec![0; usize::from(scenario.shards)],
            vacant_since: None,
            verdict: Verdict::default(),
            rng: Rng::with_seed(rng.u64(..)),
            scenario,
        };
        for number in 0..world.scenario.replicas {
            let replica = world.new_replica(number, false);
            world.replicas.push(replica);
        }
        while let Some((now, happening)) = world.timeline.next(world.scenario.end) {
            world.now = now;
            world.happen(happening);
        }
        world.verdict
    }

    fn new_replica(&mut self, number: usize, alive: bool) -> Replica {
        self.sessions += 1;
        let session = SessionId::from_u128(u128::from(self.rng.u64(..)) << 64 | self.sessions);
        let clock = LocalClock::any(&mut self.rng);
        let identity: Arc<str> = Arc::from(format!("web-{}", self.sessions));
        let local = clock.shows(self.now);
        let shards = self.scenario.shards;
        let mut elections = Vec::new();
        for _ in 0..shards {
            let profile = Profile {
                session,
                attempts: Default::default(),
                identity: Arc::clone(&identity),
                timing: timing(),
                guard: true,
                app_checked: false,
                rules: Rules::REDIS,
                role_stagger: Duration::ZERO,
                seed: self.rng.u64(..),
            };
            let mut election = Election::new(profile, local);
            if self.scenario.balanced {
                election.handle_input(local, Input::Stagger { by: Balance::stagger_at_first(&timing()) });
            }
            elections.push(election);
        }
        let mut balance = Balance::new(session, shards, timing());
        if let Some(preferring) = &self.scenario.preferring {
            balance.change(shards, preferring.policy(number, self.now));
        }
        let views = elections.iter().map(|election| election.view(local)).collect();
        Replica {
            session,
            clock,
            elections,
            balance,
            told: vec![None; usize::from(shards)],
            views,
            wakes: vec![None; usize::from(shards)],
            alive,
            healthy: true,
            leaving: false,
            paused_until: 0,
            feigns_until: 0,
            last_news_at: 0,
            round: 0,
            asking: false,
            dirty: false,
        }
    }

    fn server(&self) -> Server<'static> {
        let now = StoreTime(1_760_000_000_000_000 + self.now / 1_000);
        Server { now, uptime: Duration::from_secs(1_000_000), generation: RUN_ID }
    }

    fn delay(&mut self) -> Nanos {
        // Preferences are judged by how soon another leads, so messages take no longer there than on a good day.
        let most = if self.scenario.preferring.is_some() { 3 * MS / 2 } else { 5 * MS };
        self.rng.u64(MS / 5..most)
    }

    /// The replica, if it is still the same process. What a paused one has to do it does later.
    fn is_there(&self, replica: usize, session: SessionId) -> bool {
        self.replicas[replica].alive && self.replicas[replica].session == session
    }

    fn happen(&mut self, happening: Happening) {
        let who = match &happening {
            Happening::Wake { replica, session, .. }
            | Happening::Take { replica, session, .. }
            | Happening::Ask { replica, session, .. }
            | Happening::Present { replica, session, .. } => Some((*replica, *session)),
            Happening::Look | Happening::Disturb(_) => None,
        };
        if let Some((replica, session)) = who {
            if !self.is_there(replica, session) {
                return;
            }
            if self.now < self.replicas[replica].paused_until {
                return self.timeline.plan(self.replicas[replica].paused_until, happening);
            }
        }
        match happening {
            Happening::Wake { replica, shard, .. } => {
                if self.replicas[replica].wakes[usize::from(shard)].is_some_and(|planned| planned <= self.now) {
                    self.touch(replica, shard, None);
                }
            }
            Happening::Take { replica, shard, input, .. } => self.touch(replica, shard, Some(input)),
            Happening::Ask { replica, round, .. } => self.ask(replica, round),
            Happening::Present { replica, members, .. } => self.decide(replica, members),
            Happening::Look => self.look(),
            Happening::Disturb(disturbance) => self.disturb(disturbance),
        }
    }

    /// Time has passed for an election, or something came in; then it does what it wants.
    fn touch(&mut self, replica: usize, shard: u16, input: Option<Input>) {
        let at = usize::from(shard);
        let (session, clock) = (self.replicas[replica].session, self.replicas[replica].clock);
        let local = clock.shows(self.now);
        let election = &mut self.replicas[replica].elections[at];
        match input {
            Some(input) => election.handle_input(local, input),
            None => election.handle_timeout(local),
        }
        while let Some(action) = self.replicas[replica].elections[at].poll_action() {
            self.act(replica, shard, action);
        }
        let it = &mut self.replicas[replica];
        let view = it.elections[at].view(local);
        let said = |view: &View| (view.state, view.holder.as_ref().map(|(name, _)| Arc::clone(name)));
        let changed = said(&view) != said(&it.views[at]);
        it.views[at] = view;
        let due = it.elections[at].poll_timeout().map(|due| clock.when(due, self.now).max(self.now + MS));
        if it.wakes[at] != due {
            it.wakes[at] = due;
            if let Some(when) = due {
                self.timeline.plan(when, Happening::Wake { replica, session, shard });
            }
        }
        let it = &mut self.replicas[replica];
        if it.leaving && it.elections.iter().all(Election::is_ended) {
            it.alive = false;
        } else if changed {
            self.plan_to_ask(replica);
        }
    }

    fn act(&mut self, replica: usize, shard: u16, action: Action) {
        let server = self.server();
        let (session, feigns_until) = (self.replicas[replica].session, self.replicas[replica].feigns_until);
        if self.now < feigns_until && !matches!(action, Action::Tell(_)) {
            // It waits for an answer until it is well again.
            return self.timeline.plan(feigns_until, lost(replica, session, shard, action));
        }
        let cell = &mut self.cells[usize::from(shard)];
        let (input, news) = match action {
            Action::Campaign { id, request } => {
                let (reply, news) = cell.campaign(server, &request).expect("tokens are left");
                (Input::Campaigned { id, reply: Ok(Stamped { reply, store_time: server.now }) }, news)
            }
            Action::Renew { id, request } => {
                let (reply, news) = cell.renew(server, &request);
                (Input::Renewed { id, reply: Ok(Stamped { reply, store_time: server.now }) }, news)
            }
            Action::Release { id, request } => {
                let (reply, news) = cell.release(server, &request);
                (Input::Released { id, reply: Ok(Stamped { reply, store_time: server.now }) }, news)
            }
            Action::Tell(event) => return self.told(replica, shard, &event),
        };
        let when = self.now + self.delay();
        self.timeline.plan(when, Happening::Take { replica, session, shard, input });
        if let Some(news) = news {
            self.publish(shard, &news);
        }
    }

    fn publish(&mut self, shard: u16, news: &Announcement) {
        for replica in 0..self.replicas.len() {
            if self.replicas[replica].alive {
                // In the order in which they were published: they come over one connection.
                let when = (self.now + self.delay()).max(self.replicas[replica].last_news_at);
                self.replicas[replica].last_news_at = when;
                let session = self.replicas[replica].session;
                let input = Input::Heard(news.clone());
                self.timeline.plan(when, Happening::Take { replica, session, shard, input });
            }
        }
    }

    fn told(&mut self, replica: usize, shard: u16, event: &Event) {
        match event {
            Event::Elected { .. } => {
                self.verdict.terms.push((self.now, shard));
                self.verdict.vacancies.extend(self.vacant_since.take().map(|since| self.now - since));
                for (number, other) in self.replicas.iter().enumerate().filter(|(number, _)| *number != replica) {
                    let local = other.clock.shows(self.now);
                    let leadership = other.elections[usize::from(shard)].leadership();
                    if leadership.leads(local) || leadership.promised_until() > local {
                        let what = format!("{} ms: shard {shard} of {number} and {replica}", self.now / MS);
                        self.verdict.two_owners.push(what);
                    }
                }
            }
            Event::Draining { reason, .. } => {
                if *reason == ReleaseReason::Balanced {
                    self.verdict.handovers.push(self.now);
                }
                if self.scenario.preferring.is_some() {
                    let session = self.replicas[replica].session;
                    self.vacant_since = Some(self.now);
                    self.timeline.plan(self.now, Happening::Take { replica, session, shard, input: Input::Drained });
                }
            }
            _ => {}
        }
    }

    fn plan_to_ask(&mut self, replica: usize) {
        let soon = self.now + self.rng.u64(5 * MS..20 * MS);
        let it = &mut self.replicas[replica];
        if it.asking {
            it.dirty = true;
        } else if self.scenario.balanced {
            it.round += 1;
            self.timeline.plan(soon, Happening::Ask { replica, session: it.session, round: it.round });
            // Until then nothing else that changes makes it later.
            it.asking = true;
        }
    }

    fn ask(&mut self, replica: usize, round: u64) {
        let it = &mut self.replicas[replica];
        if round != it.round {
            return;
        }
        (it.asking, it.dirty) = (true, false);
        let portion = it.mine(self.now).filter(|_| !it.leaving).map(|mine| mine.portion);
        let request = PresenceRequest { session: it.session, portion, span: Balance::span(&timing()) };
        let session = it.session;
        let now = self.server().now;
        let members = (self.now >= self.presence_from).then(|| self.presence.note(now, &request));
        // No answer is one after the command timeout.
        let when = self.now + if members.is_some() { self.delay() } else { LEASE / 8 };
        self.timeline.plan(when, Happening::Present { replica, session, members });
    }

    fn decide(&mut self, replica: usize, members: Option<Vec<Participant>>) {
        let it = &mut self.replicas[replica];
        let local = it.clock.shows(self.now);
        let mine = it.mine(self.now).unwrap_or_default();
        let orders = it.balance.decide(local, &mine, members);
        it.asking = false;
        it.round += 1;
        let (session, round) = (it.session, it.round);
        let pause = if orders.ask_soon { Balance::soon(&timing()) } else { Balance::tick(&timing()) };
        let soon = if it.dirty { 10 * MS } else { pause.as_nanos() as Nanos };
        if it.leaving {
            return;
        }
        self.timeline.plan(self.now + soon, Happening::Ask { replica, session, round });
        for (shard, stagger) in (0..).zip(orders.stagger) {
            if self.replicas[replica].told[usize::from(shard)].replace(stagger) != Some(stagger) {
                self.touch(replica, shard, Some(Input::Stagger { by: stagger }));
            }
        }
        if let Some(shard) = orders.hand_over {
            let cooldown = Balance::cooldown(&timing());
            self.touch(replica, shard, Some(Input::HandOver { cooldown }));
        }
    }

    /// The apps ask, and the checker looks.
    fn look(&mut self) {
        self.timeline.plan(self.now + ASK, Happening::Look);
        let fit: Vec<usize> = (0..self.replicas.len()).filter(|at| self.replicas[*at].is_fit(self.now)).collect();
        let mut leads = vec![0_usize; fit.len()];
        for shard in 0..usize::from(self.scenario.shards) {
            let mut owned = false;
            for (number, replica) in self.replicas.iter().enumerate() {
                let local = replica.clock.shows(self.now);
                let leadership = replica.elections[shard].leadership();
                let asks = replica.alive && self.now >= replica.paused_until;
                if if asks { leadership.promise(local).is_some() } else { leadership.leads(local) } {
                    owned = true;
                    if let Some(at) = fit.iter().position(|at| *at == number) {
                        leads[at] += 1;
                    }
                }
            }
            if owned || fit.is_empty() {
                self.unowned_since[shard] = self.now;
            }
            let unowned = self.now - self.unowned_since[shard];
            self.verdict.unowned_max = self.verdict.unowned_max.max(unowned);
        }
        let priority = |at: &usize| self.scenario.preferring.as_ref().map_or(0, |it| it.priorities[fit[*at]]);
        let best = (0..fit.len()).map(|at| priority(&at)).max();
        let led = (0..fit.len()).find(|at| leads[*at] > 0).as_ref().map(priority);
        let (least, most) = leads.iter().fold((usize::MAX, 0), |(l, m), n| ((*n).min(l), (*n).max(m)));
        if leads.iter().sum::<usize>() < usize::from(self.scenario.shards) || most - least > 1 || led < best {
            self.verdict.uneven_at = self.now;
        }
    }

    fn disturb(&mut self, disturbance: Disturbance) {
        match disturbance {
            Disturbance::Start(replica) => {
                if !self.replicas[replica].alive {
                    self.replicas[replica] = self.new_replica(replica, true);
                    self.tell_all(replica, || Input::Gap);
                    self.plan_to_ask(replica);
                }
            }
            Disturbance::Kill(replica) => self.replicas[replica].alive = false,
            Disturbance::Stop(replica) => {
                if self.replicas[replica].alive && !self.replicas[replica].leaving {
                    self.replicas[replica].leaving = true;
                    let now = self.server().now;
                    let session = self.replicas[replica].session;
                    let span = Balance::span(&timing());
                    self.presence.note(now, &PresenceRequest { session, portion: None::<Portion>, span });
                    self.tell_all(replica, || Input::Shutdown);
                }
            }
            Disturbance::Unwell(replica) => {
                self.replicas[replica].healthy = false;
                self.tell_all(replica, || Input::AppHealth { healthy: false });
            }
            Disturbance::Well(replica) => {
                self.replicas[replica].healthy = true;
                self.tell_all(replica, || Input::AppHealth { healthy: true });
            }
            Disturbance::Pause(replica, until) => self.replicas[replica].paused_until = until,
            Disturbance::Feign(replica, until) => self.replicas[replica].feigns_until = until,
            Disturbance::NoPresence(until) => self.presence_from = until,
        }
    }

    fn tell_all(&mut self, replica: usize, input: impl Fn() -> Input) {
        let session = self.replicas[replica].session;
        for shard in 0..self.scenario.shards {
            self.timeline.plan(self.now, Happening::Take { replica, session, shard, input: input() });
        }
    }
}

/// What the sender of a lost request hears in the end.
fn lost(replica: usize, session: SessionId, shard: u16, action: Action) -> Happening {
    let failure = || baton::protocol::NoReply::new("no answer");
    let input = match action {
        Action::Campaign { id, .. } => Input::Campaigned { id, reply: Err(failure()) },
        Action::Renew { id, .. } => Input::Renewed { id, reply: Err(failure()) },
        Action::Release { id, .. } => Input::Released { id, reply: Err(failure()) },
        Action::Tell(_) => Input::Gap,
    };
    Happening::Take { replica, session, shard, input }
}

/// Disturbances until `quiet`, at random; from then on everything is well.
pub fn any_disturbances(rng: &mut Rng, replicas: usize, quiet: Nanos) -> Vec<(Nanos, Disturbance)> {
    let mut all: Vec<(Nanos, Disturbance)> =
        (0..replicas).map(|replica| (rng.u64(0..20 * SECOND), Disturbance::Start(replica))).collect();
    let mut at = 20 * SECOND;
    while at < quiet - 30 * SECOND {
        at += rng.u64(SECOND..25 * SECOND);
        let replica = rng.usize(0..replicas);
        let later = at + rng.u64(SECOND / 2..25 * SECOND);
        match rng.u8(0..7) {
            0 | 1 => all.extend([(at, Disturbance::Kill(replica)), (later, Disturbance::Start(replica))]),
            2 | 3 => all.extend([(at, Disturbance::Stop(replica)), (later, Disturbance::Start(replica))]),
            4 => all.extend([(at, Disturbance::Unwell(replica)), (later, Disturbance::Well(replica))]),
            5 => all.push((at, Disturbance::Pause(replica, at + rng.u64(SECOND / 2..3 * LEASE)))),
            _ => all.push((at, Disturbance::NoPresence(later))),
        }
    }
    all.extend(
        (0..replicas).flat_map(|replica| [(quiet, Disturbance::Well(replica)), (quiet, Disturbance::Start(replica))]),
    );
    all.sort_by_key(|(at, _)| *at);
    all
}
