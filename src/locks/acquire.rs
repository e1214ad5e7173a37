//! One request for a lock: asked, waited for, and never left behind.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::handover::{Offered, Turn};
use super::service::{Core, Granted, LockDesk, Refusal};
use super::waiters::Bell;
use super::{is_exclusive, owner};
use crate::protocol::{AcquireReply, AcquireRequest, LockGrant, LockId, LockName, Mono, Queueing, valid_span};
use crate::store::StoreError;
use crate::telemetry::{AcquireOutcome, LockEvent};

/// The longest that the first in the queue goes without looking by itself. The others look later: somebody before them
/// is to be woken first.
const LOOK_FIRST: Duration = Duration::from_secs(5);
const LOOK_MAX: Duration = Duration::from_secs(30);
/// How much later than a lease's end to look: those who wait shall not all come at once.
const SPREAD: Duration = Duration::from_millis(20);
/// For how long a request does without a ticket that can count on being handed the lock: one that comes when the lock
/// is held here, or when somebody waits for it here who has a ticket.
const BESIDE_MAX: Duration = Duration::from_millis(100);

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
        let request = Arc::new(AcquireRequest {
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
        });
        let first = core.beside(&request, want.wait, begun);
        let bell = match queueing {
            Queueing::No => Arc::default(),
            _ => core.waiting.enter(&request).ok_or(Refusal::TooManyWaiters { max })?,
        };
        let (answer, answered) = oneshot::channel();
        let wait_until = begun + want.wait;
        let pursuit = Pursuit {
            core: Arc::clone(core),
            request,
            bell,
            begun,
            wait_until,
            failures: 0,
            unsure: false,
            has_asked: false,
        };
        core.start(pursuit.run(first, answer));
        Ok(answered)
    }
}

impl Core {
    /// How a request begins that can count on being handed the lock by who has it here, or will: it asks for nothing
    /// yet. None when it had better ask.
    fn beside(&self, request: &AcquireRequest, wait: Duration, now: Mono) -> Option<Nap> {
        let name = request.names.first()?;
        let can_wait = request.queueing == Queueing::Plain && wait > BESIDE_MAX;
        if !can_wait || !is_exclusive(&request.names, request.permits) {
            return None;
        }
        // An owner may take its own lock again.
        let is_anothers = self.table().holder_of(name, now).map(|holder| holder.owner != request.owner);
        let otherwise = Refusal::Held { name: name.clone(), holder: None, ahead: 0, waited: true };
        let nap = Nap { span: BESIDE_MAX, otherwise, has_ticket: false };
        is_anothers.unwrap_or_else(|| self.waiting.is_represented(name)).then_some(nap)
    }

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
    /// Whether the store has queued it.
    has_ticket: bool,
}

/// What ended a nap.
enum Roused {
    /// Nobody is there any more to be told.
    Gone,
    Stopping,
    /// The lock may be free.
    Free,
    /// What was offered has come to something.
    Offered,
    /// It was long enough.
    Due,
}

struct Pursuit {
    core: Arc<Core>,
    request: Arc<AcquireRequest>,
    bell: Arc<Bell>,
    begun: Mono,
    wait_until: Mono,
    failures: u32,
    /// A request got no answer: it may still arrive.
    unsure: bool,
    /// The store may know of it.
    has_asked: bool,
}

impl Pursuit {
    /// `first`: what to do before it asks.
    async fn run(mut self, first: Option<Nap>, mut answer: oneshot::Sender<Answer>) {
        let mut next = match first {
            Some(nap) => Err(nap),
            None => self.ask().await,
        };
        let result = loop {
            let nap = match next {
                Ok(result) => break result,
                Err(nap) => nap,
            };
            let left = self.wait_until.since(self.core.now());
            if left.is_zero() {
                break Err(nap.otherwise);
            }
            self.core.waiting.nap(self.request.id, nap.has_ticket);
            let roused = tokio::select! {
                biased;
                () = answer.closed() => Roused::Gone,
                () = self.core.stopping() => Roused::Stopping,
                () = self.bell.offered.notified() => Roused::Offered,
                () = self.bell.free.notified() => Roused::Free,
                () = tokio::time::sleep(nap.span.min(left)) => Roused::Due,
            };
            let offered = match self.core.waiting.rouse(self.request.id) {
                Some(offered) => Some(self.take_up(offered).await),
                None => None,
            };
            next = match (offered, roused) {
                (Some(Ok(result)), _) => Ok(result),
                // Nobody is there to be told: the refusal is for nobody, but what was begun is ended below.
                (_, Roused::Gone) => Ok(Err(nap.otherwise)),
                (_, Roused::Stopping) => Ok(Err(Refusal::ShuttingDown)),
                (Some(Err(nap)), Roused::Offered | Roused::Due) => Err(nap),
                // What was offered may have been refused before the lock became free.
                (Some(Err(_)), Roused::Free) | (None, _) => self.ask().await,
            };
        };
        // Here, and not where it is waited for: a client that has gone does not wait.
        self.core.record(self.request.names.first(), result.as_ref().err(), self.begun);
        let answer_with = self.end(result);
        // An answer that nobody takes gives back what it holds.
        let _ = answer.send(answer_with);
    }

    /// Gives the place away, and leaves nothing behind.
    fn end(self, result: Result<Granted, Refusal>) -> Answer {
        let Self { core, request, unsure, has_asked, .. } = self;
        let queued = has_asked && request.queueing != Queueing::No;
        match result {
            Ok(granted) => {
                core.waiting.leave(request.id, true, core.now());
                let names = request.names.clone();
                Ok(Claim { core, request: request.id, names, granted, taken: false })
            }
            Err(refusal) => {
                core.waiting.leave(request.id, false, core.now());
                if queued || unsure || matches!(refusal, Refusal::TooLate { .. }) {
                    core.cancel_later(request.names.clone(), request.id, request.lease, unsure);
                }
                Err(refusal)
            }
        }
    }

    /// One request to the store, which is waited for whatever happens.
    async fn ask(&mut self) -> Result<Result<Granted, Refusal>, Nap> {
        self.has_asked = true;
        let request = AcquireRequest { floor: self.core.floor(), ..(*self.request).clone() };
        let sent_at = self.core.now();
        let reply = self.core.store.acquire(request).await;
        self.judge(Offered { reply, sent_at, turn: Turn::begin(sent_at) })
    }

    /// The same that another request has sent, with its own release. It is waited for likewise.
    async fn take_up(&mut self, offered: oneshot::Receiver<Offered>) -> Result<Result<Granted, Refusal>, Nap> {
        self.has_asked = true;
        match offered.await {
            Ok(offered) => self.judge(offered),
            // Its task is gone, with the runtime: as good as no answer.
            Err(_) => {
                let (now, after) = (self.core.now(), Duration::ZERO);
                self.judge(Offered { reply: Err(StoreError::Unknown { after }), sent_at: now, turn: Turn::begin(now) })
            }
        }
    }

    fn judge(&mut self, Offered { reply, sent_at, turn }: Offered) -> Result<Result<Granted, Refusal>, Nap> {
        if let Ok(reply) = &reply {
            self.core.learn(reply);
            self.failures = 0;
        }
        match reply {
            Ok(AcquireReply::Granted(grant)) => Ok(self.granted(grant, sent_at, turn)),
            Ok(AcquireReply::PermitsDiffer { name, permits }) => Ok(Err(Refusal::PermitsDiffer { name, permits })),
            Ok(AcquireReply::Guarded { remaining }) => {
                let span = remaining + self.core.between(Duration::ZERO, SPREAD);
                Err(Nap { span, otherwise: Refusal::Guarded { remaining }, has_ticket: true })
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
                Err(Nap { span, otherwise: Refusal::Held { name, holder, ahead, waited }, has_ticket: true })
            }
            Err(error) => {
                self.failures = self.failures.saturating_add(1);
                self.unsure |= !matches!(error, StoreError::Garbage { .. });
                Err(Nap { span: self.core.pause(self.failures), otherwise: Refusal::Store(error), has_ticket: false })
            }
        }
    }

    /// A grant whose time was over before it came is not told to the app.
    fn granted(&self, grant: LockGrant, sent_at: Mono, turn: Turn) -> Result<Granted, Refusal> {
        let valid_until = sent_at + valid_span(self.request.lease);
        if valid_until <= self.core.now() {
            return Err(Refusal::TooLate { lease: self.request.lease });
        }
        let granted = self.core.table().granted(grant, &self.request, valid_until, turn);
        self.core.count_held();
        Ok(granted)
    }
}
