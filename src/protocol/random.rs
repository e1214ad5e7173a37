//! Pseudo-random spreading of wake-ups and retries, from a seed that is handed in: SplitMix64 (Steele, Lea and Flood,
//! 2014); and the fingerprint of a text.

use std::time::Duration;

/// A seeded source. The same seed gives the same rolls.
#[derive(Clone, Debug, Hash)]
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

/// A number that is the same for the same bytes, on every replica and in every release, and hardly ever for others:
/// FNV-1a, 64 bits (Fowler, Noll and Vo, 1991). No protection from who means harm.
pub fn fingerprint(bytes: &[u8]) -> u64 {
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, mix)
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

    #[test]
    fn rolls_are_those_of_splitmix64() {
        let mut random = Random::new(1_234_567);
        let rolls: Vec<u64> = (0..5).map(|_| random.roll()).collect();
        let published = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        assert_eq!(rolls, published);
    }

    #[test]
    fn fingerprints_are_those_of_fnv_1a() {
        for (text, print) in
            [("", 0xcbf2_9ce4_8422_2325_u64), ("a", 0xaf63_dc4c_8601_ec8c), ("foobar", 0x8594_4171_f739_67e8)]
        {
            assert_eq!(fingerprint(text.as_bytes()), print, "{text}");
        }
    }
}
