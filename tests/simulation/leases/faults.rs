//! What goes wrong, and for how long.

use std::sync::Arc;
use std::time::Duration;

use baton::protocol::Input;
use baton::protocol::lease_object::LeaseRecord;

use super::world::{Happening, World};
use super::{Fault, MS, SECOND};

impl World {
    /// A sidecar has ended, and sometimes its app with it: the others read that, soon or late.
    fn tell_of_the_end(&mut self, dead: usize) {
        if !self.scenario.departures {
            return;
        }
        let whole = self.rng.bool();
        if whole {
            self.replicas[dead].promised_until = self.replicas[dead].promised_until.min(self.now);
        }
        for to in 0..self.replicas.len() {
            let when = self.now + self.rng.u64(MS..5 * SECOND);
            self.at(when, Happening::Departed { to, dead, whole });
        }
    }

    /// Something goes wrong, and the next time is planned.
    pub fn fault(&mut self) {
        if self.now > self.scenario.faults_until {
            return;
        }
        let faults = self.scenario.faults;
        let fault = faults[self.rng.usize(0..faults.len())];
        let leader = (0..self.replicas.len()).find(|at| self.replicas[*at].leads(self.now));
        let living: Vec<usize> = (0..self.replicas.len()).filter(|at| self.replicas[*at].alive).collect();
        let Some(any) = self.rng.choice(living) else {
            // Others join soon.
            self.at(self.now + SECOND, Happening::Fault);
            return;
        };
        let victim = if self.rng.bool() { leader.unwrap_or(any) } else { any };
        self.note(|_| format!("FAULT {fault:?}, victim replica-{victim}"));
        let span = self.rng.u64(100 * MS..25 * SECOND);
        let lasts = match fault {
            Fault::Pause => {
                self.replicas[victim].paused_until = self.now + span;
                self.at(self.now + span, Happening::Rewatch(victim));
                span
            }
            Fault::Cut => {
                self.replicas[victim].cut_until = self.now + span;
                self.at(self.now + span + MS, Happening::Rewatch(victim));
                span
            }
            Fault::Kill => {
                self.replicas[victim].alive = false;
                self.tell_of_the_end(victim);
                let when = self.now + span / 5;
                self.at(when, Happening::Join);
                span / 5
            }
            Fault::Resign => {
                if let Some(leader) = leader.filter(|leader| self.now >= self.replicas[*leader].paused_until) {
                    self.input(leader, Input::Resign { cooldown: Duration::from_secs(2) });
                }
                0
            }
            Fault::ServerDown => {
                self.server_up = false;
                self.at(self.now + span * 3 / 5, Happening::ServerUp);
                span * 3 / 5
            }
            Fault::Deleted => {
                if self.object.take().is_some() {
                    self.version += 1;
                    self.tell(None);
                }
                0
            }
            Fault::Emptied => {
                if let Some((_, record)) = self.object.clone() {
                    self.put(LeaseRecord { identity: Arc::from(""), ..record });
                }
                0
            }
            Fault::WatchEnds => {
                for at in 0..self.replicas.len() {
                    self.at(self.now + MS, Happening::Rewatch(at));
                }
                0
            }
        };
        self.faults_end = self.faults_end.max(self.now + lasts);
        let gap = self.rng.u64(self.scenario.fault_gap.0..self.scenario.fault_gap.1);
        self.at(self.now + gap, Happening::Fault);
    }
}
