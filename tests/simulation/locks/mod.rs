//! Locks under seeded faults: sidecars with workers that take, extend, wait for and give back locks; a store that is
//! the reference itself; and a checker that looks after every event. Clock steps of the store are a known limit: a
//! lease ends by the store's clock, so a step forwards may make a second holder (the token tells them apart).
//!
//! `BATON_SIM_SEED=N cargo test --test simulation locks:: -- --nocapture` replays that seed of every mix of faults.

mod calls;
mod checker;
mod faults;
mod looks;
mod operator;
mod sidecar;
mod waits;
mod world;

use world::{Faults, Rules, Scenario, Verdict, World};

/// Runs of the tests; more where `BATON_SIM_SEEDS` asks for more.
const SEEDS: u64 = 250;
/// Runs that must show what a rule is for.
const SEEDS_FEW: u64 = 40;

fn scenario(seed: u64) -> Scenario {
    Scenario { seed, rules: Rules::ALL, faults: Faults::Mixed, log: false }
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

/// As many as are asked for, one for every eight of what runs without locks.
fn count_of(usual: u64) -> u64 {
    std::env::var("BATON_SIM_SEEDS")
        .map_or(usual, |text| text.parse::<u64>().expect("BATON_SIM_SEEDS is a number").div_ceil(8))
}

/// Runs of these faults, none of which may fail.
fn sound(count: u64, faults: Faults) -> Vec<Verdict> {
    let scenario = |seed| Scenario { faults, ..scenario(seed) };
    if let Some(seed) = std::env::var("BATON_SIM_SEED").ok().and_then(|text| text.parse().ok()) {
        let verdict = World::play(Scenario { log: true, ..scenario(seed) });
        println!("{faults:?}, seed {seed}:\n{}\n{:?}", verdict.log.join("\n"), verdict.first);
        assert_eq!(verdict.first, None);
        return Vec::new();
    }
    let verdicts = runs(count, scenario);
    let failed: Vec<u64> =
        (0..).zip(&verdicts).filter(|(_, verdict)| verdict.first.is_some()).map(|(seed, _)| seed).collect();
    let sum = |what: fn(&Verdict) -> u64| verdicts.iter().map(what).sum::<u64>();
    println!(
        "{count} runs, {faults:?}: {} grants, {} after waiting, {} to who had it already, {} extensions, {} put back, \
         {} cancelled, {} passed on in turns, {} late requests",
        sum(|v| v.grants),
        sum(|v| v.waited),
        sum(|v| v.again),
        sum(|v| v.extended),
        sum(|v| v.restored),
        sum(|v| v.cancelled),
        sum(|v| v.passed),
        sum(|v| v.late),
    );
    if let Some(seed) = failed.first() {
        panic!("{} of {count} runs failed: {failed:?}\n{}", failed.len(), story(scenario(*seed)));
    }
    let happened: [fn(&Verdict) -> u64; 5] = [|v| v.grants, |v| v.waited, |v| v.extended, |v| v.cancelled, |v| v.again];
    assert!(happened.into_iter().all(|what| sum(what) > count), "runs in which little happens show little");
    verdicts
}

#[test]
fn no_mix_of_faults_breaks_a_promise_of_locks() {
    let count = count_of(SEEDS);
    let verdicts = sound(count, Faults::Mixed);
    let sum = |what: fn(&Verdict) -> u64| verdicts.iter().map(what).sum::<u64>();
    let is_replay = verdicts.is_empty();
    assert!(is_replay || sum(|v| v.restored) > 0 && sum(|v| v.late) > 0 && 2 * sum(|v| v.passed) > count);
}

#[test]
fn a_lock_is_nobodys_for_a_lease_and_a_second_at_the_most_whatever_dies_with_its_holder() {
    sound(count_of(SEEDS_FEW), Faults::Deaths);
}

#[test]
fn a_clock_that_is_set_back_costs_no_promise_no_token_and_nobody_more_than_a_lease() {
    sound(count_of(SEEDS_FEW), Faults::ClockBack);
}

/// What an operator unlocks is the one promise that breaks; and tokens rise.
#[test]
fn an_operator_who_unlocks_breaks_the_promise_of_that_lock_and_no_other() {
    let count = count_of(SEEDS_FEW);
    let verdicts = sound(count, Faults::Unlocks);
    let sum = |what: fn(&Verdict) -> u64| verdicts.iter().map(what).sum::<u64>();
    println!("{} unlocked, {} refused", sum(|v| v.unlocked), sum(|v| v.differed));
    assert!(sum(|v| v.unlocked) > count && sum(|v| v.differed) > count);
}

/// How many of some runs show this.
fn broken(rules: Rules, faults: Faults, word: &str) -> usize {
    let verdicts = runs(SEEDS_FEW, |seed| Scenario { rules, faults, ..scenario(seed) });
    verdicts.iter().filter(|verdict| verdict.complaints.iter().any(|complaint| complaint.contains(word))).count()
}

/// A checker that never fails proves nothing.
#[test]
fn each_rule_of_locks_switched_off_is_missed() {
    use Faults::Mixed;
    assert!(broken(Rules { guard: false, ..Rules::ALL }, Mixed, "may all act") > 0, "no guard, data lost");
    assert!(broken(Rules { from_sending: false, ..Rules::ALL }, Mixed, "may all act") > 0, "validity from the reply");
    assert!(broken(Rules { by_id: false, ..Rules::ALL }, Mixed, "another's") > 0, "a release without the id");
    assert!(broken(Rules { no_late: false, ..Rules::ALL }, Mixed, "to nobody") > 0, "late requests are executed");
    assert!(broken(Rules { wakes: false, ..Rules::ALL }, Mixed, "free for") > 0, "nobody is woken, nobody looks");
    assert!(broken(Rules { fair: false, ..Rules::ALL }, Mixed, "overtook") > 0, "fair requests queue like plain ones");
    let named = Rules { ends_turn: false, ..Rules::ALL };
    assert!(broken(named, Mixed, "may all act") > 0, "an owner takes again what has gone on in its turn");
    let cancelled = Rules { keeps: false, ..Rules::ALL };
    assert!(broken(cancelled, Mixed, "may all act") > 0, "a late wake cancels a lock that has gone on in its turn");
    let asleep = Rules { looks: false, ..Rules::ALL };
    assert!(
        broken(asleep, Faults::Deaths, "nobody's") + broken(asleep, Faults::Deaths, "free for") > 0,
        "who is not the first sleeps on"
    );
    let any = Rules { fenced: false, ..Rules::ALL };
    assert!(broken(any, Faults::Unlocks, "may all act") > 0, "an unlock of whoever has it by then");
    let early = Rules { rests: false, ..Rules::ALL };
    assert!(broken(early, Mixed, "too soon") > 0, "what is given back early is free at once");
    assert!(
        broken(Rules::ALL, Faults::ClockAhead, "may all act") > 0,
        "the known limit: the store's clock steps forwards"
    );
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
