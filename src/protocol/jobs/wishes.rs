//! What somebody may ask for who need not lead: a run now, and the end or another try of a run.

use std::sync::Arc;

use super::ids::Wall;
use super::run::Phase;
use crate::protocol::fingerprint;

/// What somebody asks for who wants a run now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunRequest {
    /// What the run is to be given: JSON of at most [`super::DATA_BYTES_MAX`] bytes.
    pub data: Option<Arc<str>>,
    /// Tells a request that is repeated from another one; at most [`super::KEY_BYTES_MAX`] bytes.
    pub key: Option<Arc<str>>,
}

impl RunRequest {
    pub(super) fn print(&self) -> u64 {
        fingerprint(self.data.as_deref().unwrap_or_default().as_bytes())
    }
}

/// A request for a run that had a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedKey {
    pub key: Arc<str>,
    /// When the run was asked for: its slot.
    pub at: Wall,
    /// The fingerprint of what it was given.
    pub print: u64,
}

/// Why a run cannot be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskRefusal {
    /// As many were asked for, and have not begun, as may be.
    TooMany,
    /// Those that go on were given as much as a ledger has room for.
    TooMuchData,
    /// The key is that of a request with other data.
    OtherData,
}

/// What somebody asked of a run. Ordered by its moment; of two that are the same the one that is done is the greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunOrder {
    /// When. Of two the later one holds, so it is later than any before it of the same run.
    pub at: Wall,
    pub what: RunWish,
    /// A leader has done it, or it has come to nothing because the run had ended by itself.
    pub done: bool,
}

/// What may be asked of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RunWish {
    /// It is to end, as failed.
    Cancel,
    /// It failed, and is to be tried again as if it were new.
    Retry,
}

impl RunWish {
    pub const ALL: [Self; 2] = [Self::Cancel, Self::Retry];

    /// As it is told and stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Retry => "retry",
        }
    }
}

/// Why nothing may be asked of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunRefusal {
    /// There is none for this slot, or it is forgotten.
    Unknown,
    /// It has ended like this, so that it cannot be cancelled.
    Over(Phase),
    /// It has not failed but is like this, so that it cannot be retried.
    NotFailed(Phase),
}
