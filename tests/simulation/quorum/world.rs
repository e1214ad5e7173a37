//! A world of replicas, apps, independent members and a network between each two of them, driven by a seed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use baton::protocol::{
    Action, Announcement, Ballot, CampaignRound, Election, Event, Heard, Input, MemberCell, MemberReply, MemberRequest,
    Profile, ReleaseRound, RenewRound, RequestId, Round as _, Rules, Seats, Server, SessionId, StoreTime, Timing, Vote,
};
use fastrand::Rng;

use super::change::Change;
use super::faults::{Fault, Midway};
use crate::checker::{Checker, Watched};
use crate::clockwork::{AppHabit, LocalClock, MS, Nanos, SECOND, Timeline};

/// The timings of the single store's table.
pub const LEASE: Nanos = 10 * SECOND;
const MARGIN_MS: u64 = 500;
const ANSWER_VALIDITY_MS: u64 = 3_000;
/// How far the members' clocks are off at first, each way.
const SKEW_US: i64 = 3_000_000;

/// What a run is about.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    pub seed: u64,
    pub rules: Rules,
    pub seats: Seats,
    /// The list of members is changed again and again, replica by replica.
    pub change: Option<Change>,
    pub fault: Fault,
    /// The end of a process gets about, by the word of its kubelet.
    pub departures: bool,
    /// How many members never answer.
    pub silent: usize,
    /// Members and replicas are near each other: most answers take less than a millisecond.
    pub near: bool,
    /// No question is lost, and none takes longer than its sender waits: whoever objects is heard.
    pub heard: bool,
    /// How many members answer 50 ms late.
    pub late: usize,
    /// Whether apps ask their sidecars. Without them no promise holds up a release.
    pub apps: bool,
    /// How many replicas at the start.
    pub replicas: usize,
    /// Within which time they begin.
    pub join_within: Nanos,
    /// How many there may ever be, the restarted ones included.
    pub replicas_max: usize,
    /// When the first fault begins, at the earliest and at the latest.
    pub first_fault: (Nanos, Nanos),
    /// The least and the longest time from one fault to the next.
    pub fault_gap: (Nanos, Nanos),
    /// When the last fault may begin.
    pub faults_until: Nanos,
    /// True: only the length counts, as in the published table. False: after the last fault all is calm, and a leader
    /// must be there within two leases and a second.
    pub table: bool,
    /// Keep a log of every event, to be printed.
    pub log: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    Up,
    /// Its port is closed: commands fail at once.
    Refuses,
    /// Its machine is gone: commands get no answer.
    Silent,
}

pub struct Member {
    pub cell: MemberCell,
    pub run_id: String,
    pub born: i128,
    pub skew_us: i64,
    pub health: Health,
    /// Commands wait until then, and are executed afterwards.
    pub frozen_until: Nanos,
    /// When it could last have executed anything.
    pub last_well: Nanos,
    /// Who renewed here last, and when.
    pub follows: Option<(usize, Nanos)>,
}

impl Member {
    pub fn step(&mut self, now: Nanos, lists: &str, ask: &MemberRequest) -> (MemberReply, Option<Announcement>) {
        let wall = 1_700_000_000_000_000 + i128::from(now / 1_000) + i128::from(self.skew_us);
        let server = Server {
            now: StoreTime(u64::try_from(wall).expect("after 1970")),
            uptime: Duration::from_nanos(u64::try_from(i128::from(now) - self.born).expect("born before now")),
            generation: &self.run_id,
        };
        self.cell.step(server, lists, ask).expect("the clock is not that far ahead")
    }

    pub fn is_well(&self, now: Nanos) -> bool {
        self.health == Health::Up && now >= self.frozen_until
    }
}

/// A request to the quorum that is under way.
pub enum Round {
    /// With when it began, and whether a quorum has answered.
    Campaign(CampaignRound, Nanos, bool),
    Renew(RenewRound),
    Release(ReleaseRound),
}

/// A replica's connection to a member.
#[derive(Clone, Copy, Default)]
pub struct Link {
    /// How many commands in a row got no answer.
    pub unanswered: u32,
    /// When the last of those was given up.
    pub given_up_at: Nanos,
    /// When the last answer came.
    pub answered_at: Nanos,
}

pub struct Replica {
    pub election: Election,
    pub clock: LocalClock,
    pub alive: bool,
    pub paused_until: Nanos,
    /// From each member.
    pub cut_until: Vec<Nanos>,
    pub links: Vec<Link>,
    /// When what was sent last to each member arrives: later commands of the same connection come after it.
    pub sent_until: Vec<Nanos>,
    /// The same for what each member publishes.
    pub heard_until: Vec<Nanos>,
    pub heard: Heard,
    pub seats: Seats,
    /// What it tells the members of its list.
    pub lists: String,
    /// In which stage of a change it began; and that it ends, for the next one to begin in its place.
    pub stage: usize,
    pub ends: bool,
    pub rounds: BTreeMap<RequestId, Round>,
    habit: AppHabit,
    /// Until when, in true time, the app may act on an answer it has read.
    promised_until: Nanos,
    wake_planned: Option<Nanos>,
}

impl Watched for Replica {
    fn leads(&self, now: Nanos) -> bool {
        self.alive && self.election.leadership().leads(self.clock.shows(now))
    }

    fn acts(&self, now: Nanos) -> bool {
        self.leads(now) || now < self.promised_until
    }
}

/// Ties an answer to its question; none where nobody waits.
pub type Tag = Option<(RequestId, Ballot)>;

#[derive(Debug)]
pub enum Happening {
    Wake(usize),
    Arrive {
        from: usize,
        member: usize,
        tag: Tag,
        ask: Box<MemberRequest>,
    },
    Answer {
        to: usize,
        member: usize,
        tag: (RequestId, Ballot),
        vote: Box<Vote>,
    },
    /// The members that have not answered this campaign yet are slow.
    Hurry {
        to: usize,
        id: RequestId,
    },
    /// A command of a round has had its time.
    TimedOut {
        to: usize,
        member: usize,
        tag: (RequestId, Ballot),
        sent_at: Nanos,
    },
    News {
        to: usize,
        member: usize,
        news: Announcement,
    },
    /// A replica goes on, or its network heals: what these members published may have been missed.
    Gap {
        at: usize,
        members: Vec<usize>,
    },
    AppDrained(usize),
    /// A replica reads that the process of another has ended; nobody is left to act when its app has, too.
    Departed {
        to: usize,
        dead: usize,
        whole: bool,
    },
    MemberUp {
        member: usize,
        empty: bool,
    },
    /// A member's clock jumps.
    Step {
        member: usize,
        us: i64,
    },
    /// The next replica is ended, and begins again with the list of this stage.
    Roll,
    Fault,
    Join,
    Look,
}

pub struct World {
    pub scenario: Scenario,
    pub rng: Rng,
    pub now: Nanos,
    timeline: Timeline<Happening>,
    pub replicas: Vec<Replica>,
    pub members: Vec<Member>,
    pub generation: u64,
    /// Of a change of the list.
    pub stage: usize,
    pub midway: Midway,
    pub checker: Checker,
    /// When the last fault is over, as far as is known.
    pub faults_end: Nanos,
    pub calm: bool,
    pub log: Vec<String>,
}

fn session(replica: usize) -> SessionId {
    SessionId::from_u128(replica as u128 + 1)
}

impl World {
    pub fn new(scenario: Scenario) -> Self {
        let mut rng = Rng::with_seed(scenario.seed);
        let places = if scenario.change.is_some() { Change::PLACES } else { scenario.seats.places() };
        let members = (0..places).map(|at| Member {
            cell: MemberCell::new(scenario.rules),
            run_id: at.to_string(),
            born: -i128::from(100 * SECOND),
            skew_us: rng.i64(-SKEW_US..=SKEW_US),
            health: if at < scenario.silent { Health::Silent } else { Health::Up },
            frozen_until: 0,
            last_well: 0,
            follows: None,
        });
        let members = members.collect();
        Self {
            scenario,
            rng,
            now: 0,
            timeline: Timeline::new(),
            replicas: Vec::new(),
            members,
            generation: 100,
            stage: 0,
            midway: Midway::Not,
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

    /// Who leads.
    pub fn leader(&self) -> Option<usize> {
        self.replicas.iter().position(|replica| replica.leads(self.now))
    }

    pub fn join(&mut self) {
        if self.replicas.len() >= self.scenario.replicas_max {
            return;
        }
        let clock = LocalClock::any(&mut self.rng);
        let habit = AppHabit::any(&mut self.rng);
        let ms = Duration::from_millis;
        let lease = Duration::from_nanos(LEASE);
        let profile = Profile {
            session: session(self.replicas.len()),
            attempts: Default::default(),
            identity: Arc::from(format!("replica-{}", self.replicas.len())),
            timing: Timing::new(lease, lease / 3, ms(MARGIN_MS), ms(ANSWER_VALIDITY_MS)).expect("the table's timings"),
            guard: true,
            app_checked: false,
            rules: self.scenario.rules,
            role_stagger: Duration::ZERO,
            seed: self.rng.u64(..),
        };
        let members = self.members.len();
        let plain = || (self.scenario.seats, String::new());
        let (seats, lists) = self.scenario.change.map_or_else(plain, |change| change.config(self.stage));
        self.replicas.push(Replica {
            election: Election::new(profile, clock.shows(self.now)),
            clock,
            alive: true,
            paused_until: 0,
            cut_until: vec![0; members],
            links: vec![Link::default(); members],
            sent_until: vec![0; members],
            heard_until: vec![0; members],
            heard: Heard::new(seats),
            seats,
            lists,
            stage: self.stage,
            ends: false,
            rounds: BTreeMap::new(),
            habit,
            promised_until: 0,
            wake_planned: None,
        });
        let new = self.replicas.len() - 1;
        self.note(|_| format!("replica-{new} joins"));
        self.serve(new);
    }

    /// A sidecar has ended, and sometimes its app with it: the others read that, soon or late.
    pub fn tell_of_the_end(&mut self, dead: usize) {
        if !self.scenario.departures {
            return;
        }
        let whole = self.chance(0.5);
        if whole {
            self.replicas[dead].promised_until = self.replicas[dead].promised_until.min(self.now);
        }
        for to in 0..self.replicas.len() {
            let when = self.now + self.span(MS, 5 * SECOND);
            self.at(when, Happening::Departed { to, dead, whole });
        }
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
            if !(asks && replica.alive && self.scenario.apps) || now < replica.paused_until {
                continue;
            }
            let local = replica.clock.shows(now);
            if let Some(promise) = replica.election.leadership().promise(local) {
                let until = replica.clock.when(local + promise.valid_for, now);
                replica.promised_until = replica.promised_until.max(until);
            } else if matches!(replica.habit, AppHabit::Drains) && replica.election.is_draining() {
                let soon = now + self.rng.u64(0..500 * MS);
                self.at(soon, Happening::AppDrained(at));
            }
        }
        self.checker.observe(now, &self.replicas);
        self.check_for_a_quorum();
    }

    /// Whoever leads has been acknowledged by enough members within the last lease.
    fn check_for_a_quorum(&mut self) {
        let now = self.now;
        for member in &mut self.members {
            if member.is_well(now) {
                member.last_well = now;
            }
        }
        let well = |place: &usize| now - self.members[*place].last_well < LEASE;
        let lately: Vec<usize> = (0..self.members.len()).filter(well).collect();
        let has_none = |replica: &Replica| replica.leads(now) && !replica.seats.are_enough(lately.iter().copied());
        if self.replicas.iter().any(has_none) {
            self.checker.led_without_a_quorum(now, lately.len());
        }
    }

    pub fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Wake(at) => {
                if self.replicas[at].wake_planned == Some(self.now) {
                    self.replicas[at].wake_planned = None;
                }
                if let Some(Happening::Wake(_)) = self.awake(at, Happening::Wake(at)) {
                    let local = self.replicas[at].clock.shows(self.now);
                    self.replicas[at].election.handle_timeout(local);
                    self.serve(at);
                }
            }
            Happening::Arrive { from, member, tag, ask } => self.arrive(from, member, tag, ask),
            Happening::Answer { to, member, tag, vote } => {
                let happening = Happening::Answer { to, member, tag, vote };
                if let Some(Happening::Answer { vote, .. }) = self.awake(to, happening) {
                    self.answer(to, member, tag, *vote);
                }
            }
            Happening::Hurry { to, id } => {
                if let Some(Happening::Hurry { .. }) = self.awake(to, Happening::Hurry { to, id })
                    && let Some(Round::Campaign(round, ..)) = self.replicas[to].rounds.get_mut(&id)
                {
                    round.hurry();
                    self.drive(to, id);
                }
            }
            Happening::TimedOut { to, member, tag, sent_at } => {
                let happening = Happening::TimedOut { to, member, tag, sent_at };
                if self.awake(to, happening).is_some() {
                    self.timed_out(to, member, tag, sent_at);
                }
            }
            Happening::News { to, member, news } => self.hear(to, member, news),
            Happening::Gap { at, members } => {
                if let Some(Happening::Gap { members, .. }) = self.awake(at, Happening::Gap { at, members }) {
                    self.gap(at, &members);
                }
            }
            Happening::AppDrained(at) => {
                if self.awake(at, Happening::AppDrained(at)).is_some() && self.replicas[at].election.is_draining() {
                    self.replicas[at].promised_until = 0;
                    self.input(at, Input::Drained);
                }
            }
            Happening::Departed { to, dead, whole } => {
                if self.awake(to, Happening::Departed { to, dead, whole }).is_some() {
                    let promise = Duration::from_millis(if whole { 0 } else { ANSWER_VALIDITY_MS });
                    self.input(to, Input::Departed { session: session(dead), promise });
                }
            }
            Happening::MemberUp { member, empty } => self.member_up(member, empty),
            Happening::Step { member, us } => self.members[member].skew_us += us,
            Happening::Roll => self.roll(),
            Happening::Fault => self.fault(),
            Happening::Join => self.join(),
            Happening::Look => {}
        }
    }

    /// The happening, if the replica can take it now. A paused one takes it when it goes on, a dead one never.
    fn awake(&mut self, at: usize, happening: Happening) -> Option<Happening> {
        let replica = &self.replicas[at];
        if !replica.alive {
            return None;
        }
        if self.now < replica.paused_until {
            let later = replica.paused_until + MS;
            self.at(later, happening);
            return None;
        }
        Some(happening)
    }

    pub fn input(&mut self, at: usize, input: Input) {
        self.note(|_| format!("replica-{at} <- {input:?}"));
        let local = self.replicas[at].clock.shows(self.now);
        self.replicas[at].election.handle_input(local, input);
        self.serve(at);
    }

    /// Does what the election asks for.
    fn serve(&mut self, at: usize) {
        let (seats, rules) = (self.replicas[at].seats, self.scenario.rules);
        while let Some(action) = self.replicas[at].election.poll_action() {
            let (id, round) = match action {
                Action::Campaign { id, request } => {
                    (id, Round::Campaign(CampaignRound::new(seats, rules, request), self.now, false))
                }
                Action::Renew { id, request } => (id, Round::Renew(RenewRound::new(seats, request))),
                Action::Release { id, request } => (id, Round::Release(ReleaseRound::new(seats, request))),
                Action::Tell(event) => {
                    self.note(|_| format!("replica-{at} tells {event:?}"));
                    if let Event::Elected { token } = event {
                        self.checker.elected(self.now, at, token);
                    }
                    continue;
                }
            };
            self.replicas[at].rounds.insert(id, round);
            self.drive(at, id);
        }
        let replica = &mut self.replicas[at];
        replica.alive &= !(replica.ends && replica.election.is_ended());
        let replica = &self.replicas[at];
        if let Some(due) = replica.election.poll_timeout() {
            let when = replica.clock.when(due, self.now);
            if replica.wake_planned.is_none_or(|planned| when < planned) {
                self.replicas[at].wake_planned = Some(when);
                self.at(when, Happening::Wake(at));
            }
        }
    }

    /// Members that the leader's renewals do not reach although nothing is wrong any more; all when nobody leads.
    pub fn strays(&self) -> usize {
        let Some(leader) = self.leader() else { return self.members.len() };
        let joined = |member: &&Member| {
            member.follows.is_some_and(|(replica, when)| replica == leader && self.now - when < LEASE / 2)
        };
        self.replicas[leader].seats.members().filter(|place| !joined(&&self.members[*place])).count()
    }

    /// Keeps the log of what a member answered.
    pub fn note_answer(&mut self, member: usize, from: usize, answer: &MemberReply) {
        self.note(|_| format!("member {member} answers replica-{from}: {answer:?}"));
    }
}
