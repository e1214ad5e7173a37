//! One leader after the other.

use super::*;

#[test]
fn a_stale_leader_cancels_everything_and_writes_nothing() {
    let mut stage = Stage::new(JobPolicy { concurrency: Concurrency::Allow, ..policy() }, 10);
    stage.pass(secs(20));
    stage.cell.open(&term(TERM + 1));
    let before = stage.cell.read();
    stage.pass(secs(10));
    let why = RunFailure::Interrupted;
    assert_eq!(stage.cancelled, [(at(10), 1, why), (at(20), 1, why)]);
    assert!(stage.tells(&JobEvent::Superseded { fence: token(TERM + 1) }));
    assert!(stage.controller.is_over());
    stage.end(at(10), Ending::Interrupted).end(at(20), Ending::Succeeded).input(JobInput::Changed).pass(secs(60));
    assert_eq!(stage.cell.read(), before);
    assert_eq!(stage.starts(), [(at(10), 1), (at(20), 1)]);
    assert_eq!(stage.endings(), [], "the run is another leader's");
}

#[test]
fn a_leader_that_finds_a_later_term_at_its_first_look_says_so_and_looks_again_each_minute() {
    let mut cell = LedgerCell::default();
    cell.open(&term(TERM + 1));
    let mut stage = Stage::on(cell, profile(policy(), 10), true);
    for looks in 1..4 {
        assert!(stage.controller.is_over());
        assert_eq!(stage.events, vec![JobEvent::Superseded { fence: token(TERM + 1) }; looks]);
        stage.pass(secs(60));
    }
    assert_eq!((stage.starts(), stage.cell.read()), (vec![], None));
}

#[test]
fn a_paused_leader_that_goes_on_after_its_successor_writes_and_tells_nothing() {
    let mut stage = Stage::new(policy(), 10);
    stage.pass(secs(10));
    let mut paused = stage.replace_leader(term(TERM + 1));
    let run = (at(10), 2);
    assert_eq!(stage.starts(), [(at(10), 1), run]);
    stage.end(at(10), Ending::Succeeded);
    let (before, events) = (stage.stored(), stage.events.clone());
    // Its attempt had succeeded, too.
    let ended = JobInput::Ended { slot: at(10), attempt: 1, ending: Ending::Succeeded, note: String::new() };
    std::mem::swap(&mut stage.controller, &mut paused);
    stage.room = false;
    stage.input(ended);
    assert!(stage.controller.is_over());
    assert_eq!(stage.stored(), before);
    let told: Vec<_> = stage.events[events.len()..].iter().map(std::mem::discriminant).collect();
    let ended = JobEvent::RunEnded { slot: at(10), failure: None, attempts: 1 };
    assert!(!told.contains(&std::mem::discriminant(&ended)));
}

#[test]
fn an_interrupted_attempt_is_retried_at_once_by_the_next_leader_and_counts() {
    let mut stage = Stage::new(policy(), 60);
    stage.pass(secs(60)).next_leader(TERM + 1);
    assert!(stage.tells(&JobEvent::Opened { interrupted: 1 }));
    assert_eq!(stage.starts(), [(at(60), 1), (at(60), 2)]);
    let first = &stage.attempts(at(60))[0];
    assert_eq!((first.end, first.note.as_str()), (Some((wall(60), Ending::Interrupted)), "its leader stopped leading"));
}

#[test]
fn an_interrupted_run_fails_where_the_policy_says_so() {
    let mut stage = Stage::new(JobPolicy { on_interrupt: OnInterrupt::Fail, ..policy() }, 60);
    stage.pass(secs(60)).next_leader(TERM + 1);
    assert_eq!(stage.starts(), [(at(60), 1)]);
    assert_eq!(stage.phase(at(60)), Phase::Failed(RunFailure::Interrupted));
    assert_eq!(stage.endings(), [(at(60), Some(RunFailure::Interrupted), 1)]);
}

#[test]
fn a_run_that_takes_its_leader_down_each_time_ends_at_the_limit() {
    let mut stage = Stage::new(policy(), 3_600);
    stage.pass(secs(3_600));
    for number in 1..10 {
        stage.next_leader(TERM + number * 1_000).pass(secs(1));
    }
    let run = at(3_600);
    assert_eq!(stage.starts(), [(run, 1), (run, 2), (run, 3), (run, 4)]);
    assert_eq!(stage.phase(run), Phase::Failed(RunFailure::BackoffLimitExceeded));
    assert_eq!(stage.endings(), [(run, Some(RunFailure::BackoffLimitExceeded), 4)]);
}

#[test]
fn tokens_rise_from_attempt_to_attempt_within_a_term_and_over_terms() {
    let mut stage = Stage::new(JobPolicy { backoff: BackoffPolicy { limit: 20, ..policy().backoff }, ..policy() }, 10);
    stage.pass(secs(10));
    for _ in 0..3 {
        stage.end(at(10), Ending::Failed).pass(secs(400));
    }
    // The later terms' tokens are below that of the last attempt, then far above.
    for value in [TERM + 1, TERM + 2, 5_000, 5_001] {
        stage.next_leader(value);
    }
    let tokens: Vec<u64> = stage.started.iter().map(|(.., token)| token.get()).collect();
    assert_eq!(tokens, [1_000, 1_001, 1_002, 1_003, 1_004, 1_005, 5_000, 5_001]);
}

#[test]
fn while_it_closes_nothing_starts_and_interrupted_attempts_are_written() {
    let mut stage = Stage::new(JobPolicy { concurrency: Concurrency::Allow, ..policy() }, 10);
    stage.pass(secs(10)).input(JobInput::Closing).pass(secs(25)).ask();
    assert_eq!(stage.starts(), [(at(10), 1)]);
    stage.end(at(10), Ending::Interrupted);
    assert_eq!(stage.phase(at(10)), Phase::Waiting { until: wall(35) });
    assert_eq!(stage.starts(), []);
    stage.next_leader(TERM + 1);
    assert_eq!(stage.starts()[0], (at(10), 2));
}

#[test]
fn a_claim_that_is_confirmed_while_it_closes_is_withdrawn_and_costs_no_attempt() {
    for on_interrupt in [OnInterrupt::Retry, OnInterrupt::Fail] {
        let backoff = BackoffPolicy { limit: 0, ..policy().backoff };
        let mut stage = Stage::unserved(JobPolicy { on_interrupt, backoff, ..policy() }, 10);
        stage.answer().answer().pass(secs(10)).input(JobInput::Closing).answer().answer();
        let withdrawn = stage.attempts(at(10))[0].clone();
        assert!(stage.starts().is_empty() && withdrawn.withdrawn);
        assert_eq!((stage.phase(at(10)), stage.run(at(10)).began), (Phase::Waiting { until: wall(10) }, None));
        stage.serves = true;
        stage.next_leader(TERM + 1);
        assert_eq!((stage.starts(), stage.endings()), (vec![(at(10), 1)], vec![]));
        let attempts = stage.attempts(at(10));
        assert!(attempts.len() == 1 && attempts[0].token > withdrawn.token && !attempts[0].withdrawn);
        assert!(!stage.events.iter().any(|event| matches!(event, JobEvent::AttemptEnded { .. })), "there was none");
    }
}

#[test]
fn a_confirmed_claim_that_waits_for_room_is_withdrawn_when_it_closes() {
    let mut stage = Stage::unserved(policy(), 10);
    stage.answer().answer().pass(secs(10));
    stage.room = false;
    stage.answer().input(JobInput::Closing).answer();
    assert_eq!((stage.starts(), stage.phase(at(10))), (vec![], Phase::Waiting { until: wall(10) }));
}

#[test]
fn a_later_attempt_that_is_withdrawn_leaves_the_run_begun() {
    let mut stage = Stage::new(policy(), 3_600);
    stage.pass(secs(3_600)).end(at(3_600), Ending::Failed);
    stage.serves = false;
    stage.pass(secs(10)).input(JobInput::Closing).answer().answer();
    assert_eq!(stage.run(at(3_600)).began, Some(wall(3_600)));
    stage.serves = true;
    stage.next_leader(TERM + 1);
    assert_eq!(stage.starts(), [(at(3_600), 1), (at(3_600), 2)]);
}

#[test]
fn who_closes_before_the_first_look_was_answered_writes_and_tells_nothing() {
    let mut stage = Stage::new(policy(), 60);
    stage.pass(secs(60));
    stage.serves = false;
    stage.next_leader(TERM + 1).pass(secs(1));
    let (open, told) = (stage.request(), stage.events.len());
    let reply = stage.execute(&open);
    stage.input(JobInput::Closing).input(reply).pass(secs(100));
    assert!(stage.controller.is_over() && stage.out.is_empty());
    assert_eq!(stage.events.len(), told);
}

#[test]
fn a_job_that_was_removed_and_added_again_within_a_term_is_not_stuck() {
    let mut stage = Stage::new(policy(), 60);
    stage.pass(secs(60)).next_leader(TERM);
    assert!(stage.tells(&JobEvent::Opened { interrupted: 1 }));
    assert_eq!(stage.starts(), [(at(60), 1), (at(60), 2)]);
    let tokens: Vec<Token> = stage.attempts(at(60)).iter().map(|attempt| attempt.token).collect();
    assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
}

#[test]
fn each_run_is_told_ended_once_over_all_leaders_and_each_passed_slot_is_counted_once() {
    let mut stage = Stage::unserved(long_memory(), 10);
    stage.answer().answer().pass(secs(10)).answer();
    stage.end(at(10), Ending::Succeeded);
    // The word of its end is written, and its leader never hears so.
    let write = stage.request();
    stage.execute(&write);
    assert_eq!(stage.endings(), [], "not told before it is written");
    stage.unanswered(&write).pass(REPEAT_MAX).answer().answer();
    assert_eq!(stage.endings(), [(at(10), None, 1)]);
    stage.serves = true;
    stage.pass(secs(15)).advance(secs(60)).next_leader(TERM + 1);
    let (mut counted, mut ended) = (0, Vec::new());
    for event in &stage.events {
        match event {
            JobEvent::Passed(gap) => counted += gap.count,
            JobEvent::RunEnded { slot, .. } => ended.push(*slot),
            _ => {}
        }
    }
    let ledger = stage.stored();
    assert_eq!(counted + ledger.runs.len() as u64, ledger.decided.since(wall(0)).as_secs() / 10);
    assert_eq!(ended, [at(10)]);
}
