//! A hold that lasts for as long as a connection is kept open: when it is extended, and when it is over although the
//! connection is still there. An app that hangs keeps its connections, so those alone do not tell that it works.

use std::time::Duration;

use super::super::ids::Mono;

/// What to do next about such a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldStep {
    /// Nothing until then, unless the app's health changes.
    Wait { until: Mono },
    /// Extend it.
    Extend,
    /// Nobody may act on it from now on: it is given back.
    Over(HoldEnd),
}

/// Why a hold is over that was neither given back nor another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldEnd {
    /// Its time ran out before an extension was answered.
    NotExtended,
    /// Its time ran out while the app failed its health check.
    AppFails,
    /// It was held for as long as it was asked for.
    Max,
}

/// The plan of one hold. Moments are the sidecar's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldOpen {
    /// Until when it may be acted upon (R2), as the store has granted it.
    granted_until: Mono,
    /// When it ends whatever happens.
    ends_at: Option<Mono>,
    extend_at: Mono,
}

impl HeldOpen {
    /// One that was granted now, and is extended every third of its lease. `max`: how long it may last in all.
    pub fn new(now: Mono, granted_until: Mono, lease: Duration, max: Option<Duration>) -> Self {
        Self { granted_until, ends_at: max.map(|max| now + max), extend_at: now + lease / 3 }
    }

    /// When it ends, however often it is extended.
    pub fn ends_at(&self) -> Option<Mono> {
        self.ends_at
    }

    /// Until when it may be acted upon. Whoever has it is promised no more.
    pub fn valid_until(&self) -> Mono {
        self.ends_at.map_or(self.granted_until, |end| end.min(self.granted_until))
    }

    /// While the app fails its health check nothing is extended: then the hold ends with what was promised. If the app
    /// is well again before that, the hold goes on.
    pub fn step(&self, now: Mono, app_fails: bool) -> HoldStep {
        let end = self.valid_until();
        match app_fails {
            _ if self.ends_at.is_some_and(|end| now >= end) => HoldStep::Over(HoldEnd::Max),
            true if now >= end => HoldStep::Over(HoldEnd::AppFails),
            false if now >= end => HoldStep::Over(HoldEnd::NotExtended),
            true => HoldStep::Wait { until: end },
            false if now >= self.extend_at => HoldStep::Extend,
            false => HoldStep::Wait { until: end.min(self.extend_at) },
        }
    }

    /// The extension that was sent then has succeeded.
    pub fn extended(&mut self, sent_at: Mono, granted_until: Mono, lease: Duration) {
        (self.granted_until, self.extend_at) = (granted_until, sent_at + lease / 3);
    }

    /// Whoever has it was promised this besides, by an extension that was asked for from elsewhere.
    pub fn promised(&mut self, until: Mono) {
        self.granted_until = self.granted_until.max(until);
    }

    /// An extension has failed, or had no answer: the next is at this moment.
    pub fn failed(&mut self, next_at: Mono) {
        self.extend_at = next_at;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(30);

    fn at(second: u64) -> Mono {
        Mono::from_nanos(0) + Duration::from_secs(second)
    }

    #[test]
    fn every_moment_of_a_hold_has_its_step() {
        use HoldEnd::{AppFails, Max, NotExtended};
        use HoldStep::{Extend, Over, Wait};
        let wait = |second| Wait { until: at(second) };
        // Granted at 0 s until 29 s, and what it may last in all; now; what to do while the app is well, and not.
        let table = [
            (None, 0, wait(10), wait(29)),
            (None, 10, Extend, wait(29)),
            (None, 28, Extend, wait(29)),
            (None, 29, Over(NotExtended), Over(AppFails)),
            (Some(5), 0, wait(5), wait(5)),
            (Some(5), 5, Over(Max), Over(Max)),
            (Some(20), 10, Extend, wait(20)),
            (Some(20), 20, Over(Max), Over(Max)),
            (Some(60), 29, Over(NotExtended), Over(AppFails)),
        ];
        for (max, now, well, failing) in table {
            let hold = HeldOpen::new(at(0), at(29), LEASE, max.map(Duration::from_secs));
            assert_eq!((hold.step(at(now), false), hold.step(at(now), true)), (well, failing), "{max:?}, at {now} s");
        }
    }

    #[test]
    fn an_extension_moves_the_end_but_never_past_what_was_asked_for() {
        let mut hold = HeldOpen::new(at(0), at(29), LEASE, Some(Duration::from_secs(45)));
        hold.failed(at(12));
        assert_eq!(hold.step(at(11), false), HoldStep::Wait { until: at(12) });
        hold.extended(at(12), at(41), LEASE);
        assert_eq!((hold.valid_until(), hold.step(at(13), false)), (at(41), HoldStep::Wait { until: at(22) }));
        hold.extended(at(22), at(51), LEASE);
        assert_eq!((hold.valid_until(), hold.step(at(45), false)), (at(45), HoldStep::Over(HoldEnd::Max)));
    }

    #[test]
    fn what_was_promised_besides_is_kept_and_a_shorter_promise_takes_nothing_back() {
        let mut hold = HeldOpen::new(at(0), at(29), LEASE, Some(Duration::from_secs(45)));
        hold.promised(at(40));
        hold.promised(at(35));
        assert_eq!(hold.step(at(39), true), HoldStep::Wait { until: at(40) });
        hold.promised(at(60));
        assert_eq!(hold.valid_until(), at(45));
    }

    #[test]
    fn an_app_that_is_well_again_in_time_keeps_its_hold() {
        let hold = HeldOpen::new(at(0), at(29), LEASE, None);
        assert_eq!(hold.step(at(28), true), HoldStep::Wait { until: at(29) });
        assert_eq!(hold.step(at(28), false), HoldStep::Extend);
    }
}
