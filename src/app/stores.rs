//! The stores that a configuration names, with all that a replica needs of them.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::base::clock::SharedClock;
use crate::base::process::Entropy;
use crate::config::{Config, QuorumConfig, RoleConfig, StoreConfig, StoreUse};
use crate::protocol::LEASE_DURATION_MIN;
use crate::store::kubernetes::KubernetesStore;
use crate::store::memory::MemoryStore;
use crate::store::quorum::{QuorumMember, QuorumStore};
use crate::store::redis::{RedisMember, RedisStore, SetupError};
use crate::store::{LeaseStore, LedgerStore, LockStore, PresenceStore, RegistryStore, ShortestLease, StoreHealth};

/// An opened store: one connection to it, seen from its sides.
#[derive(Clone)]
pub struct Opened {
    /// Its leases.
    pub leases: Arc<dyn LeaseStore>,
    /// Which members of a quorum count at the moment; none of other stores.
    pub members: Option<watch::Receiver<Vec<bool>>>,
    /// Who takes part in roles that are split; none of a store that [`StoreConfig::without_shards`] tells of.
    pub presence: Option<Arc<dyn PresenceStore>>,
    /// Its locks; none of a store that [`StoreConfig::without_locks`] tells of.
    pub locks: Option<Arc<dyn LockStore>>,
    /// Its ledgers of jobs; none of a store that [`StoreConfig::without_jobs`] tells of.
    pub ledgers: Option<Arc<dyn LedgerStore>>,
    /// Its jobs that are made at run time; none of a store without a queue by due time.
    pub registry: Option<Arc<dyn RegistryStore>>,
}

impl Opened {
    /// A store that has everything.
    fn whole<S: LeaseStore + PresenceStore + LockStore + LedgerStore + RegistryStore>(store: S) -> Self {
        let store = Arc::new(store);
        Self {
            leases: Arc::clone(&store) as _,
            members: None,
            presence: Some(Arc::clone(&store) as _),
            locks: Some(Arc::clone(&store) as _),
            ledgers: Some(Arc::clone(&store) as _),
            registry: Some(store),
        }
    }
}

/// All that a replica keeps anything in.
#[derive(Clone)]
pub struct Stores {
    /// Each where it is kept.
    pub opened: Opened,
    /// How those stores are that locks or ledgers have for themselves.
    pub own: Vec<(StoreUse, watch::Receiver<StoreHealth>)>,
    /// What connections go by.
    pub lease_min: ShortestLease,
}

/// Every store that the configuration names. Each has connections of its own, also where two of them lead to one
/// server, so that one that does not answer holds up nothing else. A Redis may be down: it is tried again in the
/// background.
///
/// # Errors
/// A URL or a TLS file that cannot be used.
pub fn open_stores(config: &Config, clock: &SharedClock) -> Result<Stores, SetupError> {
    let lease_min = ShortestLease::from(lease_min(&config.roles));
    let mut opened = open(config, StoreUse::Leases, &lease_min, clock)?;
    let mut own = Vec::new();
    for (of, _) in config.stores().skip(1) {
        let store = open(config, of, &lease_min, clock)?;
        own.push((of, store.leases.health()));
        match of {
            StoreUse::Leases => {}
            StoreUse::Locks => opened.locks = store.locks,
            StoreUse::Jobs => (opened.ledgers, opened.registry) = (store.ledgers, store.registry),
        }
    }
    Ok(Stores { opened, own, lease_min })
}

/// The store that these are in, for who needs no other.
///
/// # Errors
/// As [`open_stores`].
pub fn open_store(config: &Config, of: StoreUse, clock: &SharedClock) -> Result<Opened, SetupError> {
    open(config, of, &lease_min(&config.roles).into(), clock)
}

/// `roles`: the shortest lease of any.
fn open(config: &Config, of: StoreUse, roles: &ShortestLease, clock: &SharedClock) -> Result<Opened, SetupError> {
    // What a connection to a Redis of their own is judged by. A ledger is written within a leader's term.
    let lease_min = match (of, config.own_store(of)) {
        (StoreUse::Locks, Some(_)) => config.locks.lease.into(),
        (StoreUse::Leases | StoreUse::Locks | StoreUse::Jobs, _) => roles.clone(),
    };
    let seed = Entropy::from_system().seed();
    Ok(match config.store_of(of) {
        StoreConfig::Redis(redis) => {
            let connected = RedisStore::connect(redis, lease_min, seed);
            Opened::whole(connected.map_err(|error| error.in_section(section(config, of), "url"))?)
        }
        StoreConfig::Quorum(quorum) => {
            let store = open_quorum(quorum, &lease_min, clock)?;
            let members = Some(store.members());
            Opened { leases: Arc::new(store), members, presence: None, locks: None, ledgers: None, registry: None }
        }
        StoreConfig::Kubernetes(leases) => {
            let store = Arc::new(KubernetesStore::new(leases, lease_min, seed));
            let leases = Arc::clone(&store) as _;
            Opened { leases, members: None, presence: None, locks: None, ledgers: Some(store), registry: None }
        }
        StoreConfig::Memory => Opened::whole(MemoryStore::new(Arc::clone(clock))),
    })
}

/// Where the configuration names the Redis that these are in.
fn section(config: &Config, of: StoreUse) -> &'static str {
    config.own_store(of).map_or(StoreUse::Leases, |_| of).redis_key()
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
    let members = members.into_iter().map(|member| Arc::new(member) as Arc<dyn QuorumMember>).collect();
    Ok(QuorumStore::new(members, config.seats(), config.command_timeout(), Arc::clone(clock)))
}
