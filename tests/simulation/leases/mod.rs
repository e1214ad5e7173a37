//! The Kubernetes store's protocol under seeded faults: a failure prints its seed and what led to it, and
//! `BATON_SIM_SEED=N cargo test --test simulation leases -- --nocapture` replays that seed of every scenario.

mod faults;
mod replica;
mod stranger;
mod world;

use baton::protocol::lease_object::Caution;

use world::{Happening, World};

/// True time since the start, in nanoseconds.
pub type Nanos = u64;
pub const MS: Nanos = 1_000_000;
pub const SECOND: Nanos = 1_000 * MS;
/// Renewed every third, stepping down 0.5 s early, answers good for 3 s.
pub const LEASE: Nanos = 10 * SECOND;
/// How soon a leader must be there once all is calm.
const LEADER_WITHIN: Nanos = 2 * LEASE + SECOND;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A sidecar stands still.
    Pause,
    /// A sidecar loses the API server, its watch in silence.
    Cut,
    /// A sidecar dies; another starts in its place.
    Kill,
    /// The leader resigns.
    Resign,
    /// The API server is away.
    ServerDown,
    /// The object is deleted.
    Deleted,
    /// Somebody empties its holder by hand.
    Emptied,
    /// Every watch ends.
    WatchEnds,
}

use Fault::{Cut, Deleted, Emptied, Kill, Pause, Resign, ServerDown, WatchEnds};

/// What a run is about.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    pub seed: u64,
    pub faults: &'static [Fault],
    /// The end of a process gets about, by the word of its kubelet.
    pub departures: bool,
    pub fault_gap: (Nanos, Nanos),
    pub faults_until: Nanos,
    pub caution: Caution,
    /// How far the replicas' times of day are apart.
    pub wall_skew_us: u64,
    /// A client-go takes part.
    pub stranger: bool,
    pub log: bool,
}

/// Everything at once, times of day a few seconds apart: a deleted object takes its token along.
fn mixed(seed: u64) -> Scenario {
    Scenario {
        seed,
        faults: &[Pause, Cut, Kill, Resign, ServerDown, Deleted, Emptied, WatchEnds],
        departures: false,
        fault_gap: (15 * SECOND, 40 * SECOND),
        faults_until: 150 * SECOND,
        caution: world::ALL,
        wall_skew_us: 2_000_000,
        stranger: false,
        log: false,
    }
}

/// One fault upon another, times of day up to an hour apart; what people do by hand is left out.
fn storm(seed: u64) -> Scenario {
    Scenario {
        faults: &[Pause, Cut, Kill, Resign, ServerDown, WatchEnds],
        fault_gap: (SECOND, 12 * SECOND),
        wall_skew_us: 3_600_000_000,
        ..mixed(seed)
    }
}

/// The same with a client-go on the same Lease.
fn migration(seed: u64) -> Scenario {
    Scenario { stranger: true, fault_gap: (5 * SECOND, 30 * SECOND), ..storm(seed) }
}

/// Both, and the ends of processes are told of.
fn departures(seed: u64) -> Scenario {
    let scenario = if seed.is_multiple_of(2) { mixed(seed) } else { storm(seed) };
    Scenario { departures: true, ..scenario }
}

struct Verdict {
    broken: Option<String>,
    terms: u64,
    led_share: f64,
    log: Vec<String>,
}

fn run(scenario: Scenario) -> Verdict {
    let mut world = World::new(scenario);
    for _ in 0..3 + scenario.seed % 3 {
        let when = world.rng.u64(0..SECOND);
        world.at(when, Happening::Join);
    }
    if scenario.stranger {
        let when = world.rng.u64(0..30 * SECOND);
        world.at(when, Happening::Stranger);
    }
    let first = world.rng.u64(14 * SECOND..22 * SECOND);
    world.at(first, Happening::Fault);
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
    let leaderless = world.last_led < calm_since;
    let nobody = || leaderless.then(|| "nobody leads two leases and a second after the last fault".to_owned());
    let broken = world.broken.clone().or_else(nobody);
    Verdict { broken, terms: world.terms, led_share: world.led_for as f64 / end as f64, log: world.log }
}

fn play(world: &mut World, end: Nanos) {
    while let Some(happening) = world.next(end) {
        world.look_around();
        world.happen(happening);
        world.look_around();
    }
}

/// Runs many seeds, and tells the story of the first that breaks a promise.
fn hold(name: &str, seeds: u64, scenario: fn(u64) -> Scenario) {
    if let Some(seed) = std::env::var("BATON_SIM_SEED").ok().and_then(|text| text.parse().ok()) {
        let verdict = run(Scenario { log: true, ..scenario(seed) });
        println!("{name}, seed {seed}:\n{}\n{:?}", verdict.log.join("\n"), verdict.broken);
        assert!(verdict.broken.is_none(), "{:?}", verdict.broken);
        return;
    }
    let (mut terms, mut led, mut failed) = (0, 0.0, Vec::new());
    for seed in 0..seeds {
        let verdict = run(scenario(seed));
        terms += verdict.terms;
        led += verdict.led_share;
        failed.extend(verdict.broken.map(|what| (seed, what)));
    }
    led /= seeds as f64;
    println!("{name}: {seeds} runs, {terms} terms, a leader for {:.0} % of the time", led * 100.0);
    assert!(terms > seeds && led > 0.3, "runs in which nobody leads show nothing");
    if let Some((seed, what)) = failed.first() {
        let log = run(Scenario { log: true, ..scenario(*seed) }).log;
        let from = log.len().saturating_sub(300);
        let story = log[from..].join("\n");
        panic!(
            "{} of {seeds} runs failed; seed {seed}: {what}\n{story}\nreplay with: BATON_SIM_SEED={seed} cargo test \
             --test simulation leases -- --nocapture",
            failed.len()
        );
    }
}

/// How many of some runs break a promise.
fn broken(seeds: u64, scenario: impl Fn(u64) -> Scenario) -> usize {
    (0..seeds).filter(|seed| run(scenario(*seed)).broken.is_some_and(|what| what.contains("P1"))).count()
}

#[test]
fn no_mix_of_faults_breaks_a_promise_on_leases() {
    hold("mixed", crate::seeds() / 2, mixed);
}

#[test]
fn faults_one_upon_another_break_no_promise_on_leases() {
    hold("storm", crate::seeds() / 4, storm);
}

#[test]
fn a_client_go_on_the_same_lease_is_honoured_and_honours() {
    hold("migration", crate::seeds() / 4, migration);
}

#[test]
fn the_end_of_a_session_ends_its_lease_object_and_breaks_no_promise() {
    hold("departures", crate::seeds() / 8, departures);
}

#[test]
fn each_precaution_switched_off_is_missed() {
    let times_believed = |seed| Scenario { caution: Caution { own_clock: false, ..world::ALL }, ..storm(seed) };
    assert!(broken(50, times_believed) > 25, "times of day are believed");
    let absence = Caution { absence: false, ..world::ALL };
    let at_once = |seed| Scenario { caution: absence, faults: &[Deleted, Emptied], ..mixed(seed) };
    assert!(broken(50, at_once) > 25, "an object that was deleted is made at once");
    assert_eq!(broken(50, |seed| Scenario { faults: &[Deleted, Emptied], ..mixed(seed) }), 0);
}

#[test]
fn the_same_seed_replays_the_same_run_of_leases() {
    for scenario in [mixed, storm, migration] {
        let [one, two] = [(); 2].map(|()| run(Scenario { log: true, ..scenario(3) }));
        assert_eq!(one.log, two.log);
        assert!(one.terms > 0 && one.log.len() > 100, "a run in which nothing happens shows nothing");
    }
}
