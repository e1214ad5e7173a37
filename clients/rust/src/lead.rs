//! A lead: it may be acted as the leader of a role.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, StatusCode};
use serde::Deserialize;
use tokio::time::{sleep, timeout};
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

use crate::client::Baton;
use crate::error::{Error, Lost};
use crate::held::{Answer, Claim, Held};
use crate::http::{Lines, Reply, Sidecar, encoded, no_answer};

/// How long the sidecar lets each request wait for the lead.
const WAIT: Duration = Duration::from_secs(30);
/// How long it may take to say that there was none.
const LATE_MAX: Duration = Duration::from_secs(10);
/// The pause after a failure, which doubles with each that follows.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Who acts upon what this process is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// Others in the pod may, and outlive it: when this process is killed, the next leader waits until the last promise
    /// has run out.
    #[default]
    Pod,
    /// Nobody else: no child that was forked, no program that was started. When this process is killed, the next leader
    /// need not wait.
    Process,
}

/// The wait for a lead: [`Baton::leading`]. Awaiting it gives a [`Lead`]; dropping it in the middle gives up.
#[derive(Debug)]
#[must_use = "nothing is waited for until it is awaited"]
pub struct Leading<'a> {
    baton: &'a Baton,
    role: String,
    scope: Scope,
    margin: Option<Duration>,
}

impl<'a> Leading<'a> {
    pub(crate) fn new(baton: &'a Baton, role: String) -> Self {
        Self { baton, role, scope: Scope::default(), margin: None }
    }

    /// Who acts upon the lead; [`Scope::Pod`] unless it is said otherwise.
    pub fn scope(mut self, scope: Scope) -> Self {
        self.scope = scope;
        self
    }

    /// How long before the end of what the sidecar has promised the lead is over, so that the work has that long to
    /// stop: a tenth of each promise, and at least 20 ms, unless it is said otherwise. A margin as long as the
    /// sidecar's `answerValidity` leaves nothing: such a lead never begins.
    pub fn margin(mut self, margin: Duration) -> Self {
        self.margin = Some(margin);
        self
    }

    async fn wait(self) -> Result<Lead, Error> {
        let sidecar = Arc::new(self.baton.sidecar()?);
        let scope = match self.scope {
            Scope::Pod => "pod",
            Scope::Process => "process",
        };
        let role = format!("/leader/{}", encoded(&self.role));
        let hold = format!("{role}/hold?wait={}s&scope={scope}", WAIT.as_secs());
        let mut pause = PAUSE_MIN;
        loop {
            let asked_at = self.baton.clock.now();
            match timeout(WAIT + LATE_MAX, open(&sidecar, &hold, &role)).await {
                Ok(Ok((lines, claim))) => {
                    let clock = self.baton.clock.clone();
                    if let Ok(held) = Held::begin(Arc::clone(&sidecar), clock, self.margin, lines, claim).await {
                        return Ok(Lead(held));
                    }
                }
                Ok(Err(error @ (Error::TokenFile { .. } | Error::Refused { status: 400 | 401 | 403 | 404, .. }))) => {
                    return Err(error);
                }
                Ok(Err(Error::Refused { status: 409, .. }))
                    if self.baton.clock.now().saturating_sub(asked_at) >= WAIT =>
                {
                    pause = PAUSE_MIN;
                    continue;
                }
                Ok(Err(_)) | Err(_) => {}
            }
            sleep(pause).await;
            pause = PAUSE_MAX.min(pause * 2);
        }
    }
}

impl<'a> IntoFuture for Leading<'a> {
    type Output = Result<Lead, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.wait())
    }
}

/// This replica leads, until this is over: the work as the leader happens while there is a `Lead`, and has stopped when
/// it is left or dropped.
///
/// It is over when the sidecar says so, when the connection to it ends, or when what it has promised, less the margin,
/// has passed; whatever way, it is never renewed: the next lead is another, with a greater token.
///
/// Work in several tasks shares it in an `Arc`: it is left when the last of them has dropped it. A task that goes on
/// without one must have stopped before.
///
/// **Dropping it** tells the sidecar that the work has stopped, as [`leave`](Self::leave) does, from a task in the
/// background: it is safe to forget `leave`, also when the future that has the lead is dropped. Only that a process
/// that ends right then may end before it is said; the next leader then waits as if this process had been killed.
///
/// The promises are asked for by a task of the runtime in which the lead began. One that is blocked by work that does
/// not await cannot ask in time, and the lead is over. So it is when the runtime is shut down.
#[derive(Debug)]
#[must_use = "the lead is given back when this is dropped"]
pub struct Lead(Held);

impl Lead {
    /// The fencing token of this lead, below 2^53: greater than that of each earlier one. Reading it is the check. Read
    /// it each time that something is written with it.
    ///
    /// # Errors
    /// The lead is over, and why.
    pub fn token(&self) -> Result<u64, Lost> {
        self.0.promise().token()
    }

    /// Waits until the lead is over.
    pub fn cancelled(&self) -> WaitForCancellationFuture<'_> {
        self.0.promise().over().cancelled()
    }

    /// A token that is cancelled when the lead is over, or has been left. Cancelling it does not end the lead.
    #[must_use]
    pub fn cancellation(&self) -> CancellationToken {
        self.0.promise().over().child_token()
    }

    /// Does the work, which goes on only while the lead does: when it is over, the work is not polled any more, and
    /// dropped. What it has spawned, or has running on threads, goes on and is not looked after.
    ///
    /// # Errors
    /// The lead was over before the work was done, and why.
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> Result<T, Lost> {
        self.0.promise().run(work).await
    }

    /// Says that the work has stopped, so that the next leader need not wait until what was promised has run out, and
    /// waits until the sidecar knows, a second at the most. The role is then handed over.
    pub async fn leave(self) {
        self.0.leave().await;
    }
}

async fn open(sidecar: &Sidecar, hold: &str, role: &str) -> Result<(Lines, LeadClaim), Error> {
    let mut lines = sidecar.hold(hold).await?;
    let line = lines.next().await.ok_or_else(|| no_answer("the connection has ended"))?;
    match serde_json::from_slice(&line).map_err(no_answer)? {
        Standing { leader: true, token: Some(token), hold: Some(hold), .. } => {
            Ok((lines, LeadClaim { token, role: role.to_owned(), hold: encoded(&hold) }))
        }
        _ => Err(no_answer("the lead was lost at once")),
    }
}

/// What is read of the object that tells who leads.
#[derive(Deserialize)]
struct Standing {
    leader: bool,
    token: Option<u64>,
    valid_for_ms: Option<u64>,
    hold: Option<String>,
}

struct LeadClaim {
    token: u64,
    /// Its path.
    role: String,
    hold: String,
}

impl LeadClaim {
    fn read(&self, standing: &[u8]) -> Option<Answer> {
        let standing: Standing = serde_json::from_slice(standing).ok()?;
        if !standing.leader || standing.token.is_some_and(|token| token != self.token) {
            return Some(Answer::Lost);
        }
        standing.token?;
        Some(Answer::ValidFor(Duration::from_millis(standing.valid_for_ms?)))
    }
}

impl Claim for LeadClaim {
    fn token(&self) -> u64 {
        self.token
    }

    fn ask(&self) -> (Method, String) {
        (Method::GET, format!("{}?hold={}", self.role, self.hold))
    }

    fn answer(&self, reply: &Reply) -> Option<Answer> {
        match reply.status {
            StatusCode::OK => self.read(&reply.body),
            StatusCode::GONE => Some(Answer::Lost),
            _ => None,
        }
    }

    fn is_lost(&self, line: &[u8]) -> bool {
        self.read(line) == Some(Answer::Lost)
    }

    fn give_back(&self) -> (Method, String) {
        (Method::POST, format!("{}/drained?hold={}", self.role, self.hold))
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::HeaderMap;

    use super::*;

    fn claim() -> LeadClaim {
        LeadClaim { token: 7, role: "/leader/scheduler%2F3".to_owned(), hold: "7-1".to_owned() }
    }

    #[test]
    fn an_answer_promises_or_says_that_it_is_lost_or_neither() {
        let valid = Some(Answer::ValidFor(Duration::from_millis(1_500)));
        let leads = r#"{"role":"scheduler","leader":true,"token":7,"valid_for_ms":1500,"since":"…"}"#;
        let follows = r#"{"leader":false,"token":null,"valid_for_ms":null}"#;
        for (status, body, wanted) in [
            (200, leads, valid),
            (200, follows, Some(Answer::Lost)),
            (200, r#"{"leader":true,"token":8,"valid_for_ms":1500}"#, Some(Answer::Lost)),
            (200, r#"{"leader":true,"token":8}"#, Some(Answer::Lost)),
            (410, "", Some(Answer::Lost)),
            (200, r#"{"leader":true,"token":7,"valid_for_ms":null}"#, None),
            (200, r#"{"leader":true,"token":7,"valid_for_ms":-1}"#, None),
            (200, r#"{"leader":true,"valid_for_ms":1500}"#, None),
            (200, &leads[..40], None),
            (200, "leader: true", None),
            (307, leads, None),
            (500, follows, None),
        ] {
            let (status, body_of) = (StatusCode::from_u16(status).unwrap(), Bytes::from(body.to_owned()));
            let reply = Reply { status, headers: HeaderMap::new(), body: body_of };
            assert_eq!(claim().answer(&reply), wanted, "{status} {body}");
        }
    }

    #[test]
    fn a_line_says_that_it_is_lost_or_nothing() {
        for (line, lost) in [
            (r#"{"leader":true,"token":7,"valid_for_ms":60000,"hold":"7-1"}"#, false),
            (r#"{"leader":false,"token":null,"valid_for_ms":null,"hold":"7-1"}"#, true),
            (r#"{"leader":true,"token":8,"valid_for_ms":60000,"hold":"7-1"}"#, true),
            ("", false),
        ] {
            assert_eq!(claim().is_lost(line.as_bytes()), lost, "{line}");
        }
    }

    #[test]
    fn what_is_asked_and_said_names_the_connection() {
        assert_eq!(claim().ask(), (Method::GET, "/leader/scheduler%2F3?hold=7-1".to_owned()));
        assert_eq!(claim().give_back(), (Method::POST, "/leader/scheduler%2F3/drained?hold=7-1".to_owned()));
    }
}
