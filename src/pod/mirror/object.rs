//! The Lease object of a mirror: what is in it, and whose one is.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};

use crate::kube::MIRROR;
use crate::pod::shown::Term;
use crate::protocol::Token;

/// What is to be shown.
pub(super) struct Face<'a> {
    pub holder: &'a str,
    pub term: Term,
    /// Now, by the time of day.
    pub renewed: Timestamp,
    /// When it will be renewed.
    pub period: Duration,
}

/// Whose an object is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    /// A mirror, with the token of the term that it shows or showed last.
    Ours(Token),
    /// Somebody else's; what it is, in words.
    Foreign(String),
}

/// Whose it is, by its mark.
pub(super) fn whose(lease: &Lease) -> Whose {
    let annotations = lease.metadata.annotations.as_ref();
    match annotations.and_then(|all| all.get(MIRROR)) {
        Some(text) => match text.parse().ok().and_then(Token::new) {
            Some(token) => Whose::Ours(token),
            None => Whose::Foreign(format!("has an annotation {MIRROR} that is no token")),
        },
        None => Whose::Foreign(format!("has no annotation {MIRROR}, so something else made it")),
    }
}

/// The object that shows a term, made of what was seen: its labels, owners and whatever else it has stay.
pub(super) fn show(seen: Option<Lease>, name: &str, face: &Face<'_>) -> Lease {
    let new = seen.is_none();
    let mut lease = seen.unwrap_or_else(|| Lease {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some([(MIRROR.to_owned(), "true".to_owned())].into()),
            ..ObjectMeta::default()
        },
        ..Lease::default()
    });
    // The server keeps its own account of who wrote what.
    lease.metadata.managed_fields = None;
    let before = lease.metadata.annotations.get_or_insert_default();
    let shown = before.insert(MIRROR.to_owned(), face.term.token.to_string());
    let spec = lease.spec.get_or_insert_default();
    if shown.as_deref() != Some(face.term.token.to_string().as_str()) {
        spec.lease_transitions = Some(if new { 0 } else { spec.lease_transitions.unwrap_or(0).saturating_add(1) });
        spec.acquire_time = Some(micro(face.term.since));
    }
    spec.holder_identity = Some(face.holder.to_owned());
    // Twice the time to the next renewal, so that it is only out of date when the leader is gone.
    let seconds = (face.period * 2).as_millis().div_ceil(1_000);
    spec.lease_duration_seconds = Some(i32::try_from(seconds).unwrap_or(i32::MAX));
    spec.renew_time = Some(micro(face.renewed));
    lease
}

/// The object without a holder.
pub(super) fn hide(seen: Lease, now: Timestamp) -> Lease {
    let spec = LeaseSpec {
        // As client-go releases.
        holder_identity: Some(String::new()),
        lease_duration_seconds: Some(1),
        renew_time: Some(micro(now)),
        ..seen.spec.unwrap_or_default()
    };
    let metadata = ObjectMeta { managed_fields: None, ..seen.metadata };
    Lease { metadata, spec: Some(spec) }
}

/// To the microsecond, which is all that travels.
fn micro(time: Timestamp) -> MicroTime {
    let us = time.as_microsecond();
    MicroTime(k8s_openapi::jiff::Timestamp::from_microsecond(us).unwrap_or(k8s_openapi::jiff::Timestamp::UNIX_EPOCH))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn face(token: u64, second: i64) -> Face<'static> {
        let since = Timestamp::from_second(1_700_000_000).unwrap();
        let renewed = Timestamp::from_second(1_700_000_000 + second).unwrap();
        let term = Term { token: Token::new(token).unwrap(), since };
        Face { holder: "web-0", term, renewed, period: Duration::from_secs(15) }
    }

    fn spec(lease: &Lease) -> serde_json::Value {
        serde_json::to_value(lease.spec.as_ref().unwrap()).unwrap()
    }

    #[test]
    fn a_term_is_shown_renewed_taken_back_and_followed_by_another() {
        let first = show(None, "baton-a", &face(7, 1));
        assert_eq!(whose(&first), Whose::Ours(Token::new(7).unwrap()));
        let told = spec(&first);
        assert_eq!((&told["holderIdentity"], &told["leaseTransitions"]), (&"web-0".into(), &0.into()));
        assert_eq!(
            (&told["leaseDurationSeconds"], &told["renewTime"]),
            (&30.into(), &"2023-11-14T22:13:21.000000Z".into())
        );
        let renewed = spec(&show(Some(first.clone()), "baton-a", &face(7, 20)));
        assert_eq!((&renewed["acquireTime"], &renewed["leaseTransitions"]), (&told["acquireTime"], &0.into()));
        assert_ne!(renewed["renewTime"], told["renewTime"]);
        let empty = hide(first, Timestamp::UNIX_EPOCH);
        assert_eq!((&spec(&empty)["holderIdentity"], &spec(&empty)["leaseTransitions"]), (&"".into(), &0.into()));
        let next = show(Some(empty), "baton-a", &face(9, 30));
        assert_eq!((whose(&next), &spec(&next)["leaseTransitions"]), (Whose::Ours(Token::new(9).unwrap()), &1.into()));
    }

    #[test]
    fn what_others_put_on_the_object_stays() {
        let mut seen = show(None, "baton-a", &face(7, 1));
        seen.metadata.labels = Some([("team".to_owned(), "a".to_owned())].into());
        seen.metadata.resource_version = Some("17".to_owned());
        let next = show(Some(seen.clone()), "baton-a", &face(9, 2));
        assert_eq!(next.metadata.labels, seen.metadata.labels);
        assert_eq!(next.metadata.resource_version.as_deref(), Some("17"));
    }

    #[test]
    fn an_object_without_the_mark_is_somebody_elses() {
        assert!(matches!(whose(&Lease::default()), Whose::Foreign(why) if why.contains("something else made it")));
        let mut odd = show(None, "baton-a", &face(7, 1));
        odd.metadata.annotations.as_mut().unwrap().insert(MIRROR.to_owned(), "many".to_owned());
        assert!(matches!(whose(&odd), Whose::Foreign(why) if why.contains("no token")));
    }
}
