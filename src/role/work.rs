//! Watches over the lease under which this replica works itself: over an attempt of a job's run, or the command of
//! `baton exec`. What ends the work, and when, is [`TermGuard`]'s to say.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch::Receiver;

use super::handle::{RoleHandle, Work};
use super::status::Snapshot;
use crate::base::clock::SharedClock;
use crate::protocol::{Grace, Sight, State, TermGuard, Token, Verdict};

/// The term under which work is done.
#[derive(Clone)]
pub struct WorkTerm {
    pub role: RoleHandle,
    /// The work ends with this term, even if the same replica leads again at once.
    pub token: Token,
    /// How long before the deadline the work must be told to end.
    pub grace: Grace,
    /// How long the work may go on when the role is handed over. The lease is kept for it meanwhile.
    pub finish_within: Duration,
    /// The clock that the role reads.
    pub clock: SharedClock,
}

pub struct WorkGuard {
    term: WorkTerm,
    changes: Receiver<Arc<Snapshot>>,
    watch: TermGuard,
    /// The work counts on leading as an app does, and asks for promises (R7): a drain then keeps the lease for it until
    /// it has ended, or the last of them has run out. What ends as soon as it is told to needs none, and holds up no
    /// drain.
    work: Option<Work>,
    why: &'static str,
}

impl WorkGuard {
    /// For work that begins now. Dropping the guard says that it has ended.
    pub fn new(term: WorkTerm, asks_for_promises: bool) -> Self {
        let changes = term.role.changes();
        let watch = TermGuard::new(term.token, term.grace, term.finish_within);
        let asks_for_promises = asks_for_promises || !term.finish_within.is_zero();
        let work = asks_for_promises.then(|| term.role.begin_work(term.finish_within));
        Self { term, changes, watch, work, why: "" }
    }

    pub fn role(&self) -> &str {
        self.term.role.name().as_str()
    }

    /// Why the work has to end, once it has.
    pub fn why(&self) -> &'static str {
        self.why
    }

    /// The work is told to end for another reason; [`Self::called`] says when its grace is over.
    pub fn tell(&mut self) {
        self.watch.tell(self.term.clock.now());
    }

    /// What is to be done now, and how much time the term has left.
    pub fn look(&mut self) -> (Verdict, Option<Duration>) {
        let WorkTerm { role, token, clock, .. } = &self.term;
        let now = clock.now();
        if let Some(promise) = self.work.as_ref().and_then(|work| work.promise(now)) {
            self.watch.promised(promise.token, now + promise.valid_for);
        }
        let state = role.snapshot().view.state;
        let draining = state == State::Draining;
        if let Some(work) = self.work.as_ref().filter(|_| draining) {
            let (token, until) = work.until();
            self.watch.promised(token, until);
        }
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

    /// Waits until the work is to end, or to be killed. Cancel-safe. Each [`Verdict::Leave`] is said once; do not ask
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
                () = tokio::time::sleep(self.term.grace.next_look(remaining)) => {}
            }
        }
    }
}
