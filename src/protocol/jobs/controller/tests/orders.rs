//! Runs that somebody cancels or retries.

use super::*;

const CANCELLED: Option<RunFailure> = Some(RunFailure::Cancelled);

fn allow() -> JobPolicy {
    JobPolicy { concurrency: Concurrency::Allow, ..long_memory() }
}

/// A job whose first run has failed for good, in so many attempts.
fn failed(policy: JobPolicy, attempts: u32) -> Stage {
    let mut stage = Stage::new(policy, 3_600);
    stage.pass(secs(3_600));
    for attempt in 1..=attempts {
        assert_eq!(stage.starts(), [(at(3_600), attempt)]);
        stage.end(at(3_600), Ending::Failed).pass(secs(400));
    }
    assert!(matches!(stage.phase(at(3_600)), Phase::Failed(RunFailure::BackoffLimitExceeded)));
    stage
}

#[test]
fn a_run_that_is_cancelled_is_ended_and_has_failed_for_good() {
    let mut stage = Stage::new(long_memory(), 60);
    stage.pass(secs(60)).cancel(at(60)).cancel(at(60));
    assert_eq!(stage.cancelled, [(at(60), 1, RunFailure::Cancelled)], "once");
    assert_eq!(stage.run(at(60)).wish(), Some(RunWish::Cancel), "until it has ended");
    stage.end(at(60), Ending::Interrupted);
    assert_eq!((stage.endings(), stage.run(at(60)).wish()), (vec![(at(60), CANCELLED, 1)], None));
    assert_eq!(stage.attempts(at(60))[0].end.map(|(_, ending)| ending), Some(Ending::Cancelled));
    stage.starts();
    stage.pass(secs(59)).cancel(at(60)).next_leader(TERM + 1);
    assert_eq!((stage.starts(), stage.endings().len()), (vec![], 1));
}

#[test]
fn a_run_that_waits_or_was_only_asked_for_is_cancelled_at_once() {
    let mut stage = Stage::new(long_memory(), 60);
    stage.pass(secs(60)).end(at(60), Ending::Failed).cancel(at(60)).pass(secs(30));
    assert_eq!((stage.starts(), stage.endings()), (vec![(at(60), 1)], vec![(at(60), CANCELLED, 1)]));
    let mut stage = Stage::new(long_memory(), 60);
    stage.pass(secs(60));
    let asked = stage.ask();
    stage.cancel(asked).end(at(60), Ending::Succeeded);
    assert_eq!(stage.starts(), [(at(60), 1)], "the one that was asked for waited, and does not begin");
    assert_eq!(stage.endings(), [(asked, CANCELLED, 0), (at(60), None, 1)]);
}

#[test]
fn a_run_that_was_done_just_before_its_cancel_has_succeeded() {
    let mut stage = Stage::new(long_memory(), 60);
    stage.pass(secs(60)).cancel(at(60)).end(at(60), Ending::Succeeded);
    assert_eq!((stage.endings(), stage.run(at(60)).wish()), (vec![(at(60), None, 1)], None));
    let mut refused = None;
    stage.wish(|ledger, now| refused = ledger.cancel(at(60), now).err());
    assert_eq!(refused, Some(RunRefusal::Over(Phase::Succeeded)));
    stage.wish(|ledger, now| refused = ledger.cancel(at(61), now).err());
    assert_eq!(refused, Some(RunRefusal::Unknown));
}

#[test]
fn a_cancel_while_the_claim_is_on_its_way_ends_the_run_as_soon_as_it_runs() {
    let mut stage = Stage::unserved(long_memory(), 60);
    stage.answer().answer().pass(secs(60));
    // The claim is out; the store has only what was before. Another replica writes first.
    let claim = stage.request();
    stage.wish(|ledger, now| {
        ledger.ask(now).expect("nothing was asked for");
    });
    let diverged = stage.execute(&claim);
    stage.input(diverged).answer();
    stage.wish(|ledger, now| ledger.cancel(at(60), now).expect("it is there"));
    stage.input(JobInput::Changed).answer();
    assert_eq!(
        (stage.starts(), stage.cancelled.clone()),
        (vec![(at(60), 1)], vec![(at(60), 1, RunFailure::Cancelled)])
    );
}

#[test]
fn a_cancel_of_a_run_that_is_claimed_and_waits_for_its_place_ends_it_before_it_begins() {
    let mut stage = Stage::unserved(allow(), 60);
    stage.answer().answer().with_places(1).pass(secs(60)).with_places(0).answer();
    stage.wish(|ledger, now| ledger.cancel(at(60), now).expect("it is there"));
    stage.input(JobInput::Changed).answer().with_places(1).answer();
    assert_eq!((stage.starts(), stage.endings()), (vec![], vec![(at(60), CANCELLED, 0)]));
    assert!(stage.attempts(at(60)).iter().all(|attempt| attempt.withdrawn));
}

#[test]
fn a_cancel_of_what_an_earlier_leader_claimed_is_heeded_by_the_one_that_leads() {
    let mut stage = Stage::new(long_memory(), 60);
    stage.pass(secs(60)).end(at(60), Ending::Failed).next_leader(TERM + 1);
    // Its pause goes on; nothing in it was claimed in this term.
    stage.cancel(at(60)).pass(secs(50));
    assert_eq!(stage.endings(), [(at(60), CANCELLED, 1)]);
}

#[test]
fn a_cancel_while_nobody_leads_is_heeded_before_the_next_leader_tries_again() {
    let mut stage = Stage::new(long_memory(), 60);
    stage.pass(secs(60)).starts();
    stage.wish(|ledger, now| ledger.cancel(at(60), now).expect("it runs")).next_leader(TERM + 1).pass(secs(50));
    assert_eq!((stage.starts(), stage.endings()), (vec![], vec![(at(60), CANCELLED, 1)]));
}

#[test]
fn a_failed_run_is_retried_once_with_all_of_its_attempts_anew() {
    let policy = JobPolicy { backoff: BackoffPolicy { limit: 1, initial: secs(10), max: secs(360) }, ..long_memory() };
    let mut stage = failed(policy, 2);
    stage.wish(|ledger, now| (0..2).for_each(|_| ledger.retry(at(3_600), now).expect("it failed")));
    stage.input(JobInput::Changed);
    assert_eq!(stage.starts(), [(at(3_600), 3)]);
    stage.end(at(3_600), Ending::Failed).pass(secs(9));
    assert_eq!(stage.starts(), [], "the first pause again");
    stage.pass(secs(1));
    assert_eq!(stage.starts(), [(at(3_600), 4)]);
    stage.end(at(3_600), Ending::Failed).pass(secs(400)).next_leader(TERM + 1);
    assert_eq!(stage.starts(), []);
    let exceeded = Some(RunFailure::BackoffLimitExceeded);
    assert_eq!(stage.endings(), [(at(3_600), exceeded, 2), (at(3_600), exceeded, 4)]);
    let tokens: Vec<u64> = stage.attempts(at(3_600)).iter().map(|attempt| attempt.token.get()).collect();
    assert!(tokens.windows(2).all(|pair| pair[0] < pair[1]), "{tokens:?}");
}

#[test]
fn a_retried_run_has_the_whole_active_deadline_also_under_the_next_leader() {
    let no_more = BackoffPolicy { limit: 0, initial: secs(10), max: secs(360) };
    let policy = JobPolicy { backoff: no_more, active_deadline: Some(secs(100)), ..long_memory() };
    let mut stage = failed(policy, 1);
    stage.retry(at(3_600)).pass(secs(90));
    assert_eq!(stage.cancelled, []);
    stage.pass(secs(10));
    assert_eq!(stage.cancelled, [(at(3_600), 2, RunFailure::DeadlineExceeded)]);
    stage.end(at(3_600), Ending::Interrupted).retry(at(3_600)).next_leader(TERM + 1).pass(secs(90));
    assert_eq!(
        stage.phase(at(3_600)),
        Phase::Failed(RunFailure::BackoffLimitExceeded),
        "interrupted, and no more tries"
    );
}

#[test]
fn what_has_not_failed_is_not_retried() {
    let mut stage = Stage::new(long_memory(), 60);
    stage.pass(secs(60));
    let mut refused = None;
    stage.wish(|ledger, now| refused = ledger.retry(at(60), now).err());
    assert_eq!(refused, Some(RunRefusal::NotFailed(Phase::Running)));
    stage.input(JobInput::Changed).end(at(60), Ending::Succeeded);
    stage.wish(|ledger, now| refused = ledger.retry(at(60), now).err());
    assert_eq!(refused, Some(RunRefusal::NotFailed(Phase::Succeeded)));
    stage.wish(|ledger, now| refused = ledger.retry(at(120), now).err());
    assert_eq!(refused, Some(RunRefusal::Unknown));
}

#[test]
fn a_retry_waits_for_the_run_that_goes_on_under_forbid() {
    let no_more = BackoffPolicy { limit: 0, initial: secs(10), max: secs(360) };
    let mut stage = Stage::new(JobPolicy { backoff: no_more, ..long_memory() }, 60);
    stage.pass(secs(60)).end(at(60), Ending::Failed).pass(secs(60)).starts();
    stage.retry(at(60));
    assert_eq!((stage.starts(), stage.run(at(60)).wish()), (vec![], Some(RunWish::Retry)));
    stage.end(at(120), Ending::Succeeded);
    assert_eq!(stage.starts(), [(at(60), 2)]);
}

#[test]
fn a_retry_that_has_not_begun_is_taken_back_by_a_cancel_and_is_not_forgotten_before() {
    let no_more = BackoffPolicy { limit: 0, initial: secs(10), max: secs(360) };
    let history = HistoryLimits { succeeded: 3, failed: 1 };
    let mut stage = Stage::new(JobPolicy { backoff: no_more, history, ..allow() }, 60);
    stage.pass(secs(60)).end(at(60), Ending::Failed);
    stage.room = false;
    stage.retry(at(60));
    stage.pass(secs(60));
    assert_eq!(stage.starts(), [(at(60), 1)], "there is no time left in the term");
    stage.cancel(at(60));
    assert_eq!(
        (stage.phase(at(60)), stage.run(at(60)).wish()),
        (Phase::Failed(RunFailure::BackoffLimitExceeded), None)
    );
    stage.room = true;
    stage.pass(secs(1));
    assert_eq!(stage.starts(), [(at(120), 1)]);
    stage.retry(at(60));
    stage.end(at(120), Ending::Failed);
    assert_eq!(stage.starts(), [(at(60), 2)], "it goes on, so another that failed does not push it out");
}

#[test]
fn an_order_that_was_done_does_not_come_back_with_what_the_store_lost() {
    let mut stage = failed(JobPolicy { backoff: BackoffPolicy { limit: 0, ..policy().backoff }, ..long_memory() }, 1);
    stage.wish(|ledger, now| ledger.retry(at(3_600), now).expect("it failed"));
    let replica = stage.cell.clone();
    stage.input(JobInput::Changed);
    assert_eq!(stage.starts(), [(at(3_600), 2)]);
    stage.end(at(3_600), Ending::Failed);
    stage.cell = replica;
    stage.input(JobInput::Changed);
    assert!(stage.tells(&JobEvent::Restored));
    assert_eq!(stage.starts(), []);
    assert_eq!(stage.run(at(3_600)).wish(), None);
}

#[test]
fn a_retry_that_is_known_not_to_have_begun_has_all_of_its_time_under_the_next_leader() {
    let backoff = BackoffPolicy { limit: 0, initial: secs(10), max: secs(360) };
    let mut stage = failed(JobPolicy { active_deadline: Some(secs(30)), backoff, ..long_memory() }, 1);
    stage.serves = false;
    // Its claim is on its way when the leader is about to stop.
    stage.retry(at(3_600)).answer().input(JobInput::Closing).answer().answer();
    assert_eq!(stage.starts(), []);
    stage.serves = true;
    stage.advance(secs(60)).next_leader(TERM + 1);
    assert_eq!(stage.starts(), [(at(3_600), 2)]);
}

#[test]
fn a_run_that_is_cancelled_before_it_begins_and_forgotten_is_told_once() {
    let mut stage = Stage::new(JobPolicy { history: HistoryLimits { succeeded: 0, failed: 0 }, ..policy() }, 60);
    stage.pass(secs(60));
    let asked = stage.ask();
    stage.serves = false;
    stage.cancel(asked).answer();
    // Somebody asks for another before that is written.
    stage.wish(|ledger, now| assert!(ledger.ask(now).is_ok())).answer().answer();
    assert_eq!(stage.endings(), [(asked, CANCELLED, 0)]);
}
