//! Just in time, just too late; without room; said twice.

use super::*;

fn tight(ms: u64) -> Moment {
    Moment { room: false, ..moment(ms) }
}

fn ended(ticket: u64, ending: Ending) -> TakerInput<()> {
    TakerInput::Ended { name: name("a"), ticket: token(ticket), ending, note: "so".to_owned() }
}

impl Stage {
    /// It is taken, and there is no room to start it.
    fn takes_without_room(&mut self, claim: ClaimedJob<()>) {
        self.input(TakerInput::Changed(name("z")));
        let (id, _) = self.take();
        let taken = TakeAnswer::Taken { jobs: vec![claim], next: None, held: 1 };
        self.taker.handle_input(tight(self.now), TakerInput::Took(id, taken));
        assert_eq!(self.actions(), []);
    }

    fn has_started(&mut self) -> bool {
        self.actions().iter().any(|action| matches!(action, TakerAction::Start { .. }))
    }
}

#[test]
fn what_is_taken_is_active_and_nothing_is_over() {
    let mut stage = Stage::new();
    stage.starts(claim(900, 1, once()));
    assert_eq!((stage.taker.active(), stage.taker.is_over()), (1, false));
}

#[test]
fn each_take_has_an_answer_of_its_own() {
    let mut stage = Stage::new();
    let mut ids = Vec::new();
    for _ in 0..3 {
        stage.input(TakerInput::Changed(name("z")));
        let (id, _) = stage.take();
        stage.input(TakerInput::TakeUnanswered(id));
        let (again, _) = stage.take();
        stage.answer(again, vec![], None, 0);
        ids.extend([id, again]);
    }
    for (at, id) in ids.iter().enumerate() {
        assert!(!ids[..at].contains(id), "{ids:?}");
    }
}

#[test]
fn without_room_it_is_looked_at_soon_only_where_something_is_due() {
    let mut stage = Stage::new();
    let idle = Some(moment(1_000).mono + LOOK_IDLE);
    stage.taker.handle_timeout(tight(2_000));
    assert_eq!((stage.actions(), stage.taker.poll_timeout()), (vec![], idle));
    let due = 1_000 + u64::try_from(LOOK_IDLE.as_millis()).unwrap();
    stage.taker.handle_timeout(tight(due));
    assert_eq!((stage.actions(), stage.taker.poll_timeout()), (vec![], Some(moment(due).mono + ROOM_LOOK)));
    stage.taker.handle_timeout(moment(due));
    stage.take();
    stage.taker.handle_input(tight(due), TakerInput::Changed(name("a")));
    let soon = moment(due).mono + ROOM_LOOK;
    assert!(stage.taker.poll_timeout().is_none_or(|at| at > soon), "a take is out");
}

#[test]
fn who_is_about_to_stop_leading_has_nothing_to_look_for() {
    let mut stage = Stage::new();
    stage.input(TakerInput::Closing);
    assert_eq!((stage.actions(), stage.taker.poll_timeout()), (vec![], None));
}

#[test]
fn what_was_taken_and_had_no_room_is_given_back_as_not_begun() {
    let mut stage = Stage::new();
    stage.takes_without_room(claim(900, 2, once()));
    stage.taker.handle_input(tight(1_000), TakerInput::Closing);
    assert_eq!(again(&stage.settlement()), (900, 1_000, 1));
    assert_eq!(stage.taker.active(), 0);
}

#[test]
fn what_waits_for_room_before_it_begins_longer_than_it_may_run_has_all_its_time() {
    let mut stage = Stage::new();
    stage.takes_without_room(claim(
        900,
        1,
        RuntimePlan { active_deadline: Some(Duration::from_millis(500)), ..once() },
    ));
    stage.taker.handle_timeout(tight(1_600));
    assert_eq!((stage.actions(), stage.taker.active()), (vec![], 1));
    stage.taker.handle_timeout(moment(1_700));
    assert!(stage.has_started());
    assert_eq!(stage.taker.poll_timeout(), Some(moment(2_200).mono));
    stage.taker.handle_timeout(moment(2_199));
    assert_eq!(stage.actions(), []);
}

#[test]
fn the_end_of_another_attempt_or_of_one_that_has_not_begun_says_nothing() {
    let mut stage = Stage::new();
    stage.takes_without_room(claim(900, 1, once()));
    stage.taker.handle_input(tight(1_000), ended(51, Ending::Failed));
    assert_eq!((stage.actions(), stage.taker.active()), (vec![], 1));
    stage.taker.handle_timeout(moment(1_000));
    assert!(stage.has_started());
    stage.input(ended(99, Ending::Failed));
    assert_eq!((stage.actions(), stage.taker.active()), (vec![], 1));
}

#[test]
fn an_attempt_that_was_cancelled_was_so_however_it_ends_unless_it_was_done() {
    let plan = RuntimePlan { active_deadline: Some(Duration::from_millis(500)), ..once() };
    for (ending, told) in [
        (Ending::Failed, Ending::Cancelled),
        (Ending::Interrupted, Ending::Cancelled),
        (Ending::Succeeded, Ending::Succeeded),
    ] {
        let mut stage = Stage::new();
        stage.starts(claim(900, 1, plan.clone()));
        stage.taker.handle_timeout(moment(1_500));
        assert_eq!(stage.actions().len(), 1);
        assert!(stage.taker.poll_timeout().is_none_or(|at| at > moment(1_500).mono), "cancelled once");
        stage.input(ended(51, ending));
        let ending = stage.actions().into_iter().find_map(|action| match action {
            TakerAction::Tell(TakerEvent::Job(_, JobEvent::AttemptEnded { ending, .. })) => Some(ending),
            _ => None,
        });
        assert_eq!(ending, Some(told));
    }
}

#[test]
fn an_interrupted_run_fails_at_once_where_its_plan_says_so() {
    let mut stage = Stage::new();
    stage.starts(claim(900, 1, RuntimePlan { on_interrupt: OnInterrupt::Fail, ..once() }));
    assert_eq!(stage.ends(51, Ending::Interrupted), Settlement::Remove);
}

#[test]
fn the_first_attempt_is_late_for_its_slot_and_another_for_when_it_was_due() {
    for (attempt, wanted) in [(1, 100), (2, 50)] {
        let mut stage = Stage::new();
        stage.takes_without_room(ClaimedJob { due: at(950), ..claim(900, attempt, once()) });
        stage.taker.handle_timeout(moment(1_000));
        let (slot, late) = (Slot::Manual(at(900)), Duration::from_millis(wanted));
        let told = TakerEvent::Job(name("a"), JobEvent::Started { slot, attempt, late });
        assert!(stage.actions().contains(&TakerAction::Tell(told)));
    }
}

#[test]
fn what_comes_in_the_last_moment_begins() {
    let interrupted = ClaimedJob { interrupted: true, ..claim(900, 3, once()) };
    let deadline = RuntimePlan { starting_deadline: Some(Duration::from_millis(100)), ..once() };
    let expires = RuntimePlan { expires: Some(at(1_000)), ..once() };
    for claim in [interrupted, claim(900, 1, deadline), claim(900, 1, expires)] {
        Stage::new().starts(claim);
    }
}

#[test]
fn the_next_slot_of_a_schedule_is_no_repetition_of_the_one_that_has_ended() {
    let mut stage = Stage::new();
    stage.starts(claim(400, 1, every(400)));
    stage.ends(51, Ending::Succeeded);
    stage.settled(51);
    stage.now = 1_200;
    stage.starts(claim(1_200, 1, every(400)));
}

#[test]
fn what_comes_again_before_its_end_is_written_is_settled_under_its_later_ticket() {
    let mut stage = Stage::new();
    stage.starts(claim(900, 1, once()));
    stage.ends(51, Ending::Succeeded);
    let again = |ticket| vec![ClaimedJob { ticket: token(ticket), ..claim(900, 1, once()) }];
    assert_eq!(stage.brings(again(51)), [], "it is on its way");
    let actions = stage.brings(again(77));
    let [TakerAction::Settle { settle, .. }] = &actions[..] else { panic!("{actions:?}") };
    assert_eq!((settle.ticket, &settle.then), (token(77), &Settlement::Remove));
    assert_eq!(stage.brings(again(60)), [], "an answer that is late");
    assert_eq!(stage.settled(51), [], "of the first nobody asks any more");
    assert_eq!(stage.settled(77).len(), 1);
}

#[test]
fn what_can_be_read_at_last_begins_under_the_number_that_it_had() {
    let mut stage = Stage::new();
    stage.brings(vec![ClaimedJob { plan: ClaimedPlan::Unreadable, ..claim(900, 1, once()) }]);
    stage.settled(51);
    stage.starts(ClaimedJob { ticket: token(60), ..claim(900, 1, once()) });
}

#[test]
fn only_whole_seconds_of_a_schedule_are_slots_of_it() {
    let slots = [every(400).slot(at(2_000)), every(400).slot(at(400)), once().slot(at(2_000))];
    assert_eq!(slots, [Slot::Scheduled(at(2_000)), Slot::Manual(at(400)), Slot::Manual(at(2_000))]);
}
