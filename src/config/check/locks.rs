//! `locks:`

use std::time::Duration;

use super::Checker;
use super::store::Kept;
use crate::config::model::{LocksConfig, StoreConfig};
use crate::config::position::Path;
use crate::config::raw::{RawDapr, RawLocks, Scalar};

const LEASE: Duration = Duration::from_secs(30);
const LEASE_MIN: Duration = Duration::from_millis(100);
const LEASE_LIMIT: Duration = Duration::from_secs(24 * 3_600);
const MAX_LEASE: Duration = Duration::from_secs(3_600);
/// A `hold` renews its lock so often within a lease.
const RENEWALS: u32 = 3;
const WAITERS: u32 = 10_000;
const WAITERS_MAX: u32 = 100_000;
const STORES_MAX: usize = 16;
const STORE_NAME_BYTES_MAX: usize = 63;

impl Checker<'_> {
    /// Locks: their defaults, unless something else is written. Refused where the store has none.
    pub(super) fn locks(
        &mut self,
        raw: Option<&RawLocks>,
        store: Option<&StoreConfig>,
        path: &Path,
    ) -> Option<LocksConfig> {
        if self.is_bad(path) {
            return None;
        }
        let own_path = path.key("store");
        let shares = raw.is_some_and(|raw| raw.store.is_none()) && !self.has_bad_within(&own_path);
        if let Some(reason) = store.filter(|_| shares).and_then(StoreConfig::without_locks) {
            self.problem(path, format!("cannot be had with this store: {reason}, or remove it"));
            return None;
        }
        let keys = ["lease", "maxLease", "guard"].map(|key| path.key(key));
        let none = RawLocks::default();
        let raw = raw.unwrap_or(&none);
        let lease = self.duration(raw.lease.as_ref(), &keys[0]);
        let kept = Kept::Locks { renewed_every: lease.unwrap_or(LEASE) / RENEWALS };
        let own = raw.store.as_ref().and_then(|own| self.own_store(own, kept, &own_path));
        let max_lease = self.duration(raw.max_lease.as_ref(), &keys[1]);
        let guard = self.positive_duration(raw.guard.as_ref(), &keys[2]);
        let waiters = self.count(raw.max_waiters.as_ref(), &path.key("maxWaiters"), 1..=WAITERS_MAX);
        let dapr_stores = self.dapr(raw.dapr.as_ref(), &path.key("dapr"));
        if keys.iter().any(|key| self.is_bad(key)) {
            return None;
        }
        let lease = lease.unwrap_or(LEASE);
        if !(LEASE_MIN..=LEASE_LIMIT).contains(&lease) {
            self.problem(&keys[0], format!("is {lease:?}; it must be between 100ms and 24h"));
            return None;
        }
        let max_lease = max_lease.unwrap_or(MAX_LEASE.max(lease));
        if max_lease < lease || max_lease > LEASE_LIMIT {
            self.problem(&keys[1], format!("is {max_lease:?}; it must be between lease, {lease:?}, and 24h"));
        }
        let guard = guard.unwrap_or(lease);
        if guard > LEASE_LIMIT {
            self.problem(&keys[2], format!("is {guard:?}; it must be at most 24h"));
        } else if guard < lease {
            let message = format!(
                "is {guard:?}, less than lease, {lease:?}: a lock that Redis has forgotten can be granted to another \
                 while its owner still relies on it"
            );
            self.warning(&keys[2], message);
        }
        let max_waiters = waiters.unwrap_or(WAITERS);
        let config = LocksConfig { store: own, lease, max_lease, guard, max_waiters, dapr_stores };
        (!self.has_bad_within(path)).then_some(config)
    }

    /// The names of Dapr's lock stores that are right.
    fn dapr(&mut self, raw: Option<&RawDapr>, path: &Path) -> Vec<String> {
        let path = path.key("stores");
        let Some(given) = raw.and_then(|dapr| dapr.stores.as_ref()) else { return Vec::new() };
        if given.is_empty() {
            self.problem(&path, "is empty; name the lock stores that the app asks for, or remove `dapr`".to_owned());
        } else if given.len() > STORES_MAX {
            self.problem(&path, format!("has {}; at most {STORES_MAX} are answered for", given.len()));
        }
        let mut stores: Vec<String> = Vec::new();
        for (index, name) in given.iter().enumerate() {
            let path = path.index(index);
            let Some(name) = self.lock_store(name.as_ref(), &path) else { continue };
            if stores.contains(&name) {
                self.problem(&path, format!("{name} is named before; once is enough"));
            } else {
                stores.push(name);
            }
        }
        stores
    }

    fn lock_store(&mut self, given: Option<&Scalar>, path: &Path) -> Option<String> {
        let text = self.text(given, path)?;
        let fits = text.len() <= STORE_NAME_BYTES_MAX
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b));
        if !fits {
            let shown = self.shown(given?, path);
            let message = format!(
                "{shown} cannot be a lock store's name; use 1 to {STORE_NAME_BYTES_MAX} of A-Z, a-z, 0-9, `_`, `.` and \
                 `-`"
            );
            self.problem(path, message);
            return None;
        }
        Some(text.to_owned())
    }
}
