//! One request for a lock: asked, waited for, and never left behind. It runs in a task of its own, so that a client
//! that goes away leaves neither a ticket nor a lock behind, whatever was on its way.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::oneshot;

use super::extend::extend_once;
use super::held::Beside;
use super::owner;
use super::release::{cancel_later, give_back};
use super::service::{Granted, LockService, PAUSE_MAX, Refusal};
use super::turns::{Passed, may_have_turns, settle};
use super::waiters::Waiter;
use crate::base::Backoff;
use crate::protocol::{
    AcquireReply, AcquireRequest, LockGrant, LockId, LockName, LockTurn, Mono, Queueing, Random, TURN_MAX, is_reminder,
    look_after, valid_span,
};
use crate::store::StoreError;
use crate::telemetry::{AcquireOutcome, LockEvent, StoreCommand};

/// How much later than planned to look: those who wait shall not all come at once.
const SPREAD: Duration = Duration::from_millis(20);
/// For how long a request does without a ticket that can count on being handed the lock: one that comes when the lock
/// is held here, or when others wait for it here.
const BESIDE_MAX: Duration = Duration::from_millis(100);

/// How long a request for several names looks whether all are free at once. Then it queues as a fair one.
const SEVERAL_PATIENCE: Duration = Duration::from_secs(1);

/// What an app asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Want {
    /// One, or several: all or none. Sorted, each once.
    pub names: Vec<LockName>,
    /// The same owner may take the same names again; nobody never.
    pub owner: Option<Arc<str>>,
    /// Not even the owner may take them again while it has them; the id is written down beside its name, by which it
    /// can give them back.
    pub once: bool,
    /// How long to wait for it; zero: not at all.
    pub wait: Duration,
    /// How long it shall last.
    pub lease: Duration,
    /// For how long after the grant nobody else has it, even if it is given back before; no longer than the lease.
    pub at_least: Duration,
    /// How many may have it at once.
    pub permits: u32,
    /// First come, first served. Not with several names.
    pub fair: bool,
}

/// A granted lock on its way to the app. Unless it is taken, it is given back.
#[derive(Debug)]
pub struct Claim {
    service: Arc<LockService>,
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
            let (Granted { id, lease, .. }, names) = (self.granted, std::mem::take(&mut self.names));
            if self.service.held.is_in_turn(id) {
                self.service.upkeep.spawn(give_back(Arc::clone(&self.service), names, id));
                return;
            }
            self.service.held.forget(id);
            cancel_later(&self.service, names, id, lease, false);
        }
    }
}

type Answer = Result<Claim, Refusal>;

pub(super) async fn acquire(service: &Arc<LockService>, want: Want) -> Answer {
    let (answer, answered) = oneshot::channel();
    let acquisition = Acquisition::new(Arc::clone(service), want);
    service.upkeep.spawn(acquisition.run(answer));
    // The sender is only lost when the runtime ends.
    answered.await.unwrap_or(Err(Refusal::ShuttingDown))
}

/// What an attempt came to.
enum Step {
    End(Result<Granted, Refusal>),
    /// The next one is after this time, or when it is woken. `otherwise`: what to say if there is none.
    Again {
        after: Duration,
        otherwise: Refusal,
    },
}

/// Why it does not sleep any longer.
enum Woken {
    /// There is nothing more to wait for, for this reason.
    Over(Refusal),
    /// The lock may be free.
    Free,
    /// It was long enough, or what was handed over has come to something.
    Due,
}

struct Acquisition {
    service: Arc<LockService>,
    waiter: Arc<Waiter>,
    begun: Mono,
    wait: Duration,
    backoff: Backoff,
    random: Random,
    /// It has counted on being given the lock by another request.
    has_rested: bool,
    /// The store may know of it.
    has_asked: bool,
    /// What it named last as what its owner has.
    beside: Option<Beside>,
    /// How often in a row it has found free what others are to have before it.
    free_looks: u32,
    /// A request got no answer: it may still arrive.
    unsure: bool,
    /// It has the lock from another request of this sidecar.
    was_passed: bool,
}

impl Acquisition {
    fn new(service: Arc<LockService>, want: Want) -> Self {
        let id = service.new_id();
        let queueing = match (want.wait.is_zero(), want.fair) {
            (true, _) => Queueing::No,
            (false, true) => Queueing::Fair,
            (false, false) => Queueing::Plain,
        };
        let request = AcquireRequest {
            session: service.session,
            id,
            owner: owner::stored(&want, id),
            beside: None,
            identity: Arc::clone(&service.settings.identity),
            lease: want.lease,
            at_least: want.at_least,
            permits: want.permits,
            floor: service.held.floor(),
            queueing,
            yields: false,
            reminds: false,
            tokens: 1,
            guard: service.settings.guard,
            names: want.names,
        };
        let (begun, backoff, random) = (service.now(), service.backoff(), service.random());
        let waiter = Arc::new(Waiter::new(request));
        Self {
            service,
            waiter,
            begun,
            wait: want.wait,
            backoff,
            random,
            has_rested: false,
            has_asked: false,
            beside: None,
            free_looks: 0,
            unsure: false,
            was_passed: false,
        }
    }

    fn request(&self) -> &AcquireRequest {
        &self.waiter.request
    }

    async fn run(mut self, mut answer: oneshot::Sender<Answer>) {
        let mut step = self.begin().await;
        let result = loop {
            let (after, otherwise) = match step {
                Step::End(result) => break result,
                Step::Again { after, otherwise } => (after, otherwise),
            };
            let left = (self.begun + self.wait).since(self.service.now());
            if left.is_zero() {
                break Err(otherwise);
            }
            let waiter = Arc::clone(&self.waiter);
            let mut offer = waiter.slot.open();
            let (woken, passed) = tokio::select! {
                biased;
                passed = &mut offer => (Woken::Due, passed.ok()),
                woken = self.sleep(after.min(left), otherwise, &mut answer) => (woken, waiter.slot.close(offer).await),
            };
            step = match (passed, woken) {
                // Also when nobody is there any more to be told: then it goes on to the next.
                (Some(passed), _) => Step::End(self.passed(passed)),
                (None, Woken::Over(refusal)) => Step::End(Err(refusal)),
                (None, Woken::Free | Woken::Due) => self.ask().await,
            };
        };
        // Here, and not where it is waited for: a client that has gone does not wait.
        self.record(result.as_ref().err());
        // An answer that nobody takes gives back what it holds.
        let _ = answer.send(self.end(result));
    }

    /// Takes a place if it is to wait, and asks, unless it may rest for a while.
    async fn begin(&mut self) -> Step {
        let LockService { upkeep, waiters, lines, held, settings, .. } = &*self.service;
        if upkeep.is_stopping() {
            return Step::End(Err(Refusal::ShuttingDown));
        }
        if self.request().queueing != Queueing::No {
            if !waiters.enter(&self.waiter) {
                return Step::End(Err(Refusal::TooManyWaiters { max: settings.waiters_max }));
            }
            if let Some(name) = lines.join(&self.waiter, held, self.begun)
                && self.wait > BESIDE_MAX
            {
                let otherwise = Refusal::Held { name: name.clone(), holder: None, ahead: 0, waited: true };
                self.has_rested = true;
                // What is free between two turns is for who is queued.
                self.waiter.yields.store(true, Ordering::Relaxed);
                return Step::Again { after: BESIDE_MAX, otherwise };
            }
        }
        self.ask().await
    }

    async fn sleep(&self, span: Duration, otherwise: Refusal, answer: &mut oneshot::Sender<Answer>) -> Woken {
        tokio::select! {
            biased;
            // Nobody is there to be told: the refusal is for nobody, but what was begun is ended.
            () = answer.closed() => Woken::Over(otherwise),
            () = self.service.upkeep.stopping() => Woken::Over(Refusal::ShuttingDown),
            () = self.waiter.bell.notified() => Woken::Free,
            () = tokio::time::sleep(span) => Woken::Due,
        }
    }

    /// One request to the store, which is waited for whatever happens.
    async fn ask(&mut self) -> Step {
        let service = Arc::clone(&self.service);
        loop {
            let sent_at = service.now();
            let beside = service.held.beside(self.request(), sent_at);
            if let (Some(beside), Some(name)) = (beside.filter(|beside| !beside.is_told), self.request().names.first())
            {
                // The store is to know what is named. If it does not, that is asked for like any other.
                let _ = extend_once(&service, name, beside.id, None).await;
            }
            self.beside = beside.or(self.beside);
            let sent_at = service.now();
            let request = self.next_request(beside.map(|beside| beside.id), sent_at);
            let reply = service.timed(StoreCommand::LockAcquire, service.store.acquire(request)).await;
            // What it named may have been given back meanwhile, while its owner has other holds.
            let other = service.held.beside(self.request(), service.now()).map(|other| other.id);
            let is_held = matches!(reply, Ok(AcquireReply::Held { .. }));
            if !is_held || other.is_none() || other == beside.map(|beside| beside.id) {
                return self.judge(reply, sent_at);
            }
        }
    }

    fn next_request(&self, beside: Option<LockId>, now: Mono) -> AcquireRequest {
        let request = self.request();
        let is_busy = self.has_asked || self.has_rested || self.service.lines.has_others(request);
        let in_turn = may_have_turns(request) && request.queueing != Queueing::Fair && is_busy;
        let is_patient = request.names.len() > 1 && request.queueing == Queueing::Plain;
        AcquireRequest {
            floor: self.service.held.floor(),
            beside,
            tokens: if in_turn { TURN_MAX } else { 1 },
            yields: self.waiter.yields.swap(false, Ordering::Relaxed),
            reminds: is_reminder(self.free_looks),
            queueing: match now.since(self.begun) >= SEVERAL_PATIENCE {
                true if is_patient => Queueing::Fair,
                true | false => request.queueing,
            },
            ..request.clone()
        }
    }

    /// What follows from an answer.
    fn judge(&mut self, reply: Result<AcquireReply, StoreError>, sent_at: Mono) -> Step {
        self.has_asked = true;
        if self.request().queueing != Queueing::No && !matches!(reply, Ok(AcquireReply::Granted(_))) {
            self.waiter.has_ticket.store(true, Ordering::Relaxed);
        }
        if reply.is_ok() {
            self.backoff.reset();
        }
        match reply {
            Ok(AcquireReply::Granted(grant)) => Step::End(self.granted(grant, sent_at)),
            Ok(AcquireReply::PermitsDiffer { name, permits }) => {
                Step::End(Err(Refusal::PermitsDiffer { name, permits }))
            }
            Ok(AcquireReply::Guarded { remaining }) => {
                let after = remaining + self.random.between(Duration::ZERO, SPREAD);
                Step::Again { after, otherwise: Refusal::Guarded { remaining } }
            }
            Ok(AcquireReply::Held { name, holder, ahead }) => {
                if let Some(holder) = &holder {
                    self.service.held.saw(holder.token);
                }
                self.free_looks = if holder.is_none() { self.free_looks.saturating_add(1) } else { 0 };
                let remaining = holder.as_ref().map(|holder| holder.remaining);
                let mut after = look_after(remaining, ahead) + self.random.between(Duration::from_millis(1), SPREAD);
                if self.request().names.len() > 1 && self.service.now().since(self.begun) < SEVERAL_PATIENCE {
                    after = after.min(SEVERAL_PATIENCE);
                }
                let waited = self.request().queueing != Queueing::No;
                Step::Again { after, otherwise: Refusal::Held { name, holder, ahead, waited } }
            }
            Err(error) => {
                self.unsure |= !matches!(error, StoreError::Garbage { .. });
                Step::Again { after: self.backoff.next(PAUSE_MAX), otherwise: Refusal::Store(error) }
            }
        }
    }

    /// A grant whose time was over before it came is not told to the app.
    fn granted(&self, grant: LockGrant, sent_at: Mono) -> Result<Granted, Refusal> {
        let service = &self.service;
        service.held.saw(grant.token);
        let AcquireRequest { id, lease, ref names, .. } = *self.request();
        let valid_until = sent_at + valid_span(lease);
        if valid_until <= service.now() {
            return Err(Refusal::TooLate { lease });
        }
        let turn = LockTurn::begin(id, grant, lease, sent_at);
        if let (Some(turn), Some(name)) = (&turn, names.first()) {
            service.held.saw(turn.last());
            service.upkeep.spawn(settle(Arc::clone(service), name.clone(), turn.clone()));
        }
        let granted = service.held.granted(grant, self.request(), self.beside, valid_until, turn);
        service.held.keep(id, service.now() + self.request().at_least);
        // Its owner may wait for it in other requests, which can have it beside this one from now on.
        service.lines.ring(&self.waiter);
        Ok(granted)
    }

    /// Another request of this sidecar had the lock, and gave it back in its turn.
    fn passed(&mut self, passed: Passed) -> Result<Granted, Refusal> {
        self.was_passed = true;
        let granted = self.service.held.passed(self.request(), passed);
        self.service.lines.ring(&self.waiter);
        if granted.valid_until <= self.service.now() {
            let names = self.request().names.clone();
            self.service.upkeep.spawn(give_back(Arc::clone(&self.service), names, granted.id));
            return Err(Refusal::TooLate { lease: granted.lease });
        }
        Ok(granted)
    }

    /// Gives the place away, and leaves nothing behind.
    fn end(self, result: Result<Granted, Refusal>) -> Answer {
        let Self { service, waiter, has_asked, unsure, was_passed, .. } = self;
        let AcquireRequest { id, ref names, lease, queueing, .. } = waiter.request;
        service.lines.leave(&waiter);
        service.waiters.leave(id, result.is_ok() && !was_passed, service.now());
        let names = names.clone();
        match result {
            Ok(granted) => Ok(Claim { service, names, granted, taken: false }),
            Err(refusal) => {
                let queued = has_asked && queueing != Queueing::No;
                if !was_passed && (queued || unsure || matches!(refusal, Refusal::TooLate { .. })) {
                    cancel_later(&service, names, id, lease, unsure);
                }
                Err(refusal)
            }
        }
    }

    /// Counts a request that has ended, for good or for this reason.
    fn record(&self, refusal: Option<&Refusal>) {
        let outcome = match refusal {
            None => AcquireOutcome::Granted,
            Some(Refusal::Held { waited: false, .. }) => AcquireOutcome::Held,
            Some(Refusal::Held { waited: true, .. }) => AcquireOutcome::Timeout,
            Some(Refusal::Guarded { .. }) => AcquireOutcome::Guarded,
            Some(
                Refusal::PermitsDiffer { .. }
                | Refusal::Lost
                | Refusal::TokenDiffers { .. }
                | Refusal::TooManyWaiters { .. }
                | Refusal::Store(_)
                | Refusal::TooLate { .. }
                | Refusal::AppFails
                | Refusal::ShuttingDown,
            ) => AcquireOutcome::Error,
        };
        if let Some(name) = self.request().names.first().cloned() {
            let waited = self.service.now().since(self.begun);
            self.service.telemetry.record_lock(&LockEvent::Asked { name, outcome, waited });
        }
    }
}
