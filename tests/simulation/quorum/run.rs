//! One run of the quorum from a seed to a verdict.

use std::time::Duration;

use baton::protocol::{Input, Rules, Seats};

use super::change::{Change, Way};
use super::faults::Fault;
use super::world::{Happening, LEASE, Scenario, World};
use crate::clockwork::{MS, Nanos, SECOND};
use crate::run::Verdict;
use crate::scenario::{LEADER_WITHIN, TABLE_LENGTH};

/// The rows of the table.
pub const ROWS: [(&str, Rules); 7] = {
    // A failed round takes back what it got, in every row.
    let redlock = Rules { repeat: false, ..Rules::NONE };
    let r3 = Rules { tokens: true, ..redlock };
    let r4 = Rules { reassert: true, ..r3 };
    let r5 = Rules { generation: true, empty: true, longest: true, ..r4 };
    let vanished = Rules { until: true, ..r5 };
    [
        ("Redlock with INCR", redlock),
        ("+ R3 token floor and clock", r3),
        ("+ R4 reassert", r4),
        ("+ R5 generation, empty", r5),
        ("+ R5 vanished", vanished),
        ("+ objection", Rules { objection: true, ..vanished }),
        ("+ R8 heartbeats (all, as shipped)", Rules::QUORUM),
    ]
};

/// A run of the table: five members, 3 replicas at first, at most 12, 240 s.
pub fn table_scenario(seed: u64, rules: Rules, fault: Fault) -> Scenario {
    Scenario {
        seed,
        rules,
        seats: Seats::majority(5),
        change: None,
        fault,
        departures: false,
        silent: 0,
        near: false,
        heard: false,
        late: 0,
        apps: true,
        replicas: 3,
        join_within: SECOND,
        replicas_max: 12,
        first_fault: (14 * SECOND, 20 * SECOND),
        fault_gap: (14 * SECOND, 40 * SECOND),
        faults_until: TABLE_LENGTH,
        table: true,
        log: false,
    }
}

/// A run of the tests: every rule, all faults mixed, three or five members; calm at the end.
pub fn mixed_scenario(seed: u64) -> Scenario {
    Scenario {
        seats: Seats::majority(if seed % 4 == 3 { 3 } else { 5 }),
        faults_until: 150 * SECOND,
        table: false,
        ..table_scenario(seed, Rules::QUORUM, Fault::Mixed)
    }
}

/// A harsher run than the table's: a fault every 1 to 12 s, so that several are there at once.
pub fn storm_scenario(seed: u64) -> Scenario {
    Scenario { fault: Fault::Storm, fault_gap: (SECOND, 12 * SECOND), ..mixed_scenario(seed) }
}

/// The list of members changes and changes back, replica by replica, while the network is split again and again.
pub fn change_scenario(seed: u64, way: Way) -> Scenario {
    const LISTS: [[&[usize]; 2]; 3] =
        [[&[0, 1, 2], &[0, 1, 3]], [&[0, 1, 2], &[0, 1, 2, 3, 4]], [&[0, 1, 2], &[2, 3, 4]]];
    let lists = LISTS[usize::try_from(seed % 3).expect("small")];
    let mixed = mixed_scenario(seed);
    let (fault, fault_gap) = if seed.is_multiple_of(2) {
        (Fault::Zones, (2 * SECOND, 20 * SECOND))
    } else {
        (Fault::Mixed, mixed.fault_gap)
    };
    Scenario {
        seats: Seats::majority(3),
        change: Some(Change { lists, way }),
        fault,
        fault_gap,
        replicas_max: 200,
        ..mixed
    }
}

/// The same, as it is to be done.
pub fn joint_scenario(seed: u64) -> Scenario {
    change_scenario(seed, Way::Joint)
}

/// Every member is needed (`required: all`).
pub fn all_scenario(seed: u64) -> Scenario {
    Scenario { seats: Seats::all(3), ..mixed_scenario(seed) }
}

/// Three members are gone for a long time, then they are back.
pub fn outage_scenario(seed: u64) -> Scenario {
    Scenario { seats: Seats::majority(5), fault: Fault::Outage, faults_until: 20 * SECOND, ..mixed_scenario(seed) }
}

/// The clock of one of three members jumps while two campaign, and nothing else goes wrong.
pub fn midway_scenario(seed: u64) -> Scenario {
    let (fault, fault_gap) = (Fault::Midway, (13 * SECOND, 15 * SECOND));
    Scenario { seats: Seats::majority(3), fault, fault_gap, heard: true, replicas_max: 30, ..mixed_scenario(seed) }
}

/// Twelve candidates begin at once, and none, one or two of five members do not answer.
pub fn duel_scenario(seed: u64) -> Scenario {
    let silent = usize::try_from(seed % 3).expect("small");
    Scenario { replicas: 12, join_within: 50 * MS, silent, ..table_scenario(seed, Rules::QUORUM, Fault::Nothing) }
}

/// A minority of the members is not as the others are while a leader resigns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Minority {
    Well,
    /// One never answers.
    Stopped,
    /// One answers 50 ms late.
    Late,
    /// The leader's release does not reach one that the others do reach.
    CutFromLeader,
}

impl Minority {
    pub const ALL: [Self; 4] = [Self::Well, Self::Stopped, Self::Late, Self::CutFromLeader];
}

/// Three replicas beside their members, no faults: the leader resigns a dozen times. Returns for how long nobody led.
pub fn handovers(seed: u64, members: usize, minority: Minority) -> Vec<Nanos> {
    let scenario = Scenario {
        seats: Seats::majority(members),
        silent: usize::from(minority == Minority::Stopped),
        near: true,
        late: usize::from(minority == Minority::Late),
        apps: false,
        ..table_scenario(seed, Rules::QUORUM, Fault::Nothing)
    };
    let mut world = World::new(scenario);
    world.calm = true;
    for at in 0..scenario.replicas {
        world.at(at as Nanos * SECOND, Happening::Join);
    }
    // After the guard of a new role, and after who is silent has been found out.
    play(&mut world, 2 * LEASE);
    world.now = 2 * LEASE;
    let mut waits = Vec::new();
    for _ in 0..12 {
        let since = world.now;
        let old = world.leader().expect("somebody leads when all is well");
        if minority == Minority::CutFromLeader {
            world.replicas[old].cut_until[0] = since + 2 * SECOND;
        }
        world.input(old, Input::Resign { cooldown: Duration::from_secs(30) });
        while world.leader().is_none() {
            let Some(happening) = world.next(since + 10 * LEASE) else { break };
            world.happen(happening);
        }
        waits.push(world.now - since);
        let end = since + 31 * SECOND;
        play(&mut world, end);
        world.now = end;
    }
    waits
}

/// A scenario for each seed.
pub type Plan = fn(u64) -> Scenario;

/// The scenarios of the tests, by name.
pub const SCENARIOS: [(&str, Plan); 10] = [
    ("mixed", mixed_scenario),
    ("storm", storm_scenario),
    ("all", all_scenario),
    ("outage", outage_scenario),
    ("duel", duel_scenario),
    ("departures", departures_scenario),
    ("midway", midway_scenario),
    ("joint", joint_scenario),
    ("told", |seed| change_scenario(seed, Way::Told)),
    ("untold", |seed| change_scenario(seed, Way::Silent)),
];

/// Mixed runs and storms in which the ends of processes are told of.
pub fn departures_scenario(seed: u64) -> Scenario {
    let scenario = if seed.is_multiple_of(2) { mixed_scenario(seed) } else { storm_scenario(seed) };
    Scenario { departures: true, ..scenario }
}

/// Plays one scenario to its end. The same scenario gives the same run.
pub fn run(scenario: Scenario) -> Verdict {
    let mut world = World::new(scenario);
    for _ in 0..scenario.replicas {
        let when = world.span(0, scenario.join_within);
        world.at(when, Happening::Join);
    }
    let (least, most) = scenario.first_fault;
    let first = world.span(least, most);
    world.at(first, Happening::Fault);
    if scenario.change.is_some() {
        world.at(first, Happening::Roll);
    }
    if scenario.table {
        play(&mut world, TABLE_LENGTH);
        return verdict(world, TABLE_LENGTH, None);
    }
    play(&mut world, scenario.faults_until);
    while world.now < world.faults_end {
        let end = world.faults_end;
        play(&mut world, end);
        world.now = end;
    }
    world.calm = true;
    let calm_since = world.now;
    world.note(|_| "all is calm from here on".to_owned());
    let end = calm_since + LEADER_WITHIN;
    play(&mut world, end);
    if world.checker.last_led.is_none_or(|last| last < calm_since) {
        return verdict(world, end, Some("nobody leads two leases and a second after the last fault".to_owned()));
    }
    // Whatever others were granted ends within a lease; from then on every member follows.
    let end = end + LEASE + LEASE / 2;
    play(&mut world, end);
    let strays = world.strays();
    let stray = (strays > 0).then(|| format!("{strays} members do not follow the leader after all has been calm"));
    verdict(world, end, stray)
}

fn play(world: &mut World, end: Nanos) {
    world.at(end, Happening::Look);
    while let Some(happening) = world.next(end) {
        world.look_around();
        world.happen(happening);
        world.look_around();
    }
}

fn verdict(world: World, length: Nanos, not_healed: Option<String>) -> Verdict {
    let checker = world.checker;
    Verdict {
        two_leaders: checker.two_leaders > 0,
        token_regressions: checker.token_regressions > 0,
        refused_incumbents: checker.refused_incumbents > 0,
        no_quorum: checker.no_quorum > 0,
        no_leader: not_healed.is_some(),
        led_share: checker.led_for as f64 / length as f64,
        first_led_ms: checker.first_led.map(|at| at / MS),
        terms: checker.terms,
        first: checker.first.or(not_healed),
        log: world.log,
        trace: Vec::new(),
    }
}
