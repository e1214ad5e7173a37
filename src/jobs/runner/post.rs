//! Watches over the lease under which an attempt is made, as `baton exec` does over its command's.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch::Receiver;

use super::Tenure;
use crate::protocol::{Sight, State, Verdict, Watch};
use crate::role::{Snapshot, Work};

/// See the module.
pub struct Post {
    tenure: Tenure,
    changes: Receiver<Arc<Snapshot>>,
    watch: Watch,
    /// The attempt counts on leading as an app does, and asks for promises (R7): a drain then keeps the lease for it
    /// until it has ended, or the last of them has run out. What ends as soon as it is told to needs none, and holds up
    /// no drain.
    work: Option<Work>,
    why: &'static str,
}

impl Post {
    /// Takes the watch for an attempt that begins now.
    pub fn take(tenure: Tenure, asks_for_promises: bool) -> Self {
        let changes = tenure.role.changes();
        let watch = Watch::new(tenure.token, tenure.grace);
        let work = asks_for_promises.then(|| tenure.role.begin_work());
        Self { tenure, changes, watch, work, why: "" }
    }

    /// The role's name.
    pub fn role(&self) -> &str {
        self.tenure.role.name().as_str()
    }

    /// Why the attempt has to end, once it has.
    pub fn why(&self) -> &'static str {
        self.why
    }

    /// The attempt is told to end for another reason; [`Self::called`] says when its grace is over.
    pub fn tell(&mut self) {
        self.watch.tell(self.tenure.clock.now());
    }

    /// What is to be done now, and how much time the term has left.
    pub fn look(&mut self) -> (Verdict, Option<Duration>) {
        let Tenure { role, token, clock, .. } = &self.tenure;
        let now = clock.now();
        if let Some(promise) = self.work.as_ref().and_then(|work| work.promise(now)) {
            self.watch.promised(promise.token, now + promise.valid_for);
        }
        let state = role.snapshot().view.state;
        let draining = state == State::Draining;
        let term = role.remaining();
        let was_told = self.watch.has_told();
        let verdict = self.watch.look(Sight { now, term, draining });
        if verdict != Verdict::Stay {
            self.why = match term {
                Some((ours, _)) if ours == *token && was_told => "its grace is over",
                Some((ours, _)) if ours == *token => "the lease was not renewed in time",
                Some(_) => "another term has begun",
                None if draining => "the role is handed over",
                // The deadline is read before the role's task has said so.
                None if state == State::Leading => "the lease ran out",
                None => "this replica no longer leads",
            };
        }
        (verdict, term.map(|(_, remaining)| remaining))
    }

    /// Waits until the attempt is to end or to be killed. Cancel-safe. Each [`Verdict::Leave`] is said once; do not ask
    /// again after [`Verdict::Kill`].
    pub async fn called(&mut self) -> Verdict {
        loop {
            let (verdict, remaining) = self.look();
            if verdict != Verdict::Stay {
                return verdict;
            }
            tokio::select! {
                // An error means that the role's task has ended; the deadline is there to be read all the same.
                Ok(()) = self.changes.changed() => {}
                () = tokio::time::sleep(self.tenure.grace.next_look(remaining)) => {}
            }
        }
    }
}
