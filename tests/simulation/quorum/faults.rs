//! What goes wrong with a quorum, and how often: the columns of its table.

use baton::protocol::{Input, MemberCampaignReply, MemberReply, RaiseReply};

use super::world::{Happening, Health, LEASE, World};
use crate::clockwork::{MS, Nanos, SECOND};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A sidecar stands still.
    Pause,
    /// A sidecar loses some members, or all.
    Cut,
    /// A sidecar dies; another starts in its place.
    Kill,
    /// The leader resigns.
    Resign,
    /// A minority of the members is down, and comes back with its data.
    Down,
    /// A minority of the members restarts empty.
    Empty,
    /// A majority of the members restarts empty.
    MostEmpty,
    /// A minority of the members stands still; commands wait there.
    Freeze,
    /// A majority of the members is flushed while it runs; somebody new comes right then.
    Flush,
    /// A majority of the members loses its leases, and keeps what it remembers; somebody new comes right then.
    Evict,
    /// The clock of one member jumps.
    Clock,
    /// The leader is cut off from a minority for so long that its leases end there; then the clock of one of the others
    /// jumps, and somebody new comes.
    Undercut,
    /// The leader dies; when a member has told one candidate that another has its grant, and another member has
    /// confirmed that one, the clock of the latter jumps.
    Midway,
    /// The network falls into two halves, replicas and members alike.
    Zones,
    /// Any of these.
    Mixed,
    /// The same, one upon another; no clock is stepped where there are only three members. One that is down, one
    /// whose clock jumps and one that the leader is cut off from leave nobody who knows of it.
    Storm,
    /// The clocks of all members jump at once.
    Clocks,
    /// So many members are gone for a long time that no majority is left.
    Outage,
    /// Nothing goes wrong.
    Nothing,
}

/// How far it is until a clock jumps within a campaign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Midway {
    /// None is to jump.
    Not,
    /// Candidates ask.
    Begun,
    /// This member has told one of them of another's grant.
    Told(usize),
}

impl Fault {
    /// What is mixed; a step of a clock comes last.
    const SINGLE: [Self; 11] = [
        Self::Pause,
        Self::Cut,
        Self::Kill,
        Self::Resign,
        Self::Down,
        Self::Empty,
        Self::MostEmpty,
        Self::Freeze,
        Self::Flush,
        Self::Evict,
        Self::Clock,
    ];

    pub const ALL: [Self; 14] = [
        Self::Pause,
        Self::Cut,
        Self::Kill,
        Self::Resign,
        Self::Down,
        Self::Empty,
        Self::MostEmpty,
        Self::Freeze,
        Self::Flush,
        Self::Evict,
        Self::Clock,
        Self::Undercut,
        Self::Mixed,
        Self::Clocks,
    ];

    /// For five members.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Cut => "cut",
            Self::Kill => "kill",
            Self::Resign => "resign",
            Self::Down => "1–2 members down",
            Self::Empty => "1–2 restart empty",
            Self::MostEmpty => "3 restart empty",
            Self::Freeze => "1–2 freeze",
            Self::Flush => "3 flushed",
            Self::Evict => "3 leases evicted",
            Self::Clock => "one clock steps",
            Self::Undercut => "leader cut off from 1–2, then one clock steps",
            Self::Midway => "one clock steps within a campaign",
            Self::Zones => "split in two",
            Self::Mixed => "all mixed",
            Self::Storm => "one upon another",
            Self::Clocks => "all clocks step together",
            Self::Outage => "3 members gone for long",
            Self::Nothing => "nothing",
        }
    }
}

impl World {
    /// Something goes wrong, and the next time is planned.
    pub fn fault(&mut self) {
        if self.now > self.scenario.faults_until {
            return;
        }
        let fault = match self.scenario.fault {
            Fault::Storm if self.members.len() < 5 => Fault::SINGLE[self.rng.usize(0..Fault::SINGLE.len() - 1)],
            Fault::Mixed | Fault::Storm => Fault::SINGLE[self.rng.usize(0..Fault::SINGLE.len())],
            fault => fault,
        };
        let end = self.now + self.strike(fault);
        self.faults_end = self.faults_end.max(end);
        if self.chance(0.3) {
            let when = self.now + self.span(0, 6 * SECOND);
            self.at(when, Happening::Join);
        }
        let (least, most) = self.scenario.fault_gap;
        let next = self.now + self.span(least, most);
        self.at(next, Happening::Fault);
    }

    /// So many members, chosen at random.
    fn some(&mut self, least: usize, most: usize) -> Vec<usize> {
        let mut all: Vec<usize> = (0..self.members.len()).collect();
        self.rng.shuffle(&mut all);
        all.truncate(self.rng.usize(least..=most));
        all
    }

    /// Returns for how long it lasts.
    fn strike(&mut self, fault: Fault) -> Nanos {
        let leader = self.leader();
        let living: Vec<usize> = (0..self.replicas.len()).filter(|at| self.replicas[*at].alive).collect();
        let any = living[self.rng.usize(0..living.len())];
        let victim = if self.chance(0.5) { leader.unwrap_or(any) } else { any };
        let members = self.members.len();
        let (minority, majority) = ((members - 1) / 2, members / 2 + 1);
        self.note(|_| format!("FAULT {fault:?}, victim replica-{victim}"));
        match fault {
            Fault::Pause => {
                let span = self.span(100 * MS, 25 * SECOND);
                self.replicas[victim].paused_until = self.now + span;
                self.at(self.now + span, Happening::Gap { at: victim, members: (0..members).collect() });
                span
            }
            Fault::Cut => {
                let from = self.some(1, members);
                self.note(|_| format!("cut from {from:?}"));
                let mut longest = 0;
                for member in from {
                    let span = self.span(SECOND, 25 * SECOND);
                    self.replicas[victim].cut_until[member] = self.now + span;
                    self.at(self.now + span + MS, Happening::Gap { at: victim, members: vec![member] });
                    longest = longest.max(span);
                }
                longest
            }
            Fault::Kill => self.kill(victim),
            Fault::Midway => {
                let Some(leader) = leader else { return 0 };
                self.midway = Midway::Begun;
                self.kill(leader)
            }
            Fault::Resign => {
                if let Some(leader) = leader.filter(|leader| self.now >= self.replicas[*leader].paused_until) {
                    let cooldown = std::time::Duration::from_nanos(self.span(SECOND, 3 * SECOND));
                    self.input(leader, Input::Resign { cooldown });
                }
                0
            }
            Fault::Down | Fault::Empty => {
                let which = self.some(1, minority);
                self.take_down(which, (100 * MS, 12 * SECOND), fault == Fault::Empty)
            }
            Fault::MostEmpty => {
                // Together, as after a power cut: restarted one by one, the leader is back on the first before the
                // last.
                let (which, span) = (self.some(majority, majority), self.span(100 * MS, 12 * SECOND));
                self.take_down(which, (span, span), true)
            }
            Fault::Outage => {
                let blocking = self.scenario.seats.blocking();
                let (which, empty) = (self.some(blocking, members), self.rng.bool());
                let span = self.span(25 * SECOND, 60 * SECOND);
                self.take_down(which, (span, span), empty)
            }
            Fault::Freeze => {
                let span = self.span(500 * MS, 15 * SECOND);
                for member in self.some(1, minority) {
                    self.members[member].frozen_until = self.now + span;
                }
                span
            }
            Fault::Flush | Fault::Evict => {
                let which = self.some(majority, members);
                self.note(|_| format!("members {which:?} forget"));
                for member in which {
                    let cell = &mut self.members[member].cell;
                    if fault == Fault::Flush { cell.forget() } else { cell.evict_lease() }
                }
                let soon = self.now + self.span(0, SECOND);
                self.at(soon, Happening::Join);
                0
            }
            Fault::Zones => {
                let span = self.span(SECOND, 25 * SECOND);
                let sides: Vec<bool> = (0..members).map(|_| self.rng.bool()).collect();
                self.note(|_| format!("split: {sides:?}"));
                for at in 0..self.replicas.len() {
                    let mine = self.rng.bool();
                    for member in (0..members).filter(|member| sides[*member] != mine) {
                        self.replicas[at].cut_until[member] = self.now + span;
                        self.at(self.now + span + MS, Happening::Gap { at, members: vec![member] });
                    }
                }
                span
            }
            Fault::Undercut => {
                let Some(leader) = leader else { return 0 };
                let mut which = self.some(minority + 1, minority + 1);
                let stepped = which.pop().expect("a majority is one or more");
                self.note(|_| format!("cut off from {which:?}, and the clock of {stepped} jumps soon"));
                let span = self.span(LEASE + SECOND, 2 * LEASE);
                for member in which {
                    self.replicas[leader].cut_until[member] = self.now + span;
                    self.at(self.now + span + MS, Happening::Gap { at: leader, members: vec![member] });
                }
                let then = self.now + self.span(LEASE, span);
                let us = self.rng.i64(10_000_000..=30_000_000);
                self.at(then, Happening::Step { member: stepped, us });
                self.at(then, Happening::Join);
                span
            }
            Fault::Clock | Fault::Clocks => {
                let step = self.rng.i64(-30_000_000..=30_000_000);
                let which = if fault == Fault::Clock { self.some(1, 1) } else { self.some(members, members) };
                self.note(|_| format!("the clocks of {which:?} jump by {step} us"));
                for member in which {
                    self.members[member].skew_us += step;
                }
                0
            }
            Fault::Mixed | Fault::Storm | Fault::Nothing => 0,
        }
    }

    fn kill(&mut self, victim: usize) -> Nanos {
        self.replicas[victim].alive = false;
        self.tell_of_the_end(victim);
        let span = self.span(0, 4 * SECOND);
        self.at(self.now + span, Happening::Join);
        span
    }

    /// A member has answered, within a campaign in which a clock is to jump.
    pub fn go_midway(&mut self, member: usize, answer: &MemberReply) {
        match (self.midway, answer) {
            (Midway::Begun, MemberReply::Campaign(MemberCampaignReply::Held { confirmed: false, .. })) => {
                self.midway = Midway::Told(member);
            }
            (Midway::Told(told), MemberReply::Raise(RaiseReply::Raised { .. })) if told != member => {
                self.midway = Midway::Not;
                let (when, us) = (self.now + self.span(0, 20 * MS), self.rng.i64(10_000_000..=30_000_000));
                self.at(when, Happening::Step { member, us });
            }
            _ => {}
        }
    }

    fn take_down(&mut self, which: Vec<usize>, (least, most): (Nanos, Nanos), empty: bool) -> Nanos {
        self.note(|_| format!("members {which:?} go down"));
        let mut longest = 0;
        for member in which {
            let span = self.span(least, most);
            self.members[member].health = if self.rng.bool() { Health::Refuses } else { Health::Silent };
            self.at(self.now + span, Happening::MemberUp { member, empty });
            longest = longest.max(span);
        }
        longest
    }
}
