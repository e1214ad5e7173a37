//! What is to be shown: who leads what, computed from the roles whenever they change, never queued.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;

use super::sleep;
use crate::base::clock::wall_time;
use crate::protocol::{RoleName, Token};
use crate::role::{RoleHandle, Snapshot, any_changed};

/// Deadlines are looked at this much later, so that they are past by then.
const GRAIN: Duration = Duration::from_millis(1);
/// How many names of earlier leaders are kept for a role.
const EARLIER_MAX: usize = 16;

#[derive(Clone)]
pub(super) struct Watched {
    pub handle: RoleHandle,
    /// How long its lease is.
    pub lease: Duration,
}

/// A term of this replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Term {
    pub token: Token,
    /// When it was first seen, by the time of day.
    pub since: Timestamp,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ShownRole {
    /// The term, while this replica leads: as `/leader` answers, so that draining is not leading.
    pub term: Option<Term>,
    /// How long its lease is.
    pub lease: Duration,
    /// Who else led it, by name, each with a number that grows whenever it is seen to lead anew.
    pub earlier: BTreeMap<Arc<str>, u64>,
    /// Who was last seen to lead.
    holder: Option<Arc<str>>,
}

/// Every role of this replica, as it is to be shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Shown {
    pub roles: BTreeMap<RoleName, ShownRole>,
    /// Nothing follows: who has brought everything up to date may end.
    pub closing: bool,
}

impl Shown {
    /// The roles that this replica leads.
    pub fn led(&self) -> impl Iterator<Item = (&RoleName, Term)> {
        self.roles.iter().filter_map(|(role, shown)| Some((role, shown.term?)))
    }

    fn look(&self, watched: &[Watched]) -> Self {
        let roles = watched.iter().map(|role| {
            let name = role.handle.name();
            let before = self.roles.get(name).cloned().unwrap_or_default();
            (name.clone(), before.look(role))
        });
        Self { roles: roles.collect(), closing: false }
    }
}

impl ShownRole {
    fn look(mut self, role: &Watched) -> Self {
        self.lease = role.lease;
        let token = role.handle.remaining().map(|(token, _)| token);
        self.term = token.map(|token| match self.term {
            Some(term) if term.token == token => term,
            _ => Term { token, since: wall_time() },
        });
        let snapshot = role.handle.snapshot();
        // However old: whoever led may have left a label behind.
        let holder = snapshot.view.holder.as_ref().map(|(name, _)| Arc::clone(name));
        self.see(holder);
        self
    }

    fn see(&mut self, holder: Option<Arc<str>>) {
        if let Some(name) = holder.as_ref().filter(|_| self.holder != holder) {
            let number = self.earlier.values().max().map_or(0, |last| last + 1);
            self.earlier.insert(Arc::clone(name), number);
            if self.earlier.len() > EARLIER_MAX
                && let Some(oldest) =
                    self.earlier.iter().min_by_key(|(_, number)| **number).map(|(name, _)| name.clone())
            {
                self.earlier.remove(&oldest);
            }
        }
        self.holder = holder;
    }
}

/// Keeps it up to date until nobody wants it, or until the last word was said.
pub(super) async fn observe(mut roles: watch::Receiver<Option<Vec<Watched>>>, shown: watch::Sender<Shown>) {
    loop {
        let Some(watched) = roles.borrow_and_update().clone() else {
            shown.send_replace(Shown { roles: BTreeMap::new(), closing: true });
            return;
        };
        let mut changes: Vec<watch::Receiver<Arc<Snapshot>>> =
            watched.iter().map(|role| role.handle.changes()).collect();
        loop {
            // Marked as seen before they are looked at: what happens in between is looked at again.
            changes.iter_mut().for_each(watch::Receiver::mark_unchanged);
            shown.send_if_modified(|present| {
                let new = present.look(&watched);
                let differs = new != *present;
                *present = new;
                differs
            });
            // A term is over at its deadline, also when its task is late to say so.
            let deadline = watched.iter().filter_map(|role| role.handle.remaining()).map(|(_, left)| left).min();
            tokio::select! {
                changed = roles.changed() => match changed {
                    Ok(()) => break,
                    Err(_) => return,
                },
                () = any_changed(&mut changes) => {}
                () = sleep(deadline.map(|left| left + GRAIN)) => {}
            }
        }
    }
}
