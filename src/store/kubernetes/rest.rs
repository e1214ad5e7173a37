//! Pauses for an API server, or for a role, that does not do its work: all replicas wait for it to come back.

use std::time::Duration;

use crate::protocol::{Mono, Random};
use crate::store::StoreError;

/// However long an overloaded server asks to wait, it is asked again after this.
const SPAN_MAX: Duration = Duration::from_secs(30);
/// The longest rest after the first of several failures. It doubles with each.
const FIRST: Duration = Duration::from_secs(1);

/// Since when something fails, why, and when it is to be tried again.
pub(super) struct Rest {
    dice: Random,
    failures: u32,
    until: Mono,
    /// Why.
    error: Option<StoreError>,
}

impl Rest {
    /// `seed` spreads the replicas' rests.
    pub fn new(seed: u64) -> Self {
        Self { dice: Random::new(seed), failures: 0, until: Mono::default(), error: None }
    }

    /// It works.
    pub fn end(&mut self) {
        (self.failures, self.error) = (0, None);
    }

    /// It failed. `asked`: for how long the server wants to be left alone, at least. `longest`: how long a rest may
    /// become without that.
    pub fn begin(&mut self, now: Mono, error: StoreError, asked: Option<Duration>, longest: Duration) {
        let limit = (FIRST * 2u32.pow(self.failures.min(20))).min(longest);
        self.failures = self.failures.saturating_add(1);
        let span = self.dice.between(limit / 2, limit).max(asked.unwrap_or_default());
        self.until = now + span.min(SPAN_MAX);
        self.error = Some(error);
    }

    /// For how long it is to be left alone by whoever can wait, and why.
    pub fn left(&self, now: Mono) -> Option<(Duration, StoreError)> {
        let left = self.until.since(now);
        self.error.clone().filter(|_| !left.is_zero()).map(|error| (left, error))
    }

    /// The same for who would ask now. Of all who wait, one is let through when the rest is over, and the others wait
    /// for what it is told, or for `answer_max`.
    pub fn admit(&mut self, now: Mono, answer_max: Duration) -> Option<(Duration, StoreError)> {
        let left = self.left(now);
        if left.is_none() && self.error.is_some() {
            self.until = now + answer_max;
        }
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: Duration = Duration::from_secs(5);

    fn at(ms: u64) -> Mono {
        Mono::from_nanos(ms * 1_000_000)
    }

    fn error() -> StoreError {
        StoreError::Refused { reason: "not now".to_owned() }
    }

    /// How long the rest is after each of so many failures in a row.
    fn rests(seed: u64, asked: Option<Duration>, failures: usize) -> Vec<Duration> {
        let mut rest = Rest::new(seed);
        let mut fail = |_| {
            rest.begin(at(0), error(), asked, LONGEST);
            rest.left(at(0)).expect("it has begun").0
        };
        (0..failures).map(&mut fail).collect()
    }

    #[test]
    fn rests_grow_to_a_bound_and_differ_between_replicas() {
        let first = rests(1, None, 30);
        assert!(first[0] >= FIRST / 2 && first[0] <= FIRST, "{first:?}");
        assert!(first[3..].iter().all(|rest| *rest >= LONGEST / 2 && *rest <= LONGEST), "{first:?}");
        assert_ne!(first, rests(2, None, 30));
    }

    #[test]
    fn what_the_server_asks_for_makes_a_rest_longer_but_never_shorter_nor_endless() {
        assert!(rests(1, Some(Duration::ZERO), 1)[0] >= FIRST / 2, "Retry-After: 0 is no leave to hurry");
        assert_eq!(rests(1, Some(Duration::from_secs(20)), 1)[0], Duration::from_secs(20));
        assert_eq!(rests(1, Some(Duration::from_secs(1 << 40)), 1)[0], SPAN_MAX);
    }

    #[test]
    fn one_asks_when_a_rest_is_over_and_the_others_wait_for_its_answer() {
        let mut rest = Rest::new(1);
        assert!(rest.admit(at(0), LONGEST).is_none() && rest.admit(at(0), LONGEST).is_none(), "nothing is wrong");
        rest.begin(at(0), error(), None, LONGEST);
        assert!(rest.admit(at(499), LONGEST).is_some());
        assert!(rest.admit(at(1_000), LONGEST).is_none());
        assert_eq!(rest.admit(at(1_001), LONGEST), Some((LONGEST - Duration::from_millis(1), error())));
        assert!(rest.admit(at(6_000), LONGEST).is_none(), "it was not told anything: the next one asks");
        rest.end();
        assert!(rest.left(at(6_000)).is_none());
    }
}
