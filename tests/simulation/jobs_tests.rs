//! The promises of jobs, and what each rule behind them is worth.

use crate::jobs::world::{Focus, Rules, Scenario, Verdict, World};
use crate::run::run_many;

/// Runs of the tests for every 2,000 of `BATON_SIM_SEEDS`.
const SEEDS: u64 = 400;
/// Runs that must show what a rule is for.
const SEEDS_FEW: u64 = 200;

fn scenario(seed: u64) -> Scenario {
    Scenario { seed, focus: Focus::All, rules: Rules::ALL, log: false }
}

/// The end of a failed run's log: enough to see what happened, little enough to read.
fn story(seed: u64) -> String {
    let verdict = World::play(Scenario { log: true, ..scenario(seed) });
    let from = verdict.log.len().saturating_sub(120);
    format!(
        "seed {seed}: {}\n{}\nreplay with: cargo run --release --example simulate -- jobs seed {seed}",
        verdict.first.unwrap_or_default(),
        verdict.log[from..].join("\n")
    )
}

fn runs(count: u64, scenario: impl Fn(u64) -> Scenario + Sync) -> Vec<(u64, Verdict)> {
    let parts = run_many(count, |seed| World::play(scenario(seed)), Vec::new, |all, seed, it| all.push((seed, it)));
    let mut all: Vec<_> = parts.into_iter().flatten().collect();
    all.sort_by_key(|(seed, _)| *seed);
    all
}

#[test]
fn no_mix_of_faults_breaks_a_promise_of_jobs() {
    let count = (crate::seeds() * SEEDS).div_ceil(2_000);
    let verdicts = runs(count, scenario);
    let failed: Vec<u64> =
        verdicts.iter().filter(|(_, verdict)| verdict.first.is_some()).map(|(seed, _)| *seed).collect();
    let sum = |what: fn(&Verdict) -> u64| verdicts.iter().map(|(_, verdict)| what(verdict)).sum::<u64>();
    println!(
        "{count} runs: {} terms, {} attempts, {} interrupted; {} runs ended, {} slots passed; {} wishes, {} runs \
         cancelled, {} retries; {} stale leaders, {} losses made good, {} ledgers taken over",
        sum(|v| v.terms),
        sum(|v| v.starts),
        sum(|v| v.interrupted),
        sum(|v| v.ended),
        sum(|v| v.passed),
        sum(|v| v.wishes),
        sum(|v| v.cancelled),
        sum(|v| v.retried),
        sum(|v| v.superseded),
        sum(|v| v.restored),
        sum(|v| v.taken_over),
    );
    if let Some(seed) = failed.first() {
        panic!("{} of {count} runs failed: {failed:?}\n{}", failed.len(), story(*seed));
    }
    let often: [fn(&Verdict) -> u64; 4] = [|v| v.starts, |v| v.ended, |v| v.passed, |v| v.wishes];
    assert!(often.into_iter().all(|what| sum(what) > 5 * count), "runs in which little happens show little");
    let sometimes: [fn(&Verdict) -> u64; 7] = [
        |v| v.interrupted,
        |v| v.superseded,
        |v| v.restored,
        |v| v.cancelled,
        |v| v.retried,
        |v| v.backfills,
        |v| v.taken_over,
    ];
    assert!(sometimes.into_iter().all(|what| sum(what) > count / 4), "runs without trouble show little");
}

/// How many of some runs show this.
fn broken(rules: Rules, words: &str) -> usize {
    broken_in(Focus::All, rules, words)
}

fn broken_in(focus: Focus, rules: Rules, words: &str) -> usize {
    // A fault that takes two of them in a row is rare.
    let count = if focus == Focus::All { SEEDS_FEW } else { 2 * SEEDS_FEW };
    let verdicts = runs(count, |seed| Scenario { rules, focus, ..scenario(seed) });
    let shows = |verdict: &Verdict| verdict.complaints.iter().any(|complaint| complaint.contains(words));
    verdicts.iter().filter(|(_, verdict)| shows(verdict)).count()
}

#[test]
fn jobs_that_move_and_clocks_that_are_days_off_break_no_promise_either() {
    let count = (crate::seeds() * SEEDS / 2).div_ceil(2_000);
    for focus in [Focus::Moves, Focus::Clocks] {
        let verdicts = runs(count, |seed| Scenario { focus, ..scenario(seed) });
        if let Some((seed, verdict)) = verdicts.iter().find(|(_, verdict)| verdict.first.is_some()) {
            panic!("{focus:?}, seed {seed}: {:?}", verdict.first);
        }
        let sum = |what: fn(&Verdict) -> u64| verdicts.iter().map(|(_, verdict)| what(verdict)).sum::<u64>();
        let (terms, taken, reopened, waits) =
            (sum(|v| v.terms), sum(|v| v.taken_over), sum(|v| v.reopened), sum(|v| v.waits));
        println!("{focus:?}: {count} runs, {terms} terms, {taken} taken over, {reopened} opened again, {waits} wait");
        assert!(focus != Focus::Moves || taken > count, "nothing moves");
        assert!(focus != Focus::Clocks || (reopened > count && waits < count), "a clock ahead stops jobs");
    }
}

/// A checker that never fails proves nothing.
#[test]
fn each_rule_of_jobs_switched_off_is_missed() {
    assert!(broken(Rules { fence: false, ..Rules::ALL }, "is stale, and has written") > 0, "no fence");
    assert!(broken(Rules { confirmed: false, ..Rules::ALL }, "without a claim") > 0, "started before it is written");
    assert!(broken(Rules { restore: false, ..Rules::ALL }, "claimed twice") > 0, "losses are not made good");
    assert!(broken(Rules { counted: false, ..Rules::ALL }, "claimed twice") > 0, "interrupted attempts do not count");
    assert!(broken(Rules { room: false, ..Rules::ALL }, "when its time was over") > 0, "started without time left");
    assert!(broken(Rules { orders: false, ..Rules::ALL }, "is not heeded") > 0, "orders of others are not taken in");
    assert!(broken(Rules { keys: false, ..Rules::ALL }, "two runs under one key") > 0, "keys are not taken in");
    assert!(broken(Rules { pause: false, ..Rules::ALL }, "while all jobs are suspended") > 0, "pauses are forgotten");
    assert!(broken(Rules { places: false, ..Rules::ALL }, "has no place") > 0, "places are not looked at");
    let no_backfills = broken(Rules { backfills: false, ..Rules::ALL }, "is not done");
    assert!(no_backfills > 0, "backfills of others are not taken in");
    let roles = Rules { roles: false, ..Rules::ALL };
    assert!(broken_in(Focus::Moves, roles, "stands still") > 0, "tokens of two roles are compared");
    let looks = Rules { taken_by_writing: false, ..Rules::ALL };
    assert!(broken_in(Focus::Moves, looks, "claimed twice") > 0, "a look takes a ledger over");
    let clocks = Rules { leaps: false, ..Rules::ALL };
    assert!(broken_in(Focus::Clocks, clocks, "claimed twice") > 0, "a clock behind undoes what was decided");
}

#[test]
fn the_same_seed_replays_the_same_run_of_jobs() {
    for seed in 0..3 {
        let scenario = Scenario { log: true, ..scenario(seed) };
        let (one, two) = (World::play(scenario), World::play(scenario));
        assert_eq!(one.log, two.log);
        assert!(one.log.len() > 100, "a run in which nothing happens shows nothing");
    }
}
