//! An operator, who looks at locks and ends one by the token that was seen, a while later, and perhaps twice.

use baton::protocol::{LockId, LockName, UnlockReply, UnlockRequest, Unlocked};

use super::calls::Happening;
use super::sidecar::Stage;
use super::world::{Faults, MS, SECOND, World, names, server};

impl World {
    pub fn operator(&mut self) {
        if self.scenario.faults != Faults::Unlocks || !self.has_faults() {
            return;
        }
        let name = names()[self.rng.usize(0..names().len())].clone();
        let run_id = self.run_id.to_string();
        let holders = self.space.inspect(server(self.store_time(), self.now - self.born, &run_id), &name).holders;
        if !holders.is_empty() {
            let token = holders[self.rng.usize(0..holders.len())].token;
            for _ in 0..self.rng.u32(1..=2) {
                let most = if self.one_in(2) { 5 * MS } else { 3 * SECOND };
                let later = self.span(MS / 5, most);
                self.after(later, Happening::Unlock(UnlockRequest { name: name.clone(), token }));
            }
        }
        let next = self.span(200 * MS, 2 * SECOND);
        self.after(next, Happening::Operator);
    }

    pub fn unlock(&mut self, request: &UnlockRequest) {
        if !self.up {
            return;
        }
        let run_id = self.run_id.to_string();
        let server = server(self.store_time(), self.now - self.born, &run_id);
        let name = &request.name;
        let before = self.space.inspect(server, name).holders;
        let mut executed = request.clone();
        if let (false, Some(holder)) = (self.scenario.rules.fenced, before.first()) {
            executed.token = holder.token;
        }
        let (reply, unlocked, wakes) = self.space.unlock(server, &executed);
        self.note(|_| format!("{executed:?}: {reply:?}, tells {unlocked:?}, wakes {wakes:?}"));
        self.checker.disturbed(std::slice::from_ref(name));
        match reply {
            UnlockReply::Unlocked { holder: Some(holder) } => {
                self.seen.unlocked += 1;
                // What was seen may have gone on in a turn.
                let seen = if self.scenario.rules.fenced { holder.token } else { request.token };
                self.checker.unlocked(name, seen);
                let after = self.space.inspect(server, name).holders;
                let others = before.into_iter().filter(|other| other.token != holder.token);
                if !others.eq(after) {
                    self.checker.complain(self.now, format!("an unlock of {holder:?} changed another's lock"));
                }
            }
            UnlockReply::Unlocked { holder: None } | UnlockReply::Differs { .. } => self.seen.differed += 1,
        }
        for Unlocked { session, id, name } in unlocked {
            self.unlocked.insert((id, name.clone()));
            let sidecar = self.sidecars.iter().position(|sidecar| sidecar.session == session).expect("it joined");
            if self.is_reached(sidecar) && !self.one_in(10) {
                let delay = self.span(MS / 5, 5 * MS);
                self.after(delay, Happening::Unlocked { sidecar, id, name });
            }
        }
        wakes.into_iter().for_each(|wake| self.publish(wake));
    }

    /// It forgets the hold, or what that has become in its turn. One of several names stays known.
    pub fn hears_of_unlock(&mut self, sidecar: usize, id: LockId, name: &LockName) {
        let is_it = |worker: usize| {
            let it = &self.workers[worker];
            it.sidecar == sidecar && it.stage == Stage::Holding && it.holds_alone(id, name)
        };
        let worker = (0..self.workers.len()).find(|worker| is_it(*worker));
        if let Some(worker) = worker.filter(|_| self.sidecars[sidecar].alive) {
            // Its app acts on to the end of what it was told.
            self.rest(worker);
        }
    }
}
