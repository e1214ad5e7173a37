//! What the caller of the store is told of a request that failed.

use crate::kube::{Denial, Failure};
use crate::store::StoreError;

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Missing => Self::Refused { reason: "the Lease does not exist".to_owned() },
            Failure::Conflict => Self::Refused { reason: "somebody else changed the Lease first".to_owned() },
            Failure::Denied { why: Denial::Unsent, reason, .. } => Self::Unreachable { reason },
            Failure::Denied { why: Denial::Unauthorized | Denial::Forbidden, reason, .. } => Self::Denied { reason },
            Failure::Denied { why, reason, .. } => Self::Refused { reason: format!("{reason}{}", hint(why)) },
            Failure::Unanswered { waited: Some(after), .. } => Self::Unknown { after },
            Failure::Unanswered { reason, .. } => Self::Unreachable { reason },
        }
    }
}

/// What may help besides, where leases are kept.
const fn hint(why: Denial) -> &'static str {
    match why {
        Denial::NoNamespace => ", or set store.kubernetes.namespace",
        Denial::Invalid => ", namePrefix and identity",
        Denial::Unsent | Denial::Unauthorized | Denial::Forbidden | Denial::NoSuchKind | Denial::Busy => "",
    }
}
