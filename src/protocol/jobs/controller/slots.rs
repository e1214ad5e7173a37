//! Slots: which are due, which get a run, and which are counted among those that have none.

use std::time::Duration;

use super::{JobController, JobEvent, LOOK, Moment, ROOM_LOOK};
use crate::protocol::Mono;
use crate::protocol::jobs::ids::{Slot, Wall};
use crate::protocol::jobs::ledger::{COUNTED_MAX, Gap, GapReason, LEAP, MS, counted};
use crate::protocol::jobs::policy::{ACTIVE_MAX, CATCH_UP_MAX, CatchUp, Concurrency, ON_TIME};
use crate::protocol::jobs::run::{Phase, Run, RunFailure};
use crate::protocol::jobs::wishes::RunWish;

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
        let is_due = |(slot, at): &(&Slot, &Mono)| **at <= now.mono && !is_ahead(**slot, now);
        let due: Vec<Slot> = self.resumes.iter().filter(is_due).map(|(slot, _)| *slot).collect();
        for slot in due {
            // Only a store that lost what it was told can have said that a live one waits.
            let is_held = self.is_suspended_before_it_began(slot) || self.is_beside_another(slot);
            if !self.live.contains_key(&slot) && !is_held && self.may_claim(now) {
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

    /// A claim that was withdrawn has begun nothing yet.
    fn is_suspended_before_it_began(&self, slot: Slot) -> bool {
        let begun = self.ledger.runs.get(&slot).is_some_and(|run| run.began.is_some());
        self.ledger.suspension.holds() && !matches!(slot, Slot::Manual(_)) && !begun && !self.is_asked_again(slot)
    }

    /// What was cancelled before it began, and is tried again, begins because somebody asked for it.
    fn is_asked_again(&self, slot: Slot) -> bool {
        let order = self.ledger.runs.get(&slot).and_then(|run| run.order);
        order.is_some_and(|order| order.what == RunWish::Retry)
    }

    /// Under `Forbid` one that waited for its time, or began under another policy, does not go on beside another.
    fn is_beside_another(&self, slot: Slot) -> bool {
        let runs = |(other, run): (Slot, &Run)| other != slot && run.phase == Phase::Running;
        self.profile.policy.concurrency == Concurrency::Forbid && self.ledger.active().any(runs)
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
        let active: Vec<Slot> = self.going_on(now).collect();
        match self.profile.policy.concurrency {
            Concurrency::Allow => active.len() >= ACTIVE_MAX,
            Concurrency::Forbid => !active.is_empty(),
            Concurrency::Replace => {
                for slot in &active {
                    self.cancel(now, *slot, RunFailure::Replaced);
                }
                active.into_iter().any(|slot| self.phase(slot).is_some_and(Phase::is_active))
            }
        }
    }

    /// The runs that keep others waiting. One that waits for a clock that was ahead to be right keeps nothing.
    fn going_on(&self, now: Moment) -> impl Iterator<Item = Slot> {
        let held = move |slot: Slot, run: &Run| matches!(run.phase, Phase::Waiting { .. }) && is_ahead(slot, now);
        self.ledger.active().filter_map(move |(slot, run)| (!held(slot, run)).then_some(slot))
    }

    /// The next slot of a backfill begins once the one before it is over, and in nobody's place: `Replace` cancels
    /// nothing for it.
    fn begin_backfill(&mut self, now: Moment) {
        let most = match self.profile.policy.concurrency {
            Concurrency::Allow => ACTIVE_MAX,
            Concurrency::Forbid | Concurrency::Replace => 1,
        };
        let share = |slot| if matches!(slot, Slot::Backfill(_)) { most } else { 1 };
        if self.going_on(now).map(share).sum::<usize>() >= most {
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
        if let Some(first) = due.uncounted {
            let last = due.slots.first().map_or(first, |next| next.minus(MS));
            let stretches = self.ledger.open_between(first, last).into_iter();
            // A step of the clock is one thing, and what came before it another.
            let halves = stretches.flat_map(|(first, last)| match self.stepped {
                Some(from) if first <= from && from < last => vec![(first, from), (from.plus(MS), last)],
                _ => vec![(first, last)],
            });
            for (first, last) in halves.collect::<Vec<_>>() {
                // That of a slot, not of a moment between two.
                let reason = self.reason(self.profile.timetable.next_after(first.minus(MS)).unwrap_or(first));
                counted(&*self.profile.timetable, first, last, reason).into_iter().for_each(|gap| self.pass(gap));
            }
        }
        let gap = |same: &[Wall]| {
            let (first, last) = (*same.first()?, *same.last()?);
            Some(Gap { reason: self.reason(first), first, last, count: same.len() as u64 })
        };
        // What is closed between two of them is no part of a gap.
        let together = |a: &Wall, b: &Wall| {
            self.reason(*a) == self.reason(*b) && self.profile.timetable.next_after(*a) == Some(*b)
        };
        let gaps: Vec<Gap> = passed.chunk_by(together).filter_map(gap).collect();
        for gap in gaps {
            self.pass(gap);
        }
        let (mut pending, mut turn) = (None, None);
        for slot in kept {
            turn = self.turn_to_catch_up(now, *slot);
            if !now.room || turn.is_some() || self.is_blocked(now) || !self.may_claim(now) {
                pending = Some(*slot);
                break;
            }
            self.claim(now, Slot::Scheduled(*slot));
            if now.wall.since(*slot) > ON_TIME {
                self.caught_up = Some((Slot::Scheduled(*slot), now.mono));
            }
        }
        self.stepped = None;
        let last_due = kept.last().or(passed.last()).copied().unwrap_or(now.wall).max(now.wall);
        let next = self.ledger.next_slot(&*self.profile.timetable, last_due);
        let next = next.map(|next| now.mono + next.since(now.wall));
        // A slot that waits is given up when it would start too late.
        let given_up = pending.and_then(|slot| Some((slot, self.lateness_max(slot, now.wall)?))).map(|(slot, late)| {
            let at = slot.plus(late + Duration::from_millis(1));
            now.mono + at.since(now.wall)
        });
        let room = pending.filter(|_| !now.room).map(|_| now.mono + ROOM_LOOK);
        [next, given_up, room, turn].into_iter().flatten().min().unwrap_or(now.mono + LOOK)
    }

    /// When a slot that is caught up has its turn; none: now, or it is in time. They come one by one: each when the run
    /// of the one before has ended, or half a slot's time after it began. So they start no faster than an app can bear,
    /// and yet faster than slots become due.
    fn turn_to_catch_up(&self, now: Moment, slot: Wall) -> Option<Mono> {
        if now.wall.since(slot) <= ON_TIME {
            return None;
        }
        let (_, since) = self.caught_up.filter(|(last, _)| self.phase(*last).is_some_and(Phase::is_active))?;
        let next = self.profile.timetable.next_after(slot)?;
        Some(since + next.since(slot) / 2).filter(|turn| *turn > now.mono)
    }

    fn pass(&mut self, gap: Gap) {
        self.ledger.pass(gap);
        self.record(JobEvent::Passed(gap));
    }

    /// How late this slot may start; none: however late. What a clock that was behind opened again is not caught up.
    fn lateness_max(&self, slot: Wall, now: Wall) -> Option<Duration> {
        let late = self.profile.policy.lateness_max();
        if self.ledger.is_bygone(slot, now) { Some(late.map_or(ON_TIME, |late| late.min(ON_TIME))) } else { late }
    }

    /// Where in the due slots those begin that get a run.
    fn first_to_start(&self, due: &[Wall], now: Wall) -> usize {
        let policy = &self.profile.policy;
        let is_too_late = |slot: &Wall| self.lateness_max(*slot, now).is_some_and(|late| now.since(*slot) > late);
        let in_time = due.partition_point(is_too_late);
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
        // A clock that was just stepped ahead passed over them, whatever goes on.
        let leapt = self.stepped.is_some_and(|from| slot > from);
        let went_on = self.ledger.active().filter(|(_, run)| run.began.is_some_and(|began| began <= slot)).count();
        if leapt {
            GapReason::Missed
        } else if self.ledger.suspension.covers(slot) {
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
        let (timetable, ledger, runs) = (&*self.profile.timetable, &self.ledger, &self.ledger.runs);
        std::iter::successors(ledger.next_slot(timetable, after), |slot| ledger.next_slot(timetable, *slot))
            .take_while(move |slot| *slot <= now)
            .filter(|slot| !runs.contains_key(&Slot::Scheduled(*slot)))
    }

    /// The slots that are due and not decided. After a long outage: the last of them, and the first of all.
    fn due(&self, now: Wall) -> Due {
        let decided = self.ledger.decided;
        let slots: Vec<Wall> = self.due_after(decided, now).take(COUNTED_MAX + 1).collect();
        if slots.len() <= COUNTED_MAX {
            return Due { slots, uncounted: None };
        }
        let recent = self.last_due(now);
        let before = |first: &&Wall| recent.first().is_some_and(|recent| *first < recent);
        Due { uncounted: slots.first().filter(before).copied(), slots: recent }
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

/// Whether a slot is so far in the future that a clock which was ahead must have begun its run. No attempt of it is
/// made before its time.
fn is_ahead(slot: Slot, now: Moment) -> bool {
    matches!(slot, Slot::Scheduled(at) if at.since(now.wall) > LEAP)
}

struct Due {
    slots: Vec<Wall>,
    /// The first slot of those that come before.
    uncounted: Option<Wall>,
}
