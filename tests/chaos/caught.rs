//! A checker that cannot fail proves nothing: settings that are known to be weak are run until they show two leaders.

use std::time::Duration;

use testkit::services::{Service, named};

use crate::fault::Fault;
use crate::run::{Plan, run};
use crate::series::{network_allowed, tell};
use crate::stage::Kind;

/// Seeds that are tried. One of them is mostly enough.
const SEEDS_MAX: u64 = 6;

fn is_caught(kind: Kind, fault: Fault, service: Option<&'static Service>) {
    let span = Duration::from_secs(8);
    assert!(!kind.is_safe(fault), "nothing is promised here");
    for seed in 0..SEEDS_MAX {
        let measured =
            run(Plan { kind, fault, seed, span, faults_max: usize::MAX, service, recorded: false }, network_allowed());
        tell(&measured);
        if !measured.verdict.windows.is_empty() {
            let complaints = measured.complaints();
            assert!(complaints.contains("two leaders") && complaints.contains(&format!("CHAOS_SEED={seed}")));
            return;
        }
    }
    panic!("two leaders were to be expected: {kind:?}, {fault:?}");
}

#[test]
fn a_split_without_acknowledgements_is_caught_as_two_leaders() {
    if network_allowed() {
        is_caught(Kind::Sentinel, Fault::Split, None);
    }
}

#[test]
fn a_redis_that_forgets_without_a_guard_is_caught_as_two_leaders() {
    is_caught(Kind::Unguarded, Fault::StoreLoss, None);
}

#[test]
#[ignore = "nothing that make test would not see on Redis itself: make compat"]
fn the_same_behind_what_a_service_refuses_is_caught() {
    is_caught(Kind::Unguarded, Fault::StoreLoss, Some(named("Redis Software")));
}
