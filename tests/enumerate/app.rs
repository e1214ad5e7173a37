//! How a replica's app learns that it leads, and how it ends.

use baton::protocol::{AppHoldEnd, AppHoldScope};

/// What an app keeps to show that it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum App {
    /// It keeps nothing, and asks.
    Asks,
    /// A connection, and nobody else acts upon what is told over it.
    OfProcess,
    /// A connection; a child of it acts on when it has died.
    OfPod,
    /// A connection that is said to be of one process, though a child of it acts on.
    Mistaken,
}

impl App {
    pub fn scope(self) -> Option<AppHoldScope> {
        match self {
            Self::Asks => None,
            Self::OfProcess | Self::Mistaken => Some(AppHoldScope::Process),
            Self::OfPod => Some(AppHoldScope::Pod),
        }
    }
}

/// How it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// It is killed.
    Dies,
    /// It stops by itself, with whatever it has begun, and says so.
    Stops,
}

impl End {
    /// Whether nobody acts upon what was told any more.
    pub fn is_whole(self, app: App) -> bool {
        self == Self::Stops || app == App::OfProcess
    }

    /// What its sidecar takes it for.
    pub const fn seen(self) -> AppHoldEnd {
        match self {
            Self::Dies => AppHoldEnd::Closed,
            Self::Stops => AppHoldEnd::Stopped,
        }
    }
}
