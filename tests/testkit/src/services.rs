//! What services and other servers say of themselves. Each is a claim about a service, and no test of it: what its
//! documents (or its source) refuse is refused here before a real Redis.

use crate::profile::Profile;

/// A service, and where it says so.
#[derive(Debug)]
pub struct Service {
    pub profile: Profile,
    /// Its keys are spread over nodes, which clients are told of.
    pub is_cluster: bool,
    pub source: &'static str,
    /// What a row cannot show.
    pub note: &'static str,
}

const fn refusing(
    name: &'static str,
    refused: &'static [&'static str],
    in_scripts: &'static [&'static str],
) -> Profile {
    Profile { name, refused, refused_in_scripts: in_scripts, ..Profile::NONE }
}

/// The service of this name.
///
/// # Panics
/// When there is none.
pub fn named(name: &str) -> &'static Service {
    let names = || SERVICES.iter().map(|service| service.profile.name).collect::<Vec<_>>();
    let found = SERVICES.iter().find(|service| service.profile.name == name);
    found.unwrap_or_else(|| panic!("{name}: one of {:?}", names()))
}

/// All of them, as docs/compatibility.md lists them.
pub const SERVICES: &[Service] = &[
    Service {
        profile: refusing("Redis Software", &["ROLE", "SELECT"], &["INFO"]),
        is_cluster: false,
        source: "redis.io/docs/latest/operate/rs/references/compatibility/commands: ROLE and SELECT are not supported, \
                 INFO is not supported in scripts",
        note: "Never an Active-Active database: two masters take writes at once. It is refused by name where its INFO \
               tells it (`crdt_config_version`), and Baton cannot see it where it does not. That its INFO tells \
               `master_replid` has not been seen; where it does not, `guard: strict` refuses it by name.",
    },
    Service {
        profile: refusing("Redis Cloud", &["ROLE", "SELECT", "WAIT", "WAITAOF"], &["INFO"]),
        is_cluster: false,
        source: "the same tables, column Redis Cloud: WAIT with Flexible plans only",
        note: "As Redis Software. Without `WAIT` a split network can make two leaders.",
    },
    Service {
        profile: refusing("Azure Managed Redis", &["ROLE", "SELECT"], &["INFO"]),
        is_cluster: false,
        source: "learn.microsoft.com/azure/redis: it is Redis Software, whose tables it points to",
        note: "Entra ID is the default there: `auth: { entra: {} }`.",
    },
    Service {
        profile: refusing(
            "Azure Managed Redis, OSS policy",
            &["ROLE", "SELECT", "ASKING", "CLUSTER MYSHARDID"],
            &["INFO"],
        ),
        is_cluster: true,
        source: "learn.microsoft.com/azure/redis/architecture: clients of the OSS policy go to the shards that CLUSTER \
                 tells; redis.io/docs/latest/operate/rs/references/compatibility/commands/cluster: no ASKING",
        note: "As Azure Managed Redis; its shards' ports change, which a run cannot show.",
    },
    Service {
        profile: refusing(
            "ElastiCache, nodes",
            &["CONFIG", "DEBUG", "PSYNC", "SAVE", "BGSAVE", "BGREWRITEAOF", "REPLICAOF", "SHUTDOWN", "SYNC"],
            &[],
        ),
        is_cluster: false,
        source: "docs.aws.amazon.com/AmazonElastiCache/latest/dg/SupportedCommands.html: restricted commands",
        note: "`audit` cannot read how it keeps its data. With IAM: `auth: { awsIam: … }`.",
    },
    Service {
        profile: refusing(
            "ElastiCache Serverless",
            &[
                "WAIT",
                "WAITAOF",
                "CLIENT ID",
                "CLIENT INFO",
                "CLIENT LIST",
                "CLIENT KILL",
                "CONFIG",
                "DEBUG",
                "FCALL",
                "FUNCTION",
                "MEMORY",
                "PSUBSCRIBE",
                "SLOWLOG",
            ],
            &["TIME"],
        ),
        is_cluster: true,
        source: "the same page, serverless caches; TIME in scripts: aspnetcore-redis-rate-limiting#154, \
                 Effect-TS/effect-smol#2328",
        note: "Take nodes, or Lease objects. Whether TIME is still refused is not known.",
    },
    Service {
        profile: refusing("MemoryDB", &["CONFIG", "DEBUG", "PSYNC", "SAVE", "BGSAVE", "REPLICAOF", "SHUTDOWN"], &[]),
        is_cluster: true,
        source: "docs.aws.amazon.com/memorydb/latest/devguide/restrictedcommands.html, consistency.html",
        note: "It acknowledges by its log: `replication.acks` is not needed. Never multi-Region: two regions, two \
               leaders. With IAM: `auth: { awsIam: { service: memorydb, … } }`.",
    },
    Service {
        profile: refusing(
            "Memorystore",
            &[
                "ACL",
                "BGREWRITEAOF",
                "BGSAVE",
                "CLIENT",
                "CLUSTER",
                "COMMAND",
                "CONFIG",
                "DEBUG",
                "LASTSAVE",
                "MIGRATE",
                "MONITOR",
                "OBJECT",
                "REPLICAOF",
                "SAVE",
                "SHUTDOWN",
            ],
            &[],
        ),
        is_cluster: false,
        source: "cloud.google.com/memorystore/docs/redis/product-constraints, supported-commands",
        note: "With IAM (`auth: { gcp: {} }`) it limits the rate of new connections.",
    },
    Service {
        profile: refusing(
            "Memorystore Cluster",
            &["CONFIG", "DEBUG", "MIGRATE", "MONITOR", "SAVE", "BGSAVE", "REPLICAOF", "SHUTDOWN"],
            &[],
        ),
        is_cluster: true,
        source: "docs.cloud.google.com/memorystore/docs/valkey/supported-commands: what is not on the list",
        note: "Memorystore for Valkey with cluster mode, too. With IAM (`auth: { gcp: {} }`) it limits the rate of new \
               connections.",
    },
    Service {
        profile: refusing("Upstash", &[], &[]),
        is_cluster: false,
        source: "upstash/docs, redis/features/consistency.mdx, redis/sdks/…/wait.mdx, info.mdx",
        note: "After a split the last writer wins, whatever `WAIT` says: P1 cannot be had there in a split.",
    },
    Service {
        profile: refusing("OCI Cache, sharded", &["EVAL", "EVALSHA"], &[]),
        is_cluster: true,
        source: "docs.oracle.com/iaas/Content/ocicache/restrictedcommands.htm",
        note: "Take one that is not sharded.",
    },
    Service {
        profile: Profile { has_resp3: false, refused: &["ACL"], ..refusing("Tencent Cloud", &[], &[]) },
        is_cluster: false,
        source: "tencentcloud.com/document/product/239/77219: RESP3 and ACL are not supported",
        note: "RESP2 is spoken.",
    },
    Service {
        profile: refusing("Aiven", &["ROLE", "CONFIG", "CLUSTER", "ACL"], &[]),
        is_cluster: false,
        source: "aiven.io/docs/products/redis/reference/restricted-redis-commands",
        note: "`audit` cannot read how it keeps its data.",
    },
    Service {
        profile: Profile {
            untold: &["run_id"],
            told: &[("dragonfly_version", "df-v1.31.0")],
            ..refusing("Dragonfly", &["SCRIPT KILL", "WAITAOF"], &[])
        },
        is_cluster: false,
        source: "dragonflydb/dragonfly, source at f8eca6d0b: INFO tells no run_id; issue 8269; pull request 7454",
        note: "Its `WAIT` looks every 100 ms, so that with `replication.acks` a renewal takes that long.",
    },
    Service {
        profile: Profile { told: &[("garnet_version", "1.0.80")], ..refusing("Garnet", &["WAIT", "WAITAOF"], &[]) },
        is_cluster: false,
        source: "microsoft/garnet, source at e508a4162: api-compatibility.md",
        note: "Lua is off unless `--lua` says otherwise. Without `WAIT` a split network can make two leaders.",
    },
    Service {
        profile: Profile {
            told: &[("crdt_config_version", "1")],
            ..refusing("Redis Software, Active-Active", &["ROLE", "SELECT"], &["INFO"])
        },
        is_cluster: false,
        source: "RedisLabs/redislabs-docs, content/rs/references/developing-for-active-active/_index.md: INFO has a \
                 section crdt",
        note: "Several masters take writes at once. Whether INFO tells it without being asked for that section is not \
               said there.",
    },
    Service {
        profile: Profile { told: &[("role", "active-replica")], ..refusing("KeyDB with active-replica", &[], &[]) },
        is_cluster: false,
        source: "Snapchat/KeyDB, source at 603ebb27f: INFO tells role:active-replica",
        note: "Several masters take writes at once. KeyDB without it is as Redis 6.2.",
    },
];
