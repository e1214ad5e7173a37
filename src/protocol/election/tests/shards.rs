//! What a shard is asked for: to let others go first, and to hand over.

use super::*;

const STAGGER: Duration = Duration::from_secs(10);

fn staggered(stage: &mut Stage, by: Duration) {
    stage.input(Input::Stagger { by });
}

#[test]
fn a_staggered_candidate_looks_so_much_later_and_at_once_when_it_is_so_no_more() {
    let mut stage = Stage::new();
    staggered(&mut stage, STAGGER);
    assert_eq!(stage.pass(STAGGER - ms(1)).actions(), vec![]);
    assert_eq!(stage.state(), State::Standby);
    stage.pass(ms(1)).campaign();

    let mut stage = Stage::new();
    staggered(&mut stage, STAGGER);
    assert_eq!(stage.pass(SOON).actions(), vec![]);
    staggered(&mut stage, Duration::ZERO);
    stage.campaign();
}

#[test]
fn a_stagger_is_had_once_for_each_vacancy() {
    let mut stage = Stage::new();
    staggered(&mut stage, STAGGER);
    stage.pass(STAGGER);
    let (id, _) = stage.campaign();
    stage.answer(id, look_again(token(7), 1));
    // A lease of watching, and no more.
    stage.until_due(LEASE + SOON);
    let (id, second) = stage.campaign();
    assert!(second.knowledge.is_some());
    stage.answer(id, held(token(10), 5, ms(3_000)));
    stage.actions();
    let due = stage.until_due(ms(3_000) + STAGGER + SOON);
    assert!(due >= ms(3_000) + STAGGER, "the next vacancy is left to others again: {due:?}");
}

#[test]
fn a_campaign_without_an_answer_is_repeated_without_a_stagger() {
    let mut stage = Stage::new();
    let (id, first) = stage.campaign();
    staggered(&mut stage, STAGGER);
    stage.input(Input::Campaigned { id, reply: Err(no_answer()) });
    stage.actions();
    stage.until_due(SOON);
    assert_eq!(stage.campaign().1.candidate, first.candidate, "it may have been granted");
}

#[test]
fn a_leader_minds_no_stagger_and_hands_over_as_on_a_resignation() {
    let mut stage = Stage::leading(token(7));
    staggered(&mut stage, STAGGER);
    stage.until_due(PERIOD);
    stage.renewal();
    let now = stage.now;
    assert!(stage.election.leadership().promise(now).is_some());
    stage.input(Input::HandOver { cooldown: LEASE });
    let view = stage.election.view(stage.now);
    assert_eq!((view.state, view.stays_out, stage.leads()), (State::Draining, true, false));
    assert_eq!(stage.actions(), vec![], "the promise stands");
    stage.until_due(VALIDITY);
    assert!(matches!(stage.only_action(), Action::Release { .. }));
    let balanced = |event: &Event| matches!(event, Event::Draining { reason: ReleaseReason::Balanced, .. });
    assert!(stage.events.iter().any(balanced), "{:?}", stage.events);
}
