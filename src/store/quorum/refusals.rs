//! What members refuse the leaders of this process: a member that can be reached and renews nothing (its memory is
//! full, say) is missing all the same, though a majority of the others makes up for it.

use parking_lot::Mutex;
use std::collections::BTreeMap;

use tokio::sync::Notify;

use crate::protocol::{MemberReply, MemberRequest, RoleName};
use crate::store::StoreError;

/// Renewals alone are counted: they come every `renewPeriod`, so that what they tell is true now.
pub(super) struct Refusals {
    /// For each member the roles that are renewed there: why not, or that all is well.
    members: Mutex<Vec<BTreeMap<RoleName, Option<StoreError>>>>,
    changed: Notify,
}

impl Refusals {
    pub(super) fn new(members: usize) -> Self {
        Self { members: Mutex::new(vec![BTreeMap::new(); members]), changed: Notify::new() }
    }

    /// A member's answer to a question about a role.
    pub(super) fn note(
        &self,
        member: usize,
        role: &RoleName,
        ask: &MemberRequest,
        answer: &Result<MemberReply, StoreError>,
    ) {
        let refusal = match (ask, answer) {
            // Told by its connection, or not known.
            (MemberRequest::Renew(_), Err(StoreError::Unknown { .. } | StoreError::Unreachable { .. })) => return,
            (MemberRequest::Renew(_), answer) => Some(answer.as_ref().err().cloned()),
            (MemberRequest::Campaign(_) | MemberRequest::Raise(_) | MemberRequest::Release(_), _) => None,
        };
        let mut members = self.members.lock();
        let Some(roles) = members.get_mut(member) else { return };
        let before = match &refusal {
            Some(present) => roles.insert(role.clone(), present.clone()),
            None => roles.remove(role),
        };
        if before.flatten() != refusal.flatten() {
            self.changed.notify_one();
        }
    }

    /// Why it renews a role not, or several, with one of them.
    pub(super) fn of(&self, member: usize) -> Option<StoreError> {
        let members = self.members.lock();
        let (role, error) = members.get(member)?.iter().find_map(|(role, error)| Some((role, error.as_ref()?)))?;
        let reason = match error {
            StoreError::Refused { reason } | StoreError::Denied { reason } => reason.clone(),
            StoreError::Unknown { .. } | StoreError::Unreachable { .. } | StoreError::Garbage { .. } => {
                error.to_string()
            }
        };
        Some(StoreError::Refused { reason: format!("to renew {role}: {reason}") })
    }

    /// Whether it renews nothing of what it is asked to.
    pub(super) fn are_all(&self, member: usize) -> bool {
        let members = self.members.lock();
        members.get(member).is_some_and(|roles| !roles.is_empty() && roles.values().all(Option::is_some))
    }

    /// Resolves when there is something else to tell.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }
}
