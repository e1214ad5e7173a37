//! The bearer token.

use parking_lot::{Mutex, MutexGuard};
use std::time::Duration;

use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;
use secrecy::{ExposeSecret, SecretString};
use subtle::ConstantTimeEq;

use crate::base::clock::SharedClock;
use crate::config::Secret;
use crate::http::{Problem, ProblemKind};
use crate::protocol::Mono;
use crate::telemetry::{SystemEvent, Telemetry};

/// How old a token that was read from its file may be. A rotated token works, and the old one stops, within this time.
const READ_EVERY: Duration = Duration::from_secs(5);

/// Compares what requests carry with the configured secret, read anew every few seconds.
#[derive(Debug)]
pub(super) struct TokenCheck {
    secret: Secret,
    clock: SharedClock,
    telemetry: Telemetry,
    cached: Mutex<Option<Cached>>,
}

#[derive(Debug)]
struct Cached {
    read_at: Mono,
    /// None when it could not be read.
    token: Option<SecretString>,
}

impl TokenCheck {
    pub(super) fn new(secret: Secret, clock: SharedClock, telemetry: Telemetry) -> Self {
        Self { secret, clock, telemetry, cached: Mutex::new(None) }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Cached>> {
        self.cached.lock()
    }

    /// Lets a request pass that carries the token.
    pub(super) fn check(&self, headers: &HeaderMap) -> Result<(), Problem> {
        let mut cached = self.lock();
        let now = self.clock.now();
        if cached.as_ref().is_none_or(|cached| now.since(cached.read_at) >= READ_EVERY) {
            let could_be_read = cached.as_ref().is_none_or(|cached| cached.token.is_some());
            *cached = Some(Cached { read_at: now, token: self.read(could_be_read) });
        }
        let Some(token) = cached.as_ref().and_then(|cached| cached.token.as_ref()) else {
            return Err(Problem::new(ProblemKind::TokenUnavailable, "the token file cannot be read at the moment"));
        };
        let given = headers.get(AUTHORIZATION).map(|value| value.as_bytes());
        let Some(given) = given.and_then(bearer) else {
            return Err(Problem::new(ProblemKind::Unauthorized, "send the header Authorization: Bearer <token>"));
        };
        // In constant time: how long a refusal takes shall not tell how much of a guess was right.
        if bool::from(given.ct_eq(token.expose_secret().as_bytes())) {
            Ok(())
        } else {
            Err(Problem::new(ProblemKind::Unauthorized, "this is not the token"))
        }
    }

    fn read(&self, report: bool) -> Option<SecretString> {
        let reason = match self.secret.read() {
            // An empty file would let in whoever sends an empty token.
            Ok(token) if token.expose_secret().is_empty() => "the token is empty".to_owned(),
            Ok(token) => return Some(token),
            Err(error) => error.to_string(),
        };
        if report {
            self.telemetry.record_system(&SystemEvent::TokenUnavailable { reason });
        }
        None
    }
}

/// What follows `Bearer`, a word in any case (RFC 9110 §11.1).
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}
