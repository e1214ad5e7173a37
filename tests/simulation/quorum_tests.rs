//! The quorum under seeded faults, in `make test` with a bounded share of the seeds.

use baton::protocol::Rules;

use crate::quorum::change::Way;
use crate::quorum::faults::Fault;
use crate::quorum::run::{
    Minority, ROWS, SCENARIOS, change_scenario, duel_scenario, handovers, midway_scenario, mixed_scenario, run,
    storm_scenario, table_scenario,
};
use crate::quorum::world::Scenario;
use crate::run::{Verdict, run_many};
use crate::scenario::{LEADER_WITHIN, LEASE};
use crate::{clockwork, hold_against_the_promises, seeds};

/// Runs for each cell of the table in small.
const TABLE_RUNS: u64 = 40;

/// Plays a scenario of the example's by its name.
fn hold(seeds: u64, name: &str) {
    let (_, scenario) = SCENARIOS.iter().find(|(known, _)| *known == name).expect("a known scenario");
    let play = |seed, log| run(Scenario { log, ..scenario(seed) });
    hold_against_the_promises(seeds, play, &format!("quorum seed SEED {name}"));
}

#[test]
fn no_mix_of_faults_breaks_a_promise_of_the_quorum() {
    hold(seeds() / 4, "mixed");
}

#[test]
fn faults_one_upon_another_break_no_promise_of_the_quorum() {
    hold(seeds() / 10, "storm");
}

#[test]
fn the_end_of_a_session_ends_its_lease_on_a_quorum_and_breaks_no_promise() {
    hold(seeds() / 20, "departures");
}

/// Replica by replica to another list of members and back, under splits. By one list or the other only, it is broken.
#[test]
fn a_change_of_the_members_over_both_lists_at_once_breaks_no_promise_of_the_quorum() {
    hold(seeds() / 10, "joint");
    for way in [Way::Told, Way::Silent] {
        let fold = |broken: &mut u64, _, verdict: Verdict| *broken += u64::from(verdict.two_leaders);
        let runs = run_many(TABLE_RUNS, |seed| run(change_scenario(seed, way)), || 0, fold);
        let broken: u64 = runs.into_iter().sum();
        assert!(broken > TABLE_RUNS / 10, "{way:?}: {broken}");
    }
}

#[test]
fn a_quorum_that_needs_every_member_keeps_the_same_promises() {
    hold(seeds() / 20, "all");
}

/// Without the rule it is broken: the members are not asked at one moment.
#[test]
fn a_clock_that_is_stepped_within_a_campaign_breaks_no_promise_of_the_quorum() {
    hold(seeds() / 4, "midway");
    let rules = Rules { newest_term: false, ..Rules::QUORUM };
    let fold = |broken: &mut u64, _, verdict: Verdict| *broken += u64::from(verdict.two_leaders);
    let runs = run_many(500, |seed| run(Scenario { rules, ..midway_scenario(seed) }), || 0, fold);
    let broken: u64 = runs.into_iter().sum();
    assert!(broken > 2, "{broken}");
}

/// That nobody leads meanwhile is checked after every event, and that somebody does within two leases and a second
/// after they are back, and that every member follows.
#[test]
fn nobody_leads_while_three_of_five_members_are_gone_and_somebody_does_when_they_are_back() {
    hold(seeds() / 20, "outage");
}

#[test]
fn of_twelve_candidates_at_once_one_soon_leads_though_two_members_of_five_do_not_answer() {
    let fold = |longest: &mut u64, _, verdict: Verdict| {
        *longest = (*longest).max(verdict.first_led_ms.unwrap_or(u64::MAX));
    };
    // Chance decides whose round goes through first, so that of very many runs one takes longer than any bound. That
    // the members have never heard of the role costs a lease first (R5 *empty*).
    let runs = (seeds() / 20).min(1_000);
    let longest = run_many(runs, |seed| run(duel_scenario(seed)), || 0, fold).into_iter().max();
    assert!(longest.is_some_and(|ms| ms > 0 && ms * clockwork::MS < LEASE + LEADER_WITHIN), "{longest:?} ms");
}

/// How many of some runs of the table show two leaders, and how many a token that went backwards.
fn broken(rules: Rules, fault: Fault) -> (u64, u64) {
    let fold = |sum: &mut (u64, u64), _, verdict: Verdict| {
        sum.0 += u64::from(verdict.two_leaders);
        sum.1 += u64::from(verdict.token_regressions);
    };
    let sums = run_many(TABLE_RUNS, |seed| run(table_scenario(seed, rules, fault)), || (0, 0), fold);
    sums.into_iter().fold((0, 0), |sum, part| (sum.0 + part.0, sum.1 + part.1))
}

/// The table in small: its zeros, and its failures. A checker that never fails proves nothing.
#[test]
fn each_rule_of_the_quorum_switched_off_is_missed() {
    use Fault::{Clock, Clocks, Empty, Evict, Flush, MostEmpty, Undercut};
    let [redlock, r3, r4, r5, vanished, objection, shipped] = ROWS.map(|(_, rules)| rules);
    let (half, some) = (TABLE_RUNS / 2, TABLE_RUNS / 10);
    // What Redlock leaves open: members that restart empty, and a member whose clock is stepped.
    for fault in [Empty, MostEmpty, Clock] {
        assert!(broken(redlock, fault).0 > some, "{}", fault.title());
    }
    assert!(broken(redlock, MostEmpty).1 > half);
    // R3: tokens only rise, though two may still lead.
    let (two, back) = broken(r3, MostEmpty);
    assert!(two > half && back == 0, "{two}/{back}");
    // R4 mends what a renewal can mend in time, R5 closes the rest of the restarts.
    assert!(broken(r4, MostEmpty).0 > some);
    assert_eq!(broken(r5, MostEmpty), (0, 0));
    assert_eq!(broken(r5, Empty), (0, 0));
    assert!(broken(r4, Flush).0 > half);
    assert_eq!(broken(r5, Flush), (0, 0));
    assert!(broken(r5, Evict).0 > half);
    assert_eq!(broken(vanished, Evict), (0, 0));
    // Objection needs the objectors' answers, which may all be lost.
    assert!(broken(vanished, Undercut).0 > half);
    assert!(broken(shipped, Undercut).0 < some);
    // As shipped, nothing else does any harm but that all clocks step together: against that heartbeats only help.
    for fault in Fault::ALL.into_iter().filter(|fault| ![Clocks, Undercut].contains(fault)) {
        assert_eq!(broken(shipped, fault), (0, 0), "{}", fault.title());
    }
    let [without, with] = [objection, shipped].map(|rules| broken(rules, Clocks).0);
    assert!(without > some && with > 0 && with < without, "{without} {with}");
}

/// A handover waits for a majority and nobody else. Once in a hundred times a message of this world is up to 50 ms
/// late.
#[test]
fn a_handover_on_a_quorum_takes_a_few_round_trips_whatever_a_minority_does() {
    for members in [3, 5] {
        for minority in Minority::ALL {
            let fold = |sum: &mut Vec<u64>, _, waits: Vec<u64>| sum.extend(waits);
            let runs = (seeds() / 20).min(1_000);
            let waits = run_many(runs, |seed| handovers(seed, members, minority), Vec::new, fold);
            let mut waits: Vec<u64> = waits.into_iter().flatten().collect();
            waits.sort_unstable();
            let (half, longest) = (waits[waits.len() / 2], waits[waits.len() - 1]);
            assert!(half < 5 * clockwork::MS, "{members} {minority:?}: half take {half} ns");
            assert!(longest < 500 * clockwork::MS, "{members} {minority:?}: {longest} ns");
        }
    }
}

#[test]
fn the_same_seed_replays_the_same_run_of_the_quorum() {
    for seed in 0..5 {
        let mut scenario = if seed % 2 == 0 { mixed_scenario(seed) } else { storm_scenario(seed) };
        scenario.log = true;
        let (one, two) = (run(scenario), run(scenario));
        assert_eq!(one.log, two.log);
        assert!(one.terms > 0 && one.log.len() > 100, "a run in which nothing happens shows nothing");
    }
}
