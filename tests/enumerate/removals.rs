//! What each rule is for: without it, and without others that close the same hole, this is how soon which promise
//! breaks.

use crate::bounds::Fault::{Evict, Failover, Flush, Forward, Kill, Late, Lost, Pause, Resign};
use crate::bounds::{Bounds, P1, P2, P3, P4, P5, quorum};
use crate::clock::SECOND;

/// Switches a rule off.
type Switch = (&'static str, fn(&mut Bounds));

pub const SWITCHES: [Switch; 18] = [
    ("repeat", |bounds| bounds.rules.repeat = false),
    ("fresh_repeat", |bounds| bounds.rules.fresh_repeat = false),
    ("makes_way", |bounds| bounds.rules.makes_way = false),
    ("sent_at", |bounds| bounds.rules.sent_at = false),
    ("tokens", |bounds| bounds.rules.tokens = false),
    ("reassert", |bounds| bounds.rules.reassert = false),
    ("generation", |bounds| bounds.rules.generation = false),
    ("empty", |bounds| bounds.rules.empty = false),
    ("longest", |bounds| bounds.rules.longest = false),
    ("vanished", |bounds| bounds.rules.vanished = false),
    ("until", |bounds| bounds.rules.until = false),
    ("still", |bounds| bounds.rules.still = false),
    ("promises", |bounds| bounds.rules.promises = false),
    ("heartbeats", |bounds| bounds.rules.heartbeats = false),
    ("listening", |bounds| bounds.rules.listening = false),
    ("objection", |bounds| bounds.rules.objection = false),
    ("newest_term", |bounds| bounds.rules.newest_term = false),
    ("attempts", |bounds| bounds.attempts_rise = false),
];

/// A rule, and the shortest way to what it closes.
pub struct Removal {
    /// The rule, and others that would close the same hole beside it: any of them by itself does.
    pub off: &'static [&'static str],
    pub bounds: Bounds,
    pub breaks: &'static str,
    /// What happens.
    pub story: &'static str,
}

const fn short(bounds: Bounds) -> Bounds {
    Bounds { is_second_short: true, ..bounds }
}

pub const REMOVALS: [Removal; 12] = [
    Removal {
        off: &["fresh_repeat"],
        bounds: short(Bounds::new(&[Failover, Lost, Pause], 3, 7 * SECOND)),
        breaks: P1,
        story: "an answer is lost, and its sidecar stands still; another is granted the role when the lease has run \
            out; a replica takes over that knows the first of both, who asks again and is granted the same term",
    },
    Removal {
        off: &["sent_at"],
        bounds: Bounds::new(&[Late, Pause], 2, 12 * SECOND),
        breaks: P1,
        story: "an answer comes late, and its sidecar counts a whole lease from then",
    },
    Removal {
        off: &["tokens"],
        bounds: Bounds::new(&[Flush, Kill], 2, 30 * SECOND),
        breaks: P2,
        story: "the data are lost, the leader is killed, and the next term counts from one",
    },
    Removal {
        off: &["reassert"],
        bounds: Bounds::new(&[Flush], 1, 25 * SECOND),
        breaks: P5,
        story: "the data are lost, and the incumbent's next renewal is refused",
    },
    Removal {
        off: &["generation"],
        bounds: Bounds::new(&[Resign, Failover], 2, 25 * SECOND),
        breaks: P1,
        story: "a replica takes over that has heard of a release, and not of the grant after it",
    },
    Removal {
        off: &["empty", "still"],
        bounds: Bounds::new(&[Flush], 1, 25 * SECOND),
        breaks: P1,
        story: "the data are lost while a lease stands, and the next candidate is granted the role",
    },
    Removal {
        off: &["vanished", "still"],
        bounds: Bounds::new(&[Evict], 1, 25 * SECOND),
        breaks: P1,
        story: "the lease is deleted, and the next candidate is granted the role",
    },
    Removal {
        off: &["until", "still"],
        bounds: short(Bounds::new(&[Evict, Pause], 2, 12 * SECOND)),
        breaks: P1,
        story: "a long lease is deleted while its leader stands still: a candidate with a short one has known of it \
            for its own length",
    },
    Removal {
        off: &["longest"],
        bounds: short(Bounds::new(&[Evict, Pause], 2, 12 * SECOND)),
        breaks: P1,
        story: "a long lease is deleted while its leader stands still, and a candidate with a short one waits for its \
            own length only",
    },
    Removal {
        off: &["still", "listening"],
        bounds: Bounds::new(&[Forward, Pause], 2, 15 * SECOND),
        breaks: P1,
        story: "the store's clock is set forward while the leader stands still: lease and guard are over at once",
    },
    Removal {
        off: &["promises"],
        bounds: Bounds::new(&[Resign], 1, 25 * SECOND),
        breaks: P3,
        story: "a leader hands over while its app may still act",
    },
    Removal {
        off: &["heartbeats"],
        bounds: Bounds { is_prompt: true, ..Bounds::new(&[Resign], 1, 25 * SECOND) },
        breaks: P4,
        story: "a lease is given back, and nobody knows before it looks by itself",
    },
];

/// The same of a quorum.
pub const REMOVALS_OF_QUORUM: [Removal; 1] = [Removal {
    off: &["promises"],
    bounds: quorum(&[Resign], 1, 16 * SECOND),
    breaks: P3,
    story: "a leader hands over while its app may still act",
}];

/// Rules without which nothing breaks here, and why.
pub const UNSHOWN: [(&str, &str); 5] = [
    (
        "objection",
        "a quorum's: two members must forget a lease while a candidate asks: more faults than were searched to the \
            end; the simulation and the specification show it",
    ),
    (
        "newest_term",
        "a quorum's: a member must forget a lease between two steps of a campaign that another has not heard of, as \
            above",
    ),
    ("repeat", "without it a lost grant is found under a new token: a term more, and every promise kept"),
    (
        "makes_way",
        "it concerns who is granted the role and never gets an answer that counts: that somebody leads is no promise \
            that a state shows; the simulation shows it",
    ),
    (
        "attempts",
        "a role that a reload brings back waits here, as in the process, for the end of the task that had its name, \
            which closes the same hole; the simulation shows both without",
    ),
];

/// The same without these rules.
pub fn without(bounds: Bounds, names: &[&str]) -> Bounds {
    let mut bounds = bounds;
    for name in names {
        let (_, off) = SWITCHES.iter().find(|(known, _)| known == name).expect("a known rule");
        off(&mut bounds);
    }
    bounds
}
