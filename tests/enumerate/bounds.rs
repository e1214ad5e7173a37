//! Within what bounds is searched: which rules, what may befall, how many times, and for how long.

use std::time::Duration;

use baton::protocol::{Rules, Timing};

use crate::app_sign::AppSign;
use crate::clock::{Nanos, SECOND};

/// What may befall. Each time costs one of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A message never arrives.
    Lost,
    /// A message arrives at some later moment, behind others or not at all.
    Late,
    /// A process stands still.
    Pause,
    /// A process is killed, and another starts in its place.
    Kill,
    /// A role is removed and added again while its process runs.
    Reload,
    /// The leader is asked to hand over.
    Resign,
    /// Another server stands there with the same data.
    Restart,
    /// Another server stands there without any.
    Loss,
    /// Another server stands there, with what was there at some earlier moment.
    Failover,
    Flush,
    /// The lease is deleted, and its record is not.
    Evict,
    /// The store's clock is set forward, or back, by one and a half leases.
    Forward,
    Back,
    /// The leader's app, which keeps a connection, is killed, or stops by itself.
    AppDies,
    AppStops,
}

impl Fault {
    pub const ALL: [Self; 15] = [
        Self::Lost,
        Self::Late,
        Self::Pause,
        Self::Kill,
        Self::Reload,
        Self::Resign,
        Self::Restart,
        Self::Loss,
        Self::Failover,
        Self::Flush,
        Self::Evict,
        Self::Forward,
        Self::Back,
        Self::AppDies,
        Self::AppStops,
    ];
}

/// Of the promises of docs/guarantees.md. P3 here: while an app may act on an answer, no other may.
pub const P1: &str = "P1";
pub const P2: &str = "P2";
pub const P3: &str = "P3";
pub const P4: &str = "P4";
pub const P5: &str = "P5";

/// The world of one search.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub rules: Rules,
    pub faults: &'static [Fault],
    /// How many of them there are at most, all together.
    pub faults_max: u8,
    /// No longer than this, in true time.
    pub until: Nanos,
    /// The second replica's lease is half as long as the first one's.
    pub is_second_short: bool,
    /// The store has not forgotten anything at the start: nobody has ever held the role.
    pub is_known: bool,
    /// R5: a renewal that finds all as it left it asks of which generation the server is now.
    pub renewals_ask: bool,
    /// R1: the campaigns of a process are numbered for as long as it lives.
    pub attempts_rise: bool,
    /// P4 is promised where nothing is lost, late or slow.
    pub is_prompt: bool,
    /// How apps show that they live.
    pub app: AppSign,
}

pub const LEASE: Nanos = 10 * SECOND;

/// What is searched to its end.
pub struct Model {
    pub title: &'static str,
    pub bounds: Bounds,
}

const ANY: &[Fault] = &Fault::ALL;
const NETWORK: &[Fault] = &[Fault::Lost, Fault::Late, Fault::Resign, Fault::Kill];
const STORE: &[Fault] = &[
    Fault::Restart,
    Fault::Loss,
    Fault::Failover,
    Fault::Flush,
    Fault::Evict,
    Fault::Forward,
    Fault::Back,
    Fault::Kill,
];

const fn model(title: &'static str, bounds: Bounds) -> Model {
    Model { title, bounds }
}

const fn short(bounds: Bounds) -> Bounds {
    Bounds { is_second_short: true, ..bounds }
}

pub const fn of_app(app: AppSign, faults: &'static [Fault], faults_max: u8, until: Nanos) -> Bounds {
    Bounds { app, ..Bounds::new(faults, faults_max, until) }
}

/// In every `make test`: seconds, in a build for debugging.
pub const MODELS: [Model; 9] = [
    model("any one fault", Bounds::new(ANY, 1, 25 * SECOND)),
    model("any one fault, leases of two lengths", short(Bounds::new(ANY, 1, 25 * SECOND))),
    model(
        "any one fault, and a store that knows nothing at first",
        Bounds { is_known: false, ..Bounds::new(ANY, 1, 35 * SECOND) },
    ),
    model(
        "any one fault, and renewals do not ask which server it is",
        Bounds { renewals_ask: false, ..Bounds::new(ANY, 1, 25 * SECOND) },
    ),
    model(
        "two handovers, and nothing amiss",
        Bounds { is_prompt: true, ..Bounds::new(&[Fault::Resign], 2, 25 * SECOND) },
    ),
    model("any one fault, and apps alone at their connections", of_app(AppSign::OfProcess, ANY, 1, 25 * SECOND)),
    model("any one fault, and apps with children behind them", of_app(AppSign::OfPod, ANY, 1, 25 * SECOND)),
    model("two of: lost, late, a kill, a handover", Bounds::new(NETWORK, 2, 12 * SECOND)),
    model("two of what befalls stores, or a kill", Bounds::new(STORE, 2, 12 * SECOND)),
];

const OF_NOBODYS_NETWORK: &[Fault] =
    &[Fault::Kill, Fault::Resign, Fault::Restart, Fault::Loss, Fault::Evict, Fault::Forward];
const OF_MEMBERS: &[Fault] = &[
    Fault::Lost,
    Fault::Late,
    Fault::Pause,
    Fault::Kill,
    Fault::Resign,
    Fault::Restart,
    Fault::Loss,
    Fault::Evict,
    Fault::Forward,
];

/// Three masters and a majority of them.
pub const fn quorum(faults: &'static [Fault], faults_max: u8, until: Nanos) -> Bounds {
    Bounds { rules: Rules::QUORUM, ..Bounds::new(faults, faults_max, until) }
}

/// In every `make test`: whoever is the first to lead waits for a lease until then.
pub const OF_QUORUM: [Model; 1] =
    [model("a quorum, and any one fault of a process or a member", quorum(OF_NOBODYS_NETWORK, 1, 14 * SECOND))];

/// In every `make chaos`.
pub const OF_QUORUM_WIDER: [Model; 1] = [model("a quorum, and any one fault", quorum(OF_MEMBERS, 1, 25 * SECOND))];

/// In every `make chaos`: minutes, in a build that is optimised.
pub const WIDER: [Model; 5] = [
    model("any two faults", Bounds::new(ANY, 2, 25 * SECOND)),
    model("any two faults, and apps alone at their connections", of_app(AppSign::OfProcess, ANY, 2, 16 * SECOND)),
    model("any two faults, and apps with children behind them", of_app(AppSign::OfPod, ANY, 2, 16 * SECOND)),
    model("any two faults, leases of two lengths", short(Bounds::new(ANY, 2, 16 * SECOND))),
    model(
        "any two faults, and a store that knows nothing at first",
        Bounds { is_known: false, ..Bounds::new(ANY, 2, 25 * SECOND) },
    ),
];

impl Bounds {
    pub const fn new(faults: &'static [Fault], faults_max: u8, until: Nanos) -> Self {
        Self {
            rules: Rules::REDIS,
            faults,
            faults_max,
            until,
            is_second_short: false,
            is_known: true,
            renewals_ask: true,
            attempts_rise: true,
            is_prompt: false,
            app: AppSign::Asks,
        }
    }

    /// What must hold within them.
    pub const fn promises(&self) -> &'static [&'static str] {
        if self.is_prompt { &[P1, P2, P3, P4, P5] } else { &[P1, P2, P3, P5] }
    }

    pub fn may(&self, fault: Fault) -> bool {
        self.faults.contains(&fault)
    }

    /// As sharp as timings may be: as few renewals as a lease needs, and a margin that two clocks eat up.
    pub fn timing(&self, at: usize) -> Timing {
        let lease = if at == 1 && self.is_second_short { LEASE / 2 } else { LEASE };
        let of_lease = |thousandths: u64| Duration::from_nanos(lease * thousandths / 1_000);
        Timing::new(of_lease(1_000), of_lease(485), of_lease(20), of_lease(300)).expect("possible timings")
    }
}
