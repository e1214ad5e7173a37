//! A lock that lasts as long as somebody keeps a [`Hold`]: renewed meanwhile, and freed the moment it is dropped. Only
//! the hold that it took is given back: the same owner may have another connection, which was promised the lock, too.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::acquire::{Claim, Want};
use super::held::Entry;
use super::release::Extension;
use super::service::{Core, Granted, LockDesk, Refusal};
use super::waiters::HoldPlace;
use crate::protocol::{LockId, LockName, Mono};

/// How long a client may take to hang up once it was told that the process ends. One that does not keeps its lock for
/// the rest of the lease: it may still be acting on what it was promised (P3).
const GRACE: Duration = Duration::from_secs(2);
/// For how long a lock is tried to be given back after its connection has closed, at least.
const RELEASE_SPAN: Duration = Duration::from_secs(5);

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

impl LockDesk {
    /// Asks for a lock as [`Self::acquire`] does, and keeps it for as long as the [`Hold`] lives.
    ///
    /// # Errors
    /// As [`Self::acquire`].
    pub async fn hold(&self, want: Want) -> Result<Hold, Refusal> {
        let names = want.names.clone();
        let claim = self.acquire(want).await?;
        let Some(place) = self.core.waiting.hold() else {
            return Err(Refusal::TooManyWaiters { max: self.core.settings.waiters_max });
        };
        Ok(self.keep(claim, names, place))
    }

    fn keep(&self, claim: Claim, names: Vec<LockName>, place: HoldPlace) -> Hold {
        let granted = claim.take();
        let keeping = Keeping::begin(Arc::clone(&self.core), granted.id);
        let (told, state) = watch::channel(HoldState::Held { valid_until: granted.valid_until });
        let keeper = Keeper { core: Arc::clone(&self.core), names, granted, told, keeping };
        self.core.start(async move {
            let _place = place;
            keeper.run().await;
        });
        Hold { granted, state }
    }
}

struct Keeper {
    core: Arc<Core>,
    names: Vec<LockName>,
    granted: Granted,
    told: watch::Sender<HoldState>,
    keeping: Keeping,
}

/// Has the table keep a lock's entry until its keeper ends, whatever the way.
struct Keeping {
    core: Arc<Core>,
    id: LockId,
}

impl Keeping {
    fn begin(core: Arc<Core>, id: LockId) -> Self {
        core.table().keeper_begins(id);
        Self { core, id }
    }
}

impl Drop for Keeping {
    fn drop(&mut self) {
        self.core.table().keeper_ends(self.id);
    }
}

impl Keeper {
    async fn run(mut self) {
        let mut failures = 0;
        let mut next = self.core.now() + self.granted.lease / 3;
        loop {
            let nap = next.min(self.granted.valid_until).since(self.core.now());
            tokio::select! {
                biased;
                () = self.told.closed() => return self.give_back().await,
                () = self.core.stopping() => return self.end().await,
                () = tokio::time::sleep(nap) => {}
            }
            let sent_at = self.core.now();
            if sent_at >= self.granted.valid_until {
                return self.expire().await;
            }
            let Some(name) = self.names.first() else { return };
            match self.core.extend_once(name, self.granted.id, None).await {
                Extension::Done(extended) => {
                    failures = 0;
                    (self.granted.lease, self.granted.valid_until) = (extended.lease, extended.valid_until);
                    next = sent_at + extended.lease / 3;
                    self.tell(HoldState::Held { valid_until: extended.valid_until });
                }
                Extension::Lost => {
                    return self.tell(HoldState::Lost { reason: "the store does not know it any more" });
                }
                Extension::Unknown(_) => {
                    failures += 1;
                    next = self.core.now() + self.core.pause(failures);
                }
            }
        }
    }

    fn tell(&self, state: HoldState) {
        self.told.send_replace(state);
    }

    /// It could not be extended in time. The store may still have it, so it is given back besides.
    async fn expire(self) {
        // Counted first: who is told may look at once, on another thread.
        if let Some(name) = self.names.first() {
            self.core.lost(name, self.granted.id);
        }
        self.tell(HoldState::Lost { reason: "it could not be extended in time" });
        self.give_back().await;
    }

    async fn give_back(self) {
        let Self { core, names, granted, keeping, .. } = self;
        // Before the release is answered: the owner may take the lock anew meanwhile, with a keeper of its own.
        drop(keeping);
        let now = core.now();
        let turn = {
            let mut table = core.table();
            let turn = table.get(granted.id, now).and_then(Entry::last_turn);
            // From here on nothing puts it back; but its owner may have taken it more than once.
            if table.get(granted.id, now).is_none_or(|entry| entry.holds <= 1) {
                table.remove(granted.id);
            }
            turn
        };
        let until = granted.valid_until.max(now + RELEASE_SPAN);
        // One that cannot be given back ends by its lease, and one that is lost is nobody's to give.
        let _ = core.give_back(names, granted.id, turn, until).await;
    }

    async fn end(self) {
        self.tell(HoldState::Ending { valid_until: self.granted.valid_until });
        tokio::select! {
            () = self.told.closed() => self.give_back().await,
            () = tokio::time::sleep(GRACE) => self.tell(HoldState::Left),
        }
    }
}
