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
use crate::store::redis::{CredentialCounts, RedisMember, RedisStore, SetupError};
use crate::store::{LeaseStore, LedgerStore, LockStore, PresenceStore, RegistryStore, ShortestLease, StoreHealth};

/// An opened store: one connection to it, seen from its sides.
#[derive(Clone)]
pub struct Opened {
    /// Its leases.
    pub leases: Arc<dyn LeaseStore>,
    /// Which members of a quorum count at the moment; none of other stores.
    pub members: Option<watch::Receiver<Vec<bool>>>,
    /// Who takes part in roles that are split; none of a store that [`StoreConfig::without_presence`] tells of.
    pub presence: Option<Arc<dyn PresenceStore>>,
    /// Its locks; none of a store that [`StoreConfig::without_locks`] tells of.
    pub locks: Option<Arc<dyn LockStore>>,
    /// Its ledgers of jobs; none of a store that [`StoreConfig::without_jobs`] tells of.
    pub ledgers: Option<Arc<dyn LedgerStore>>,
    /// Its jobs that are made at run time; none of a store without a queue by due time.
    pub registry: Option<Arc<dyn RegistryStore>>,
    /// How renewals of its credentials go, for each server with credentials that change.
    pub credentials: Vec<watch::Receiver<CredentialCounts>>,
}

impl Opened {
    /// A store that has leases, and nothing else.
    fn of_leases(leases: Arc<dyn LeaseStore>) -> Self {
        let credentials = Vec::new();
        Self { leases, members: None, presence: None, locks: None, ledgers: None, registry: None, credentials }
    }

    /// A store that has everything.
    fn whole<S: LeaseStore + PresenceStore + LockStore + LedgerStore + RegistryStore>(store: S) -> Self {
        let store = Arc::new(store);
        let leases = Arc::clone(&store) as Arc<dyn LeaseStore>;
        Self {
            presence: Some(Arc::clone(&store) as _),
            locks: Some(Arc::clone(&store) as _),
            ledgers: Some(Arc::clone(&store) as _),
            registry: Some(store),
            ..Self::of_leases(leases)
        }
    }
}

/// All that a replica keeps anything in.
#[derive(Clone)]
pub struct Stores {
    /// Each where it is kept.
    pub opened: Opened,
    /// What is told of those stores that locks or ledgers have for themselves.
    pub own: Vec<OwnStore>,
    /// What connections go by.
    pub lease_min: ShortestLease,
}

/// How a store is that something has for itself.
#[derive(Clone)]
pub struct OwnStore {
    pub of: StoreUse,
    pub health: watch::Receiver<StoreHealth>,
    /// As in [`Opened`].
    pub credentials: Vec<watch::Receiver<CredentialCounts>>,
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
        own.push(OwnStore { of, health: store.leases.health(), credentials: store.credentials });
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
            let store = connected.map_err(|error| error.in_section(section(config, of), "url"))?;
            let credentials = store.credentials().into_iter().collect();
            Opened { credentials, ..Opened::whole(store) }
        }
        StoreConfig::Quorum(quorum) => {
            let (store, credentials) = open_quorum(quorum, &lease_min, clock)?;
            let members = Some(store.members());
            Opened { members, credentials, ..Opened::of_leases(Arc::new(store)) }
        }
        StoreConfig::Kubernetes(leases) => {
            let store = Arc::new(KubernetesStore::new(leases, lease_min, seed));
            let leases = Arc::clone(&store) as Arc<dyn LeaseStore>;
            Opened { ledgers: Some(store), ..Opened::of_leases(leases) }
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
) -> Result<(QuorumStore, Vec<watch::Receiver<CredentialCounts>>), SetupError> {
    let mut entropy = Entropy::from_system();
    let lists: Arc<str> = config.lists().into();
    let connect = |member| RedisMember::connect(member, Arc::clone(&lists), lease_min.clone(), entropy.seed());
    let members: Vec<RedisMember> = config.members.iter().map(connect).collect::<Result<_, _>>()?;
    let credentials = members.iter().filter_map(RedisMember::credentials).collect();
    let members = members.into_iter().map(|member| Arc::new(member) as Arc<dyn QuorumMember>).collect();
    Ok((QuorumStore::new(members, config.seats(), config.command_timeout(), Arc::clone(clock)), credentials))
}
