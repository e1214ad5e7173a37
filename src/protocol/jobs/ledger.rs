//! What is known of a job's runs, and lasts when its leader does not.

mod leaps;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

pub use self::leaps::Leaps;
pub(super) use self::leaps::{COUNTED_MAX, LEAP, MS, counted};
use super::backfill::{Backfill, BackfillRefusal, Backfills};
use super::ids::{Slot, Wall};
use super::policy::{
    ASKED_MAX, BACKFILL_MAX, DATA_BYTES_SUM_MAX, HistoryLimits, JobPolicy, KEY_SPAN, KEYS_MAX, Timetable,
};
use super::run::{Phase, Run, RunAttempt, RunFailure};
use super::wishes::{AskRefusal, AskedKey, RunRefusal, RunRequest, RunWish};
use crate::protocol::Token;

/// The ledger of one job.
///
/// A slot is *decided* once it has a run, or is counted among those that have none. Slots are decided in their order,
/// so one moment tells which are: that is why a run may be forgotten and its slot not run again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ledger {
    /// The schedule ([`super::Timetable::name`]) that the slots are of.
    pub timetable: String,
    /// Every slot of the schedule up to here is decided.
    pub decided: Wall,
    /// What of that a clock may have decided that was ahead.
    pub leaps: Leaps,
    /// Every run that was asked for up to here has begun.
    pub begun: Wall,
    /// The greatest token that an attempt had.
    pub token: Token,
    /// Whether the job is suspended.
    pub suspension: Suspension,
    /// The runs that go on, and the last of those that ended.
    pub runs: BTreeMap<Slot, Run>,
    /// The last stretches of slots that had no run, oldest first.
    pub gaps: Vec<Gap>,
    /// When a run last succeeded.
    pub last_success: Option<Wall>,
    /// The keys of the last requests for runs, oldest first.
    pub keys: Vec<AskedKey>,
    /// The ranges of the past that somebody wanted run.
    pub backfills: Backfills,
}

/// Whether a job is suspended, and since when.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Suspension {
    /// What the configuration said when it was last looked at.
    pub declared: bool,
    /// What somebody asked for since, and when; it holds until the configuration changes its word.
    pub order: Option<(bool, Wall)>,
    /// The last stretch in which the job was suspended; without an end while it is.
    pub stretch: Option<(Wall, Option<Wall>)>,
    /// What somebody last asked of all jobs, and when.
    pub pause: Option<(bool, Wall)>,
}

impl Suspension {
    /// Whether the job is suspended, by itself or with all others.
    pub fn holds(&self) -> bool {
        self.is_own() || self.is_paused()
    }

    /// Whether the job is suspended by itself.
    pub fn is_own(&self) -> bool {
        self.order.map_or(self.declared, |(suspend, _)| suspend)
    }

    /// Whether all jobs are suspended.
    pub fn is_paused(&self) -> bool {
        self.pause.is_some_and(|(suspend, _)| suspend)
    }

    /// Takes in what somebody asked of all jobs. True when that is news.
    pub(super) fn hear(&mut self, pause: Option<(bool, Wall)>) -> bool {
        let is_later = pause.map(|(_, at)| at) > self.pause.map(|(_, at)| at);
        if is_later {
            self.pause = pause;
        }
        is_later
    }

    /// Whether the job was suspended at this moment, as far as is remembered.
    pub fn covers(&self, at: Wall) -> bool {
        self.stretch.is_some_and(|(from, until)| from <= at && until.is_none_or(|until| at <= until))
    }
}

/// Slots, one after the other, that had no run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    pub reason: GapReason,
    pub first: Wall,
    pub last: Wall,
    /// How many, at least.
    pub count: u64,
}

/// Why a slot had no run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GapReason {
    /// Nobody could start it in time.
    Missed,
    /// Another run went on (`Forbid`, or too many of them).
    Concurrency,
    /// The job was suspended.
    Suspended,
}

impl GapReason {
    pub const ALL: [Self; 3] = [Self::Missed, Self::Concurrency, Self::Suspended];

    /// As it is told, counted and stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Missed => "missed",
            Self::Concurrency => "skipped",
            Self::Suspended => "suspended",
        }
    }
}

/// What a ledger can do without that is too long for its store, in the order in which it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Abridgement {
    /// The notes of a run's attempts but the last.
    OldNotes,
    /// These attempts.
    OldAttempts,
    /// A run that is over.
    Run,
}

impl Abridgement {
    pub const ALL: [Self; 3] = [Self::OldNotes, Self::OldAttempts, Self::Run];
}

impl Ledger {
    /// A job that is seen for the first time: its slots begin now.
    pub fn new(timetable: String, declared: bool, now: Wall) -> Self {
        Self {
            timetable,
            decided: now,
            leaps: Leaps::default(),
            begun: Wall::default(),
            token: Token::NONE,
            suspension: Suspension { declared, ..Suspension::default() },
            runs: BTreeMap::new(),
            gaps: Vec::new(),
            last_success: None,
            keys: Vec::new(),
            backfills: Backfills::default(),
        }
    }

    /// Asks for a run that is given nothing, whoever leads.
    ///
    /// # Errors
    /// [`AskRefusal::TooMany`]
    pub fn ask(&mut self, now: Wall) -> Result<Slot, AskRefusal> {
        self.ask_with(now, &RunRequest::default())
    }

    /// Asks for a run, whoever leads. A request whose key was there before, with the same data, asked for the run of
    /// then, whatever has become of it.
    ///
    /// # Errors
    /// [`AskRefusal`]
    pub fn ask_with(&mut self, now: Wall, request: &RunRequest) -> Result<Slot, AskRefusal> {
        self.keys.retain(|known| now.since(known.at) <= KEY_SPAN);
        if let Some(known) = self.keys.iter().find(|known| Some(&known.key) == request.key.as_ref()) {
            let is_same = known.print == request.print();
            return if is_same { Ok(Slot::Manual(known.at)) } else { Err(AskRefusal::OtherData) };
        }
        let asked = self.runs.values().filter(|run| run.phase == Phase::Asked).count();
        if asked >= ASKED_MAX {
            return Err(AskRefusal::TooMany);
        }
        let given: usize = self.runs.values().filter(|run| !run.is_forgettable()).map(Run::data_bytes).sum();
        if given + request.data.as_ref().map_or(0, |data| data.len()) > DATA_BYTES_SUM_MAX {
            return Err(AskRefusal::TooMuchData);
        }
        let last = self.runs.keys().filter(|slot| matches!(slot, Slot::Manual(_))).map(|slot| slot.at()).max();
        let after = last.unwrap_or_default().max(self.begun);
        let at = now.max(Wall::from_millis(after.as_millis() + 1));
        self.runs.insert(Slot::Manual(at), Run { data: request.data.clone(), ..Run::new(Phase::Asked) });
        if let Some(key) = &request.key {
            self.keys.push(AskedKey { key: Arc::clone(key), at, print: request.print() });
            let surplus = self.keys.len().saturating_sub(KEYS_MAX);
            self.keys.drain(..surplus);
        }
        Ok(Slot::Manual(at))
    }

    /// Asks for the end of a run, whoever leads. Asking again changes nothing.
    ///
    /// # Errors
    /// [`RunRefusal::Unknown`], [`RunRefusal::Over`]
    pub fn cancel(&mut self, slot: Slot, now: Wall) -> Result<(), RunRefusal> {
        let run = self.runs.get_mut(&slot).ok_or(RunRefusal::Unknown)?;
        if !run.is_forgettable() {
            run.ask(RunWish::Cancel, now);
        } else if run.phase != Phase::Failed(RunFailure::Cancelled) {
            return Err(RunRefusal::Over(run.phase));
        }
        Ok(())
    }

    /// Asks for another try of a run that has failed, whoever leads. Asking again changes nothing.
    ///
    /// # Errors
    /// [`RunRefusal::Unknown`], [`RunRefusal::NotFailed`]
    pub fn retry(&mut self, slot: Slot, now: Wall) -> Result<(), RunRefusal> {
        let run = self.runs.get_mut(&slot).ok_or(RunRefusal::Unknown)?;
        if !matches!(run.phase, Phase::Failed(_)) {
            return Err(RunRefusal::NotFailed(run.phase));
        }
        run.ask(RunWish::Retry, now);
        Ok(())
    }

    /// Asks for a run of each slot from `from` to `to`, both included, whoever leads: of those that are decided, have
    /// no run that is remembered, and are of no backfill before. Asking again for the same range changes nothing.
    ///
    /// # Errors
    /// [`BackfillRefusal`]
    pub fn backfill(
        &mut self,
        timetable: &dyn Timetable,
        (from, to): (Wall, Wall),
        now: Wall,
    ) -> Result<Backfill, BackfillRefusal> {
        if let Some(same) = self.backfills.of(from, to) {
            return Ok(*same);
        }
        if let Some(other) = self.backfills.going_on() {
            return Err(BackfillRefusal::GoesOn(*other));
        }
        let before = from.minus(Duration::from_millis(1));
        let slots = std::iter::successors(timetable.next_after(before), |slot| timetable.next_after(*slot));
        let slots = slots.take_while(|slot| *slot <= to).take(BACKFILL_MAX + 1);
        let (decided, undecided): (Vec<Wall>, Vec<Wall>) = slots.partition(|slot| *slot <= self.decided);
        if decided.len() + undecided.len() > BACKFILL_MAX {
            return Err(BackfillRefusal::TooMany);
        }
        let Some(last) = decided.last() else {
            let refusal = undecided.first().map(|_| BackfillRefusal::Undecided(self.decided));
            return Err(refusal.unwrap_or(BackfillRefusal::NoSlot));
        };
        let wanted = decided.iter().filter(|slot| self.lacks_run(**slot)).count();
        if wanted == 0 {
            return Err(BackfillRefusal::Done);
        }
        Ok(self.backfills.begin((from, to), *last, wanted as u64, now))
    }

    /// Whether a slot of the past has no run that is remembered, nor one of a backfill.
    pub(super) fn lacks_run(&self, slot: Wall) -> bool {
        !self.runs.contains_key(&Slot::Scheduled(slot)) && !self.backfills.cover(slot)
    }

    /// Suspends or resumes, whoever leads.
    pub fn order(&mut self, suspend: bool, now: Wall) {
        let after = self.suspension.order.map(|(_, at)| Wall::from_millis(at.as_millis() + 1)).unwrap_or_default();
        self.suspension.order = Some((suspend, now.max(after)));
    }

    /// The runs that have begun and go on.
    pub fn active(&self) -> impl Iterator<Item = (Slot, &Run)> {
        self.runs.iter().filter(|(_, run)| run.phase.is_active()).map(|(slot, run)| (*slot, run))
    }

    /// Claims the next attempt of a slot for a leader; the number of the attempt.
    pub(super) fn claim(&mut self, slot: Slot, term: Token, by: &Arc<str>, now: Wall) -> u32 {
        let after = Token::new(self.token.get().saturating_add(1)).unwrap_or(self.token);
        self.token = term.max(after);
        // A slot that has a run is decided, also where that is ahead of all others.
        let decides = !self.runs.contains_key(&slot);
        let run = self.runs.entry(slot).or_insert_with(|| Run::new(Phase::Running));
        if run.phase.is_over() {
            run.begin_anew();
        }
        run.attempts.pop_if(|last| last.withdrawn);
        run.phase = Phase::Running;
        run.began.get_or_insert(now);
        let number = run.attempts.last().map_or(1, |last| last.number.saturating_add(1));
        run.push(RunAttempt {
            number,
            token: self.token,
            term,
            by: Arc::clone(by),
            claimed: now,
            end: None,
            withdrawn: false,
            note: String::new(),
        });
        match slot {
            Slot::Scheduled(at) if decides => self.decide(at, at, true),
            Slot::Scheduled(_) => {}
            Slot::Manual(at) => self.begun = self.begun.max(at),
            Slot::Backfill(at) => self.backfills.decide(at),
        }
        number
    }

    /// Counts slots that have no run. They follow the last decided one. Those that nobody could start are not decided
    /// for good: it may be that a clock was ahead.
    pub(super) fn pass(&mut self, gap: Gap) {
        self.decide(gap.first, gap.last, gap.reason != GapReason::Missed);
        match self.gaps.last_mut() {
            Some(last) if last.reason == gap.reason && follows(&self.runs, &self.leaps, last, &gap) => {
                last.last = gap.last;
                last.count = last.count.saturating_add(gap.count);
            }
            _ => self.gaps.push(gap),
        }
    }

    /// Forgets what is beyond the limits, the oldest first. What goes on is kept.
    pub(super) fn trim(&mut self, limits: HistoryLimits) -> bool {
        let before = (self.runs.len(), self.gaps.len());
        let succeeded = |run: &Run| run.phase == Phase::Succeeded;
        let failed = |run: &Run| matches!(run.phase, Phase::Failed(_)) && !run.is_asked_for();
        for (keep, ours) in [(limits.succeeded, &succeeded as &dyn Fn(&Run) -> bool), (limits.failed, &failed)] {
            let mut over: Vec<_> = self.runs.iter().filter(|(_, run)| ours(run)).collect();
            if over.len() <= keep {
                continue;
            }
            over.sort_by_key(|(slot, run)| (run.ended, slot.at()));
            let forgotten: Vec<Slot> = over.iter().rev().skip(keep).map(|(slot, _)| **slot).collect();
            self.runs.retain(|slot, _| !forgotten.contains(slot));
        }
        self.forget_data();
        let surplus = self.gaps.len().saturating_sub(limits.failed);
        self.gaps.drain(..surplus);
        before != (self.runs.len(), self.gaps.len())
    }

    /// Forgets runs that failed, the oldest first, until all that is remembered fits of what runs were given. Without
    /// that they could not be retried.
    fn forget_data(&mut self) {
        while self.runs.values().map(Run::data_bytes).sum::<usize>() > DATA_BYTES_SUM_MAX {
            let with_data = self.runs.iter().filter(|(_, run)| run.is_forgettable() && run.data.is_some());
            let Some(oldest) = with_data.min_by_key(|(slot, run)| (run.ended, slot.at())).map(|(slot, _)| *slot) else {
                return;
            };
            self.runs.remove(&oldest);
        }
    }

    /// Every run, in the order in which they may be forgotten: those that ended long ago first, those that go on last.
    pub fn least_needed_first(&self) -> Vec<Slot> {
        let mut slots: Vec<_> = self.runs.iter().map(|(slot, run)| (!run.phase.is_over(), run.ended, *slot)).collect();
        slots.sort_unstable();
        slots.into_iter().map(|(.., slot)| slot).collect()
    }

    /// Makes the ledger shorter, by something of this run. What goes on keeps its last attempt.
    pub fn abridge(&mut self, slot: Slot, by: Abridgement) {
        let Some(run) = self.runs.get_mut(&slot) else { return };
        let old = run.attempts.len().saturating_sub(1);
        match by {
            Abridgement::OldNotes => run.attempts[..old].iter_mut().for_each(|attempt| attempt.note.clear()),
            Abridgement::OldAttempts => drop(run.attempts.drain(..old)),
            Abridgement::Run if run.is_forgettable() => drop(self.runs.remove(&slot)),
            Abridgement::Run => {}
        }
    }

    /// Takes in what the store has instead of this ledger: what was asked for meanwhile, and what this term has written
    /// and this ledger does not know. Everything else is older than this, because the store lost what came after, or
    /// comes from a stale leader that found the store empty, without a fence: it has started nothing of it. No term: it
    /// is as another role's leader left it, before this term's.
    pub(super) fn adopt(&mut self, stored: Self, term: Option<Token>) {
        let is_ours = |last: &RunAttempt| term.is_some_and(|term| last.term >= term);
        let counts = |run: &Run| run.attempts.last().is_none_or(is_ours);
        // Who has claimed nothing in this term has decided nothing in it that is not known here.
        let of_this_term = |run: &Run| run.attempts.last().is_some_and(is_ours);
        let decides = stored.runs.values().any(of_this_term) && stored.token >= self.token;
        // What somebody asked of a run counts whoever has claimed it.
        for (slot, theirs) in &stored.runs {
            if let Some(ours) = self.runs.get_mut(slot) {
                ours.order = ours.order.max(theirs.order);
            }
        }
        for (slot, theirs) in stored.runs.into_iter().filter(|(_, run)| counts(run)) {
            let is_forgotten = match slot {
                Slot::Scheduled(at) => at <= self.decided || self.is_closed(at),
                Slot::Manual(at) => at <= self.begun,
                Slot::Backfill(at) => self.backfills.cover(at),
            };
            match self.runs.get_mut(&slot) {
                Some(ours) if ours.progress() < theirs.progress() => *ours = Run { order: ours.order, ..theirs },
                Some(_) => {}
                None if is_forgotten => {}
                None => drop(self.runs.insert(slot, theirs)),
            }
        }
        // An order under another word of the configuration has been overruled.
        let holds = stored.suspension.declared == self.suspension.declared;
        if holds && stored.suspension.order.map(|(_, at)| at) > self.suspension.order.map(|(_, at)| at) {
            self.suspension.order = stored.suspension.order;
        }
        self.suspension.hear(stored.suspension.pause);
        // What was opened again since is not decided again by that.
        let is_later = stored.decided > self.decided && self.leaps.reopened < Some(stored.decided);
        if decides && is_later && stored.timetable == self.timetable {
            self.gaps.extend(stored.gaps.into_iter().filter(|gap| gap.last > self.decided));
            self.decided = stored.decided;
            self.leaps = stored.leaps;
        }
        self.backfills.adopt(stored.backfills);
        let unknown = stored.keys.into_iter().filter(|theirs| self.keys.iter().all(|ours| ours.key != theirs.key));
        let unknown: Vec<AskedKey> = unknown.collect();
        self.keys.extend(unknown);
        self.keys.sort_by_key(|known| known.at);
        let surplus = self.keys.len().saturating_sub(KEYS_MAX);
        self.keys.drain(..surplus);
        self.begun = self.begun.max(stored.begun);
        self.token = self.token.max(stored.token);
        self.last_success = self.last_success.max(stored.last_success);
    }

    /// Brings the ledger in line with the configuration in force. True when that changed it.
    pub(super) fn declare(&mut self, timetable: &str, policy: &JobPolicy, now: Wall) -> bool {
        let mut changed = false;
        if self.timetable != timetable {
            // Slots of the new schedule that have passed were never promised to anybody.
            timetable.clone_into(&mut self.timetable);
            if now > self.decided {
                self.decide(now, now, false);
            }
            changed = true;
        }
        if self.suspension.declared != policy.suspend {
            self.suspension.declared = policy.suspend;
            self.suspension.order = None;
            changed = true;
        }
        changed
    }
}

/// Whether nothing that had a run, or is closed, lies between two gaps.
fn follows(runs: &BTreeMap<Slot, Run>, leaps: &Leaps, last: &Gap, gap: &Gap) -> bool {
    let (after, before) = (last.last, gap.first);
    let ran = || runs.range(Slot::Scheduled(after)..Slot::Scheduled(before)).next().is_some();
    let closed = || leaps.closed.iter().any(|(first, _)| after < *first && *first < before);
    after < before && !ran() && !closed()
}

#[cfg(test)]
mod tests;
