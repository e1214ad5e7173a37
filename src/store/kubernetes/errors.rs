//! What an API server's answer, or its silence, means, in words for the person who has to do something about it.

use std::time::Duration;

use kube::core::response::Status;

use crate::kube_api::{Resource, Trouble, missing_rule, said};
use crate::store::StoreError;

/// What was asked of the API server, for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Get,
    Create,
    Update,
    Delete,
    Watch,
}

impl Verb {
    /// The word in RBAC rules.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Create => "create",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::Watch => "watch",
        }
    }
}

/// Where a request went, for messages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target<'a> {
    /// Host and port of the API server.
    pub endpoint: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
    pub verb: Verb,
}

/// What became of a request that did not do what it was to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// There is no such object.
    Missing,
    /// Somebody else changed it, or made it, first.
    Conflict,
    /// It does not know who asks, so that it does nothing for us.
    Unauthorized { reason: String },
    /// It was not done, for sure.
    Denied { error: StoreError, retry_after: Option<Duration> },
    /// It may have been done.
    Open { error: StoreError, retry_after: Option<Duration> },
}

impl Failure {
    /// What the caller of the store is told.
    pub fn into_error(self) -> StoreError {
        match self {
            Self::Denied { error, .. } | Self::Open { error, .. } => error,
            Self::Unauthorized { reason } => StoreError::Refused { reason },
            Self::Missing => StoreError::Refused { reason: "the Lease does not exist".to_owned() },
            Self::Conflict => StoreError::Refused { reason: "somebody else changed the Lease first".to_owned() },
        }
    }

    fn denied(reason: String) -> Self {
        Self::Denied { error: StoreError::Refused { reason }, retry_after: None }
    }

    fn open(reason: String, retry_after: Option<Duration>) -> Self {
        Self::Open { error: StoreError::Unreachable { reason }, retry_after }
    }
}

/// What became of a request that was sent to `at`.
pub(super) fn of(trouble: Trouble, at: Target<'_>) -> Failure {
    match trouble {
        Trouble::Status { code, status, retry_after } => judge(code, &status, retry_after, at),
        Trouble::Credentials(why) => {
            let reason = format!("the credentials for {} cannot be read: {why}", at.endpoint);
            Failure::Denied { error: StoreError::Unreachable { reason }, retry_after: None }
        }
        Trouble::Broken(reason) => Failure::open(reason, None),
    }
}

/// An answer with a status that is no success. `retry_after`: how long it asks to wait.
fn judge(code: u16, status: &Status, retry_after: Option<Duration>, at: Target<'_>) -> Failure {
    let Target { endpoint, namespace, name, verb } = at;
    let said = said(status);
    let details = status.details.as_ref();
    match code {
        404 if details.is_some_and(|details| details.kind == "leases") => Failure::Missing,
        404 if details.is_some_and(|details| details.kind == "namespaces") => Failure::denied(format!(
            "there is no namespace {namespace} (404): create it, or set store.kubernetes.namespace"
        )),
        404 => Failure::denied(format!(
            "{endpoint} knows no Leases (404{said}): check that it is a Kubernetes API server, 1.20 or newer"
        )),
        409 => Failure::Conflict,
        401 => Failure::Unauthorized {
            reason: format!(
                "it does not accept these credentials (401{said}): check the pod's service account and its token, or \
                 the kubeconfig's user"
            ),
        },
        403 => Failure::denied(format!("{}{said}", forbidden(verb, namespace, name))),
        400 | 405 | 406 | 413 | 415 | 422 => Failure::denied(format!(
            "it does not take {name} as Baton writes it ({code}{said}): check namePrefix, identity and admission \
             policies for leases.coordination.k8s.io"
        )),
        429 => Failure::Denied {
            error: StoreError::Refused {
                reason: format!(
                    "too many requests ({code}{}): its priority and fairness turned this one away; see its load",
                    waiting(retry_after)
                ),
            },
            // Also without a word for how long.
            retry_after: Some(retry_after.unwrap_or_default()),
        },
        500..=599 => {
            let reason = format!("{endpoint} answers {code}{said}{}", waiting(retry_after));
            Failure::open(reason, retry_after)
        }
        _ => Failure::open(format!("{endpoint} answers {code}{said}, which Baton does not understand"), None),
    }
}

fn forbidden(verb: Verb, namespace: &str, name: &str) -> String {
    // Only an existing object can be named by a rule.
    let only = Some(name).filter(|_| verb != Verb::Create);
    missing_rule(verb.as_str(), Resource::LEASES, namespace, name, only)
}

fn waiting(retry_after: Option<Duration>) -> String {
    retry_after.map(|span| format!(", asks to wait {} s", span.as_secs())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(verb: Verb) -> Target<'static> {
        Target { endpoint: "10.0.0.1:443", namespace: "shop", name: "baton-scheduler", verb }
    }

    fn words(code: u16, body: &str, verb: Verb) -> (Failure, String) {
        let status: Status = serde_json::from_str(body).unwrap();
        let failure = judge(code, &status, None, at(verb));
        let words = failure.clone().into_error().to_string();
        (failure, words)
    }

    #[test]
    fn a_missing_lease_is_told_from_a_missing_namespace_and_from_a_wrong_server() {
        let (failure, _) = words(404, r#"{"code":404,"details":{"kind":"leases"}}"#, Verb::Get);
        assert_eq!(failure, Failure::Missing);
        let (_, words_of_namespace) = words(404, r#"{"code":404,"details":{"kind":"namespaces"}}"#, Verb::Create);
        assert!(words_of_namespace.contains("no namespace shop"), "{words_of_namespace}");
        let (_, wrong) = words(404, r#"{"code":404,"message":"the server could not find the resource"}"#, Verb::Get);
        assert!(wrong.contains("Kubernetes API server"), "{wrong}");
    }

    #[test]
    fn a_forbidden_verb_names_the_rule_that_is_missing() {
        for verb in [Verb::Get, Verb::Create, Verb::Update, Verb::Delete, Verb::Watch] {
            let (failure, words) = words(403, r#"{"code":403,"message":"nobody may"}"#, verb);
            assert!(matches!(failure, Failure::Denied { .. }));
            for word in [verb.as_str(), "namespace shop", "resources: [leases]", "nobody may"] {
                assert!(words.contains(word), "{word}: {words}");
            }
            assert_eq!(words.contains("resourceNames"), verb != Verb::Create, "{words}");
        }
    }

    #[test]
    fn only_answers_that_leave_no_doubt_count_as_not_done() {
        for (code, denied) in
            [(400, true), (401, true), (403, true), (422, true), (429, true), (500, false), (504, false)]
        {
            let (failure, _) = words(code, "{}", Verb::Create);
            let is_denied = matches!(failure, Failure::Denied { .. } | Failure::Unauthorized { .. });
            assert_eq!(is_denied, denied, "{code}");
        }
    }

    #[test]
    fn the_time_to_wait_is_told_and_kept() {
        let failure = judge(429, &Status::default(), Some(Duration::from_secs(7)), at(Verb::Update));
        assert!(matches!(failure, Failure::Denied { retry_after: Some(span), .. } if span.as_secs() == 7));
        let words = failure.into_error().to_string();
        assert!(words.contains("wait 7 s"), "{words}");
        let failure = judge(503, &Status::default(), Some(Duration::from_secs(2)), at(Verb::Get));
        assert!(matches!(failure, Failure::Open { retry_after: Some(span), .. } if span.as_secs() == 2));
        let failure = judge(429, &Status::default(), None, at(Verb::Get));
        assert!(
            matches!(failure, Failure::Denied { retry_after: Some(Duration::ZERO), .. }),
            "too busy, not forbidden"
        );
        assert!(!failure.into_error().to_string().contains("asks to wait"));
    }
}
