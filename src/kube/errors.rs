//! What an API server's answer, or its silence, means, in words for the person who has to do something about it.

use std::time::Duration;

use kube::core::response::Status;

use super::{Object, Verb};

/// However long an overloaded server asks to wait, it is asked again after this.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(30);

/// What became of a request that did not do what it was to do. Its text holds no secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    #[error("there is no such object")]
    Missing,
    #[error("somebody else changed it, or made it, first")]
    Conflict,
    /// It was not done, for sure.
    #[error("{reason}")]
    Denied {
        why: Denial,
        /// The HTTP status; 0 when nothing was sent.
        code: u16,
        reason: String,
        retry_after: Option<Duration>,
    },
    /// No usable answer: it may have been done.
    #[error("{reason}")]
    Unanswered {
        /// For how long it was waited in vain.
        waited: Option<Duration>,
        reason: String,
        retry_after: Option<Duration>,
    },
}

/// Why a request was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denial {
    /// Nothing was sent: there are no credentials, or no request could be made.
    Unsent,
    /// It does not know who asks (401).
    Unauthorized,
    /// It knows, and no rule allows it (403).
    Forbidden,
    /// There is no such namespace (404).
    NoNamespace,
    /// There are no such objects at all (404).
    NoSuchKind,
    /// It does not take the object as it is.
    Invalid,
    /// It has too much to do (429).
    Busy,
}

impl Failure {
    /// For how long the server asked not to be asked.
    pub const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Missing | Self::Conflict => None,
            Self::Denied { retry_after, .. } | Self::Unanswered { retry_after, .. } => *retry_after,
        }
    }

    /// Whether the server does nothing for us at all; else it works, and has something against this request.
    pub const fn is_outage(&self) -> bool {
        match self {
            Self::Missing | Self::Conflict => false,
            Self::Denied { why, .. } => match why {
                Denial::Unsent | Denial::Unauthorized | Denial::Busy => true,
                Denial::Forbidden | Denial::NoNamespace | Denial::NoSuchKind | Denial::Invalid => false,
            },
            Self::Unanswered { .. } => true,
        }
    }

    /// Whether the server will answer the same until somebody changes something there: it does not know who asks, or
    /// allows it not.
    pub const fn is_lasting(&self) -> bool {
        match self {
            Self::Missing | Self::Conflict | Self::Unanswered { .. } => false,
            Self::Denied { why, .. } => match why {
                Denial::Unauthorized | Denial::Forbidden => true,
                Denial::Unsent | Denial::NoNamespace | Denial::NoSuchKind | Denial::Invalid | Denial::Busy => false,
            },
        }
    }

    pub(super) const fn unsent(reason: String) -> Self {
        Self::Denied { why: Denial::Unsent, code: 0, reason, retry_after: None }
    }

    pub(super) fn too_late(endpoint: &str, waited: Duration) -> Self {
        let reason = format!("{endpoint} has not answered within {waited:?}");
        Self::Unanswered { waited: Some(waited), reason, retry_after: None }
    }
}

/// A request that was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'a> {
    pub endpoint: &'a str,
    pub namespace: &'a str,
    pub object: Object<'a>,
    pub verb: Verb,
}

impl Asked<'_> {
    /// It got no answer, or a watch was answered with a status that is no success.
    pub fn failed(&self, error: &kube::Error) -> Failure {
        #[expect(clippy::wildcard_enum_match_arm, reason = "a foreign enum: the others tell of themselves")]
        match error {
            kube::Error::Api(status) => self.judge(status.code, status, None),
            kube::Error::Auth(error) => {
                Failure::unsent(format!("the credentials for {} cannot be read: {}", self.endpoint, chain(error)))
            }
            other => {
                let told = chain(other);
                self.unusable(&format!(": {told}{}", hint(&told)))
            }
        }
    }

    /// What came of it is of no use.
    pub fn unusable(&self, what: &str) -> Failure {
        Failure::Unanswered { waited: None, reason: format!("{}{what}", self.endpoint), retry_after: None }
    }

    /// It was answered with a status that is no success. `header`: its Retry-After, in seconds.
    pub fn judge(&self, code: u16, status: &Status, header: Option<u64>) -> Failure {
        let Self { endpoint, namespace, object: Object { resource, name }, .. } = *self;
        let details = status.details.as_ref();
        let hinted = details.map(|details| u64::from(details.retry_after_seconds)).filter(|seconds| *seconds > 0);
        let seconds = header.or(hinted);
        let waiting = seconds.map(|seconds| format!(", asks to wait {seconds} s")).unwrap_or_default();
        let retry_after = seconds.map(|seconds| Duration::from_secs(seconds).min(RETRY_AFTER_MAX));
        let said = said(status);
        let denied = |why, reason| Failure::Denied { why, code, reason, retry_after };
        let unanswered = |reason| Failure::Unanswered { waited: None, reason, retry_after };
        match (code, details.map(|details| details.kind.as_str())) {
            (404, Some(kind)) if kind == resource.plural => Failure::Missing,
            (404, Some("namespaces")) => {
                denied(Denial::NoNamespace, format!("there is no namespace {namespace} (404): create it"))
            }
            (404, _) => denied(
                Denial::NoSuchKind,
                format!(
                    "{endpoint} knows no {}s (404{said}): check that it is a Kubernetes API server, 1.20 or newer",
                    resource.kind
                ),
            ),
            (409, _) => Failure::Conflict,
            (401, _) => denied(
                Denial::Unauthorized,
                format!(
                    "it does not accept these credentials (401{said}): check the pod's service account and its token, \
                     or the kubeconfig's user"
                ),
            ),
            (403, _) => denied(Denial::Forbidden, format!("{}{said}", self.missing_rule())),
            (400 | 405 | 406 | 413 | 415 | 422, _) => {
                let what = if name.is_empty() { resource.to_string() } else { name.to_owned() };
                denied(
                    Denial::Invalid,
                    format!(
                        "it does not take {what} as Baton writes it ({code}{said}): check admission policies for \
                         {resource}"
                    ),
                )
            }
            (429, _) => denied(
                Denial::Busy,
                format!(
                    "too many requests ({code}{waiting}): its priority and fairness turned this one away; see its load"
                ),
            ),
            (500..=599, _) => unanswered(format!("{endpoint} answers {code}{said}{waiting}")),
            _ => unanswered(format!("{endpoint} answers {code}{said}, which Baton does not understand")),
        }
    }

    /// What a 403 means: which rule is missing.
    fn missing_rule(&self) -> String {
        let Self { namespace, object: Object { resource, name }, verb, .. } = *self;
        let group = if resource.group.is_empty() { "\"\"" } else { resource.group };
        let name = if resource.named_in_rules { name } else { "" };
        let space = if name.is_empty() { "" } else { " " };
        // Only an existing object can be named by a rule.
        let only =
            if name.is_empty() || verb == Verb::Create { String::new() } else { format!(", resourceNames: [{name}]") };
        let (verb, plural) = (verb.as_str(), resource.plural);
        format!(
            "it forbids to {verb} {resource}{space}{name} in namespace {namespace} (403): grant its service account a \
             Role there with apiGroups: [{group}], resources: [{plural}], verbs: [{verb}]{only}"
        )
    }
}

/// What the server said, short enough for a log line, after a colon; empty when it said nothing.
fn said(status: &Status) -> String {
    const CHARS_MAX: usize = 300;
    let message = status.message.trim();
    if message.is_empty() {
        return String::new();
    }
    let shown: String = message.chars().take(CHARS_MAX).flat_map(char::escape_debug).collect();
    format!(": {shown}")
}

/// What may help where a connection cannot be made.
fn hint(told: &str) -> &'static str {
    if told.contains("certificate") {
        "; check the cluster's certificate authority, and that the address is the API server's"
    } else {
        ""
    }
}

/// An error with its causes, each once.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut told = error.to_string();
    let mut cause = error.source();
    while let Some(deeper) = cause {
        let text = deeper.to_string();
        if !told.contains(&text) {
            told.push_str(": ");
            told.push_str(&text);
        }
        cause = deeper.source();
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kube::Resource;

    fn asked(verb: Verb) -> Asked<'static> {
        let object = Object { resource: Resource::LEASES, name: "baton-scheduler" };
        Asked { endpoint: "10.0.0.1:443", namespace: "shop", object, verb }
    }

    fn answered(code: u16, body: &str, verb: Verb) -> Failure {
        asked(verb).judge(code, &serde_json::from_str(body).unwrap(), None)
    }

    fn why(failure: &Failure) -> Option<Denial> {
        match failure {
            Failure::Denied { why, .. } => Some(*why),
            Failure::Missing | Failure::Conflict | Failure::Unanswered { .. } => None,
        }
    }

    #[test]
    fn a_missing_lease_is_told_from_a_missing_namespace_and_from_a_wrong_server() {
        assert_eq!(answered(404, r#"{"code":404,"details":{"kind":"leases"}}"#, Verb::Get), Failure::Missing);
        let nowhere = answered(404, r#"{"code":404,"details":{"kind":"namespaces"}}"#, Verb::Create);
        assert!(why(&nowhere) == Some(Denial::NoNamespace) && nowhere.to_string().contains("no namespace shop"));
        let wrong = answered(404, r#"{"code":404,"message":"the server could not find the resource"}"#, Verb::Get);
        assert!(why(&wrong) == Some(Denial::NoSuchKind) && wrong.to_string().contains("Kubernetes API server"));
    }

    #[test]
    fn who_is_not_known_is_told_from_who_may_not_by_a_field() {
        assert_eq!(why(&answered(401, "{}", Verb::Get)), Some(Denial::Unauthorized));
        assert_eq!(why(&answered(403, "{}", Verb::Get)), Some(Denial::Forbidden));
    }

    #[test]
    fn a_forbidden_verb_names_the_rule_that_is_missing() {
        for verb in [Verb::Get, Verb::Create, Verb::Update, Verb::Delete, Verb::Watch] {
            let words = answered(403, r#"{"code":403,"message":"nobody may"}"#, verb).to_string();
            for word in [verb.as_str(), "namespace shop", "resources: [leases]", "nobody may"] {
                assert!(words.contains(word), "{word}: {words}");
            }
            assert_eq!(words.contains("resourceNames"), verb != Verb::Create, "{words}");
        }
    }

    #[test]
    fn a_missing_rule_is_told_as_it_would_be_written() {
        let object = Object { resource: Resource::PODS, name: "web-0" };
        assert_eq!(
            Asked { object, ..asked(Verb::Patch) }.missing_rule(),
            "it forbids to patch pods in namespace shop (403): grant its service account a Role there with \
             apiGroups: [\"\"], resources: [pods], verbs: [patch]"
        );
        let words = asked(Verb::Update).missing_rule();
        assert!(words.contains("leases.coordination.k8s.io baton-scheduler"), "{words}");
        assert!(words.ends_with("resources: [leases], verbs: [update], resourceNames: [baton-scheduler]"), "{words}");
    }

    #[test]
    fn only_answers_that_leave_no_doubt_count_as_not_done() {
        for (code, denied) in
            [(400, true), (401, true), (403, true), (410, false), (422, true), (429, true), (500, false), (504, false)]
        {
            assert_eq!(why(&answered(code, "{}", Verb::Create)).is_some(), denied, "{code}");
        }
    }

    #[test]
    fn the_time_to_wait_is_told_and_kept_within_a_bound() {
        let status = Status::default();
        let failure = asked(Verb::Update).judge(429, &status, Some(7));
        assert_eq!(failure.retry_after(), Some(Duration::from_secs(7)));
        assert!(failure.to_string().contains("wait 7 s"), "{failure}");
        let failure = asked(Verb::Get).judge(503, &status, Some(1 << 40));
        assert!(matches!(failure, Failure::Unanswered { .. }));
        assert_eq!(failure.retry_after(), Some(RETRY_AFTER_MAX));
        let failure = asked(Verb::Get).judge(429, &status, None);
        assert_eq!((why(&failure), failure.retry_after()), (Some(Denial::Busy), None));
        assert!(failure.is_outage() && !failure.to_string().contains("asks to wait"), "too busy, not forbidden");
        let hinted = answered(429, r#"{"code":429,"details":{"retryAfterSeconds":3}}"#, Verb::Watch);
        assert_eq!(hinted.retry_after(), Some(Duration::from_secs(3)));
    }
}
