//! One request for a lock: asked, waited for, and never left behind.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, oneshot};

use super::desk::{Core, Granted, LockDesk, Refusal};
use super::owner;
use crate::protocol::{AcquireReply, AcquireRequest, LockGrant, LockId, LockName, Mono, Queueing, valid_span};
use crate::store::StoreError;
use crate::telemetry::{AcquireOutcome, LockEvent};

/// The longest that the first in the queue goes without looking by itself. The others look later: somebody before them
/// is to be woken first.
const LOOK_FIRST: Duration = Duration::from_secs(5);
const LOOK_MAX: Duration = Duration::from_secs(30);
/// How much later than a lease's end to look: those who wait shall not all come at once.
const SPREAD: Duration = Duration::from_millis(20);

/// What an app asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Want {
    /// One, or several: all or none. Sorted, each once.
    pub names: Vec<LockName>,
    /// The same owner may take the same names again; nobody never.
    pub owner: Option<Arc<str>>,
    /// Not even the owner may take them again while it has them; it is written down, and can give them back by its
    /// name ([`LockDesk::release_by_owner`]).
    pub once: bool,
    /// How long to wait for it; zero: not at all.
    pub wait: Duration,
    /// How long it shall last.
    pub lease: Duration,
    /// How many may have it at once.
    pub permits: u32,
    /// First come, first served. Not with several names.
    pub fair: bool,
}

/// A granted lock on its way to the app. Unless it is taken, it is given back.
#[derive(Debug)]
pub struct Claim {
    core: Arc<Core>,
    request: LockId,
    names: Vec<LockName>,
    granted: Granted,
    taken: bool,
}

impl Claim {
    /// The lock, which is the app's from now on.
    pub fn take(mut self) -> Granted {
        self.taken = true;
        self.granted
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if !self.taken {
            let Granted { id, holds, lease, .. } = self.granted;
            self.core.table().left(id, holds.saturating_sub(1));
            self.core.cancel_later(std::mem::take(&mut self.names), self.request, lease, false);
        }
    }
}

impl LockDesk {
    /// Asks for a lock. Dropping the future ends the request: what it is granted afterwards is given back.
    ///
    /// # Errors
    /// See [`Refusal`]; never [`Refusal::Lost`].
    pub async fn acquire(&self, want: Want) -> Result<Claim, Refusal> {
        let (begun, name) = (self.core.now(), want.names.first().cloned());
        match self.begin(want, begun) {
            // The sender is only lost when the runtime ends.
            Ok(answered) => answered.await.unwrap_or(Err(Refusal::ShuttingDown)),
            Err(refusal) => {
                self.core.record(name.as_ref(), Some(&refusal), begun);
                Err(refusal)
            }
        }
    }

    /// Begins to ask, in a task of its own.
    fn begin(&self, want: Want, begun: Mono) -> Result<oneshot::Receiver<Answer>, Refusal> {
        let core = &self.core;
        if core.is_stopping() {
            return Err(Refusal::ShuttingDown);
        }
        core.begun.notify_one();
        let id = core.new_id();
        let max = core.settings.waiters_max;
        let queueing = match (want.wait.is_zero(), want.fair) {
            (true, _) => Queueing::No,
            (false, true) => Queueing::Fair,
            (false, false) => Queueing::Plain,
        };
        let bell = match queueing {
            Queueing::No => Arc::new(Notify::new()),
            _ => core.waiting.enter(id, &want.names).ok_or(Refusal::TooManyWaiters { max })?,
        };
        let request = AcquireRequest {
            session: core.session,
            id,
            owner: owner::stored(&want, id),
            identity: Arc::clone(&core.settings.identity),
            lease: want.lease,
            permits: want.permits,
            floor: core.floor(),
            queueing,
            guard: core.settings.guard,
            names: want.names,
        };
        let (answer, answered) = oneshot::channel();
        let wait_until = begun + want.wait;
        let pursuit = Pursuit { core: Arc::clone(core), request, bell, begun, wait_until, failures: 0, unsure: false };
        core.start(pursuit.run(answer));
        Ok(answered)
    }
}

impl Core {
    /// Counts a request that has ended, for good or for this reason.
    fn record(&self, name: Option<&LockName>, refusal: Option<&Refusal>, begun: Mono) {
        let outcome = match refusal {
            None => AcquireOutcome::Granted,
            Some(Refusal::Held { waited: false, .. }) => AcquireOutcome::Held,
            Some(Refusal::Held { .. }) => AcquireOutcome::Timeout,
            Some(Refusal::Guarded { .. }) => AcquireOutcome::Guarded,
            Some(_) => AcquireOutcome::Error,
        };
        if let Some(name) = name.cloned() {
            let waited = self.now().since(begun);
            self.telemetry.record_lock(&LockEvent::Asked { name, outcome, waited });
        }
    }
}

type Answer = Result<Claim, Refusal>;

/// Why a round of asking is not the last.
struct Nap {
    /// How long to sleep before the next, unless woken.
    span: Duration,
    /// What to say if there is no next.
    otherwise: Refusal,
}

struct Pursuit {
    core: Arc<Core>,
    request: AcquireRequest,
    bell: Arc<Notify>,
    begun: Mono,
    wait_until: Mono,
    failures: u32,
    /// A request got no answer: it may still arrive.
    unsure: bool,
}

impl Pursuit {
    async fn run(mut self, mut answer: oneshot::Sender<Answer>) {
        let result = loop {
            let nap = match self.ask().await {
                Ok(Ok(granted)) => break Ok(granted),
                Ok(Err(refusal)) => break Err(refusal),
                Err(nap) => nap,
            };
            let left = self.wait_until.since(self.core.now());
            if left.is_zero() {
                break Err(nap.otherwise);
            }
            tokio::select! {
                biased;
                // Nobody is there to be told: the refusal is for nobody, but what was begun is ended below.
                () = answer.closed() => break Err(nap.otherwise),
                () = self.core.stopping() => break Err(Refusal::ShuttingDown),
                () = self.bell.notified() => {}
                () = tokio::time::sleep(nap.span.min(left)) => {}
            }
        };
        // Here, and not where it is waited for: a client that has gone does not wait.
        self.core.record(self.request.names.first(), result.as_ref().err(), self.begun);
        let answer_with = self.end(result);
        // An answer that nobody takes gives back what it holds.
        let _ = answer.send(answer_with);
    }

    /// Gives the place away, and leaves nothing behind.
    fn end(self, result: Result<Granted, Refusal>) -> Answer {
        let Self { core, request, unsure, .. } = self;
        let queued = request.queueing != Queueing::No;
        match result {
            Ok(granted) => {
                core.waiting.leave(request.id, true, core.now());
                Ok(Claim { core, request: request.id, names: request.names, granted, taken: false })
            }
            Err(refusal) => {
                core.waiting.leave(request.id, false, core.now());
                if queued || unsure || matches!(refusal, Refusal::TooLate { .. }) {
                    core.cancel_later(request.names, request.id, request.lease, unsure);
                }
                Err(refusal)
            }
        }
    }

    /// One request to the store, which is waited for whatever happens.
    async fn ask(&mut self) -> Result<Result<Granted, Refusal>, Nap> {
        self.request.floor = self.core.floor();
        let sent_at = self.core.now();
        let reply = self.core.store.acquire(self.request.clone()).await;
        if let Ok(reply) = &reply {
            self.core.learn(reply);
            self.failures = 0;
        }
        match reply {
            Ok(AcquireReply::Granted(grant)) => Ok(self.granted(grant, sent_at)),
            Ok(AcquireReply::PermitsDiffer { name, permits }) => Ok(Err(Refusal::PermitsDiffer { name, permits })),
            Ok(AcquireReply::Guarded { remaining }) => {
                let span = remaining + self.core.between(Duration::ZERO, SPREAD);
                Err(Nap { span, otherwise: Refusal::Guarded { remaining } })
            }
            Ok(AcquireReply::Held { name, holder, ahead }) => {
                let until_end = holder.as_ref().map_or(LOOK_FIRST, |holder| holder.remaining);
                let first = (until_end + self.core.between(Duration::from_millis(1), SPREAD)).min(LOOK_FIRST);
                let span = match ahead {
                    0 => first,
                    // Should those before have died, their tickets go after a while without anybody being woken.
                    _ => {
                        let later = LOOK_FIRST.saturating_mul(ahead).min(LOOK_MAX);
                        self.core.between(later * 4 / 5, later)
                    }
                };
                let waited = self.request.queueing != Queueing::No;
                Err(Nap { span, otherwise: Refusal::Held { name, holder, ahead, waited } })
            }
            Err(error) => {
                self.failures = self.failures.saturating_add(1);
                self.unsure |= !matches!(error, StoreError::Garbage { .. });
                Err(Nap { span: self.core.pause(self.failures), otherwise: Refusal::Store(error) })
            }
        }
    }

    /// A grant whose time was over before it came is not told to the app.
    fn granted(&self, grant: LockGrant, sent_at: Mono) -> Result<Granted, Refusal> {
        let valid_until = sent_at + valid_span(self.request.lease);
        if valid_until <= self.core.now() {
            return Err(Refusal::TooLate { lease: self.request.lease });
        }
        let granted = self.core.table().granted(grant, &self.request, valid_until);
        self.core.count_held();
        Ok(granted)
    }
}
