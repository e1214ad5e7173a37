//! The protocol under seeded faults. `make test` runs a few thousand seeds, `make chaos` hundreds of thousands
//! (`BATON_SIM_SEEDS` sets the number). A failure prints its seed and what led to it; `simulate seed N` replays it.

use std::env;

mod app_sign;
mod apps;
mod checker;
mod clockwork;
mod crowd;
mod departures;
mod durable;
mod failovers;
mod faults;
mod holes;
mod jobs;
mod jobs_tests;
mod leases;
mod locks;
mod network;
mod processes;
mod quorum;
mod quorum_tests;
mod redis;
mod replication;
mod run;
mod scenario;
mod shards;
mod takers;
mod takers_tests;
mod trace;
mod world;

use app_sign::AppSign;
use departures::Evidence;
use faults::Fault;
use run::{Verdict, run, run_many};
use scenario::{
    Around, LEVEL_FAULTS, LEVELS, ROWS, Row, SCENARIOS, Scenario, apps_scenario, departures_scenario,
    departures_table_scenario, mixed_scenario, table_scenario, traced_scenario, without,
};

const SEEDS: u64 = 2_000;
/// Runs for each cell of the table in small.
const TABLE_RUNS: u64 = 100;

fn seeds() -> u64 {
    env::var("BATON_SIM_SEEDS").map_or(SEEDS, |text| text.parse().expect("BATON_SIM_SEEDS is a number"))
}

/// The end of a failed run's log: enough to see what happened, little enough to read.
fn story(seed: u64, verdict: &Verdict, replay: &str) -> String {
    let from = verdict.log.len().saturating_sub(400);
    format!(
        "seed {seed}: {}\n{}\nreplay with: cargo run --release --example simulate -- {}",
        verdict.first.as_deref().unwrap_or("?"),
        verdict.log[from..].join("\n"),
        replay.replace("SEED", &seed.to_string())
    )
}

/// Plays many seeds, and tells the story of the first one that breaks a promise. `play` takes a seed and whether to
/// keep a log.
fn hold_against_the_promises(seeds: u64, play: impl Fn(u64, bool) -> Verdict + Sync, replay: &str) {
    let (mut terms, mut led, mut failed) = (0, 0.0, Vec::new());
    let fold = |sum: &mut (u64, f64, Vec<u64>), seed, verdict: Verdict| {
        sum.0 += verdict.terms;
        sum.1 += verdict.led_share;
        if !verdict.is_clean() {
            sum.2.push(seed);
        }
    };
    for part in run_many(seeds, |seed| play(seed, false), || (0, 0.0, Vec::new()), fold) {
        terms += part.0;
        led += part.1;
        failed.extend(part.2);
    }
    let led = led / seeds as f64;
    println!("{seeds} runs, {terms} terms, a leader for {:.0} % of the time", led * 100.0);
    assert!(terms > seeds && led > 0.3, "runs in which nobody leads show nothing: {terms} terms, {led} of the time");
    if let Some(seed) = failed.iter().min() {
        panic!("{} of {seeds} runs failed: {failed:?}\n{}", failed.len(), story(*seed, &play(*seed, true), replay));
    }
}

/// Plays a scenario by its name.
fn hold(seeds: u64, name: &str) {
    let (_, scenario) = SCENARIOS.iter().find(|(known, _)| *known == name).expect("a known scenario");
    let play = |seed, log| run(Scenario { log, ..scenario(seed) });
    hold_against_the_promises(seeds, play, &format!("seed SEED {name}"));
}

#[test]
fn no_mix_of_faults_breaks_a_promise() {
    hold(seeds(), "mixed");
}

#[test]
fn faults_one_upon_another_break_no_promise() {
    hold(seeds() / 4, "storm");
}

#[test]
fn two_faults_within_a_lease_break_no_promise() {
    hold(seeds() / 4, "pairs");
}

#[test]
fn leases_of_two_lengths_break_no_promise() {
    hold(seeds() / 4, "lengths");
}

#[test]
fn reloads_that_remove_a_role_and_add_it_again_break_no_promise() {
    hold(seeds() / 10, "reloads");
}

#[test]
fn a_leader_is_found_though_subscriptions_break_again_and_again() {
    hold(seeds() / 20, "gaps");
}

/// What a renewal does not notice the next campaign does: a guard begins later for it, which costs time, and nothing
/// else. The worst case: no renewal ever asks that finds all as it left it, also over replicas that acknowledge.
#[test]
fn renewals_that_do_not_ask_which_server_it_is_let_nobody_in_early() {
    for name in ["mixed", "storm", "pairs", "lengths"] {
        let (_, scenario) = SCENARIOS.iter().find(|(known, _)| *known == name).expect("a known scenario");
        let play = |seed| run(without(scenario(seed), "asking").expect("a known rule"));
        let fold = |failed: &mut Vec<u64>, seed, verdict: Verdict| {
            if verdict.two_leaders || verdict.token_regressions || verdict.refused_incumbents {
                failed.push(seed);
            }
        };
        let failed: Vec<u64> = run_many(seeds() / 10, play, Vec::new, fold).into_iter().flatten().collect();
        assert!(failed.is_empty(), "{name} {failed:?}");
    }
    for row in [ROWS[ROWS.len() - 2], ROWS[ROWS.len() - 1]] {
        let row = Row { around: Around { renewals_ask: false, ..row.around }, ..row };
        let after_a_restart =
            [Fault::RestartKept, Fault::RestartLost, Fault::RestartLate, Fault::Failover, Fault::Clock];
        // Without acknowledgements these are not closed, whoever asks.
        let split = [Fault::Split, Fault::Sides, Fault::OldMaster].into_iter().filter(|_| row.acks > 0);
        for fault in after_a_restart.into_iter().chain(split) {
            assert_eq!(broken(row, fault), (0, 0), "{}, {}", row.name, fault.title());
        }
    }
}

/// How many of some runs of the table show two leaders, and how many a token that went backwards.
fn broken(row: Row, fault: Fault) -> (u64, u64) {
    let fold = |sum: &mut (u64, u64), _, verdict: Verdict| {
        sum.0 += u64::from(verdict.two_leaders);
        sum.1 += u64::from(verdict.token_regressions);
    };
    let sums = run_many(TABLE_RUNS, |seed| run(table_scenario(seed, row, fault)), || (0, 0), fold);
    sums.into_iter().fold((0, 0), |sum, part| (sum.0 + part.0, sum.1 + part.1))
}

/// The table of section 1, in small: its zeros, and its failures. A checker that never fails proves nothing.
#[test]
fn each_rule_switched_off_is_missed() {
    use Fault::{Clock, Evict, Failover, Flush, OldMaster, RestartLost, Sides, Split};
    let [none, r3, r4, generation, vanished, heartbeats, watched, acknowledged] = ROWS;
    let two_leaders = |row: Row, fault| broken(row, fault).0;
    let backwards = |row: Row, fault| broken(row, fault).1;
    let half = TABLE_RUNS / 2;
    // What peers do: two leaders, and tokens that go backwards, whenever the store forgets.
    for fault in [RestartLost, Split, Evict, Flush] {
        assert!(two_leaders(none, fault) > half, "{}", fault.title());
    }
    for fault in [RestartLost, Flush] {
        assert!(backwards(none, fault) > half, "{}", fault.title());
    }
    // R3: tokens only rise, though two may still lead. R4 alone does not change that.
    for row in [r3, r4] {
        assert!(two_leaders(row, RestartLost) > TABLE_RUNS / 3);
        assert_eq!(backwards(row, RestartLost) + backwards(row, Flush), 0);
    }
    // R5 generation closes restarts and failovers, not evictions; R5 vanished closes those; R8 closes clock steps.
    assert!(two_leaders(r4, Failover) > 0);
    assert_eq!(two_leaders(generation, RestartLost) + two_leaders(generation, Failover), 0);
    assert!(two_leaders(generation, Evict) > half);
    assert_eq!(two_leaders(vanished, Evict) + two_leaders(vanished, Flush), 0);
    assert!(two_leaders(vanished, Clock) > 0);
    assert_eq!(two_leaders(heartbeats, Clock) + two_leaders(watched, Clock), 0);
    // R6 closes splits, whoever is the master afterwards, and nothing else does.
    for fault in [Split, Sides, OldMaster] {
        assert!(two_leaders(watched, fault) > half, "{}", fault.title());
    }
    for fault in Fault::ALL {
        assert_eq!(broken(acknowledged, fault), (0, 0), "{}, {}", acknowledged.name, fault.title());
    }
}

/// The table of levels, in small: what each of them lacks, and that nothing is lacking where that is said.
#[test]
fn each_level_of_the_guard_is_worth_what_is_said_of_it() {
    use Fault::{Clock, Evict, Failover, Flush, LostGrant, RestartKept, RestartLate, RestartLost, Split};
    let [off, heard, strict, heard_acked, durable, strict_durable, not_compared, told, acked_not_compared, acked_told] =
        LEVELS;
    let two_leaders = |row: Row, fault| broken(row, fault).0;
    for fault in [RestartLost, LostGrant, Evict, Flush] {
        assert!(two_leaders(off, fault) > 0, "{}, {}", off.name, fault.title());
    }
    for fault in [RestartKept, RestartLost, Clock, Evict, Flush] {
        assert_eq!(broken(heard, fault), (0, 0), "{}, {}", heard.name, fault.title());
    }
    for fault in [RestartKept, RestartLost, RestartLate, Failover, LostGrant, Clock, Evict, Flush] {
        for row in [strict, told] {
            assert_eq!(broken(row, fault), (0, 0), "{}, {}", row.name, fault.title());
        }
    }
    // What a failover has forgotten is heard of by some only; and replicas that acknowledge do not make up for it.
    for (row, fault) in [(heard, LostGrant), (not_compared, LostGrant), (heard_acked, LostGrant), (heard_acked, Split)]
    {
        assert!(two_leaders(row, fault) > 0, "{}, {}", row.name, fault.title());
    }
    // Where replicas acknowledge, the question whether a grant still counts closes what the answer behind does, too.
    for fault in LEVEL_FAULTS {
        for row in [durable, strict_durable, acked_not_compared, acked_told] {
            assert_eq!(broken(row, fault), (0, 0), "{}, {}", row.name, fault.title());
        }
    }
    // And it is worth something not to ask: a restart costs no lease more than it lasts.
    assert!(led(durable, RestartKept) > led(strict_durable, RestartKept) + 0.1);
}

/// The share of time with a leader in some runs of the table.
fn led(row: Row, fault: Fault) -> f64 {
    let fold = |sum: &mut f64, _, verdict: Verdict| *sum += verdict.led_share / TABLE_RUNS as f64;
    run_many(TABLE_RUNS, |seed| run(table_scenario(seed, row, fault)), || 0.0, fold).into_iter().sum()
}

#[test]
fn the_end_of_a_session_ends_its_lease_and_breaks_no_promise() {
    let play = |seed, log| run(Scenario { log, ..departures_scenario(seed, Evidence::Session) });
    hold_against_the_promises(seeds() / 4, play, "departures seed SEED");
}

/// Runs with two leaders, and the share of time with one.
fn departures(evidence: Evidence, app: AppSign, fault: Fault) -> (u64, f64) {
    let fold = |sum: &mut (u64, f64), _, verdict: Verdict| {
        sum.0 += u64::from(verdict.two_leaders);
        sum.1 += verdict.led_share / TABLE_RUNS as f64;
    };
    let sums =
        run_many(TABLE_RUNS, |seed| run(departures_table_scenario(seed, evidence, app, fault)), || (0, 0.0), fold);
    sums.into_iter().fold((0, 0.0), |sum, part| (sum.0 + part.0, sum.1 + part.1))
}

/// What else might be taken for the end of a leader makes two of them.
#[test]
fn every_lesser_evidence_of_an_end_shows_two_leaders() {
    let many = TABLE_RUNS / 5;
    for (evidence, fault) in [
        (Evidence::Hasty, Fault::Kill),
        (Evidence::Trusting, Fault::Orphan),
        (Evidence::Name, Fault::Kill),
        (Evidence::Gone, Fault::Cut),
    ] {
        let (two_leaders, _) = departures(evidence, AppSign::Asks, fault);
        assert!(two_leaders > many, "{evidence:?}, {}: {two_leaders} of {TABLE_RUNS}", fault.title());
    }
    assert_eq!(departures(Evidence::Session, AppSign::Asks, Fault::Orphan).0, 0);
    let (_, slow) = departures(Evidence::Nothing, AppSign::Asks, Fault::Kill);
    let (two_leaders, fast) = departures(Evidence::Session, AppSign::Asks, Fault::Kill);
    assert_eq!(two_leaders, 0);
    assert!(1.0 - fast < (1.0 - slow) * 0.7, "it is worth something: a leader for {slow} of the time, now {fast}");
}

#[test]
fn the_end_of_an_apps_connection_ends_its_lead_and_breaks_no_promise() {
    for (app, name) in [(AppSign::OfProcess, "process"), (AppSign::OfPod, "pod")] {
        let play = |seed, log| run(Scenario { log, ..apps_scenario(seed, app) });
        hold_against_the_promises(seeds() / 4, play, &format!("departures seed SEED {name}"));
    }
}

/// An app that says that it acts alone, and does not, makes two leaders; and a connection is worth something.
#[test]
fn what_an_app_was_told_ends_with_its_connection_only_where_nobody_else_acts() {
    let killed = |app| departures(Evidence::Nothing, app, Fault::AppKilled);
    let [asks, of_process, of_pod, mistaken] =
        [AppSign::Asks, AppSign::OfProcess, AppSign::OfPod, AppSign::Mistaken].map(killed);
    assert_eq!([asks.0, of_process.0, of_pod.0], [0, 0, 0]);
    assert!(mistaken.0 > TABLE_RUNS / 5, "{mistaken:?}");
    assert!(of_process.1 > of_pod.1 && of_pod.1 > asks.1, "{of_process:?} {of_pod:?} {asks:?}");
}

#[test]
fn the_same_seed_replays_the_same_run() {
    for seed in 0..5 {
        let scenario = Scenario { log: true, ..mixed_scenario(seed) };
        let (one, two) = (run(scenario), run(scenario));
        assert_eq!(one.log, two.log);
        assert!(one.terms > 0 && one.log.len() > 100, "a run in which nothing happens shows nothing");
    }
}

/// What `make spec` holds against the specification.
#[test]
fn a_run_that_is_traced_is_the_same_run_and_tells_after_which_line_each_step_found_its_server() {
    for seed in 0..5 {
        let scenario = traced_scenario(seed);
        let (plain, traced) = (run(Scenario { trace: false, ..scenario }), run(scenario));
        assert_eq!((plain.terms, plain.led_share), (traced.terms, traced.led_share));
        assert!(plain.trace.is_empty());
        let lines: Vec<serde_json::Value> =
            traced.trace.iter().map(|line| serde_json::from_str(line).expect("it is JSON")).collect();
        let steps: Vec<(usize, usize)> = (lines.iter().enumerate())
            .filter_map(|(at, line)| Some((at + 1, usize::try_from(line["from"].as_u64()?).expect("small"))))
            .collect();
        assert!(steps.len() > 20, "a run in which nothing happens shows nothing");
        assert!(steps.iter().all(|(line, from)| from < line), "{steps:?}");
        assert!(steps.iter().filter(|(line, from)| from + 1 == *line).count() > steps.len() / 4, "{steps:?}");
    }
}
