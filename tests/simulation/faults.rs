//! What goes wrong, and how often: the columns of the table in section 1.

use std::time::Duration;

use baton::protocol::Input;

use crate::app_sign::AppSign;
use crate::checker::Watched;
use crate::clockwork::{MS, Nanos, SECOND};
use crate::failovers::{Data, Ending};
use crate::processes::At;
use crate::scenario::LEASE;
use crate::world::{Happening, World};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A sidecar stands still.
    Pause,
    /// A sidecar loses the store.
    Cut,
    /// A sidecar dies; another starts in its place.
    Kill,
    /// The leader resigns.
    Resign,
    /// The store restarts with its data.
    RestartKept,
    /// The store restarts empty.
    RestartLost,
    /// A replica of the store takes over that may lag.
    Failover,
    /// A role is released, and a replica takes over that has heard of that and not of the next grant.
    LostGrant,
    /// A replica takes over, and the old master is still served to some.
    Split,
    /// The store's clock jumps.
    Clock,
    /// The lease is evicted or deleted.
    Evict,
    /// Everything in the store is deleted.
    Flush,
    /// The store restarts with all but the last seconds, up to half a minute.
    RestartLate,
    /// A split in which replicas go from side to side.
    Sides,
    /// A split after which the old master is promoted again, or never stopped being one.
    OldMaster,
    /// A role is removed and added again.
    Reload,
    /// Leases of two lengths, and whatever leaves the record where it is.
    Lengths,
    /// Two faults within a lease.
    Pairs,
    /// Requests, replies or news are lost, and the other two are not.
    HalfCut,
    /// A sidecar's subscription breaks again and again.
    Flapping,
    /// SIGTERM, and sometimes a second one.
    Shutdown,
    /// An app's health check fails for a while.
    Unwell,
    /// The leader's app dies, and its sidecar does not.
    AppKilled,
    /// A runtime has lost a sidecar that lives: it says that it ended.
    Orphan,
    /// A new process.
    Newcomer,
    /// The master stands still.
    Frozen,
    /// A replica of the store leaves and comes back, or lags.
    Replica,
    /// One upon another.
    Storm,
    /// Any of these, one at a time.
    Mixed,
}

/// What may go wrong with who leads, and with the store, for [`Fault::Pairs`].
const OF_STORES: [Fault; 9] = [
    Fault::Evict,
    Fault::Flush,
    Fault::Clock,
    Fault::Split,
    Fault::OldMaster,
    Fault::Failover,
    Fault::RestartKept,
    Fault::RestartLost,
    Fault::RestartLate,
];
const OF_PROCESSES: [Fault; 5] = [Fault::Pause, Fault::Cut, Fault::Kill, Fault::HalfCut, Fault::Newcomer];
/// What leaves the record where it is.
const KEEP_THE_RECORD: [Fault; 13] = [
    Fault::Pause,
    Fault::Cut,
    Fault::Kill,
    Fault::Resign,
    Fault::RestartKept,
    Fault::Evict,
    Fault::Evict,
    Fault::Reload,
    Fault::HalfCut,
    Fault::Flapping,
    Fault::Shutdown,
    Fault::Unwell,
    Fault::Newcomer,
];
/// What a mix is made of.
const ANY: [Fault; 22] = [
    Fault::Pause,
    Fault::Cut,
    Fault::Kill,
    Fault::Resign,
    Fault::RestartKept,
    Fault::RestartLost,
    Fault::RestartLate,
    Fault::Failover,
    Fault::Split,
    Fault::Clock,
    Fault::Evict,
    Fault::Flush,
    Fault::Sides,
    Fault::OldMaster,
    Fault::Reload,
    Fault::HalfCut,
    Fault::Flapping,
    Fault::Shutdown,
    Fault::Unwell,
    Fault::Newcomer,
    Fault::Frozen,
    Fault::Replica,
];

impl Fault {
    /// The columns of the table.
    pub const ALL: [Self; 18] = [
        Self::Pause,
        Self::Cut,
        Self::Kill,
        Self::Resign,
        Self::RestartKept,
        Self::RestartLost,
        Self::RestartLate,
        Self::Failover,
        Self::Split,
        Self::Sides,
        Self::OldMaster,
        Self::Clock,
        Self::Evict,
        Self::Flush,
        Self::Reload,
        Self::Lengths,
        Self::Pairs,
        Self::Mixed,
    ];

    pub const fn title(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Cut => "cut",
            Self::Kill => "kill",
            Self::Resign => "resign",
            Self::RestartKept => "restart, data kept",
            Self::RestartLost => "restart, data lost",
            Self::RestartLate => "restart, last seconds lost",
            Self::Failover => "failover to a lagging replica",
            Self::LostGrant => "failover that forgets a grant after a release",
            Self::Split => "split, old master still served",
            Self::Sides => "replica changes sides",
            Self::OldMaster => "old master promoted again",
            Self::Clock => "Redis clock step",
            Self::Evict => "lease evicted",
            Self::Flush => "FLUSHALL",
            Self::Reload => "role removed and added",
            Self::Lengths => "lease lengths differ",
            Self::Pairs => "two faults at once",
            Self::HalfCut => "cut in one direction",
            Self::Flapping => "subscription breaks again and again",
            Self::Shutdown => "shutdown",
            Self::Unwell => "app unwell",
            Self::AppKilled => "app killed",
            Self::Orphan => "an end that did not happen",
            Self::Newcomer => "newcomer",
            Self::Frozen => "Redis stands still",
            Self::Replica => "a replica leaves",
            Self::Storm => "one upon another",
            Self::Mixed => "all mixed",
        }
    }

    /// One or two processes: where more wait, a released role is another's at once.
    pub const fn is_of_few(self) -> bool {
        matches!(self, Self::Reload | Self::LostGrant)
    }

    /// Nothing helps against these without acknowledged writes (R6).
    const fn needs_acks(self) -> bool {
        matches!(self, Self::Split | Self::Sides | Self::OldMaster)
    }
}

impl World {
    fn one_of(&mut self, faults: &[Fault]) -> Fault {
        loop {
            let fault = faults[self.rng.usize(0..faults.len())];
            if self.scenario.acks > 0 || self.scenario.durable || !fault.needs_acks() {
                return fault;
            }
        }
    }

    /// Something goes wrong, and the next time is planned.
    pub fn fault(&mut self) {
        if self.now > self.scenario.faults_until {
            return;
        }
        let app_killed = self.scenario.app != AppSign::Asks && self.chance(0.25);
        let fault = match self.scenario.fault {
            Fault::Mixed | Fault::Storm if app_killed => Fault::AppKilled,
            Fault::Mixed | Fault::Storm => self.one_of(&ANY),
            Fault::Lengths => {
                if self.rng.bool() {
                    let (other, later) = (self.one_of(&KEEP_THE_RECORD), self.span(0, LEASE));
                    self.at(self.now + later, Happening::Strike(other));
                    self.faults_end = self.faults_end.max(self.now + later);
                }
                self.one_of(&KEEP_THE_RECORD)
            }
            Fault::Reload => self.one_of(&[Fault::Reload, Fault::Reload, Fault::Shutdown]),
            fault => fault,
        };
        let end = self.now + self.strike(fault);
        self.faults_end = self.faults_end.max(end);
        if self.chance(0.3) {
            let when = self.now + self.span(0, 4 * SECOND);
            self.at(when, Happening::Join);
        }
        let (least, most) = self.scenario.fault_gap;
        let next = self.now + self.span(least, most);
        self.at(next, Happening::Fault);
    }

    pub fn leader(&self) -> Option<usize> {
        self.processes.iter().position(|process| process.leads(self.now))
    }

    /// Returns for how long it lasts.
    pub fn strike(&mut self, fault: Fault) -> Nanos {
        let leader = self.leader();
        let living: Vec<usize> = (0..self.processes.len()).filter(|at| self.processes[*at].alive).collect();
        if living.is_empty() {
            self.join();
            return 0;
        }
        let any = living[self.rng.usize(0..living.len())];
        let victim = if self.chance(0.6) { leader.unwrap_or(any) } else { any };
        let master = self.official;
        self.note(|_| format!("FAULT {fault:?}, victim process-{victim}"));
        match fault {
            Fault::Pause => self.pause(victim),
            Fault::Cut => self.cut(victim),
            Fault::HalfCut => self.half_cut(victim),
            Fault::Kill => self.kill(victim),
            Fault::Orphan => {
                self.orphan(victim);
                0
            }
            Fault::AppKilled => self.kill_app(leader.unwrap_or(any)),
            Fault::Resign => self.resign(leader),
            Fault::RestartKept => self.restart(master, Data::Kept),
            Fault::RestartLost => self.restart(master, Data::Lost),
            Fault::RestartLate => self.restart(master, Data::Late),
            Fault::Failover => self.fail_over(),
            Fault::LostGrant => self.lose_a_grant(leader),
            Fault::Split => self.split(Ending::New),
            Fault::Sides => self.split(Ending::Either),
            Fault::OldMaster => {
                let ending = if self.rng.bool() { Ending::Old } else { Ending::OldAgain };
                self.split(ending)
            }
            Fault::Clock => self.step_a_clock(),
            Fault::Evict => {
                self.servers[master].cell.evict_lease();
                self.trace_eviction(master);
                self.written(master)
            }
            Fault::Flush => {
                self.servers[master].cell.forget();
                self.written(master)
            }
            Fault::Reload => self.reload(victim),
            Fault::Flapping => {
                let span = self.span(5 * SECOND, 40 * SECOND);
                self.processes[victim].flaps_until = self.now + span;
                self.at(self.now, Happening::Gap(victim));
                span
            }
            Fault::Shutdown => self.shut_down(victim),
            Fault::Unwell => {
                let span = self.span(100 * MS, 10 * SECOND);
                self.at(self.now, Happening::AppHealth { process: victim, healthy: false });
                self.at(self.now + span, Happening::AppHealth { process: victim, healthy: true });
                span
            }
            Fault::Newcomer => {
                self.join();
                0
            }
            Fault::Frozen => {
                let span = self.span(100 * MS, 25 * SECOND);
                let until = &mut self.servers[master].frozen_until;
                *until = (self.now + span).max(*until);
                span
            }
            Fault::Replica => self.trouble_a_replica(),
            Fault::Pairs => self.strike_two(),
            Fault::Lengths | Fault::Mixed | Fault::Storm => unreachable!("resolved by the caller"),
        }
    }

    /// The master's state was changed behind the scripts' back.
    fn written(&mut self, master: usize) -> Nanos {
        self.servers[master].wrote(self.now);
        self.log_by_hand(master);
        self.replicate(master);
        0
    }

    /// One of the store's and one of a process', in either order, and often somebody new.
    fn strike_two(&mut self) -> Nanos {
        let (first, second) = (self.one_of(&OF_STORES), self.one_of(&OF_PROCESSES));
        let (first, second) = if self.rng.bool() { (first, second) } else { (second, first) };
        let later = self.span(0, LEASE);
        self.at(self.now + later, Happening::Strike(second));
        if self.rng.bool() {
            let joins = self.span(0, LEASE);
            self.at(self.now + joins, Happening::Join);
        }
        self.strike(first).max(later)
    }

    fn pause(&mut self, victim: usize) -> Nanos {
        let span = self.span(100 * MS, 25 * SECOND);
        let until = self.now + span;
        self.processes[victim].paused_until = self.processes[victim].paused_until.max(until);
        // Before anything that waited: the driver drops old messages and looks by itself.
        self.at(until, Happening::Gap(victim));
        span
    }

    /// The leader ends and gives the role back; a replica hears nothing after that, and takes over when another has
    /// begun to lead. Who has heard nothing of that asks it then: those that were cut off meanwhile, and a newcomer.
    fn lose_a_grant(&mut self, leader: Option<usize>) -> Nanos {
        let takes = self.forget_the_next_grant();
        for process in 0..self.processes.len() {
            if self.processes[process].alive && leader != Some(process) {
                let until = self.now + takes + self.span(0, SECOND);
                let cut = &mut self.processes[process].cut;
                (cut.requests, cut.replies, cut.news) = (until, until, until);
                self.at(until + MS, Happening::Gap(process));
            }
        }
        if let Some(leader) = leader {
            self.shut_down(leader);
        }
        20 * SECOND
    }

    fn cut(&mut self, victim: usize) -> Nanos {
        let span = self.span(500 * MS, 25 * SECOND);
        let until = self.now + span;
        let cut = &mut self.processes[victim].cut;
        cut.requests = cut.requests.max(until);
        cut.replies = cut.replies.max(until);
        cut.news = cut.news.max(until);
        self.at(until + MS, Happening::Gap(victim));
        self.lose_sight_of(victim);
        span
    }

    /// Nobody tells it that its subscription was deaf.
    fn half_cut(&mut self, victim: usize) -> Nanos {
        let span = self.span(500 * MS, 25 * SECOND);
        let until = self.now + span;
        let which = self.rng.u8(0..3);
        let cut = &mut self.processes[victim].cut;
        let end = match which {
            0 => &mut cut.requests,
            1 => &mut cut.replies,
            _ => &mut cut.news,
        };
        *end = until.max(*end);
        span
    }

    fn kill(&mut self, victim: usize) -> Nanos {
        self.end(victim);
        self.processes[victim].alive = false;
        let span = self.span(0, 5 * SECOND);
        if !self.restarts_in_its_pod(victim) {
            self.at(self.now + span, Happening::Join);
        }
        span
    }

    fn resign(&mut self, leader: Option<usize>) -> Nanos {
        if let Some(leader) = leader.filter(|leader| self.now >= self.processes[*leader].paused_until) {
            let cooldown = Duration::from_nanos(self.span(SECOND, 3 * SECOND));
            self.input_all(leader, &Input::Resign { cooldown });
        }
        0
    }

    /// Two reloads: one removes the role, the next adds it again.
    fn reload(&mut self, victim: usize) -> Nanos {
        let process = &self.processes[victim];
        if self.now < process.paused_until || process.wanted_again {
            return 0;
        }
        self.processes[victim].wanted_again = true;
        let again = self.span(100 * MS, 4 * SECOND);
        self.at(self.now + again, Happening::AddAgain(victim));
        let newest = self.newest(victim);
        self.reload_removes(newest);
        again
    }

    fn reload_removes(&mut self, at: At) {
        self.note(|_| format!("{at} is removed by a reload"));
        self.input(at, Input::Shutdown);
    }

    fn shut_down(&mut self, victim: usize) -> Nanos {
        if self.now < self.processes[victim].paused_until {
            return 0;
        }
        self.processes[victim].wanted_again = false;
        self.input_all(victim, &Input::Shutdown);
        if self.rng.bool() {
            let second = self.now + self.span(0, 3 * SECOND);
            self.at(second, Happening::Abandon(victim));
        }
        5 * SECOND
    }

    /// The master's as a rule, sometimes that of a replica, which is the master later on.
    fn step_a_clock(&mut self) -> Nanos {
        let step = match self.rng.u8(0..6) {
            0..3 => self.rng.i64(-30_000_000..=30_000_000),
            3..5 => self.rng.i64(5_000_000..=60_000_000),
            _ => -self.rng.i64(60_000_000..=3_600_000_000),
        };
        let any = self.rng.usize(0..self.servers.len());
        let whose = if self.chance(0.7) { self.official } else { any };
        self.servers[whose].skew_us += step;
        self.note(|_| format!("the clock of server {whose} jumps by {step} us"));
        0
    }

    fn trouble_a_replica(&mut self) -> Nanos {
        let Some(replica) = self.another_server() else { return 0 };
        let span = self.span(100 * MS, 15 * SECOND);
        let until = self.now + span;
        match self.rng.u8(0..4) {
            0 => self.restart(replica, Data::Late),
            1 => {
                self.stall(replica, span);
                span
            }
            _ => {
                self.isolate(replica, until);
                span + SECOND
            }
        }
    }

    /// Something that is not mended. A leader can be found all the same.
    pub fn strike_for_ever(&mut self) {
        let victim = self.leader().unwrap_or(0);
        let spare = self.servers.len() > 1 + self.scenario.acks;
        let what = if self.scenario.endless_gaps { 3 } else { [0, 1, 2, 4][self.rng.usize(0..4)] };
        match what {
            0 if spare => {
                let gone = self.another_server().unwrap_or(self.official);
                self.note(|_| format!("server {gone} is gone for ever"));
                self.servers[gone].gone = true;
                self.carry_out(crate::failovers::Move::Down(gone));
            }
            1 => self.processes[victim].cut.news = Nanos::MAX,
            3 => {
                for at in 0..self.processes.len() {
                    self.processes[at].flaps_until = Nanos::MAX;
                    self.at(self.now, Happening::Gap(at));
                }
                self.processes[victim].alive = false;
            }
            4 => {
                // What it asks is done, and it never learns of it.
                let any = self.rng.usize(0..self.processes.len());
                self.processes[any].cut.replies = Nanos::MAX;
                self.one_is_unanswered = true;
                self.join();
            }
            _ => {
                let cut = &mut self.processes[victim].cut;
                (cut.requests, cut.replies, cut.news) = (Nanos::MAX, Nanos::MAX, Nanos::MAX);
                self.join();
            }
        }
    }
}
