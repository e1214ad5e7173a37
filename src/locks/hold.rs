//! A lock that lasts as long as somebody keeps a [`Hold`]: renewed meanwhile, and freed the moment it is dropped. Only
//! the hold that it took is given back: the same owner may have another connection, which was promised the lock, too.
//!
//! The kernel keeps the connections of an app that hangs. So while the app fails its health check nothing is renewed,
//! and nobody waits for a lock that is to be held; and a hold may have an end of its own ([`HeldOpen`]).

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, watch};

use super::acquire::Want;
use super::extend::extend_once;
use super::release::give_back;
use super::service::{Granted, LockService, PAUSE_MAX, Refusal};
use crate::protocol::{HeldOpen, HoldEnd, HoldStep, LockName, Mono};

/// How long a client may take to hang up once it was told that the process ends. One that does not keeps its lock for
/// the rest of the lease: it may still be acting on what it was promised (P3).
const GRACE: Duration = Duration::from_secs(2);

/// How a held lock is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldState {
    /// It may be acted upon until then.
    Held {
        /// The end of the promise; each renewal moves it on.
        valid_until: Mono,
    },
    /// It may not be acted upon any more.
    Lost {
        /// Why, in words.
        reason: &'static str,
    },
    /// The process ends: it is not renewed any more, and given back as soon as the client hangs up.
    Ending {
        /// The end of the promise.
        valid_until: Mono,
    },
    /// The process ends, and the client did not hang up: the lock stands until its lease ends.
    Left,
}

/// A lock that is held. Dropping it gives the lock back.
#[derive(Debug)]
pub struct Hold {
    /// As it was granted.
    pub granted: Granted,
    /// How it is; every renewal is a change.
    pub state: watch::Receiver<HoldState>,
}

pub(super) async fn hold(service: &Arc<LockService>, want: Want, max: Option<Duration>) -> Result<Hold, Refusal> {
    let names = want.names.clone();
    let failing = service.settings.failing_checks.clone();
    let claim = tokio::select! {
        biased;
        () = begins_to_fail(failing.clone()) => return Err(Refusal::AppFails),
        claim = service.acquire(want) => claim?,
    };
    let places = service.settings.waiters_max;
    let place = service.waiters.place().ok_or(Refusal::TooManyWaiters { max: places })?;
    let mut granted = claim.take();
    let renewed = service.held.renewed(granted.id);
    let plan = HeldOpen::new(service.now(), granted.valid_until, granted.lease, max);
    granted.valid_until = plan.valid_until();
    if let Some(end) = plan.ends_at() {
        service.held.promise_at_most(granted.id, end);
    }
    let (told, state) = watch::channel(HoldState::Held { valid_until: granted.valid_until });
    let renewal = Renewal { service: Arc::clone(service), names, granted, plan, told, failing, renewed, _place: place };
    service.upkeep.spawn(renewal.run());
    Ok(Hold { granted, state })
}

/// Completes when one of the app's health checks fails, or does already.
async fn begins_to_fail(mut failing: watch::Receiver<usize>) {
    if failing.wait_for(|checks| *checks > 0).await.is_err() {
        // Nobody checks any more.
        std::future::pending().await
    }
}

/// Completes when an operator has ended a hold.
async fn rung(renewed: Option<&Notify>) {
    match renewed {
        Some(renewed) => renewed.notified().await,
        None => std::future::pending().await,
    }
}

/// Renews a lock for as long as its hold lives.
struct Renewal {
    service: Arc<LockService>,
    names: Vec<LockName>,
    granted: Granted,
    plan: HeldOpen,
    told: watch::Sender<HoldState>,
    /// How many of the app's health checks fail.
    failing: watch::Receiver<usize>,
    /// See [`super::held::Held::renewed`].
    renewed: Option<Arc<Notify>>,
    _place: OwnedSemaphorePermit,
}

impl Renewal {
    async fn run(mut self) {
        let Some(name) = self.names.first().cloned() else { return };
        let mut backoff = self.service.backoff();
        loop {
            let now = self.service.now();
            if let Some(held) = self.service.held.get(self.granted.id, now) {
                // By `PUT`, whose promises are as good.
                self.plan.promised(held.valid_until);
            }
            let app_fails = *self.failing.borrow_and_update() > 0;
            let pause = match self.plan.step(now, app_fails) {
                HoldStep::Wait { until } => until.since(now),
                HoldStep::Extend => Duration::ZERO,
                HoldStep::Over(HoldEnd::Max) => return self.over(HoldEnd::Max).await,
                // Counted first: who is told may look at once, on another thread.
                HoldStep::Over(end) => match self.service.held.lost_unless_promised(self.granted.id, &name, now) {
                    Some(until) => {
                        self.plan.promised(until);
                        continue;
                    }
                    None => return self.over(end).await,
                },
            };
            tokio::select! {
                biased;
                () = self.told.closed() => return self.give_back().await,
                () = self.service.upkeep.stopping() => return self.end().await,
                // An error: nobody checks any more.
                Ok(()) = self.failing.changed() => continue,
                () = rung(self.renewed.as_deref()) => {
                    return self.tell(HoldState::Lost { reason: "an operator has unlocked it" });
                }
                () = tokio::time::sleep(pause) => {}
            }
            let sent_at = self.service.now();
            if self.plan.step(sent_at, app_fails) != HoldStep::Extend {
                continue;
            }
            match extend_once(&self.service, &name, self.granted.id, None).await {
                Ok(Some(extended)) => {
                    backoff.reset();
                    self.plan.extended(sent_at, extended.valid_until, extended.lease);
                    self.tell(HoldState::Held { valid_until: self.plan.valid_until() });
                }
                Ok(None) => return self.tell(HoldState::Lost { reason: "the store does not know it any more" }),
                Err(_) => self.plan.failed(self.service.now() + backoff.next(PAUSE_MAX)),
            }
        }
    }

    /// The store may still have it.
    async fn over(self, end: HoldEnd) {
        let reason = match end {
            HoldEnd::NotExtended => "it could not be extended in time",
            HoldEnd::AppFails => "the app fails its health check (appCheck), so it was not extended",
            HoldEnd::Max => "it was held for as long as it was asked for (max)",
        };
        self.tell(HoldState::Lost { reason });
        self.give_back().await;
    }

    fn tell(&self, state: HoldState) {
        self.told.send_replace(state);
    }

    /// One that cannot be given back ends by its lease, and one that is lost is nobody's to give.
    async fn give_back(self) {
        // Before the release is answered: the owner may take the lock anew meanwhile, and have that renewed.
        drop(self.renewed);
        let _ = give_back(self.service, self.names, self.granted.id).await;
    }

    async fn end(self) {
        self.tell(HoldState::Ending { valid_until: self.plan.valid_until() });
        tokio::select! {
            () = self.told.closed() => self.give_back().await,
            () = tokio::time::sleep(GRACE) => self.tell(HoldState::Left),
        }
    }
}
