//! Places: how many attempts this replica lets a job have.

use super::*;

fn allow() -> JobPolicy {
    JobPolicy { concurrency: Concurrency::Allow, ..long_memory() }
}

impl Stage {
    /// So many places from now on.
    pub(super) fn with_places(&mut self, places: usize) -> &mut Self {
        self.places = places;
        self.controller.handle_timeout(self.now());
        self.follow();
        self
    }
}

#[test]
fn a_slot_waits_for_a_place_as_it_does_for_a_run_that_goes_on() {
    let mut stage = Stage::new(JobPolicy { starting_deadline: Some(secs(30)), ..allow() }, 60);
    stage.with_places(0).pass(secs(70));
    assert_eq!((stage.starts(), stage.controller.places_wanted()), (vec![], 1));
    stage.with_places(1);
    assert_eq!((stage.starts(), stage.controller.places_wanted()), (vec![(at(60), 1)], 0));
    stage.pass(secs(81));
    assert_eq!(stage.gaps(), [(GapReason::Missed, 120, 120, 1)], "it could not start in time");
}

#[test]
fn no_more_are_claimed_than_have_places() {
    let mut stage = Stage::new(allow(), 3_600);
    stage.with_places(2);
    let slots = [stage.ask(), stage.ask(), stage.ask()];
    assert_eq!(stage.starts(), [(slots[0], 1), (slots[1], 1)]);
    assert_eq!((stage.phase(slots[2]), stage.controller.places_wanted()), (Phase::Asked, 1));
    stage.end(slots[0], Ending::Succeeded);
    assert_eq!(stage.starts(), [(slots[2], 1)]);
    assert_eq!(stage.controller.places_wanted(), 0);
}

#[test]
fn what_is_claimed_starts_only_in_its_place() {
    let mut stage = Stage::unserved(allow(), 60);
    stage.answer().answer().with_places(1).pass(secs(60));
    assert_eq!(stage.controller.places_wanted(), 1, "for the claim that is on its way");
    stage.with_places(0).answer();
    assert_eq!((stage.starts(), stage.controller.places_wanted()), (vec![], 1));
    stage.with_places(1);
    assert_eq!(stage.starts(), [(at(60), 1)]);
}

#[test]
fn a_repeated_attempt_needs_a_place_too() {
    let mut stage = Stage::new(allow(), 3_600);
    let slot = stage.ask();
    stage.end(slot, Ending::Failed).with_places(0).pass(secs(20));
    assert_eq!((stage.starts(), stage.controller.places_wanted()), (vec![(slot, 1)], 1));
    stage.with_places(1);
    assert_eq!(stage.starts(), [(slot, 2)]);
}

#[test]
fn under_replace_the_run_that_goes_on_makes_its_place_free() {
    let mut stage = Stage::new(JobPolicy { concurrency: Concurrency::Replace, ..long_memory() }, 60);
    stage.with_places(1).pass(secs(120));
    assert_eq!(stage.cancelled, [(at(60), 1, RunFailure::Replaced)]);
    stage.end(at(60), Ending::Interrupted);
    assert_eq!(stage.starts(), [(at(60), 1), (at(120), 1)]);
}

#[test]
fn who_is_about_to_stop_wants_no_place() {
    let mut stage = Stage::new(allow(), 60);
    stage.with_places(0).pass(secs(60)).input(JobInput::Closing);
    assert_eq!(stage.controller.places_wanted(), 0);
}
