//! Attempts: taken, started, ended, settled.

use std::time::Duration;

use super::{Attempt, JobTaker, Quit, Settled, Stage, TakerAction, TakerEvent};
use super::{ClaimedJob, ClaimedPlan, RunRecord, RuntimePlan, RuntimeState};
use crate::protocol::Token;
use crate::protocol::jobs::Settlement;
use crate::protocol::jobs::controller::{JobEvent, Moment};
use crate::protocol::jobs::ids::{JobName, Wall};
use crate::protocol::jobs::ledger::{Gap, GapReason};
use crate::protocol::jobs::policy::OnInterrupt;
use crate::protocol::jobs::run::{Ending, RunFailure};

/// When a record that cannot be read is tried again: a rollout may be going on.
const UNREADABLE_PAUSE: Duration = Duration::from_secs(60);

impl<W: Clone> JobTaker<W> {
    /// The store has given a job to this term.
    pub(super) fn claimed(&mut self, now: Moment, claim: ClaimedJob<W>) {
        if let Some(attempt) = self.attempts.get_mut(&claim.name) {
            if attempt.claim.revision == claim.revision {
                // The answer to a take came twice, or the store has lost that we had it: it goes on.
                attempt.claim.ticket = attempt.claim.ticket.max(claim.ticket);
            } else if attempt.claim.revision < claim.revision {
                // Another was put in its place. The two do not run at the same time.
                let name = claim.name.clone();
                attempt.successor = Some(claim);
                self.quit(now, &name, Quit::Gone);
            }
            return;
        }
        if self.is_settled_already(&claim) {
            return;
        }
        self.done.remove(&claim.name);
        if let Some(settled) = self.settling.remove(&claim.name) {
            // The store has it, for it goes on from there.
            self.actions.extend(settled.news.into_iter().map(TakerAction::Tell));
        }
        if self.stage != Stage::Ready {
            return self.settle(not_begun(&claim, now.wall), Vec::new());
        }
        match &claim.plan {
            ClaimedPlan::Known { plan, state, .. } => {
                let (plan, state) = (plan.clone(), state.clone());
                self.begin(now, claim, plan, state);
            }
            ClaimedPlan::Unreadable => {
                let news = vec![TakerEvent::Unreadable(claim.name.clone())];
                self.settle(not_begun(&claim, now.wall.plus(UNREADABLE_PAUSE)), news);
            }
            ClaimedPlan::Shadowed => {
                let news = vec![TakerEvent::Shadowed(claim.name.clone())];
                self.settle(over(&claim, Settlement::Remove), news);
            }
        }
    }

    /// Whether this attempt has ended here. The store has lost the word on it, or has not had it yet.
    fn is_settled_already(&mut self, claim: &ClaimedJob<W>) -> bool {
        let known = self.settling.get(&claim.name).or_else(|| self.done.get(&claim.name));
        let same = |settled: &&Settled| settled.revision == claim.revision && settled.slot == claim.slot;
        let Some(settled) = known.filter(same).filter(|settled| claim.attempt <= settled.attempt) else { return false };
        let (is_new, ticket) = (claim.ticket > settled.ticket, claim.ticket.max(settled.ticket));
        if let Some(done) = self.done.remove(&claim.name) {
            self.settle((claim.name.clone(), Settled { ticket, ..done }), Vec::new());
        } else if let Some(settling) = self.settling.remove(&claim.name) {
            if is_new {
                let (name, news) = (claim.name.clone(), settling.news.clone());
                self.settle((name, Settled { ticket, ..settling }), news);
            } else {
                self.settling.insert(claim.name.clone(), settling);
            }
        }
        true
    }

    fn begin(&mut self, now: Moment, claim: ClaimedJob<W>, plan: RuntimePlan, mut state: RuntimeState) {
        let (slot, before) = (plan.slot(claim.slot), claim.attempt.saturating_sub(1));
        if claim.interrupted {
            let (ending, note) = (Ending::Interrupted, "its leader stopped leading".to_owned());
            let took = Duration::ZERO;
            let event = JobEvent::AttemptEnded { slot, attempt: before, ending, took, note };
            self.tell(TakerEvent::Job(claim.name.clone(), event));
            // The attempt that nobody settled began when it was due, or later.
            state.began = state.began.or(Some(claim.due));
            let failure = match plan.on_interrupt {
                OnInterrupt::Fail => Some(RunFailure::Interrupted),
                OnInterrupt::Retry => (before > plan.backoff.limit).then_some(RunFailure::BackoffLimitExceeded),
            };
            if failure.is_some() {
                return self.conclude(now, &claim, &plan, state, before, failure, String::new());
            }
        } else if before == 0 {
            if plan.is_expired(now.wall) {
                let news = vec![TakerEvent::Expired(claim.name.clone())];
                return self.settle(over(&claim, Settlement::Remove), news);
            }
            if plan.starting_deadline.is_some_and(|deadline| now.wall.since(claim.slot) > deadline) {
                return self.miss(now, &claim, &plan, state);
            }
        }
        let went_on = state.began.map_or(Duration::ZERO, |began| now.wall.since(began));
        if plan.active_deadline.is_some_and(|limit| went_on >= limit) {
            return self.end_before_it_begins(now, &claim, &plan, state);
        }
        // A run takes no time before it has begun.
        let limit = plan.active_deadline.filter(|_| state.began.is_some());
        let deadline = limit.map(|limit| now.mono + limit.saturating_sub(went_on));
        let (name, token) = (claim.name.clone(), claim.ticket);
        let attempt = Attempt { claim, plan, state, token, since: None, deadline, quit: None, successor: None };
        self.attempts.insert(name, attempt);
    }

    /// The run has taken too long before this attempt of it could begin.
    pub(super) fn end_before_it_begins(
        &mut self,
        now: Moment,
        claim: &ClaimedJob<W>,
        plan: &RuntimePlan,
        state: RuntimeState,
    ) {
        let (before, failure) = (claim.attempt.saturating_sub(1), Some(RunFailure::DeadlineExceeded));
        self.conclude(now, claim, plan, state, before, failure, String::new());
    }

    /// Starts what was taken, while there is room.
    pub(super) fn start_what_waits(&mut self, now: Moment) {
        if !now.room || self.stage != Stage::Ready {
            return;
        }
        for (name, attempt) in self.attempts.iter_mut().filter(|(_, attempt)| attempt.since.is_none()) {
            let ClaimedPlan::Known { work, .. } = &attempt.claim.plan else { continue };
            attempt.since = Some(now.mono);
            if attempt.state.began.is_none() {
                attempt.state.began = Some(now.wall);
                attempt.deadline = attempt.plan.active_deadline.map(|limit| now.mono + limit);
            }
            let (slot, number) = (attempt.plan.slot(attempt.claim.slot), attempt.claim.attempt);
            self.actions.push_back(TakerAction::Start {
                name: name.clone(),
                slot,
                scheduled: attempt.claim.slot,
                attempt: number,
                token: attempt.token,
                work: work.clone(),
            });
            let late = now.wall.since(if number == 1 { attempt.claim.slot } else { attempt.claim.due });
            let event = JobEvent::Started { slot, attempt: number, late };
            self.actions.push_back(TakerAction::Tell(TakerEvent::Job(name.clone(), event)));
        }
    }

    /// An attempt has ended.
    pub(super) fn ended(&mut self, now: Moment, name: &JobName, ticket: Token, ending: Ending, note: String) {
        let ours = |attempt: &Attempt<W>| attempt.token == ticket && attempt.since.is_some();
        if !self.attempts.get(name).is_some_and(ours) {
            return;
        }
        let Some(attempt) = self.attempts.remove(name) else { return };
        let Attempt { claim, plan, state, since, quit, successor, .. } = attempt;
        let took = since.map_or(Duration::ZERO, |since| now.mono.since(since));
        // What was cancelled did not end by itself, unless it was done just before.
        let ending = if quit.is_some() && ending != Ending::Succeeded { Ending::Cancelled } else { ending };
        let slot = plan.slot(claim.slot);
        let event = JobEvent::AttemptEnded { slot, attempt: claim.attempt, ending, took, note: note.clone() };
        self.tell(TakerEvent::Job(name.clone(), event));
        let number = claim.attempt;
        match (ending, quit) {
            // What becomes of it a later term says.
            (_, Some(Quit::Superseded)) => {}
            // Nobody asks for the word on it.
            (_, Some(Quit::Gone)) => self.forget(&claim),
            (Ending::Succeeded, _) => self.conclude(now, &claim, &plan, state, number, None, note),
            (_, Some(Quit::Deadline)) => {
                let failure = Some(RunFailure::DeadlineExceeded);
                self.conclude(now, &claim, &plan, state, number, failure, note);
            }
            (Ending::Interrupted, None) if plan.on_interrupt == OnInterrupt::Fail => {
                self.conclude(now, &claim, &plan, state, number, Some(RunFailure::Interrupted), note);
            }
            (Ending::Interrupted | Ending::Failed | Ending::Cancelled, None) if number > plan.backoff.limit => {
                let failure = Some(RunFailure::BackoffLimitExceeded);
                self.conclude(now, &claim, &plan, state, number, failure, note);
            }
            (Ending::Interrupted | Ending::Failed | Ending::Cancelled, None) => {
                let pause = if ending == Ending::Interrupted { Duration::ZERO } else { plan.backoff.after(number) };
                let due = now.wall.plus(pause);
                let then = Settlement::Again { slot: claim.slot, due, attempt: number, state: Some(state) };
                self.settle(over(&claim, then), Vec::new());
            }
        }
        if let Some(successor) = successor.filter(|_| self.stage != Stage::Over) {
            self.claimed(now, successor);
        }
    }

    /// A run is over.
    #[expect(clippy::too_many_arguments, reason = "what is known of a run that ends")]
    fn conclude(
        &mut self,
        now: Moment,
        claim: &ClaimedJob<W>,
        plan: &RuntimePlan,
        state: RuntimeState,
        attempts: u32,
        failure: Option<RunFailure>,
        note: String,
    ) {
        let last = RunRecord { slot: claim.slot, attempts, ended: now.wall, failure, note };
        let slot = plan.slot(claim.slot);
        let news = TakerEvent::Job(claim.name.clone(), JobEvent::RunEnded { slot, failure, attempts });
        self.go_on(now, claim, plan, RuntimeState { last: Some(last), ..state }, news);
    }

    /// A run could not begin in time.
    fn miss(&mut self, now: Moment, claim: &ClaimedJob<W>, plan: &RuntimePlan, state: RuntimeState) {
        let gap = Gap { reason: GapReason::Missed, first: claim.slot, last: claim.slot, count: 1 };
        self.go_on(now, claim, plan, state, TakerEvent::Job(claim.name.clone(), JobEvent::Passed(gap)));
    }

    /// To the next run, if there is one.
    fn go_on(&mut self, now: Moment, claim: &ClaimedJob<W>, plan: &RuntimePlan, state: RuntimeState, news: TakerEvent) {
        let runs = state.runs.saturating_add(1);
        // A clock that is set back repeats no slot.
        let then = match plan.next(runs, now.wall.max(claim.slot)) {
            Some(slot) => {
                let state = Some(RuntimeState { runs, began: None, ..state });
                Settlement::Again { slot, due: slot, attempt: 0, state }
            }
            None => Settlement::Remove,
        };
        self.settle(over(claim, then), vec![news]);
    }

    fn settle(&mut self, end: (JobName, Settled), news: Vec<TakerEvent>) {
        let (name, settled) = end;
        let settled = Settled { news, ..settled };
        self.actions.push_back(self.settle_action(&name, &settled));
        self.done.remove(&name);
        self.settling.insert(name, settled);
    }

    /// This replica stops leading: what it has taken and not started is another's to start.
    pub(super) fn hand_back_what_has_not_begun(&mut self, now: Moment) {
        let waiting: Vec<JobName> =
            self.attempts.iter().filter(|(_, attempt)| attempt.since.is_none()).map(|(name, _)| name.clone()).collect();
        for name in waiting {
            let Some(attempt) = self.attempts.remove(&name) else { continue };
            let claim = attempt.successor.unwrap_or(attempt.claim);
            self.settle(not_begun(&claim, now.wall), Vec::new());
        }
    }

    /// The job is gone: it is not made, or made again, where an answer that is late brings it once more.
    pub(super) fn forget(&mut self, claim: &ClaimedJob<W>) {
        let (name, settled) = over(claim, Settlement::Remove);
        self.remember(name, settled);
    }

    fn tell(&mut self, event: TakerEvent) {
        self.actions.push_back(TakerAction::Tell(event));
    }
}

/// What becomes of a job whose attempt is over.
fn over<W>(claim: &ClaimedJob<W>, then: Settlement<RuntimeState>) -> (JobName, Settled) {
    let ClaimedJob { name, revision, slot, attempt, ticket, .. } = claim;
    let (revision, slot, attempt, ticket, news) = (*revision, *slot, *attempt, *ticket, Vec::new());
    (name.clone(), Settled { revision, slot, attempt, ticket, then, news })
}

/// The attempt was never begun, and so it does not count.
fn not_begun<W>(claim: &ClaimedJob<W>, due: Wall) -> (JobName, Settled) {
    let attempt = claim.attempt.saturating_sub(1);
    let (name, settled) = over(claim, Settlement::Again { slot: claim.slot, due, attempt, state: None });
    // It may come again under the same number.
    (name, Settled { attempt, ..settled })
}
