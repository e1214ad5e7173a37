//! Which slots get a run, and what becomes of the others.

use super::*;
use std::sync::atomic::{AtomicU64, Ordering};

fn with(concurrency: Concurrency, catch_up: CatchUp) -> JobPolicy {
    JobPolicy { concurrency, catch_up, ..long_memory() }
}

#[test]
fn a_job_that_is_seen_for_the_first_time_starts_from_now() {
    let mut stage = Stage::new(policy(), 10);
    assert_eq!((stage.starts(), stage.controller.next_slot()), (vec![], Some(wall(10))));
    stage.pass(secs(10));
    assert_eq!(stage.starts(), [(at(10), 1)]);
}

#[test]
fn each_slot_starts_at_its_time() {
    let mut stage = Stage::new(policy(), 7);
    let first = stage.controller.next_slot().unwrap();
    stage.pass(first.since(stage.wall));
    for slot in 0..5 {
        let slot = Slot::Scheduled(first.plus(secs(7 * slot)));
        assert_eq!((slot.at(), stage.starts()), (stage.wall, vec![(slot, 1)]));
        stage.end(slot, Ending::Succeeded).pass(secs(7));
    }
}

#[test]
fn under_forbid_a_slot_waits_for_the_run_and_a_later_slot_takes_its_place() {
    let mut stage = Stage::new(with(Concurrency::Forbid, CatchUp::Latest), 10);
    stage.pass(secs(35));
    assert_eq!(stage.starts(), [(at(10), 1)]);
    stage.end(at(10), Ending::Succeeded);
    assert_eq!(stage.starts(), [(at(30), 1)]);
    assert_eq!(stage.gaps(), [(GapReason::Concurrency, 20, 20, 1)]);
}

#[test]
fn under_forbid_a_slot_waits_no_longer_than_it_may_start_late() {
    let mut stage = Stage::new(JobPolicy { starting_deadline: Some(secs(4)), ..long_memory() }, 10);
    stage.pass(secs(24));
    assert_eq!(stage.gaps(), []);
    stage.pass(Duration::from_millis(1));
    assert_eq!(stage.gaps(), [(GapReason::Concurrency, 20, 20, 1)]);
    stage.end(at(10), Ending::Succeeded).pass(secs(1));
    assert_eq!(stage.starts(), [(at(10), 1)]);
}

#[test]
fn under_forbid_a_run_between_two_attempts_goes_on() {
    let mut stage = Stage::new(with(Concurrency::Forbid, CatchUp::Latest), 15);
    stage.pass(secs(15)).end(at(15), Ending::Failed).pass(secs(10)).end(at(15), Ending::Failed).pass(secs(10));
    assert_eq!(stage.starts(), [(at(15), 1), (at(15), 2)]);
}

#[test]
fn under_replace_the_run_is_cancelled_and_the_next_starts_when_it_has_ended() {
    let mut stage = Stage::new(with(Concurrency::Replace, CatchUp::Latest), 10);
    stage.pass(secs(20));
    assert_eq!(stage.cancelled, [(at(10), 1, RunFailure::Replaced)]);
    assert_eq!(stage.starts(), [(at(10), 1)]);
    stage.end(at(10), Ending::Interrupted);
    assert_eq!(stage.starts(), [(at(20), 1)]);
    assert_eq!(stage.endings(), [(at(10), Some(RunFailure::Replaced), 1)]);
}

#[test]
fn under_replace_a_run_that_waits_for_its_next_attempt_is_replaced_at_once() {
    let mut stage = Stage::new(with(Concurrency::Replace, CatchUp::Latest), 12);
    stage.pass(secs(12)).pass(secs(4)).end(at(12), Ending::Failed).pass(secs(8));
    assert_eq!((stage.starts(), stage.cancelled.len()), (vec![(at(12), 1), (at(24), 1)], 0));
    assert_eq!(stage.endings(), [(at(12), Some(RunFailure::Replaced), 1)]);
}

#[test]
fn under_allow_runs_overlap_up_to_a_bound() {
    let mut stage = Stage::new(with(Concurrency::Allow, CatchUp::Latest), 10);
    stage.pass(secs(10 * (ACTIVE_MAX as u64 + 5)));
    assert_eq!(stage.starts().len(), ACTIVE_MAX);
    let bound = 10 * ACTIVE_MAX as u64;
    stage.end(at(10), Ending::Succeeded);
    assert_eq!(stage.starts(), [(at(bound + 50), 1)]);
    let passed: u64 = stage.gaps().iter().map(|gap| gap.3).sum();
    assert!(stage.gaps().iter().all(|gap| gap.0 == GapReason::Concurrency));
    assert_eq!(passed, 4);
}

#[test]
fn after_an_outage_the_latest_slot_is_started() {
    let mut stage = Stage::new(with(Concurrency::Forbid, CatchUp::Latest), 10);
    stage.advance(secs(57));
    assert_eq!(stage.starts(), [(at(50), 1)]);
    assert_eq!(stage.gaps(), [(GapReason::Missed, 10, 40, 4)]);
}

#[test]
fn without_catching_up_only_what_is_on_time_is_started() {
    let mut stage = Stage::new(with(Concurrency::Forbid, CatchUp::None), 60);
    stage.advance(secs(131));
    assert_eq!((stage.starts(), stage.gaps()), (vec![], vec![(GapReason::Missed, 60, 120, 2)]));
    stage.advance(secs(59));
    assert_eq!(stage.starts(), [(at(180), 1)], "ten seconds late");
}

#[test]
fn a_slot_later_than_its_starting_deadline_is_missed() {
    let mut stage = Stage::new(JobPolicy { starting_deadline: Some(secs(20)), ..long_memory() }, 60);
    stage.advance(secs(81)).advance(secs(59));
    assert_eq!(stage.starts(), [(at(120), 1)]);
    assert_eq!(stage.gaps(), [(GapReason::Missed, 60, 60, 1)]);
}

#[test]
fn all_slots_of_an_outage_are_caught_up_one_after_the_other() {
    let mut stage = Stage::new(with(Concurrency::Forbid, CatchUp::All), 10);
    stage.advance(secs(45));
    for slot in [10, 20, 30, 40] {
        assert_eq!(stage.starts(), [(at(slot), 1)]);
        stage.end(at(slot), Ending::Succeeded);
    }
    assert_eq!((stage.starts(), stage.gaps()), (vec![], vec![]));
}

#[test]
fn all_means_the_last_hundred_one_by_one_also_where_runs_may_overlap() {
    let mut stage = Stage::new(with(Concurrency::Allow, CatchUp::All), 3_600);
    stage.advance(secs(200 * 3_600 - 60));
    assert_eq!(stage.gaps(), [(GapReason::Missed, 3_600, 99 * 3_600, 99)]);
    for hour in 100..199 {
        assert_eq!(stage.starts(), [(at(hour * 3_600), 1)]);
        stage.end(at(hour * 3_600), Ending::Succeeded);
    }
    assert_eq!(stage.starts(), [(at(199 * 3_600), 1)]);
    stage.pass(secs(60));
    assert_eq!(stage.starts(), [(at(200 * 3_600), 1)], "who is in time waits for nothing");
}

/// A job whose runs take longer than its slots are apart catches up all the same.
#[test]
fn slots_that_are_caught_up_wait_for_a_run_no_longer_than_half_a_slots_time() {
    let mut stage = Stage::new(with(Concurrency::Allow, CatchUp::All), 600);
    stage.advance(secs(3 * 600 + 60));
    for slot in [600, 1_200, 1_800] {
        assert_eq!(stage.starts(), [(at(slot), 1)]);
        stage.pass(secs(299));
        assert_eq!(stage.starts(), []);
        stage.pass(secs(1));
    }
    assert_eq!(stage.starts(), [(at(2_400), 1)]);
}

#[test]
fn all_under_replace_means_the_last_one() {
    let mut stage = Stage::new(with(Concurrency::Replace, CatchUp::All), 10);
    stage.advance(secs(45));
    assert_eq!(stage.starts(), [(at(40), 1)]);
}

/// Slots in bursts: every second for the first `span` seconds of `every`. It counts how often it is asked.
#[derive(Debug)]
struct Bursts {
    every: u64,
    span: u64,
    asked: AtomicU64,
}

impl Timetable for Bursts {
    fn next_after(&self, after: Wall) -> Option<Wall> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let next = after.as_millis() / 1_000 + 1;
        let into = next % self.every;
        let slot = if into < self.span { next } else { next + self.every - into };
        Some(Wall::from_millis(slot * 1_000))
    }

    fn name(&self) -> String {
        "bursts".to_owned()
    }
}

#[test]
fn an_outage_of_very_many_slots_takes_a_bounded_amount_of_work() {
    const DAY: u64 = 86_400;
    for (every, span) in [(1, 1), (60, 1), (3_600, 60), (DAY, 3_600), (40 * DAY, 30 * DAY)] {
        for catch_up in [CatchUp::None, CatchUp::Latest, CatchUp::All] {
            let mut stage = Stage::new(with(Concurrency::Allow, catch_up), 10);
            let bursts = Arc::new(Bursts { every, span, asked: AtomicU64::new(0) });
            let timetable: Arc<dyn Timetable> = Arc::clone(&bursts) as _;
            stage.profile.timetable = timetable;
            let profile = stage.profile.clone();
            stage.input(JobInput::Configured(profile)).advance(secs(5_000 * DAY + 7));
            let asked = bursts.asked.load(Ordering::Relaxed);
            assert!(asked < 15_000, "{every} {span} {catch_up:?}: {asked}");
            let starts = stage.starts().len();
            if catch_up == CatchUp::All {
                assert_eq!(starts, 1, "one by one");
            } else {
                let due = |slot: Wall| bursts.next_after(slot).is_some_and(|next| next > stage.wall);
                assert!(due(stage.stored().decided) && starts <= 1, "everything is decided");
            }
            assert!(stage.gaps().iter().map(|gap| gap.3).sum::<u64>() >= 800);
            assert!(stage.gaps().is_sorted_by(|a, b| a.2 < b.1), "one after the other");
        }
    }
}

#[test]
fn a_changed_schedule_starts_from_the_change() {
    let mut stage = Stage::new(policy(), 60);
    stage.pass(secs(59)).configure(policy(), 7);
    assert_eq!(stage.starts(), []);
    let next = stage.controller.next_slot().unwrap();
    assert!(next > stage.wall);
    stage.pass(next.since(stage.wall));
    assert_eq!(stage.starts(), [(Slot::Scheduled(next), 1)]);
    assert_eq!((stage.gaps(), stage.stored().timetable.as_str()), (vec![], "every 7 s"));
}

#[test]
fn a_schedule_that_changed_while_nobody_led_starts_from_the_next_leader() {
    let mut stage = Stage::new(policy(), 60);
    stage.profile = profile(policy(), 1);
    stage.mono = stage.mono + secs(50);
    stage.wall = stage.wall.plus(secs(50));
    stage.next_leader(TERM + 1);
    assert_eq!((stage.starts(), stage.gaps()), (vec![], vec![]));
    stage.pass(secs(1));
    assert_eq!(stage.starts(), [(at(51), 1)]);
}

#[test]
fn a_slot_that_has_a_run_is_not_begun_again_when_the_mark_was_set_back() {
    let mut stage = Stage::new(policy(), 600);
    stage.pass(secs(600)).end(at(600), Ending::Succeeded);
    assert_eq!(stage.starts(), [(at(600), 1)]);
    stage.wish(|ledger, _| ledger.decided = wall(0)).next_leader(TERM + 1).pass(secs(30));
    assert_eq!(stage.starts(), []);
}
