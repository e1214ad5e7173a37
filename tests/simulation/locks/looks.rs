//! What is looked at after every event, and in the end.

use baton::protocol::{LockHolder, LockId, LockInsight, LockName, Token};

use super::checker::Idle;
use super::sidecar::{Stage, Worker};
use super::world::{END, Faults, GUARD, MS, Nanos, World, names, permits_of, server};

impl World {
    /// What holds after every event.
    pub fn look(&mut self) {
        self.checker.look(self.now, |name| usize::try_from(permits_of(name)).expect("small"));
        let run_id = self.run_id.to_string();
        let server = server(self.store_time(), self.now - self.born, &run_id);
        let seen = names().map(|name| (self.space.inspect(server, &name), name));
        for (insight, name) in &seen {
            if let Some(holder) = self.living_holder(insight) {
                let left = u64::try_from(holder.remaining.as_nanos()).expect("seconds");
                self.checker.lease_seen(name, self.now + left);
            }
        }
        if self.now < self.aftermath.max(self.shut_until)
            || !self.up
            || self.now - self.born < 2 * GUARD.as_nanos() as Nanos
        {
            self.checker.disturbed_all();
            return;
        }
        for (insight, name) in &seen {
            self.look_at(name, insight);
        }
    }

    /// One who lives and holds it.
    fn living_holder<'a>(&self, insight: &'a LockInsight) -> Option<&'a LockHolder> {
        insight.holders.iter().find(|holder| {
            let mut living = self.sidecars.iter().enumerate().filter(|(_, it)| it.alive);
            living.any(|(at, _)| *holder.identity == *format!("sidecar-{at}"))
        })
    }

    fn look_at(&mut self, name: &LockName, insight: &LockInsight) {
        for holder in &insight.holders {
            let stands = |(id, token): &(&LockId, &Token)| {
                let is_unlocked = self.unlocked.contains(&(**id, name.clone()));
                let rests = self.kept_until.get(*id).is_some_and(|until| self.may_rest(*until));
                **token == holder.token && (rests || !self.given_back.contains(*id)) && !is_unlocked
            };
            let standing = self.tokens.iter().filter(stands).count();
            if standing < holder.holds as usize {
                self.checker.complain(self.now, format!("what was given back of {name} stands: {holder:?}"));
            }
        }
        let waits = |worker: &Worker| {
            // Whose grant was unlocked before it heard of it waits in vain.
            let is_unlocked = self.unlocked.iter().any(|(id, of)| of == name && worker.is(*id));
            worker.waits_for(name) && self.sidecars[worker.sidecar].alive && !is_unlocked
        };
        let reserves = |worker: &Worker| {
            let sidecar = &self.sidecars[worker.sidecar];
            sidecar.alive && worker.reserves(name, self.local(worker.sidecar))
        };
        if !self.workers.iter().any(waits) {
            self.checker.unwanted(name);
            return;
        }
        let idle = match self.living_holder(insight) {
            Some(_) => Idle::Used,
            // Where there are several permits, each ends by itself.
            None if !insight.holders.is_empty() || permits_of(name) > 1 => Idle::TheDead,
            None => Idle::Free,
        };
        let is_reserved = idle != Idle::Used && self.workers.iter().any(reserves);
        match is_reserved {
            true => self.checker.unwanted(name),
            false => self.checker.idle(self.now, name, idle),
        }
    }

    /// Until then, or for a lease more where the store's clock goes back.
    fn may_rest(&self, until: Nanos) -> bool {
        self.now <= until + MS || self.scenario.faults == Faults::ClockBack
    }

    pub fn judge_the_end(&mut self) {
        self.now = END;
        let run_id = self.run_id.to_string();
        let server = server(self.store_time(), self.now - self.born, &run_id);
        for name in names() {
            let insight = self.space.inspect(server, &name);
            // A step back of the clock is made good when a name is next asked for.
            let was_met = self.met.get(&name).is_some_and(|at| *at >= self.checker.troubled_at);
            if self.scenario.faults == Faults::ClockBack && !was_met {
                continue;
            }
            if !insight.holders.is_empty() || insight.waiting > 0 {
                self.checker.complain(self.now, format!("{name} has this in the end: {insight:?}"));
            }
        }
        let busy = |worker: &&Worker| self.sidecars[worker.sidecar].alive && worker.stage != Stage::Idle;
        if let Some(worker) = self.workers.iter().find(busy) {
            self.checker.complain(self.now, format!("a worker is stuck in the end: {worker:?}"));
        }
    }
}
