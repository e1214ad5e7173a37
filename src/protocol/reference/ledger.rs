//! The store's side of a ledger: what one atomic step does to it. The scripts of the Redis store are held against it
//! (`job_read.lua`, `job_open.lua`, `job_write.lua`, `job_forget.lua`, and `job_common.lua` for all), and the
//! Kubernetes store lets it decide.

use crate::protocol::{StoreTime, Token};

/// Which version of a ledger this is. The store chooses it, from its clock, so that a version never comes twice even
/// if the store lost the ones between.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(u64);

impl Revision {
    /// A revision, unless it would reach 2^53: scripts count in doubles.
    pub const fn new(value: u64) -> Option<Self> {
        if value < Token::LIMIT { Some(Self(value)) } else { None }
    }

    /// The revision as a number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// A ledger as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored<B> {
    pub revision: Revision,
    /// What is written in it.
    pub body: B,
}

impl<B> Stored<B> {
    /// With what `read` makes of its body.
    pub fn try_map<C, E>(self, read: impl FnOnce(B) -> Result<C, E>) -> Result<Stored<C>, E> {
        Ok(Stored { revision: self.revision, body: read(self.body)? })
    }
}

/// A leader looks at a job's ledger for the first time in its term, and shuts it to every earlier term.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenReply<B> {
    /// The ledger as it is, if there is one.
    Opened(Option<Stored<B>>),
    /// A later term has opened it.
    Stale {
        /// That term's token.
        fence: Token,
    },
}

impl<B> OpenReply<B> {
    /// With what `read` makes of the ledger's body.
    pub fn try_map<C, E>(self, read: impl FnOnce(B) -> Result<C, E>) -> Result<OpenReply<C>, E> {
        Ok(match self {
            Self::Opened(stored) => OpenReply::Opened(stored.map(|stored| stored.try_map(read)).transpose()?),
            Self::Stale { fence } => OpenReply::Stale { fence },
        })
    }
}

/// Puts a ledger in the place of the one that the writer knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteRequest<B> {
    /// The leader's term; none for the wish of somebody who need not lead.
    pub token: Option<Token>,
    /// The version that the writer knows; none: it found no ledger.
    pub base: Option<Revision>,
    /// What is to be written.
    pub body: B,
}

/// The answer to a [`WriteRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteReply<B> {
    /// It is written.
    Written { revision: Revision },
    /// A later term has opened the ledger: nothing is written.
    Stale {
        /// That term's token.
        fence: Token,
    },
    /// The ledger is another than the writer knows, because somebody else has written or the store has lost it: nothing
    /// is written.
    Diverged(Option<Stored<B>>),
}

impl<B> WriteReply<B> {
    /// With what `read` makes of the ledger's body.
    pub fn try_map<C, E>(self, read: impl FnOnce(B) -> Result<C, E>) -> Result<WriteReply<C>, E> {
        Ok(match self {
            Self::Written { revision } => WriteReply::Written { revision },
            Self::Stale { fence } => WriteReply::Stale { fence },
            Self::Diverged(stored) => WriteReply::Diverged(stored.map(|stored| stored.try_map(read)).transpose()?),
        })
    }
}

/// One job's ledger in a store: a register with a fence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerCell<B> {
    fence: Token,
    stored: Option<Stored<B>>,
}

impl<B> Default for LedgerCell<B> {
    fn default() -> Self {
        Self { fence: Token::NONE, stored: None }
    }
}

impl<B> LedgerCell<B> {
    /// A register as a store has kept it.
    pub const fn new(fence: Token, stored: Option<Stored<B>>) -> Self {
        Self { fence, stored }
    }

    /// The token of the latest term that has opened it.
    pub const fn fence(&self) -> Token {
        self.fence
    }
}

impl<B: Clone> LedgerCell<B> {
    /// The ledger as it is.
    pub fn read(&self) -> Option<Stored<B>> {
        self.stored.clone()
    }

    /// Raises the fence to the leader's term.
    pub fn open(&mut self, token: Token) -> OpenReply<B> {
        if token < self.fence {
            return OpenReply::Stale { fence: self.fence };
        }
        self.fence = token;
        OpenReply::Opened(self.stored.clone())
    }

    /// Writes, if the term is not over and the version is the one that the writer knows.
    pub fn write(&mut self, request: WriteRequest<B>, now: StoreTime) -> WriteReply<B> {
        if let Some(token) = request.token {
            if token < self.fence {
                return WriteReply::Stale { fence: self.fence };
            }
            self.fence = token;
        }
        let known = self.stored.as_ref().map(|stored| stored.revision);
        if request.base != known {
            return WriteReply::Diverged(self.stored.clone());
        }
        let revision = Revision(known.map_or(0, Revision::get).saturating_add(1).max(now.0));
        self.stored = Some(Stored { revision, body: request.body });
        WriteReply::Written { revision }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(value: u64) -> Token {
        Token::new(value).unwrap()
    }

    fn write(token: Option<Token>, base: Option<Revision>, body: char) -> WriteRequest<char> {
        WriteRequest { token, base, body }
    }

    #[test]
    fn a_leader_writes_on_what_it_knows_and_on_nothing_else() {
        let mut cell = LedgerCell::default();
        assert_eq!(cell.open(token(7)), OpenReply::Opened(None));
        let WriteReply::Written { revision: first } = cell.write(write(Some(token(7)), None, 'a'), StoreTime(50))
        else {
            panic!("refused")
        };
        assert_eq!(first, Revision(50));
        let stored = Some(Stored { revision: first, body: 'a' });
        assert_eq!(cell.write(write(Some(token(7)), None, 'b'), StoreTime(60)), WriteReply::Diverged(stored.clone()));
        assert_eq!(cell.read(), stored);
        // The store's clock went back: the version rises all the same.
        let reply = cell.write(write(Some(token(7)), Some(first), 'b'), StoreTime(3));
        assert_eq!(reply, WriteReply::Written { revision: Revision(51) });
    }

    #[test]
    fn an_earlier_term_is_refused_from_the_moment_a_later_one_has_looked() {
        let mut cell = LedgerCell::default();
        cell.open(token(7));
        cell.write(write(Some(token(7)), None, 'a'), StoreTime(50));
        assert_eq!(cell.open(token(9)), OpenReply::Opened(cell.read()));
        let stale = cell.write(write(Some(token(7)), Some(Revision(50)), 'b'), StoreTime(60));
        assert_eq!(stale, WriteReply::Stale { fence: token(9) });
        assert_eq!(cell.open(token(8)), OpenReply::Stale { fence: token(9) });
        assert_eq!(cell.read().map(|stored| stored.body), Some('a'));
    }

    #[test]
    fn a_wish_needs_no_term_but_the_right_version() {
        let mut cell = LedgerCell::default();
        cell.open(token(9));
        assert_eq!(cell.write(write(None, None, 'a'), StoreTime(5)), WriteReply::Written { revision: Revision(5) });
        assert!(matches!(cell.write(write(None, None, 'b'), StoreTime(6)), WriteReply::Diverged(Some(_))));
    }
}
