//! `store:`, and the stores that locks and jobs may have for themselves.

use std::time::Duration;

use super::PREFIX;
use super::lease_objects::{self, KubernetesConfig, LEASE_OBJECTS};
use super::quorum::{self, QUORUM, QuorumConfig};
use super::redis::{self, Kept, REDIS, RedisConfig};
use super::section::{AnyKey, Group, Key, Reader, Rule, Section, key, required};
use crate::protocol::jobs::HistoryLimits;

/// `store:`, exactly one.
#[derive(Clone, Debug, PartialEq)]
pub enum StoreConfig {
    /// Redis behind one URL.
    Redis(Box<RedisConfig>),
    /// Several independent Redis masters.
    Quorum(Box<QuorumConfig>),
    /// Lease objects of a Kubernetes API server.
    Kubernetes(KubernetesConfig),
    /// In this process only.
    Memory,
}

impl StoreConfig {
    /// What the names of its keys, or of its objects, begin with.
    pub fn prefix(&self) -> &str {
        match self {
            Self::Redis(redis) => &redis.key_prefix,
            Self::Quorum(quorum) => quorum.members.first().map_or(PREFIX, |member| &member.key_prefix),
            Self::Kubernetes(leases) => &leases.name_prefix,
            Self::Memory => PREFIX,
        }
    }

    /// Why this store has no locks; none when it has them.
    pub fn without_locks(&self) -> Option<&'static str> {
        match self {
            Self::Redis(_) | Self::Memory => None,
            Self::Quorum(_) => Some(
                "locks need one queue and one clock of record, which independent masters do not share: give them a \
                 Redis of their own, locks.store",
            ),
            Self::Kubernetes(_) => Some(
                "an API server is no place for short locks, each of which would be several writes to its etcd: give \
                 them a Redis of their own, locks.store",
            ),
        }
    }

    /// Why this store has no ledger for jobs; none when it has one.
    pub fn without_jobs(&self) -> Option<&'static str> {
        match self {
            Self::Redis(_) | Self::Kubernetes(_) | Self::Memory => None,
            Self::Quorum(_) => Some(
                "the record of a job's runs needs one place of its own, which independent masters are not: name a \
                 Redis for it, jobsStore",
            ),
        }
    }

    /// Why no job can be made at run time with this store; none when they can.
    pub fn without_runtime_jobs(&self) -> Option<&'static str> {
        match self {
            Self::Redis(_) | Self::Memory => None,
            Self::Quorum(_) | Self::Kubernetes(_) => {
                Some("jobs that are made at run time are kept in Redis: name one for all jobs, jobsStore")
            }
        }
    }

    /// What it asks of jobs that others do not; none when it takes all.
    pub fn job_limits(&self) -> Option<JobLimits> {
        match self {
            Self::Redis(_) | Self::Quorum(_) | Self::Memory => None,
            Self::Kubernetes(_) => Some(JobLimits::IN_LEASES),
        }
    }

    /// Why the replicas cannot know of each other with this store, as a role needs that is split over shards, or goes
    /// to who is preferred; none when they can.
    pub fn without_presence(&self) -> Option<&'static str> {
        match self {
            Self::Redis(_) | Self::Memory => None,
            Self::Quorum(_) => Some(
                "the replicas must know of each other, and independent masters do not keep one list of them: use \
                 store.redis",
            ),
            Self::Kubernetes(_) => Some(
                "the replicas must tell each other several times per lease that they are there, which would be as \
                 many writes to the etcd of the API server: use store.redis",
            ),
        }
    }
}

/// What a store asks of jobs, see [`StoreConfig::job_limits`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobLimits {
    /// The shortest time between two slots.
    pub interval_min: Duration,
    /// The most runs that may be remembered.
    pub history_max: HistoryLimits,
}

impl JobLimits {
    /// Each slot is two or more writes to the API server's etcd. A ledger may have 200 KiB: a run that succeeded takes
    /// up to 500 bytes of that, and one that failed ten times some 4,000.
    const IN_LEASES: Self =
        Self { interval_min: Duration::from_secs(10), history_max: HistoryLimits { succeeded: 100, failed: 35 } };
}

pub(super) const REDIS_KEY: Key<Group> = key("redis", Group(&REDIS), "One Redis (or Valkey), 6.2 or newer.");
pub(super) const QUORUM_KEY: Key<Group> =
    key("quorum", Group(&QUORUM), "Several independent Redis masters, of which a majority is the store.");
pub(super) const KUBERNETES: Key<Group> =
    key("kubernetes", Group(&LEASE_OBJECTS), "Lease objects of the Kubernetes API server: no Redis needed.");
const MEMORY: Key<Group> = key(
    "memory",
    Group(&NOTHING),
    "Inside this process: for trying Baton out, and for tests. Replicas do not see each other.",
);
pub(super) const STORE: Key<Group> = required("store", Group(&STORES), "Where leases are kept: exactly one store.");

const NOTHING: Section = Section::new("Memory", "Inside this process; nothing to set.", &[]).with(Rule::MayBeEmpty);
const STORES: Section = Section::new(
    "Store",
    "Where leases are kept: exactly one store.",
    &[&REDIS_KEY, &QUORUM_KEY, &KUBERNETES, &MEMORY],
)
.with(Rule::ExactlyOne);

/// Exactly one store. `period`: the shortest within which a role renews.
pub(super) fn read(top: &Reader<'_>, period: Option<Duration>) -> Option<StoreConfig> {
    let s = top.given(&STORE)?;
    let keys: [&AnyKey; 4] = [&REDIS_KEY, &QUORUM_KEY, &KUBERNETES, &MEMORY];
    let names: Vec<&str> = keys.into_iter().filter(|key| s.has(key)).map(|key| key.name).collect();
    if names.len() > 1 {
        let count = if names.len() == 2 { "two" } else { "several" };
        s.problem(format!("has {count} stores, {}; keep exactly one", names.join(" and ")));
        return None;
    }
    if let Some(redis) = s.given(&REDIS_KEY) {
        redis::read(&redis, Kept::Leases, period).map(|redis| StoreConfig::Redis(Box::new(redis)))
    } else if let Some(quorum) = s.given(&QUORUM_KEY) {
        quorum::read(&quorum, period).map(|quorum| StoreConfig::Quorum(Box::new(quorum)))
    } else if let Some(leases) = s.given(&KUBERNETES) {
        Some(StoreConfig::Kubernetes(lease_objects::read(&leases, period)))
    } else if let Some(memory) = s.given(&MEMORY) {
        memory.warning("the memory store is inside this process: other replicas do not see it, and each would lead");
        Some(StoreConfig::Memory)
    } else {
        if s.is_sound() {
            s.problem("names no store; write exactly one, such as `redis: { url: redis://redis:6379/0 }`");
        }
        None
    }
}

const OWN_REDIS: Key<Group> = required(
    "redis",
    Group(&REDIS),
    "One Redis (or Valkey), as in `store.redis`; the same one under the same `keyPrefix` will do, too.",
);
pub(super) const JOBS_STORE: Key<Group> =
    key("jobsStore", Group(&OWN_STORE), "Where the ledgers of jobs are, if not in `store`.");

pub(super) const OWN_STORE: Section =
    Section::new("OwnStore", "A store for locks, or for the ledgers of jobs, alone.", &[&OWN_REDIS]);

/// A store for something alone. `renewed_every`: how often a lock is renewed, for a store of locks.
pub(super) fn read_own(s: &Reader<'_>, kept: Kept, renewed_every: Option<Duration>) -> Option<StoreConfig> {
    let place = s.given(&OWN_REDIS)?;
    let redis = redis::read(&place, kept, renewed_every);
    let timeout = place.given(&redis::COMMAND_TIMEOUT).zip(renewed_every);
    if let Some((timeout, renewed_every)) = timeout.filter(|(timeout, period)| timeout >= period) {
        place.at(&redis::COMMAND_TIMEOUT).problem(format!(
            "is {timeout:?}; it must be less than a third of locks.lease, {renewed_every:?}, after which a lock is \
             renewed"
        ));
    }
    Some(StoreConfig::Redis(Box::new(redis?)))
}
