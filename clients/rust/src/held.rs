//! What keeps a lead or a lock: a connection that shows that this process lives, and promises that are asked for over
//! another.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::error::Lost;
use crate::http::{Connection, Lines, Reply, Sidecar};
use crate::promise::Promise;

/// How long an answer may take, whatever was promised.
const ANSWER_MIN: Duration = Duration::from_millis(50);
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// The pause after an answer that promises nothing.
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_millis(100);
/// How long it may take to say that the work has stopped.
const GIVING_BACK_MAX: Duration = Duration::from_secs(1);

/// What an answer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    ValidFor(Duration),
    Lost,
}

/// What the first line of a hold has granted.
pub trait Claim: Send + Sync + 'static {
    fn token(&self) -> u64;

    /// What asks for how long it is valid.
    fn ask(&self) -> (Method, String);

    /// None: it says neither one thing nor the other.
    fn answer(&self, reply: &Reply) -> Option<Answer>;

    /// Whether a further line of the hold says that it is lost.
    fn is_lost(&self, line: &[u8]) -> bool;

    /// What says that the work has stopped.
    fn give_back(&self) -> (Method, String);
}

/// Dropping it gives it back, which a task of its own does.
#[derive(Debug)]
pub struct Held {
    promise: Arc<Promise>,
    left: CancellationToken,
    keeper: JoinHandle<()>,
}

impl Held {
    /// Waits for the first promise.
    pub async fn begin<C: Claim>(
        sidecar: Arc<Sidecar>,
        clock: Clock,
        margin: Option<Duration>,
        lines: Lines,
        claim: C,
    ) -> Result<Self, Lost> {
        let promise = Arc::new(Promise::new(claim.token(), margin, clock.clone()));
        let left = CancellationToken::new();
        let (begun, has_begun) = oneshot::channel();
        let keeper = Keeper { sidecar, clock, claim, promise: Arc::clone(&promise), left: left.clone() };
        // Dropped while this waits, it is given up like one that has begun.
        let held = Self { promise, left, keeper: tokio::spawn(keeper.keep(lines, begun)) };
        match has_begun.await {
            Ok(()) => Ok(held),
            Err(_) => Err(held.promise.lost().await),
        }
    }

    pub fn promise(&self) -> &Promise {
        &self.promise
    }

    pub async fn leave(mut self) {
        self.promise.end(Lost::Left);
        self.left.cancel();
        // An error: the runtime is shutting down, and the connections are closed.
        let _ = (&mut self.keeper).await;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.promise.end(Lost::Left);
        self.left.cancel();
    }
}

struct Keeper<C> {
    sidecar: Arc<Sidecar>,
    clock: Clock,
    claim: C,
    promise: Arc<Promise>,
    left: CancellationToken,
}

impl<C: Claim> Keeper<C> {
    async fn keep(self, mut lines: Lines, begun: oneshot::Sender<()>) {
        // Dropped before the connection is, also when the runtime shuts down: who is asked for the token then has none.
        let _ended = EndsWhenDropped(&self.promise);
        let mut begun = Some(begun);
        let lost = tokio::select! {
            biased;
            () = self.left.cancelled() => Lost::Left,
            lost = self.listen(&mut lines) => lost,
            lost = self.promise.lost() => lost,
            lost = self.ask(&mut begun) => lost,
        };
        self.promise.end(lost);
        if begun.is_none() {
            self.left.cancelled().await;
            let (method, path) = self.claim.give_back();
            // Whether that is answered changes nothing: the sidecar then keeps what it has promised.
            let _ = timeout(GIVING_BACK_MAX, self.sidecar.call(&mut None, method, &path)).await;
        }
    }

    async fn listen(&self, lines: &mut Lines) -> Lost {
        while let Some(line) = lines.next().await {
            if self.claim.is_lost(&line) {
                return Lost::Told;
            }
        }
        Lost::Disconnected
    }

    /// Asks again and again. No time is counted from lines: one that was sent is not one that was read.
    async fn ask(&self, begun: &mut Option<oneshot::Sender<()>>) -> Lost {
        let mut connection = None;
        let mut last = None;
        loop {
            let asked_at = self.clock.now();
            let patience = last.map_or(ANSWER_MAX, |last: Duration| (last / 3).clamp(ANSWER_MIN, ANSWER_MAX));
            let answer = timeout(patience, self.answer(&mut connection)).await.ok().flatten();
            match answer {
                Some(Answer::Lost) => return Lost::Told,
                Some(Answer::ValidFor(valid_for)) => {
                    last = Some(valid_for);
                    if self.promise.extend(asked_at, valid_for) {
                        if let Some(begun) = begun.take() {
                            // Whoever waited for it may be gone: then it is left by now.
                            let _ = begun.send(());
                        }
                        self.clock.sleep_until(asked_at.saturating_add((valid_for / 3).max(PAUSE_MIN))).await;
                        continue;
                    }
                }
                None => connection = None,
            }
            sleep(last.map_or(PAUSE_MAX, |last| (last / 10).clamp(PAUSE_MIN, PAUSE_MAX))).await;
        }
    }

    async fn answer(&self, connection: &mut Option<Connection>) -> Option<Answer> {
        let (method, path) = self.claim.ask();
        self.claim.answer(&self.sidecar.call(connection, method, &path).await.ok()?)
    }
}

struct EndsWhenDropped<'a>(&'a Promise);

impl Drop for EndsWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.end(Lost::Disconnected);
    }
}
