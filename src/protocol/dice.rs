//! Pseudo-random spreading of wake-ups and retries, from a seed that is handed in: SplitMix64 (Steele, Lea and Flood,
//! 2014).

use std::time::Duration;

/// A seeded source. The same seed gives the same rolls.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
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

    /// Whether it is one of so many that chance chooses of `all`: of ever so many that ask, `some` are on average.
    pub fn chosen(&mut self, some: u32, all: u32) -> bool {
        // Rolled in any case, so that what comes after it does not depend on the numbers.
        let place = self.roll() % u64::from(all.max(1));
        place < u64::from(some)
    }

    /// How often in a row a coin shows heads, at most so often: half of all rolls give 0, a quarter gives 1, ….
    pub fn heads(&mut self, most: u32) -> u32 {
        self.roll().trailing_ones().min(most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rolls_stay_between_their_bounds_and_repeat_with_the_seed() {
        let (least, most) = (Duration::from_millis(2), Duration::from_millis(7));
        let rolls = |seed| {
            let mut dice = Dice::new(seed);
            (0..1_000).map(|_| dice.between(least, most)).collect::<Vec<_>>()
        };
        assert!(rolls(1).iter().all(|span| (least..most).contains(span)));
        assert_eq!(rolls(1), rolls(1));
        assert_ne!(rolls(1), rolls(2));
        assert_eq!(Dice::new(1).between(most, most), most);
    }

    #[test]
    fn some_of_many_are_chosen_and_of_few_all() {
        let mut dice = Dice::new(1);
        let mut chosen_of = |all| (0..1_000).filter(|_| dice.chosen(5, all)).count();
        assert_eq!([chosen_of(0), chosen_of(1), chosen_of(5)], [1_000; 3]);
        for (all, expected) in [(10, 500_i32), (50, 100), (500, 10)] {
            let chosen = i32::try_from(chosen_of(all)).expect("few");
            assert!((chosen - expected).abs() <= 10 + expected / 5, "{chosen} of a thousand, each 5 of {all}");
        }
    }

    #[test]
    fn each_number_of_heads_is_half_as_frequent_as_the_one_before() {
        let mut dice = Dice::new(1);
        let mut counts = [0; 4];
        for _ in 0..8_000 {
            counts[dice.heads(3) as usize] += 1;
        }
        for (count, expected) in counts.into_iter().zip([4_000_i32, 2_000, 1_000, 1_000]) {
            assert!((expected - count).abs() < expected / 8, "{counts:?}");
        }
    }
}
