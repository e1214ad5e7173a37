//! The promises of jobs that are made at run time, and what each rule behind them is worth.

use crate::run::run_many;
use crate::takers::world::{Rules, Scenario, Verdict, World};

/// Runs of the tests for every 2,000 of `BATON_SIM_SEEDS`.
const SEEDS: u64 = 400;
/// Runs that must show what a rule is for.
const SEEDS_FEW: u64 = 60;

fn scenario(seed: u64) -> Scenario {
    Scenario { seed, rules: Rules::ALL, lags: false, log: false }
}

fn runs(count: u64, scenario: impl Fn(u64) -> Scenario + Sync) -> Vec<(u64, Verdict)> {
    let parts = run_many(count, |seed| World::play(scenario(seed)), Vec::new, |all, seed, it| all.push((seed, it)));
    let mut all: Vec<_> = parts.into_iter().flatten().collect();
    all.sort_by_key(|(seed, _)| *seed);
    all
}

fn story(scenario: Scenario) -> String {
    let verdict = World::play(Scenario { log: true, ..scenario });
    let from = verdict.log.len().saturating_sub(150);
    format!("seed {}: {}\n{}", scenario.seed, verdict.first.unwrap_or_default(), verdict.log[from..].join("\n"))
}

fn hold(scenario: impl Fn(u64) -> Scenario + Sync) {
    let count = (crate::seeds() * SEEDS).div_ceil(2_000);
    let verdicts = runs(count, &scenario);
    let sum = |what: fn(&Verdict) -> u64| verdicts.iter().map(|(_, verdict)| what(verdict)).sum::<u64>();
    println!("{count} runs: {} jobs, {} terms, {} attempts", sum(|v| v.put), sum(|v| v.terms), sum(|v| v.starts));
    let failed: Vec<u64> = verdicts.iter().filter(|(_, v)| v.first.is_some()).map(|(seed, _)| *seed).collect();
    if let Some(seed) = failed.first() {
        panic!("{} of {count} runs failed: {failed:?}\n{}", failed.len(), story(scenario(*seed)));
    }
    assert!(sum(|v| v.put) > 100 * count && sum(|v| v.terms) > 5 * count, "runs in which little happens show little");
}

#[test]
fn every_job_made_at_run_time_has_its_run_and_no_attempt_is_made_twice() {
    hold(scenario);
}

/// What such a store loses is lost, and a run may be made again then. But nothing stands still.
#[test]
fn a_store_that_loses_its_last_words_stops_no_job() {
    hold(|seed| Scenario { lags: true, ..scenario(seed) });
}

/// How many of some runs show this.
fn broken(rules: Rules, lags: bool, words: &str) -> usize {
    let verdicts = runs(SEEDS_FEW, |seed| Scenario { rules, lags, ..scenario(seed) });
    let shows = |verdict: &Verdict| verdict.complaints.iter().any(|complaint| complaint.contains(words));
    verdicts.iter().filter(|(_, verdict)| shows(verdict)).count()
}

/// A checker that never fails proves nothing.
#[test]
fn each_rule_of_jobs_made_at_run_time_switched_off_is_missed() {
    let all = Rules::ALL;
    assert!(broken(Rules { fence: false, ..all }, false, "is stale, and has taken") > 0, "no fence");
    let forgotten = Rules { numbered: false, recover: false, ..all };
    assert!(broken(forgotten, false, "is still there") > 0, "what an answer brought that was lost is lost");
    assert!(broken(Rules { recover: false, ..all }, true, "is still there") > 0, "what a store has lost stands still");
    let tickets = Rules { fence: false, tickets: false, ..all };
    assert!(broken(tickets, false, "is stale, and has settled") > 0, "whoever made an attempt settles another's");
    assert!(broken(Rules { room: false, ..all }, false, "when its time was over") > 0, "started without time left");
}

#[test]
fn the_same_seed_replays_the_same_run_of_jobs_made_at_run_time() {
    for seed in 0..3 {
        let scenario = Scenario { log: true, ..scenario(seed) };
        let (one, two) = (World::play(scenario), World::play(scenario));
        assert_eq!(one.log, two.log);
        assert!(one.log.len() > 100, "a run in which nothing happens shows nothing");
    }
}
