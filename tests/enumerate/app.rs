//! How a replica's app ends.

use baton::protocol::AppHoldEnd;

use crate::app_sign::AppSign;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// It is killed.
    Dies,
    /// It stops by itself, with whatever it has begun, and says so.
    Stops,
}

impl End {
    /// Whether nobody acts upon what was told any more.
    pub fn is_whole(self, app: AppSign) -> bool {
        self == Self::Stops || !app.leaves_a_child()
    }

    /// What its sidecar takes it for.
    pub const fn seen(self) -> AppHoldEnd {
        match self {
            Self::Dies => AppHoldEnd::Closed,
            Self::Stops => AppHoldEnd::Stopped,
        }
    }
}
