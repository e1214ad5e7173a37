//! What a fault of a Redis costs, by what is kept in it.

use crate::config::StoreUse;

/// Parts of sentences.
pub(super) struct FaultWords {
    /// What is kept.
    pub kept: &'static str,
    /// One of them that counts.
    pub each: &'static str,
    /// What follows when nothing can be written.
    pub stopped: &'static str,
    /// What fails while a slot is on its way to another node of a cluster.
    pub moving: &'static str,
    /// What follows when something is forgotten, under the guard and without it.
    pub forgotten: &'static str,
    /// The same where the guard goes by what is heard.
    pub forgotten_heard: &'static str,
    pub forgotten_unguarded: &'static str,
    /// What follows when something is evicted.
    pub evicted: &'static str,
    /// What goes on, and for how long, when it fails and nothing takes its place.
    pub without_it: &'static str,
    /// What follows when two masters are written to at once, or the later one has not heard of everything.
    pub split: &'static str,
}

pub(super) fn words(of: StoreUse) -> &'static FaultWords {
    match of {
        StoreUse::Leases => &LEASES,
        StoreUse::Locks => &LOCKS,
        StoreUse::Jobs => &JOBS,
    }
}

static LEASES: FaultWords = FaultWords {
    kept: "leases and tokens",
    each: "every lease that was granted",
    stopped: "no lease can be granted or renewed",
    moving: "while the slot of a role moves to another node, requests for that role fail",
    forgotten: "the guard then elects nobody new for one lease, while a leader stays, and tokens go on rising",
    forgotten_heard: "who has not heard of a lease that it forgot can be a second leader then",
    forgotten_unguarded: "without the guard there can be two leaders then",
    evicted: "each time that costs up to a lease without a leader",
    without_it: "a leader leads until its lease ends",
    split: "there can be two leaders",
};

static LOCKS: FaultWords = FaultWords {
    kept: "locks and their tokens",
    each: "every lock that was granted",
    stopped: "no lock can be granted or extended",
    moving: "while the slot of the locks moves to another node, requests for them fail",
    forgotten: "the guard then grants nobody new for locks.guard, while locks that are extended are put back",
    forgotten_heard: "unless it has forgotten everything, two can have one lock then",
    forgotten_unguarded: "without the guard two can have one lock then",
    evicted: "another is then granted a lock whose holder still relies on it",
    without_it: "locks wait until it is back, or end with their leases",
    split: "two can have one lock",
};

/// A ledger has no guard. What is lost of it, the leader that knows it writes again.
const LOST_LEDGER: &str = "a leader that lives writes its ledgers again; where it is gone as well, runs are repeated, \
                           or not known to have been due";

static JOBS: FaultWords = FaultWords {
    kept: "ledgers of jobs",
    each: "every run that was claimed",
    stopped: "no run can be claimed",
    moving: "while the slot of the ledgers moves to another node, requests for them fail",
    forgotten: LOST_LEDGER,
    forgotten_heard: LOST_LEDGER,
    forgotten_unguarded: LOST_LEDGER,
    evicted: LOST_LEDGER,
    without_it: "runs wait until it is back",
    split: "claims can be forgotten, and runs repeated",
};
