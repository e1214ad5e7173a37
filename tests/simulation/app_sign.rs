//! How an app shows that it lives. Also the enumeration's, which takes it from here.

use baton::protocol::AppHoldScope;

/// What the end of an app's connection is taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppSign {
    /// It keeps none: it asks.
    Asks,
    /// The end of what it was told, and nobody else acts upon that.
    OfProcess,
    /// What it was told stands: a child of it goes on.
    OfPod,
    /// The end of what it was told, though a child of it goes on.
    Mistaken,
}

impl AppSign {
    pub fn scope(self) -> Option<AppHoldScope> {
        match self {
            Self::Asks => None,
            Self::OfProcess | Self::Mistaken => Some(AppHoldScope::Process),
            Self::OfPod => Some(AppHoldScope::Pod),
        }
    }

    pub const fn leaves_a_child(self) -> bool {
        matches!(self, Self::OfPod | Self::Mistaken)
    }
}
