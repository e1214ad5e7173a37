//! Runs that somebody asked for.

use super::*;

fn request(key: Option<&str>, data: Option<&str>) -> RunRequest {
    RunRequest { key: key.map(Arc::from), data: data.map(Arc::from) }
}

/// What a request that is made now comes to.
fn asked(stage: &mut Stage, request: &RunRequest) -> Result<Slot, AskRefusal> {
    let mut outcome = None;
    stage.wish(|ledger, now| outcome = Some(ledger.ask_with(now, request)));
    stage.input(JobInput::Changed);
    outcome.unwrap()
}

#[test]
fn a_run_that_is_asked_for_begins_at_once_and_once() {
    let mut stage = Stage::new(policy(), 3_600);
    stage.pass(secs(5));
    let slot = stage.ask();
    assert_eq!(slot, Slot::Manual(stage.wall));
    assert_eq!(stage.starts(), [(slot, 1)]);
    stage.end(slot, Ending::Succeeded).input(JobInput::Changed).next_leader(TERM + 1);
    assert_eq!(stage.starts(), []);
    assert_eq!(stage.endings(), [(slot, None, 1)]);
}

#[test]
fn runs_begin_in_the_order_in_which_they_were_asked_for() {
    let mut stage = Stage::new(long_memory(), 3_600);
    stage.pass(secs(5));
    let slots = [stage.ask(), stage.ask(), stage.ask()];
    assert!(slots.is_sorted_by(|a, b| a < b), "asked for at one moment, and still told apart");
    for slot in slots {
        assert_eq!(stage.starts(), [(slot, 1)], "under Forbid, one after the other");
        stage.end(slot, Ending::Succeeded);
    }
}

#[test]
fn no_more_than_ten_wait_to_begin() {
    let mut stage = Stage::new(policy(), 3_600);
    for _ in 0..=ASKED_MAX {
        stage.ask();
    }
    let mut refused = None;
    stage.wish(|ledger, now| refused = ledger.ask(now).err());
    assert_eq!(refused, Some(AskRefusal::TooMany));
    let first = stage.starts()[0].0;
    stage.end(first, Ending::Succeeded).ask();
}

#[test]
fn a_suspended_job_runs_when_it_is_asked_to() {
    let mut stage = Stage::new(JobPolicy { suspend: true, ..policy() }, 10);
    stage.pass(secs(15));
    let slot = stage.ask();
    assert_eq!(stage.starts(), [(slot, 1)]);
}

#[test]
fn under_forbid_it_waits_for_the_run_that_goes_on() {
    let mut stage = Stage::new(policy(), 60);
    stage.pass(secs(60));
    let slot = stage.ask();
    assert_eq!(stage.starts(), [(at(60), 1)]);
    stage.end(at(60), Ending::Succeeded);
    assert_eq!(stage.starts(), [(slot, 1)]);
}

#[test]
fn under_replace_it_takes_the_place_of_the_run_that_goes_on() {
    let mut stage = Stage::new(JobPolicy { concurrency: Concurrency::Replace, ..policy() }, 60);
    stage.pass(secs(60));
    let slot = stage.ask();
    assert_eq!(stage.cancelled, [(at(60), 1, RunFailure::Replaced)]);
    stage.end(at(60), Ending::Interrupted);
    assert_eq!(stage.starts(), [(at(60), 1), (slot, 1)]);
}

#[test]
fn a_run_that_was_asked_for_while_nobody_led_is_begun_by_the_next_leader() {
    let mut stage = Stage::new(policy(), 3_600);
    let mut slot = None;
    stage.wish(|ledger, now| slot = ledger.ask(now).ok()).next_leader(TERM + 1);
    assert_eq!(stage.starts(), [(slot.unwrap(), 1)]);
}

#[test]
fn a_run_that_is_forgotten_is_not_begun_again_by_a_late_wish_on_an_old_ledger() {
    let mut stage = Stage::new(JobPolicy { history: HistoryLimits { succeeded: 0, failed: 0 }, ..policy() }, 3_600);
    let slot = stage.ask();
    let replica = stage.cell.clone();
    stage.end(slot, Ending::Succeeded);
    assert!(stage.stored().runs.is_empty());
    stage.cell = replica;
    stage.input(JobInput::Changed);
    assert_eq!(stage.starts(), [(slot, 1)]);
    let next = stage.ask();
    assert!(next > slot);
}

#[test]
fn a_request_that_is_repeated_asks_for_the_same_run_whatever_has_become_of_it() {
    let no_memory = HistoryLimits { succeeded: 0, failed: 0 };
    let mut stage = Stage::new(JobPolicy { history: no_memory, ..policy() }, 3_600);
    let keyed = request(Some("k-1"), Some("[1]"));
    let slot = asked(&mut stage, &keyed).unwrap();
    assert_eq!(asked(&mut stage, &keyed), Ok(slot));
    stage.end(slot, Ending::Succeeded).next_leader(TERM + 1).pass(secs(60));
    assert!(stage.stored().runs.is_empty(), "it is forgotten");
    assert_eq!(asked(&mut stage, &keyed), Ok(slot));
    assert_eq!(asked(&mut stage, &request(Some("k-1"), Some("[2]"))), Err(AskRefusal::OtherData));
    assert_eq!(asked(&mut stage, &request(Some("k-1"), None)), Err(AskRefusal::OtherData));
    assert_eq!(stage.starts(), [(slot, 1)]);
    let other = asked(&mut stage, &request(Some("k-2"), Some("[1]"))).unwrap();
    assert_eq!(stage.starts(), [(other, 1)]);
}

#[test]
fn a_key_is_known_while_a_write_of_the_leader_crosses_it() {
    let mut stage = Stage::unserved(policy(), 60);
    stage.answer().answer().pass(secs(60));
    // The leader's claim is on its way, and knows nothing of the request that comes first.
    let claim = stage.request();
    let keyed = request(Some("k-1"), None);
    let mut slot = None;
    stage.wish(|ledger, now| slot = ledger.ask_with(now, &keyed).ok());
    let diverged = stage.execute(&claim);
    stage.input(diverged).answer();
    let mut again = None;
    stage.wish(|ledger, now| again = ledger.ask_with(now, &keyed).ok());
    assert!(slot.is_some() && again == slot, "{slot:?}, {again:?}");
}

#[test]
fn keys_are_remembered_for_a_day_and_the_last_hundred_of_them() {
    let mut stage = Stage::new(policy(), 3_600);
    let first = asked(&mut stage, &request(Some("k"), None)).unwrap();
    stage.end(first, Ending::Succeeded).pass(secs(24 * 3_600));
    assert_eq!(asked(&mut stage, &request(Some("k"), None)), Ok(first));
    stage.pass(secs(1));
    assert_ne!(asked(&mut stage, &request(Some("k"), None)), Ok(first));
    let mut ledger = Ledger::new(String::new(), false, wall(0));
    for number in 0..=KEYS_MAX {
        let slot = ledger.ask_with(wall(0), &request(Some(&format!("k-{number}")), None)).unwrap();
        ledger.runs.remove(&slot);
    }
    assert_eq!((ledger.keys.len(), &*ledger.keys[0].key), (KEYS_MAX, "k-1"));
}

#[test]
fn what_runs_are_given_has_room_in_the_ledger_and_is_kept_for_a_retry() {
    let no_more = BackoffPolicy { limit: 0, initial: secs(10), max: secs(360) };
    let policy = JobPolicy { concurrency: Concurrency::Allow, backoff: no_more, ..long_memory() };
    let mut stage = Stage::new(policy, 3_600);
    let data = "x".repeat(DATA_BYTES_MAX);
    let most = DATA_BYTES_SUM_MAX / DATA_BYTES_MAX;
    let slots: Vec<Slot> = (0..most).map(|_| asked(&mut stage, &request(None, Some(&data))).unwrap()).collect();
    assert_eq!(asked(&mut stage, &request(None, Some("1"))), Err(AskRefusal::TooMuchData));
    assert!(asked(&mut stage, &request(None, None)).is_ok(), "it takes no room");
    stage.end(slots[0], Ending::Succeeded);
    assert_eq!(stage.run(slots[0]).data, None, "nobody needs it any more");
    stage.end(slots[1], Ending::Failed);
    let another = asked(&mut stage, &request(None, Some(&data))).unwrap();
    assert_eq!(stage.run(slots[1]).data.as_deref(), Some(&*data));
    assert!(asked(&mut stage, &request(None, Some(&data))).is_ok(), "the one that failed makes room");
    assert!(!stage.stored().runs.contains_key(&slots[1]), "it could not be retried without what it was given");
    stage.end(another, Ending::Failed).retry(another);
    assert_eq!(stage.run(another).data.as_deref(), Some(&*data));
}
