//! `cargo run --release --example simulate -- table [RUNS]` prints the table of docs/guarantees.md: what each rule is
//! worth; `… -- levels [RUNS]` that of the levels of the guard. `… -- find RUNS [ROW FAULT]` lists the seeds that break
//! a promise (`levels ROW FAULT` for that table); `… -- seed N` replays one mixed run of the tests with its log; `… --
//! seed N ROW FAULT` one of the table's. The same for the quorum: `… -- quorum-table [RUNS]`, `… -- quorum find RUNS
//! …`, `… -- quorum seed N …`, and `… -- quorum duel RUNS`: how soon one of twelve leads. For jobs: `… -- jobs find
//! RUNS` and `… -- jobs seed N`. What counts as the end of a leader: `… -- departures table [RUNS]`, `… -- departures
//! find RUNS [process|pod]` and `… -- departures seed N [process|pod]`.

use std::path::Path;
use std::process::ExitCode;

mod app_sign;
mod apps;
mod checker;
mod clockwork;
mod departures;
mod durable;
mod failovers;
mod faults;
mod jobs;
mod network;
mod processes;
mod quorum;
mod redis;
mod replication;
mod run;
mod scenario;
mod trace;
mod world;

use app_sign::AppSign;
use departures::Evidence;
use faults::Fault;
use run::{Verdict, run, run_many};
use scenario::{
    LEVEL_FAULTS, LEVELS, ROWS, Row, SCENARIOS, Scenario, apps_scenario, departures_scenario,
    departures_table_scenario, mixed_scenario, table_scenario, traced_scenario, without,
};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    act(&words).map_or_else(usage, |()| ExitCode::SUCCESS)
}

fn act(words: &[&str]) -> Option<()> {
    match words {
        ["table", rest @ ..] => table(&ROWS, &Fault::ALL, runs(rest)?),
        ["levels", rest @ ..] => table(&LEVELS, &LEVEL_FAULTS, runs(rest)?),
        ["quorum-table", rest @ ..] => quorum_table(runs(rest)?),
        ["quorum", "duel", rest @ ..] => duel(runs(rest)?),
        ["quorum", "handovers", rest @ ..] => quorum_handovers(runs(rest)?),
        ["quorum", "find", runs, what @ ..] => {
            let scenario = quorum_scenario(what)?;
            find(runs.parse().ok()?, |seed| quorum::run::run(scenario(seed)));
        }
        ["quorum", "seed", seed, what @ ..] => {
            let scenario = quorum_scenario(what)?(seed.parse().ok()?);
            tell(quorum::run::run(quorum::world::Scenario { log: true, ..scenario }));
        }
        ["jobs", "find", runs] => find_jobs(runs.parse().ok()?),
        ["jobs", "seed", seed] => tell_job(seed.parse().ok()?),
        ["departures", "table", rest @ ..] => departures_table(runs(rest)?),
        ["departures", "find", runs, whose @ ..] => {
            let scenario = departure(whose)?;
            find(runs.parse().ok()?, |seed| run(scenario(seed)));
        }
        ["departures", "seed", seed, whose @ ..] => {
            let scenario = departure(whose)?(seed.parse().ok()?);
            tell(run(Scenario { log: true, ..scenario }));
        }
        ["traces", runs, folder] => traces(runs.parse().ok()?, Path::new(folder)),
        ["find", runs, what @ ..] => {
            let scenario = scenario(what)?;
            find(runs.parse().ok()?, |seed| run(scenario(seed)));
        }
        ["seed", seed, what @ ..] => {
            let scenario = scenario(what)?(seed.parse().ok()?);
            tell(run(Scenario { log: true, ..scenario }));
        }
        _ => return None,
    }
    Some(())
}

/// A run in which sidecars end, or apps that act alone (`process`) or not (`pod`).
fn departure(whose: &[&str]) -> Option<fn(u64) -> Scenario> {
    match whose {
        [] => Some(|seed| departures_scenario(seed, Evidence::Session)),
        ["process"] => Some(|seed| apps_scenario(seed, AppSign::OfProcess)),
        ["pod"] => Some(|seed| apps_scenario(seed, AppSign::OfPod)),
        _ => None,
    }
}

/// Writes so many runs for the specification to be held against, `SEED.jsonl` each. Those in which a clock is set back
/// for longer than a quarter of an hour are left out: the model checker's numbers have 32 bits, and count microseconds.
fn traces(runs: usize, folder: &Path) {
    // Those of another version would be held against the specification as well. There may be none.
    let _ = std::fs::remove_dir_all(folder);
    std::fs::create_dir_all(folder).expect("the folder can be made");
    let clock =
        |line: &String| serde_json::from_str::<serde_json::Value>(line).expect("it is JSON")["clock_us"].as_u64();
    let fits = |verdict: &Verdict| {
        let shown: Vec<u64> = verdict.trace.iter().filter_map(clock).collect();
        shown.iter().max().zip(shown.iter().min()).is_some_and(|(last, first)| last - first < 900_000_000)
    };
    let traced = (0..).map(|seed| (seed, run(traced_scenario(seed)))).filter(|(_, verdict)| fits(verdict));
    for (seed, verdict) in traced.take(runs) {
        std::fs::write(folder.join(format!("{seed}.jsonl")), verdict.trace.join("\n") + "\n")
            .expect("it can be written");
    }
}

fn usage() -> ExitCode {
    let named: Vec<&str> = quorum::run::SCENARIOS.iter().map(|(name, _)| *name).collect();
    eprintln!(
        "usage: simulate table [RUNS] | simulate levels [RUNS]\n\
         {0}simulate find RUNS [NAME | ROW FAULT] [without RULE] | simulate seed N [NAME | ROW FAULT] [without RULE]\n\
         {0}simulate quorum-table [RUNS] | simulate quorum find RUNS [WHAT] | simulate quorum seed N [WHAT]\n\
         {0}simulate quorum duel [RUNS]\n\
         {0}simulate jobs find RUNS | simulate jobs seed N\n\
         {0}simulate traces RUNS FOLDER\n\
         {0}simulate departures table [RUNS]\n\
         {0}simulate departures find RUNS [process|pod] | simulate departures seed N [process|pod]\n\
         NAME is mixed, storm, pairs, lengths, reloads or gaps. WHAT is one of {1}, or ROW FAULT. Rows \
         and faults are numbers from 0, in the table's order; without them, the mixed runs of the tests",
        "       ",
        named.join(", ")
    );
    ExitCode::from(64)
}

fn runs(words: &[&str]) -> Option<u64> {
    match words {
        [] => Some(1_000),
        [runs] => runs.parse().ok().filter(|runs| *runs > 0),
        _ => None,
    }
}

/// A number below so many.
fn below(word: &str, many: usize) -> Option<usize> {
    word.parse().ok().filter(|number| *number < many)
}

fn scenario(what: &[&str]) -> Option<Box<dyn Fn(u64) -> Scenario + Sync>> {
    match what {
        [rest @ .., "without", rule] => {
            let (rule, scenario) = ((*rule).to_owned(), scenario(rest)?);
            without(scenario(0), &rule)?;
            Some(Box::new(move |seed| without(scenario(seed), &rule).expect("a known rule")))
        }
        [] => Some(Box::new(mixed_scenario)),
        [name] => SCENARIOS.iter().find(|(known, _)| known == name).map(|(_, scenario)| Box::new(*scenario) as _),
        ["levels", row, fault] => {
            let row = LEVELS[below(row, LEVELS.len())?];
            let fault = LEVEL_FAULTS[below(fault, LEVEL_FAULTS.len())?];
            Some(Box::new(move |seed| table_scenario(seed, row, fault)))
        }
        [row, fault] => {
            let row = ROWS[below(row, ROWS.len())?];
            let fault = Fault::ALL[below(fault, Fault::ALL.len())?];
            Some(Box::new(move |seed| table_scenario(seed, row, fault)))
        }
        _ => None,
    }
}

fn quorum_scenario(what: &[&str]) -> Option<Box<dyn Fn(u64) -> quorum::world::Scenario + Sync>> {
    use quorum::{faults::Fault, run};
    match what {
        [rest @ .., "without", rule] => {
            let (rule, scenario) = ((*rule).to_owned(), quorum_scenario(rest)?);
            without_of_quorum(scenario(0), &rule)?;
            Some(Box::new(move |seed| without_of_quorum(scenario(seed), &rule).expect("a known rule")))
        }
        [] => Some(Box::new(run::mixed_scenario)),
        [row, fault] => {
            let (_, rules) = run::ROWS[below(row, run::ROWS.len())?];
            let fault = Fault::ALL[below(fault, Fault::ALL.len())?];
            Some(Box::new(move |seed| run::table_scenario(seed, rules, fault)))
        }
        [name] => run::SCENARIOS.iter().find(|(known, _)| known == name).map(|(_, scenario)| Box::new(*scenario) as _),
        _ => None,
    }
}

/// The same without one of the rules of a quorum.
fn without_of_quorum(mut scenario: quorum::world::Scenario, rule: &str) -> Option<quorum::world::Scenario> {
    let rules = &mut scenario.rules;
    match rule {
        "sent_at" => rules.sent_at = false,
        "tokens" => rules.tokens = false,
        "reassert" => rules.reassert = false,
        "generation" => rules.generation = false,
        "empty" => rules.empty = false,
        "longest" => rules.longest = false,
        "until" => rules.until = false,
        "promises" => rules.promises = false,
        "objection" => rules.objection = false,
        "newest_term" => rules.newest_term = false,
        _ => return None,
    }
    Some(scenario)
}

/// How long nobody leads when a leader of a quorum resigns.
fn quorum_handovers(runs: u64) {
    use quorum::run::{Minority, handovers};
    for members in [3, 5] {
        for minority in Minority::ALL {
            let fold = |sum: &mut Vec<u64>, _, waits: Vec<u64>| sum.extend(waits);
            let play = |seed| handovers(seed, members, minority);
            let mut waits: Vec<u64> = run_many(runs, play, Vec::new, fold).into_iter().flatten().collect();
            waits.sort_unstable();
            let at = |share: f64| waits[((waits.len() - 1) as f64 * share) as usize] as f64 / 1e6;
            println!(
                "{members} members, {minority:?}: half within {:.1} ms, 90 % {:.1} ms, 99 % {:.1} ms, all {} within \
                     {:.1} ms",
                at(0.5),
                at(0.9),
                at(0.99),
                waits.len(),
                at(1.0)
            );
        }
    }
}

/// Prints the seeds that break a promise, and how, and how much happened.
fn find(runs: u64, play: impl Fn(u64) -> Verdict + Sync) {
    let fold = |sum: &mut (u64, f64, Vec<(u64, String)>), seed, verdict: Verdict| {
        sum.0 += verdict.terms;
        sum.1 += verdict.led_share;
        if !verdict.is_clean() {
            sum.2.push((seed, verdict.first.unwrap_or_default()));
        }
    };
    let parts = run_many(runs, play, || (0, 0.0, Vec::new()), fold);
    let terms: u64 = parts.iter().map(|part| part.0).sum();
    let led = parts.iter().map(|part| part.1).sum::<f64>() / runs as f64;
    let mut found: Vec<(u64, String)> = parts.into_iter().flat_map(|part| part.2).collect();
    found.sort();
    for (seed, what) in &found {
        println!("seed {seed}: {what}");
    }
    println!("{runs} runs, {terms} terms, a leader for {:.1} % of the time, {} broken", led * 100.0, found.len());
}

fn job_scenario(seed: u64, log: bool) -> jobs::world::Scenario {
    jobs::world::Scenario { seed, focus: jobs::world::Focus::All, rules: jobs::world::Rules::ALL, log }
}

fn find_jobs(runs: u64) {
    let play = |seed| jobs::world::World::play(job_scenario(seed, false));
    let fold = |found: &mut Vec<(u64, String)>, seed, verdict: jobs::world::Verdict| {
        found.extend(verdict.first.map(|what| (seed, what)));
    };
    let mut found: Vec<_> = run_many(runs, play, Vec::new, fold).into_iter().flatten().collect();
    found.sort();
    for (seed, what) in &found {
        println!("seed {seed}: {what}");
    }
    println!("{runs} runs of jobs, {} broken", found.len());
}

fn tell_job(seed: u64) {
    let verdict = jobs::world::World::play(job_scenario(seed, true));
    for line in &verdict.log {
        println!("{line}");
    }
    println!("{:?}", jobs::world::Verdict { log: Vec::new(), ..verdict });
}

fn tell(verdict: Verdict) {
    for line in &verdict.log {
        println!("{line}");
    }
    println!("{:?}", Verdict { log: Vec::new(), ..verdict });
}

/// A cell: runs with two leaders / with a token that went backwards (share of time with a leader).
fn cell(runs: u64, play: impl Fn(u64) -> Verdict + Sync) -> String {
    let fold = |sum: &mut (u64, u64, f64), _, verdict: Verdict| {
        sum.0 += u64::from(verdict.two_leaders);
        sum.1 += u64::from(verdict.token_regressions);
        sum.2 += verdict.led_share;
    };
    let sums = run_many(runs, play, || (0, 0, 0.0), fold);
    let (two, back, led) =
        sums.into_iter().fold((0, 0, 0.0), |sum, part| (sum.0 + part.0, sum.1 + part.1, sum.2 + part.2));
    format!("{two}/{back} ({:.2})", led / runs as f64).replace("(0.", "(.")
}

fn head(titles: &[&str]) {
    println!("| rules in force | {} |", titles.join(" | "));
    println!("|---|{}", "---|".repeat(titles.len()));
}

fn table(rows: &[Row], faults: &[Fault], runs: u64) {
    head(&faults.iter().map(|fault| fault.title()).collect::<Vec<_>>());
    for row in rows {
        let cells = faults.iter().map(|fault| cell(runs, |seed| run(table_scenario(seed, *row, *fault))));
        println!("| {} | {} |", row.name, cells.collect::<Vec<_>>().join(" | "));
    }
}

/// The rows of the table of departures.
const EVIDENCES: [(&str, Evidence, AppSign); 9] = [
    ("none: the lease runs out", Evidence::Nothing, AppSign::Asks),
    ("the end of its session, then the app's last promise", Evidence::Session, AppSign::Asks),
    ("the same, also where it may be made up", Evidence::Trusting, AppSign::Asks),
    ("the end of its session alone", Evidence::Hasty, AppSign::Asks),
    ("the end of a container of its pod, whichever instance", Evidence::Name, AppSign::Asks),
    ("the pod's object is gone", Evidence::Gone, AppSign::Asks),
    ("the end of its app's connection, which acts alone (`scope=process`)", Evidence::Nothing, AppSign::OfProcess),
    ("the end of its app's connection, then the last promise", Evidence::Nothing, AppSign::OfPod),
    ("`scope=process`, though a child of the app acts on", Evidence::Nothing, AppSign::Mistaken),
];

fn departures_table(runs: u64) {
    let faults = [Fault::Kill, Fault::Orphan, Fault::Cut, Fault::AppKilled, Fault::Mixed];
    let titles = faults.map(Fault::title);
    println!("| what is taken for an end | {} |\n|---|{}", titles.join(" | "), "---|".repeat(titles.len()));
    for (name, evidence, app) in EVIDENCES {
        let cells = faults.map(|fault| cell(runs, |seed| run(departures_table_scenario(seed, evidence, app, fault))));
        println!("| {name} | {} |", cells.join(" | "));
    }
}

fn quorum_table(runs: u64) {
    use quorum::{faults::Fault, run};
    head(&Fault::ALL.map(Fault::title));
    for (name, rules) in run::ROWS {
        let cells = Fault::ALL.map(|fault| cell(runs, |seed| run::run(run::table_scenario(seed, rules, fault))));
        println!("| {name} | {} |", cells.join(" | "));
    }
}

/// Twelve candidates at once, with some members that do not answer: how soon one of them leads.
fn duel(runs: u64) {
    for silent in 0..=2 {
        let fold = |sum: &mut Vec<(u64, u64)>, seed, verdict: Verdict| {
            sum.push((verdict.first_led_ms.unwrap_or(u64::MAX), seed));
        };
        let play = |seed| quorum::run::run(quorum::run::duel_scenario(seed * 3 + silent));
        let mut waits: Vec<(u64, u64)> = run_many(runs, play, Vec::new, fold).into_iter().flatten().collect();
        waits.sort_unstable();
        let at = |share: f64| waits[((waits.len() - 1) as f64 * share) as usize].0;
        let (longest, seed) = waits[waits.len() - 1];
        println!(
            "{silent} silent: half lead within {} ms, 99 % within {} ms, all within {longest} ms (seed {})",
            at(0.5),
            at(0.99),
            seed * 3 + silent
        );
    }
}
