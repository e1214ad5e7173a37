//! `spec/Ledger.tla`: the ledger of one job.

use crate::model::{Model, Module, Removal};

/// All that may befall one role.
const ANY: &str =
    r#"Faults = {"kill", "pause", "late", "unanswered", "loss of data", "set back", "resign", "wish", "look"}"#;
/// The job moves to another role, whose tokens are smaller.
const MOVES: &str = "Terms = 1
Others = 1
TokenA = 2
TokenB = 1";

/// Tokens of two roles say nothing about each other: where a job moves, that they rise would hold for nothing.
const ONE_ROLE_ONLY: &[&str] = &["TokensRise"];

pub const LEDGER: Module = Module {
    name: "Ledger",
    promises: &["P6", "NoStale", "AfterItsClaim", "InItsTerm", "TokensRise", "Served"],
    is_symmetric: false,
    values: &[],
    constants: &[
        "Terms = 2",
        "Others = 0",
        "TokenA = 1",
        "TokenB = 1",
        "Slots = 1",
        "Attempts = 2",
        "Forgets = FALSE",
        "Strict = TRUE",
        "Faults = {}",
        "FaultsMax = 1",
        "Writes = 6",
    ],
    models: &[
        Model { title: "any two faults of one role", excused: &[], set: &[ANY, "FaultsMax = 2"] },
        Model {
            title: "clocks of the day that are set, a leader killed, data lost",
            excused: &[],
            set: &[
                r#"Faults = {"clock", "kill", "set back", "loss of data"}"#,
                "Slots = 2",
                "Attempts = 1",
                "Forgets = TRUE",
                "FaultsMax = 2",
            ],
        },
        Model {
            title: "a job that moves to another role and may be taken back, nothing lost",
            excused: ONE_ROLE_ONLY,
            set: &[MOVES, r#"Faults = {"move", "look", "late", "kill", "pause", "again"}"#, "FaultsMax = 2"],
        },
        Model {
            title: "a job that moves while the store loses its data; what its leaders make of that excused",
            excused: ONE_ROLE_ONLY,
            set: &[MOVES, r#"Faults = {"move", "set back", "loss of data"}"#, "Strict = FALSE", "Writes = 4"],
        },
    ],
    removals: &[
        Removal {
            off: &["fence"],
            set: &[r#"Faults = {"pause"}"#],
            breaks: "NoStale",
            story: "a former leader's write is executed after its successor's first look",
        },
        Removal {
            off: &["fence"],
            set: &[r#"Faults = {"pause"}"#],
            breaks: "P6",
            story: "the successor has read; the former one's claim arrives, and the successor claims over it",
        },
        Removal {
            off: &["confirmed"],
            set: &["FaultsMax = 0"],
            breaks: "AfterItsClaim",
            story: "an attempt starts when its claim is sent",
        },
        Removal {
            off: &["restore"],
            set: &[r#"Faults = {"set back"}"#],
            breaks: "P6",
            story: "the store is set back to before a claim whose run has ended, and the leader starts it \
                again",
        },
        Removal {
            off: &["counted"],
            set: &[r#"Faults = {"kill"}"#],
            breaks: "P6",
            story: "the number of an attempt that was interrupted is used again",
        },
        Removal {
            off: &["room"],
            set: &[r#"Faults = {"pause"}"#],
            breaks: "InItsTerm",
            story: "one that stood still starts when its term is over",
        },
        Removal {
            off: &["base"],
            set: &[r#"Faults = {"late", "kill"}"#, "FaultsMax = 2"],
            breaks: "P6",
            story: "a late write lands on a claim, and the next leader claims again",
        },
        Removal {
            off: &["unique"],
            set: &[r#"Faults = {"late", "loss of data", "kill"}"#, "FaultsMax = 3"],
            breaks: "P6",
            story: "after a loss a version comes again, and a late write undoes the claim that was put back",
        },
        Removal {
            off: &["write"],
            set: &[MOVES, r#"Faults = {"move", "look"}"#, "FaultsMax = 2"],
            breaks: "P6",
            story: "a role takes the ledger over by a look, claims, and loses it to an older look of the \
                other",
        },
        Removal {
            off: &["roles"],
            set: &[MOVES, r#"Faults = {"move"}"#],
            breaks: "Served",
            story: "the new role's leader has the smaller token and is refused for good",
        },
        Removal {
            off: &["leaps"],
            set: &[r#"Faults = {"clock", "kill"}"#, "Attempts = 1", "Forgets = TRUE", "FaultsMax = 2"],
            breaks: "P6",
            story: "what was claimed under a clock ahead is undone, and claimed again",
        },
        Removal {
            off: &[],
            set: &[MOVES, r#"Faults = {"move", "loss of data"}"#, "FaultsMax = 2"],
            breaks: "P6",
            story: "**not promised**: the data are lost while a job moves, and each role's leader claims \
                what the other has claimed",
        },
    ],
};
