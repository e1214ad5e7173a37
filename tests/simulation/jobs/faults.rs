//! What goes wrong beside delays and losses.

use baton::protocol::jobs::LedgerCell;

use super::world::{Happening, JOBS, SECOND, World};
use crate::clockwork::MS;

#[derive(Clone, Copy, Debug)]
enum Fault {
    /// The leader stands still, and may go on after its successor has begun.
    Pause,
    /// The leader loses the store.
    Cut,
    Kill,
    Resign,
    /// The store is away for a while.
    Outage,
    /// The store forgets everything.
    Flush,
    /// A replica of the store that lags behind takes over.
    Failover,
    /// The leader's clock of the day is set.
    Clock,
    /// The configuration changes.
    Configure,
}

impl World {
    pub fn fault(&mut self) {
        if self.is_calm() {
            return;
        }
        use Fault::{Clock, Configure, Cut, Failover, Flush, Kill, Outage, Pause, Resign};
        let faults = [Pause, Pause, Cut, Kill, Resign, Outage, Flush, Failover, Clock, Configure];
        let fault = faults[self.rng.usize(0..faults.len())];
        self.note(|world| format!("FAULT {fault:?}, leader-{:?}", world.current));
        self.strike(fault);
        let next = self.span(SECOND, 20 * SECOND);
        self.after(next, Happening::Fault);
    }

    fn strike(&mut self, fault: Fault) {
        let (short, long) = (self.span(100 * MS, 12 * SECOND), self.span(100 * MS, 5 * SECOND));
        let leader = self.current.filter(|id| self.leaders[*id].alive);
        match (fault, leader) {
            (Fault::Pause, Some(id)) => self.leaders[id].paused_until = self.now + short,
            (Fault::Cut, Some(id)) => self.leaders[id].cut_until = self.now + short,
            (Fault::Kill, Some(id)) => self.leaders[id].alive = false,
            (Fault::Resign, Some(id)) if self.leaders[id].paused_until <= self.now => self.resign(id),
            (Fault::Clock, Some(id)) => {
                let offset = self.leaders[id].offset_ms + self.rng.i64(-20_000..=20_000);
                self.leaders[id].offset_ms = offset.clamp(-20_000, 20_000);
            }
            (Fault::Outage, _) => {
                self.up = false;
                self.after(long, Happening::StoreUp);
            }
            (Fault::Flush, _) => self.lose(vec![LedgerCell::default(); JOBS]),
            (Fault::Failover, _) => {
                let at = self.rng.usize(0..self.snapshots.len());
                let cells = self.snapshots[at].clone();
                self.lose(cells);
            }
            (Fault::Configure, _) => self.configure(),
            _ => {}
        }
    }

    fn lose(&mut self, cells: Vec<LedgerCell<baton::protocol::jobs::Ledger>>) {
        self.cells = cells;
        self.snapshots.clear();
        self.snapshots.push_back(self.cells.clone());
        for job in 0..JOBS {
            let knows = |id: &usize| self.leaders[*id].alive && self.leaders[*id].jobs[job].ledger().is_some();
            let witness = self.current.filter(knows);
            self.checker.lost(self.now, job, witness);
        }
    }

    /// Another schedule or another policy, and the leader hears of it.
    fn configure(&mut self) {
        let job = self.rng.usize(0..JOBS);
        let history = self.config[job].1.history;
        if self.one_in(2) {
            self.config[job].0 = self.rng.u64(2..8);
        } else {
            let policy = self.any_policy();
            self.config[job].1 = policy;
            self.config[job].1.history = history;
        }
        self.checker.changed(self.now, job);
        if let Some(leader) = self.current {
            let delay = self.span(0, SECOND);
            self.after(delay, Happening::Configured { leader, job });
        }
    }
}
