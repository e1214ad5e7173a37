//! Names of locks, and the ids under which they are held.

use std::fmt;
use std::str::FromStr;

/// The longest name of a lock, in bytes.
const NAME_BYTES_MAX: usize = 200;
/// The longest name of an owner, in bytes.
pub const OWNER_BYTES_MAX: usize = 200;

/// The name of a lock: 1 to 200 bytes of UTF-8 without control characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockName(String);

/// Why a text is not a lock's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockNameError {
    /// There is none.
    Empty,
    /// It has this many bytes.
    TooLong(usize),
    /// It has a line break, a NUL or the like.
    ControlCharacter,
}

impl fmt::Display for LockNameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "the name is empty; use 1 to {NAME_BYTES_MAX} bytes"),
            Self::TooLong(bytes) => write!(f, "the name has {bytes} bytes; use 1 to {NAME_BYTES_MAX}"),
            Self::ControlCharacter => f.write_str("the name has a control character; use printable text"),
        }
    }
}

impl std::error::Error for LockNameError {}

impl LockName {
    /// Checks a name.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(name: impl Into<String>) -> Result<Self, LockNameError> {
        let name = name.into();
        if name.is_empty() {
            return Err(LockNameError::Empty);
        }
        if name.len() > NAME_BYTES_MAX {
            return Err(LockNameError::TooLong(name.len()));
        }
        if name.chars().any(char::is_control) {
            return Err(LockNameError::ControlCharacter);
        }
        Ok(Self(name))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a lock is extended and released by: 128 random bits, so that nobody guesses another's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockId(u128);

impl LockId {
    /// An id from 128 random bits (the caller's, since this floor has no randomness).
    pub const fn from_u128(bits: u128) -> Self {
        Self(bits)
    }
}

/// 32 hexadecimal digits.
impl fmt::Display for LockId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for LockId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Exactly 32 lower-case hexadecimal digits.
impl FromStr for LockId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let digits = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        if text.len() != 32 || !text.bytes().all(digits) {
            return Err(());
        }
        u128::from_str_radix(text, 16).map(Self).map_err(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_printable_and_bounded() {
        for good in ["a", "orders/42", "müller", "with space", &"x".repeat(200)] {
            assert_eq!(LockName::new(good).map(|name| name.to_string()), Ok(good.to_owned()));
        }
        assert_eq!(LockName::new(""), Err(LockNameError::Empty));
        assert_eq!(LockName::new("x".repeat(201)), Err(LockNameError::TooLong(201)));
        for bad in ["a\n", "\0", "a\u{7f}b", "\u{85}"] {
            assert_eq!(LockName::new(bad), Err(LockNameError::ControlCharacter), "{bad:?}");
        }
    }

    #[test]
    fn an_id_survives_its_text_form_and_has_one_only() {
        let id = LockId::from_u128(0xabc);
        assert_eq!(id.to_string().parse(), Ok(id));
        for bad in ["", "abc", &"g".repeat(32), &"A".repeat(32), &"0".repeat(33), "+0000000000000000000000000000abc"] {
            assert_eq!(bad.parse::<LockId>(), Err(()), "{bad}");
        }
    }
}
