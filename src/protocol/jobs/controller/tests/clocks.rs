//! Clocks that are ahead, behind, and set right: no slot has two runs, and the job goes on.

use super::*;

const HOUR: u64 = 3_600;
const DAY: u64 = 24 * HOUR;
const YEARS: u64 = 20 * 365 * DAY;

/// Nothing is remembered but what must be.
fn forgetful() -> JobPolicy {
    JobPolicy { history: HistoryLimits { succeeded: 0, failed: 0 }, ..policy() }
}

impl Stage {
    /// The clock of the day is set, and that is noticed.
    fn ahead(&mut self, by: u64) -> &mut Self {
        self.wall = self.wall.plus(secs(by));
        self.pass(LOOK)
    }

    fn back(&mut self, by: u64) -> &mut Self {
        self.wall = self.wall.minus(secs(by));
        self.pass(LOOK)
    }

    /// The next slot starts after so long, and its run succeeds.
    fn runs_after(&mut self, span: u64, slot: Slot) -> &mut Self {
        self.pass(secs(span));
        assert_eq!(self.starts(), [(slot, 1)]);
        self.end(slot, Ending::Succeeded)
    }

    /// Whether slots were opened again, each time that the clock was found to be behind.
    fn doubts(&self) -> Vec<bool> {
        let doubt = |event: &JobEvent| match event {
            JobEvent::ClockAhead { reopened, .. } => Some(*reopened),
            _ => None,
        };
        self.events.iter().filter_map(doubt).collect()
    }
}

#[test]
fn a_clock_that_steps_back_an_hour_runs_no_slot_twice() {
    let mut stage = Stage::new(forgetful(), 600);
    stage.runs_after(600, at(600));
    stage.wall = stage.wall.minus(secs(HOUR));
    stage.pass(secs(1_800)).next_leader(TERM + 1).pass(secs(1_800));
    assert_eq!((stage.starts(), stage.doubts()), (vec![], vec![false, false]), "each leader says so once");
    stage.runs_after(600, at(1_200));
}

#[test]
fn a_clock_that_is_behind_by_less_than_a_minute_is_waited_for_in_silence() {
    let mut stage = Stage::new(forgetful(), 600);
    stage.runs_after(600, at(600)).back(90).next_leader(TERM + 1).pass(secs(30));
    assert_eq!((stage.starts(), stage.doubts()), (vec![], vec![]));
}

#[test]
fn a_clock_that_steps_forwards_is_noticed_within_half_a_minute() {
    let mut stage = Stage::new(policy(), HOUR);
    stage.ahead(HOUR);
    assert_eq!(stage.starts(), [(at(HOUR), 1)]);
}

/// A node boots with an old time, and leads for a moment.
#[test]
fn a_leader_whose_clock_is_days_behind_undoes_nothing() {
    let policy = JobPolicy { concurrency: Concurrency::Allow, catch_up: CatchUp::All, ..forgetful() };
    let mut stage = Stage::new(policy, HOUR);
    for hour in 1..=100 {
        stage.runs_after(HOUR, at(hour * HOUR));
    }
    stage.wall = stage.wall.minus(secs(3 * DAY));
    stage.next_leader(TERM + 1).pass(secs(2 * HOUR));
    assert_eq!((stage.starts(), stage.doubts()), (vec![], vec![false]));
    stage.wall = stage.wall.plus(secs(3 * DAY));
    stage.next_leader(TERM + 2).pass(secs(1));
    let meanwhile = [(at(101 * HOUR), 1), (at(102 * HOUR), 1)];
    assert_eq!(stage.starts(), meanwhile, "nothing that had a run");
}

/// The hardware's clock is in local time, until it is synchronised.
#[test]
fn slots_that_a_clock_hours_ahead_passed_over_have_their_runs_in_time() {
    for next_leader in [false, true] {
        let mut stage = Stage::new(forgetful(), HOUR);
        stage.ahead(5 * HOUR);
        assert_eq!(stage.starts(), [(at(5 * HOUR), 1)]);
        stage.end(at(5 * HOUR), Ending::Succeeded).back(5 * HOUR);
        if next_leader {
            stage.next_leader(TERM + 1);
        }
        assert_eq!((stage.doubts(), stage.starts()), (vec![true], vec![]));
        let to_next = wall(HOUR).since(stage.wall).as_secs();
        stage.runs_after(to_next, at(HOUR));
        for hour in 2..=4 {
            stage.runs_after(HOUR, at(hour * HOUR));
        }
        stage.pass(secs(HOUR));
        assert_eq!(stage.starts(), [], "it had its run, five hours early");
        stage.runs_after(HOUR, at(6 * HOUR));
        assert_eq!(stage.stored().leaps, Leaps::default(), "nothing is left to remember");
    }
}

#[test]
fn what_ran_while_the_clock_was_ahead_does_not_run_again_however_long_that_was() {
    let mut stage = Stage::new(forgetful(), HOUR);
    stage.ahead(2 * DAY).end(at(2 * DAY), Ending::Succeeded);
    stage.starts();
    let to_next = wall(2 * DAY + HOUR).since(stage.wall).as_secs();
    stage.runs_after(to_next, at(2 * DAY + HOUR));
    for hour in 2..=30 {
        stage.runs_after(HOUR, at(2 * DAY + hour * HOUR));
    }
    stage.back(2 * DAY);
    assert_eq!(stage.doubts(), [true]);
    let to_next = wall(31 * HOUR).since(stage.wall).as_secs();
    stage.runs_after(to_next, at(31 * HOUR));
    for hour in 32..=47 {
        stage.runs_after(HOUR, at(hour * HOUR));
    }
    stage.pass(secs(31 * HOUR));
    assert_eq!(stage.starts(), [], "two days ahead, that long");
    stage.runs_after(HOUR, at(79 * HOUR));
}

#[test]
fn a_ledger_from_a_clock_years_ahead_does_not_stop_the_job_for_years() {
    let mut stage = Stage::new(policy(), 600);
    for begin in [0, 600] {
        stage.ahead(YEARS);
        let early = stage.starts()[0].0;
        stage.end(early, Ending::Succeeded);
        stage.wall = stage.wall.minus(secs(YEARS));
        if begin > 0 {
            stage.next_leader(TERM + 1);
        }
        let to_next = wall(begin + 600).since(stage.wall).as_secs();
        stage.runs_after(to_next, at(begin + 600));
    }
    assert_eq!(stage.doubts(), [true, true]);
}

/// It goes on when its time has come. Under `Forbid` it keeps no other waiting until then.
#[test]
fn a_run_that_a_clock_ahead_began_is_not_repeated_hours_early() {
    let mut stage = Stage::new(long_memory(), HOUR);
    let early = at(5 * HOUR);
    stage.ahead(5 * HOUR);
    assert_eq!(stage.starts(), [(early, 1)]);
    stage.end(early, Ending::Failed).back(5 * HOUR).next_leader(TERM + 1).pass(secs(1_800));
    assert_eq!((stage.starts(), stage.phase(early)), (vec![], Phase::Waiting { until: wall(5 * HOUR + 40) }));
    let to_next = wall(HOUR).since(stage.wall).as_secs();
    stage.runs_after(to_next, at(HOUR));
    for hour in 2..=4 {
        stage.runs_after(HOUR, at(hour * HOUR));
    }
    stage.pass(secs(HOUR));
    assert_eq!(stage.starts(), [(early, 2)]);
}

/// What waits for its turn is not decided.
#[test]
fn what_a_clock_ahead_had_queued_is_due_at_its_own_time() {
    let mut stage = Stage::new(long_memory(), HOUR);
    stage.pass(secs(HOUR));
    assert_eq!(stage.starts(), [(at(HOUR), 1)]);
    stage.ahead(5 * HOUR).back(5 * HOUR).end(at(HOUR), Ending::Succeeded);
    assert_eq!((stage.starts(), stage.doubts()), (vec![], vec![true]));
    let to_next = wall(2 * HOUR).since(stage.wall).as_secs();
    stage.runs_after(to_next, at(2 * HOUR)).runs_after(HOUR, at(3 * HOUR));
}

#[test]
fn slots_of_an_outage_that_a_clock_behind_opened_again_are_not_caught_up_later() {
    let policy = JobPolicy { starting_deadline: Some(secs(2 * HOUR)), catch_up: CatchUp::All, ..long_memory() };
    let mut stage = Stage::new(policy, HOUR);
    stage.runs_after(HOUR, at(HOUR)).advance(secs(10 * HOUR));
    assert_eq!(stage.gaps(), [(GapReason::Missed, 2 * HOUR, 8 * HOUR, 7)]);
    for hour in 9..=11 {
        assert_eq!(stage.starts(), [(at(hour * HOUR), 1)]);
        stage.end(at(hour * HOUR), Ending::Succeeded);
    }
    stage.wall = stage.wall.minus(secs(5 * HOUR));
    stage.next_leader(TERM + 1).pass(secs(60));
    assert_eq!(stage.stored().gaps[0].count, 5, "the others are open again");
    stage.wall = stage.wall.plus(secs(5 * HOUR));
    stage.next_leader(TERM + 2).pass(secs(60));
    assert_eq!((stage.starts(), stage.gaps()[1]), (vec![], (GapReason::Missed, 7 * HOUR, 8 * HOUR, 2)));
    let to_next = wall(12 * HOUR).since(stage.wall).as_secs();
    stage.runs_after(to_next, at(12 * HOUR));
}

#[test]
fn a_schedule_that_is_changed_under_a_clock_ahead_begins_when_that_is_right() {
    let mut stage = Stage::new(policy(), HOUR);
    stage.runs_after(HOUR, at(HOUR));
    stage.wall = stage.wall.plus(secs(DAY));
    stage.configure(policy(), 600).back(DAY);
    assert_eq!(stage.starts(), []);
    let to_next = wall(HOUR + 600).since(stage.wall).as_secs();
    stage.runs_after(to_next, at(HOUR + 600));
}

/// As after a clock that was ahead more than once.
#[test]
fn what_is_decided_for_good_upon_one_another_counts_as_one() {
    let closed = [(2, 2), (3, 4), (6, 6)].map(|(first, last)| (wall(first * HOUR), wall(last * HOUR)));
    let leaps = Leaps { closed: closed.to_vec(), ..Leaps::default() };
    let ledger = Ledger { decided: wall(HOUR), leaps, ..Stage::new(policy(), HOUR).stored() };
    assert_eq!(ledger.decided_until(&Every(HOUR)), wall(4 * HOUR), "five is open");
}

/// Of many outages the longest are remembered: a clock that was ahead passed over more.
#[test]
fn many_outages_make_no_ledger_long_and_do_not_hide_a_leap() {
    let mut stage = Stage::new(policy(), 60);
    stage.ahead(10 * DAY);
    for _ in 0..50 {
        let slot = stage.starts()[0].0;
        stage.end(slot, Ending::Succeeded).advance(secs(600));
        assert!(stage.stored().leaps.closed.len() <= 8);
    }
    let slot = stage.starts()[0].0;
    stage.end(slot, Ending::Succeeded).back(10 * DAY);
    assert_eq!(stage.doubts(), [true]);
    stage.pass(secs(60));
    assert_eq!(stage.starts().len(), 1);
}

#[test]
fn who_has_the_job_again_says_again_that_its_clock_is_behind() {
    let mut stage = Stage::new(forgetful(), 600);
    stage.runs_after(600, at(600)).back(HOUR);
    assert_eq!(stage.doubts(), [false]);
    let ours = stage.move_to("theirs", 5);
    let theirs = std::mem::replace(&mut stage.controller, ours);
    stage.input(JobInput::Changed).pass(LOOK_AGAIN);
    assert!(stage.controller.ledger().is_some() && theirs.ledger().is_some());
    assert_eq!(stage.doubts(), [false; 3], "each of the two, and the first again");
}
