//! Slots of the past that somebody wants run.

use std::time::Duration;

use super::ids::Wall;

/// How many backfills of a job are remembered, so that none of their slots is run again.
const KEPT: usize = 10;

/// A range of slots, each of which is run once, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backfill {
    /// When it was asked for. No two of a job have the same moment.
    pub asked: Wall,
    /// The range that was asked for, both ends included.
    pub from: Wall,
    pub to: Wall,
    /// Its last slot.
    pub last: Wall,
    /// Every slot up to here has its run, or needs none.
    pub done: Wall,
    /// How many slots had none when it was asked for.
    pub slots: u64,
}

impl Backfill {
    /// Whether slots are left.
    pub fn goes_on(&self) -> bool {
        self.done < self.last
    }
}

/// Why a backfill cannot begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackfillRefusal {
    /// Another goes on.
    GoesOn(Backfill),
    /// More slots than [`super::BACKFILL_MAX`].
    TooMany,
    /// The schedule has no slot there.
    NoSlot,
    /// The slots after this one are not decided: the schedule may run them yet.
    Undecided(Wall),
    /// Each slot has a run that is remembered, or is of an earlier backfill.
    Done,
}

/// The backfills of a job that are remembered, the oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Backfills(pub Vec<Backfill>);

impl Backfills {
    /// The one that goes on.
    pub fn going_on(&self) -> Option<&Backfill> {
        self.0.iter().rev().find(|backfill| backfill.goes_on())
    }

    /// The one of this range.
    pub(super) fn of(&self, from: Wall, to: Wall) -> Option<&Backfill> {
        self.0.iter().find(|backfill| (backfill.from, backfill.to) == (from, to))
    }

    /// Whether this slot was decided by one of them.
    pub(super) fn cover(&self, slot: Wall) -> bool {
        self.0.iter().any(|backfill| backfill.from <= slot && slot <= backfill.done)
    }

    /// A new one, of which nothing is done.
    pub(super) fn begin(&mut self, (from, to): (Wall, Wall), last: Wall, slots: u64, now: Wall) -> Backfill {
        let after = self.0.last().map_or(Wall::default(), |before| before.asked.plus(Duration::from_millis(1)));
        let done = from.minus(Duration::from_millis(1));
        let backfill = Backfill { asked: now.max(after), from, to, last, done, slots };
        self.0.push(backfill);
        self.forget();
        backfill
    }

    /// This slot of the one that goes on is decided.
    pub(super) fn decide(&mut self, slot: Wall) {
        if let Some(backfill) = self.0.iter_mut().rev().find(|backfill| backfill.goes_on()) {
            backfill.done = backfill.done.max(slot);
        }
    }

    /// Nothing more of the one that goes on is run.
    pub(super) fn end(&mut self) {
        if let Some(backfill) = self.0.iter_mut().rev().find(|backfill| backfill.goes_on()) {
            backfill.last = backfill.done;
        }
    }

    /// Takes in those that others have asked for, and what is known of each beyond this.
    pub(super) fn adopt(&mut self, stored: Self) {
        for theirs in stored.0 {
            match self.0.iter_mut().find(|ours| ours.asked == theirs.asked) {
                Some(ours) => (ours.done, ours.last) = (ours.done.max(theirs.done), ours.last.min(theirs.last)),
                None => self.0.push(theirs),
            }
        }
        self.0.sort_by_key(|backfill| backfill.asked);
        self.forget();
    }

    fn forget(&mut self) {
        let surplus = self.0.len().saturating_sub(KEPT);
        self.0.drain(..surplus);
    }
}
