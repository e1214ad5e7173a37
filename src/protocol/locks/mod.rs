//! Locks: short mutual exclusion that apps ask for by name, on the same tokens as roles.
//!
//! * [`LockSpace`] is the store's side, the reference for the scripts: what one atomic step does to the locks of one
//!   store.
//! * Requests and replies are in `messages`; [`valid_span`] is how long a holder may act.
//!
//! Locks differ from roles in three ways, because their names come and go: nobody listens before a first grant, a lock
//! that is gone early is not missed (R5 *vanished*), and one record for the whole store tells that its server
//! restarted, which shuts it for new grants for `locks.guard`.
//!
//! ```text
//!   acquire ──free, nobody fair ahead──► held ──extend──► held ──release──► free ──► the first ticket is woken
//!      │                                  │                                                │ it alone asks again
//!      └──held──► a ticket in the queue   └──the lease ran out──► free                     ▼
//!                 until granted, cancelled, or its sidecar is gone                      held
//! ```
//!
//! Waiting costs nothing: a waiter has a ticket in the store, and a release wakes the first one only, over the channel
//! of its own sidecar. So 100 waiters cost one request per release, not 100. A sidecar that knows of a waiter of its
//! own hands the lock over instead: released and asked for in one step, and nobody need be woken.
//!
//! Late requests: a store executes no request whose sender has given it up. So what was repeated, cancelled or released
//! since is not granted, queued or put back to nobody. The adapter sees to that.

mod ids;
mod messages;

pub use super::reference::locks::LockSpace;
pub use ids::{LockId, LockName, LockNameError, OWNER_BYTES_MAX};
pub use messages::{
    AcquireReply, AcquireRequest, CancelRequest, ExtendReply, ExtendRequest, HandOverRequest, LockGrant, LockHolder,
    LockInsight, LockReleaseReply, LockReleaseRequest, Queueing, Restore, Wake,
};

use std::time::Duration;

/// The most permits that a semaphore may have: its holders are read in every step.
pub const PERMITS_MAX: u32 = 1_000;
/// The most names in one request: all of them are one atomic step.
pub const NAMES_MAX: usize = 16;
/// How long a sidecar's tickets stand without a sign of life from it.
pub const TICKET_SPAN: Duration = Duration::from_secs(10);
/// How far down a queue those who look at it tell the dead from the living.
pub(super) const TICKETS_CHECKED: usize = 1_000;
/// How long a lock's record is kept after its last use. Tokens go on rising after that: they start from the store's
/// clock (R3).
pub const RECORD_SPAN: Duration = Duration::from_secs(24 * 60 * 60);

/// For how long after the request was *sent* a holder may act on a lock: two hundredths less than its lease, which is
/// what clocks that differ by 1 % can cost, and never less than 5 ms less (R2).
pub fn valid_span(lease: Duration) -> Duration {
    lease.saturating_sub((lease / 50).max(Duration::from_millis(5)))
}
