//! What can go wrong.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

/// Why there is no lead, or no lock.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The sidecar's address is none.
    #[error("{0:?} is not a URL of the form http://host:port")]
    BadUrl(String),
    /// The file with the token for the sidecar cannot be read, or has something else in it.
    #[error("the token file {}: {source}", path.display())]
    TokenFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: io::Error,
    },
    /// The lock is held by others, and the wait for it is over.
    #[error("the lock is held by others")]
    Held {
        /// One of them, as far as the sidecar knows.
        holder: Option<Holder>,
        /// When it might be worth asking again.
        retry_after: Option<Duration>,
    },
    /// The sidecar refuses the request.
    #[error("the sidecar refuses it with {status}: {detail}")]
    Refused {
        /// The answer's status: 404 for a role that the sidecar does not have, 401 for a wrong token, …
        status: u16,
        /// The kind of problem, such as `urn:baton:problem:unknown-role`; empty if the answer names none.
        kind: String,
        /// For people.
        detail: String,
    },
    /// The sidecar cannot be reached, or gives no answer that can be read.
    #[error("no answer of the sidecar: {0}")]
    NoAnswer(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The lock was granted, and lost before it could be used.
    #[error(transparent)]
    Lost(#[from] Lost),
}

/// Why a lead or a lock is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Lost {
    /// What was promised, less the margin, has passed, and no further promise came in time.
    #[error("over: the time that was promised has run out")]
    Expired,
    /// The sidecar says that it is lost.
    #[error("over: the sidecar says that it is lost")]
    Told,
    /// The connection that holds it has ended.
    #[error("over: the connection to the sidecar has ended")]
    Disconnected,
    /// It was left.
    #[error("over: it was left")]
    Left,
}

/// Who has a lock.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// The name that it gave itself.
    pub owner: Option<String>,
    /// The replica through whose sidecar it is held.
    pub identity: Option<String>,
    /// The token under which it is held.
    pub token: Option<u64>,
    /// When its lease ends, unless it is extended: in milliseconds from the answer.
    pub ends_in_ms: Option<u64>,
}
