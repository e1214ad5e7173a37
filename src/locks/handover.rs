//! A lock that goes from one request of this sidecar to the next in one step of the store, without anybody being woken.
//!
//! Others wait for it beside other sidecars, and have tickets: so a lock goes on here for a turn only. Then the next
//! request stands back for everybody who is queued before it.

use std::time::Duration;

use super::service::Core;
use crate::protocol::{AcquireReply, AcquireRequest, HandOverRequest, LockReleaseReply, LockReleaseRequest, Mono};
use crate::store::{HandedOver, StoreError};

/// How often in a row a lock is handed over here while others may wait for it elsewhere.
pub(super) const TURN_MAX: u32 = 32;
/// For how long, if that is over first.
const TURN_SPAN: Duration = Duration::from_millis(50);

/// How long a lock has gone from request to request of this sidecar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    begun: Mono,
    handovers: u32,
}

impl Turn {
    pub(super) fn begin(now: Mono) -> Self {
        Self { begun: now, handovers: 0 }
    }

    fn is_over(self, now: Mono) -> bool {
        self.handovers >= TURN_MAX || now.since(self.begun) >= TURN_SPAN
    }

    /// The turn of who gets the lock next.
    fn next(self, now: Mono) -> Self {
        if self.is_over(now) { Self::begin(now) } else { Self { handovers: self.handovers + 1, ..self } }
    }
}

/// What came of a lock that was handed over to a request.
#[derive(Debug)]
pub(super) struct Offered {
    pub(super) reply: Result<AcquireReply, StoreError>,
    /// When the step was sent: what is granted counts from then (R2).
    pub(super) sent_at: Mono,
    pub(super) turn: Turn,
}

impl Core {
    /// Gives a lock back and asks for it on behalf of a request that waits here, if any does. None when nobody does, or
    /// when there is no answer: then it has to be given back by itself, by the same request.
    pub(super) async fn hand_over(&self, release: &LockReleaseRequest, turn: Turn) -> Option<LockReleaseReply> {
        let offer = self.waiting.offer(release.names.first()?)?;
        let acquire = AcquireRequest { floor: self.floor(), ..(*offer.request).clone() };
        let sent_at = self.now();
        let request = HandOverRequest { release: release.clone(), acquire, yields: turn.is_over(sent_at) };
        let (released, reply) = match self.store.hand_over(request).await {
            Ok(HandedOver { released, acquired }) => (Some(released), acquired),
            // It asks again by itself: it may have it.
            Err(error) => (None, Err(error)),
        };
        offer.answer(Offered { reply, sent_at, turn: turn.next(sent_at) });
        released
    }
}
