//! Connections by which apps show that they live: their names, whom they speak for, and how they end.

use std::fmt;
use std::str::FromStr;

use super::super::ids::Token;

/// A connection that an app keeps to show that it lives, for one term. No other has its name, in whichever process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AppHoldId {
    token: Token,
    number: u64,
}

impl AppHoldId {
    pub(super) const fn new(token: Token, number: u64) -> Self {
        Self { token, number }
    }

    /// The term's.
    pub(super) const fn token(self) -> Token {
        self.token
    }
}

impl fmt::Display for AppHoldId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.token, self.number)
    }
}

impl FromStr for AppHoldId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (token, number) = text.split_once('-').ok_or(())?;
        let token = token.parse().ok().and_then(Token::new).ok_or(())?;
        let id = Self { token, number: number.parse().map_err(|_| ())? };
        // In one way only.
        (id.to_string() == text).then_some(id).ok_or(())
    }
}

/// Who acts upon what is told over such a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AppHoldScope {
    /// The process at its other end alone. What it was told ends with it.
    Process,
    /// Others, too, which may outlive it: what was told stands for as long as was said.
    Pod,
}

/// Why a hold has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AppHoldEnd {
    /// Its client closed it, or is gone.
    Closed,
    /// Its client says that nobody acts any more upon what was told over it.
    Stopped,
    /// This side gave it up, or cannot tell: the client may still act.
    Broken,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_has_a_name() {
        let id = AppHoldId::new(Token::new(7).unwrap(), 1);
        assert_eq!((id.to_string().as_str(), "7-1".parse()), ("7-1", Ok(id)));
        for bad in ["", "7", "7-", "-1", "07-1", "7-01", "7-+1", "7-1-1", "a-1"] {
            assert_eq!(bad.parse::<AppHoldId>(), Err(()), "{bad}");
        }
    }
}
