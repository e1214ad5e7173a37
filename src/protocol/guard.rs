//! R5 on the store's side: under which server process a record was written, and until when its role is shut for new
//! grants.

use std::sync::Arc;
use std::time::Duration;

use super::lease::Server;
use super::names::StoreTime;
use super::wire::GuardCause;

/// A part of every record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Guard {
    /// The server process that wrote last; none while nothing was written under R5.
    run_id: Option<Arc<str>>,
    shut: Option<(GuardCause, StoreTime)>,
}

impl Guard {
    /// Open, and written by this server process.
    pub(super) fn open(run_id: &str) -> Self {
        Self { run_id: Some(Arc::from(run_id)), shut: None }
    }

    /// Why the role is shut, and for how much longer.
    pub(super) fn active(&self, now: StoreTime) -> Option<(GuardCause, Duration)> {
        self.shut.and_then(|(cause, until)| (now < until).then(|| (cause, until.since(now))))
    }

    /// Shuts the role until then, unless it is shut for longer already.
    pub(super) fn shut(&mut self, cause: GuardCause, until: StoreTime) {
        if self.shut.is_none_or(|(_, present)| present < until) {
            self.shut = Some((cause, until));
        }
    }

    /// No guard is longer than a lease: one that seems so was set before the store's clock was stepped back.
    pub(super) fn cap(&mut self, longest: StoreTime) {
        if let Some((_, until)) = &mut self.shut {
            *until = longest.min(*until);
        }
    }

    /// *Empty*, where the record is new, and *generation*. True when something was noticed.
    pub(super) fn notice(&mut self, server: Server<'_>, lease_duration: Duration, is_new: bool) -> bool {
        if is_new {
            if let Some(left) = lease_duration.checked_sub(server.uptime) {
                self.shut(GuardCause::Empty, server.now.plus(left));
            }
        } else if self.run_id.as_deref() == Some(server.run_id) {
            return false;
        } else {
            self.shut(GuardCause::Generation, server.now.plus(lease_duration));
        }
        self.run_id = Some(Arc::from(server.run_id));
        true
    }
}
