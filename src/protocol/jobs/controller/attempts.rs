//! Attempts: claimed, started, ended, repeated.

use super::{JobAction, JobController, JobEvent, Live, Moment, Stage};
use crate::protocol::Token;
use crate::protocol::jobs::ids::Slot;
use crate::protocol::jobs::policy::OnInterrupt;
use crate::protocol::jobs::run::{Ending, Phase, Run, RunFailure};
use crate::protocol::jobs::wishes::RunWish;

impl JobController {
    /// Writes a claim down. Its attempt starts when the store has it.
    pub(super) fn claim(&mut self, now: Moment, slot: Slot) {
        let first = self.ledger.runs.get(&slot).is_none_or(|run| run.began.is_none() || run.phase.is_over());
        let attempt = self.ledger.claim(slot, self.term.token, &self.profile.identity, now.wall);
        if first && let Some(limit) = self.profile.policy.active_deadline {
            self.deadlines.insert(slot, now.mono + limit);
        }
        self.resumes.remove(&slot);
        self.claims.push((slot, attempt));
        self.dirty = true;
    }

    /// Starts what the store has the claims of, while there is room and a place.
    pub(super) fn start_confirmed(&mut self, now: Moment) {
        let free = match self.stage {
            Stage::Ready if now.room => now.places.saturating_sub(self.live.len()),
            Stage::Ready => 0,
            Stage::Opening | Stage::Closing | Stage::Over => usize::MAX,
        };
        let starting: Vec<_> = self.confirmed.drain(..free.min(self.confirmed.len())).collect();
        for (slot, attempt) in starting {
            self.start(now, slot, attempt);
        }
    }

    fn start(&mut self, now: Moment, slot: Slot, attempt: u32) {
        let term = self.term.token;
        let open = self.ledger.runs.get_mut(&slot).filter(|run| run.phase == Phase::Running);
        let open = open.and_then(|run| run.open_attempt());
        let Some((token, claimed)) =
            open.filter(|open| open.number == attempt && open.term == term).map(|open| (open.token, open.claimed))
        else {
            // The run went another way while the claim was written.
            return;
        };
        if self.stage != Stage::Ready {
            return self.withdraw(now, slot, "not begun: this replica was about to stop leading");
        }
        self.live.insert(slot, Live { attempt, since: now.mono, cancelled: None });
        // One of the past is due when it is its turn.
        let due = if attempt == 1 && !matches!(slot, Slot::Backfill(_)) { slot.at() } else { claimed };
        self.actions.push_back(JobAction::Start { slot, attempt, token });
        self.tell(JobEvent::Started { slot, attempt, late: now.wall.since(due) });
    }

    /// A claim that is written, and whose attempt this replica does not start: it is known not to have begun, so it
    /// costs none, and the next leader makes it, unless the run is ended.
    fn withdraw(&mut self, now: Moment, slot: Slot, why: &str) {
        let Some(run) = self.ledger.runs.get_mut(&slot) else { return };
        run.phase = Phase::Waiting { until: now.wall };
        if let Some(open) = run.open_attempt() {
            (open.end, open.withdrawn) = (Some((now.wall, Ending::Interrupted)), true);
            why.clone_into(&mut open.note);
        }
        if run.attempts_made() == run.spent {
            // Nor has the run, or its retry.
            run.began = None;
            self.deadlines.remove(&slot);
        }
        self.dirty = true;
    }

    /// An attempt that was started has ended.
    pub(super) fn ended(&mut self, now: Moment, slot: Slot, attempt: u32, ending: Ending, note: String) {
        let Some(live) = self.live.get(&slot).filter(|live| live.attempt == attempt) else { return };
        let (took, cancelled) = (now.mono.since(live.since), live.cancelled);
        self.live.remove(&slot);
        if self.stage == Stage::Over {
            // The run is another leader's now, and so is the word on it.
            return self.tell(JobEvent::AttemptEnded { slot, attempt, ending, took, note });
        }
        let Some(run) = self.ledger.runs.get_mut(&slot).filter(|run| run.phase == Phase::Running) else { return };
        let Some(open) = run.open_attempt().filter(|open| open.number == attempt) else { return };
        // What was cancelled did not end by itself, unless it was done just before.
        let ending = if cancelled.is_some() && ending != Ending::Succeeded { Ending::Cancelled } else { ending };
        open.end = Some((now.wall, ending));
        note.clone_into(&mut open.note);
        self.dirty = true;
        self.tell(JobEvent::AttemptEnded { slot, attempt, ending, took, note });
        match (ending, cancelled) {
            (Ending::Succeeded, _) => self.finish(now, slot, None),
            (_, Some(why)) => self.finish(now, slot, Some(why)),
            (Ending::Interrupted, None) => self.after_interrupt(now, slot, attempt),
            (Ending::Failed | Ending::Cancelled, None) => self.after_failure(now, slot, attempt),
        }
    }

    fn after_failure(&mut self, now: Moment, slot: Slot, attempt: u32) {
        let backoff = self.profile.policy.backoff;
        let failures = self.tries(slot, attempt);
        if failures > backoff.limit {
            return self.finish(now, slot, Some(RunFailure::BackoffLimitExceeded));
        }
        let pause = backoff.after(failures);
        if let Some(run) = self.ledger.runs.get_mut(&slot) {
            run.phase = Phase::Waiting { until: now.wall.plus(pause) };
        }
        self.resumes.insert(slot, now.mono + pause);
    }

    /// The next leader makes the next attempt, or this one if it goes on leading.
    fn after_interrupt(&mut self, now: Moment, slot: Slot, attempt: u32) {
        let policy = &self.profile.policy;
        if policy.on_interrupt == OnInterrupt::Fail {
            return self.finish(now, slot, Some(RunFailure::Interrupted));
        }
        // A run that takes its leader down every time comes to an end, too.
        if self.tries(slot, attempt) > policy.backoff.limit {
            return self.finish(now, slot, Some(RunFailure::BackoffLimitExceeded));
        }
        if let Some(run) = self.ledger.runs.get_mut(&slot) {
            run.phase = Phase::Waiting { until: now.wall };
        }
        self.resumes.insert(slot, now.mono);
    }

    /// The how manieth attempt this is, since the run began or was last retried.
    fn tries(&self, slot: Slot, attempt: u32) -> u32 {
        attempt.saturating_sub(self.ledger.runs.get(&slot).map_or(0, |run| run.spent))
    }

    fn finish(&mut self, now: Moment, slot: Slot, failure: Option<RunFailure>) {
        let Some(run) = self.ledger.runs.get_mut(&slot) else { return };
        run.phase = failure.map_or(Phase::Succeeded, Phase::Failed);
        run.ended = Some(now.wall);
        run.heeded();
        let attempts = run.attempts_made();
        if failure.is_none() {
            self.ledger.last_success = self.ledger.last_success.max(Some(now.wall));
            run.data = None;
        }
        if failure == Some(RunFailure::Cancelled) && matches!(slot, Slot::Backfill(_)) {
            self.ledger.backfills.end();
        }
        if let Slot::Manual(at) = slot {
            // Also one that never began: where it is forgotten, the store may bring it once more as it was asked for.
            self.ledger.begun = self.ledger.begun.max(at);
        }
        self.deadlines.remove(&slot);
        self.resumes.remove(&slot);
        self.record(JobEvent::RunEnded { slot, failure, attempts });
    }

    /// Attempts that the ledger says are running, and that this controller did not claim: their leader is gone. How
    /// many.
    pub(super) fn interrupt_what_is_not_ours(&mut self, now: Moment) -> usize {
        let mut interrupted = Vec::new();
        let (mut waiting, mut begun) = (Vec::new(), Vec::new());
        let (live, term) = (&self.live, self.term.token);
        let claimed = |claim: (Slot, u32)| self.claims.contains(&claim) || self.confirmed.contains(&claim);
        for (slot, run) in &mut self.ledger.runs {
            if run.phase.is_active() {
                begun.push((*slot, run.began.unwrap_or(now.wall)));
            }
            match run.phase {
                Phase::Waiting { until } => waiting.push((*slot, until)),
                Phase::Running => {
                    let (number, by) = run.attempts.last().map_or((0, Token::NONE), |last| (last.number, last.term));
                    let goes_on = live.get(slot).is_some_and(|live| live.attempt == number);
                    // One of another leader may be there in the place of a claim that is on its way.
                    if goes_on || (by == term && claimed((*slot, number))) {
                        continue;
                    }
                    if let Some(open) = run.open_attempt() {
                        open.end = Some((now.wall, Ending::Interrupted));
                        "its leader stopped leading".clone_into(&mut open.note);
                    }
                    interrupted.push((*slot, number));
                }
                Phase::Asked | Phase::Succeeded | Phase::Failed(_) => {}
            }
        }
        for (slot, began) in begun {
            let Some(limit) = self.profile.policy.active_deadline else { continue };
            let left = limit.saturating_sub(now.wall.since(began));
            self.deadlines.entry(slot).or_insert(now.mono + left);
        }
        for (slot, until) in waiting {
            // The clocks of two leaders need not agree: the pause is never longer than the longest.
            let pause = until.since(now.wall).min(self.profile.policy.backoff.max);
            self.resumes.entry(slot).or_insert(now.mono + pause);
        }
        self.dirty |= !interrupted.is_empty();
        for (slot, attempt) in &interrupted {
            self.after_interrupt(now, *slot, *attempt);
        }
        interrupted.len()
    }

    /// `activeDeadlineSeconds`.
    pub(super) fn end_what_is_too_long(&mut self, now: Moment) {
        let over: Vec<Slot> = self.deadlines.iter().filter(|(_, at)| **at <= now.mono).map(|(slot, _)| *slot).collect();
        for slot in over {
            self.cancel(now, slot, RunFailure::DeadlineExceeded);
        }
    }

    /// Runs that somebody asked to end. One under a claim of which the store has told nothing yet ends as soon as it
    /// has, and does not begin.
    pub(super) fn end_what_is_cancelled(&mut self, now: Moment) {
        let is_asked = |run: &Run| run.wish() == Some(RunWish::Cancel);
        let asked: Vec<Slot> =
            self.ledger.runs.iter().filter(|(_, run)| is_asked(run)).map(|(slot, _)| *slot).collect();
        for slot in asked {
            self.cancel(now, slot, RunFailure::Cancelled);
            if let Some(run) = self.ledger.runs.get_mut(&slot).filter(|run| run.phase.is_over() && is_asked(run)) {
                run.heeded();
                self.dirty = true;
            }
        }
    }

    /// Ends a run for good: at once where nothing runs, else as soon as its attempt has ended.
    pub(super) fn cancel(&mut self, now: Moment, slot: Slot, why: RunFailure) {
        match self.phase(slot) {
            Some(Phase::Asked | Phase::Waiting { .. }) => self.finish(now, slot, Some(why)),
            Some(Phase::Running) => {
                if let Some(at) = self.confirmed.iter().position(|(of, _)| *of == slot) {
                    self.confirmed.remove(at);
                    self.withdraw(now, slot, "not begun: the run was to end");
                    return self.finish(now, slot, Some(why));
                }
                // Without a live attempt, its claim is still on its way to the store.
                let Some(live) = self.live.get_mut(&slot).filter(|live| live.cancelled.is_none()) else { return };
                live.cancelled = Some(why);
                let attempt = live.attempt;
                self.actions.push_back(JobAction::Cancel { slot, attempt, why });
            }
            Some(Phase::Succeeded | Phase::Failed(_)) | None => {
                self.deadlines.remove(&slot);
            }
        }
    }
}
