//! Locks: short mutual exclusion that apps ask for by name, on the same tokens as roles.
//!
//! * [`LockSpace`] is the store's side, the reference for the scripts: what one atomic step does to the locks of one
//!   store.
//! * Requests and replies are in `messages`; [`valid_span`] is how long a holder may act.
//!
//! A lock is a set of *holds*, one for each request that was granted: each has an id, a lease and a promise of its own.
//! An owner that has a lock takes it again by naming the hold that it has; the lock is free when the last one is given
//! back. So to repeat any request, any number of times and in whatever order, changes nothing: no request counts.
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
//! of its own sidecar. So 100 waiters cost one request per release, not 100. A sidecar that has waiters of its own
//! gives the lock to them in turn, and asks the store for nothing meanwhile ([`LockTurn`]).
//!
//! A request for several names that finds them busy for a while asks as a fair one: its tickets have one number in all
//! queues, so that those who wait are in one order everywhere, the first of them blocks who comes later, and nobody
//! waits in a circle.
//!
//! A hold that was taken for a time *at least* and is given back before that rests: it is nobody's to extend, to take
//! again or to put back, and its lease ends with that time. So two who start at about the same time do not both run.
//!
//! An operator ends a lock by its token: it is free then, nothing puts it back, and whoever takes it has a greater
//! token. The promise that was given for it is broken by that, and no other.
//!
//! Late requests: a store executes no request whose sender has given it up. So what was repeated, cancelled or released
//! since is not granted, queued or put back to nobody. The adapter sees to that.

mod held_open;
mod ids;
mod messages;
mod turn;

pub use super::reference::locks::LockSpace;
pub use held_open::{HeldOpen, HoldEnd, HoldStep};
pub use ids::{LockId, LockName, LockNameError, OWNER_BYTES_MAX};
pub use messages::{
    AcquireReply, AcquireRequest, CancelRequest, ExtendReply, ExtendRequest, LockGrant, LockHolder, LockInsight,
    LockReleaseReply, LockReleaseRequest, Queueing, Restore, TurnSeat, UnlockReply, UnlockRequest, Unlocked, Wake,
};
pub use turn::{LockTurn, TURN_MAX};

use std::time::Duration;

/// The most permits that a semaphore may have: its holders are read in every step.
pub const PERMITS_MAX: u32 = 100;
/// The most holds that an owner may have of a lock at once, for the same reason.
pub const HOLDS_MAX: usize = 100;
/// How many of the holds that were given back last are remembered under a name: a release of one of them was successful
/// before, and neither a request nor an extension of it that comes now makes it again.
pub const RELEASED_KEPT: usize = 8;
/// The most names in one request: all of them are one atomic step.
pub const NAMES_MAX: usize = 16;
/// How long a sidecar's tickets stand without a sign of life from it.
pub const TICKET_SPAN: Duration = Duration::from_secs(5);
/// How many tickets of the dead a request that is refused drops at the head of a queue. Who gets the lock drops all.
pub(super) const DEAD_DROPPED_MAX: usize = 16;
/// How far down a queue those who look at it tell the dead from the living.
pub(super) const TICKETS_CHECKED: usize = 1_000;
/// How long a lock's record is kept after its last use, beyond the longest lease that was granted under it: nobody puts
/// back what ended before that. Tokens go on rising: one floor for the whole store remembers the greatest of all (R3).
pub const RECORD_SPAN: Duration = Duration::from_secs(120);

/// For how long after the request was *sent* a holder may act on a lock: two hundredths less than its lease, which is
/// what clocks that differ by 1 % can cost, and never less than 5 ms less (R2).
pub fn valid_span(lease: Duration) -> Duration {
    lease.saturating_sub((lease / 50).max(Duration::from_millis(5)))
}

/// The longest that the first in a queue goes without looking by itself. The others look later: somebody before them is
/// to be woken first.
pub const LOOK_FIRST: Duration = Duration::from_secs(5);
const LOOK_MAX: Duration = Duration::from_secs(30);
/// How soon to look at a lock that is free, and that those before have not taken yet: who was woken may have died.
const LOOK_FREE: Duration = Duration::from_millis(100);
/// Whether a waiter that has looked so often at a lock which stayed free reminds the first in its queue now.
pub fn is_reminder(looks: u32) -> bool {
    looks > 0 && looks.is_multiple_of(5)
}

/// How much later each looks than the one before it: those who wait shall not all come at once.
const LOOK_STAGGER: Duration = Duration::from_millis(2);

/// When a waiter looks by itself, if nobody wakes it before: soon after the end of the lease that is in its way
/// (`remaining`; none: the lock is free), which wakes nobody, with `ahead` tickets before its own. So a lock whose
/// holder or whose next has died is nobody's for long, however many died with it.
pub fn look_after(remaining: Option<Duration>, ahead: u32) -> Duration {
    let at_the_end = remaining.unwrap_or(LOOK_FREE) + LOOK_STAGGER.saturating_mul(ahead);
    at_the_end.min(LOOK_FIRST.saturating_mul(ahead.max(1)).min(LOOK_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fifth_look_at_a_lock_that_stays_free_reminds() {
        let reminders: Vec<u32> = (0..12).filter(|looks| is_reminder(*looks)).collect();
        assert_eq!(reminders, [5, 10]);
    }

    #[test]
    fn who_is_further_back_looks_later_and_nobody_after_half_a_minute() {
        let look = |remaining: Option<u64>, ahead| look_after(remaining.map(Duration::from_millis), ahead).as_millis();
        assert_eq!([look(None, 0), look(None, 3), look(Some(700), 1)], [100, 106, 702]);
        assert_eq!([look(Some(60_000), 0), look(Some(60_000), 2), look(Some(60_000), 100)], [5_000, 10_000, 30_000]);
    }
}
