//! When it looks again, what it says of itself meanwhile, and what comes when it is not expected.

use super::*;

fn allow() -> JobPolicy {
    JobPolicy { concurrency: Concurrency::Allow, ..long_memory() }
}

/// A run fails with its first attempt.
fn no_more() -> JobPolicy {
    JobPolicy { backoff: BackoffPolicy { limit: 0, ..policy().backoff }, ..long_memory() }
}

impl Stage {
    fn wakes_after(&self) -> Duration {
        self.controller.poll_timeout().expect("it looks again").since(self.mono)
    }

    /// From now on there is no room.
    fn without_room(&mut self) -> &mut Self {
        self.room = false;
        self.advance(Duration::ZERO)
    }

    /// The leader stops leading while a claim is on its way, which is written and withdrawn.
    fn closes(&mut self) -> &mut Self {
        self.input(JobInput::Closing).answer().answer()
    }
}

#[test]
fn it_is_settled_when_nothing_runs_and_all_is_written() {
    let mut stage = Stage::unserved(policy(), 60);
    assert!(!stage.controller.is_settled() && !stage.controller.is_over(), "its first look is out");
    stage.answer();
    assert!(!stage.controller.is_settled(), "its first ledger is not written");
    stage.answer();
    assert!(stage.controller.is_settled());
    stage.pass(secs(60));
    assert!(!stage.controller.is_settled(), "a claim is out");
    stage.answer();
    assert!(!stage.controller.is_settled(), "it runs");
    let end = stage.end(at(60), Ending::Succeeded).request();
    assert!(!stage.controller.is_settled(), "its end is out");
    stage.unanswered(&end);
    assert!(!stage.controller.is_settled(), "its end is to be written again");
    stage.pass(REPEAT_MAX).answer();
    assert!(stage.controller.is_settled());
}

#[test]
fn who_has_lost_the_job_is_settled_and_looks_again_after_a_minute_once_nothing_runs() {
    let mut stage = Stage::new(policy(), 600);
    stage.pass(secs(600));
    stage.cell.open(&term(TERM + 1));
    stage.input(JobInput::Changed);
    assert!(stage.controller.is_over() && stage.controller.is_settled());
    assert_eq!(stage.wakes_after(), LOOK_AGAIN);
    stage.pass(LOOK_AGAIN);
    assert_eq!(stage.controller.poll_timeout(), None, "what runs still ends");
    stage.end(at(600), Ending::Interrupted);
    assert_eq!(stage.wakes_after(), LOOK_AGAIN, "it has looked");
}

#[test]
fn what_is_not_written_is_written_soon() {
    let mut stage = Stage::unserved(policy(), 3_600);
    stage.answer();
    let write = stage.request();
    stage.unanswered(&write);
    assert!(stage.wakes_after() <= REPEAT_MAX);
}

#[test]
fn a_late_answer_is_not_that_to_the_request_that_is_out() {
    let mut stage = Stage::unserved(policy(), 10);
    let open = stage.request();
    let (answer, twice) = (stage.execute(&open), stage.execute(&open));
    stage.input(answer).answer().pass(secs(10)).input(twice).answer();
    assert_eq!(stage.starts(), [(at(10), 1)]);
}

#[test]
fn without_room_another_roles_job_is_looked_at_again_and_not_at_once() {
    let mut stage = Stage::new(policy(), 600);
    stage.move_to("theirs", TERM);
    let mut stage = Stage { serves: false, room: false, ..stage };
    stage.replace_leader(term(TERM + 1));
    stage.answer();
    assert!(stage.out.is_empty());
    stage.pass(REPEAT_MAX);
    assert!(matches!(stage.request(), JobAction::Open { .. }));
}

#[test]
fn without_room_it_looks_again_soon_only_for_what_could_begin() {
    let mut stage = Stage::new(allow(), 3_600);
    assert!(stage.without_room().wakes_after() > ROOM_LOOK, "nothing waits");
    stage.ask();
    assert_eq!(stage.wakes_after(), ROOM_LOOK);
    let mut stage = Stage::new(allow(), 3_600);
    let slot = stage.ask();
    stage.end(slot, Ending::Failed);
    assert!(stage.without_room().wakes_after() > ROOM_LOOK, "its pause goes on");
    stage.pass(secs(20));
    assert_eq!((stage.wakes_after(), stage.starts()), (ROOM_LOOK, vec![(slot, 1)]));
}

#[test]
fn a_slot_that_is_due_is_looked_at_soon_where_it_waits_for_room_alone() {
    let mut stage = Stage::new(policy(), 60);
    stage.without_room().pass(secs(60));
    assert_eq!((stage.wakes_after(), stage.starts()), (ROOM_LOOK, vec![]));
    let mut stage = Stage::new(policy(), 60);
    stage.pass(secs(120));
    assert_eq!(stage.starts(), [(at(60), 1)]);
    assert!(stage.wakes_after() > ROOM_LOOK, "it waits for the run before it");
}

#[test]
fn what_waits_for_room_wants_no_place() {
    let mut stage = Stage::new(allow(), 3_600);
    let slot = stage.ask();
    stage.end(slot, Ending::Failed).without_room().with_places(0).pass(secs(20));
    assert_eq!((stage.starts(), stage.controller.places_wanted()), (vec![(slot, 1)], 0));
}

/// No slot ever.
#[derive(Debug)]
struct Never;

impl Timetable for Never {
    fn next_after(&self, _: Wall) -> Option<Wall> {
        None
    }

    fn name(&self) -> String {
        "never".to_owned()
    }
}

#[test]
fn a_schedule_that_is_at_its_end_is_looked_at_as_seldom_as_any() {
    let profile = JobProfile { timetable: Arc::new(Never), ..profile(policy(), 1) };
    let stage = Stage::on(LedgerCell::default(), profile, true);
    assert_eq!((stage.wakes_after(), stage.controller.next_slot()), (LOOK, None));
}

#[test]
fn it_says_by_how_much_the_clock_is_behind_what_is_decided() {
    let mut stage = Stage::new(policy(), 600);
    stage.pass(secs(600)).end(at(600), Ending::Succeeded);
    assert_eq!(stage.controller.ahead(wall(600)), Duration::ZERO);
    assert_eq!(stage.controller.ahead(wall(500)), secs(100));
}

#[test]
fn an_interruption_is_written_also_when_there_is_no_room_to_try_again() {
    let mut stage = Stage::new(policy(), 600);
    stage.pass(secs(600)).without_room().next_leader(TERM + 1);
    let end = stage.attempts(at(600))[0].end;
    assert_eq!((end, stage.starts()), (Some((wall(600), Ending::Interrupted)), vec![(at(600), 1)]));
}

#[test]
fn the_first_attempt_is_late_for_its_slot() {
    let mut stage = Stage::new(policy(), 600);
    stage.advance(secs(607));
    assert!(stage.tells(&JobEvent::Started { slot: at(600), attempt: 1, late: secs(7) }), "{:?}", stage.events);
}

#[test]
fn a_claim_that_was_withdrawn_waits_while_the_job_is_suspended() {
    let mut stage = Stage::unserved(policy(), 600);
    stage.answer().answer().pass(secs(600)).closes();
    stage.wish(|ledger, now| ledger.order(true, now));
    stage.serves = true;
    stage.next_leader(TERM + 1).pass(secs(60));
    assert_eq!(stage.starts(), [], "it has not begun");
    stage.order(false);
    assert_eq!(stage.starts(), [(at(600), 1)]);
}

#[test]
fn a_claim_that_was_withdrawn_of_what_somebody_asked_for_begins_while_the_job_is_suspended() {
    let mut stage = Stage::unserved(no_more(), 600);
    stage.answer().answer();
    stage.wish(|ledger, now| assert!(ledger.ask(now).is_ok())).input(JobInput::Changed).answer();
    stage.closes().wish(|ledger, now| ledger.order(true, now));
    stage.serves = true;
    stage.next_leader(TERM + 1);
    let asked = Slot::Manual(wall(0));
    assert_eq!(stage.starts(), [(asked, 1)]);
    // And so does a retry.
    stage.end(asked, Ending::Succeeded).order(false).pass(secs(600)).end(at(600), Ending::Failed).order(true);
    assert_eq!(stage.starts(), [(at(600), 1)]);
    stage.serves = false;
    stage.wish(|ledger, now| ledger.retry(at(600), now).expect("it failed")).input(JobInput::Changed).answer();
    stage.closes().serves = true;
    stage.next_leader(TERM + 2);
    assert_eq!(stage.starts(), [(at(600), 2)]);
}

#[test]
fn under_forbid_of_two_runs_that_wait_one_goes_on_after_the_other() {
    let mut stage = Stage::new(allow(), 3_600);
    let slots = [stage.ask(), stage.ask()];
    stage.end(slots[0], Ending::Failed).end(slots[1], Ending::Failed).configure(long_memory(), 3_600);
    stage.starts();
    stage.pass(secs(60));
    assert_eq!(stage.starts(), [(slots[0], 2)]);
    stage.end(slots[0], Ending::Succeeded);
    assert_eq!(stage.starts(), [(slots[1], 2)]);
}

#[test]
fn slots_after_a_suspension_are_not_told_as_suspended() {
    let mut stage = Stage::new(long_memory(), 10);
    stage.pass(secs(5)).order(true).pass(secs(10)).order(false);
    assert_eq!(stage.starts(), [(at(10), 1)]);
    stage.pass(secs(30));
    assert_eq!(stage.gaps(), [(GapReason::Concurrency, 20, 20, 1), (GapReason::Concurrency, 30, 30, 1)]);
}

/// Very many slots: while a run went on the process stood still, and then the clock was set.
fn stood_still_and_stepped(stood: u64, step: u64) -> Vec<(GapReason, u64, u64, u64)> {
    let mut stage = Stage::new(long_memory(), 1);
    stage.pass(secs(1));
    assert_eq!(stage.starts(), [(at(1), 1)]);
    stage.wall = stage.wall.plus(secs(step));
    stage.advance(secs(stood));
    stage.gaps()
}

#[test]
fn of_very_many_slots_those_before_a_step_of_the_clock_are_told_apart_from_those_in_it() {
    let (stepped, last) = (1 + 2_000, 1 + 2_000 + 5_000);
    let gaps = stood_still_and_stepped(2_000, 5_000);
    assert_eq!(gaps[0], (GapReason::Concurrency, 2, stepped, 1_000), "counted up to a bound");
    assert_eq!((gaps[1].0, gaps[1].1), (GapReason::Missed, stepped + 1));
    assert!(gaps[2..].iter().all(|gap| gap.0 == GapReason::Missed));
    assert_eq!(gaps.last().map(|gap| gap.2), Some(last - 1), "the last waits");
}

#[test]
fn a_step_of_the_clock_among_the_last_of_very_many_slots_is_told_apart_as_well() {
    let (stepped, last) = (1 + 5_000, 1 + 5_000 + 70);
    let gaps = stood_still_and_stepped(5_000, 70);
    assert!(gaps.is_sorted_by(|a, b| a.2 < b.1), "each slot once: {gaps:?}");
    let before = gaps.iter().rfind(|gap| gap.0 == GapReason::Concurrency);
    assert_eq!(before.map(|gap| gap.2), Some(stepped));
    assert_eq!(gaps.last(), Some(&(GapReason::Missed, stepped + 1, last - 1, 69)));
}
