//! A lock: nobody else has it.

use std::fmt::Write;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, StatusCode};
use serde::Deserialize;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

use crate::client::Baton;
use crate::error::{Error, Lost};
use crate::held::{Answer, Claim, Held};
use crate::http::{Lines, Reply, Sidecar, duration, encoded, no_answer};

/// The longest that the sidecar lets a request wait.
const WAIT_MAX: Duration = Duration::from_secs(60 * 60);
/// How long it may take to say how the wait has ended.
const LATE_MAX: Duration = Duration::from_secs(10);
const VALID_FOR: &str = "baton-valid-for-ms";

/// The request for a lock: [`Baton::lock`]. Awaiting it gives a [`Lock`]; dropping it in the middle gives up.
#[derive(Debug)]
#[must_use = "nothing is asked for until it is awaited"]
pub struct Locking<'a> {
    baton: &'a Baton,
    path: String,
    wait: Duration,
    /// The query, but for the wait.
    terms: String,
    margin: Option<Duration>,
}

impl<'a> Locking<'a> {
    pub(crate) fn new(baton: &'a Baton, name: &str) -> Self {
        let path = format!("/locks/{}", encoded(name));
        Self { baton, path, wait: Duration::ZERO, terms: String::new(), margin: None }
    }

    /// How long to wait while others have it; not at all unless it is said otherwise. `Duration::MAX` is without end.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Who takes it, 1 to 200 bytes. Whoever gives the same name through the same sidecar shares the lock, so tasks
    /// that are to exclude each other need one each. Without it nobody shares it.
    pub fn owner(self, owner: &str) -> Self {
        self.term("owner", &encoded(owner))
    }

    /// How long the lock stands when the sidecar dies, from 100 ms to its `locks.maxLease`; its `locks.lease` unless it
    /// is said otherwise. Fractions of a millisecond are cut off.
    pub fn lease(self, lease: Duration) -> Self {
        self.term("lease", &duration(lease))
    }

    /// First come, first served, whichever replica was asked.
    pub fn fair(self) -> Self {
        self.term("fair", "true")
    }

    /// How many may have it at once, 1 to 100; 1 unless it is said otherwise. All who use the name ask for the same.
    pub fn permits(self, permits: u32) -> Self {
        self.term("permits", &permits.to_string())
    }

    /// How long before the end of what the sidecar has promised the lock is over, so that the work has that long to
    /// stop: a tenth of each promise, and at least 20 ms, unless it is said otherwise. A margin as long as the lease
    /// leaves nothing: such a lock never begins.
    pub fn margin(mut self, margin: Duration) -> Self {
        self.margin = Some(margin);
        self
    }

    fn term(mut self, name: &str, value: &str) -> Self {
        // Writing to a string does not fail.
        let _ = write!(self.terms, "&{name}={value}");
        self
    }

    async fn take(self) -> Result<Lock, Error> {
        let sidecar = Arc::new(self.baton.sidecar()?);
        let clock = &self.baton.clock;
        let ends_at = clock.now().saturating_add(self.wait);
        let (lines, claim) = loop {
            let asked_at = clock.now();
            let left = ends_at.saturating_sub(asked_at);
            let wait = left.min(WAIT_MAX);
            let opened = timeout(wait + LATE_MAX, self.open(&sidecar, wait)).await;
            match opened.unwrap_or_else(|late| Err(no_answer(late))) {
                // Only its own wait was over.
                Err(Error::Held { .. }) if wait < left && clock.now().saturating_sub(asked_at) >= wait => {}
                opened => break opened?,
            }
        };
        Ok(Lock(Held::begin(sidecar, clock.clone(), self.margin, lines, claim).await?))
    }

    async fn open(&self, sidecar: &Sidecar, wait: Duration) -> Result<(Lines, LockClaim), Error> {
        let path = format!("{}/hold?wait={}{}", self.path, duration(wait), self.terms);
        let mut lines = sidecar.hold(&path).await?;
        let line = lines.next().await.ok_or_else(|| no_answer("the connection has ended"))?;
        let Grant { lock, token } = serde_json::from_slice(&line).map_err(no_answer)?;
        Ok((lines, LockClaim { token, path: format!("{}/{}", self.path, encoded(&lock)) }))
    }
}

impl<'a> IntoFuture for Locking<'a> {
    type Output = Result<Lock, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.take())
    }
}

/// Nobody else has the lock, until this is over: what it protects happens while there is a `Lock`, and has stopped when
/// it is released or dropped. How it ends, and what dropping it does, is as told of a [`Lead`](crate::Lead).
#[derive(Debug)]
#[must_use = "the lock is given back when this is dropped"]
pub struct Lock(Held);

impl Lock {
    /// The fencing token, below 2^53: greater than that of each earlier holder. Reading it is the check. Read it each
    /// time that something is written with it.
    ///
    /// # Errors
    /// The lock is over, and why.
    pub fn token(&self) -> Result<u64, Lost> {
        self.0.promise().token()
    }

    /// Waits until the lock is over.
    pub fn cancelled(&self) -> WaitForCancellationFuture<'_> {
        self.0.promise().over().cancelled()
    }

    /// A token that is cancelled when the lock is over, or has been released. Cancelling it does not end the lock.
    #[must_use]
    pub fn cancellation(&self) -> CancellationToken {
        self.0.promise().over().child_token()
    }

    /// Does the work, which goes on only while the lock does: when it is over, the work is not polled any more, and
    /// dropped. What it has spawned, or has running on threads, goes on and is not looked after.
    ///
    /// # Errors
    /// The lock was over before the work was done, and why.
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> Result<T, Lost> {
        self.0.promise().run(work).await
    }

    /// Gives the lock back, and waits until the sidecar knows, a second at the most.
    pub async fn release(self) {
        self.0.leave().await;
    }
}

/// The first line.
#[derive(Deserialize)]
struct Grant {
    lock: String,
    token: u64,
}

struct LockClaim {
    token: u64,
    path: String,
}

impl Claim for LockClaim {
    fn token(&self) -> u64 {
        self.token
    }

    fn ask(&self) -> (Method, String) {
        (Method::PUT, self.path.clone())
    }

    fn answer(&self, reply: &Reply) -> Option<Answer> {
        match reply.status {
            StatusCode::NO_CONTENT => {
                let valid_for_ms = reply.headers.get(VALID_FOR)?.to_str().ok()?.parse().ok()?;
                Some(Answer::ValidFor(Duration::from_millis(valid_for_ms)))
            }
            StatusCode::GONE => Some(Answer::Lost),
            _ => None,
        }
    }

    fn is_lost(&self, line: &[u8]) -> bool {
        #[derive(Deserialize)]
        struct Line {
            lost: Option<serde_json::Value>,
        }
        serde_json::from_slice(line).is_ok_and(|line: Line| line.lost.is_some())
    }

    fn give_back(&self) -> (Method, String) {
        (Method::DELETE, self.path.clone())
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::HeaderMap;

    use super::*;

    fn claim() -> LockClaim {
        LockClaim { token: 7, path: "/locks/a%2Fb/3f2a".to_owned() }
    }

    #[test]
    fn an_answer_promises_or_says_that_it_is_lost_or_neither() {
        for (status, valid_for, wanted) in [
            (204, Some("29399"), Some(Answer::ValidFor(Duration::from_millis(29_399)))),
            (410, None, Some(Answer::Lost)),
            (204, None, None),
            (204, Some("-1"), None),
            (200, Some("29399"), None),
            (503, Some("29399"), None),
        ] {
            let headers: HeaderMap =
                valid_for.map(|ms| (VALID_FOR.parse().unwrap(), ms.parse().unwrap())).into_iter().collect();
            let reply = Reply { status: StatusCode::from_u16(status).unwrap(), headers, body: Bytes::new() };
            assert_eq!(claim().answer(&reply), wanted, "{status} {valid_for:?}");
        }
    }

    #[test]
    fn a_line_says_that_it_is_lost_or_nothing() {
        for (line, lost) in [
            (r#"{"lost":"an operator has unlocked it"}"#, true),
            (r#"{"valid_for_ms":29399}"#, false),
            (r#"{"ending":"shutdown","valid_for_ms":29399}"#, false),
            ("", false),
        ] {
            assert_eq!(claim().is_lost(line.as_bytes()), lost, "{line}");
        }
    }

    #[test]
    fn what_is_asked_for_is_written_as_the_sidecar_reads_it() {
        let baton = Baton::new();
        let locking = baton.lock("a/b").owner("w 1&2").lease(Duration::from_secs(60)).fair().permits(3);
        assert_eq!(
            (&*locking.path, &*locking.terms),
            ("/locks/a%2Fb", "&owner=w%201%262&lease=60000ms&fair=true&permits=3")
        );
    }
}
