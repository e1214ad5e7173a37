//! Pseudo-random spreading of wake-ups and retries, from a seed that is handed in: SplitMix64 (Steele, Lea and Flood,
//! 2014).

use std::time::Duration;

/// A seeded source. The same seed gives the same rolls.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A source that begins with this seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A span between `least` and `most`, to the microsecond.
    pub fn between(&mut self, least: Duration, most: Duration) -> Duration {
        let width = u64::try_from(most.saturating_sub(least).as_micros()).unwrap_or(u64::MAX);
        least + Duration::from_micros(if width == 0 { 0 } else { self.roll() % width })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rolls_stay_between_their_bounds_and_repeat_with_the_seed() {
        let (least, most) = (Duration::from_millis(2), Duration::from_millis(7));
        let rolls = |seed| {
            let mut random = Random::new(seed);
            (0..1_000).map(|_| random.between(least, most)).collect::<Vec<_>>()
        };
        assert!(rolls(1).iter().all(|span| (least..most).contains(span)));
        assert_eq!(rolls(1), rolls(1));
        assert_ne!(rolls(1), rolls(2));
        assert_eq!(Random::new(1).between(most, most), most);
    }
}
