//! `spec/Baton.tla`: leader election on one Redis.

use crate::model::{Model, Module, Removal};

/// A master and its replica.
const TWO_SERVERS: &str = "Servers = {A, B}";

/// All that may befall one Redis and its sidecars.
const ANY: &str =
    r#"Faults = {"lost", "late", "kill", "reload", "restart", "loss of data", "flush", "evict", "clock"}"#;

/// What a replica that acknowledges may do: follow another master.
const CHANGES_SIDES: &str = r#"Servers = {A, B}
Acks = 1
Used = TRUE
Terms = 3
Faults = {"split", "swing"}
FaultsMax = 2
Lease = 1"#;

/// A server takes the place of one that has granted a greater token than it will.
const REPLACED: &str = r#"Used = TRUE
Faults = {"replaced"}
Terms = 3
Renewals = 3"#;

/// P4 can be seen only where nothing is late: elsewhere it would hold for nothing.
const PROMPT_ONLY: &[&str] = &["P4"];

pub const BATON: Module = Module {
    name: "Baton",
    promises: &["P1", "P2", "P4", "P5"],
    is_symmetric: true,
    values: &["r1", "r2", "A", "B"],
    constants: &[
        "Replicas = {r1, r2}",
        "Servers = {A}",
        "Lease = 2",
        "Short = {}",
        "Acks = 0",
        "Used = FALSE",
        "Prompt = FALSE",
        "Faults = {}",
        "FaultsMax = 1",
        "Terms = 2",
        "Renewals = 2",
        "Requests = 1",
    ],
    models: &[
        Model {
            title: "one Redis, and one of: a lost or a late request, a killed replica, a reload, a restart with data \
                or without, FLUSHALL, a deleted lease, a stepped clock",
            excused: PROMPT_ONLY,
            set: &[ANY],
        },
        Model {
            title: "one Redis, leaders that drain and renew, and no fault",
            excused: PROMPT_ONLY,
            set: &["Renewals = 4"],
        },
        Model { title: "nothing is late or lost", excused: &[], set: &["Prompt = TRUE", "Renewals = 4", "Terms = 3"] },
        Model {
            title: "a server is put in another's place that has none of its data and whose clock is behind, in up to \
                20 steps",
            excused: &["P2", "P4"],
            set: &[REPLACED, "Steps = 20"],
        },
        Model {
            title: "two servers, a failover and a lost request, in up to 17 steps",
            excused: PROMPT_ONLY,
            set: &[TWO_SERVERS, r#"Faults = {"failover", "lost"}"#, "FaultsMax = 2", "Renewals = 3", "Steps = 17"],
        },
        Model {
            title: "two servers, one acknowledgement, and two of: a failover, a split, a replica that changes sides, \
                in up to 15 steps",
            excused: &["P4", "P5"],
            set: &[
                TWO_SERVERS,
                "Acks = 1",
                r#"Faults = {"failover", "split", "swing"}"#,
                "FaultsMax = 2",
                "Renewals = 3",
                "Steps = 15",
            ],
        },
    ],
    removals: &[
        Removal {
            off: &["repeat", "still"],
            set: &[TWO_SERVERS, r#"Faults = {"failover", "lost"}"#, "FaultsMax = 2", "Lease = 1"],
            breaks: "P1",
            story: "a campaign whose answer was lost is repeated on a replica that has taken over, after its lease has \
                run out and another was granted the role; `still` begins a watch there, which prevents that as well",
        },
        Removal {
            off: &["attempts"],
            set: &[r#"Faults = {"reload"}"#, "Requests = 2", "Renewals = 4"],
            breaks: "P2",
            story: "a role is removed and added while its release is on its way: the new task's first \
                campaign has the number of the old one's, and is given its token",
        },
        Removal {
            off: &["sent"],
            set: &[],
            breaks: "P1",
            story: "an answer comes late: its sidecar leads for a lease from then, though the store's lease \
                ends before, and another is granted the role",
        },
        Removal {
            off: &["floor"],
            set: &["Replicas = {r1}", r#"Faults = {"clock", "flush"}"#, "FaultsMax = 2"],
            breaks: "P2",
            story: "the server's clock is set back and its data are lost: who led before is given its token again",
        },
        Removal {
            off: &["clock"],
            set: &[r#"Faults = {"flush"}"#],
            breaks: "P2",
            story: "the data are lost, and who asks next has not heard of the last term",
        },
        Removal {
            off: &["reassert"],
            set: &[r#"Faults = {"flush"}"#],
            breaks: "P5",
            story: "the data are lost, and the incumbent's next renewal is refused",
        },
        Removal {
            off: &["since"],
            set: &[REPLACED],
            breaks: "P1",
            story: "a server without data, whose clock is behind, grants the role with a smaller token; a renewal of \
                the earlier term comes late and is believed, and who sent it is granted the role again",
        },
        Removal {
            off: &["generation"],
            set: &[TWO_SERVERS, r#"Faults = {"failover"}"#, "Renewals = 3"],
            breaks: "P1",
            story: "a replica takes over that has heard of a release, and not of the grant after it",
        },
        Removal {
            off: &["replid"],
            set: &[TWO_SERVERS, "Used = TRUE", "Terms = 3", r#"Faults = {"swap"}"#, "FaultsMax = 2"],
            breaks: "P1",
            story: "a master and its replica change sides in their processes, twice: the first is master again as it \
                was, and knows nothing of who was granted the role last",
        },
        Removal {
            off: &["empty", "still"],
            set: &[r#"Faults = {"flush"}"#],
            breaks: "P1",
            story: "the data are lost while a lease stands, and the next candidate is granted the role; \
                either rule by itself prevents that",
        },
        Removal {
            off: &["until", "still"],
            set: &[r#"Faults = {"evict"}"#],
            breaks: "P1",
            story: "a lease is deleted, and the next candidate is granted the role; either rule by itself \
                prevents that",
        },
        Removal {
            off: &["still"],
            set: &[r#"Faults = {"clock"}"#],
            breaks: "P1",
            story: "the server's clock is set forward: the lease ends early, and its end is past by the \
                record as well",
        },
        Removal {
            off: &["longest"],
            set: &["Short = {r2}", r#"Faults = {"evict"}"#, "Renewals = 3"],
            breaks: "P1",
            story: "a long lease is deleted, and a candidate with a short one waits for its own length only",
        },
        Removal {
            off: &["acks"],
            set: &[TWO_SERVERS, "Acks = 1", r#"Faults = {"split"}"#, "Renewals = 3"],
            breaks: "P1",
            story: "a replica is promoted while its master lives, and both grant the role",
        },
        Removal {
            off: &["confirm"],
            set: &[CHANGES_SIDES],
            breaks: "P1",
            story: "a replica of Redis acknowledges one master's grant, follows another that was promoted meanwhile, \
                and acknowledges that one's grant, too",
        },
        Removal {
            off: &["syncs"],
            set: &[CHANGES_SIDES],
            breaks: "P1",
            story: "the same: that a replica has come is no other generation, and the grant is confirmed",
        },
        Removal {
            off: &["promises"],
            set: &["Renewals = 4"],
            breaks: "P1",
            story: "a sidecar that drains gives the lease back while its app may still act, and another is \
                granted it",
        },
        Removal {
            off: &["own"],
            set: &["Renewals = 4"],
            breaks: "P5",
            story: "a release that comes after its lease has ended deletes the next one's",
        },
        Removal {
            off: &["heard"],
            set: &["Prompt = TRUE", "Renewals = 4"],
            breaks: "P4",
            story: "a lease is given back, and nobody knows before it looks by itself",
        },
    ],
};
