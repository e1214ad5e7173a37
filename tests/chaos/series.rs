//! Runs one after the other and side by side: the short ones of `make test`, and the table of `make chaos`.

use std::panic::catch_unwind;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use testkit::place::Network;
use testkit::services::named;
use testkit::sidecars::clock;

use crate::fault::Fault;
use crate::leases;
use crate::run::{Measured, Plan, run};
use crate::stage::Kind;
use crate::table::{Table, with_table};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/guarantees.md");
/// Of each store in `make test`.
const SHORT: Duration = Duration::from_secs(6);
/// What a run takes besides its faults: servers that start, and an end that is waited for.
const AROUND: Duration = Duration::from_secs(8);
/// As many as one cell of the table needs.
const FAULTS_ENOUGH: usize = 12;

pub fn number(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text}: a whole number is wanted")))
}

/// Whether this machine lets us have networks that can be cut; told once if not.
pub fn network_allowed() -> bool {
    static ALLOWED: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *ALLOWED.get_or_init(|| match Network::start(2) {
        Ok(_) => true,
        Err(error) => {
            println!("left out: cut networks and splits, which take root and iproute2 here ({error})");
            false
        }
    })
}

fn wanted_kind() -> Option<Kind> {
    let name = env::var("BATON_CHAOS_STORE").ok()?;
    let found = Kind::ALL.into_iter().find(|kind| kind.name() == name);
    Some(found.unwrap_or_else(|| panic!("{name}: one of {:?}", Kind::ALL.map(Kind::name))))
}

fn wanted_fault() -> Option<Fault> {
    let name = env::var("BATON_CHAOS_FAULT").ok()?;
    let found = Fault::ALL.into_iter().find(|fault| fault.name() == name);
    Some(found.unwrap_or_else(|| panic!("{name}: one of {:?}", Fault::ALL.map(Fault::name))))
}

/// Of `make test`: the same faults in every run. Behind Sentinels they once made two leaders: a replica came back to a
/// master that had gone on without it. `make chaos` draws its own.
const SEED_SHORT: u64 = 90_713;

/// `BATON_CHAOS_SEED`.
pub fn seed() -> Option<u64> {
    number("BATON_CHAOS_SEED")
}

pub fn tell(measured: &Measured) {
    let Measured { plan, faults, answers, verdict, refused, .. } = measured;
    let before = plan.service.map_or(String::new(), |service| format!("{}, ", service.profile.name));
    println!(
        "{before}{} {}: seed {}, {faults} faults, {answers} answers, {} terms, {} two-leader windows, {} tokens back, \
         {refused} incumbents refused, leaderless {} ms at the most, led {:.2}, a leader {} ms after the end, \
         apps looked away for {} ms at the most",
        plan.kind.name(),
        plan.fault.name(),
        plan.seed,
        verdict.terms,
        verdict.windows.len(),
        verdict.regressions.len(),
        verdict.leaderless_max.as_millis(),
        verdict.led_share,
        measured.recovery.map_or("no".to_owned(), |took| took.as_millis().to_string()),
        measured.blind_max.as_millis(),
    );
}

fn short(kind: Kind) {
    if wanted_kind().is_some_and(|wanted| wanted != kind) {
        return;
    }
    let span = number("BATON_CHAOS_SECONDS").map_or(SHORT, Duration::from_secs);
    let fault = wanted_fault().unwrap_or(Fault::Mixed);
    let faults_max = number("BATON_CHAOS_FAULTS").map_or(usize::MAX, |faults| usize::try_from(faults).expect("some"));
    let service = env::var("BATON_CHAOS_SERVICE").ok().map(|name| named(&name));
    let plan = Plan { kind, fault, seed: seed().unwrap_or(SEED_SHORT), span, faults_max, service, recorded: false };
    println!("{}", plan.replay());
    let measured = run(plan, network_allowed());
    tell(&measured);
    let complaints = measured.complaints();
    assert!(complaints.is_empty(), "{complaints}");
}

#[test]
fn whatever_happens_at_most_one_leads_on_one_redis_and_in_the_end_one_does() {
    short(Kind::Durable);
}

#[test]
fn whatever_happens_at_most_one_leads_on_a_redis_that_keeps_nothing_and_in_the_end_one_does() {
    short(Kind::Volatile);
}

#[test]
fn whatever_happens_at_most_one_leads_behind_sentinels_and_in_the_end_one_does() {
    short(Kind::SentinelAcks);
}

#[test]
fn whatever_happens_at_most_one_leads_on_a_cluster_and_in_the_end_one_does() {
    short(Kind::Cluster);
}

#[test]
fn whatever_happens_at_most_one_leads_on_a_quorum_of_five_and_in_the_end_one_does() {
    short(Kind::Quorum);
}

#[test]
fn whatever_happens_at_most_one_leads_on_a_quorum_whose_members_change_and_in_the_end_one_does() {
    short(Kind::Changing);
}

#[test]
fn whatever_happens_at_most_one_leads_on_lease_objects_and_in_the_end_one_does() {
    short(Kind::Kubernetes);
}

#[test]
#[ignore = "repeats one run: set BATON_CHAOS_SEED, BATON_CHAOS_STORE and BATON_CHAOS_FAULT as it was printed"]
fn replay() {
    short(wanted_kind().unwrap_or(Kind::Durable));
}

#[test]
#[ignore = "takes BATON_CHAOS_SECONDS, ten minutes by default: make chaos"]
fn measure_the_table() {
    let (seed, network) = (seed().unwrap_or_else(|| fastrand::u64(..1_000_000)), network_allowed());
    let seconds = number("BATON_CHAOS_SECONDS").unwrap_or(600);
    println!("BATON_CHAOS_SEED={seed}, {seconds} s");
    let kinds = kinds_to_measure();
    let of_kind = |kind: &Kind| {
        kind.faults(network).map({
            let kind = *kind;
            move |fault| (kind, fault)
        })
    };
    let mut cells: Vec<(Kind, Fault)> = kinds.iter().flat_map(of_kind).collect();
    cells.retain(|(_, fault)| wanted_fault().is_none_or(|wanted| wanted == *fault));
    // The slow ones last, so that they share the time that the others have left.
    cells.sort_by_key(|(kind, fault)| kind.hosts() > 1 && !fault.is_of_a_replica());
    let begun = Instant::now();
    let (all, unfinished) = measure(&cells, seed, Duration::from_secs(seconds), network);
    let fresh = Table::of(&all, seed, begun.elapsed());
    println!("{}", fresh.text());
    let whole = wanted_fault().is_none() && unfinished.is_empty() && network && clock::library().is_some();
    if env::var("BATON_CHAOS_WRITE").is_ok() && whole {
        let page = fs::read_to_string(PAGE).expect("the page is there");
        let mut table = Table::on(&page);
        table.take_columns(fresh, &kinds);
        fs::write(PAGE, with_table(&page, &table)).expect("the page can be written");
    }
    let broken = all.iter().filter(|measured| measured.plan.kind.is_safe(measured.plan.fault));
    let broken: Vec<String> = broken.map(Measured::complaints).filter(|text| !text.is_empty()).collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    assert!(unfinished.is_empty(), "these were not run to their end: {unfinished:#?}");
}

/// All stores, or the wanted one; not a fake one.
fn kinds_to_measure() -> Vec<Kind> {
    let is_wanted = |kind: &Kind| wanted_kind().is_none_or(|wanted| wanted == *kind);
    let is_fake = |kind: &Kind| *kind == Kind::Kubernetes && !leases::wants_real();
    let (fake, real): (Vec<Kind>, Vec<Kind>) = Kind::ALL.into_iter().filter(is_wanted).partition(is_fake);
    if !fake.is_empty() {
        println!("left out: leases in Kubernetes, which take BATON_TEST_APISERVER=real and Go here");
    }
    real
}

/// Some at a time, in order of `cells`. Each gets its share of the time that is left.
fn measure(cells: &[(Kind, Fault)], seed: u64, span: Duration, network: bool) -> (Vec<Measured>, Vec<Plan>) {
    let jobs = number("BATON_CHAOS_JOBS").map_or(2, |jobs| usize::try_from(jobs).expect("a few"));
    let (end, next, done) = (Instant::now() + span, AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || loop {
        let at = next.fetch_add(1, Ordering::Relaxed);
        let Some(&(kind, fault)) = cells.get(at) else { return };
        let left = end.saturating_duration_since(Instant::now());
        let share = left * u32::try_from(jobs).expect("a few") / u32::try_from(cells.len() - at).expect("a few");
        let span = share.saturating_sub(AROUND).max(Duration::from_secs(1));
        let own_seed = seed.wrapping_mul(1_000).wrapping_add(at as u64);
        let plan =
            Plan { kind, fault, seed: own_seed, span, faults_max: FAULTS_ENOUGH, service: None, recorded: false };
        // One that could not be run to its end does not take the others with it; it has told why, and fails in the end.
        let measured = catch_unwind(|| run(plan, network));
        if let Ok(measured) = &measured {
            tell(measured);
            print!("{}", measured.complaints());
        }
        done.lock().expect("nobody panics with it").push(measured.map_err(|_| plan));
    };
    thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(work);
        }
    });
    let (mut all, mut unfinished) = (Vec::new(), Vec::new());
    for result in done.into_inner().expect("nobody panics with it") {
        match result {
            Ok(measured) => all.push(measured),
            Err(plan) => unfinished.push(plan),
        }
    }
    (all, unfinished)
}
