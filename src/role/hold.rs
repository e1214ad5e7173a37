//! A connection by which an app shows that it lives. While it lasts the app is told what it may act upon; when the last
//! one of a term has ended, the role is handed over (R7: once what was told has run out, or at once where that ended
//! with the process).

use std::time::Duration;

use super::handle::{Answer, Command, RoleHandle};
use crate::protocol::{AppHoldEnd, AppHoldId};

/// See the module. Dropped without [`Self::end`], its client may still act.
pub struct AppHold {
    role: RoleHandle,
    id: AppHoldId,
    end: AppHoldEnd,
}

impl AppHold {
    pub(super) fn new(role: RoleHandle, id: AppHoldId) -> Self {
        Self { role, id, end: AppHoldEnd::Broken }
    }

    pub fn role(&self) -> &RoleHandle {
        &self.role
    }

    pub fn id(&self) -> AppHoldId {
        self.id
    }

    /// As [`RoleHandle::answer`]: a promise over this connection, in its term.
    pub fn answer(&self) -> Answer {
        self.role.answer_held(self.id)
    }

    /// How long what was told over it still stands.
    pub fn left(&self) -> Duration {
        self.role.leadership().held_until(self.id).unwrap_or_default().since(self.role.now())
    }

    /// The client has closed it, or died.
    pub fn end(mut self) {
        self.end = AppHoldEnd::Closed;
    }
}

impl Drop for AppHold {
    fn drop(&mut self) {
        if self.role.leadership().close_hold(self.id, self.end) {
            self.role.tell_soon(Command::AppLeft);
        }
    }
}
