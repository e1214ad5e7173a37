//! `cargo run --release --example simulate -- table [RUNS]` prints the table of docs/guarantees.md: what each rule is
//! worth. `… -- find RUNS [ROW FAULT]` lists the seeds that break a promise; `… -- seed N` replays one mixed run of the
//! tests with its log; `… -- seed N ROW FAULT` one of the table's.

use std::process::ExitCode;

mod checker;
mod faults;
mod run;
mod world;

use faults::Fault;
use run::{ROWS, Verdict, mixed_scenario, run, run_many, table_scenario};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["table"] => table(1_000),
        ["table", runs] if runs.parse::<u64>().is_ok() => table(runs.parse().unwrap_or(1_000)),
        ["find", runs] if runs.parse::<u64>().is_ok() => find(runs.parse().unwrap_or(0), mixed_scenario),
        ["storm", runs] if runs.parse::<u64>().is_ok() => find(runs.parse().unwrap_or(0), run::storm_scenario),
        ["find", runs, row, fault] => match (runs.parse(), row.parse::<usize>(), fault.parse::<usize>()) {
            (Ok(runs), Ok(row), Ok(fault)) if row < ROWS.len() && fault < Fault::ALL.len() => {
                find(runs, |seed| table_scenario(seed, ROWS[row].1, ROWS[row].2, Fault::ALL[fault]));
            }
            _ => return usage(),
        },
        ["seed", seed, rest @ ..] if seed.parse::<u64>().is_ok() => return replay(seed.parse().unwrap_or(0), rest),
        _ => return usage(),
    }
    ExitCode::SUCCESS
}

fn usage() -> ExitCode {
    eprintln!(
        "usage: simulate table [RUNS] | simulate find RUNS [ROW FAULT] | simulate seed N [ROW FAULT]\n\
         rows are 0 to 6 and faults 0 to 11, in the table's order; without them, the mixed runs of the tests"
    );
    ExitCode::from(64)
}

/// Prints the seeds that break a promise, and how, and how much happened.
fn find(runs: u64, scenario: impl Fn(u64) -> world::Scenario + Sync) {
    let fold = |sum: &mut (u64, Vec<(u64, String)>), seed, verdict: Verdict| {
        sum.0 += verdict.terms;
        if !verdict.is_clean() {
            sum.1.push((seed, verdict.first.unwrap_or_default()));
        }
    };
    let parts = run_many(runs, scenario, || (0, Vec::new()), fold);
    let terms: u64 = parts.iter().map(|part| part.0).sum();
    let mut found: Vec<(u64, String)> = parts.into_iter().flat_map(|part| part.1).collect();
    found.sort();
    for (seed, what) in &found {
        println!("seed {seed}: {what}");
    }
    println!("{runs} runs, {terms} terms, {} broken", found.len());
}

fn table(runs: u64) {
    let titles: Vec<&str> = Fault::ALL.iter().map(|fault| fault.title()).collect();
    println!("| rules in force | {} |", titles.join(" | "));
    println!("|---|{}", "---|".repeat(titles.len()));
    for (name, rules, acks) in ROWS {
        let cells: Vec<String> = Fault::ALL
            .iter()
            .map(|fault| {
                let sums = run_many(
                    runs,
                    |seed| table_scenario(seed, rules, acks, *fault),
                    || (0_u64, 0_u64, 0.0_f64),
                    |sum, _, verdict| {
                        sum.0 += u64::from(verdict.two_leaders);
                        sum.1 += u64::from(verdict.token_regressions);
                        sum.2 += verdict.led_share;
                    },
                );
                let (two, back, led) =
                    sums.into_iter().fold((0, 0, 0.0), |sum, part| (sum.0 + part.0, sum.1 + part.1, sum.2 + part.2));
                format!("{two}/{back} ({:.2})", led / runs as f64).replace("(0.", "(.")
            })
            .collect();
        println!("| {name} | {} |", cells.join(" | "));
    }
}

fn replay(seed: u64, rest: &[&str]) -> ExitCode {
    let number = |at: usize, below: usize| {
        rest.get(at).and_then(|word| word.parse::<usize>().ok()).filter(|number| *number < below)
    };
    let mut scenario = match (rest.len(), number(0, ROWS.len()), number(1, Fault::ALL.len())) {
        (0, ..) => mixed_scenario(seed),
        (1, ..) if rest == ["storm"] => run::storm_scenario(seed),
        (2, Some(row), Some(fault)) => table_scenario(seed, ROWS[row].1, ROWS[row].2, Fault::ALL[fault]),
        _ => return usage(),
    };
    scenario.log = true;
    let verdict = run(scenario);
    for line in &verdict.log {
        println!("{line}");
    }
    println!("{:?}", run::Verdict { log: Vec::new(), ..verdict });
    ExitCode::SUCCESS
}
