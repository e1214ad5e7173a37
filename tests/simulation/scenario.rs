//! What a run is about: which rules, which servers, what goes wrong and when.

use baton::protocol::Rules;

use crate::app_sign::AppSign;
use crate::clockwork::{Nanos, SECOND};
use crate::departures::Evidence;
use crate::faults::Fault;

/// The lease of the table in section 1: 10 s, renewed every third.
pub const LEASE: Nanos = 10 * SECOND;
/// How long a run of the table is.
pub const TABLE_LENGTH: Nanos = 240 * SECOND;
/// How soon a leader must be there once all is calm: two leases and a second.
pub const LEADER_WITHIN: Nanos = 2 * LEASE + SECOND;

/// What of a server a record is written under (R5 *generation*).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// The process.
    RunId,
    /// Its replication history, which a promotion begins anew.
    Replid,
    /// That, and how many replicas have come that began from scratch.
    ReplidAndFullSyncs,
    /// That, and how many replicas have come (R6).
    ReplidAndSyncs,
    /// Nothing: nobody asks (`guard: heard`).
    Unasked,
}

/// How scripts learn of which generation the server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asks {
    /// They ask it themselves.
    InScript,
    /// The sidecar has asked on the same connection, which goes through a proxy and outlives whatever stands behind
    /// that, and asks again behind the script.
    BeforeAndBehind,
    /// The same, but what it is told behind is only kept for the next script, and not compared.
    NotCompared,
}

/// What the process around an election and the store's adapter do for the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Around {
    /// False for `guard: off`.
    pub guard: bool,
    pub mark: Mark,
    pub asks: Asks,
    /// R5: a renewal that finds all as it left it asks of which generation the server is now. The adapter asks once for
    /// each connection, and with acknowledgements each time.
    pub renewals_ask: bool,
    /// R6: an acknowledged grant counts only if its server says so afterwards.
    pub confirm: bool,
    /// R1: a role that is configured again waits for the end of the task that had its name.
    pub waits_for_the_old_task: bool,
    /// R1: attempts never repeat in a process.
    pub attempts_rise: bool,
}

impl Around {
    pub const ALL: Self = Self {
        guard: true,
        mark: Mark::ReplidAndSyncs,
        asks: Asks::InScript,
        renewals_ask: true,
        confirm: true,
        waits_for_the_old_task: true,
        attempts_rise: true,
    };
    pub const NONE: Self = Self {
        guard: true,
        mark: Mark::RunId,
        asks: Asks::InScript,
        renewals_ask: true,
        confirm: false,
        waits_for_the_old_task: false,
        attempts_rise: false,
    };
    /// Without acknowledgements there is nothing to confirm.
    pub const ALONE: Self = Self { mark: Mark::Replid, confirm: false, ..Self::ALL };
    /// `guard: heard`, and `durability: synchronous`.
    pub const HEARD: Self = Self { mark: Mark::Unasked, ..Self::ALONE };
    /// `guard: off`.
    pub const UNGUARDED: Self = Self { guard: false, ..Self::ALONE };
}

/// What a run is about.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    pub seed: u64,
    pub rules: Rules,
    pub around: Around,
    /// How many Redis servers: a master and its replicas.
    pub servers: usize,
    /// R6: how many of its replicas have to acknowledge a write.
    pub acks: usize,
    /// A write is answered once it is in a log, from which whoever takes over begins.
    pub durable: bool,
    pub fault: Fault,
    /// What is taken for the proof that a process has ended.
    pub evidence: Evidence,
    /// How apps show that they live.
    pub app: AppSign,
    /// How many processes at the start.
    pub replicas: usize,
    /// How many may live at a time.
    pub living_max: usize,
    /// What leases there are. Each process has one of them.
    pub leases: [Nanos; 2],
    /// The least and the longest time from one fault to the next.
    pub fault_gap: (Nanos, Nanos),
    /// When the last fault may begin.
    pub faults_until: Nanos,
    /// Something that never heals, at the end.
    pub for_ever: bool,
    /// At the end every subscription breaks again and again, for ever.
    pub endless_gaps: bool,
    /// True: the network is lossy to the end and only the length counts, as in the published table. False: after the
    /// last fault it is calm, and at the end of two leases and a second somebody must lead.
    pub table: bool,
    /// Keep a log of every event, to be printed.
    pub log: bool,
    /// Keep the steps of the servers, to be held against the specification.
    pub trace: bool,
}

impl Scenario {
    pub fn longest_lease(&self) -> Nanos {
        self.leases[0].max(self.leases[1])
    }

    /// How soon a leader must be there once all is calm.
    pub fn leader_within(&self) -> Nanos {
        2 * self.longest_lease() + SECOND
    }
}

/// A row of the table: a name and what is in force.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub name: &'static str,
    pub rules: Rules,
    pub around: Around,
    pub acks: usize,
    pub durable: bool,
}

pub const ROWS: [Row; 8] = {
    const fn row(name: &'static str, rules: Rules, around: Around, acks: usize) -> Row {
        Row { name, rules, around, acks, durable: false }
    }
    let r3 = Rules { tokens: true, ..Rules::NONE };
    let r4 = Rules { reassert: true, ..r3 };
    let generation = Rules { generation: true, empty: true, longest: true, fresh_repeat: true, ..r4 };
    let vanished = Rules { vanished: true, until: true, ..generation };
    [
        row("TTL and INCR (what peers do)", Rules::NONE, Around::NONE, 0),
        row("+ R3 token floor and clock, R5 regression", r3, Around::NONE, 0),
        row("+ R4 reassert", r4, Around::NONE, 0),
        row("+ R5 generation, empty", generation, Around::ALONE, 0),
        row("+ R5 vanished", vanished, Around::ALONE, 0),
        row("+ R8 heartbeats", Rules { still: false, ..Rules::REDIS }, Around::ALONE, 0),
        row("+ R5 watched for a lease", Rules::REDIS, Around::ALONE, 0),
        row("+ R6 one acknowledgement", Rules::REDIS, Around::ALL, 1),
    ]
};

/// The rows of the table of levels: how much of R5 is in force, and how a script learns of the server.
pub const LEVELS: [Row; 10] = {
    const fn row(name: &'static str, around: Around, acks: usize, durable: bool) -> Row {
        Row { name, rules: Rules::REDIS, around, acks, durable }
    }
    const fn told(asks: Asks, around: Around) -> Around {
        Around { asks, ..around }
    }
    [
        row("`guard: off`", Around::UNGUARDED, 0, false),
        row("`guard: heard`; or `durability: synchronous` where that is not true", Around::HEARD, 0, false),
        row("`guard: strict`", Around::ALONE, 0, false),
        row("`guard: heard`, one acknowledgement", Around::HEARD, 1, false),
        row("`durability: synchronous`, where it is true", Around::HEARD, 0, true),
        row("the same store under `guard: strict` alone", Around::ALONE, 0, true),
        row("`strict`, told by the connection, not compared behind", told(Asks::NotCompared, Around::ALONE), 0, false),
        row("`strict`, told by the connection", told(Asks::BeforeAndBehind, Around::ALONE), 0, false),
        row("the same, one acknowledgement, not compared behind", told(Asks::NotCompared, Around::ALL), 1, false),
        row("the same, one acknowledgement", told(Asks::BeforeAndBehind, Around::ALL), 1, false),
    ]
};

/// What the table of levels is about: what befalls stores.
pub const LEVEL_FAULTS: [Fault; 12] = [
    Fault::RestartKept,
    Fault::RestartLost,
    Fault::RestartLate,
    Fault::Failover,
    Fault::LostGrant,
    Fault::Split,
    Fault::Sides,
    Fault::OldMaster,
    Fault::Clock,
    Fault::Evict,
    Fault::Flush,
    Fault::Pairs,
];

/// A run of the table: three servers, 4 processes at first, 240 s.
pub fn table_scenario(seed: u64, row: Row, fault: Fault) -> Scenario {
    Scenario {
        seed,
        rules: row.rules,
        around: row.around,
        servers: 3,
        acks: row.acks,
        durable: row.durable,
        fault,
        evidence: Evidence::Nothing,
        app: AppSign::Asks,
        replicas: if fault.is_of_few() { 1 } else { 4 },
        living_max: if !fault.is_of_few() { 8 } else { 2 + usize::from(fault == Fault::LostGrant) },
        leases: if fault == Fault::Lengths { [LEASE, 3 * LEASE] } else { [LEASE, LEASE] },
        fault_gap: (15 * SECOND, 40 * SECOND),
        faults_until: TABLE_LENGTH,
        for_ever: false,
        endless_gaps: false,
        table: true,
        log: false,
        trace: false,
    }
}

/// A run of the tests: 1 to 3 servers, 3 to 5 processes, every rule, all faults mixed; calm at the end, when a leader
/// must be found.
pub fn mixed_scenario(seed: u64) -> Scenario {
    let small = |number: u64| usize::try_from(number).expect("small");
    let servers = [3, 3, 2, 1][small(seed / 3 % 4)];
    Scenario {
        seed,
        rules: Rules::REDIS,
        around: if servers > 1 { Around::ALL } else { Around::ALONE },
        servers,
        acks: usize::from(servers > 1),
        durable: false,
        fault: Fault::Mixed,
        evidence: Evidence::Nothing,
        app: AppSign::Asks,
        replicas: 3 + small(seed % 3),
        living_max: 6,
        leases: [LEASE, LEASE],
        fault_gap: (15 * SECOND, 40 * SECOND),
        faults_until: 150 * SECOND,
        for_ever: seed.is_multiple_of(5),
        endless_gaps: false,
        table: false,
        log: false,
        trace: false,
    }
}

/// A harsher run than the table's: a fault every 1 to 12 s, so that several are there at once.
pub fn storm_scenario(seed: u64) -> Scenario {
    Scenario { fault: Fault::Storm, fault_gap: (SECOND, 12 * SECOND), ..mixed_scenario(seed) }
}

/// Two faults within a lease, then time to get over them.
pub fn pairs_scenario(seed: u64) -> Scenario {
    Scenario { fault: Fault::Pairs, fault_gap: (20 * SECOND, 45 * SECOND), ..mixed_scenario(seed) }
}

/// Leases of two lengths, and whatever leaves the record where it is.
pub fn lengths_scenario(seed: u64) -> Scenario {
    let leases = [[LEASE, 3 * LEASE], [LEASE, 3 * SECOND]][usize::from(seed % 2 == 1)];
    Scenario { fault: Fault::Lengths, leases, fault_gap: (5 * SECOND, 40 * SECOND), ..mixed_scenario(seed) }
}

/// One or two processes, whose role is removed and added again by reloads.
pub fn reloads_scenario(seed: u64) -> Scenario {
    let gap = (8 * SECOND, 25 * SECOND);
    Scenario {
        fault: Fault::Reload,
        replicas: 1,
        living_max: 2,
        for_ever: false,
        fault_gap: gap,
        ..mixed_scenario(seed)
    }
}

/// A leader dies when every subscription has begun to break again and again.
pub fn gaps_scenario(seed: u64) -> Scenario {
    Scenario { fault: Fault::Flapping, for_ever: true, endless_gaps: true, ..mixed_scenario(seed) }
}

/// A run that is held against the specification: as those of the tests, and shorter.
pub fn traced_scenario(seed: u64) -> Scenario {
    let (_, kind) = SCENARIOS[usize::try_from(seed % 5).expect("small")];
    Scenario { faults_until: 60 * SECOND, for_ever: false, trace: true, ..kind(seed) }
}

/// A name, and what gives its run of a seed.
pub type Named = (&'static str, fn(u64) -> Scenario);

/// Those that may be named, for the example and for seeds that are kept.
pub const SCENARIOS: [Named; 6] = [
    ("mixed", mixed_scenario),
    ("storm", storm_scenario),
    ("pairs", pairs_scenario),
    ("lengths", lengths_scenario),
    ("reloads", reloads_scenario),
    ("gaps", gaps_scenario),
];

/// A mixed run or a storm in which the ends of processes are told of, and believed on this evidence.
pub fn departures_scenario(seed: u64, evidence: Evidence) -> Scenario {
    let scenario = if seed.is_multiple_of(2) { mixed_scenario(seed) } else { storm_scenario(seed) };
    Scenario { evidence, ..scenario }
}

/// A mixed run or a storm in which apps keep a connection, and are killed.
pub fn apps_scenario(seed: u64, app: AppSign) -> Scenario {
    Scenario { app, ..departures_scenario(seed, Evidence::Nothing) }
}

/// A run of the table of departures.
pub fn departures_table_scenario(seed: u64, evidence: Evidence, app: AppSign, fault: Fault) -> Scenario {
    Scenario { evidence, app, ..table_scenario(seed, ROWS[ROWS.len() - 1], fault) }
}

/// What may be switched off, one at a time, and how.
pub type Switch = (&'static str, fn(&mut Scenario));

pub const SWITCHES: [Switch; 22] = [
    ("repeat", |scenario| scenario.rules.repeat = false),
    ("fresh_repeat", |scenario| scenario.rules.fresh_repeat = false),
    ("makes_way", |scenario| scenario.rules.makes_way = false),
    ("sent_at", |scenario| scenario.rules.sent_at = false),
    ("tokens", |scenario| scenario.rules.tokens = false),
    ("reassert", |scenario| scenario.rules.reassert = false),
    ("generation", |scenario| scenario.rules.generation = false),
    ("empty", |scenario| scenario.rules.empty = false),
    ("longest", |scenario| scenario.rules.longest = false),
    ("vanished", |scenario| scenario.rules.vanished = false),
    ("until", |scenario| scenario.rules.until = false),
    ("still", |scenario| scenario.rules.still = false),
    ("promises", |scenario| scenario.rules.promises = false),
    ("heartbeats", |scenario| scenario.rules.heartbeats = false),
    ("listening", |scenario| scenario.rules.listening = false),
    ("asking", |scenario| scenario.around.renewals_ask = false),
    ("confirm", |scenario| (scenario.around.confirm, scenario.around.mark) = (false, Mark::Replid)),
    ("partial", |scenario| scenario.around.mark = Mark::ReplidAndFullSyncs),
    ("replid", |scenario| (scenario.around.confirm, scenario.around.mark) = (false, Mark::RunId)),
    ("waits", |scenario| scenario.around.waits_for_the_old_task = false),
    ("attempts", |scenario| scenario.around.attempts_rise = false),
    ("reload", |scenario| {
        (scenario.around.waits_for_the_old_task, scenario.around.attempts_rise) = (false, false);
    }),
];

/// The same without one of the rules, or several: `still+until`.
pub fn without(scenario: Scenario, names: &str) -> Option<Scenario> {
    let mut scenario = scenario;
    for name in names.split('+') {
        let (_, off) = SWITCHES.iter().find(|(known, _)| *known == name)?;
        off(&mut scenario);
    }
    Some(scenario)
}
