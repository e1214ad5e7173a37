//! What is written before anything starts.

use super::*;

#[test]
fn no_attempt_starts_before_its_claim_is_written() {
    let mut stage = Stage::unserved(policy(), 10);
    stage.answer().answer().pass(secs(10));
    assert_eq!(stage.starts(), []);
    let JobAction::Write { request, .. } = stage.out[0].clone() else { panic!("{:?}", stage.out) };
    assert_eq!(request.term, Some(term(TERM)));
    assert_eq!(request.body.runs[&at(10)].phase, Phase::Running);
    stage.answer();
    assert_eq!(stage.starts(), [(at(10), 1)]);
    assert!(stage.tells(&JobEvent::Started { slot: at(10), attempt: 1, late: Duration::ZERO }));
}

#[test]
fn an_unanswered_claim_that_landed_is_found_and_started_once() {
    let mut stage = Stage::unserved(policy(), 10);
    stage.answer().answer().pass(secs(10));
    let claim = stage.request();
    stage.execute(&claim);
    stage.unanswered(&claim);
    assert!(stage.out.is_empty(), "it is not repeated at once");
    stage.pass(REPEAT_MAX).answer();
    assert_eq!(stage.starts(), [], "the ledger is another than it knew");
    stage.answer();
    assert_eq!(stage.starts(), [(at(10), 1)]);
    assert_eq!(stage.attempts(at(10)).len(), 1);
}

#[test]
fn an_unanswered_claim_that_did_not_land_is_repeated() {
    let mut stage = Stage::unserved(policy(), 10);
    stage.answer().answer().pass(secs(10));
    let claim = stage.request();
    stage.unanswered(&claim).pass(REPEAT_MAX).answer();
    assert_eq!(stage.starts(), [(at(10), 1)]);
    // It arrives late: it is another version's.
    let late = stage.execute(&claim);
    assert!(matches!(late, JobInput::Wrote(_, WriteReply::Diverged(Some(_)))), "{late:?}");
    stage.input(late).end(at(10), Ending::Succeeded).answer();
    assert_eq!((stage.starts(), stage.phase(at(10))), (vec![], Phase::Succeeded));
}

#[test]
fn a_first_look_that_is_not_answered_is_repeated() {
    let mut stage = Stage::unserved(policy(), 10);
    for _ in 0..3 {
        let open = stage.request();
        assert!(matches!(open, JobAction::Open { .. }));
        stage.unanswered(&open);
        assert!(stage.out.is_empty() && stage.controller.ledger().is_none());
        stage.pass(REPEAT_MAX);
    }
    stage.answer();
    assert!(stage.controller.ledger().is_some());
}

#[test]
fn a_look_that_is_not_answered_is_made_good_by_the_next_write() {
    let mut stage = Stage::unserved(policy(), 10);
    stage.answer().answer().input(JobInput::Changed);
    let look = stage.request();
    assert!(matches!(look, JobAction::Open { .. }));
    stage.wish(|ledger, now| assert!(ledger.ask(now).is_ok())).unanswered(&look).pass(REPEAT_MAX).answer().answer();
    assert_eq!(stage.starts().len(), 1);
}

#[test]
fn a_claim_that_meets_a_wish_is_written_with_it() {
    let mut stage = Stage::unserved(policy(), 10);
    stage.answer().answer().pass(secs(10));
    stage.wish(|ledger, now| ledger.order(true, now));
    stage.answer();
    assert_eq!(stage.starts(), [], "diverged");
    stage.answer();
    assert_eq!(stage.starts(), [(at(10), 1)]);
    assert!(stage.stored().suspension.holds());
}

#[test]
fn changes_without_end_do_not_put_off_a_claim() {
    let mut stage = Stage::unserved(policy(), 10);
    stage.answer().answer().pass(secs(9)).input(JobInput::Changed).pass(secs(1)).input(JobInput::Changed);
    stage.answer().input(JobInput::Changed).answer();
    assert_eq!(stage.starts(), [(at(10), 1)]);
}

#[test]
fn answers_that_nobody_waits_for_change_nothing() {
    let mut stage = Stage::unserved(policy(), 10);
    let open = stage.request();
    let (one, two) = (stage.execute(&open), stage.execute(&open));
    stage.input(one).answer().input(two.clone());
    assert!(stage.out.is_empty());
    stage.pass(secs(10)).answer().input(two);
    assert_eq!(stage.starts(), [(at(10), 1)]);
    stage.input(JobInput::Ended { slot: at(10), attempt: 2, ending: Ending::Failed, note: String::new() });
    stage.input(JobInput::Ended { slot: at(20), attempt: 1, ending: Ending::Failed, note: String::new() });
    assert!(stage.out.is_empty());
}

#[test]
fn without_room_nothing_is_claimed_and_it_is_looked_for_again_soon() {
    let mut stage = Stage::new(policy(), 10);
    stage.room = false;
    let slot = stage.ask();
    stage.pass(secs(12));
    assert_eq!(stage.starts(), []);
    assert!(!stage.stored().runs.contains_key(&at(10)));
    assert!(stage.controller.poll_timeout().unwrap().since(stage.mono) <= ROOM_LOOK);
    stage.room = true;
    stage.pass(ROOM_LOOK);
    assert_eq!(stage.starts(), [(slot, 1)]);
    stage.end(slot, Ending::Succeeded);
    assert_eq!(stage.starts(), [(at(10), 1)]);
}

#[test]
fn a_claim_that_is_confirmed_when_there_is_no_room_left_waits_for_it() {
    let mut stage = Stage::unserved(policy(), 10);
    stage.answer().answer().pass(secs(10));
    stage.room = false;
    stage.answer();
    assert_eq!(stage.starts(), []);
    assert!(stage.controller.poll_timeout().unwrap().since(stage.mono) <= ROOM_LOOK);
    // Somebody else's wish does not make it look like another leader's.
    stage.wish(|ledger, now| ledger.order(true, now)).input(JobInput::Changed).answer().answer();
    assert_eq!(stage.phase(at(10)), Phase::Running);
    stage.room = true;
    stage.pass(ROOM_LOOK);
    assert_eq!(stage.starts(), [(at(10), 1)]);
}

#[test]
fn what_the_store_lost_is_restored_by_the_next_write_and_nothing_runs_twice() {
    let mut stage = Stage::new(JobPolicy { history: HistoryLimits { succeeded: 0, failed: 0 }, ..policy() }, 10);
    stage.pass(secs(10)).end(at(10), Ending::Succeeded).pass(secs(10));
    assert_eq!(stage.starts(), [(at(10), 1), (at(20), 1)]);
    stage.flush().end(at(20), Ending::Succeeded);
    assert!(stage.tells(&JobEvent::Restored));
    assert_eq!(stage.stored().decided, wall(20));
    stage.next_leader(TERM + 1).pass(secs(5));
    assert_eq!(stage.starts(), []);
    stage.pass(secs(5));
    assert_eq!(stage.starts(), [(at(30), 1)]);
}

#[test]
fn an_attempt_that_runs_while_the_store_loses_everything_goes_on() {
    let mut stage = Stage::new(policy(), 10);
    stage.pass(secs(10)).flush().input(JobInput::Changed);
    assert_eq!(stage.attempts(at(10)).len(), 1);
    assert_eq!(stage.phase(at(10)), Phase::Running);
    stage.end(at(10), Ending::Succeeded);
    assert_eq!((stage.starts(), stage.endings()), (vec![(at(10), 1)], vec![(at(10), None, 1)]));
}

#[test]
fn a_wish_in_an_emptied_store_does_not_decide_slots() {
    let mut stage = Stage::new(policy(), 10);
    stage.pass(secs(10));
    assert_eq!(stage.starts(), [(at(10), 1)]);
    // The slot at 20 waits for the run of 10.
    stage.pass(secs(12)).flush().wish(|ledger, now| assert!(ledger.ask(now).is_ok())).input(JobInput::Changed);
    stage.end(at(10), Ending::Succeeded);
    let asked = *stage.stored().runs.keys().max().unwrap();
    assert_eq!(stage.starts(), [(asked, 1)]);
    stage.end(asked, Ending::Succeeded);
    assert_eq!(stage.starts(), [(at(20), 1)]);
}

#[test]
fn an_older_state_of_the_store_is_overwritten_by_what_the_leader_knows() {
    let mut stage = Stage::new(policy(), 10);
    stage.pass(secs(10));
    let replica = stage.cell.clone();
    stage.end(at(10), Ending::Succeeded).pass(secs(10));
    stage.cell = replica;
    stage.end(at(20), Ending::Failed);
    assert!(stage.tells(&JobEvent::Restored));
    assert_eq!(stage.phase(at(10)), Phase::Succeeded);
    assert!(matches!(stage.phase(at(20)), Phase::Waiting { .. }));
    assert_eq!(stage.starts(), [(at(10), 1), (at(20), 1)]);
}

#[test]
fn of_two_attempts_with_one_number_that_of_the_later_term_counts() {
    let mut stage = Stage::new(policy(), 10);
    let empty = stage.cell.clone();
    stage.pass(secs(10));
    let theirs = stage.stored();
    // The store has lost it, and so has its leader's successor, which claims the slot as well.
    stage.cell = empty;
    stage.next_leader(TERM + 50).input(JobInput::Changed);
    assert_eq!(stage.starts(), [(at(10), 1), (at(10), 1)]);
    // The first leader's claim comes back.
    stage.cell = LedgerCell::default();
    stage.advance(secs(1)).wish(|ledger, _| *ledger = theirs).input(JobInput::Changed);
    let attempts = stage.attempts(at(10));
    assert_eq!(attempts.iter().map(|attempt| attempt.token).collect::<Vec<_>>(), [token(TERM + 50)]);
    stage.end(at(10), Ending::Succeeded);
    assert_eq!(stage.phase(at(10)), Phase::Succeeded);
}

#[test]
fn what_a_stale_leader_writes_into_an_emptied_store_is_not_believed() {
    let mut stage = Stage::new(JobPolicy { concurrency: Concurrency::Allow, ..policy() }, 10);
    stage.pass(secs(10));
    // Its claim of the next slot did not reach the store before that was emptied. Its tokens are above the next term's.
    let mut stale = stage.stored();
    stale.token = token(TERM + 60);
    stage.next_leader(TERM + 50);
    assert_eq!(stage.starts(), [(at(10), 1), (at(10), 2)]);
    stale.claim(at(20), token(TERM), &Arc::from("stale"), wall(20));
    stage.flush().advance(secs(1)).wish(|ledger, _| *ledger = stale).input(JobInput::Changed);
    assert!(!stage.stored().runs.contains_key(&at(20)));
    stage.pass(secs(9));
    assert_eq!(stage.starts(), [(at(20), 1)]);
    assert_eq!(stage.attempts(at(20))[0].term, token(TERM + 50));
}

#[test]
fn in_the_place_of_a_claim_that_is_anothers_comes_the_next_attempt() {
    let mut stage = Stage::unserved(policy(), 60);
    stage.answer().answer().pass(secs(60));
    let claim = stage.request();
    stage.wish(|ledger, now| assert_eq!(ledger.claim(at(60), token(TERM + 1), &Arc::from("another"), now), 1));
    let diverged = stage.execute(&claim);
    stage.input(diverged).answer();
    let attempts = stage.attempts(at(60));
    let [theirs, ours] = &attempts[..] else { panic!("{attempts:?}") };
    assert_eq!((&*theirs.by, theirs.end.map(|(_, ending)| ending)), ("another", Some(Ending::Interrupted)));
    assert_eq!((ours.term, stage.starts()), (token(TERM), vec![(at(60), 2)]));
}
