//! Suspended and resumed, by the configuration or by order.

use super::*;

fn suspended() -> JobPolicy {
    JobPolicy { suspend: true, ..long_memory() }
}

#[test]
fn a_suspended_job_starts_nothing_and_the_last_slot_missed_is_started_on_resume() {
    let mut stage = Stage::new(suspended(), 10);
    stage.pass(secs(35));
    assert_eq!((stage.starts(), stage.controller.next_slot()), (vec![], None));
    stage.configure(long_memory(), 10);
    assert_eq!(stage.starts(), [(at(30), 1)]);
    assert_eq!(stage.gaps(), [(GapReason::Suspended, 10, 20, 2)]);
    assert_eq!(stage.controller.next_slot(), Some(wall(40)));
}

#[test]
fn an_order_suspends_and_resumes_as_well() {
    let mut stage = Stage::new(long_memory(), 10);
    stage.pass(secs(5)).order(true).pass(secs(40));
    assert_eq!(stage.starts(), []);
    stage.order(false);
    assert_eq!(stage.starts(), [(at(40), 1)]);
    assert_eq!(stage.gaps(), [(GapReason::Suspended, 10, 30, 3)]);
}

#[test]
fn what_is_too_late_on_resume_is_not_started() {
    let late = JobPolicy { starting_deadline: Some(secs(3)), ..suspended() };
    let mut stage = Stage::new(late.clone(), 10);
    stage.pass(secs(35)).configure(JobPolicy { suspend: false, ..late }, 10);
    assert_eq!(stage.starts(), []);
    assert_eq!(stage.gaps(), [(GapReason::Suspended, 10, 30, 3)]);
}

#[test]
fn slots_before_a_suspension_are_told_apart_from_those_in_it() {
    let mut stage = Stage::new(long_memory(), 10);
    stage.pass(secs(10));
    // The run of 10 goes on: the slots at 20 and 30 wait for it, the later taking the place of the earlier.
    stage.pass(secs(25)).order(true).pass(secs(20)).order(false).end(at(10), Ending::Succeeded);
    assert_eq!(stage.starts(), [(at(10), 1), (at(50), 1)]);
    assert_eq!(
        stage.gaps(),
        [(GapReason::Concurrency, 20, 20, 1), (GapReason::Concurrency, 30, 30, 1), (GapReason::Suspended, 40, 40, 1)]
    );
}

#[test]
fn what_runs_goes_on_and_is_repeated_while_the_job_is_suspended() {
    let mut stage = Stage::new(policy(), 60);
    stage.pass(secs(60)).order(true).end(at(60), Ending::Failed).pass(secs(10));
    assert_eq!((stage.starts(), stage.cancelled.len()), (vec![(at(60), 1), (at(60), 2)], 0));
}

#[test]
fn an_order_outlives_a_restart() {
    let mut stage = Stage::new(policy(), 10);
    stage.pass(secs(5)).order(true).next_leader(TERM + 1).pass(secs(40)).next_leader(TERM + 2).pass(secs(40));
    assert_eq!(stage.starts(), []);
    assert!(stage.stored().suspension.holds());
}

#[test]
fn a_changed_declaration_beats_the_order() {
    let mut stage = Stage::new(policy(), 10);
    stage.pass(secs(5)).order(true).configure(suspended(), 10).pass(secs(30)).configure(policy(), 10);
    assert_eq!(stage.starts(), [(at(30), 1)]);
    assert!(!stage.stored().suspension.holds());
    // Also one that changed while nobody led.
    stage.order(true);
    stage.profile = profile(suspended(), 10);
    stage.next_leader(TERM + 1);
    assert_eq!(stage.stored().suspension.order, None);
    assert!(stage.stored().suspension.holds());
}

#[test]
fn an_order_that_was_overruled_does_not_come_back_with_somebody_elses_wish() {
    let mut stage = Stage::new(policy(), 10);
    stage.order(false);
    stage.serves = false;
    stage.configure(suspended(), 10);
    // A run is asked for before the new word is written.
    stage.wish(|ledger, now| assert!(ledger.ask(now).is_ok())).answer().answer();
    assert_eq!(stage.stored().suspension.order, None);
    assert!(stage.stored().suspension.holds());
}

#[test]
fn the_later_of_two_orders_holds() {
    let mut stage = Stage::new(policy(), 10);
    stage.order(true);
    let later = stage.wall;
    // The other's clock is behind.
    stage.wall = stage.wall.minus(secs(5));
    stage.wish(|ledger, now| ledger.order(false, now));
    stage.wall = later;
    stage.input(JobInput::Changed);
    assert!(!stage.stored().suspension.holds());
    assert!(!stage.controller.ledger().unwrap().suspension.holds());
}

#[test]
fn a_pause_of_all_jobs_is_one_of_this_job_and_leaves_its_own_word_alone() {
    let mut stage = Stage::new(long_memory(), 10);
    stage.pass(secs(5)).pause(true).pass(secs(30));
    assert_eq!((stage.starts(), stage.controller.next_slot()), (vec![], None));
    // Resumed by itself it is suspended with the others all the same.
    stage.order(true).order(false).pass(secs(10));
    assert_eq!(stage.starts(), []);
    stage.pause(false);
    assert_eq!(stage.starts(), [(at(40), 1)]);
    assert_eq!(stage.gaps(), [(GapReason::Suspended, 10, 30, 3)]);
    // And what is suspended by itself stays so.
    stage.end(at(40), Ending::Succeeded).order(true).pause(true).pass(secs(20)).pause(false).pass(secs(20));
    assert_eq!(stage.starts(), []);
    stage.order(false);
    assert_eq!(stage.starts(), [(at(80), 1)]);
}

#[test]
fn a_pause_outlives_its_leader_and_a_store_that_forgets_it() {
    let mut stage = Stage::new(policy(), 10);
    stage.pass(secs(5)).pause(true).pass(secs(20));
    // The next leader has not heard of it.
    stage.profile.pause = None;
    stage.next_leader(TERM + 1).pass(secs(20));
    assert_eq!(stage.starts(), []);
    stage.flush().input(JobInput::Changed).pass(secs(20));
    assert!(stage.stored().suspension.is_paused());
    assert_eq!(stage.starts(), []);
    stage.pause(false);
    assert_eq!(stage.starts(), [(at(60), 1)]);
}

#[test]
fn the_later_word_about_all_jobs_holds_whoever_heard_it() {
    let mut stage = Stage::new(policy(), 10);
    stage.pass(secs(5)).pause(true).pass(secs(1)).pause(false);
    // A replica with older news leads.
    stage.profile.pause = Some((true, wall(5)));
    stage.next_leader(TERM + 1).pass(secs(4));
    assert_eq!(stage.starts(), [(at(10), 1)]);
}
