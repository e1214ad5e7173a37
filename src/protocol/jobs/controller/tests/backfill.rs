//! Slots of the past that somebody wants run.

use super::super::super::backfill::{Backfill, BackfillRefusal};
use super::super::super::policy::BACKFILL_MAX;
use super::*;

const NO_MORE: BackoffPolicy = BackoffPolicy { limit: 0, initial: secs_of(10), max: secs_of(360) };

const fn secs_of(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The slot of the past so many seconds before the beginning.
fn past(seconds: u64) -> Slot {
    Slot::Backfill(wall(0).minus(secs(seconds)))
}

impl Stage {
    /// Asks for the slots from so many seconds before the beginning to so many.
    fn backfill(&mut self, from: u64, to: u64) -> Result<Backfill, BackfillRefusal> {
        let timetable = Arc::clone(&self.profile.timetable);
        let range = (wall(0).minus(secs(from)), wall(0).minus(secs(to)));
        let mut outcome = None;
        self.wish(|ledger, now| outcome = Some(ledger.backfill(&*timetable, range, now)));
        self.input(JobInput::Changed);
        outcome.unwrap()
    }
}

#[test]
fn slots_of_the_past_are_run_one_after_the_other_and_once() {
    let mut stage = Stage::new(JobPolicy { concurrency: Concurrency::Allow, backoff: NO_MORE, ..long_memory() }, 60);
    let asked = stage.backfill(300, 100).unwrap();
    assert_eq!((asked.slots, asked.last), (4, past(120).at()));
    for (slot, ending) in [
        (past(300), Ending::Succeeded),
        (past(240), Ending::Failed),
        (past(180), Ending::Succeeded),
        (past(120), Ending::Succeeded),
    ] {
        assert_eq!(stage.starts(), [(slot, 1)]);
        stage.end(slot, ending);
    }
    assert_eq!((stage.starts(), stage.stored().backfills.going_on()), (vec![], None));
    let same = stage.backfill(300, 100).unwrap();
    assert_eq!((same.asked, stage.starts()), (asked.asked, vec![]), "the same request begins nothing new");
    assert_eq!(stage.backfill(300, 101), Err(BackfillRefusal::Done));
    assert_eq!(stage.backfill(360, 60).map(|backfill| backfill.slots), Ok(2));
    assert_eq!(stage.starts(), [(past(360), 1)]);
    stage.end(past(360), Ending::Succeeded);
    assert_eq!(stage.starts(), [(past(60), 1)], "those between were run before");
}

#[test]
fn no_slot_of_the_past_is_late() {
    let mut stage = Stage::new(long_memory(), 60);
    stage.backfill(300, 300).unwrap();
    assert!(
        stage.tells(&JobEvent::Started { slot: past(300), attempt: 1, late: Duration::ZERO }),
        "{:?}",
        stage.events
    );
}

#[test]
fn the_next_leader_goes_on_where_the_one_before_was() {
    let policy = JobPolicy { history: HistoryLimits { succeeded: 0, failed: 0 }, ..policy() };
    let mut stage = Stage::new(policy, 60);
    stage.backfill(300, 120).unwrap();
    stage.end(past(300), Ending::Succeeded).starts();
    stage.next_leader(TERM + 1);
    assert_eq!(stage.starts(), [(past(240), 2)], "interrupted, and repeated");
    stage.end(past(240), Ending::Succeeded).next_leader(TERM + 2);
    // What was forgotten is not run again.
    stage.end(past(180), Ending::Succeeded).starts();
    stage.end(past(120), Ending::Succeeded).next_leader(TERM + 3);
    assert_eq!((stage.starts(), stage.backfill(300, 121)), (vec![], Err(BackfillRefusal::Done)));
}

#[test]
fn what_the_store_lost_of_a_backfill_is_written_again() {
    let mut stage = Stage::new(policy(), 60);
    stage.backfill(300, 120).unwrap();
    let replica = stage.cell.clone();
    stage.end(past(300), Ending::Succeeded).end(past(240), Ending::Succeeded).starts();
    stage.cell = replica;
    stage.input(JobInput::Changed).end(past(180), Ending::Succeeded);
    assert_eq!(stage.starts(), [(past(120), 1)]);
    stage.end(past(120), Ending::Succeeded);
    assert_eq!((stage.starts(), stage.stored().backfills.going_on()), (vec![], None));
}

#[test]
fn slots_with_a_run_that_is_remembered_are_left_out() {
    let mut stage = Stage::new(long_memory(), 60);
    stage.pass(secs(60)).end(at(60), Ending::Succeeded).starts();
    let range = (wall(0).minus(secs(60)), wall(60));
    let timetable = Arc::clone(&stage.profile.timetable);
    stage.wish(|ledger, now| assert_eq!(ledger.backfill(&*timetable, range, now).map(|it| it.slots), Ok(2)));
    stage.input(JobInput::Changed).end(past(60), Ending::Succeeded).end(past(0), Ending::Succeeded);
    assert_eq!(stage.starts(), [(past(60), 1), (past(0), 1)]);
}

#[test]
fn the_schedule_comes_first_and_what_goes_on_is_not_replaced() {
    for concurrency in [Concurrency::Forbid, Concurrency::Replace] {
        let mut stage = Stage::new(JobPolicy { concurrency, backoff: NO_MORE, ..long_memory() }, 60);
        stage.pass(secs(60));
        assert_eq!(stage.starts(), [(at(60), 1)]);
        stage.backfill(120, 0).unwrap();
        assert_eq!((stage.starts(), stage.cancelled.len()), (vec![], 0));
        stage.end(at(60), Ending::Succeeded);
        assert_eq!(stage.starts(), [(past(120), 1)]);
        stage.pass(secs(60));
        let is_replaced = concurrency == Concurrency::Replace;
        assert_eq!(stage.cancelled.len(), usize::from(is_replaced));
        stage.end(past(120), Ending::Succeeded);
        assert_eq!(stage.starts(), [(at(120), 1)], "{concurrency:?}: what is due begins before the next of the past");
        stage.end(at(120), Ending::Succeeded);
        assert_eq!(stage.starts(), [(past(60), 1)]);
    }
}

#[test]
fn it_waits_while_the_job_is_suspended_and_ends_with_a_run_that_is_cancelled() {
    let mut stage = Stage::new(long_memory(), 3_600);
    stage.order(true).backfill(7_200, 0).unwrap();
    assert_eq!(stage.starts(), []);
    stage.order(false);
    assert_eq!(stage.starts(), [(past(7_200), 1)]);
    stage.cancel(past(7_200)).end(past(7_200), Ending::Interrupted).pass(secs(60)).next_leader(TERM + 1);
    assert_eq!((stage.starts(), stage.stored().backfills.going_on()), (vec![], None));
    assert_eq!(stage.backfill(3_600, 0).map(|backfill| backfill.slots), Ok(2), "those that it had not come to");
}

#[test]
fn a_backfill_that_cannot_be_is_refused() {
    let mut stage = Stage::new(policy(), 1);
    let most = BACKFILL_MAX as u64;
    assert_eq!(stage.backfill(most, 0), Err(BackfillRefusal::TooMany), "both ends are included");
    assert!(stage.backfill(most, 1).is_ok());
    assert!(matches!(stage.backfill(7, 1), Err(BackfillRefusal::GoesOn(other)) if other.slots == most));
    let mut stage = Stage::new(policy(), 3_600);
    assert_eq!(stage.backfill(60, 1), Err(BackfillRefusal::NoSlot));
    // Suspended since then, so that the last of these slots is run on resume.
    stage.order(true).pass(secs(7_300));
    let timetable = Arc::clone(&stage.profile.timetable);
    let range = (wall(3_600), wall(7_200));
    stage.wish(|ledger, now| {
        assert_eq!(ledger.backfill(&*timetable, range, now), Err(BackfillRefusal::Undecided(wall(0))));
    });
}

#[test]
fn a_changed_schedule_ends_what_it_has_no_slots_for() {
    let mut stage = Stage::new(policy(), 60);
    stage.backfill(300, 60).unwrap();
    stage.configure(policy(), 3_600).end(past(300), Ending::Succeeded);
    assert_eq!((stage.starts(), stage.stored().backfills.going_on()), (vec![(past(300), 1)], None));
}

#[test]
fn a_run_that_waits_for_a_clock_that_was_ahead_keeps_no_backfill_waiting() {
    let mut stage = Stage::new(long_memory(), 3_600);
    stage.wall = stage.wall.plus(secs(18_000));
    stage.pass(LOOK);
    let early = stage.starts()[0].0;
    stage.end(early, Ending::Failed);
    stage.wall = stage.wall.minus(secs(18_000));
    stage.pass(LOOK).next_leader(TERM + 1);
    assert!(matches!(stage.phase(early), Phase::Waiting { .. }));
    stage.backfill(3_600, 3_600).unwrap();
    assert_eq!(stage.starts(), [(past(3_600), 1)]);
}
