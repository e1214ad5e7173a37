//! `spec/Locks.tla`: one lock or semaphore of one name.

use crate::model::{Model, Module, Removal};

/// Two clients, each through a sidecar of its own.
const TWO: &str = "Clients = {c1, c2}
Theirs = {c2}
Tokens = 2";
/// One client.
const ONE: &str = "Clients = {c1}
Theirs = {}
Tokens = 2";
/// It leaves, and what it has sent comes late.
const LEAVES: &str = r#"Faults = {"late", "gone"}
FaultsMax = 2
Requests = 2"#;
/// Two clients of one owner, and short leases.
const MATES: &str = "Mates = {c1, c2}
Block = 1
Tokens = 2
Lease = 1
Guard = 1";

/// Of three clients two may have it.
const SEMAPHORE: &str = "Permits = 2
Theirs = {}
Tokens = 3
Lease = 1
Guard = 1";

pub const LOCKS: Module = Module {
    name: "Locks",
    promises: &["AtMost", "TokensRise", "NoTokenTwice", "NotLost", "NotOvertaken", "NotToTheGone"],
    is_symmetric: true,
    values: &["c1", "c2", "c3"],
    constants: &[
        "Clients = {c1, c2, c3}",
        "Theirs = {c3}",
        "Mates = {}",
        "Fair = {}",
        "Queued = FALSE",
        "Brief = {}",
        "Permits = 1",
        "Lease = 2",
        "Guard = 2",
        "Block = 2",
        "Tokens = 4",
        "Requests = 1",
        "Faults = {}",
        "FaultsMax = 1",
    ],
    models: &[
        Model {
            title: "two sidecars, one is killed or the store loses its data",
            excused: &[],
            set: &[TWO, r#"Faults = {"kill", "loss of data"}"#],
        },
        Model { title: "two sidecars, the store is set back", excused: &[], set: &[TWO, r#"Faults = {"older"}"#] },
        Model {
            title: "two sidecars, a name is forgotten and the clock set back",
            excused: &[],
            set: &[TWO, r#"Faults = {"forgotten", "clock"}"#, "FaultsMax = 2"],
        },
        Model { title: "three clients, with turns", excused: &[], set: &["Lease = 1", "Guard = 1", "Tokens = 3"] },
        Model {
            title: "three clients, one of them fair, with turns",
            excused: &[],
            set: &["Lease = 1", "Guard = 1", "Tokens = 3", "Fair = {c3}"],
        },
        Model { title: "one client that leaves, and a request that is late", excused: &[], set: &[ONE, LEAVES] },
        Model {
            title: "a semaphore of two permits, three clients, and the store loses its data",
            excused: &["TokensRise", "NotLost"],
            set: &[SEMAPHORE, r#"Faults = {"loss of data"}"#],
        },
    ],
    removals: &[
        Removal {
            off: &["repeat"],
            set: &[MATES],
            breaks: "AtMost",
            story: "the store counts by owner: a release that is sent again counts twice, and another is \
                granted the lock beside the second hold",
        },
        Removal {
            off: &["longest"],
            set: &[TWO, "Brief = {c1}", "Lease = 3", "Guard = 3"],
            breaks: "AtMost",
            story: "an extension by less cuts a lease that was promised for longer",
        },
        Removal {
            off: &["named"],
            set: &["Theirs = {}", "Mates = {c1, c2}", "Tokens = 2"],
            breaks: "AtMost",
            story: "a hold that its owner has named to take the lock again goes on in its turn",
        },
        Removal {
            off: &["shut", "connection"],
            set: &[MATES, r#"Faults = {"older"}"#],
            breaks: "AtMost",
            story: "under a guard a request that was on its way takes again what was released and is \
                another's; either rule by itself prevents that",
        },
        Removal {
            off: &["intime"],
            set: &[ONE, LEAVES],
            breaks: "NotToTheGone",
            story: "a late request is granted to a client that has left",
        },
        Removal {
            off: &["sent"],
            set: &[TWO],
            breaks: "AtMost",
            story: "the answer comes when the lease is over, and the promise begins then",
        },
        Removal {
            off: &["sent"],
            set: &[SEMAPHORE],
            breaks: "AtMost",
            story: "the same of a semaphore: three act where two may",
        },
        Removal {
            off: &["seat"],
            set: &["Tokens = 3"],
            breaks: "AtMost",
            story: "who is handed the lock in a turn acts for longer than the store's lease",
        },
        Removal {
            off: &["floor"],
            set: &[ONE, r#"Faults = {"loss of data", "clock"}"#, "FaultsMax = 2"],
            breaks: "TokensRise",
            story: "the data are lost and the clock is set back: the token comes again",
        },
        Removal {
            off: &["kept"],
            set: &[TWO, r#"Faults = {"forgotten", "clock"}"#, "FaultsMax = 2"],
            breaks: "NoTokenTwice",
            story: "a name is forgotten and the clock is set back: the token is granted twice",
        },
        Removal {
            off: &["clock"],
            set: &[TWO, r#"Faults = {"loss of data"}"#],
            breaks: "NoTokenTwice",
            story: "the data are lost, and the other sidecar has not seen the token",
        },
        Removal {
            off: &["block"],
            set: &["Tokens = 3", r#"Faults = {"clock"}"#],
            breaks: "NoTokenTwice",
            story: "the clock is set back, and the next grant is within the block of a turn",
        },
        Removal {
            off: &["reassert"],
            set: &[TWO, r#"Faults = {"loss of data"}"#],
            breaks: "NotLost",
            story: "the data are lost, and the extension is refused though nobody came since",
        },
        Removal {
            off: &["over"],
            set: &[TWO, r#"Faults = {"older"}"#],
            breaks: "NotLost",
            story: "the hold of an earlier holder has come back with an old save, and stands in the way",
        },
        Removal {
            off: &["since", "lapsed"],
            set: &[TWO],
            breaks: "TokensRise",
            story: "a late extension puts back what another has had since; either rule by itself prevents \
                that",
        },
        Removal {
            off: &["generation"],
            set: &[TWO, r#"Faults = {"older"}"#],
            breaks: "AtMost",
            story: "an old save does not know the holder, and another is granted the lock",
        },
        Removal {
            off: &["empty"],
            set: &[TWO, r#"Faults = {"loss of data"}"#],
            breaks: "AtMost",
            story: "the data are lost, and another is granted the lock",
        },
        Removal {
            off: &["own"],
            set: &["Clients = {c1, c2}", "Theirs = {c2}", "Tokens = 3"],
            breaks: "AtMost",
            story: "a release that comes after its lease has ended frees the next one's",
        },
        Removal {
            off: &["ours"],
            set: &["Tokens = 3", r#"Faults = {"again"}"#],
            breaks: "AtMost",
            story: "a release through another sidecar, by the id of the turn, ends the turn of others",
        },
        Removal {
            off: &["gone"],
            set: &["Tokens = 3", r#"Faults = {"again"}"#],
            breaks: "AtMost",
            story: "the same through its own sidecar: what was a defect until this was found",
        },
        Removal {
            off: &["fair"],
            set: &[TWO, "Fair = {c2}"],
            breaks: "NotOvertaken",
            story: "a fair request that is queued is overtaken",
        },
        Removal {
            off: &["turns"],
            set: &["Fair = {c3}", "Queued = TRUE", "Tokens = 3"],
            breaks: "NotOvertaken",
            story: "a turn begins where there have been fair requests, and passes by the next one",
        },
        Removal {
            off: &["connection", "lapsed"],
            set: &[TWO, r#"Faults = {"loss of data"}"#],
            breaks: "AtMost",
            story: "an extension outlives its server, and puts back what is over and another's; either rule \
                by itself prevents that",
        },
        Removal {
            off: &[],
            set: &[TWO, r#"Faults = {"flush"}"#],
            breaks: "AtMost",
            story: "**not promised**: a server that has long been up is flushed, and another is granted the \
                lock",
        },
        Removal {
            off: &[],
            set: &[TWO, "Guard = 1", r#"Faults = {"loss of data"}"#],
            breaks: "AtMost",
            story: "**not promised**: a lease that is longer than `locks.guard` is lost with the data",
        },
    ],
};
