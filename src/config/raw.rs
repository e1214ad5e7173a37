//! The file's shape, before any value is checked. `baton schema` and the structure check are both made from these
//! types, so that what editors accept and what Baton accepts cannot drift apart. Their doc comments are the schema's
//! descriptions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::raw_jobs::RawJob;
use super::schema as leaf;

/// A single value as it was written; what it means is for the check of its field. No `Debug`: it may be a secret.
#[derive(Clone, Serialize, Deserialize)]
pub(super) enum Scalar {
    Bool(bool),
    Number(String),
    Text(String),
}

/// The configuration of Baton.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Config", title = "Baton configuration", extend("required" = ["store", "roles"]))]
pub(super) struct RawConfig {
    /// This replica's name for people. Default: the variable POD_NAME, else the hostname.
    #[schemars(with = "Option<leaf::Text>")]
    pub(super) identity: Option<Scalar>,
    /// The app's side: who leads, resign, drained.
    pub(super) api: Option<RawApi>,
    /// The kubelet's and Prometheus's side: metrics and probes. Read-only.
    pub(super) telemetry: Option<RawTelemetry>,
    /// Where leases are kept: exactly one store.
    pub(super) store: Option<RawStore>,
    /// The roles to campaign for; at least one. Names are unique.
    #[schemars(with = "Option<Vec<RawRole>>", extend("minItems" = 1, "maxItems" = 1000))]
    pub(super) roles: Option<Vec<Option<RawRole>>>,
    /// What `/leader` without a name means when there are several roles.
    #[schemars(with = "Option<leaf::Role>")]
    pub(super) default_role: Option<Scalar>,
    /// What the API server is told about who leads: for people and Services, never for the election itself.
    pub(super) kubernetes: Option<RawKubernetes>,
    /// Locks for the app. They are there without this, too, wherever the store has them.
    pub(super) locks: Option<RawLocks>,
    /// Scheduled runs, each started once across the replicas, by the leader of a role.
    #[schemars(with = "Option<Vec<RawJob>>", extend("maxItems" = 10000))]
    pub(super) jobs: Option<Vec<Option<RawJob>>>,
    /// Where the ledgers of jobs are, if not in `store`.
    pub(super) jobs_store: Option<RawOwnStore>,
    /// How to log.
    pub(super) log: Option<RawLog>,
}

/// The app's side.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Api")]
pub(super) struct RawApi {
    /// IP address and port to listen on. An address that is not loopback needs `tokenFile`.
    #[schemars(with = "Option<leaf::Listen>", extend("default" = "127.0.0.1:4040"))]
    pub(super) listen: Option<Scalar>,
    /// A file with the bearer token that every request must carry.
    #[schemars(with = "Option<leaf::File>")]
    pub(super) token_file: Option<Scalar>,
}

/// The kubelet's and Prometheus's side.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Telemetry")]
pub(super) struct RawTelemetry {
    /// IP address and port to listen on.
    #[schemars(with = "Option<leaf::Listen>", extend("default" = "0.0.0.0:4041"))]
    pub(super) listen: Option<Scalar>,
}

/// Where leases are kept: exactly one store.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Store", extend("minProperties" = 1, "maxProperties" = 1))]
pub(super) struct RawStore {
    /// One Redis (or Valkey), 6.2 or newer.
    pub(super) redis: Option<RawRedis>,
    /// Several independent Redis masters, of which a majority is the store.
    pub(super) quorum: Option<RawQuorum>,
    /// Lease objects of the Kubernetes API server: no Redis needed.
    pub(super) kubernetes: Option<RawLeases>,
    /// Inside this process: for trying Baton out, and for tests. Replicas do not see each other.
    pub(super) memory: Option<RawMemory>,
}

/// Lease objects of the Kubernetes API server; everything has a default.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Leases")]
pub(super) struct RawLeases {
    /// The namespace of the Lease objects: a DNS label. Default: the pod's own.
    #[schemars(with = "Option<leaf::Role>")]
    pub(super) namespace: Option<Scalar>,
    /// What their names begin with, before `-<role>`: a DNS label.
    #[schemars(with = "Option<leaf::Role>", extend("default" = "baton"))]
    pub(super) name_prefix: Option<Scalar>,
    /// When a request counts as unanswered. Less than every role's renewPeriod. Default: 5s, or half the shortest
    /// renewPeriod when that is 5s or less.
    #[schemars(with = "Option<leaf::Span>")]
    pub(super) command_timeout: Option<Scalar>,
    /// What happens when a Lease object is absent that may have been deleted under its leader: `strict` watches for
    /// one lease before another is made, `off` does not.
    #[schemars(with = "Option<leaf::GuardWord>", extend("default" = "strict"))]
    pub(super) guard: Option<Scalar>,
}

/// Inside this process; nothing to set.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Memory")]
pub(super) struct RawMemory {}

/// One Redis.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Redis", extend("required" = ["url"]))]
pub(super) struct RawRedis {
    /// Where it is: `redis://host:6379/0`, or rediss (TLS), redis-sentinel, redis-cluster. May hold a password, so it
    /// is treated as a secret.
    #[schemars(with = "Option<leaf::Url>")]
    pub(super) url: Option<Scalar>,
    /// The user, when the URL names none. Excludes `usernameFile`.
    #[schemars(with = "Option<leaf::Text>")]
    pub(super) username: Option<Scalar>,
    /// A file with the user's name.
    #[schemars(with = "Option<leaf::File>")]
    pub(super) username_file: Option<Scalar>,
    /// The password, when the URL has none; better from `${ENV}` than written here. Excludes `passwordFile`.
    #[schemars(with = "Option<leaf::Text>")]
    pub(super) password: Option<Scalar>,
    /// A file with the password, read again at every connection.
    #[schemars(with = "Option<leaf::File>")]
    pub(super) password_file: Option<Scalar>,
    /// Certificates for `rediss:`.
    pub(super) tls: Option<RawTls>,
    /// What every key and channel begins with.
    #[schemars(with = "Option<leaf::KeyPrefix>", extend("default" = "baton"))]
    pub(super) key_prefix: Option<Scalar>,
    /// When a command counts as unanswered. In `store` less than every role's renewPeriod. Default: 1s, or half the
    /// shortest renewPeriod when that is 1s or less. In `locks.store` likewise with a third of `locks.lease`. In
    /// `jobsStore` any; default: 1s.
    #[schemars(with = "Option<leaf::Span>")]
    pub(super) command_timeout: Option<Scalar>,
    /// How many replicas must acknowledge a grant or renewal.
    pub(super) replication: Option<RawReplication>,
    /// What happens when Redis may have forgotten a lease: `strict` grants nobody new for one lease (locks: for
    /// `locks.guard`), `off` does.
    #[schemars(with = "Option<leaf::GuardWord>", extend("default" = "strict"))]
    pub(super) guard: Option<Scalar>,
}

/// A store for locks, or for the ledgers of jobs, alone.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "OwnStore", extend("required" = ["redis"]))]
pub(super) struct RawOwnStore {
    /// One Redis (or Valkey), as in `store.redis`; the same one under the same `keyPrefix` will do, too.
    pub(super) redis: Option<RawRedis>,
}

/// Several independent masters: no replicas, no Sentinels, no cluster.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Quorum", extend("required" = ["members"]))]
pub(super) struct RawQuorum {
    /// The members: an odd number of Redis servers, 3 to 9, on machines that do not fail together.
    #[schemars(with = "Option<Vec<RawMember>>", extend("minItems" = 3, "maxItems" = 18))]
    pub(super) members: Option<Vec<Option<RawMember>>>,
    /// Certificates for `rediss:`, the same for every member.
    pub(super) tls: Option<RawTls>,
    /// What every key and channel begins with.
    #[schemars(with = "Option<leaf::KeyPrefix>", extend("default" = "baton"))]
    pub(super) key_prefix: Option<Scalar>,
    /// When a member's answer is no longer waited for; twice this is less than every role's renewPeriod. Default:
    /// 500ms, or a quarter of the shortest renewPeriod when that is less.
    #[schemars(with = "Option<leaf::Span>")]
    pub(super) command_timeout: Option<Scalar>,
    /// How many members must agree: `majority`, or `all`.
    #[schemars(with = "Option<leaf::RequiredWord>", extend("default" = "majority"))]
    pub(super) required: Option<Scalar>,
    /// What a member does that may have forgotten a lease: `strict` grants nobody new for one lease, `off` does.
    #[schemars(with = "Option<leaf::GuardWord>", extend("default" = "strict"))]
    pub(super) guard: Option<Scalar>,
}

/// One member of a quorum.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Member", extend("required" = ["url"]))]
pub(super) struct RawMember {
    /// True while the list is being changed, for a member of the list after the change.
    #[schemars(with = "Option<bool>")]
    pub(super) joining: Option<Scalar>,
    /// True while the list is being changed, for a member of the list before the change.
    #[schemars(with = "Option<bool>")]
    pub(super) leaving: Option<Scalar>,
    /// Where it is: `redis://host:6379/0` or `rediss:` (TLS). May hold a password, so it is treated as a secret.
    #[schemars(with = "Option<leaf::Url>")]
    pub(super) url: Option<Scalar>,
    /// The user, when the URL names none. Excludes `usernameFile`.
    #[schemars(with = "Option<leaf::Text>")]
    pub(super) username: Option<Scalar>,
    /// A file with the user's name.
    #[schemars(with = "Option<leaf::File>")]
    pub(super) username_file: Option<Scalar>,
    /// The password, when the URL has none; better from `${ENV}` than written here. Excludes `passwordFile`.
    #[schemars(with = "Option<leaf::Text>")]
    pub(super) password: Option<Scalar>,
    /// A file with the password, read again at every connection.
    #[schemars(with = "Option<leaf::File>")]
    pub(super) password_file: Option<Scalar>,
}

/// PEM files for `rediss:`.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(
    rename = "Tls",
    extend("dependentRequired" = {"certFile": ["keyFile"], "keyFile": ["certFile"]})
)]
pub(super) struct RawTls {
    /// The certificate authorities to trust instead of the system's.
    #[schemars(with = "Option<leaf::File>")]
    pub(super) ca_file: Option<Scalar>,
    /// The client's certificate; needs `keyFile`.
    #[schemars(with = "Option<leaf::File>")]
    pub(super) cert_file: Option<Scalar>,
    /// The client's key; needs `certFile`.
    #[schemars(with = "Option<leaf::File>")]
    pub(super) key_file: Option<Scalar>,
}

/// Acknowledgement by Redis's own replicas.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Replication")]
pub(super) struct RawReplication {
    /// How many replicas must have a grant or renewal before it counts; 0 asks for none.
    #[schemars(with = "Option<leaf::Count<0, 16>>", extend("default" = 0))]
    pub(super) acks: Option<Scalar>,
    /// `wait`: replicas have it in memory; `waitaof`: on disk (Redis 7.2).
    #[schemars(with = "Option<leaf::AckWord>", extend("default" = "wait"))]
    pub(super) mode: Option<Scalar>,
    /// How long to wait for them. Less than commandTimeout. Default: 500ms, or half of commandTimeout when that is
    /// less.
    #[schemars(with = "Option<leaf::Span>")]
    pub(super) timeout: Option<Scalar>,
}

/// One role.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Role", extend("required" = ["name"]))]
pub(super) struct RawRole {
    /// Its name: a DNS label.
    #[schemars(with = "Option<leaf::Role>")]
    pub(super) name: Option<Scalar>,
    /// How long the store keeps a lease that is not renewed: 100ms to 24h, and more than 2 x renewPeriod +
    /// stepDownMargin.
    #[schemars(with = "Option<leaf::Span>", extend("default" = "15s"))]
    pub(super) lease_duration: Option<Scalar>,
    /// How often the leader renews. Default: leaseDuration / 3.
    #[schemars(with = "Option<leaf::Span>")]
    pub(super) renew_period: Option<Scalar>,
    /// How long before the lease's end the leader steps down; at least 2 % of it. Default: leaseDuration / 15.
    #[schemars(with = "Option<leaf::Span>")]
    pub(super) step_down_margin: Option<Scalar>,
    /// The longest promise that one answer makes. At most leaseDuration - stepDownMargin. Default: renewPeriod, at
    /// most 5s.
    #[schemars(with = "Option<leaf::Span>")]
    pub(super) answer_validity: Option<Scalar>,
    /// Split over so many shards, each with a leader of its own, spread evenly over the replicas; up to 256.
    #[schemars(with = "Option<leaf::Count<1, 256>>", extend("default" = 1))]
    pub(super) shards: Option<Scalar>,
    /// The app's health check: an app that hangs loses the role.
    pub(super) app_check: Option<RawAppCheck>,
}

/// A check of the app over HTTP; any status from 200 to 399 is well.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "AppCheck", extend("required" = ["httpGet"]))]
pub(super) struct RawAppCheck {
    /// What to ask.
    pub(super) http_get: Option<RawHttpGet>,
    /// How often; up to 1h.
    #[schemars(with = "Option<leaf::Span>", extend("default" = "2s"))]
    pub(super) period: Option<Scalar>,
    /// When one check counts as failed; at most the period. Default: 1s, or the period when that is less.
    #[schemars(with = "Option<leaf::Span>")]
    pub(super) timeout: Option<Scalar>,
    /// How many failures in a row make the app unhealthy; one success makes it healthy again.
    #[schemars(with = "Option<leaf::Count<1, 1000>>", extend("default" = 3))]
    pub(super) failure_threshold: Option<Scalar>,
}

/// A GET request over plain HTTP.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "HttpGet", extend("required" = ["port"]))]
pub(super) struct RawHttpGet {
    /// The host; the app is in the same pod, so rarely anything else.
    #[schemars(with = "Option<leaf::Text>", extend("default" = "127.0.0.1"))]
    pub(super) host: Option<Scalar>,
    /// The port.
    #[schemars(with = "Option<leaf::Count<1, 65535>>")]
    pub(super) port: Option<Scalar>,
    /// The path, and the query if any.
    #[schemars(with = "Option<leaf::HttpPath>", extend("default" = "/"))]
    pub(super) path: Option<Scalar>,
}

/// Kubernetes extras.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Kubernetes")]
pub(super) struct RawKubernetes {
    /// Label the leader's pod with `baton.dev/role-<name>: leader`.
    #[schemars(with = "Option<leaf::Flag>", extend("default" = false))]
    pub(super) pod_labels: Option<Scalar>,
    /// Tell of elections, losses, handovers and guards by Events on the pod.
    #[schemars(with = "Option<leaf::Flag>", extend("default" = false))]
    pub(super) events: Option<Scalar>,
    /// Show each role's leader in a Lease object, for `kubectl get leases`.
    #[schemars(with = "Option<leaf::Flag>", extend("default" = false))]
    pub(super) lease_mirror: Option<Scalar>,
    /// Let a role's next leader begin before the lease is over, where the kubelet has seen the last one end.
    #[schemars(with = "Option<leaf::Flag>", extend("default" = false))]
    pub(super) fast_failover: Option<Scalar>,
    /// The container's `terminationMessagePath`, for `fastFailover`.
    #[schemars(with = "Option<leaf::Text>", extend("default" = "/dev/termination-log"))]
    pub(super) termination_message_path: Option<Scalar>,
}

/// Locks for the app.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Locks")]
pub(super) struct RawLocks {
    /// Where they are, if not in `store`.
    pub(super) store: Option<RawOwnStore>,
    /// How long a lock lasts whose request names no lease; 100ms to 24h.
    #[schemars(with = "Option<leaf::Span>", extend("default" = "30s"))]
    pub(super) lease: Option<Scalar>,
    /// The longest lease that a request may name; at least `lease`, at most 24h. Default: 1h, or `lease` when that is
    /// more.
    #[schemars(with = "Option<leaf::Span>")]
    pub(super) max_lease: Option<Scalar>,
    /// For how long nobody new is granted after Redis may have forgotten locks; up to 24h. Default: `lease`.
    #[schemars(with = "Option<leaf::Span>")]
    pub(super) guard: Option<Scalar>,
    /// How many requests may wait for locks, and connections hold one, at once.
    #[schemars(with = "Option<leaf::Count<1, 100000>>", extend("default" = 10000))]
    pub(super) max_waiters: Option<Scalar>,
    /// Answer Dapr's lock API, too.
    pub(super) dapr: Option<RawDapr>,
}

/// Dapr's lock API on the app's listener.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Dapr", extend("required" = ["stores"]))]
pub(super) struct RawDapr {
    /// The names of the lock stores that the app asks for: what its Dapr component was called.
    #[schemars(with = "Option<Vec<leaf::StoreName>>", extend("minItems" = 1, "maxItems" = 16))]
    pub(super) stores: Option<Vec<Option<Scalar>>>,
}

/// How to log.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Log")]
pub(super) struct RawLog {
    /// The least important level that is logged.
    #[schemars(with = "Option<leaf::LevelWord>", extend("default" = "info"))]
    pub(super) level: Option<Scalar>,
    /// `json` for machines, `text` for people.
    #[schemars(with = "Option<leaf::FormatWord>", extend("default" = "json"))]
    pub(super) format: Option<Scalar>,
}
