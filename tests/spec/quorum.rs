//! `spec/Quorum.tla`: a lease on several independent masters.

use crate::model::{Model, Module, Removal};

/// A member is replaced.
const TWO_LISTS: &str = "Members = {a, b, c, d}
After = {a, b, d}";

/// The fewest that may lose all that they know.
const ONE_MEMBER: &str = "Members = {a}
Before = {a}
After = {a}";

const ANOTHER_MEMBER: &str = "Members = {a, b}
Before = {a}
After = {b}";

/// Of which a grant's tick is a third, as in the code. The ways to what is broken are shorter with less.
const LONGER: &str = "Lease = 3";

pub const QUORUM: Module = Module {
    name: "Quorum",
    promises: &["P1", "P2", "P5"],
    is_symmetric: true,
    values: &["r1", "r2", "a", "b", "c", "d"],
    constants: &[
        "Replicas = {r1, r2}",
        "Members = {a, b, c}",
        "Before = {a, b, c}",
        "After = {a, b, c}",
        "Ahead = {}",
        "Lease = 2",
        "Tokens = 4",
        "Rounds = 2",
        "Faults = {}",
        "FaultsMax = 0",
    ],
    models: &[
        Model {
            title: "one member restarts or loses a lease, while answers overlap",
            excused: &[],
            set: &[LONGER, r#"Faults = {"empty", "restart", "evict", "overlap"}"#, "FaultsMax = 1"],
        },
        Model {
            title: "one request is lost or one member away, while answers overlap",
            excused: &[],
            set: &[LONGER, r#"Faults = {"lost", "down", "overlap"}"#, "FaultsMax = 1"],
        },
        Model {
            title: "one request is late or one replica killed, while answers overlap",
            excused: &[],
            set: &[LONGER, r#"Faults = {"late", "kill", "overlap"}"#, "FaultsMax = 1"],
        },
        Model {
            title: "one member's clock is stepped forward, while answers overlap",
            excused: &[],
            set: &[LONGER, r#"Faults = {"clock", "overlap"}"#, "FaultsMax = 1"],
        },
        Model {
            title: "one of two members is replaced",
            excused: &[],
            set: &[LONGER, "Before = {a, b}", "After = {b, c}"],
        },
        Model {
            title: "a list of one member gives way to another's, and one request is lost or one replica killed",
            excused: &[],
            set: &[LONGER, ANOTHER_MEMBER, r#"Faults = {"lost", "kill"}"#, "FaultsMax = 1"],
        },
    ],
    removals: &[
        Removal {
            off: &["sent"],
            set: &[],
            breaks: "P1",
            story: "the deadline counts from when the answer is taken; the members' leases end before, and \
                another is elected",
        },
        Removal {
            off: &["promises"],
            set: &[],
            breaks: "P1",
            story: "a lease is given back while the app may still act, and another is elected at once",
        },
        Removal {
            off: &["own"],
            set: &["Rounds = 3"],
            breaks: "P1",
            story: "what takes back a campaign that failed takes back the leader's leases, too",
        },
        Removal {
            off: &["majority"],
            set: &[r#"Faults = {"lost"}"#, "FaultsMax = 1"],
            breaks: "P1",
            story: "one member was raised and makes a leader; the others' grants end, and make another",
        },
        Removal {
            off: &["objection"],
            set: &[r#"Faults = {"clock"}"#, "FaultsMax = 1"],
            breaks: "P1",
            story: "a member's clock is stepped and another was never raised: they grant, though the third \
                reports a confirmed lease",
        },
        Removal {
            off: &["reassert"],
            set: &[r#"Faults = {"empty"}"#, "FaultsMax = 1"],
            breaks: "P5",
            story: "a member missed the raise and another restarts empty: all answer the renewal, and only \
                one renews",
        },
        Removal {
            off: &["empty"],
            set: &[r#"Faults = {"empty"}"#, "FaultsMax = 2"],
            breaks: "P1",
            story: "two members restart without data, and grant the next at once",
        },
        Removal {
            off: &["generation"],
            set: &[r#"Faults = {"restart"}"#, "FaultsMax = 2"],
            breaks: "P1",
            story: "two members restart with data from before the term, and grant the next at once",
        },
        Removal {
            off: &["until"],
            set: &[r#"Faults = {"evict"}"#, "FaultsMax = 2"],
            breaks: "P1",
            story: "two members' leases are deleted, and they grant the next at once",
        },
        Removal {
            off: &["confirm"],
            set: &[r#"Faults = {"down"}"#, "FaultsMax = 1", "Rounds = 3"],
            breaks: "P2",
            story: "nobody is raised to the term's token, and the next majority gives it again",
        },
        Removal {
            off: &["greatest", "reported", "smaller"],
            set: &[r#"Faults = {"down"}"#, "FaultsMax = 1"],
            breaks: "P2",
            story: "a member missed the first term and grants a smaller token; the least is taken, and a \
                member is raised below its own",
        },
        Removal {
            off: &["joint"],
            set: &[TWO_LISTS, r#"Faults = {"lost"}"#, "FaultsMax = 1"],
            breaks: "P1",
            story: "one leads by a majority of the old list and one by a majority of the new, and the \
                objection of the member in both is lost",
        },
        Removal {
            off: &["joint", "list"],
            set: &[TWO_LISTS],
            breaks: "P1",
            story: "the same; the member in both reports a grant that is not confirmed yet, which is no \
                objection",
        },
        Removal {
            off: &["last"],
            set: &[r#"Faults = {"clock", "overlap"}"#, "FaultsMax = 1"],
            breaks: "P1",
            story: "a member answers a campaign before it is raised for another, and is not asked again; a \
                second member's clock is stepped past that lease before it is asked",
        },
        Removal {
            off: &["floor"],
            set: &["Replicas = {r1}", ONE_MEMBER, r#"Faults = {"empty"}"#, "FaultsMax = 1", "Rounds = 3"],
            breaks: "P2",
            story: "all members (there is one) lose their data: who led before is given its token again",
        },
        Removal {
            off: &["clock"],
            set: &["Ahead = {a}", ONE_MEMBER, r#"Faults = {"empty"}"#, "FaultsMax = 1", "Rounds = 3"],
            breaks: "P2",
            story: "the same, and another is given it that has not heard of the term",
        },
        Removal {
            off: &["led"],
            set: &[ANOTHER_MEMBER],
            breaks: "P1",
            story: "one leads by the old list (of one member); the other goes on to the new one (of another member), \
                and leads by that",
        },
    ],
};
