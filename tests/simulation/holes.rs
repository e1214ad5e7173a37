//! The ways to two leaders, or to a token that went back, that were found on real servers and by reading. For each the
//! runs in which it happens without the rule that closes it, and does not with it.

use crate::run::{Verdict, run, run_many};
use crate::scenario::{SCENARIOS, Scenario, without};

struct Hole {
    /// The rule that closes it, in the words of `SWITCHES`.
    rule: &'static str,
    scenario: &'static str,
    /// From which seed on, and how many.
    seeds: (u64, u64),
}

/// Whoever must have known the record to stand still for a lease is let in by none of the holes that `until`,
/// `vanished`, `empty` and listening close as well, and tell of sooner: those are shown without either.
///
/// A change of the protocol or of the world moves them: `simulate find 4000 SCENARIO without RULE` finds others.
const fn hole(rule: &'static str, scenario: &'static str, seed: u64, many: u64) -> Hole {
    Hole { rule, scenario, seeds: (seed, many) }
}

fn broken(hole: &Hole, change: impl Fn(Scenario) -> Scenario + Sync) -> Vec<(u64, Verdict)> {
    let (_, scenario) = SCENARIOS.iter().find(|(name, _)| *name == hole.scenario).expect("a known scenario");
    let (first, many) = hole.seeds;
    let fold = |sum: &mut Vec<(u64, Verdict)>, seed, verdict: Verdict| {
        if !verdict.is_clean() {
            sum.push((seed + first, verdict));
        }
    };
    run_many(many, |seed| run(change(scenario(seed + first))), Vec::new, fold).into_iter().flatten().collect()
}

/// Without its rule the hole is there, as `bad` sees it; with it, it is not.
fn is_closed(hole: &Hole, bad: fn(&Verdict) -> bool) {
    let off = broken(hole, |scenario| without(scenario, hole.rule).expect("a known rule"));
    let shown: Vec<u64> = off.iter().filter(|(_, verdict)| bad(verdict)).map(|(seed, _)| *seed).collect();
    println!("without {}: {} of {} {} runs, {shown:?}", hole.rule, shown.len(), hole.seeds.1, hole.scenario);
    assert!(!shown.is_empty(), "{} {:?} without {} show nothing", hole.scenario, hole.seeds, hole.rule);
    let on: Vec<u64> = broken(hole, |scenario| scenario).into_iter().map(|(seed, _)| seed).collect();
    assert!(on.is_empty(), "{} {on:?} break a promise with every rule", hole.scenario);
}

const fn two_leaders(verdict: &Verdict) -> bool {
    verdict.two_leaders
}

const fn no_leader(verdict: &Verdict) -> bool {
    verdict.no_leader
}

const fn token_back(verdict: &Verdict) -> bool {
    verdict.token_regressions
}

#[test]
fn r1_a_role_removed_and_added_again_within_its_drain() {
    is_closed(&hole("reload", "reloads", 0, 100), token_back);
    is_closed(&hole("reload", "reloads", 0, 100), two_leaders);
}

#[test]
fn r1_a_repeated_attempt_meets_a_guard_or_a_later_term() {
    is_closed(&hole("still+fresh_repeat+makes_way", "pairs", 240, 10), token_back);
}

#[test]
fn r1_one_that_is_granted_the_role_and_never_answered_keeps_the_others_out() {
    is_closed(&hole("makes_way", "mixed", 0, 20), no_leader);
}

#[test]
fn r2_a_deadline_counted_from_the_answer() {
    is_closed(&hole("sent_at", "lengths", 40, 40), two_leaders);
}

#[test]
fn r5_an_old_master_is_promoted_again_in_the_same_process() {
    is_closed(&hole("replid", "mixed", 0, 120), two_leaders);
}

#[test]
fn r5_a_new_record_on_a_server_that_has_long_been_up() {
    is_closed(&hole("still+empty", "pairs", 0, 120), two_leaders);
}

#[test]
fn r5_a_short_lease_cuts_the_guard_of_a_long_one() {
    is_closed(&hole("longest", "lengths", 0, 400), two_leaders);
}

#[test]
fn r5_a_lease_is_deleted_and_its_leader_is_late_or_its_lease_longer() {
    is_closed(&hole("still+until", "lengths", 0, 30), two_leaders);
}

#[test]
fn r5_a_lease_is_gone_and_nobody_asks_why() {
    is_closed(&hole("still+vanished", "lengths", 0, 30), two_leaders);
}

#[test]
fn r6_a_replica_that_acknowledged_another_master_comes_back() {
    is_closed(&hole("confirm", "mixed", 0, 120), two_leaders);
    is_closed(&hole("confirm", "storm", 455, 10), token_back);
}

#[test]
fn r6_a_replica_that_acknowledged_another_master_crashes_and_goes_on_from_its_disk() {
    is_closed(&hole("partial", "mixed", 70, 10), two_leaders);
}

#[test]
fn r7_a_release_before_the_promises_have_run_out() {
    is_closed(&hole("promises", "mixed", 0, 20), two_leaders);
}

#[test]
fn r8_a_newcomer_that_does_not_listen_when_the_clock_was_stepped() {
    is_closed(&hole("still+listening", "pairs", 3_510, 10), two_leaders);
}

#[test]
fn r5_the_clock_was_stepped_and_nobody_looks_at_how_long_the_record_stood_still() {
    is_closed(&hole("still", "pairs", 6_560, 10), two_leaders);
}
