//! The protocol under seeded faults. `make test` runs a few thousand seeds, `make chaos` hundreds of thousands
//! (`BATON_SIM_SEEDS` sets the number). A failure prints its seed and what led to it; `simulate seed N` replays it.

use std::env;

mod checker;
mod faults;
mod run;
mod world;

use run::{ROWS, Verdict, mixed_scenario, run, run_many, table_scenario};

const SEEDS: u64 = 2_000;

fn seeds() -> u64 {
    env::var("BATON_SIM_SEEDS").map_or(SEEDS, |text| text.parse().expect("BATON_SIM_SEEDS is a number"))
}

/// The end of a failed run's log: enough to see what happened, little enough to read.
fn story(seed: u64) -> String {
    let verdict = run(world::Scenario { log: true, ..mixed_scenario(seed) });
    let from = verdict.log.len().saturating_sub(400);
    format!(
        "seed {seed}: {}\n{}\nreplay with: cargo run --release --example simulate -- seed {seed}",
        verdict.first.as_deref().unwrap_or("?"),
        verdict.log[from..].join("\n")
    )
}

#[test]
fn no_mix_of_faults_breaks_a_promise() {
    let failed: Vec<u64> = run_many(seeds(), mixed_scenario, Vec::new, |failed, seed, verdict: Verdict| {
        if !verdict.is_clean() {
            failed.push(seed);
        }
    })
    .concat();
    if let Some(seed) = failed.iter().min() {
        panic!("{} of {} runs failed: {failed:?}\n{}", failed.len(), seeds(), story(*seed));
    }
}

#[test]
fn the_same_seed_replays_the_same_run() {
    for seed in 0..5 {
        let scenario = world::Scenario { log: true, ..mixed_scenario(seed) };
        let (one, two) = (run(scenario), run(scenario));
        assert_eq!(one.log, two.log);
        assert!(one.terms > 0 && one.log.len() > 100, "a run in which nothing happens shows nothing");
    }
}
