//! All systems, some at a time; and one that is broken on purpose.

use std::env;
use std::panic::catch_unwind;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use testkit::peers::{Missing, Peer, install};
use testkit::redis;
use testkit::sidecars::clock;

use crate::fault::Fault;
use crate::run::{Plan, Struck, run};
use crate::system::{Store, System};
use crate::table::{PAGE, rows};

fn number(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text}: a whole number is wanted")))
}

/// What `variable` names, of these.
fn wanted<T: Copy>(variable: &str, all: &[T], name: impl Fn(T) -> &'static str) -> Vec<T> {
    let Ok(text) = env::var(variable) else { return all.to_vec() };
    let found: Vec<T> = all.iter().copied().filter(|one| name(*one) == text).collect();
    let known: Vec<&str> = all.iter().map(|one| name(*one)).collect();
    assert!(!found.is_empty(), "{variable}={text}: one of {known:?}");
    found
}

/// What a system needs that is not in Debian.
fn plan(system: System, faults: &[Fault], seed: u64, span: Duration) -> Result<Plan, Missing> {
    let peer = system.peer().map(|(name, _)| install(name)).transpose()?;
    let server = match system.store() {
        Store::Redis => None,
        Store::Own(name) => Some(install(name)?),
        Store::ApiServer => Some(install("apiserver")?),
    };
    let faults = faults.iter().copied().filter(|fault| system.can_have(*fault)).collect();
    Ok(Plan { system, peer, server, faults, seed, span })
}

/// What took part, in words.
fn versions(plan: &Plan) -> String {
    let of = |peer: &Peer| peer.version.clone();
    let own = plan.peer.as_ref().map_or_else(|| format!("Baton {}", env!("CARGO_PKG_VERSION")), of);
    match (plan.system.store(), &plan.server) {
        (Store::Redis, _) => format!("{own}, {}", redis::name()),
        (Store::ApiServer, Some(server)) => format!("{own}, {}", server.version),
        _ => own,
    }
}

/// Some at a time. One that could not be run to its end does not take the others with it; it has told why.
fn run_all(plans: Vec<Plan>, jobs: usize) -> Vec<(System, Option<Vec<Struck>>)> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some(plan) = plans.get(next.fetch_add(1, Ordering::Relaxed)) {
            let begun = Instant::now();
            let struck = catch_unwind(|| run(plan.clone())).ok();
            let faults = struck.as_ref().map_or(0, Vec::len);
            println!("{}: {faults} faults in {} s", plan.system.name(), begun.elapsed().as_secs());
            done.lock().expect("nobody panics with it").push((plan.system, struck));
        }
    };
    thread::scope(|scope| (0..jobs).for_each(|_| drop(scope.spawn(work))));
    let mut done = done.into_inner().expect("nobody panics with it");
    done.sort_by_key(|(system, _)| *system);
    done
}

#[test]
#[ignore = "takes BATON_JEPSEN_SECONDS, half an hour by default: make jepsen"]
fn peers_in_the_same_fire() {
    let seed = number("BATON_JEPSEN_SEED").unwrap_or_else(|| fastrand::u64(..1_000_000));
    let seconds = number("BATON_JEPSEN_SECONDS").unwrap_or(1_600);
    let jobs = number("BATON_JEPSEN_JOBS").map_or(2, |jobs| usize::try_from(jobs).expect("a few"));
    let faults = wanted("BATON_JEPSEN_FAULT", &Fault::ALL, Fault::name);
    let systems = wanted("BATON_JEPSEN_SYSTEM", &System::ALL, System::name);
    println!("BATON_JEPSEN_SEED={seed}, {seconds} s");
    let rounds = systems.len().div_ceil(jobs);
    let span = Duration::from_secs(seconds) / u32::try_from(rounds).expect("a few");
    let (plans, missing): (Vec<_>, Vec<_>) =
        systems.iter().map(|system| plan(*system, &faults, seed, span)).partition(Result::is_ok);
    let missing: Vec<Missing> = missing.into_iter().filter_map(Result::err).collect();
    // Where one fault alone is wanted, not every system can have it.
    let plans: Vec<Plan> = plans.into_iter().flatten().filter(|plan| !plan.faults.is_empty()).collect();
    missing.iter().for_each(|Missing { peer, why }| println!("notice: {peer} does not take part: {why}"));
    let about: Vec<String> = plans.iter().map(|plan| format!("- {}\n", versions(plan))).collect();

    let done = run_all(plans, jobs);
    let unfinished: Vec<System> = done.iter().filter(|(_, struck)| struck.is_none()).map(|(one, _)| *one).collect();
    let all: Vec<(System, Vec<Struck>)> =
        done.into_iter().filter_map(|(system, struck)| Some((system, struck?))).collect();
    let count: usize = all.iter().map(|(_, struck)| struck.len()).sum();
    let head = format!("Seed {seed}, {count} faults, {jobs} systems at a time.\n\n");
    let text = format!("{head}{}", rows(&all));
    println!("{text}");
    let is_whole = missing.is_empty() && unfinished.is_empty() && faults.len() == Fault::ALL.len();
    if is_whole && systems.len() == System::ALL.len() && clock::library().is_some() {
        PAGE.write_only("table", &text);
        PAGE.write_only("versions", &about.concat());
    }
    assert!(unfinished.is_empty(), "these were not run to their end: {unfinished:?}");
    // What the page promises of Baton, whatever becomes of the others.
    let broken = all.iter().filter(|(system, _)| *system == System::Baton).flat_map(|(_, struck)| struck);
    let broken: Vec<&Struck> = broken.filter(|one| one.verdict.two_holders || one.verdict.fenced_lost).collect();
    assert!(broken.is_empty(), "Baton: {broken:#?}");
}

#[test]
#[ignore = "starts a Redis in a network of its own: make jepsen"]
fn a_lock_that_is_broken_on_purpose_is_found_by_both_judges() {
    // Two faults, after neither of which one alone comes to hold it.
    let plan = match plan(System::Pretended, &[Fault::Pause], 1, Duration::from_secs(25)) {
        Ok(plan) => plan,
        Err(Missing { peer, why }) => panic!("{peer} is missing: {why}"),
    };
    let struck = run(plan);
    assert!(struck.len() >= 2, "{struck:?}");
    for one in struck {
        assert!(one.verdict.two_holders && one.verdict.plain_lost, "{one:?}");
    }
}
