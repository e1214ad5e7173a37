//! Growing, random pauses between tries.

use std::time::Duration;

use crate::protocol::Random;

/// Each pause is between half of a limit and the limit, which grows from pause to pause. Seeded: randomness is handed
/// in, so that replicas differ and a run can be repeated.
#[derive(Debug)]
pub struct Backoff {
    random: Random,
    least: Duration,
    limit: Duration,
    factor: u32,
}

impl Backoff {
    /// The first limit is `least`.
    pub const fn new(seed: u64, least: Duration) -> Self {
        Self { random: Random::new(seed), least, limit: least, factor: 2 }
    }

    /// The limit grows by this factor instead of 2.
    #[must_use]
    pub const fn growing_by(self, factor: u32) -> Self {
        Self { factor, ..self }
    }

    /// It worked: the next pause is a first one.
    pub const fn reset(&mut self) {
        self.limit = self.least;
    }

    /// Something that will not pass soon: the limit is this at least.
    pub fn raise(&mut self, limit: Duration) {
        self.limit = self.limit.max(limit);
    }

    /// The next pause. `most`: the limit does not grow beyond this now; less than the least limit counts as that.
    pub fn next(&mut self, most: Duration) -> Duration {
        let limit = self.limit.min(most.max(self.least));
        self.limit = limit.saturating_mul(self.factor);
        self.random.between(limit / 2, limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: Duration = Duration::from_millis(25);
    const MOST: Duration = Duration::from_secs(1);

    fn ten(mut backoff: Backoff) -> Vec<Duration> {
        (0..10).map(|_| backoff.next(MOST)).collect()
    }

    #[test]
    fn pauses_grow_to_a_bound_repeat_with_their_seed_and_differ_without() {
        let pauses = ten(Backoff::new(1, LEAST));
        let limits = (0..10).map(|n| (LEAST * 2u32.pow(n)).min(MOST));
        for (pause, limit) in pauses.iter().zip(limits) {
            assert!((limit / 2..=limit).contains(pause), "{pauses:?}");
        }
        assert_eq!(pauses, ten(Backoff::new(1, LEAST)));
        assert_ne!(pauses, ten(Backoff::new(2, LEAST)));
        assert!(ten(Backoff::new(1, LEAST).growing_by(4))[3] >= MOST / 2);
    }

    #[test]
    fn after_a_success_the_first_pause_comes_again() {
        let mut backoff = Backoff::new(1, LEAST);
        backoff.raise(MOST);
        assert!(backoff.next(MOST) >= MOST / 2);
        backoff.reset();
        assert!(backoff.next(MOST) <= LEAST);
    }

    #[test]
    fn a_bound_below_the_least_limit_is_none() {
        assert!(Backoff::new(1, LEAST).next(Duration::ZERO) >= LEAST / 2);
    }
}
