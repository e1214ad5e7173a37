//! Errors as `application/problem+json`.

use std::time::Duration;

use bytes::Bytes;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use hyper::{Response, StatusCode};
use serde::Serialize;
use serde_json::Value;

/// The media type of every error.
pub const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");

/// Every kind of error that either listener answers. Its word is the stable end of `type`: clients may branch on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProblemKind {
    /// A query parameter is unknown, malformed or out of range.
    BadParameter,
    /// The request's body is not what the call takes.
    BadBody,
    /// No role was named, there are several, and none of them is the default.
    AmbiguousRole,
    /// HTTP/1.1 without a `Host`, or more than one.
    BadHost,
    /// The bearer token is missing or wrong.
    Unauthorized,
    /// The `Host` is not one of this listener's names.
    ForeignHost,
    /// The request comes from a web page that is not ours.
    ForeignOrigin,
    /// It would change something, comes from a browser, and lacks what only a page of ours sends.
    UnmarkedRequest,
    /// This replica has no such role.
    UnknownRole,
    /// There is nothing at this path.
    UnknownPath,
    /// The path exists, but not with this method.
    MethodNotAllowed,
    /// The request did not arrive in time.
    RequestTimeout,
    /// Only the leader can do this, and this replica does not lead.
    NotLeading,
    /// Nothing is being drained.
    NotDraining,
    /// The body is larger than any call takes.
    BodyTooLarge,
    /// The body is not JSON.
    UnsupportedMediaType,
    /// This listener has as many connections as it may.
    TooManyConnections,
    /// The file with the bearer token cannot be read, so nobody can be let in.
    TokenUnavailable,
    /// The role's task has ended: the process is going down, or a reload removed the role.
    RoleStopped,
    /// The role's task did not answer in time.
    RoleUnresponsive,
    /// Others hold the lock, or came first.
    LockHeld,
    /// Others use the lock with another number of permits.
    PermitsDiffer,
    /// The lock is not held under this id, or no longer.
    LockLost,
    /// What stands in the path cannot be a lock.
    UnknownLock,
    /// As many requests wait for locks, or hold one, as may.
    TooManyWaiters,
    /// The store gave no usable answer.
    StoreUnavailable,
    /// The store may have forgotten locks that still stand (R5).
    StoreGuarded,
    /// The store of this replica has no locks.
    LocksDisabled,
    /// The configuration has no such job.
    UnknownJob,
    /// The job has no such run, or has forgotten it.
    UnknownRun,
    /// The attempt does not go on, or not on this replica.
    RunOver,
    /// As many runs as may have been asked for and have not begun.
    TooManyRuns,
    /// The store of this replica has no jobs.
    JobsDisabled,
    /// The process is ending and takes on nothing new.
    ShuttingDown,
    /// A bug.
    Internal,
}

impl ProblemKind {
    /// Every kind, for the documentation's tests.
    pub const ALL: [Self; 35] = [
        Self::BadParameter,
        Self::BadBody,
        Self::AmbiguousRole,
        Self::BadHost,
        Self::Unauthorized,
        Self::ForeignHost,
        Self::ForeignOrigin,
        Self::UnmarkedRequest,
        Self::UnknownRole,
        Self::UnknownPath,
        Self::MethodNotAllowed,
        Self::RequestTimeout,
        Self::NotLeading,
        Self::NotDraining,
        Self::BodyTooLarge,
        Self::UnsupportedMediaType,
        Self::TooManyConnections,
        Self::TokenUnavailable,
        Self::RoleStopped,
        Self::RoleUnresponsive,
        Self::LockHeld,
        Self::PermitsDiffer,
        Self::LockLost,
        Self::UnknownLock,
        Self::TooManyWaiters,
        Self::StoreUnavailable,
        Self::StoreGuarded,
        Self::LocksDisabled,
        Self::UnknownJob,
        Self::UnknownRun,
        Self::RunOver,
        Self::TooManyRuns,
        Self::JobsDisabled,
        Self::ShuttingDown,
        Self::Internal,
    ];

    const fn describe(self) -> (&'static str, StatusCode, &'static str) {
        match self {
            Self::BadParameter => {
                ("urn:baton:problem:bad-parameter", StatusCode::BAD_REQUEST, "a query parameter is not usable")
            }
            Self::BadBody => ("urn:baton:problem:bad-body", StatusCode::BAD_REQUEST, "the body is not usable"),
            Self::AmbiguousRole => {
                ("urn:baton:problem:ambiguous-role", StatusCode::BAD_REQUEST, "several roles, and none is the default")
            }
            Self::BadHost => ("urn:baton:problem:bad-host", StatusCode::BAD_REQUEST, "not exactly one Host"),
            Self::Unauthorized => {
                ("urn:baton:problem:unauthorized", StatusCode::UNAUTHORIZED, "the bearer token is missing or wrong")
            }
            Self::ForeignHost => ("urn:baton:problem:foreign-host", StatusCode::FORBIDDEN, "the Host is not ours"),
            Self::ForeignOrigin => {
                ("urn:baton:problem:foreign-origin", StatusCode::FORBIDDEN, "the Origin is not ours")
            }
            Self::UnmarkedRequest => (
                "urn:baton:problem:unmarked-request",
                StatusCode::FORBIDDEN,
                "a browser's request lacks X-Baton-Request",
            ),
            Self::UnknownRole => ("urn:baton:problem:unknown-role", StatusCode::NOT_FOUND, "unknown role"),
            Self::UnknownPath => ("urn:baton:problem:unknown-path", StatusCode::NOT_FOUND, "unknown path"),
            Self::MethodNotAllowed => {
                ("urn:baton:problem:method-not-allowed", StatusCode::METHOD_NOT_ALLOWED, "method not allowed")
            }
            Self::RequestTimeout => {
                ("urn:baton:problem:request-timeout", StatusCode::REQUEST_TIMEOUT, "the request came too slowly")
            }
            Self::NotLeading => ("urn:baton:problem:not-leading", StatusCode::CONFLICT, "this replica does not lead"),
            Self::NotDraining => ("urn:baton:problem:not-draining", StatusCode::CONFLICT, "nothing is draining"),
            Self::BodyTooLarge => {
                ("urn:baton:problem:body-too-large", StatusCode::PAYLOAD_TOO_LARGE, "the body is too large")
            }
            Self::UnsupportedMediaType => {
                ("urn:baton:problem:unsupported-media-type", StatusCode::UNSUPPORTED_MEDIA_TYPE, "the body is not JSON")
            }
            Self::TooManyConnections => {
                ("urn:baton:problem:too-many-connections", StatusCode::SERVICE_UNAVAILABLE, "too many connections")
            }
            Self::TokenUnavailable => {
                ("urn:baton:problem:token-unavailable", StatusCode::SERVICE_UNAVAILABLE, "the token cannot be read")
            }
            Self::RoleStopped => {
                ("urn:baton:problem:role-stopped", StatusCode::SERVICE_UNAVAILABLE, "the role has stopped")
            }
            Self::RoleUnresponsive => {
                ("urn:baton:problem:role-unresponsive", StatusCode::SERVICE_UNAVAILABLE, "the role does not respond")
            }
            _ => self.describe_rest(),
        }
    }

    /// The kinds of locks, and of what concerns the whole process.
    const fn describe_rest(self) -> (&'static str, StatusCode, &'static str) {
        match self {
            Self::LockHeld => ("urn:baton:problem:lock-held", StatusCode::CONFLICT, "the lock is held"),
            Self::PermitsDiffer => {
                ("urn:baton:problem:permits-differ", StatusCode::CONFLICT, "others use another number of permits")
            }
            Self::LockLost => ("urn:baton:problem:lock-lost", StatusCode::GONE, "the lock is not held under this id"),
            Self::UnknownLock => ("urn:baton:problem:unknown-lock", StatusCode::NOT_FOUND, "no such lock"),
            Self::TooManyWaiters => {
                ("urn:baton:problem:too-many-waiters", StatusCode::SERVICE_UNAVAILABLE, "too many requests wait")
            }
            Self::StoreUnavailable => {
                ("urn:baton:problem:store-unavailable", StatusCode::SERVICE_UNAVAILABLE, "the store does not answer")
            }
            Self::StoreGuarded => (
                "urn:baton:problem:store-guarded",
                StatusCode::SERVICE_UNAVAILABLE,
                "the store may have forgotten locks",
            ),
            Self::LocksDisabled => {
                ("urn:baton:problem:locks-disabled", StatusCode::NOT_IMPLEMENTED, "there are no locks here")
            }
            Self::UnknownJob => ("urn:baton:problem:unknown-job", StatusCode::NOT_FOUND, "unknown job"),
            Self::UnknownRun => ("urn:baton:problem:unknown-run", StatusCode::NOT_FOUND, "unknown run"),
            Self::RunOver => ("urn:baton:problem:run-over", StatusCode::GONE, "the attempt does not go on here"),
            Self::TooManyRuns => {
                ("urn:baton:problem:too-many-runs", StatusCode::TOO_MANY_REQUESTS, "enough runs were asked for")
            }
            Self::JobsDisabled => {
                ("urn:baton:problem:jobs-disabled", StatusCode::NOT_IMPLEMENTED, "there are no jobs here")
            }
            Self::ShuttingDown => {
                ("urn:baton:problem:shutting-down", StatusCode::SERVICE_UNAVAILABLE, "the process is ending")
            }
            _ => ("urn:baton:problem:internal", StatusCode::INTERNAL_SERVER_ERROR, "a bug in Baton"),
        }
    }

    /// The stable identifier in `type`.
    pub const fn uri(self) -> &'static str {
        self.describe().0
    }

    /// The status it is answered with.
    pub const fn status(self) -> StatusCode {
        self.describe().1
    }
}

/// One error, as it is answered.
#[derive(Clone, Debug)]
pub struct Problem {
    kind: ProblemKind,
    detail: String,
    known: Option<Vec<String>>,
    members: Vec<(&'static str, Value)>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

#[derive(Serialize)]
struct Shape<'a> {
    r#type: &'static str,
    title: &'static str,
    status: u16,
    detail: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    known: Option<&'a [String]>,
    #[serde(flatten)]
    members: Members<'a>,
}

/// Further members, in their order.
struct Members<'a>(&'a [(&'static str, Value)]);

impl Serialize for Members<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl Problem {
    /// An error of this kind; `detail` says in words what was wrong with this request. It never holds a secret.
    pub fn new(kind: ProblemKind, detail: impl Into<String>) -> Self {
        let headers = match kind {
            ProblemKind::Unauthorized => vec![(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"baton\""))],
            ProblemKind::TooManyConnections => vec![(RETRY_AFTER, HeaderValue::from_static("1"))],
            _ => Vec::new(),
        };
        Self { kind, detail: detail.into(), known: None, members: Vec::new(), headers }
    }

    /// A wrong method; `allow` lists the right ones as the `Allow` header does.
    pub fn method_not_allowed(allow: &'static str) -> Self {
        let mut problem = Self::new(ProblemKind::MethodNotAllowed, format!("this path takes {allow}"));
        problem.headers.push((ALLOW, HeaderValue::from_static(allow)));
        problem
    }

    /// Adds the member `known`: what the request could have named.
    #[must_use]
    pub fn with_known(mut self, known: Vec<String>) -> Self {
        self.known = Some(known);
        self
    }

    /// Adds a member of the JSON object.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: Value) -> Self {
        self.members.push((name, value));
        self
    }

    /// Says when to ask again: the member `retry_after_ms`, and the header in whole seconds.
    #[must_use]
    pub fn with_retry_after(mut self, span: Duration) -> Self {
        let ms = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        self.headers.push((RETRY_AFTER, HeaderValue::from(ms.div_ceil(1_000).max(1))));
        self.with("retry_after_ms", ms.into())
    }

    /// Its kind.
    pub fn kind(&self) -> ProblemKind {
        self.kind
    }

    /// The JSON object.
    pub fn to_json(&self) -> Bytes {
        let (r#type, status, title) = self.kind.describe();
        let known = self.known.as_deref();
        let members = Members(&self.members);
        let shape = Shape { r#type, title, status: status.as_u16(), detail: &self.detail, known, members };
        // Strings and a number: nothing in it can fail to serialise; an empty body beats a panic all the same.
        serde_json::to_vec(&shape).map(Bytes::from).unwrap_or_default()
    }

    /// The whole response.
    pub fn into_response(self) -> Response<Bytes> {
        let mut response = Response::new(self.to_json());
        *response.status_mut() = self.kind.status();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, PROBLEM_JSON);
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.extend(self.headers);
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_type_of_its_own_and_an_error_status() {
        let mut uris: Vec<_> = ProblemKind::ALL.iter().map(|kind| kind.uri()).collect();
        uris.sort_unstable();
        uris.dedup();
        assert_eq!(uris.len(), ProblemKind::ALL.len());
        assert!(uris.iter().all(|uri| uri.starts_with("urn:baton:problem:")));
        assert!(ProblemKind::ALL.iter().all(|k| k.status().is_client_error() || k.status().is_server_error()));
    }

    #[test]
    fn a_problem_says_what_could_have_been_named() {
        let problem = Problem::new(ProblemKind::UnknownRole, "no role x").with_known(vec!["a".into()]);
        let json: serde_json::Value = serde_json::from_slice(&problem.to_json()).unwrap();
        assert_eq!(json["type"], "urn:baton:problem:unknown-role");
        assert_eq!((&json["status"], &json["known"]), (&404.into(), &serde_json::json!(["a"])));
    }
}
