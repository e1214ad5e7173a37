//! The configuration file: read, checked, watched.
//!
//! ```text
//! file ──tree──▶ Node ──section: environment, keys──▶ roles, redis, locks, … ──agree──▶ Config
//!   └─────tree: lines and columns for every problem ───────────┘
//! ```
//!
//! * One section of the file is one module: its type, its keys (with bounds, defaults and what editors are told), and
//!   what is judged within it. What one section asks of another is in `agree`.
//! * [`load`](Config::load) reads a file, [`check_text`] a text. Both return a [`Loaded`], or a [`ConfigError`] with
//!   every problem at once.
//! * A [`Config`] can only come from there, so the rest of the program never meets an impossible one.
//! * [`Watcher`] tells when the file, or a secret it names, has changed; [`Config::restart_needed`] and
//!   [`Config::live_changes`] tell what a change means.
//! * [`schema()`] is the JSON Schema for editors, printed from the same keys.

mod agree;
mod auth;
mod dapr_jobs;
mod environment;
mod jobs;
mod lease_objects;
mod listeners;
mod load;
mod locks;
mod pod;
mod problem;
mod quorum;
mod redis;
mod redis_url;
mod reload;
mod roles;
mod runs;
mod runtime_jobs;
#[cfg(test)]
mod schema_tests;
mod secret;
mod section;
mod store;
mod tree;
mod value;
mod watch;

use std::sync::Arc;
use std::time::Duration;

pub use agree::mirror_name;
pub use auth::{AuthConfig, AwsIamConfig, AwsService, EntraConfig, TokenCommand};
pub use dapr_jobs::DaprJobsConfig;
pub use environment::{AbsentFiles, Environment};
pub use jobs::JobConfig;
pub use lease_objects::KubernetesConfig;
pub use listeners::{ApiConfig, LogConfig, LogFormat, LogLevel, TelemetryConfig};
pub use load::{Loaded, check_text, schema};
pub use locks::{LOCK_LEASE_MIN, LocksConfig};
pub use pod::{DOMAIN, ExtrasConfig, PodConfig, dotted, is_object_name, role_label};
pub use problem::{ConfigError, ConfigProblem};
pub use quorum::{QuorumConfig, Required};
pub use redis::{AckMode, Durability, RedisConfig, Replication, TlsConfig};
pub use redis_url::server_of;
pub use reload::{Differences, LiveChanges};
pub use roles::{AppCheck, RoleConfig};
pub use runs::{ExecRun, HttpRun, RunConfig};
pub use runtime_jobs::{
    RUNTIME_ATTEMPTS_MAX, RUNTIME_DATA_BYTES_MAX, RUNTIME_JOB_BYTES_MAX, RuntimeJob, runtime_job, stored_runtime_job,
};
pub use secret::Secret;
pub use store::{JobLimits, StoreConfig};
pub use watch::{Changes, Reload, Watcher};

use crate::base::duration;
use crate::protocol::RoleName;
use value::Words;

/// What keys and objects begin with where nothing else is said.
const PREFIX: &str = "baton";

/// Everything `baton run` needs.
#[derive(Clone, Debug)]
pub struct Config {
    /// This replica's name for people. Never decides anything.
    pub(crate) identity: Arc<str>,
    /// The app's side.
    pub(crate) api: ApiConfig,
    /// The kubelet's and Prometheus's side.
    pub(crate) telemetry: TelemetryConfig,
    pub(crate) store: StoreConfig,
    /// The roles to campaign for; names are unique. One that is split is not among them, but each of its shards is
    /// (`scheduler/0`, `scheduler/1`, …), all with the same timings and check.
    pub(crate) roles: Vec<RoleConfig>,
    /// What `/leader` means when there are several roles; one of `roles`.
    pub(crate) default_role: Option<RoleName>,
    /// What is written to the API server for people and Services.
    pub(crate) kubernetes: ExtrasConfig,
    /// Locks for the app, where the store has them ([`StoreConfig::without_locks`]).
    pub(crate) locks: LocksConfig,
    /// Scheduled runs, where the store has a ledger for them ([`StoreConfig::without_jobs`]); names are unique.
    pub(crate) jobs: Vec<JobConfig>,
    /// How many attempts of them go on at once on this replica; none: however many.
    pub(crate) max_concurrent_runs: Option<usize>,
    /// Where their ledgers are, if not in `store`.
    pub(crate) jobs_store: Option<StoreConfig>,
    /// Dapr's Jobs API; none: it is not answered.
    pub(crate) jobs_dapr: Option<DaprJobsConfig>,
    /// How to log.
    pub(crate) log: LogConfig,
}

impl Config {
    /// This replica's name for people. Never decides anything.
    pub fn identity(&self) -> &Arc<str> {
        &self.identity
    }

    pub fn api(&self) -> &ApiConfig {
        &self.api
    }

    pub fn telemetry(&self) -> TelemetryConfig {
        self.telemetry
    }

    pub fn store(&self) -> &StoreConfig {
        &self.store
    }

    /// Those to campaign for, with the shards of one that is split in its place.
    pub fn roles(&self) -> &[RoleConfig] {
        &self.roles
    }

    pub fn default_role(&self) -> Option<&RoleName> {
        self.default_role.as_ref()
    }

    pub fn kubernetes(&self) -> &ExtrasConfig {
        &self.kubernetes
    }

    pub fn locks(&self) -> &LocksConfig {
        &self.locks
    }

    pub fn jobs(&self) -> &[JobConfig] {
        &self.jobs
    }

    /// Dapr's Jobs API; none: it is not answered.
    pub fn jobs_dapr(&self) -> Option<&DaprJobsConfig> {
        self.jobs_dapr.as_ref()
    }

    /// How many attempts of jobs go on at once on this replica; none: however many.
    pub fn max_concurrent_runs(&self) -> Option<usize> {
        self.max_concurrent_runs
    }

    pub fn log(&self) -> LogConfig {
        self.log
    }

    /// The same of one role alone, without its health check, for who has a command to run and no app to ask; and the
    /// role as it was.
    ///
    /// # Errors
    /// When there is no such role: what there is.
    pub fn of_role(mut self, name: &RoleName) -> Result<(Self, RoleConfig), String> {
        let Some(role) = self.roles.iter().find(|role| role.name == *name).cloned() else {
            let known: Vec<&str> = self.roles.iter().map(|role| role.name.as_str()).collect();
            return Err(format!("there is no role {name} in it; there is {}", known.join(", ")));
        };
        self.roles = vec![RoleConfig { app_check: None, ..role.clone() }];
        self.default_role = None;
        Ok((self, role))
    }

    /// The store that these have for themselves; none where they are in the one of the leases.
    pub fn own_store(&self, of: StoreUse) -> Option<&StoreConfig> {
        match of {
            StoreUse::Leases => None,
            StoreUse::Locks => self.locks.store.as_ref(),
            StoreUse::Jobs => self.jobs_store.as_ref(),
        }
    }

    /// Every store: that of the leases, then those that others have for themselves.
    pub fn stores(&self) -> impl Iterator<Item = (StoreUse, &StoreConfig)> {
        let own = [StoreUse::Locks, StoreUse::Jobs].into_iter().filter_map(|of| Some((of, self.own_store(of)?)));
        std::iter::once((StoreUse::Leases, &self.store)).chain(own)
    }

    /// The store that these are in.
    pub fn store_of(&self, of: StoreUse) -> &StoreConfig {
        self.own_store(of).unwrap_or(&self.store)
    }
}

/// What a store keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreUse {
    /// The leases of roles: `store:`, which may keep the others, too.
    Leases,
    /// Locks: `locks.store:`.
    Locks,
    /// Ledgers of jobs: `jobsStore:`.
    Jobs,
}

impl StoreUse {
    /// The word in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Leases => "leases",
            Self::Locks => "locks",
            Self::Jobs => "jobs",
        }
    }

    /// Where the configuration names its Redis.
    pub const fn redis_key(self) -> &'static str {
        match self {
            Self::Leases => "store.redis",
            Self::Locks => "locks.store.redis",
            Self::Jobs => "jobsStore.redis",
        }
    }
}

/// `guard:` of a store (R5)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// `strict`
    Strict,
    /// `heard`: all of R5 but *generation*. The server is not asked which it is, so that only who has heard of a lease,
    /// and a record that is new, keep others out after it was forgotten.
    Heard,
    /// `off`: available sooner after a restart of the store, at the price of two leaders at once.
    Off,
}

impl Guard {
    const WORDS: Words<Self> =
        Words::with_off(&[("strict", Self::Strict), ("heard", Self::Heard), ("off", Self::Off)], Self::Off);
    /// Where nobody asks a server which it is, or each must tell.
    const WORDS_WITHOUT_HEARD: Words<Self> =
        Words::with_off(&[("strict", Self::Strict), ("off", Self::Off)], Self::Off);
}

/// Reads a duration as the file writes it: `500ms`, `15s`, `1.5s`, `1h30m`. For flags that mean the same.
///
/// # Errors
/// What is wrong with the text, and what would be right.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    duration::parse(text).map_err(|error| format!("{text:?} {error}"))
}
