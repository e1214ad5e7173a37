//! Some of the shards of a role.

use std::fmt;
use std::str::FromStr;

/// The most shards that a role may have. More would cost more renewals than they can be worth, and a set of them is a
/// word in the store.
pub const SHARDS_MAX: u16 = 256;

const WORDS: usize = 4;
const BITS: u16 = 64;
const DIGITS: usize = 64;

/// See the module. Numbers from [`SHARDS_MAX`] on are in no set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ShardSet([u64; WORDS]);

impl ShardSet {
    pub const EMPTY: Self = Self([0; WORDS]);

    pub fn insert(&mut self, shard: u16) {
        if let Some(word) = self.0.get_mut(usize::from(shard / BITS)) {
            *word |= 1 << (shard % BITS);
        }
    }

    pub fn remove(&mut self, shard: u16) {
        if let Some(word) = self.0.get_mut(usize::from(shard / BITS)) {
            *word &= !(1 << (shard % BITS));
        }
    }

    /// Whether this one is in it.
    pub fn contains(&self, shard: u16) -> bool {
        self.0.get(usize::from(shard / BITS)).is_some_and(|word| word & (1 << (shard % BITS)) != 0)
    }

    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    pub fn is_empty(&self) -> bool {
        *self == Self::EMPTY
    }

    /// In rising order.
    pub fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        (0..SHARDS_MAX).filter(|shard| self.contains(*shard))
    }
}

impl FromIterator<u16> for ShardSet {
    fn from_iter<I: IntoIterator<Item = u16>>(shards: I) -> Self {
        let mut set = Self::EMPTY;
        shards.into_iter().for_each(|shard| set.insert(shard));
        set
    }
}

/// 64 hexadecimal digits, the last of them for the shards 0 to 3.
impl fmt::Display for ShardSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().rev().try_for_each(|word| write!(f, "{word:016x}"))
    }
}

/// A text that is no set of shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoShardSet;

impl FromStr for ShardSet {
    type Err = NoShardSet;

    fn from_str(text: &str) -> Result<Self, NoShardSet> {
        if text.len() != DIGITS || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(NoShardSet);
        }
        let mut set = Self::EMPTY;
        for (word, at) in set.0.iter_mut().rev().zip((0..DIGITS).step_by(DIGITS / WORDS)) {
            *word = u64::from_str_radix(&text[at..at + DIGITS / WORDS], 16).map_err(|_| NoShardSet)?;
        }
        Ok(set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_holds_what_was_put_into_it_and_survives_its_text() {
        let mut set: ShardSet = [0, 3, 63, 64, 255].into_iter().collect();
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 3, 63, 64, 255]);
        assert_eq!((set.len(), set.to_string().len(), set.to_string().parse()), (5, 64, Ok(set)));
        assert!(set.to_string().starts_with('8') && set.to_string().ends_with('9'), "{set}");
        set.remove(63);
        assert!(!set.contains(63) && set.contains(64) && set.len() == 4);
        set.insert(SHARDS_MAX);
        assert!(set.len() == 4 && !set.contains(SHARDS_MAX), "what is no shard is not in it");
        for bad in ["", "0", "g", &"0".repeat(63), &"+".repeat(64), &"ä".repeat(32)] {
            assert_eq!(bad.parse::<ShardSet>(), Err(NoShardSet), "{bad:?}");
        }
    }

    #[test]
    fn a_set_is_empty_until_something_is_in_it() {
        assert!(ShardSet::EMPTY.is_empty());
        assert!(!ShardSet::from_iter([200]).is_empty());
    }
}
