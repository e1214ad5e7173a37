//! `make bench`: measures the release binary on this machine, and writes the figures into docs/performance.md.
//!
//! ```text
//! cargo bench --bench baton                      every part
//! cargo bench --bench baton -- poll handover     only these; the other figures in the page stay
//! ```
//!
//! | part | what is measured |
//! |---|---|
//! | `poll` | `GET /leader` against a bare hyper service with the same answer |
//! | `handover` | a resignation until the next leader's first `leader: true` |
//! | `crash` | SIGKILL until the next leader, less what was left of the lease |
//! | `rest` | scripts on Redis while nothing happens |
//! | `footprint` | size, memory, processor time at rest, start |
//! | `micro` | the steps inside |
//!
//! Every process that is measured is a real one: `baton` as it is released, a redis-server of the measurement's own.
//! Each result is a JSON line in target/bench/PART.jsonl, too. Nothing here fails because a figure is bad: a busy
//! machine makes bad figures. A goal that is missed is printed as such.

mod bare;
mod client;
mod crash;
mod footprint;
mod handover;
mod load;
mod micro;
mod poll;
mod replica;
mod report;
mod rest;
mod stats;
#[path = "../../tests/support/mod.rs"]
mod support;

use report::{Report, Row};
use support::redis::RedisServer;

/// The parts, in the order in which they are measured.
const PARTS: [&str; 6] = ["poll", "handover", "crash", "rest", "footprint", "micro"];

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|arg| arg == bare::ARGUMENT) {
        bare::serve(&args[1..]);
        return;
    }
    // Cargo adds `--bench`.
    let wanted: Vec<&str> = args.iter().map(String::as_str).filter(|arg| !arg.starts_with('-')).collect();
    if let Some(unknown) = wanted.iter().find(|part| !PARTS.contains(part)) {
        eprintln!("there is no part {unknown:?}; there are {}", PARTS.join(", "));
        std::process::exit(64);
    }
    // Started first: the guard of a Redis without any record ends one lease after its start.
    let redis = RedisServer::start();
    let report = Report::begin();
    for part in PARTS.into_iter().filter(|part| wanted.is_empty() || wanted.contains(part)) {
        println!("\n{part}");
        let begun = report::Begun::now();
        let rows = measure(part, &redis);
        report.finish(part, &begun, &rows);
    }
}

fn measure(part: &str, redis: &RedisServer) -> Vec<Row> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("the operating system gives a runtime");
    match part {
        "poll" => runtime.block_on(poll::measure()),
        "handover" => runtime.block_on(handover::measure(redis)),
        "crash" => runtime.block_on(crash::measure(redis)),
        "rest" => runtime.block_on(rest::measure()),
        "footprint" => runtime.block_on(footprint::measure(redis)),
        _ => micro::measure(),
    }
}
