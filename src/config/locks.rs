//! `locks:`

use std::time::Duration;

use super::redis::Kept;
use super::section::{Group, Key, Or, Reader, Section, key, required};
use super::store::{self, OWN_STORE, StoreConfig};
use super::value::{Count, Form, List, Span};
use crate::base::duration;

/// `locks:`
#[derive(Clone, Debug, PartialEq)]
pub struct LocksConfig {
    /// Where they are, if not in the store of the leases.
    pub store: Option<StoreConfig>,
    pub lease: Duration,
    pub max_lease: Duration,
    /// For how long nobody new is granted after the store may have forgotten locks (R5).
    pub guard: Duration,
    pub max_waiters: u32,
    /// The lock stores that Dapr's lock API is answered for; none: it is not answered.
    pub dapr_stores: Vec<String>,
}

/// The shortest lease of a lock: below it, ordinary scheduling delays would end it before the app knows of it.
pub const LOCK_LEASE_MIN: Duration = Duration::from_millis(100);
const LEASE_MAX: Duration = Duration::from_secs(24 * 3_600);
/// A `hold` renews its lock so often within a lease.
const RENEWALS: u32 = 3;
const STORES_MAX: usize = 16;

pub(super) const LOCKS: Key<Group> =
    key("locks", Group(&SECTION), "Locks for the app. They are there without this, too, wherever the store has them.");
pub(super) const STORE: Key<Group> = key("store", Group(&OWN_STORE), "Where they are, if not in `store`.");
const LEASE: Key<Or<Span>> = key(
    "lease",
    Or(Span::between(LOCK_LEASE_MIN, LEASE_MAX), Duration::from_secs(30)),
    "How long a lock lasts whose request names no lease; {min} to {max}.",
);
const MAX_LEASE: Key<Span> = key(
    "maxLease",
    Span::up_to(LEASE_MAX),
    "The longest lease that a request may name; at least `lease`, at most {max}. Default: 1h, or `lease` when that is \
     more.",
);
const MAX_LEASE_USUAL: Duration = Duration::from_secs(3_600);
const GUARD: Key<Span> = key(
    "guard",
    Span::up_to(LEASE_MAX),
    "For how long nobody new is granted after Redis may have forgotten locks; up to {max}. Default: `lease`.",
);
const MAX_WAITERS: Key<Or<Count>> = key(
    "maxWaiters",
    Or(Count(1, 100_000), 1_000),
    "How many requests may wait for locks, and connections hold one, at once.",
);
const DAPR: Key<Group> = key("dapr", Group(&DAPR_SECTION), "Answer Dapr's lock API, too.");

const SECTION: Section =
    Section::new("Locks", "Locks for the app.", &[&STORE, &LEASE, &MAX_LEASE, &GUARD, &MAX_WAITERS, &DAPR]);

const DAPR_STORE: Form<String> = Form { pattern: "^[A-Za-z0-9_.-]{1,63}$", parse: dapr_store };
const DAPR_STORES: Key<List<Form<String>>> = required(
    "stores",
    List { item: DAPR_STORE, min: 1, max: STORES_MAX },
    "The names of the lock stores that the app asks for: what its Dapr component was called.",
);

const DAPR_SECTION: Section = Section::new("Dapr", "Dapr's lock API on the app's listener.", &[&DAPR_STORES]);

/// Locks: their defaults, unless something else is written.
pub(super) fn read(top: &Reader<'_>) -> LocksConfig {
    let s = top.at(&LOCKS);
    let (lease, guard) = (s.get(&LEASE), s.given(&GUARD));
    let max_lease = s.given(&MAX_LEASE).unwrap_or(MAX_LEASE_USUAL.max(lease));
    if max_lease < lease && !s.any_bad(&[&LEASE, &MAX_LEASE]) {
        let most = duration::write(LEASE_MAX);
        s.at(&MAX_LEASE).problem(format!("is {max_lease:?}; it must be between lease, {lease:?}, and {most}"));
    }
    if let Some(guard) = guard.filter(|guard| *guard < lease) {
        s.at(&GUARD).warning(format!(
            "is {guard:?}, less than lease, {lease:?}: a lock that Redis has forgotten can be granted to another while \
             its owner still relies on it"
        ));
    }
    let own = s.given(&STORE);
    LocksConfig {
        store: own.and_then(|own| store::read_own(&own, Kept::Locks, Some(lease / RENEWALS))),
        lease,
        max_lease,
        guard: guard.unwrap_or(lease),
        max_waiters: s.get(&MAX_WAITERS),
        dapr_stores: dapr_stores(&s.at(&DAPR)),
    }
}

/// The names of Dapr's lock stores that are right.
fn dapr_stores(s: &Reader<'_>) -> Vec<String> {
    let Some(places) = s.given(&DAPR_STORES) else { return Vec::new() };
    let list = s.at(&DAPR_STORES);
    if places.is_empty() {
        list.problem("is empty; name the lock stores that the app asks for, or remove `dapr`");
    } else if places.len() > STORES_MAX {
        list.problem(format!("has {}; at most {STORES_MAX} are answered for", places.len()));
    }
    let mut stores: Vec<String> = Vec::new();
    for place in places {
        let Some(name) = place.read(&DAPR_STORE) else { continue };
        if stores.contains(&name) {
            place.problem(format!("{name} is named before; once is enough"));
        } else {
            stores.push(name);
        }
    }
    stores
}

fn dapr_store(text: &str) -> Result<String, String> {
    const BYTES_MAX: usize = 63;
    let fits = text.len() <= BYTES_MAX && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b));
    let why = || format!("cannot be a lock store's name; use 1 to {BYTES_MAX} of A-Z, a-z, 0-9, `_`, `.` and `-`");
    if fits { Ok(text.to_owned()) } else { Err(why()) }
}
