//! What a Redis says of itself (INFO), and whether Baton can work with it.

use std::collections::HashMap;
use std::fmt;

use crate::config::Guard;
use crate::store::StoreError;

/// The first version with everything the scripts and the subscriptions need.
pub const VERSION_MIN: Version = Version(6, 2);

/// What a server is that cannot be a store, however it is configured here.
const ACTIVE_REPLICA: &str = "it is one of several masters that take writes at once (KeyDB's active-replica): each \
                              could elect a leader of its own; use a server with active-replica no";
const ACTIVE_ACTIVE: &str = "it is one of several masters that take writes at once (an Active-Active database): each \
                             could elect a leader of its own; use a database that is not Active-Active";

/// A version of Redis: major and minor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32);

impl Version {
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        Some(Self(parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// The lines of INFO.
pub struct Info(HashMap<String, String>);

impl Info {
    pub fn parse(text: &str) -> Self {
        let field = |line: &str| line.split_once(':').map(|(key, value)| (key.to_owned(), value.trim().to_owned()));
        Self(text.lines().filter_map(field).collect())
    }

    pub fn get(&self, field: &str) -> Option<&str> {
        self.0.get(field).map(String::as_str)
    }

    pub fn number(&self, field: &str) -> Option<u64> {
        self.get(field)?.parse().ok()
    }

    /// Which start of a server this is.
    pub fn process(&self) -> Option<String> {
        self.get("run_id").map(str::to_owned)
    }

    pub fn version(&self) -> Option<Version> {
        self.get("redis_version").and_then(Version::parse)
    }

    /// Name and version, for people. Valkey tells the Redis that it is compatible with as its version, too.
    pub fn name(&self) -> Option<String> {
        let compatible = self.get("redis_version")?;
        for (field, product) in [("dragonfly_version", "Dragonfly"), ("garnet_version", "Garnet")] {
            if let Some(version) = self.get(field) {
                let version = version.trim_start_matches("df-v");
                return Some(format!("{product} {version}, which speaks as Redis {compatible}"));
            }
        }
        Some(match (self.get("server_name"), self.get("valkey_version")) {
            (Some("valkey"), Some(version)) => format!("Valkey {version}, which speaks as Redis {compatible}"),
            _ => format!("Redis {compatible}"),
        })
    }

    /// `standalone`, `cluster` or `sentinel`.
    pub fn mode(&self) -> Option<&str> {
        // As Redis calls it, and as Valkey does since 8.0.
        self.get("redis_mode").or_else(|| self.get("server_mode"))
    }

    /// The policy that may evict a lease, if there is one.
    pub fn evicting_policy(&self) -> Option<&str> {
        // Leases have a TTL, so volatile-* policies take them, too.
        self.get("maxmemory_policy").filter(|policy| *policy != "noeviction")
    }

    /// Whether Baton can work here, with this guard and where so many acknowledgements are asked for.
    ///
    /// # Errors
    /// [`StoreError::Refused`] with what is in the way, and what would help.
    pub fn check(&self, guard: Guard, acks: u32) -> Result<(), StoreError> {
        let refused = |reason: String| Err(StoreError::Refused { reason });
        if self.mode() == Some("sentinel") {
            let reason = "it is a Sentinel, which keeps no leases: use a redis-sentinel: URL, or name the Redis itself";
            return refused(reason.to_owned());
        }
        match self.version() {
            None => return refused("it does not tell its version (INFO server): is it a Redis?".to_owned()),
            Some(version) if version < VERSION_MIN => {
                return refused(format!("it is too old: this is Redis {version}, Baton needs {VERSION_MIN} or later"));
            }
            Some(_) => {}
        }
        if self.get("loading") == Some("1") {
            return refused("it is loading its data (LOADING): wait until it has started".to_owned());
        }
        match self.untold(acks) {
            Some(untold) if guard == Guard::Strict => refused(untold.refusal()),
            _ => Ok(()),
        }
    }

    /// What the guard needs to know of a server (R5) and this one does not tell: which generation of its data it has,
    /// and with acknowledgements whether replicas may have come from another master since.
    pub fn untold(&self, acks: u32) -> Option<&'static Untold> {
        let needed = [&REPLICATION_ID].into_iter().chain(SYNCS.iter().filter(|_| acks > 0));
        needed.into_iter().find(|untold| self.get(untold.field).is_none_or(str::is_empty))
    }

    /// Whether it takes writes.
    ///
    /// # Errors
    /// [`StoreError::Refused`] when it is a replica.
    pub fn check_master(&self) -> Result<(), StoreError> {
        if self.get("role") == Some("slave") {
            let reason = "it is a read-only replica: a failover may be under way; if this stays, point the URL at the \
                          master, or use a redis-sentinel: URL";
            return Err(StoreError::Refused { reason: reason.to_owned() });
        }
        match self.several_masters() {
            Some(reason) => Err(StoreError::Refused { reason: reason.to_owned() }),
            None => Ok(()),
        }
    }

    /// Why it cannot be a store, if it is one of several that take writes at once.
    pub fn several_masters(&self) -> Option<&'static str> {
        // Of Active-Active databases INFO has a section crdt, with these fields: RedisLabs/redislabs-docs,
        // content/rs/references/developing-for-active-active/_index.md, "INFO". Whether it is among those that are told
        // without being asked for is not said there.
        let is_active_active = ["crdt_config_version", "crdt_replid"].iter().any(|field| self.get(field).is_some());
        let is_active_replica = self.get("role") == Some("active-replica");
        is_active_replica.then_some(ACTIVE_REPLICA).or(is_active_active.then_some(ACTIVE_ACTIVE))
    }

    /// How many replicas are connected, when it tells.
    pub fn replicas(&self) -> Option<u64> {
        self.number("connected_slaves")
    }

    /// What works here, but not as well as it should, with this guard and where so many acknowledgements are asked for:
    /// for people. A server that [`Self::check`] lets in although it tells too little is one without the guard, or one
    /// that is not asked.
    pub fn notes(&self, guard: Guard, acks: u32) -> Vec<String> {
        let too_few = self.replicas().filter(|replicas| *replicas < u64::from(acks));
        let replicas = too_few.map(|replicas| acks_note(acks, replicas));
        let untold = self.untold(acks).filter(|_| guard != Guard::Heard).map(Untold::what);
        self.evicting_policy().map(eviction_note).into_iter().chain(replicas).chain(untold).collect()
    }
}

/// What a server does not tell of itself.
pub struct Untold {
    field: &'static str,
    section: &'static str,
    /// What the guard notices by it.
    shows: &'static str,
}

static REPLICATION_ID: Untold = Untold {
    field: "master_replid",
    section: "replication",
    shows: "that a restart or a failover may have forgotten a lease",
};
static SYNCS: [Untold; 2] = [of_syncs("sync_full"), of_syncs("sync_partial_ok")];

const fn of_syncs(field: &'static str) -> Untold {
    let shows = "that a replica may have acknowledged another master's writes before it came back (replication.acks)";
    Untold { field, section: "stats", shows }
}

impl Untold {
    /// The field, and what it is for.
    pub fn what(&self) -> String {
        let Self { field, section, shows } = self;
        format!("it does not tell its {field} (INFO {section}), by which the guard notices {shows}")
    }

    /// The ways out.
    pub const REMEDY: &str = "use a server that tells it, as Redis and Valkey do; or, where it is no member of a \
                              quorum, guard: heard, under which a failover can make two leaders; or guard: off, under \
                              which a restart can, too";

    fn refusal(&self) -> String {
        format!("{}: {}", self.what(), Self::REMEDY)
    }
}

fn acks_note(acks: u32, replicas: u64) -> String {
    format!(
        "replication.acks asks for {acks} replicas and this Redis has {replicas}: nobody can be elected, and no lease \
         renewed, until it has more; add replicas, or lower replication.acks"
    )
}

fn eviction_note(policy: &str) -> String {
    format!(
        "maxmemory-policy is {policy}: a Redis short of memory may drop leases and tokens; set it to noeviction, or \
         give Baton a Redis of its own"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(lines: &str) -> Info {
        Info::parse(&lines.replace(' ', "\r\n"))
    }

    #[test]
    fn old_servers_and_replicas_are_refused_with_a_remedy() {
        let reason = |lines| match info(lines).check(Guard::Off, 0).and_then(|()| info(lines).check_master()) {
            Err(StoreError::Refused { reason }) => reason,
            other => panic!("{other:?}"),
        };
        assert!(reason("redis_version:6.0.16 role:master").contains("6.2 or later"));
        assert!(reason("redis_version:5.0.3 role:master").contains("too old"));
        assert!(reason("redis_version:7.0.15 redis_mode:sentinel").contains("redis-sentinel:"));
        assert!(reason("redis_version:7.0.15 role:slave").contains("point the URL at the master"));
        assert!(reason("role:master").contains("version"));
        assert!(reason("redis_version:6.3.4 role:active-replica").contains("several masters"));
        let active_active = reason("redis_version:7.4.0 role:master crdt_config_version:1 crdt_slots:0-16383");
        assert!(active_active.contains("not Active-Active"), "{active_active}");
        assert_eq!(info("redis_version:6.2.0 role:master").check(Guard::Off, 0), Ok(()));
        assert_eq!(info("redis_version:10.0.1 role:master").check(Guard::Off, 0), Ok(()));
    }

    #[test]
    fn what_the_guard_needs_must_be_told_and_not_be_empty() {
        let untold = |lines, acks| info(lines).untold(acks).map(|untold| untold.field);
        let replication = "redis_version:7.0.15 master_replid:5b2f";
        for (lines, acks, expected) in [
            ("redis_version:7.0.15", 0, Some("master_replid")),
            ("redis_version:7.0.15 master_replid:", 0, Some("master_replid")),
            ("redis_version:7.0.15 run_id:7a sync_full:0", 1, Some("master_replid")),
            (replication, 0, None),
            (replication, 1, Some("sync_full")),
            ("redis_version:7.0.15 master_replid:5b2f sync_full:0", 1, Some("sync_partial_ok")),
            ("redis_version:7.0.15 master_replid:5b2f sync_full:0 sync_partial_ok:0", 1, None),
        ] {
            assert_eq!(untold(lines, acks), expected, "{lines}, {acks}");
            assert_eq!(info(lines).check(Guard::Strict, acks).is_err(), expected.is_some(), "{lines}, {acks}");
            for (guard, notes) in [(Guard::Heard, 0), (Guard::Off, usize::from(expected.is_some()))] {
                assert_eq!(info(lines).check(guard, acks), Ok(()), "{lines}, {acks}");
                assert_eq!(info(lines).notes(guard, acks).len(), notes, "{guard:?}, {lines}, {acks}");
            }
        }
    }

    #[test]
    fn a_valkey_is_called_so() {
        let valkey = info("redis_version:7.2.4 server_name:valkey valkey_version:8.0.1 server_mode:cluster");
        assert_eq!(valkey.name().unwrap(), "Valkey 8.0.1, which speaks as Redis 7.2.4");
        assert_eq!((valkey.mode(), valkey.version()), (Some("cluster"), Some(Version(7, 2))));
        let redis = info("redis_version:7.0.15 redis_mode:sentinel");
        assert_eq!((redis.name().unwrap().as_str(), redis.mode()), ("Redis 7.0.15", Some("sentinel")));
    }

    #[test]
    fn more_acknowledgements_than_replicas_are_noted() {
        let notes = |acks| {
            info("master_replid:5b2f sync_full:0 sync_partial_ok:0 connected_slaves:1").notes(Guard::Strict, acks)
        };
        assert!(notes(0).is_empty() && notes(1).is_empty());
        assert!(notes(2)[0].contains("asks for 2 replicas and this Redis has 1"), "{:?}", notes(2));
        assert!(
            info("master_replid:5b2f sync_full:0 sync_partial_ok:0").notes(Guard::Strict, 2).is_empty(),
            "what is not told is not claimed"
        );
    }

    #[test]
    fn every_policy_that_evicts_is_noted() {
        for policy in ["allkeys-lru", "allkeys-random", "volatile-ttl"] {
            let notes = info(&format!("master_replid:5b2f maxmemory_policy:{policy}")).notes(Guard::Strict, 0);
            assert!(notes.len() == 1 && notes[0].contains(policy));
        }
        assert!(info("master_replid:5b2f maxmemory_policy:noeviction").notes(Guard::Strict, 0).is_empty());
    }
}
