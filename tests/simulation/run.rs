//! One run from a seed to a verdict, and many of them.

use std::sync::atomic::{AtomicU64, Ordering};

use baton::protocol::Rules;

use crate::clockwork::{MS, Nanos, SECOND};
use crate::departures::Evidence;
use crate::faults::Fault;
use crate::world::{Happening, LEASE, Scenario, World};

/// How long a run of the table is.
pub const TABLE_LENGTH: Nanos = 240 * SECOND;
/// How soon a leader must be there once all is calm: two leases and a second.
pub const LEADER_WITHIN: Nanos = 2 * LEASE + SECOND;

/// What came of a run.
#[derive(Debug)]
pub struct Verdict {
    pub two_leaders: bool,
    pub token_regressions: bool,
    pub refused_incumbents: bool,
    /// Somebody led without enough members of a quorum.
    pub no_quorum: bool,
    pub no_leader: bool,
    pub led_share: f64,
    /// When somebody led first.
    pub first_led_ms: Option<u64>,
    pub terms: u64,
    /// What went wrong first.
    pub first: Option<String>,
    pub log: Vec<String>,
}

impl Verdict {
    pub fn is_clean(&self) -> bool {
        !(self.two_leaders || self.token_regressions || self.refused_incumbents || self.no_quorum || self.no_leader)
    }
}

/// A row of the table: a name, the rules, and whether writes are acknowledged (R6).
pub const ROWS: [(&str, Rules, bool); 7] = {
    let r3 = Rules { tokens: true, ..Rules::NONE };
    let r4 = Rules { reassert: true, ..r3 };
    let generation = Rules { generation: true, empty: true, longest: true, fresh_repeat: true, ..r4 };
    let vanished = Rules { vanished: true, until: true, ..generation };
    [
        ("TTL and INCR (what peers do)", Rules::NONE, false),
        ("+ R3 token floor and clock, R5 regression", r3, false),
        ("+ R4 reassert", r4, false),
        ("+ R5 generation, empty", generation, false),
        ("+ R5 vanished", vanished, false),
        ("+ R8 heartbeats", Rules::REDIS, false),
        ("+ R6 one acknowledgement", Rules::REDIS, true),
    ]
};

/// A run of the table: 4 replicas at first, at most 16, 240 s.
pub fn table_scenario(seed: u64, rules: Rules, acks: bool, fault: Fault) -> Scenario {
    Scenario {
        seed,
        rules,
        acks,
        fault,
        evidence: Evidence::Nothing,
        replicas: 4,
        replicas_max: 16,
        fault_gap: (15 * SECOND, 40 * SECOND),
        faults_until: TABLE_LENGTH,
        table: true,
        log: false,
    }
}

/// A run of the tests: 3 to 5 replicas, every rule, all faults mixed; calm at the end, when a leader must be found.
pub fn mixed_scenario(seed: u64) -> Scenario {
    Scenario {
        seed,
        rules: Rules::REDIS,
        acks: true,
        fault: Fault::Mixed,
        evidence: Evidence::Nothing,
        replicas: 3 + usize::try_from(seed % 3).expect("small"),
        replicas_max: 12,
        fault_gap: (15 * SECOND, 40 * SECOND),
        faults_until: 150 * SECOND,
        table: false,
        log: false,
    }
}

/// A harsher run than the table's: a fault every 1 to 12 s, so that several are there at once.
pub fn storm_scenario(seed: u64) -> Scenario {
    Scenario { acks: false, fault: Fault::Storm, fault_gap: (SECOND, 12 * SECOND), ..mixed_scenario(seed) }
}

/// A mixed run or a storm in which the ends of processes are told of, and believed on this evidence.
pub fn departures_scenario(seed: u64, evidence: Evidence) -> Scenario {
    let scenario = if seed.is_multiple_of(2) { mixed_scenario(seed) } else { storm_scenario(seed) };
    Scenario { evidence, ..scenario }
}

/// A run of the table of departures.
pub fn departures_table_scenario(seed: u64, evidence: Evidence, fault: Fault) -> Scenario {
    Scenario { evidence, ..table_scenario(seed, Rules::REDIS, true, fault) }
}

/// Plays one scenario to its end. The same scenario gives the same run.
pub fn run(scenario: Scenario) -> Verdict {
    let mut world = World::new(scenario);
    for _ in 0..scenario.replicas {
        let when = world.span(0, SECOND);
        world.at(when, Happening::Join);
    }
    world.at(0, Happening::Replicate);
    let first = world.span(14 * SECOND, 22 * SECOND);
    world.at(first, Happening::Fault);
    if scenario.table {
        play(&mut world, TABLE_LENGTH);
        return verdict(world, TABLE_LENGTH, false);
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
    world.at(end, Happening::Look);
    play(&mut world, end);
    let no_leader = world.checker.last_led.is_none_or(|last| last < calm_since);
    verdict(world, end, no_leader)
}

fn play(world: &mut World, end: Nanos) {
    while let Some(happening) = world.next(end) {
        world.look_around();
        world.happen(happening);
        world.look_around();
    }
}

fn verdict(world: World, length: Nanos, no_leader: bool) -> Verdict {
    let checker = world.checker;
    let first = checker
        .first
        .or_else(|| no_leader.then(|| "nobody leads two leases and a second after the last fault".to_owned()));
    Verdict {
        two_leaders: checker.two_leaders > 0,
        token_regressions: checker.token_regressions > 0,
        // A split, a step of the store's clock or rules switched off may rightly cost an incumbent its term.
        refused_incumbents: checker.refused_incumbents > 0,
        no_quorum: false,
        no_leader,
        led_share: checker.led_for as f64 / length as f64,
        first_led_ms: checker.first_led.map(|at| at / MS),
        terms: checker.terms,
        first,
        log: world.log,
    }
}

/// Plays `count` seeds on every core and folds their verdicts. `fold` sees them in no particular order.
pub fn run_many<V, T: Send>(
    count: u64,
    play: impl Fn(u64) -> V + Sync,
    zero: impl Fn() -> T + Sync,
    fold: impl Fn(&mut T, u64, V) + Sync,
) -> Vec<T> {
    let next = AtomicU64::new(0);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..cores)
            .map(|_| {
                scope.spawn(|| {
                    let mut sum = zero();
                    loop {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        if seed >= count {
                            return sum;
                        }
                        fold(&mut sum, seed, play(seed));
                    }
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().expect("a run does not panic")).collect()
    })
}
