//! Clocks that are ahead, or behind: which slots are decided for good.

use std::time::Duration;

use super::{Gap, GapReason, Ledger};
use crate::protocol::jobs::ids::Wall;
use crate::protocol::jobs::policy::Timetable;

/// A ledger that is further ahead than this was written under another time: clocks that are kept do not differ by so
/// much.
pub(in crate::protocol::jobs) const LEAP: Duration = Duration::from_secs(60);
/// So many closed stretches are remembered.
const CLOSED_KEPT: usize = 8;
/// The smallest step of a moment. Slots are on whole seconds, stretches need not be.
pub(in crate::protocol::jobs) const MS: Duration = Duration::from_millis(1);
/// So many slots of a gap are counted one by one.
pub(in crate::protocol::jobs) const COUNTED_MAX: usize = 1_000;

/// What was decided over a long stretch at once: in an outage, or because a clock was ahead, and a leader cannot tell
/// which. Slots that were passed over so, and had no run, are *open*: they are decided, and a leader whose clock is
/// behind the ledger may decide them anew. All others that are decided are decided for good.
///
/// ```text
///   decided for good ──┤ settled     open     ├── closed ──┤    open    ├── closed ──┤ decided
/// ```
///
/// So no slot has two runs, whatever clocks do, and a job goes on when a clock is right again that was years ahead.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leaps {
    /// Up to here everything is decided for good; none: as far as anything is decided.
    pub settled: Option<Wall>,
    /// What is decided for good beyond that: the first and the last slot of each stretch, in order. After slots were
    /// opened again, also beyond [`Ledger::decided`].
    pub closed: Vec<(Wall, Wall)>,
    /// Up to here slots were decided once, and were opened again because a clock showed an earlier time.
    pub reopened: Option<Wall>,
}

impl Leaps {
    /// Forgets what says nothing any more. Of too many stretches, what was open shortest between two is closed: a clock
    /// that was far ahead passed over more than an outage did.
    fn tidy(&mut self, decided: Wall) {
        while self.closed.len() > CLOSED_KEPT {
            let settled = self.settled.unwrap_or(decided);
            let ends = std::iter::once(settled).chain(self.closed.iter().map(|(_, last)| *last));
            let opens = ends.zip(&self.closed).map(|(end, (first, _))| first.since(end));
            let Some((at, _)) = opens.enumerate().min_by_key(|(_, open)| *open) else { break };
            let (_, last) = self.closed.remove(at);
            match at.checked_sub(1) {
                Some(before) => self.closed[before].1 = last,
                None => self.settled = Some(last),
            }
        }
        self.settled = self.settled.filter(|settled| *settled < decided);
        let settled = self.settled.unwrap_or(decided);
        self.closed.retain(|(_, last)| *last > settled);
        self.reopened = self.reopened.filter(|reopened| *reopened > decided);
    }
}

impl Ledger {
    /// Decides these slots. Those between them and what was decided last are closed.
    pub(super) fn decide(&mut self, first: Wall, last: Wall, for_good: bool) {
        let before = self.decided;
        self.decided = before.max(last);
        let leaps = &mut self.leaps;
        if !for_good {
            leaps.settled.get_or_insert(before);
        } else if leaps.settled.is_some() {
            match leaps.closed.iter_mut().find(|(_, end)| *end == before) {
                Some((_, end)) => *end = last,
                None => leaps.closed.push((first, last)),
            }
            leaps.closed.sort_unstable();
        }
        leaps.tidy(self.decided);
    }

    /// The first slot after this moment that is not decided beyond [`Self::decided`].
    pub fn next_slot(&self, timetable: &dyn Timetable, after: Wall) -> Option<Wall> {
        let mut slot = timetable.next_after(after)?;
        for (first, last) in &self.leaps.closed {
            if (*first..=*last).contains(&slot) {
                slot = timetable.next_after(*last)?;
            }
        }
        Some(slot)
    }

    /// What of this stretch is not closed, in stretches.
    pub(in crate::protocol::jobs) fn open_between(&self, first: Wall, last: Wall) -> Vec<(Wall, Wall)> {
        let (mut open, mut from) = (Vec::new(), first);
        for (begin, end) in self.leaps.closed.iter().filter(|(begin, end)| *begin <= last && *end >= first) {
            open.push((from, begin.minus(MS)));
            from = end.plus(MS);
        }
        open.push((from, last));
        open.retain(|(from, to)| from <= to);
        open
    }

    /// Opens the slots again that a clock ahead of this moment passed over, and that had no run. False when there are
    /// none: then all that is decided is decided for good.
    pub(in crate::protocol::jobs) fn reopen(&mut self, timetable: &dyn Timetable, now: Wall) -> bool {
        let Some(settled) = self.leaps.settled else { return false };
        let to = settled.max(now);
        if self.next_slot(timetable, to).is_none_or(|slot| slot > self.decided) {
            return false;
        }
        self.leaps.reopened = self.leaps.reopened.max(Some(self.decided));
        self.leaps.settled = None;
        self.decided = to;
        self.leaps.tidy(to);
        // What is open was counted among the missed, and is no longer.
        let mut gaps = Vec::new();
        for gap in std::mem::take(&mut self.gaps) {
            if gap.reason != GapReason::Missed || gap.last <= to {
                gaps.push(gap);
                continue;
            }
            let from = gap.first.max(to.plus(MS));
            let closed = self.leaps.closed.iter().map(|(first, last)| (from.max(*first), gap.last.min(*last)));
            for (first, last) in std::iter::once((gap.first, to)).chain(closed) {
                gaps.extend(counted(timetable, first, last, gap.reason));
            }
        }
        self.gaps = gaps;
        true
    }

    /// Up to when nothing is due, because it is decided.
    pub(in crate::protocol::jobs) fn decided_until(&self, timetable: &dyn Timetable) -> Wall {
        let mut until = self.decided;
        // One may follow upon the other.
        while let Some(next) = timetable.next_after(until)
            && let Some((_, last)) = self.leaps.closed.iter().find(|(first, last)| *first <= next && next <= *last)
        {
            until = *last;
        }
        until
    }

    /// Whether a slot that is ahead of all others is decided for good.
    pub(super) fn is_closed(&self, slot: Wall) -> bool {
        self.leaps.closed.iter().any(|(first, last)| *first <= slot && slot <= *last)
    }

    /// Whether a slot was opened again by a clock that was behind: it had passed for all others before that.
    pub(in crate::protocol::jobs) fn is_bygone(&self, slot: Wall, now: Wall) -> bool {
        self.leaps.reopened.is_some_and(|reopened| slot <= reopened && reopened <= now)
    }
}

/// The slots of a stretch as a gap, the first of very many counted one by one; none when there are none.
pub(in crate::protocol::jobs) fn counted(
    timetable: &dyn Timetable,
    first: Wall,
    last: Wall,
    reason: GapReason,
) -> Option<Gap> {
    let next = |slot: &Wall| timetable.next_after(*slot);
    let slots = std::iter::successors(next(&first.minus(MS)), next).take_while(|slot| *slot <= last);
    let slots: Vec<Wall> = slots.take(COUNTED_MAX).collect();
    let last = if slots.len() < COUNTED_MAX { *slots.last()? } else { last };
    Some(Gap { reason, first: *slots.first()?, last, count: slots.len() as u64 })
}
