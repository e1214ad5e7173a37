//! Runs that somebody asked for.

use super::*;

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
    assert_eq!(refused, Some(TooManyAsked));
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
