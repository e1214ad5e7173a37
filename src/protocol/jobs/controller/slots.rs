//! Slots: which are due, which get a run, and which are counted among those that have none.

use std::time::Duration;

use super::{JobController, JobEvent, LOOK, Moment, ROOM_LOOK};
use crate::protocol::Mono;
use crate::protocol::jobs::ids::{Slot, Wall};
use crate::protocol::jobs::ledger::{Gap, GapReason};
use crate::protocol::jobs::policy::{ACTIVE_MAX, CATCH_UP_MAX, CatchUp, Concurrency};
use crate::protocol::jobs::run::{Phase, Run, RunFailure};

/// How many slots of an outage are counted one by one.
const COUNTED_MAX: usize = 1_000;

impl JobController {
    /// Remembers since when the job is suspended, and until when it was.
    pub(super) fn mark_suspension(&mut self, now: Moment) {
        let suspension = &mut self.ledger.suspension;
        let open = matches!(suspension.stretch, Some((_, None)));
        match (suspension.holds(), open) {
            (true, false) => suspension.stretch = Some((now.wall, None)),
            (false, true) => {
                suspension.stretch = suspension.stretch.map(|(from, _)| (from, Some(now.wall)));
            }
            _ => return,
        }
        self.dirty = true;
    }

    /// Claims what may start now; when to look again.
    pub(super) fn begin_attempts(&mut self, now: Moment) -> Mono {
        let mut wake = now.mono + LOOK;
        let runs = &self.ledger.runs;
        self.resumes.retain(|slot, _| runs.get(slot).is_some_and(|run| matches!(run.phase, Phase::Waiting { .. })));
        let due: Vec<Slot> = self.resumes.iter().filter(|(_, at)| **at <= now.mono).map(|(slot, _)| *slot).collect();
        for slot in due {
            // Only a store that lost what it was told can have said that a live one waits.
            if !self.live.contains_key(&slot) && self.may_claim(now) {
                self.claim(now, slot);
            }
        }
        self.begin_asked(now);
        if !self.ledger.suspension.holds() {
            wake = wake.min(self.begin_scheduled(now));
            self.begin_backfill(now);
        }
        let resumes = self.resumes.values().copied().min();
        let waits = resumes.is_some_and(|at| at <= now.mono)
            || self.any_asked()
            || self.ledger.backfills.going_on().is_some()
            || !self.confirmed.is_empty();
        let no_room = !now.room && waits;
        let resumes = resumes.filter(|at| *at > now.mono);
        let room = no_room.then(|| now.mono + ROOM_LOOK);
        [Some(wake), resumes, room].into_iter().flatten().min().unwrap_or(wake)
    }

    fn any_asked(&self) -> bool {
        self.ledger.runs.values().any(Run::is_asked_for)
    }

    /// Runs that were asked for, and those that are to be retried, begin in their order, as soon as `concurrencyPolicy`
    /// lets them; also while the job is suspended.
    fn begin_asked(&mut self, now: Moment) {
        let asked: Vec<Slot> =
            self.ledger.runs.iter().filter(|(_, run)| run.is_asked_for()).map(|(slot, _)| *slot).collect();
        for slot in asked {
            if !now.room || self.is_blocked(now) || !self.may_claim(now) {
                return;
            }
            self.claim(now, slot);
        }
    }

    /// Whether no run may begin beside those that go on. Under `Replace` these are told to end.
    fn is_blocked(&mut self, now: Moment) -> bool {
        let active: Vec<Slot> = self.ledger.active().map(|(slot, _)| slot).collect();
        match self.profile.policy.concurrency {
            Concurrency::Allow => active.len() >= ACTIVE_MAX,
            Concurrency::Forbid => !active.is_empty(),
            Concurrency::Replace => {
                for slot in active {
                    self.cancel(now, slot, RunFailure::Replaced);
                }
                self.ledger.active().next().is_some()
            }
        }
    }

    /// The next slot of a backfill begins once the one before it is over, and in nobody's place: `Replace` cancels
    /// nothing for it.
    fn begin_backfill(&mut self, now: Moment) {
        let most = match self.profile.policy.concurrency {
            Concurrency::Allow => ACTIVE_MAX,
            Concurrency::Forbid | Concurrency::Replace => 1,
        };
        let active = self.ledger.active();
        if active.map(|(slot, _)| if matches!(slot, Slot::Backfill(_)) { most } else { 1 }).sum::<usize>() >= most {
            return;
        }
        while let Some(backfill) = self.ledger.backfills.going_on().copied() {
            let next = self.profile.timetable.next_after(backfill.done).filter(|slot| *slot <= backfill.last);
            match next {
                Some(slot) if self.ledger.lacks_run(slot) => {
                    if self.may_claim(now) {
                        self.claim(now, Slot::Backfill(slot));
                    }
                    return;
                }
                // It has a run, or the schedule is another by now.
                passed => {
                    self.ledger.backfills.decide(passed.unwrap_or(backfill.last));
                    self.dirty = true;
                }
            }
        }
    }

    /// Decides the slots that are due; when to look again.
    fn begin_scheduled(&mut self, now: Moment) -> Mono {
        let due = self.due(now.wall);
        let first_kept = self.first_to_start(&due.slots, now.wall);
        let (passed, kept) = due.slots.split_at(first_kept);
        if let Some((first, count)) = due.uncounted {
            let last = due.slots.first().map_or(first, |next| next.minus(Duration::from_secs(1)));
            self.pass(Gap { reason: self.reason(first), first, last, count });
        }
        let gap = |same: &[Wall]| {
            let (first, last) = (*same.first()?, *same.last()?);
            Some(Gap { reason: self.reason(first), first, last, count: same.len() as u64 })
        };
        let gaps: Vec<Gap> = passed.chunk_by(|a, b| self.reason(*a) == self.reason(*b)).filter_map(gap).collect();
        for gap in gaps {
            self.pass(gap);
        }
        let mut pending = None;
        for slot in kept {
            if !now.room || self.is_blocked(now) || !self.may_claim(now) {
                pending = Some(*slot);
                break;
            }
            self.claim(now, Slot::Scheduled(*slot));
        }
        let last_due = kept.last().or(passed.last()).copied().unwrap_or(now.wall).max(now.wall);
        let next = self.profile.timetable.next_after(last_due).map(|next| now.mono + next.since(now.wall));
        // A slot that waits is given up when it would start too late.
        let given_up = pending.zip(self.profile.policy.lateness_max()).map(|(slot, late)| {
            let at = slot.plus(late + Duration::from_millis(1));
            now.mono + at.since(now.wall)
        });
        let room = pending.filter(|_| !now.room).map(|_| now.mono + ROOM_LOOK);
        [next, given_up, room].into_iter().flatten().min().unwrap_or(now.mono + LOOK)
    }

    fn pass(&mut self, gap: Gap) {
        self.ledger.pass(gap);
        self.record(JobEvent::Passed(gap));
    }

    /// Where in the due slots those begin that get a run.
    fn first_to_start(&self, due: &[Wall], now: Wall) -> usize {
        let policy = &self.profile.policy;
        let in_time = policy.lateness_max().map_or(0, |late| due.partition_point(|slot| now.since(*slot) > late));
        let most = match (policy.catch_up, policy.concurrency) {
            // Each would be replaced by the next at once.
            (CatchUp::None | CatchUp::Latest, _) | (CatchUp::All, Concurrency::Replace) => 1,
            (CatchUp::All, _) => CATCH_UP_MAX,
        };
        in_time.max(due.len().saturating_sub(most))
    }

    fn reason(&self, slot: Wall) -> GapReason {
        let most = match self.profile.policy.concurrency {
            Concurrency::Allow => ACTIVE_MAX,
            Concurrency::Forbid => 1,
            Concurrency::Replace => usize::MAX,
        };
        let went_on = self.ledger.active().filter(|(_, run)| run.began.is_some_and(|began| began <= slot)).count();
        if self.ledger.suspension.covers(slot) {
            GapReason::Suspended
        } else if slot > self.began && went_on >= most {
            GapReason::Concurrency
        } else {
            GapReason::Missed
        }
    }

    /// The slots after this moment that are due and not decided. Those that have a run are, also where the ledger was
    /// set back.
    fn due_after(&self, after: Wall, now: Wall) -> impl Iterator<Item = Wall> {
        let (timetable, runs) = (&self.profile.timetable, &self.ledger.runs);
        std::iter::successors(timetable.next_after(after), |slot| timetable.next_after(*slot))
            .take_while(move |slot| *slot <= now)
            .filter(|slot| !runs.contains_key(&Slot::Scheduled(*slot)))
    }

    /// The slots that are due and not decided. After a long outage: the last of them, and how many before those were
    /// counted from when on.
    fn due(&self, now: Wall) -> Due {
        let decided = self.ledger.decided;
        let slots: Vec<Wall> = self.due_after(decided, now).take(COUNTED_MAX + 1).collect();
        if slots.len() <= COUNTED_MAX {
            return Due { slots, uncounted: None };
        }
        let recent = self.last_due(now);
        let before = |slot: &&Wall| recent.first().is_some_and(|recent| *slot < recent);
        let counted = slots.iter().filter(before).count() as u64;
        Due { uncounted: slots.first().filter(|_| counted > 0).map(|first| (*first, counted)), slots: recent }
    }

    /// The last of very many slots: enough to catch up, and not many more. There is at most one a second, so a second
    /// can be found after which there are that many.
    fn last_due(&self, now: Wall) -> Vec<Wall> {
        let decided = self.ledger.decided;
        let most = 2 * CATCH_UP_MAX;
        let since = |back_s: u64| {
            let after = now.minus(Duration::from_secs(back_s)).max(decided);
            self.due_after(after, now).take(most + 1).collect::<Vec<Wall>>()
        };
        // After `few` seconds ago there are too few, after `many` seconds ago enough.
        let (mut few, mut many) = (0, 1);
        let mut recent = since(many);
        while recent.len() < CATCH_UP_MAX {
            (few, many) = (many, many * 2);
            recent = since(many);
        }
        while recent.len() > most {
            let between = u64::midpoint(few, many);
            let slots = since(between);
            if slots.len() < CATCH_UP_MAX {
                few = between;
            } else {
                many = between;
                recent = slots;
            }
        }
        recent
    }
}

struct Due {
    slots: Vec<Wall>,
    /// The first slot of those that were not counted one by one, and how many there are at least.
    uncounted: Option<(Wall, u64)>,
}
