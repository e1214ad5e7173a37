//! What goes wrong, and how often: the columns of the table in section 1.

use baton::protocol::Input;

use crate::checker::Watched;
use crate::clockwork::{MS, Nanos, SECOND};
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
    /// A lagging replica of the store takes over.
    Failover,
    /// The same, and the old master is still served to some.
    Split,
    /// The store's clock jumps.
    Clock,
    /// The lease is evicted or deleted.
    Evict,
    /// Everything in the store is deleted.
    Flush,
    /// One upon another, whatever does not make the store deny a lease behind its own back: no split, step, eviction or
    /// flush.
    Storm,
    /// Any of these; splits only with acknowledged writes (R6), without which nothing helps against them.
    Mixed,
}

impl Fault {
    pub const ALL: [Self; 12] = [
        Self::Pause,
        Self::Cut,
        Self::Kill,
        Self::Resign,
        Self::RestartKept,
        Self::RestartLost,
        Self::Failover,
        Self::Split,
        Self::Clock,
        Self::Evict,
        Self::Flush,
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
            Self::Failover => "failover to a lagging replica",
            Self::Split => "split, old master still served",
            Self::Clock => "Redis clock step",
            Self::Evict => "lease evicted",
            Self::Flush => "FLUSHALL",
            Self::Storm => "one upon another",
            Self::Mixed => "all mixed",
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
            Fault::Mixed => {
                let mixed: Vec<Fault> = Fault::ALL
                    .into_iter()
                    .filter(|fault| *fault != Fault::Mixed && (*fault != Fault::Split || self.scenario.acks))
                    .collect();
                mixed[self.rng.usize(0..mixed.len())]
            }
            Fault::Storm => {
                let mixed = Fault::ALL.into_iter().filter(|fault| {
                    !matches!(
                        fault,
                        Fault::Mixed | Fault::Storm | Fault::Split | Fault::Clock | Fault::Evict | Fault::Flush
                    )
                });
                let mixed: Vec<Fault> = mixed.collect();
                mixed[self.rng.usize(0..mixed.len())]
            }
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

    /// Returns for how long it lasts.
    fn strike(&mut self, fault: Fault) -> Nanos {
        let leader = self.replicas.iter().position(|replica| replica.leads(self.now));
        let living: Vec<usize> = (0..self.replicas.len()).filter(|at| self.replicas[*at].alive).collect();
        let any = living[self.rng.usize(0..living.len())];
        let victim = if self.chance(0.5) { leader.unwrap_or(any) } else { any };
        self.note(|_| format!("FAULT {fault:?}, victim replica-{victim}"));
        match fault {
            Fault::Pause => self.pause(victim),
            Fault::Cut => {
                let span = self.span(500 * MS, 25 * SECOND);
                self.replicas[victim].cut_until = self.now + span;
                self.at(self.now + span + MS, Happening::Gap(victim));
                self.lose_sight_of(victim);
                span
            }
            Fault::Kill => {
                self.end(victim);
                self.replicas[victim].alive = false;
                let span = self.span(0, 5 * SECOND);
                if !self.restarts_in_its_pod(victim) {
                    self.at(self.now + span, Happening::Join);
                }
                span
            }
            Fault::Resign => {
                if let Some(leader) = leader.filter(|leader| self.now >= self.replicas[*leader].paused_until) {
                    let cooldown = std::time::Duration::from_nanos(self.span(SECOND, 3 * SECOND));
                    self.input(leader, Input::Resign { cooldown });
                }
                0
            }
            Fault::RestartKept | Fault::RestartLost => {
                let (store, span) = (self.master, self.span(100 * MS, 15 * SECOND));
                self.stores[store].up = false;
                let forget = fault == Fault::RestartLost;
                self.at(self.now + span, Happening::StoreUp { store, forget, restarted: true });
                span
            }
            Fault::Failover | Fault::Split => self.fail_over(fault == Fault::Split),
            Fault::Clock => {
                let step = match self.rng.bool() {
                    true => self.rng.i64(-30_000_000..=30_000_000),
                    false => self.rng.i64(5_000_000..=60_000_000),
                };
                let master = self.master;
                self.stores[master].skew_us += step;
                self.note(|_| format!("the store's clock jumps by {step} us"));
                0
            }
            Fault::Evict => {
                let master = self.master;
                self.stores[master].cell.evict_lease();
                0
            }
            Fault::Flush => {
                let master = self.master;
                self.stores[master].cell.forget();
                0
            }
            Fault::Mixed | Fault::Storm => unreachable!("resolved by the caller"),
        }
    }

    fn pause(&mut self, victim: usize) -> Nanos {
        let span = self.span(100 * MS, 25 * SECOND);
        self.replicas[victim].paused_until = self.now + span;
        // Before anything that waited: the driver drops old messages and looks by itself.
        self.at(self.now + span, Happening::Gap(victim));
        span
    }

    fn fail_over(&mut self, split: bool) -> Nanos {
        let old = self.master;
        let new = self.promote();
        let takes = self.span(200 * MS, 12 * SECOND);
        self.at(self.now + takes, Happening::StoreUp { store: new, forget: false, restarted: false });
        if !split {
            self.stores[old].up = false;
            return takes;
        }
        self.stores[old].deposed = true;
        self.checker.split();
        for at in 0..self.replicas.len() {
            self.replicas[at].side = self.rng.bool().then_some(old);
        }
        let ends = takes + self.span(SECOND, 30 * SECOND);
        self.at(self.now + ends, Happening::SplitEnds);
        ends
    }
}
