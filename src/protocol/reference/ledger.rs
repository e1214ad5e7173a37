//! The store's side of a ledger: what one atomic step does to it. The scripts of the Redis store are held against it
//! (`job_read.lua`, `job_open.lua`, `job_write.lua`, `job_forget.lua`, and `job_common.lua` for all), and the
//! Kubernetes store lets it decide.

use crate::protocol::{RoleName, StoreTime, Token};

/// A term under which a ledger is written. Tokens order the terms of *one* role: those of two are never compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerTerm {
    /// Whose leader it is.
    pub role: RoleName,
    /// The term's token.
    pub token: Token,
}

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
    /// A later term of the role has opened it.
    Stale {
        /// That term's token.
        fence: Token,
    },
    /// It is another role's, or nobody's: nothing is changed. Who writes on this version takes it over.
    OtherRole {
        /// Whose it is, if anybody's.
        owner: Option<RoleName>,
        /// The ledger as it is.
        stored: Option<Stored<B>>,
    },
}

impl<B> OpenReply<B> {
    /// With what `read` makes of the ledger's body.
    pub fn try_map<C, E>(self, read: impl FnOnce(B) -> Result<C, E>) -> Result<OpenReply<C>, E> {
        Ok(match self {
            Self::Opened(stored) => OpenReply::Opened(stored.map(|stored| stored.try_map(read)).transpose()?),
            Self::Stale { fence } => OpenReply::Stale { fence },
            Self::OtherRole { owner, stored } => {
                OpenReply::OtherRole { owner, stored: stored.map(|stored| stored.try_map(read)).transpose()? }
            }
        })
    }
}

/// Puts a ledger in the place of the one that the writer knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteRequest<B> {
    /// The leader's term; none for the wish of somebody who need not lead.
    pub term: Option<LedgerTerm>,
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
    /// A later term of the role has opened the ledger: nothing is written.
    Stale {
        /// That term's token.
        fence: Token,
    },
    /// The ledger is another than the writer knows, and another role's, or nobody's: nothing is changed.
    OtherRole {
        /// Whose it is, if anybody's.
        owner: Option<RoleName>,
        /// The ledger as it is.
        stored: Option<Stored<B>>,
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
            Self::OtherRole { owner, stored } => {
                WriteReply::OtherRole { owner, stored: stored.map(|stored| stored.try_map(read)).transpose()? }
            }
            Self::Diverged(stored) => WriteReply::Diverged(stored.map(|stored| stored.try_map(read)).transpose()?),
        })
    }
}

/// One job's ledger in a store: a register with a fence.
///
/// The fence belongs to a role. A ledger moves to another role when a leader of that role writes on the version that is
/// there, and in no other way: so who takes it over knows all that was written before, and whoever had it finds out at
/// its next request, because the version is another. A look alone moves nothing: one of a role that the job has left,
/// executed late, would give the ledger back to who knows an old version of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerCell<B> {
    owner: Option<RoleName>,
    fence: Token,
    stored: Option<Stored<B>>,
}

/// Why a term may not have a ledger as it stands.
enum Shut {
    Stale,
    OtherRole,
}

impl<B> Default for LedgerCell<B> {
    fn default() -> Self {
        Self { owner: None, fence: Token::NONE, stored: None }
    }
}

impl<B> LedgerCell<B> {
    /// A register as a store has kept it. Releases that knew no owner have kept none.
    pub const fn new(owner: Option<RoleName>, fence: Token, stored: Option<Stored<B>>) -> Self {
        Self { owner, fence, stored }
    }

    /// The role of the term that has opened it; none before the first, and where an earlier release has written it.
    pub const fn owner(&self) -> Option<&RoleName> {
        self.owner.as_ref()
    }

    /// The token of the latest term of that role that has opened it.
    pub const fn fence(&self) -> Token {
        self.fence
    }

    /// Raises the fence to a term of the owner's. Where nothing is written, any role may be the owner.
    fn raise(&mut self, term: &LedgerTerm) -> Result<(), Shut> {
        if self.owner.as_ref() == Some(&term.role) {
            if term.token < self.fence {
                return Err(Shut::Stale);
            }
        } else if self.stored.is_some() {
            return Err(Shut::OtherRole);
        }
        self.take(term);
        Ok(())
    }

    fn take(&mut self, term: &LedgerTerm) {
        self.owner = Some(term.role.clone());
        self.fence = term.token;
    }
}

impl<B: Clone> LedgerCell<B> {
    /// The ledger as it is.
    pub fn read(&self) -> Option<Stored<B>> {
        self.stored.clone()
    }

    /// Raises the fence to the leader's term.
    pub fn open(&mut self, term: &LedgerTerm) -> OpenReply<B> {
        match self.raise(term) {
            Ok(()) => OpenReply::Opened(self.stored.clone()),
            Err(Shut::Stale) => OpenReply::Stale { fence: self.fence },
            Err(Shut::OtherRole) => OpenReply::OtherRole { owner: self.owner.clone(), stored: self.stored.clone() },
        }
    }

    /// Writes, if the term is not over and the version is the one that the writer knows.
    pub fn write(&mut self, request: WriteRequest<B>, now: StoreTime) -> WriteReply<B> {
        let known = self.stored.as_ref().map(|stored| stored.revision);
        if let Some(term) = &request.term {
            match self.raise(term) {
                Ok(()) => {}
                Err(Shut::Stale) => return WriteReply::Stale { fence: self.fence },
                Err(Shut::OtherRole) if request.base == known => self.take(term),
                Err(Shut::OtherRole) => {
                    return WriteReply::OtherRole { owner: self.owner.clone(), stored: self.stored.clone() };
                }
            }
        }
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

    fn term(token: u64) -> LedgerTerm {
        term_of("ours", token)
    }

    fn term_of(role: &str, value: u64) -> LedgerTerm {
        LedgerTerm { role: RoleName::new(role).unwrap(), token: token(value) }
    }

    fn write(term: Option<LedgerTerm>, base: Option<Revision>, body: char) -> WriteRequest<char> {
        WriteRequest { term, base, body }
    }

    #[test]
    fn a_leader_writes_on_what_it_knows_and_on_nothing_else() {
        let mut cell = LedgerCell::default();
        assert_eq!(cell.open(&term(7)), OpenReply::Opened(None));
        let WriteReply::Written { revision: first } = cell.write(write(Some(term(7)), None, 'a'), StoreTime(50)) else {
            panic!("refused")
        };
        assert_eq!(first, Revision(50));
        let stored = Some(Stored { revision: first, body: 'a' });
        assert_eq!(cell.write(write(Some(term(7)), None, 'b'), StoreTime(60)), WriteReply::Diverged(stored.clone()));
        assert_eq!(cell.read(), stored);
        // The store's clock went back: the version rises all the same.
        let reply = cell.write(write(Some(term(7)), Some(first), 'b'), StoreTime(3));
        assert_eq!(reply, WriteReply::Written { revision: Revision(51) });
    }

    #[test]
    fn an_earlier_term_is_refused_from_the_moment_a_later_one_has_looked() {
        let mut cell = LedgerCell::default();
        cell.open(&term(7));
        cell.write(write(Some(term(7)), None, 'a'), StoreTime(50));
        assert_eq!(cell.open(&term(9)), OpenReply::Opened(cell.read()));
        let stale = cell.write(write(Some(term(7)), Some(Revision(50)), 'b'), StoreTime(60));
        assert_eq!(stale, WriteReply::Stale { fence: token(9) });
        assert_eq!(cell.open(&term(8)), OpenReply::Stale { fence: token(9) });
        assert_eq!(cell.read().map(|stored| stored.body), Some('a'));
    }

    #[test]
    fn a_wish_needs_no_term_but_the_right_version() {
        let mut cell = LedgerCell::default();
        cell.open(&term(9));
        assert_eq!(cell.write(write(None, None, 'a'), StoreTime(5)), WriteReply::Written { revision: Revision(5) });
        assert!(matches!(cell.write(write(None, None, 'b'), StoreTime(6)), WriteReply::Diverged(Some(_))));
    }

    /// Whose tokens are smaller is nothing to a ledger that changes its role.
    #[test]
    fn another_role_takes_the_ledger_over_by_writing_on_what_is_there_whatever_its_token() {
        let mut cell = LedgerCell::default();
        cell.open(&term(9));
        cell.write(write(Some(term(9)), None, 'a'), StoreTime(50));
        let theirs = term_of("theirs", 3);
        let seen = OpenReply::OtherRole { owner: Some(term(9).role), stored: cell.read() };
        assert_eq!(cell.open(&theirs), seen);
        assert_eq!((cell.owner(), cell.fence()), (Some(&term(9).role), token(9)), "a look moves nothing");
        let taken = cell.write(write(Some(theirs.clone()), Some(Revision(50)), 'a'), StoreTime(60));
        assert_eq!(taken, WriteReply::Written { revision: Revision(60) });
        assert_eq!((cell.owner(), cell.fence()), (Some(&theirs.role), token(3)));
        // Who had it is told so by a look and by a write, and neither takes it back.
        let owner = || Some(theirs.role.clone());
        assert_eq!(cell.open(&term(9)), OpenReply::OtherRole { owner: owner(), stored: cell.read() });
        let refused = cell.write(write(Some(term(9)), Some(Revision(50)), 'b'), StoreTime(70));
        assert_eq!(refused, WriteReply::OtherRole { owner: owner(), stored: cell.read() });
        assert_eq!(cell.open(&theirs), OpenReply::Opened(cell.read()));
        assert_eq!(cell.open(&term_of("theirs", 2)), OpenReply::Stale { fence: token(3) });
    }

    #[test]
    fn a_ledger_in_which_nothing_is_written_is_anybodys() {
        let mut cell = LedgerCell::<char>::default();
        assert_eq!(cell.open(&term(9)), OpenReply::Opened(None));
        assert_eq!(cell.open(&term_of("theirs", 3)), OpenReply::Opened(None));
        assert_eq!(cell.open(&term(8)), OpenReply::Opened(None));
        assert_eq!(cell.open(&term(7)), OpenReply::Stale { fence: token(8) });
    }
}
