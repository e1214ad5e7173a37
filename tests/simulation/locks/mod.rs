//! Locks under seeded faults: sidecars with workers that take, extend, wait for and give back locks; a store that is
//! the reference itself; and a checker that looks after every event. Clock steps of the store are a known limit: a
//! lease ends by the store's clock, so a step forwards may make a second holder (the token tells them apart).

mod checker;
mod faults;
mod sidecar;
mod world;

use world::{Rules, Scenario, Verdict, World};

/// Runs of the tests; more where `BATON_SIM_SEEDS` asks for more.
const SEEDS: u64 = 250;
/// Runs that must show what a rule is for.
const SEEDS_FEW: u64 = 40;

fn scenario(seed: u64) -> Scenario {
    Scenario { seed, rules: Rules::ALL, clock_steps: false, log: false }
}

/// The end of a failed run's log: enough to see what happened, little enough to read.
fn story(scenario: Scenario) -> String {
    let verdict = World::play(Scenario { log: true, ..scenario });
    let from = verdict.log.len().saturating_sub(200);
    format!("seed {}: {}\n{}", scenario.seed, verdict.first.unwrap_or_default(), verdict.log[from..].join("\n"))
}

fn runs(count: u64, scenario: impl Fn(u64) -> Scenario) -> Vec<Verdict> {
    (0..count).map(|seed| World::play(scenario(seed))).collect()
}

#[test]
fn no_mix_of_faults_breaks_a_promise_of_locks() {
    let count = std::env::var("BATON_SIM_SEEDS").map_or(SEEDS, |text| {
        // As many as the tests run without it for every 2,000.
        text.parse::<u64>().expect("BATON_SIM_SEEDS is a number").div_ceil(8)
    });
    let verdicts = runs(count, scenario);
    let failed: Vec<u64> =
        (0..).zip(&verdicts).filter(|(_, verdict)| verdict.first.is_some()).map(|(seed, _)| seed).collect();
    let sum = |what: fn(&Verdict) -> u64| verdicts.iter().map(what).sum::<u64>();
    println!(
        "{count} runs: {} grants, {} after waiting, {} extensions, {} put back, {} cancelled, {} handed over, {} late \
         requests",
        sum(|v| v.grants),
        sum(|v| v.waited),
        sum(|v| v.extended),
        sum(|v| v.restored),
        sum(|v| v.cancelled),
        sum(|v| v.handed),
        sum(|v| v.late),
    );
    if let Some(seed) = failed.first() {
        panic!("{} of {count} runs failed: {failed:?}\n{}", failed.len(), story(scenario(*seed)));
    }
    let happened: [fn(&Verdict) -> u64; 4] = [|v| v.grants, |v| v.waited, |v| v.extended, |v| v.cancelled];
    assert!(happened.into_iter().all(|what| sum(what) > 10 * count), "runs in which little happens show little");
    assert!(sum(|v| v.restored) > 0 && sum(|v| v.late) > 0 && sum(|v| v.handed) > count);
}

/// How many of some runs show this.
fn broken(rules: Rules, clock_steps: bool, word: &str) -> usize {
    let verdicts = runs(SEEDS_FEW, |seed| Scenario { rules, clock_steps, ..scenario(seed) });
    verdicts.iter().filter(|verdict| verdict.complaints.iter().any(|complaint| complaint.contains(word))).count()
}

/// A checker that never fails proves nothing.
#[test]
fn each_rule_of_locks_switched_off_is_missed() {
    assert!(broken(Rules { guard: false, ..Rules::ALL }, false, "may all act") > 0, "no guard, data lost");
    assert!(broken(Rules { from_sending: false, ..Rules::ALL }, false, "may all act") > 0, "validity from the reply");
    assert!(broken(Rules { by_id: false, ..Rules::ALL }, false, "another's") > 0, "a release without the id");
    assert!(broken(Rules { no_late: false, ..Rules::ALL }, false, "to nobody") > 0, "late requests are executed");
    assert!(broken(Rules { wakes: false, ..Rules::ALL }, false, "free for") > 0, "nobody is woken, nobody looks");
    assert!(broken(Rules { fair: false, ..Rules::ALL }, false, "overtook") > 0, "fair requests queue like plain ones");
    let left = Rules { stays: false, ..Rules::ALL };
    assert!(broken(left, false, "to nobody") > 0, "who is being handed a lock may have left when it comes");
    assert!(broken(Rules::ALL, true, "may all act") > 0, "the known limit: the store's clock steps forwards");
}

#[test]
fn the_same_seed_replays_the_same_run_of_locks() {
    for seed in 0..3 {
        let scenario = Scenario { log: true, ..scenario(seed) };
        let (one, two) = (World::play(scenario), World::play(scenario));
        assert_eq!(one.log, two.log);
        assert!(one.log.len() > 100, "a run in which nothing happens shows nothing");
    }
}
