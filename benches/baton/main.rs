//! `make bench`: measures the release binary on this machine beside what people would use instead, and writes the
//! figures into docs/performance.md.
//!
//! ```text
//! make bench                          every part
//! make bench PART="handover crash"    only these; the other figures in the page stay
//! ```
//!
//! [`parts::ALL`] names the parts; each is a file of `parts/`. The peers are programs of `benches/peers`, which install
//! themselves into target/bench-peers; one that cannot is named as missing, with the reason.
//!
//! Every process that is measured is a real one: `baton` as it is released, servers of the measurement's own. Each
//! result is a JSON line in target/bench/PART.jsonl, too. Nothing here fails because a figure is bad: a busy machine
//! makes bad figures. A goal that is missed is told as such. What fails is a part that breaks or takes longer than its
//! budget; its earlier figures stay.
//!
//! `cargo bench --features bench --bench baton -- --page` measures nothing and writes the page anew, with what its
//! parts say now and the figures that it has.
//!
//! `BATON_BENCH_SHARE=0.1` does a tenth of all repetitions, `BATON_BENCH_BINARY=FILE` measures another binary. Both are
//! trials: their page and lines go to target/bench/trial.

mod apps;
mod bare;
mod client;
mod crew;
mod crowd;
mod load;
mod page;
mod part;
mod parts;
mod peers;
mod plot;
mod process;
mod raw;
mod replica;
mod report;
#[path = "../../tests/store/requests.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod requests;
mod stats;
mod supervisor;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use part::{Bench, Findings, Part};
use report::{Begun, Report};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.iter().any(|arg| arg == "--page") {
        page::Page::of(&part::root().join("docs")).write(None);
        return ExitCode::SUCCESS;
    }
    if let Some(code) = supervisor::supervise() {
        return code;
    }
    // Cargo adds `--bench`.
    let wanted: Vec<&str> = args.iter().map(String::as_str).filter(|arg| !arg.starts_with('-')).collect();
    if let Some(unknown) = wanted.iter().find(|name| parts::ALL.iter().all(|part| part.name != **name)) {
        eprintln!("there is no part {unknown:?}; there are {}", parts::ALL.map(|part| part.name).join(", "));
        return ExitCode::from(64);
    }
    let share = match std::env::var("BATON_BENCH_SHARE").map(|text| text.parse::<f64>()) {
        Err(_) => 1.0,
        Ok(Ok(share)) if share > 0.0 && share <= 1.0 => share,
        Ok(_) => {
            eprintln!("BATON_BENCH_SHARE is a number above 0, at most 1");
            return ExitCode::from(64);
        }
    };
    let trial = share < 1.0 || replica::binary() != replica::BUILT;
    let (mut bench, report) = (Bench::start(share), Report::begin(trial));
    let mut all_went_well = true;
    for part in parts::ALL.iter().filter(|part| wanted.is_empty() || wanted.contains(&part.name)) {
        bench.install(part.peers);
        println!("\n{}", part.name);
        let begun = Begun::now();
        match measure(part, &bench) {
            Ok(findings) => report.finish(part, &begun, &findings),
            Err(why) => {
                all_went_well = false;
                eprintln!("  no figures: {why}");
            }
        }
    }
    if all_went_well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Within the part's budget. A panic, of a process that does not start for example, costs no other part its figures.
fn measure(part: &Part, bench: &Bench) -> Result<Findings, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("the operating system gives a runtime");
    bench.begin(part);
    let measuring = || runtime.block_on(async { tokio::time::timeout(part.budget, (part.measure)(bench)).await });
    match catch_unwind(AssertUnwindSafe(measuring)) {
        Ok(Ok(findings)) => Ok(findings),
        Ok(Err(_)) => Err(format!("not within its budget of {:?}", part.budget)),
        Err(panic) => {
            let words = panic.downcast_ref::<String>().map(String::as_str);
            Err(words.or(panic.downcast_ref::<&str>().copied()).unwrap_or("it broke; see above").to_owned())
        }
    }
}
