//! What goes wrong beside delays and losses.

use baton::protocol::jobs::LedgerCell;

use super::world::{Focus, Happening, JOBS, RELOADED_WITHIN, ROLES, SECOND, World};
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
    /// The leader's clock of the day is set, by seconds, or by days for a while.
    Clock,
    /// The configuration changes.
    Configure,
    /// A job is another role's from now on, and one replica after the other hears so.
    Move,
}

impl World {
    pub fn fault(&mut self) {
        if self.is_calm() {
            return;
        }
        use Fault::{Clock, Configure, Cut, Failover, Flush, Kill, Move, Outage, Pause, Resign};
        let faults = [Pause, Pause, Cut, Kill, Resign, Outage, Flush, Failover, Clock, Configure, Move, Move];
        let any: &[Fault] = match self.scenario.focus {
            Focus::All if self.moves => &faults,
            Focus::All => &faults[..faults.len() - 2],
            Focus::Moves => &[Move, Move, Move, Resign],
            Focus::Clocks => &[Clock, Kill, Resign],
        };
        let fault = any[self.rng.usize(0..any.len())];
        self.note(|world| format!("FAULT {fault:?}, leader-{:?}", world.current));
        self.strike(fault);
        let next = self.span(SECOND, 20 * SECOND);
        self.after(next, Happening::Fault);
    }

    fn strike(&mut self, fault: Fault) {
        let (short, long) = (self.span(100 * MS, 12 * SECOND), self.span(100 * MS, 5 * SECOND));
        let role = if self.moves { self.rng.usize(0..ROLES) } else { 0 };
        let leader = self.current[role].filter(|id| self.leaders[*id].alive);
        match (fault, leader) {
            (Fault::Pause, Some(id)) => self.leaders[id].paused_until = self.now + short,
            (Fault::Cut, Some(id)) => self.leaders[id].cut_until = self.now + short,
            (Fault::Kill, Some(id)) => self.leaders[id].alive = false,
            (Fault::Resign, Some(id)) if self.leaders[id].paused_until <= self.now => self.resign(id),
            (Fault::Clock, Some(id)) if self.far => {
                self.leaders[id].offset_ms = self.far_offset();
                self.after(short, Happening::ClockRight(id));
            }
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
            (Fault::Move, _) => self.move_a_job(),
            _ => {}
        }
    }

    /// Up to three days ahead or behind.
    pub fn far_offset(&mut self) -> i64 {
        let days = 3 * 24 * 3_600_000;
        self.rng.i64(-days..=days)
    }

    fn lose(&mut self, cells: Vec<LedgerCell<baton::protocol::jobs::Ledger>>) {
        let before = std::mem::replace(&mut self.cells, cells);
        self.snapshots.clear();
        self.snapshots.push_back(self.cells.clone());
        for (job, cell) in before.iter().enumerate() {
            // Of two roles' leaders only that one knows all whose the ledger was.
            let owner = cell.owner().map_or(0, |role| usize::from(role.as_str() == "role-1"));
            let knows = |id: &usize| self.leaders[*id].alive && self.leaders[*id].ledger(job).is_some();
            let witness = self.current[owner].filter(knows);
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
        for leader in self.current.into_iter().flatten() {
            let delay = self.span(0, SECOND);
            self.after(delay, Happening::Configured { leader, job });
        }
    }

    fn move_a_job(&mut self) {
        let job = self.rng.usize(0..JOBS);
        let role = 1 - self.role_of[job];
        (self.role_of[job], self.moved_at[job]) = (role, self.now);
        self.checker.moved(self.now, job);
        for leader in 0..self.leaders.len() {
            let delay = self.span(0, RELOADED_WITHIN);
            self.after(delay, Happening::Reloads { leader, job });
        }
    }
}
