//! A lock that lasts as long as somebody keeps a [`Hold`]: renewed meanwhile, and freed the moment it is dropped. Only
//! the hold that it took is given back: the same owner may have another connection, which was promised the lock, too.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, watch};

use super::acquire::Want;
use super::extend::extend_once;
use super::release::give_back;
use super::service::{Granted, LockService, PAUSE_MAX, Refusal};
use crate::protocol::{LockName, Mono};

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

pub(super) async fn hold(service: &Arc<LockService>, want: Want) -> Result<Hold, Refusal> {
    let names = want.names.clone();
    let claim = service.acquire(want).await?;
    let max = service.settings.waiters_max;
    let place = service.waiters.place().ok_or(Refusal::TooManyWaiters { max })?;
    let granted = claim.take();
    let renewed = service.held.renewed(granted.id);
    let (told, state) = watch::channel(HoldState::Held { valid_until: granted.valid_until });
    let renewal = Renewal { service: Arc::clone(service), names, granted, told, renewed, _place: place };
    service.upkeep.spawn(renewal.run());
    Ok(Hold { granted, state })
}

/// Renews a lock for as long as its hold lives.
struct Renewal {
    service: Arc<LockService>,
    names: Vec<LockName>,
    granted: Granted,
    told: watch::Sender<HoldState>,
    /// See [`super::held::Held::renewed`].
    renewed: Option<Arc<()>>,
    _place: OwnedSemaphorePermit,
}

impl Renewal {
    async fn run(mut self) {
        let Some(name) = self.names.first().cloned() else { return };
        let mut backoff = self.service.backoff();
        let mut next = self.service.now() + self.granted.lease / 3;
        loop {
            let pause = next.min(self.granted.valid_until).since(self.service.now());
            tokio::select! {
                biased;
                () = self.told.closed() => return self.give_back().await,
                () = self.service.upkeep.stopping() => return self.end().await,
                () = tokio::time::sleep(pause) => {}
            }
            let sent_at = self.service.now();
            if sent_at >= self.granted.valid_until {
                // Counted first: who is told may look at once, on another thread.
                self.service.held.lost(self.granted.id, &name);
                self.tell(HoldState::Lost { reason: "it could not be extended in time" });
                // The store may still have it.
                return self.give_back().await;
            }
            match extend_once(&self.service, &name, self.granted.id, None).await {
                Ok(Some(extended)) => {
                    backoff.reset();
                    self.granted.valid_until = extended.valid_until;
                    next = sent_at + extended.lease / 3;
                    self.tell(HoldState::Held { valid_until: extended.valid_until });
                }
                Ok(None) => return self.tell(HoldState::Lost { reason: "the store does not know it any more" }),
                Err(_) => next = self.service.now() + backoff.next(PAUSE_MAX),
            }
        }
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
        self.tell(HoldState::Ending { valid_until: self.granted.valid_until });
        tokio::select! {
            () = self.told.closed() => self.give_back().await,
            () = tokio::time::sleep(GRACE) => self.tell(HoldState::Left),
        }
    }
}
