//! The store that a configuration names, with all that a replica needs of it.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::SharedClock;
use crate::config::{Config, QuorumConfig, RoleConfig, StoreConfig};
use crate::process::Entropy;
use crate::protocol::LEASE_DURATION_MIN;
use crate::store::kubernetes::KubernetesStore;
use crate::store::memory::MemoryStore;
use crate::store::quorum::{Member, QuorumStore};
use crate::store::redis::{RedisMember, RedisStore, SetupError};
use crate::store::{LeaseStore, LedgerStore, LockStore, ShortestLease};

/// An opened store: one connection to it, seen from its sides.
#[derive(Clone)]
pub struct Stores {
    /// Its leases, not measured yet.
    pub leases: Arc<dyn LeaseStore>,
    /// Its locks, if it has any.
    pub locks: Option<Arc<dyn LockStore>>,
    /// Its ledgers of jobs, if it has any; not measured yet.
    pub ledgers: Option<Arc<dyn LedgerStore>>,
    /// What it goes by.
    pub lease_min: ShortestLease,
}

impl Stores {
    fn new<S: LeaseStore + LockStore + LedgerStore>(store: S, lease_min: ShortestLease) -> Self {
        let store = Arc::new(store);
        let locks = Some(Arc::clone(&store) as Arc<dyn LockStore>);
        Self { leases: Arc::clone(&store) as Arc<dyn LeaseStore>, locks, ledgers: Some(store), lease_min }
    }

    /// Of a store that [`StoreConfig::without_locks`] and [`StoreConfig::without_jobs`] tell of.
    fn of_leases<S: LeaseStore>(store: S, lease_min: ShortestLease) -> Self {
        Self { leases: Arc::new(store), locks: None, ledgers: None, lease_min }
    }
}

/// The store that the configuration names. Redis may be down: it is tried again in the background.
///
/// # Errors
/// A URL or a TLS file that cannot be used.
pub fn open_store(config: &Config, clock: &SharedClock) -> Result<Stores, SetupError> {
    let lease_min = ShortestLease::from(lease_min(&config.roles));
    let (given, mut entropy) = (lease_min.clone(), Entropy::from_system());
    Ok(match &config.store {
        StoreConfig::Redis(redis) => Stores::new(RedisStore::connect(redis, given, entropy.seed())?, lease_min),
        StoreConfig::Quorum(quorum) => Stores::of_leases(open_quorum(quorum, &given, clock)?, lease_min),
        StoreConfig::Kubernetes(leases) => {
            Stores::of_leases(KubernetesStore::new(leases, given, entropy.seed()), lease_min)
        }
        StoreConfig::Memory => Stores::new(MemoryStore::new(Arc::clone(clock)), lease_min),
    })
}

/// The shortest lease of these.
pub(super) fn lease_min(roles: &[RoleConfig]) -> Duration {
    let shortest = roles.iter().map(|role| role.timing.lease_duration()).min();
    shortest.unwrap_or(LEASE_DURATION_MIN)
}

fn open_quorum(
    config: &QuorumConfig,
    lease_min: &ShortestLease,
    clock: &SharedClock,
) -> Result<QuorumStore, SetupError> {
    let mut entropy = Entropy::from_system();
    let lists: Arc<str> = config.lists().into();
    let connect = |member| RedisMember::connect(member, Arc::clone(&lists), lease_min.clone(), entropy.seed());
    let members: Vec<RedisMember> = config.members.iter().map(connect).collect::<Result<_, _>>()?;
    let members = members.into_iter().map(|member| Arc::new(member) as Arc<dyn Member>).collect();
    Ok(QuorumStore::new(members, config.seats(), config.command_timeout(), Arc::clone(clock)))
}
