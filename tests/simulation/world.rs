//! A world of processes with their apps, a set of Redis servers and the networks between them, driven by a seed. The
//! processes run the real `Election`, the servers run the real `LeaseCell`; everything else here is what can go wrong.
//!
//! `processes` has the sidecars, `apps` how apps show that they live, `network` what goes between them and the servers,
//! `redis` one server, `replication` what goes between servers, `faults` and `failovers` what goes wrong.

use std::time::Duration;

use baton::protocol::{Announcement, AppHoldEnd, AppHoldId, Input, RequestId, Server, StoreTime, Token};
use fastrand::Rng;

use crate::checker::Checker;
use crate::clockwork::{Nanos, SECOND, Timeline};
use crate::departures::{Account, Pod};
use crate::durable::{Log, Write};
use crate::failovers::Move;
use crate::faults::Fault;
use crate::network::{Exchange, Request, Sent};
use crate::processes::{At, Process};
use crate::redis::Redis;
use crate::replication::Batch;
use crate::scenario::Scenario;
use crate::trace::Trace;

#[derive(Clone, Debug)]
pub enum Happening {
    Wake(At),
    /// A request at its server.
    Arrive {
        from: At,
        to: usize,
        id: RequestId,
        sent: Sent,
        request: Box<Request>,
        /// Of which generation the sender takes the server to be, where scripts do not ask.
        told: Option<String>,
    },
    /// A write is in the log, unless another server has taken that over.
    Logged(Box<Write>),
    /// The question of which generation the server is, behind a script.
    LookBehind(Box<Exchange>),
    /// The same before the next script.
    Ask(Box<Exchange>),
    /// A `WAIT` at its server.
    Wait(Box<Exchange>),
    /// A `WAIT` has waited for long enough.
    TooFew {
        server: usize,
        number: u64,
    },
    /// The question whether a grant counts, at its server.
    Confirm(Box<Exchange>),
    Answer {
        to: At,
        input: Box<Input>,
        id: RequestId,
    },
    GiveUp {
        to: At,
        id: RequestId,
    },
    News {
        to: usize,
        news: Box<Announcement>,
    },
    Gap(usize),
    /// A process turns to the master: with its commands, or with its subscription.
    Turn {
        process: usize,
        ears: bool,
    },
    AppDrained(At),
    AppStops {
        at: At,
        hold: AppHoldId,
    },
    AppCloses {
        at: At,
        hold: AppHoldId,
        end: AppHoldEnd,
    },
    AppHealth {
        process: usize,
        healthy: bool,
    },
    /// A second signal.
    Abandon(usize),
    /// A reload adds the role again that one before it removed.
    AddAgain(usize),
    /// An account of the end of a process reaches a process.
    Departed {
        to: usize,
        account: Account,
    },
    /// The container starts again in its pod.
    Restart(Pod),
    Join,
    Attach {
        replica: usize,
        epoch: u64,
    },
    Apply(Box<Batch>),
    Acknowledged {
        to: usize,
        link: u64,
        offset: u64,
    },
    Move(Move),
    /// Something goes wrong, and the next time is planned.
    Fault,
    /// The other one of a pair.
    Strike(Fault),
    Look,
}

pub struct World {
    pub scenario: Scenario,
    pub rng: Rng,
    pub now: Nanos,
    pub timeline: Timeline<Happening>,
    pub processes: Vec<Process>,
    pub servers: Vec<Redis>,
    /// What outlives them, where they write to a log.
    pub log_of_writes: Log,
    /// Whom everybody is told to talk to, and to follow.
    pub official: usize,
    /// The last of the names that were given.
    pub numbers: u64,
    /// What there is to be read of ends.
    pub ends: Vec<Account>,
    pub checker: Checker,
    /// When the last fault is over, as far as is known.
    pub faults_end: Nanos,
    pub calm: bool,
    /// Something that is not mended: one process never hears what becomes of its requests.
    pub one_is_unanswered: bool,
    pub log: Vec<String>,
    /// What is to be held against the specification.
    pub trace: Option<Trace>,
}

/// What a server's scripts may know of it.
pub fn server(now: StoreTime, generation: &str, born: i128, true_now: Nanos) -> Server<'_> {
    let uptime = Duration::from_nanos(u64::try_from(i128::from(true_now) - born).expect("born before now"));
    Server { now, uptime, generation }
}

impl World {
    pub fn new(scenario: Scenario) -> Self {
        let servers: Vec<Redis> =
            (0..scenario.servers).map(|at| Redis::new(scenario.rules, scenario.around.mark, at as u64 + 1)).collect();
        let mut world = Self {
            scenario,
            rng: Rng::with_seed(scenario.seed),
            now: 0,
            timeline: Timeline::new(),
            processes: Vec::new(),
            numbers: servers.len() as u64,
            log_of_writes: Log::new(servers[0].cell.clone()),
            servers,
            official: 0,
            ends: Vec::new(),
            checker: Checker::default(),
            faults_end: 0,
            calm: false,
            one_is_unanswered: false,
            log: Vec::new(),
            trace: scenario.trace.then(Trace::default),
        };
        for replica in 1..scenario.servers {
            world.follow(replica, 0);
            // Clocks of different servers differ.
            world.servers[replica].skew_us = world.rng.i64(-400_000..=400_000);
        }
        world
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

    /// Whether the grant of this token by this server counts, now that it is acknowledged. `told`: of which generation
    /// it is taken to be, where scripts do not ask.
    pub fn counts(&self, at: usize, token: Token, told: Option<&str>) -> bool {
        let of = &self.servers[at];
        let generation = told.unwrap_or(of.generation());
        of.cell.confirm(server(of.shows(self.now), generation, of.born, self.now), token)
    }

    pub fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Wake(at) => self.wake(at),
            Happening::Arrive { from, to, id, sent, request, told } => self.arrive(from, to, id, sent, request, told),
            Happening::Logged(write) => self.logged(*write),
            Happening::LookBehind(exchange) => self.look_behind(exchange),
            Happening::Ask(exchange) => self.ask(exchange),
            Happening::Wait(exchange) => self.wait(exchange),
            Happening::TooFew { server, number } => self.too_few(server, number),
            Happening::Confirm(exchange) => self.confirm(exchange),
            Happening::Answer { to, input, id } => self.answered(to, id, input),
            Happening::GiveUp { to, id } => self.give_up(to, id),
            Happening::News { to, news } => self.hear(to, &news),
            Happening::Gap(process) => self.gap(process),
            Happening::Turn { process, ears } => self.turn(process, ears),
            Happening::AppDrained(at) => {
                if self.awake(at.process, || Happening::AppDrained(at)) && self.task(at).election.is_draining() {
                    self.task(at).promised_until = 0;
                    self.input(at, Input::Drained);
                }
            }
            Happening::AppStops { at, hold } => self.app_stops(at, hold),
            Happening::AppCloses { at, hold, end } => self.app_closes(at, hold, end),
            Happening::AppHealth { process, healthy } => {
                if self.awake(process, || Happening::AppHealth { process, healthy }) {
                    self.input_all(process, &Input::AppHealth { healthy });
                }
            }
            Happening::Abandon(process) => {
                if self.awake(process, || Happening::Abandon(process)) {
                    self.input_all(process, &Input::Abandon);
                }
            }
            Happening::AddAgain(process) => self.add_again(process),
            Happening::Departed { to, account } => {
                if self.awake(to, || Happening::Departed { to, account }) {
                    self.hear_of_an_end(to, account);
                }
            }
            Happening::Restart(pod) => self.start_in(pod),
            Happening::Join => self.join(),
            Happening::Attach { replica, epoch } => self.attach(replica, epoch),
            Happening::Apply(batch) => self.apply(batch),
            Happening::Acknowledged { to, link, offset } => self.acknowledged(to, link, offset),
            Happening::Move(step) => self.carry_out(step),
            Happening::Fault => self.fault(),
            Happening::Strike(fault) => {
                let end = self.now + self.strike(fault);
                self.faults_end = self.faults_end.max(end);
            }
            Happening::Look => {}
        }
    }
}
