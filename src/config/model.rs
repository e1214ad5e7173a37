//! The validated configuration: types that can only be built by the checks in this module's siblings, so that the
//! rest of the program never meets an impossible value.

use std::fmt;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};

use super::extras::ExtrasConfig;
use crate::protocol::jobs::{HistoryLimits, JobName, JobPolicy};
use crate::protocol::{RoleName, Seat, Seats, Timing};
use crate::schedule::Schedule;

/// Everything `baton run` needs.
#[derive(Clone, Debug)]
pub struct Config {
    /// This replica's name for people. Never decides anything.
    pub identity: Arc<str>,
    /// The app's side.
    pub api: ApiConfig,
    /// The kubelet's and Prometheus's side.
    pub telemetry: TelemetryConfig,
    /// Where leases are kept.
    pub store: StoreConfig,
    /// The roles to campaign for; names are unique. One that is split is not among them, but each of its shards is
    /// (`scheduler/0`, `scheduler/1`, …), all with the same timings and check.
    pub roles: Vec<RoleConfig>,
    /// What `/leader` means when there are several roles; one of `roles`.
    pub default_role: Option<RoleName>,
    /// What is written to the API server for people and Services.
    pub kubernetes: ExtrasConfig,
    /// Locks for the app, where the store has them ([`StoreConfig::without_locks`]).
    pub locks: LocksConfig,
    /// Scheduled runs, where the store has a ledger for them ([`StoreConfig::without_jobs`]); names are unique.
    pub jobs: Vec<JobConfig>,
    /// Where their ledgers are, if not in `store`.
    pub jobs_store: Option<StoreConfig>,
    /// How to log.
    pub log: LogConfig,
}

impl Config {
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
    /// Where the configuration names its Redis.
    pub const fn redis_key(self) -> &'static str {
        match self {
            Self::Leases => "store.redis",
            Self::Locks => "locks.store.redis",
            Self::Jobs => "jobsStore.redis",
        }
    }
}

/// `api:`
#[derive(Clone, Debug)]
pub struct ApiConfig {
    /// Where to listen. Loopback, unless there is a token.
    pub listen: SocketAddr,
    /// The bearer token that every request must carry.
    pub token: Option<Secret>,
}

/// `telemetry:`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TelemetryConfig {
    /// Where to listen.
    pub listen: SocketAddr,
}

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

/// What keys and objects begin with where nothing else is said.
pub(super) const PREFIX: &str = "baton";

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

    /// What it asks of jobs that others do not; none when it takes all.
    pub fn job_limits(&self) -> Option<JobLimits> {
        match self {
            Self::Redis(_) | Self::Quorum(_) | Self::Memory => None,
            Self::Kubernetes(_) => Some(JobLimits::IN_LEASES),
        }
    }

    /// Why a role cannot be split over shards with this store; none when it can.
    pub fn without_shards(&self) -> Option<&'static str> {
        match self {
            Self::Redis(_) | Self::Memory => None,
            Self::Quorum(_) => Some(
                "to spread them, replicas must know of each other, and independent masters do not keep one list of \
                 them: use store.redis, or several roles",
            ),
            Self::Kubernetes(_) => Some(
                "to spread them, replicas must tell each other several times per lease that they are there, which \
                 would be as many writes to the etcd of the API server: use store.redis, or several roles",
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

/// `locks:`
#[derive(Clone, Debug, PartialEq)]
pub struct LocksConfig {
    /// Where they are, if not in the store of the leases.
    pub store: Option<StoreConfig>,
    /// How long a lock lasts whose request names no lease.
    pub lease: Duration,
    /// The longest lease that a request may name.
    pub max_lease: Duration,
    /// For how long nobody new is granted after the store may have forgotten locks (R5).
    pub guard: Duration,
    /// How many requests may wait, and connections hold, at once.
    pub max_waiters: u32,
    /// The lock stores that Dapr's lock API is answered for; none: it is not answered.
    pub dapr_stores: Vec<String>,
}

/// `store.kubernetes:`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubernetesConfig {
    /// Where the Lease objects are; the pod's own when absent.
    pub namespace: Option<String>,
    /// What their names begin with: `<namePrefix>-<role>`.
    pub name_prefix: String,
    /// When a request counts as unanswered.
    pub command_timeout: Duration,
    /// Whether an object that is absent is watched for a lease before another is made.
    pub guard: Guard,
}

/// `store.redis:`
#[derive(Clone, Debug)]
pub struct RedisConfig {
    /// The URL as given, which may hold a password: it is a secret.
    pub url: SecretString,
    /// The user, unless the URL names one.
    pub username: Option<Secret>,
    /// The password, unless the URL has one.
    pub password: Option<Secret>,
    /// Certificates for `rediss:`.
    pub tls: TlsConfig,
    /// What every key and channel begins with.
    pub key_prefix: String,
    /// When a command counts as unanswered.
    pub command_timeout: Duration,
    /// How many replicas must acknowledge (R6).
    pub replication: Replication,
    /// Whether R5 holds.
    pub guard: Guard,
}

/// Two are the same when they are given in the same way: a reload asks.
impl PartialEq for RedisConfig {
    fn eq(&self, other: &Self) -> bool {
        // Taken apart, so that a new key cannot be forgotten here.
        let Self { url, username, password, tls, key_prefix, command_timeout, replication, guard } = self;
        url.expose_secret() == other.url.expose_secret()
            && *username == other.username
            && *password == other.password
            && *tls == other.tls
            && *key_prefix == other.key_prefix
            && *command_timeout == other.command_timeout
            && *replication == other.replication
            && *guard == other.guard
    }
}

/// `store.quorum:`
#[derive(Clone, Debug, PartialEq)]
pub struct QuorumConfig {
    /// The members: single servers, none twice. What they have in common (TLS, prefix, timeout, guard) is the same in
    /// each, and none waits for replicas.
    pub members: Vec<RedisConfig>,
    /// How each of them stands in the list.
    pub seats: Vec<Seat>,
    /// Host, port and database of each.
    pub names: Vec<String>,
    /// How many of them it takes.
    pub required: Required,
}

impl QuorumConfig {
    /// The members as votes.
    pub fn seats(&self) -> Seats {
        let seats: Vec<Option<Seat>> = self.seats.iter().copied().map(Some).collect();
        Seats::of(&seats, self.required == Required::All)
    }

    /// The list of the members in words, whatever their order; while it is being changed, the one before and the one
    /// after, with `|` between them. By this replicas tell whether they mean the same.
    pub fn lists(&self) -> String {
        let list = |without: Seat| {
            let named = self.names.iter().zip(&self.seats).filter(|(_, seat)| **seat != without);
            let mut names: Vec<&str> = named.map(|(name, _)| name.as_str()).collect();
            names.sort_unstable();
            names.join(", ")
        };
        let (before, after) = (list(Seat::Joins), list(Seat::Leaves));
        if before == after { before } else { format!("{before}|{after}") }
    }

    /// When a member's answer is no longer waited for.
    pub fn command_timeout(&self) -> Duration {
        self.members.first().map_or(Duration::ZERO, |member| member.command_timeout)
    }

    /// Whether R5 holds.
    pub fn guard(&self) -> Guard {
        self.members.first().map_or(Guard::Strict, |member| member.guard)
    }
}

/// `store.quorum.required:`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Required {
    /// `majority`
    Majority,
    /// `all`: one member down, and nobody leads.
    All,
}

/// `store.redis.tls:`. Paths of PEM files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsConfig {
    /// Certificate authorities to trust instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// The client's certificate and its key: both or none.
    pub client: Option<(PathBuf, PathBuf)>,
}

/// `store.redis.replication:` (R6)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replication {
    /// How many replicas; zero asks for none.
    pub acks: u32,
    /// WAIT (in memory) or WAITAOF (on disk).
    pub mode: AckMode,
    /// How long to wait for them; less than the command timeout.
    pub timeout: Duration,
}

/// `store.redis.replication.mode:`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckMode {
    /// `wait`
    Wait,
    /// `waitaof`
    WaitAof,
}

/// `store.redis.guard:` (R5)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// `strict`
    Strict,
    /// `off`: available sooner after a restart of Redis, at the price of two leaders at once.
    Off,
}

/// One of `roles:`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleConfig {
    /// Its name.
    pub name: RoleName,
    /// Its timings.
    pub timing: Timing,
    /// The app's health check that gates campaign and renewal.
    pub app_check: Option<AppCheck>,
}

/// `roles[].appCheck:`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppCheck {
    /// `httpGet.host`, 127.0.0.1 when absent; the app is in the same pod.
    pub host: String,
    /// `httpGet.port`
    pub port: u16,
    /// `httpGet.path`, beginning with a slash.
    pub path: String,
    /// How often.
    pub period: Duration,
    /// When one check counts as failed; at most the period.
    pub timeout: Duration,
    /// How many failures in a row make the app unhealthy; one success makes it healthy again.
    pub failure_threshold: u32,
}

/// One of `jobs:`
#[derive(Clone, Debug, PartialEq)]
pub struct JobConfig {
    /// Its name.
    pub name: JobName,
    /// Whose leader starts it; one of `roles`.
    pub role: RoleName,
    /// When it is due.
    pub schedule: Arc<Schedule>,
    /// How its runs are started, repeated and remembered.
    pub policy: JobPolicy,
    /// What a run is.
    pub run: RunConfig,
}

/// `jobs[].run:`, exactly one.
#[derive(Clone, Debug, PartialEq)]
pub enum RunConfig {
    /// A request to the app.
    Http(HttpRun),
    /// A program beside the sidecar.
    Exec(ExecRun),
}

/// `jobs[].run.http:`. Its `Debug` shows neither the query of the URL nor the body, which may hold secrets.
#[derive(Clone, PartialEq)]
pub struct HttpRun {
    /// In capitals.
    pub method: String,
    /// `http:` or `https:`, without user or password.
    pub url: url::Url,
    /// Besides those that every callback has. Values may be secrets.
    pub headers: Vec<(String, Secret)>,
    /// A text in which `{{run}}`, `{{job}}`, `{{scheduledTime}}`, `{{attempt}}` and `{{token}}` stand for their
    /// values; none: no body.
    pub body: Option<String>,
    /// When a request counts as failed that has no answer.
    pub timeout: Duration,
    /// Which status numbers mean success, besides 202.
    pub success: Vec<RangeInclusive<u16>>,
    /// After a 202: how long the app may be silent before the attempt has failed.
    pub heartbeat_timeout: Duration,
}

impl fmt::Debug for HttpRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpRun")
            .field("method", &self.method)
            .field("url", &format_args!("{}{}", self.url.origin().ascii_serialization(), self.url.path()))
            .field("headers", &self.headers)
            .field("timeout", &self.timeout)
            .field("success", &self.success)
            .field("heartbeat_timeout", &self.heartbeat_timeout)
            .finish_non_exhaustive()
    }
}

/// `jobs[].run.exec:`. Its `Debug` shows no variable's value, which may be a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct ExecRun {
    /// The program and its arguments; not empty.
    pub command: Vec<String>,
    /// Variables besides the sidecar's own and those of the run.
    pub env: Vec<(String, String)>,
    /// How long it has between TERM and KILL.
    pub grace: Duration,
    /// How much of its output is logged, in bytes.
    pub output_max: u64,
}

impl fmt::Debug for ExecRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.env.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("ExecRun")
            .field("command", &self.command.first())
            .field("env", &names)
            .field("grace", &self.grace)
            .field("output_max", &self.output_max)
            .finish_non_exhaustive()
    }
}

/// `log:`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// The least important level that is logged.
    pub level: LogLevel,
    /// How a line looks.
    pub format: LogFormat,
}

/// `log.level:`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

/// `log.format:`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    Json,
    Text,
}

/// A secret and where it comes from. Its `Debug` shows the place, never the secret.
#[derive(Clone)]
pub enum Secret {
    /// Given by value: from the environment, or written into the file.
    Value(SecretString),
    /// In a file, read anew whenever it is needed, so that a rotated secret is used at the next connection.
    File(PathBuf),
}

impl Secret {
    /// The secret now, without the line break that editors and `echo` add.
    ///
    /// # Errors
    /// The file's path and why it cannot be read.
    pub fn read(&self) -> std::io::Result<SecretString> {
        match self {
            Self::Value(secret) => Ok(secret.clone()),
            Self::File(path) => match std::fs::read_to_string(path) {
                Ok(text) => Ok(SecretString::from(text.trim_end_matches(['\r', '\n']).to_owned())),
                Err(error) => Err(std::io::Error::new(error.kind(), format!("{}: {error}", path.display()))),
            },
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(_) => f.write_str("Secret(given)"),
            Self::File(path) => write!(f, "Secret({})", path.display()),
        }
    }
}

/// Two secrets of the configuration are the same when they come from the same place with the same text; a reload asks.
impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Value(a), Self::Value(b)) => a.expose_secret() == b.expose_secret(),
            (Self::File(a), Self::File(b)) => a == b,
            _ => false,
        }
    }
}
