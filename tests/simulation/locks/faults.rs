//! What goes wrong beside delays and losses.

use baton::protocol::LockSpace;

use super::calls::Happening;
use super::world::{Faults, MS, Nanos, SECOND, World};

#[derive(Clone, Copy, Debug)]
enum Fault {
    /// A sidecar stands still, and its workers' answers with it.
    Pause,
    /// A sidecar loses the store.
    Cut,
    /// A sidecar dies; another starts in its place. Its apps act on what they were told.
    Kill,
    /// The store restarts with its data.
    RestartKept,
    /// The store restarts empty.
    RestartLost,
    /// A replica of the store that lags behind takes over.
    Failover,
    /// The store's clock steps forwards.
    ClockAhead,
    /// It steps back, by up to an hour.
    ClockBack,
}

impl World {
    pub fn fault(&mut self) {
        if !self.has_faults() {
            return;
        }
        let any = [Fault::Pause, Fault::Cut, Fault::Kill, Fault::RestartKept, Fault::RestartLost, Fault::Failover];
        let steps = self.one_in(2);
        let faults: &[Fault] = match self.scenario.faults {
            Faults::Mixed | Faults::Unlocks => &any,
            Faults::ClockAhead if steps => &[Fault::ClockAhead],
            Faults::ClockAhead => &any,
            Faults::ClockBack => &[Fault::ClockBack, Fault::Kill],
            Faults::Deaths => &[Fault::Kill],
        };
        let fault = faults[self.rng.usize(0..faults.len())];
        let living: Vec<usize> = (0..self.sidecars.len()).filter(|at| self.sidecars[*at].alive).collect();
        let victim = living[self.rng.usize(0..living.len())];
        self.note(|_| format!("FAULT {fault:?}, sidecar-{victim}"));
        let lasts = self.strike(fault, victim);
        if !matches!(self.scenario.faults, Faults::Deaths | Faults::ClockBack) {
            let until = self.now + lasts;
            self.disturb(until);
        }
        let next = self.span(3 * SECOND, 15 * SECOND);
        self.after(next, Happening::Fault);
    }

    /// Returns for how long it lasts.
    fn strike(&mut self, fault: Fault, victim: usize) -> Nanos {
        match fault {
            Fault::Pause => {
                let span = self.span(100 * MS, 12 * SECOND);
                self.sidecars[victim].paused_until = self.now + span;
                span
            }
            Fault::Cut => {
                let span = self.span(100 * MS, 12 * SECOND);
                self.sidecars[victim].cut_until = self.now + span;
                self.after(span + MS, Happening::Gap(victim));
                span
            }
            Fault::Kill => {
                self.checker.troubled_at = self.now;
                self.sidecars[victim].alive = false;
                let span = self.span(0, 3 * SECOND);
                self.after(span, Happening::Join);
                span
            }
            Fault::RestartKept => self.down(false, None),
            Fault::RestartLost => self.down(true, None),
            Fault::Failover => {
                let at = self.rng.usize(0..self.snapshots.len());
                let space = self.snapshots[at].clone();
                self.down(false, Some(Box::new(space)))
            }
            Fault::ClockAhead => {
                self.skew_us += self.rng.i64(5_000_000..60_000_000);
                0
            }
            Fault::ClockBack => {
                self.checker.troubled_at = self.now;
                self.skew_us -= self.rng.i64(1_000_000..3_600_000_000);
                0
            }
        }
    }

    fn down(&mut self, forget: bool, space: Option<Box<LockSpace>>) -> Nanos {
        if !self.up {
            return 0;
        }
        self.up = false;
        let span = self.span(50 * MS, 5 * SECOND);
        self.after(span, Happening::StoreUp { forget, space });
        span
    }

    pub fn store_up(&mut self, forget: bool, space: Option<Box<LockSpace>>) {
        self.up = true;
        self.run_id += 1;
        // A replica was there all the time.
        let is_replica = space.is_some();
        if let Some(space) = space {
            self.space = *space;
            self.checker.forgot();
            self.given_back.clear();
            self.unlocked.clear();
        }
        if forget {
            self.space.forget();
            self.checker.forgot();
            self.given_back.clear();
            self.unlocked.clear();
            self.snapshots.clear();
            self.snapshots.push_back(LockSpace::new());
        }
        if !is_replica {
            self.born = self.now;
        }
        for sidecar in 0..self.sidecars.len() {
            self.after(MS, Happening::Gap(sidecar));
        }
        let now = self.now;
        self.disturb(now);
    }
}
