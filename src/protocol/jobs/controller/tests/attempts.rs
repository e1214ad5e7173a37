//! Failures, pauses and limits.

use super::*;

fn limited(active: u64) -> JobPolicy {
    JobPolicy { active_deadline: Some(secs(active)), ..policy() }
}

#[test]
fn failures_are_repeated_after_10_s_20_s_and_so_on_up_to_the_limit() {
    let mut stage = Stage::new(policy(), 3_600);
    stage.pass(secs(3_600));
    let run = at(3_600);
    for (attempt, pause) in [(1, 10), (2, 20), (3, 40)] {
        assert_eq!(stage.starts(), [(run, attempt)]);
        stage.end(run, Ending::Failed);
        let now = stage.wall;
        assert_eq!(stage.phase(run), Phase::Waiting { until: now.plus(secs(pause)) });
        stage.pass(secs(pause) - Duration::from_millis(1));
        assert_eq!(stage.starts(), []);
        stage.pass(Duration::from_millis(1));
    }
    assert_eq!(stage.starts(), [(run, 4)]);
    stage.end(run, Ending::Failed).pass(secs(1_000));
    assert_eq!((stage.starts(), stage.phase(run)), (vec![], Phase::Failed(RunFailure::BackoffLimitExceeded)));
    assert_eq!(stage.endings(), [(run, Some(RunFailure::BackoffLimitExceeded), 4)]);
}

#[test]
fn a_pause_is_never_longer_than_the_longest() {
    let backoff = BackoffPolicy { limit: 9, initial: secs(10), max: secs(25) };
    let mut stage = Stage::new(JobPolicy { backoff, ..policy() }, 3_600);
    stage.pass(secs(3_600));
    for _ in 0..5 {
        stage.end(at(3_600), Ending::Failed).pass(secs(25));
    }
    assert_eq!(stage.starts().len(), 6);
}

#[test]
fn without_retries_the_first_failure_is_the_last() {
    let backoff = BackoffPolicy { limit: 0, ..policy().backoff };
    let mut stage = Stage::new(JobPolicy { backoff, ..policy() }, 60);
    stage.pass(secs(60)).end(at(60), Ending::Failed);
    assert_eq!(stage.endings(), [(at(60), Some(RunFailure::BackoffLimitExceeded), 1)]);
}

#[test]
fn an_attempt_that_succeeds_after_failures_ends_its_run() {
    let mut stage = Stage::new(policy(), 60);
    stage.pass(secs(60)).end(at(60), Ending::Failed).pass(secs(10)).end(at(60), Ending::Succeeded);
    assert_eq!(stage.endings(), [(at(60), None, 2)]);
    assert_eq!(stage.stored().last_success, Some(wall(70)));
}

#[test]
fn the_pause_goes_on_under_the_next_leader() {
    let mut stage = Stage::new(policy(), 60);
    stage.pass(secs(60)).end(at(60), Ending::Failed).pass(secs(4)).next_leader(TERM + 1).pass(secs(5));
    assert_eq!(stage.starts(), [(at(60), 1)]);
    stage.pass(secs(1));
    assert_eq!(stage.starts(), [(at(60), 2)]);
}

#[test]
fn a_leader_whose_clock_is_behind_waits_no_longer_than_the_longest_pause() {
    let backoff = BackoffPolicy { max: secs(30), ..policy().backoff };
    let mut stage = Stage::new(JobPolicy { backoff, ..policy() }, 86_400);
    let run = stage.ask();
    stage.end(run, Ending::Failed);
    stage.wall = stage.wall.minus(secs(1_000));
    stage.next_leader(TERM + 1).pass(secs(30));
    assert_eq!(stage.starts(), [(run, 1), (run, 2)]);
}

#[test]
fn a_run_that_takes_too_long_is_cancelled_and_has_failed() {
    let mut stage = Stage::new(limited(30), 3_600);
    stage.pass(secs(3_629));
    assert_eq!(stage.cancelled, []);
    stage.pass(secs(1));
    let run = at(3_600);
    assert_eq!(stage.cancelled, [(run, 1, RunFailure::DeadlineExceeded)]);
    stage.pass(secs(100));
    assert_eq!(stage.cancelled.len(), 1, "once");
    stage.end(run, Ending::Failed);
    assert_eq!(stage.endings(), [(run, Some(RunFailure::DeadlineExceeded), 1)]);
    assert_eq!(stage.attempts(run)[0].end.unwrap().1, Ending::Cancelled);
}

#[test]
fn a_run_that_was_done_just_before_it_was_cancelled_has_succeeded() {
    let mut stage = Stage::new(limited(30), 3_600);
    stage.pass(secs(3_630)).end(at(3_600), Ending::Succeeded);
    assert_eq!(stage.endings(), [(at(3_600), None, 1)]);
}

#[test]
fn the_deadline_is_over_all_attempts_and_ends_a_pause() {
    let mut stage = Stage::new(limited(25), 3_600);
    stage.pass(secs(3_600)).end(at(3_600), Ending::Failed).pass(secs(10)).end(at(3_600), Ending::Failed);
    stage.pass(secs(15));
    assert_eq!(stage.endings(), [(at(3_600), Some(RunFailure::DeadlineExceeded), 2)]);
    assert_eq!(stage.starts().len(), 2);
}

#[test]
fn the_deadline_is_over_all_leaders() {
    let mut stage = Stage::new(limited(25), 3_600);
    stage.pass(secs(3_610)).next_leader(TERM + 1).pass(secs(14));
    assert_eq!(stage.cancelled, []);
    stage.pass(secs(1));
    assert_eq!(stage.cancelled, [(at(3_600), 2, RunFailure::DeadlineExceeded)]);
}

#[test]
fn a_deadline_that_passes_while_the_claim_is_written_ends_the_run_before_it_begins() {
    let mut stage = Stage::unserved(limited(5), 10);
    stage.answer().answer().pass(secs(16)).answer().answer();
    assert_eq!(stage.starts(), []);
    assert_eq!(stage.endings(), [(at(10), Some(RunFailure::DeadlineExceeded), 0)]);
}

#[test]
fn a_running_attempt_that_the_ledger_does_not_list_is_not_stuck() {
    let mut stage = Stage::new(policy(), 60);
    stage.pass(secs(60)).wish(|ledger, _| ledger.runs.get_mut(&at(60)).unwrap().attempts.clear());
    stage.next_leader(TERM + 1);
    assert_eq!(stage.starts(), [(at(60), 1), (at(60), 1)]);
}

#[test]
fn the_last_ten_attempts_of_a_run_are_remembered() {
    let backoff = BackoffPolicy { limit: 50, initial: secs(1), max: secs(1) };
    let mut stage = Stage::new(JobPolicy { backoff, ..policy() }, 3_600);
    stage.pass(secs(3_600));
    for _ in 0..20 {
        stage.end(at(3_600), Ending::Failed).pass(secs(1));
    }
    let numbers: Vec<u32> = stage.attempts(at(3_600)).iter().map(|attempt| attempt.number).collect();
    assert_eq!(numbers, (12..=21).collect::<Vec<_>>());
}
