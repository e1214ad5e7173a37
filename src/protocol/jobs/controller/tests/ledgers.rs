//! What is remembered, and for how long.

use super::*;

#[test]
fn three_successful_runs_and_one_that_failed_are_remembered() {
    let mut stage = Stage::new(JobPolicy { backoff: BackoffPolicy { limit: 0, ..policy().backoff }, ..policy() }, 10);
    for slot in 1..=12 {
        let ending = if slot % 3 == 0 { Ending::Failed } else { Ending::Succeeded };
        stage.pass(secs(10)).end(at(10 * slot), ending);
    }
    let kept: Vec<Slot> = stage.stored().runs.into_keys().collect();
    assert_eq!(kept, [at(80), at(100), at(110), at(120)]);
    assert_eq!(stage.starts().len(), 12);
}

#[test]
fn with_limits_of_zero_only_what_goes_on_is_remembered_and_nothing_runs_twice() {
    let history = HistoryLimits { succeeded: 0, failed: 0 };
    let mut stage = Stage::new(JobPolicy { history, ..policy() }, 10);
    stage.pass(secs(10));
    assert_eq!(stage.stored().runs.len(), 1);
    stage.end(at(10), Ending::Succeeded);
    assert_eq!(stage.stored().runs.len(), 0);
    stage.next_leader(TERM + 1).pass(secs(9)).advance(secs(100));
    assert_eq!(stage.starts(), [(at(10), 1), (at(110), 1)]);
    assert_eq!(stage.stored().gaps, []);
    assert_eq!(stage.gaps(), [(GapReason::Missed, 20, 100, 9)], "they are told all the same");
}

#[test]
fn neighbouring_gaps_of_one_reason_are_one_and_few_are_kept() {
    let history = HistoryLimits { succeeded: 3, failed: 2 };
    let starting_deadline = Some(secs(2));
    let mut stage = Stage::new(JobPolicy { history, starting_deadline, ..policy() }, 10);
    // Two outages without a run between, then one after a run, and another.
    stage.advance(secs(25)).advance(secs(20));
    assert_eq!(stage.stored().gaps, [Gap { reason: GapReason::Missed, first: wall(10), last: wall(40), count: 4 }]);
    for _ in 0..2 {
        stage.pass(secs(5));
        let slot = stage.starts()[0].0;
        stage.end(slot, Ending::Succeeded).advance(secs(15 + 20));
    }
    let gaps: Vec<(Wall, u64)> = stage.stored().gaps.iter().map(|gap| (gap.first, gap.count)).collect();
    assert_eq!(gaps, [(wall(60), 3), (wall(100), 3)]);
}

#[test]
fn a_change_of_the_limits_is_kept_at_once() {
    let mut stage = Stage::new(policy(), 10);
    for slot in 1..=3 {
        stage.pass(secs(10)).end(at(10 * slot), Ending::Succeeded);
    }
    stage.configure(JobPolicy { history: HistoryLimits { succeeded: 1, failed: 1 }, ..policy() }, 10);
    assert_eq!(stage.stored().runs.into_keys().collect::<Vec<_>>(), [at(30)]);
}

#[test]
fn the_last_success_is_remembered_longer_than_its_run() {
    let history = HistoryLimits { succeeded: 0, failed: 0 };
    let mut stage = Stage::new(JobPolicy { history, ..policy() }, 10);
    stage.pass(secs(10)).end(at(10), Ending::Succeeded).next_leader(TERM + 1);
    assert_eq!(stage.stored().last_success, Some(wall(10)));
}
