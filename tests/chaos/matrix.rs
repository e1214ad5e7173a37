//! Two hundred faults on a server that is to be had (`BATON_REDIS_SERVER`), and behind what services refuse: a table of
//! docs/compatibility.md, which `make compat` writes, server by server.

use std::thread;
use std::time::{Duration, Instant};

use testkit::page::COMPATIBILITY;
use testkit::redis::name;
use testkit::services::{Service, named};

use crate::fault::Fault;
use crate::run::{Measured, Plan, run};
use crate::series::{network_allowed, seed, tell};
use crate::stage::Kind;

/// On what each server stands: as many as two cores bear side by side without being late themselves.
const STORES: [Kind; 4] = [Kind::Durable, Kind::Volatile, Kind::SentinelAcks, Kind::Cluster];
const FAULTS_MIN: usize = 200;
/// Of each run: far longer than it takes, which is some two minutes.
const SPAN_MAX: Duration = Duration::from_secs(400);

/// Runs all of them side by side, and says what came of it.
///
/// # Panics
/// When one could not be run to its end; it has told why.
fn side_by_side(plans: &[Plan]) -> Vec<Measured> {
    let (begun, network) = (Instant::now(), network_allowed());
    let measured = thread::scope(|scope| {
        let runs: Vec<_> = plans.iter().map(|plan| scope.spawn(move || run(*plan, network))).collect();
        // All are waited for before one that failed ends the test.
        runs.into_iter().map(thread::ScopedJoinHandle::join).collect::<Vec<_>>()
    });
    let measured: Vec<Measured> =
        measured.into_iter().map(|run| run.expect("it runs to its end, whatever it shows")).collect();
    measured.iter().for_each(tell);
    let faults = measured.iter().map(|run| run.faults).sum::<usize>();
    println!("{faults} faults in {} s, {} runs side by side", begun.elapsed().as_secs(), plans.len());
    measured
}

/// Plans for at least [`FAULTS_MIN`] faults together.
fn plans(kinds: &[Kind], service: Option<&'static Service>, seed: u64) -> Vec<Plan> {
    let faults_max = FAULTS_MIN.div_ceil(kinds.len());
    let plan = |(at, kind): (u64, &Kind)| {
        let seed = seed.wrapping_mul(1_000).wrapping_add(at);
        Plan { kind: *kind, fault: Fault::Mixed, seed, span: SPAN_MAX, faults_max, service, recorded: false }
    };
    (0..).zip(kinds).map(plan).collect()
}

/// The row of these runs, with the number of faults for each store.
fn row(name: String, runs: &[&Measured]) -> Vec<String> {
    let faults = |kind: &Kind| runs.iter().filter(|run| run.plan.kind == *kind).map(|run| run.faults).sum::<usize>();
    let cells = STORES.iter().map(faults).map(|faults| if faults == 0 { "–".to_owned() } else { faults.to_string() });
    let found = |count: usize| if count == 0 { "0".to_owned() } else { format!("**{count}**") };
    let windows = runs.iter().map(|run| run.verdict.windows.len()).sum();
    let back = runs.iter().map(|run| run.verdict.regressions.len()).sum();
    std::iter::once(name).chain(cells).chain([found(windows), found(back)]).collect()
}

/// Judges all runs, by the rows that they belong to.
fn judge(rows: &[(String, Vec<&Measured>)]) {
    let columns: Vec<&str> = STORES.iter().map(|kind| kind.title()).collect();
    let columns = [&["server"], &columns[..], &["two leaders", "tokens back"]].concat();
    let cells: Vec<Vec<String>> = rows.iter().map(|(name, runs)| row(name.clone(), runs)).collect();
    let complaints: String = rows.iter().flat_map(|(_, runs)| runs).map(|run| run.complaints()).collect();
    print!("{complaints}");
    if network_allowed() {
        COMPATIBILITY.hold_or_write_rows("faults", &columns, &cells);
    } else {
        println!("notice: docs/compatibility.md is of runs with networks that can be cut, and stays as it is");
    }
    for (name, runs) in rows {
        let faults = runs.iter().map(|run| run.faults).sum::<usize>();
        assert!(faults >= FAULTS_MIN, "{name}: only {faults} faults in {SPAN_MAX:?}");
    }
    assert!(complaints.is_empty(), "{complaints}");
}

fn drawn() -> u64 {
    let seed = seed().unwrap_or_else(|| fastrand::u64(..1_000_000));
    println!("BATON_CHAOS_SEED={seed}");
    seed
}

#[test]
#[ignore = "takes minutes: make compat"]
fn two_hundred_faults_on_this_server() {
    let runs = side_by_side(&plans(&STORES, None, drawn()));
    judge(&[(name(), runs.iter().collect())]);
}

/// One whose scripts may not ask which server it is, and one that speaks RESP2.
#[test]
#[ignore = "takes minutes: make compat"]
fn two_hundred_faults_behind_what_services_refuse() {
    let seed = drawn();
    let services = ["Redis Software", "Tencent Cloud"].map(named);
    let kinds = [Kind::Durable, Kind::Volatile];
    let all: Vec<Plan> =
        (0..).zip(services).flat_map(|(at, service)| plans(&kinds, Some(service), seed.wrapping_add(at))).collect();
    let runs = side_by_side(&all);
    let of = |service: &Service| {
        let is_its = |run: &&Measured| run.plan.service.is_some_and(|its| its.profile.name == service.profile.name);
        (format!("{}, on {}", service.profile.name, name()), runs.iter().filter(is_its).collect())
    };
    judge(&services.map(of));
}
