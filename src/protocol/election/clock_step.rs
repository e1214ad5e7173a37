//! Notices when the store's clock is stepped: it then moves against this replica's clock by more than two honest clocks
//! can.

use std::time::Duration;

use super::super::ids::{Mono, StoreTime};

/// What two clocks may drift apart: each up to 1 %.
const DRIFT_DIVISOR: i64 = 50;
/// Below this a step is not worth a word.
const STEP_MIN_US: i64 = 100_000;

/// The bounds that one reply sets on how far the store's clock is ahead of ours.
#[derive(Clone, Copy, Debug, Hash)]
struct Bounds {
    at: Mono,
    least_us: i64,
    most_us: i64,
}

/// The store's clock moved against ours by more than clocks drift.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// By this much, forwards when positive.
    pub(super) by_ms: i64,
    /// Within this span: the time since the reply before.
    pub(super) within: Duration,
}

/// Remembers the last bounds.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct ClockWatch {
    last: Option<Bounds>,
}

impl ClockWatch {
    /// Takes a reply's stamp: the store read its clock between `sent_at` and `now`. Returns how it
    /// was stepped since the reply before, if it was.
    pub(super) fn observe(&mut self, sent_at: Mono, now: Mono, stamp: StoreTime) -> Option<Step> {
        let micros = |at: Mono| i64::try_from(at.as_nanos() / 1_000).unwrap_or(i64::MAX);
        let stamp = i64::try_from(stamp.0).unwrap_or(i64::MAX);
        let new = Bounds { at: now, least_us: stamp - micros(now), most_us: stamp - micros(sent_at) };
        let old = self.last.replace(new)?;
        let within = now.since(old.at);
        let allowed = STEP_MIN_US + i64::try_from(within.as_micros()).unwrap_or(i64::MAX) / DRIFT_DIVISOR;
        // What a server says is not to be trusted: near the end of the numbers it is no step, and no overflow.
        let by_us = if new.least_us > old.most_us.saturating_add(allowed) {
            new.least_us.saturating_sub(old.most_us)
        } else if new.most_us < old.least_us.saturating_sub(allowed) {
            new.most_us.saturating_sub(old.least_us)
        } else {
            return None;
        };
        Some(Step { by_ms: by_us / 1_000, within })
    }
}

/// How much of a heartbeat's lease a candidate does not count on: messages are delayed.
pub(super) fn slack(lease: Duration) -> Duration {
    lease / 10
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Mono {
        Mono::from_nanos(ms * 1_000_000)
    }

    fn stamp(ms: u64) -> StoreTime {
        StoreTime(1_700_000_000_000_000 + ms * 1_000)
    }

    #[test]
    fn steps_are_reported_and_drift_and_delay_are_not() {
        let mut watch = ClockWatch::default();
        assert_eq!(watch.observe(ms(0), ms(10), stamp(5)), None, "the first reply only sets the bounds");
        assert_eq!(watch.observe(ms(5_000), ms(5_900), stamp(5_880)), None, "a slow reply is not a step");
        assert_eq!(watch.observe(ms(10_000), ms(10_010), stamp(10_100)), None, "one per cent fast is drift");
        let step = |by_ms| Some(Step { by_ms, within: Duration::from_secs(5) });
        assert_eq!(watch.observe(ms(15_000), ms(15_010), stamp(45_100)), step(29_990));
        assert_eq!(watch.observe(ms(20_000), ms(20_010), stamp(50_100)), None, "reported once");
        assert_eq!(watch.observe(ms(25_000), ms(25_010), stamp(15_100)), step(-39_990));
    }

    #[test]
    fn what_is_allowed_grows_with_the_time_between_two_replies_and_one_microsecond_more_is_a_step() {
        // A tenth of a second, and two hundredths of five seconds.
        let allowed_us = 200_000;
        let observe = |by_us: i64| {
            let mut watch = ClockWatch::default();
            let at = |moved: i64| StoreTime(1_700_000_000_000_000_u64.saturating_add_signed(moved));
            assert_eq!(watch.observe(ms(10), ms(10), at(10_000)), None);
            watch.observe(ms(5_010), ms(5_010), at(5_010_000 + by_us)).map(|step| step.by_ms)
        };
        assert_eq!([observe(allowed_us), observe(-allowed_us)], [None, None]);
        assert_eq!([observe(allowed_us + 1), observe(-allowed_us - 1)], [Some(200), Some(-200)]);
    }

    #[test]
    fn a_clock_at_the_end_of_the_numbers_is_only_a_number() {
        let mut watch = ClockWatch::default();
        let (first, last) = (Mono::from_nanos(0), StoreTime(u64::MAX));
        assert_eq!(watch.observe(first, first, last), None);
        let standing_still = Step { by_ms: -5_000, within: ms(5_010).since(first) };
        assert_eq!(watch.observe(ms(5_000), ms(5_010), last), Some(standing_still));
        let back = watch.observe(ms(10_000), ms(10_010), StoreTime(0));
        assert!(back.is_some_and(|step| step.by_ms < -9_000_000_000_000_000), "{back:?}");
    }
}
