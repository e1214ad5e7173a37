//! A role with one leader that goes to who is preferred: how often it moves in a rollout, and how long nobody leads.

use fastrand::Rng;

use super::super::clockwork::{MS, Nanos, SECOND};
use super::world::{Disturbance, LEASE, Preferring, Scenario, Verdict, World, any_disturbances};
use super::{SETTLED, UNOWNED_MAX, story};

/// Of each number of replicas; more where `BATON_SIM_SEEDS` asks for more.
const SEEDS: u64 = 20;
const SEEDS_MAX: u64 = 200;
const REPLICAS: [usize; 3] = [3, 5, 10];
const ROLLOUT: Nanos = 100 * SECOND;
const AFTER: Nanos = 20 * SECOND;
/// Two messages, one after the other, and what ten candidates wait at random.
const VACANT_MAX: Nanos = 10 * MS;

fn seeds() -> u64 {
    (super::asked_seeds() / 1_000).clamp(SEEDS, SEEDS_MAX)
}

/// How replicas are replaced.
#[derive(Clone, Copy, PartialEq)]
enum Rollout {
    /// Each new one is there before an old one goes (`maxSurge`), in any order.
    Surge,
    /// Each old one goes, and comes back as a new one (a StatefulSet).
    InPlace,
}

/// The first replicas have no others to wait for: by then one of them leads, and is settled.
fn scenario(seed: u64, replicas: usize, rollout: Rollout, preferring: Option<Preferring>) -> Scenario {
    let mut rng = Rng::with_seed(seed);
    let mut disturbances: Vec<(Nanos, Disturbance)> =
        (0..replicas).map(|replica| (rng.u64(0..10 * SECOND), Disturbance::Start(replica))).collect();
    let mut order: Vec<usize> = (0..replicas).rev().collect();
    if rollout == Rollout::Surge {
        rng.shuffle(&mut order);
    }
    let mut at = ROLLOUT;
    for old in order {
        let (start, stop) = match rollout {
            Rollout::Surge => (at, at + rng.u64(LEASE..10 * SECOND)),
            Rollout::InPlace => (at + rng.u64(SECOND..10 * SECOND), at),
        };
        let new = if rollout == Rollout::Surge { old + replicas } else { old };
        disturbances.extend([(start, Disturbance::Start(new)), (stop, Disturbance::Stop(old))]);
        at = start.max(stop) + rng.u64(LEASE..10 * SECOND);
    }
    let slots = if rollout == Rollout::Surge { 2 * replicas } else { replicas };
    let balanced = preferring.is_some();
    let end = at + 3 * AFTER;
    Scenario { seed, replicas: slots, shards: 1, disturbances, end, balanced, preferring }
}

fn newest() -> Option<Preferring> {
    Some(Preferring { priorities: vec![0; 20], rollout: Some(ROLLOUT), after: AFTER })
}

/// How often the lead moved in the rollout, in each run.
fn moves(replicas: usize, rollout: Rollout, preferring: impl Fn(u64) -> Option<Preferring>) -> Vec<usize> {
    let run = |seed| {
        let scenario = scenario(seed, replicas, rollout, preferring(seed));
        let verdict = World::play(scenario.clone());
        let told = story(&scenario, &verdict);
        assert!(verdict.two_owners.is_empty(), "{told}");
        assert!(verdict.unowned_max <= UNOWNED_MAX, "{told}");
        if scenario.preferring.is_some() {
            let longest = verdict.vacancies.iter().max();
            assert!(longest.is_some_and(|vacant| *vacant <= VACANT_MAX), "{longest:?} ns: {told}");
        }
        verdict.terms.iter().filter(|(at, _)| *at >= ROLLOUT).count()
    };
    let moves: Vec<usize> = (0..seeds()).map(run).collect();
    let (sum, most) = (moves.iter().sum::<usize>(), moves.iter().max().expect("runs"));
    println!("{replicas} replicas: {:.2} handovers in a rollout, at most {most}", sum as f64 / seeds() as f64);
    moves
}

#[test]
fn a_rollout_costs_one_handover_where_the_newest_is_preferred() {
    for replicas in REPLICAS {
        let moves = moves(replicas, Rollout::Surge, |_| newest());
        assert!(moves.iter().all(|moves| *moves == 1), "{replicas}: {moves:?}");
    }
}

/// A checker that never fails proves nothing.
#[test]
fn a_rollout_costs_several_handovers_where_nobody_is_preferred() {
    for replicas in REPLICAS {
        let moves = moves(replicas, Rollout::Surge, |_| None);
        assert!(moves.iter().filter(|moves| **moves > 1).count() > seeds() as usize / 10, "{replicas}: {moves:?}");
    }
}

/// Where nobody new is there yet when the leader goes, the lead goes to an old one first.
#[test]
fn a_restart_in_place_costs_two_handovers_where_the_leader_is_the_first_to_go_and_else_one() {
    for replicas in REPLICAS {
        let moves = moves(replicas, Rollout::InPlace, |_| newest());
        assert!(moves.iter().all(|moves| (1..=2).contains(moves)), "{replicas}: {moves:?}");
        assert!(moves.contains(&1) && moves.contains(&2), "{replicas}: {moves:?}");
    }
}

#[test]
fn a_rolling_restart_costs_two_handovers_where_one_place_is_preferred() {
    for replicas in REPLICAS {
        let place = |seed| {
            let mut priorities = vec![0; replicas];
            priorities[Rng::with_seed(seed).usize(..replicas)] = 10;
            Some(Preferring { priorities, rollout: Some(ROLLOUT), after: AFTER })
        };
        let moves = moves(replicas, Rollout::InPlace, place);
        assert!(moves.iter().all(|moves| *moves == 2), "{replicas}: {moves:?}");
    }
}

#[test]
fn whatever_happens_one_leads_and_in_the_end_one_of_the_greatest_priority() {
    let quiet = 200 * SECOND;
    let (mut terms, mut handovers, mut failed) = (0, 0, Vec::new());
    let seeds = seeds();
    for seed in 0..seeds {
        let mut rng = Rng::with_seed(seed);
        let replicas = rng.usize(2..=6);
        let priorities = (0..replicas).map(|_| rng.u32(0..3)).collect();
        let disturbances = any_disturbances(&mut rng, replicas, quiet);
        let preferring = Some(Preferring { priorities, rollout: None, after: AFTER });
        let end = quiet + SETTLED + 2 * AFTER;
        let scenario =
            Scenario { seed, replicas, shards: 1, disturbances, end: end + AFTER, balanced: true, preferring };
        let verdict = World::play(scenario.clone());
        let moves_late = verdict.terms.iter().any(|(at, _)| *at > end);
        let is_well = verdict.two_owners.is_empty() && verdict.unowned_max <= UNOWNED_MAX && verdict.uneven_at <= end;
        if !is_well || moves_late {
            failed.push(story(&scenario, &verdict));
        }
        terms += verdict.terms.len();
        handovers += verdict.handovers.len();
    }
    println!("{seeds} runs, {terms} terms, {handovers} handovers to who is preferred");
    assert!(failed.is_empty(), "{} of {seeds} runs failed:\n{}", failed.len(), failed.join("\n"));
    assert!(handovers > seeds as usize / 2, "runs in which little happens show little");
}

/// A checker that never fails proves nothing.
#[test]
fn who_is_not_preferred_keeps_the_lead_where_preferences_count_for_nothing() {
    let priorities = vec![0, 0, 9];
    let start = [(0, Disturbance::Start(0)), (30 * SECOND, Disturbance::Start(2))];
    let misled = |balanced| {
        let preferring = Some(Preferring { priorities: priorities.clone(), rollout: None, after: AFTER });
        let scenario = Scenario {
            seed: 1,
            replicas: 3,
            shards: 1,
            disturbances: start.to_vec(),
            end: ROLLOUT,
            balanced,
            preferring,
        };
        let verdict: Verdict = World::play(scenario);
        verdict.uneven_at
    };
    assert!(misled(false) > ROLLOUT - SECOND);
    assert!(misled(true) < 30 * SECOND + AFTER + 2 * SECOND);
}
