//! One run from a seed to a verdict, and many of them.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::clockwork::{MS, Nanos, SECOND};
use crate::scenario::{Scenario, TABLE_LENGTH};
use crate::trace::Trace;
use crate::world::{Happening, World};

/// How late a request may be.
pub const LATEST: Nanos = 1_200 * MS;

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
    /// What it tells of its store; nothing unless it was asked to.
    pub trace: Vec<String>,
}

impl Verdict {
    pub fn is_clean(&self) -> bool {
        !(self.two_leaders || self.token_regressions || self.refused_incumbents || self.no_quorum || self.no_leader)
    }
}

/// Plays one scenario to its end. The same scenario gives the same run.
pub fn run(scenario: Scenario) -> Verdict {
    let mut world = World::new(scenario);
    for _ in 0..scenario.replicas {
        let when = world.span(0, SECOND);
        world.at(when, Happening::Join);
    }
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
    world.note(|_| "all is calm from here on".to_owned());
    // What was late is still on its way.
    let begins = world.now + LATEST;
    world.at(begins, Happening::Look);
    play(&mut world, begins);
    if scenario.for_ever {
        world.strike_for_ever();
    }
    world.settle();
    // A staggered role comes later: when it asks what there is, and when it is told to ask again.
    let end = world.now + scenario.leader_within() + 2 * world.least_place();
    // One that is not answered may be granted the role before it makes way.
    let end = if world.one_is_unanswered { end + scenario.longest_lease() } else { end };
    world.at(end, Happening::Look);
    play(&mut world, end);
    let no_leader = world.leader().is_none();
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
    let first = checker.first.or_else(|| {
        no_leader.then(|| "nobody leads at the end: two leases and a second after the last fault".to_owned())
    });
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
        trace: world.trace.map(Trace::into_lines).unwrap_or_default(),
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
