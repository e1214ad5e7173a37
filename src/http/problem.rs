//! Errors as `application/problem+json`.

use std::time::Duration;

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use serde::Serialize;
use serde_json::Value;

use super::answer::{Content, Response};

/// The media type of every error.
pub const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");

/// No error names more of what there is: whoever asks in vain shall not cost more than whoever asks.
const KNOWN_MAX: usize = 20;

/// One table: the kinds, the words that end their `type`, their statuses and titles. No kind is there without its row.
macro_rules! problems {
    ($($(#[$doc:meta])* $kind:ident = $word:literal, $status:ident, $title:literal;)*) => {
        /// Every kind of error that either listener answers. Its word is the stable end of `type`: clients may branch
        /// on it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ProblemKind {
            $($(#[$doc])* $kind,)*
        }

        impl ProblemKind {
            /// Every kind, for the documentation's tests.
            pub const ALL: &[Self] = &[$(Self::$kind,)*];

            const fn describe(self) -> (&'static str, StatusCode, &'static str) {
                match self {
                    $(Self::$kind => (concat!("urn:baton:problem:", $word), StatusCode::$status, $title),)*
                }
            }
        }
    };
}

problems! {
    /// A query parameter is unknown, malformed or out of range.
    BadParameter = "bad-parameter", BAD_REQUEST, "a query parameter is not usable";
    BadHeader = "bad-header", BAD_REQUEST, "a header is not usable";
    BadBody = "bad-body", BAD_REQUEST, "the body is not usable";
    AmbiguousRole = "ambiguous-role", BAD_REQUEST, "several roles, and none is the default";
    /// HTTP/1.1 without a `Host`, or more than one.
    BadHost = "bad-host", BAD_REQUEST, "not exactly one Host";
    Unauthorized = "unauthorized", UNAUTHORIZED, "the bearer token is missing or wrong";
    /// The `Host` is not one of this listener's names.
    ForeignHost = "foreign-host", FORBIDDEN, "the Host is not ours";
    /// The request comes from a web page that is not ours.
    ForeignOrigin = "foreign-origin", FORBIDDEN, "the Origin is not ours";
    /// It would change something, comes from a browser, and lacks what only a page of ours sends.
    UnmarkedRequest = "unmarked-request", FORBIDDEN, "a browser's request lacks X-Baton-Request";
    UnknownRole = "unknown-role", NOT_FOUND, "unknown role";
    UnknownPath = "unknown-path", NOT_FOUND, "unknown path";
    /// The path exists, but not with this method.
    MethodNotAllowed = "method-not-allowed", METHOD_NOT_ALLOWED, "method not allowed";
    /// The request did not arrive in time.
    RequestTimeout = "request-timeout", REQUEST_TIMEOUT, "the request came too slowly";
    /// Only the leader can do this, and this replica does not lead.
    NotLeading = "not-leading", CONFLICT, "this replica does not lead";
    HoldEnded = "hold-ended", GONE, "this connection has ended";
    NotDraining = "not-draining", CONFLICT, "nothing is draining";
    BodyTooLarge = "body-too-large", PAYLOAD_TOO_LARGE, "the body is too large";
    UnsupportedMediaType = "unsupported-media-type", UNSUPPORTED_MEDIA_TYPE, "the body is not JSON";
    TooManyConnections = "too-many-connections", SERVICE_UNAVAILABLE, "too many connections";
    /// The file with the bearer token cannot be read, so nobody can be let in.
    TokenUnavailable = "token-unavailable", SERVICE_UNAVAILABLE, "the token cannot be read";
    /// The role's task has ended: the process is going down, or a reload removed the role.
    RoleStopped = "role-stopped", SERVICE_UNAVAILABLE, "the role has stopped";
    /// The role's task did not answer in time.
    RoleUnresponsive = "role-unresponsive", SERVICE_UNAVAILABLE, "the role does not respond";
    /// Others hold the lock, or came first.
    LockHeld = "lock-held", CONFLICT, "the lock is held";
    /// Others use the lock with another number of permits.
    PermitsDiffer = "permits-differ", CONFLICT, "others use another number of permits";
    LockLost = "lock-lost", GONE, "the lock is not held under this id";
    /// An operator would end another lock than the one that was seen.
    TokenDiffers = "token-differs", CONFLICT, "the lock is not held under this token";
    /// What stands in the path cannot be a lock.
    UnknownLock = "unknown-lock", NOT_FOUND, "no such lock";
    /// As many requests wait for locks, or hold one, as may.
    TooManyWaiters = "too-many-waiters", SERVICE_UNAVAILABLE, "too many requests wait";
    /// The app fails its health check, so nothing is held for its connections.
    AppUnhealthy = "app-unhealthy", SERVICE_UNAVAILABLE, "the app fails its health check";
    StoreUnavailable = "store-unavailable", SERVICE_UNAVAILABLE, "the store does not answer";
    /// The store may have forgotten locks that still stand (R5).
    StoreGuarded = "store-guarded", SERVICE_UNAVAILABLE, "the store may have forgotten locks";
    LocksDisabled = "locks-disabled", NOT_IMPLEMENTED, "there are no locks here";
    /// The configuration has no such job.
    UnknownJob = "unknown-job", NOT_FOUND, "unknown job";
    /// The job has no such run, or has forgotten it.
    UnknownRun = "unknown-run", NOT_FOUND, "unknown run";
    /// The attempt does not go on, or not on this replica.
    RunOver = "run-over", GONE, "the attempt does not go on here";
    /// The run has ended, so that it cannot be cancelled.
    RunEnded = "run-ended", CONFLICT, "the run has ended";
    /// Only what has failed can be retried.
    RunNotFailed = "run-not-failed", CONFLICT, "the run has not failed";
    /// As many runs as may have been asked for and have not begun.
    TooManyRuns = "too-many-runs", TOO_MANY_REQUESTS, "enough runs were asked for";
    /// Another goes on, or there is nothing left to run.
    BackfillRefused = "backfill-refused", CONFLICT, "the backfill cannot begin";
    /// The key is that of a request with another body.
    IdempotencyKeyReused = "idempotency-key-reused", UNPROCESSABLE_ENTITY, "the key was used for another body";
    /// A job of the configuration cannot be changed here.
    ConfiguredJob = "configured-job", CONFLICT, "the configuration has this job";
    /// Another job has the name, and is not to be overwritten.
    JobExists = "job-exists", CONFLICT, "another job has this name";
    /// Its run goes on, and runs of such a job never overlap.
    JobRuns = "job-runs", CONFLICT, "the job runs already";
    StoreFull = "store-full", INSUFFICIENT_STORAGE, "the store has no room";
    JobsDisabled = "jobs-disabled", NOT_IMPLEMENTED, "there are no jobs here";
    /// The process is ending and takes on nothing new.
    ShuttingDown = "shutting-down", SERVICE_UNAVAILABLE, "the process is ending";
    Internal = "internal", INTERNAL_SERVER_ERROR, "a bug in Baton";
}

impl ProblemKind {
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
        let mut headers = Vec::new();
        if kind == ProblemKind::Unauthorized {
            headers.push((WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"baton\"")));
        }
        if kind == ProblemKind::TooManyConnections {
            headers.push((RETRY_AFTER, HeaderValue::from_static("1")));
        }
        Self { kind, detail: detail.into(), known: None, members: Vec::new(), headers }
    }

    /// So many connections are open, and no more may be.
    pub fn too_many_connections(max: usize) -> Self {
        Self::new(ProblemKind::TooManyConnections, format!("{max} connections are open, as many as may be"))
    }

    /// A wrong method; `allow` lists the right ones as the `Allow` header does.
    pub fn method_not_allowed(allow: &str) -> Self {
        let mut problem = Self::new(ProblemKind::MethodNotAllowed, format!("this path takes {allow}"));
        // Names of methods are fit for headers.
        problem.headers.extend(HeaderValue::from_str(allow).map(|allow| (ALLOW, allow)));
        problem
    }

    /// Adds the member `known`: what the request could have named, the first of it.
    #[must_use]
    pub fn with_known(mut self, mut known: Vec<String>) -> Self {
        known.truncate(KNOWN_MAX);
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

    pub fn kind(&self) -> ProblemKind {
        self.kind
    }

    pub fn to_json(&self) -> Bytes {
        let (r#type, status, title) = self.kind.describe();
        let known = self.known.as_deref();
        let members = Members(&self.members);
        let shape = Shape { r#type, title, status: status.as_u16(), detail: &self.detail, known, members };
        // Strings and a number: nothing in it can fail to serialise; an empty body beats a panic all the same.
        serde_json::to_vec(&shape).map(Bytes::from).unwrap_or_default()
    }

    pub fn into_response(self) -> Response {
        let mut response = Response::new(Content::Whole(self.to_json()));
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
        let all: Vec<String> = (0..1_000).map(|number| format!("role-{number:03}")).collect();
        let problem = Problem::new(ProblemKind::UnknownRole, "no role x").with_known(all.clone());
        let json: serde_json::Value = serde_json::from_slice(&problem.to_json()).unwrap();
        assert_eq!(json["known"], serde_json::json!(all[..KNOWN_MAX]), "an answer stays small");
    }
}
