//! The slots of a cron expression on the clocks of a time zone, through their changes.
//!
//! A zone is a row of stretches in which its clocks run evenly. Within one, a local time is a moment and back by the
//! same offset, and the library finds the next local time that fits. Between two stretches clocks are put forward or
//! back:
//!
//! ```text
//! forward  02:00 -> 03:00   local times in between do not exist
//! back     03:00 -> 02:00   local times in between come twice
//! ```
//!
//! An expression whose hours begin with `*` goes by the clocks and runs on through both: it has no slot at a time that
//! does not exist, and two at one that comes twice. Any other names its hours, and somebody counts on each of them once
//! a day: what would be lost in the gap comes together as one slot at its end, and of a time that comes twice the first
//! counts.

use croner::Cron;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};

/// The end of the year 4999, in seconds since the Unix epoch: the library knows years up to 5000, in any zone.
const LAST_S: i64 = 95_617_583_999;

/// A cron expression in a time zone.
pub(super) struct Local {
    pub(super) cron: Cron,
    pub(super) zone: TimeZone,
    /// Whether the hours begin with `*`, or are all 24.
    pub(super) by_clock: bool,
}

/// A moment at which clocks are put forward or back, in seconds, and their offset until then.
struct Change {
    at: i64,
    before: i64,
}

impl Local {
    /// The first slot at or after this moment, in seconds since the Unix epoch; none after the year 4999.
    pub(super) fn slot_from(&self, first: i64) -> Option<i64> {
        if first > LAST_S {
            return None;
        }
        let mut at = first;
        let mut last = self.change(self.zone.preceding(timestamp(at + 1)?).next().map(|found| found.timestamp()));
        let mut found: Option<(i64, i64)> = None;
        loop {
            let offset = self.offset(at)?;
            let mut from = at + offset;
            if let Some(last) = last.filter(|_| !self.by_clock) {
                let in_gap = last.at == at && self.time_from(at + last.before).is_some_and(|time| time < from);
                if in_gap {
                    return Some(at);
                }
                // The second time around nothing is due that was before.
                from = from.max(last.at + last.before);
            }
            let time = match found {
                Some((asked, time)) if (asked..=time).contains(&from) => time,
                _ => self.time_from(from)?,
            };
            found = Some((from, time));
            let slot = time - offset;
            match self.change(self.zone.following(timestamp(at)?).next().map(|found| found.timestamp())) {
                Some(next) if next.at <= slot => {
                    at = next.at;
                    last = Some(next);
                }
                _ => return Some(slot).filter(|slot| *slot <= LAST_S),
            }
        }
    }

    fn change(&self, at: Option<Timestamp>) -> Option<Change> {
        let at = at?.as_second();
        Some(Change { at, before: self.offset(at - 1)? })
    }

    /// How far the zone's clocks are ahead of UTC at this moment, in seconds.
    fn offset(&self, at: i64) -> Option<i64> {
        Some(i64::from(self.zone.to_offset(timestamp(at)?).seconds()))
    }

    /// The first local time that fits the expression, at or after this one; both as if they were UTC.
    fn time_from(&self, from: i64) -> Option<i64> {
        let from: DateTime = Offset::UTC.to_datetime(timestamp(from)?);
        let time = self.cron.find_next_occurrence(&from, true).ok()?;
        Offset::UTC.to_timestamp(time).ok().map(Timestamp::as_second)
    }
}

fn timestamp(seconds: i64) -> Option<Timestamp> {
    Timestamp::from_second(seconds).ok()
}
