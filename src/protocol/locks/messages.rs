//! What a sidecar and the store say to each other about locks. Every request is one atomic step on the store.

use std::sync::Arc;
use std::time::Duration;

use super::super::ids::{SessionId, Token};
use super::ids::{LockId, LockName};

/// Whether a request that finds the lock held gets a ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queueing {
    /// No: it does not wait.
    No,
    /// Yes. It may be overtaken by one that comes when the lock is free.
    Plain,
    /// Yes, and nobody overtakes it.
    Fair,
}

/// Asks for one lock, or for several at once: all or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcquireRequest {
    /// Sorted, each once; at most [`super::NAMES_MAX`].
    pub names: Vec<LockName>,
    /// The sidecar that asks.
    pub session: SessionId,
    /// Names this request, also when it is repeated because its answer was lost; and the hold that it is granted.
    pub id: LockId,
    /// For whom.
    pub owner: Arc<str>,
    /// A hold that the same owner has of just these names through the same sidecar. Where it still stands, this one is
    /// granted beside it, under its token. Not for semaphores, where each permit is taken for itself.
    pub beside: Option<LockId>,
    /// The sidecar's name for people.
    pub identity: Arc<str>,
    /// How long the lock shall last from now.
    pub lease: Duration,
    /// For how long from now it is shut at least, even if it is given back before; no longer than the lease.
    pub at_least: Duration,
    /// How many may hold it at once; all who ask for a name must agree.
    pub permits: u32,
    /// The greatest token that this sidecar saw for any of the names (R3).
    pub floor: Token,
    /// Whether to wait for it.
    pub queueing: Queueing,
    /// Whether it stands back for everybody who has a ticket before it, and not only for fair ones. So a sidecar whose
    /// requests have had the lock for long lets others have it.
    pub yields: bool,
    /// Where it is free and others come first, the first of them is woken once more: that may have a ticket and no
    /// request, for a store that has lost a part of its data brings back what was cancelled.
    pub reminds: bool,
    /// How many tokens it asks for: more than one for a [turn](super::LockTurn), of a lock of one name.
    pub tokens: u32,
    /// For how long nobody new is granted after the store may have forgotten locks (R5); none for `guard: off`.
    pub guard: Option<Duration>,
}

/// A hold that was granted, under the id of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockGrant {
    pub token: Token,
    /// How many holds of the lock its owner has now.
    pub holds: u32,
    /// How many tokens it comes with, from that one on. One where the name is used by fair requests, too: they are not
    /// passed by.
    pub tokens: u32,
}

/// Who holds a lock, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockHolder {
    /// For whom.
    pub owner: Arc<str>,
    /// Through which replica's sidecar.
    pub identity: Arc<str>,
    pub token: Token,
    /// How many times it is held.
    pub holds: u32,
    /// How long the last of its leases lasts.
    pub remaining: Duration,
}

/// The answer to an [`AcquireRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AcquireReply {
    /// It is the owner's.
    Granted(LockGrant),
    /// Others hold this one of the names, or came first. `holder`: the one whose lease ends first; none when it is free
    /// but others are ahead. `ahead`: how many tickets are before this one, dead ones that nobody has met included.
    Held { name: LockName, holder: Option<LockHolder>, ahead: u32 },
    /// The store may have forgotten locks (R5).
    Guarded { remaining: Duration },
    /// Others use the name with another number of permits.
    PermitsDiffer { name: LockName, permits: u32 },
}

/// Extends a hold; puts it back where the store has lost it and nobody came since (R4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtendRequest {
    /// All names it was granted for.
    pub names: Vec<LockName>,
    pub id: LockId,
    /// The sidecar.
    pub session: SessionId,
    /// What it was granted in, where it has its place in a turn: the store is told so.
    pub seat: Option<TurnSeat>,
    /// How long it shall last from now, and never less long than it did; none: as long as it was granted for.
    pub lease: Option<Duration>,
    /// What it takes to put it back: the sidecar that granted it knows, others do not.
    pub restore: Option<Box<Restore>>,
    /// As in [`AcquireRequest::guard`].
    pub guard: Option<Duration>,
}

/// The place in a turn of a hold that the store has not heard of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnSeat {
    /// The hold that the store knows.
    pub id: LockId,
    /// Requests that were served in the turn and have a ticket, which goes.
    pub served: Vec<LockId>,
}

/// A hold as its sidecar knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restore {
    /// For whom it is held.
    pub owner: Arc<str>,
    /// The sidecar's name for people.
    pub identity: Arc<str>,
    pub token: Token,
    /// The last token of its turn; else the same.
    pub last: Token,
    /// How many may hold it at once.
    pub permits: u32,
    /// How long it was granted for.
    pub lease: Duration,
    /// For how long from now it is shut at least.
    pub at_least: Duration,
}

/// The answer to an [`ExtendRequest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtendReply {
    /// It lasts for `lease` from now, if not for longer already. `holds`: of its owner. `restored`: the store had lost
    /// it.
    Extended { token: Token, holds: u32, lease: Duration, restored: bool },
    /// It is no longer held under this id, or not on all of its names.
    Lost,
}

/// Gives a hold back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockReleaseRequest {
    /// All names it was granted for.
    pub names: Vec<LockName>,
    pub id: LockId,
    /// The sidecar.
    pub session: SessionId,
    /// As in [`ExtendRequest::seat`].
    pub seat: Option<TurnSeat>,
}

/// The answer to a [`LockReleaseRequest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockReleaseReply {
    /// It is no longer held: from now on, or by the same request before.
    Released,
    /// It was not held under this id (any more); nothing changed.
    NotHeld,
}

/// Ends a request that waited, or whose answer never came: its ticket goes, and what it was granted meanwhile is free.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CancelRequest {
    /// The request's names.
    pub names: Vec<LockName>,
    /// The sidecar.
    pub session: SessionId,
    /// The request.
    pub id: LockId,
    /// Only its ticket goes: it has the lock already, in a turn.
    pub keeps: bool,
}

/// An operator's word: ends what is held under a token, whoever has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnlockRequest {
    pub name: LockName,
    /// The one that was seen. Where another has the lock meanwhile, nothing changes.
    pub token: Token,
}

/// The answer to an [`UnlockRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnlockReply {
    /// It is no longer held: by `holder` from now on; or it was ended before, and nobody came since.
    Unlocked { holder: Option<LockHolder> },
    /// It is not held under this token, but by these.
    Differs { holders: Vec<LockHolder> },
}

/// A lock as it stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockInsight {
    /// Who holds it, each owner once; the oldest token first.
    pub holders: Vec<LockHolder>,
    /// How many may; none when nobody holds it or waits.
    pub permits: Option<u32>,
    pub waiting: u32,
}

/// Tells a sidecar that one of its waiting requests should ask again. May be lost: a waiter also looks by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wake {
    pub session: SessionId,
    /// The request.
    pub id: LockId,
    /// What has become free. Who no longer waits for it must cancel, so that the next is woken.
    pub name: LockName,
}

/// Tells a sidecar that an operator has ended one of its holds. May be lost: the next extension of it is refused, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unlocked {
    pub session: SessionId,
    /// The hold, as the store knows it.
    pub id: LockId,
    pub name: LockName,
}
