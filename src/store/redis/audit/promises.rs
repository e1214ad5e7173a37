//! Which of the promises (docs/guarantees.md, P1 to P6) hold on a server as it is configured, and which fault breaks
//! the others. Of what cannot be seen from here, such as a proxy that answers for several masters, it says nothing.

use super::{Finding, Severity, finding};
use crate::config::{Durability, Guard, RedisConfig, StoreUse};
use crate::store::redis::connection::Info;

/// One finding a promise. `is_broken`: Baton does not work with it at all.
pub(super) fn promises(info: &Info, config: &RedisConfig, uses: &[StoreUse], is_broken: bool) -> Vec<Finding> {
    if is_broken {
        return vec![finding(Severity::Note, "no promise holds", "while there is a problem", "see the problems")];
    }
    let mut found = Vec::new();
    if uses.contains(&StoreUse::Leases) {
        found.push(one_leader(info, config));
        found.push(yes("P2, tokens rise", "as far as its clock remembers, or any replica that reaches it"));
        found.push(yes("P3, an answer is good until it expires", "always"));
        found.push(yes("P4, a handover is a push", "while it can be reached"));
        found.push(yes(
            "P5, a restart shorter than the lease costs no leadership",
            "where the leader reaches it in time",
        ));
    }
    if uses.contains(&StoreUse::Jobs) {
        found.push(one_claim(info, config));
    }
    found
}

fn yes(promise: &str, when: &str) -> Finding {
    finding(Severity::Ok, format!("{promise}: yes"), when, "")
}

fn one_leader(info: &Info, config: &RedisConfig) -> Finding {
    let (acks, replicas) = (u64::from(config.replication.acks), info.replicas().unwrap_or(0));
    if config.guard == Guard::Off {
        return finding(
            Severity::Warning,
            "P1, one leader: not after a restart that forgets, nor after a failover",
            "guard is off: what may have forgotten a lease grants the next one at once",
            "guard: strict",
        );
    }
    if config.durability == Durability::Synchronous {
        let when = "through restarts and failovers that lose no write it has acknowledged, as durability: synchronous \
                    says of it; of any other server that is not true, and there can be two";
        return yes("P1, one leader", when);
    }
    if config.guard == Guard::Heard {
        return finding(
            Severity::Warning,
            "P1, one leader: not after a failover, nor after a restart without its last writes",
            "guard is heard: what it has forgotten keeps out only who has heard of it",
            "guard: strict, where it tells its generation",
        );
    }
    // Of two masters, only two majorities have a server in common.
    if replicas > 0 && 2 * (acks + 1) <= replicas + 1 {
        return finding(
            Severity::Note,
            "P1, one leader: but for a split network",
            "restarts, lost data and failovers are guarded; an old master that some still reach is not",
            "replication.acks, as said above, or a fencing token where it matters",
        );
    }
    let faults = if replicas > 0 { "restarts, lost data, failovers and splits" } else { "restarts and lost data" };
    yes("P1, one leader", &format!("through {faults}, while clocks run at about the same rate"))
}

fn one_claim(info: &Info, config: &RedisConfig) -> Finding {
    if config.durability == Durability::Synchronous {
        return yes("P6, a slot is claimed once", "its ledger is in a log, as durability: synchronous says of it");
    }
    if info.get("aof_enabled") == Some("1") {
        return yes("P6, a slot is claimed once", "its ledger is on its disk; as far as that is synced, see above");
    }
    finding(
        Severity::Note,
        "P6, a slot is claimed once: but where it forgets while no leader lives who knows",
        "it keeps no append-only file",
        "appendonly yes",
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use secrecy::SecretString;

    use super::*;
    use crate::config::{AckMode, Replication, TlsConfig};

    fn config(guard: Guard, acks: u32) -> RedisConfig {
        RedisConfig {
            url: SecretString::from("redis://redis:6379/0"),
            username: None,
            password: None,
            auth: None,
            tls: TlsConfig::default(),
            key_prefix: "baton".to_owned(),
            command_timeout: Duration::from_secs(1),
            replication: Replication { acks, mode: AckMode::Wait, timeout: Duration::from_millis(200) },
            durability: Durability::Asynchronous,
            guard,
        }
    }

    #[test]
    fn one_leader_is_promised_as_far_as_guard_and_acknowledgements_reach() {
        for (guard, acks, replicas, what) in [
            (Guard::Strict, 0, 0, "P1, one leader: yes"),
            (Guard::Strict, 0, 1, "P1, one leader: but for a split network"),
            (Guard::Strict, 1, 1, "P1, one leader: yes"),
            (Guard::Strict, 1, 2, "P1, one leader: yes"),
            (Guard::Strict, 1, 3, "P1, one leader: but for a split network"),
            (Guard::Heard, 1, 2, "P1, one leader: not after a failover, nor after a restart without its last writes"),
            (Guard::Off, 1, 2, "P1, one leader: not after a restart that forgets, nor after a failover"),
        ] {
            let info = Info::parse(&format!("connected_slaves:{replicas}\r\n"));
            let found = promises(&info, &config(guard, acks), &[StoreUse::Leases], false);
            assert_eq!((found.len(), found[0].what.as_str()), (5, what), "{guard:?}, {acks} of {replicas}");
        }
    }

    #[test]
    fn a_store_that_acknowledges_by_a_log_promises_on_its_word() {
        let info = Info::parse("connected_slaves:2\r\naof_enabled:0\r\n");
        let of = |durability, guard| {
            let config = RedisConfig { durability, ..config(guard, 0) };
            let found = promises(&info, &config, &[StoreUse::Leases, StoreUse::Jobs], false);
            found
                .into_iter()
                .filter(|finding| finding.severity != Severity::Ok)
                .map(|finding| finding.what)
                .collect::<Vec<_>>()
        };
        assert_eq!(of(Durability::Synchronous, Guard::Strict), Vec::<String>::new());
        assert_eq!(of(Durability::Asynchronous, Guard::Strict).len(), 2);
        let off = of(Durability::Synchronous, Guard::Off);
        assert!(off.len() == 1 && off[0].starts_with("P1"), "{off:?}");
    }

    #[test]
    fn what_a_store_is_not_for_it_promises_nothing_of() {
        let of = |uses: &[StoreUse], info: &str| {
            let found = promises(&Info::parse(info), &config(Guard::Strict, 0), uses, false);
            found.iter().map(|finding| (finding.severity, finding.what[..2].to_owned())).collect::<Vec<_>>()
        };
        assert_eq!(of(&[StoreUse::Locks], ""), []);
        assert_eq!(of(&[StoreUse::Jobs], "aof_enabled:0"), [(Severity::Note, "P6".to_owned())]);
        assert_eq!(of(&[StoreUse::Jobs], "aof_enabled:1"), [(Severity::Ok, "P6".to_owned())]);
        let broken = promises(&Info::parse(""), &config(Guard::Strict, 0), &[StoreUse::Leases], true);
        assert_eq!(broken[0].what, "no promise holds");
    }
}
