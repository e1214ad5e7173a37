//! A candidate that is told that the leader's process has ended.

use super::*;

const PROMISE: Duration = VALIDITY;

/// A standby that has just heard the leader.
fn standby() -> Stage {
    let mut stage = Stage::standby(LEASE);
    stage.hear(AnnouncementKind::Heartbeat, token(10), 6);
    stage.actions();
    stage
}

fn departed(session: SessionId, promise: Duration) -> Input {
    Input::Departed { session, promise }
}

fn not_held(stage: &mut Stage, id: RequestId) {
    let reply = stage.stamped(ReleaseReply::NotHeld);
    stage.input(Input::Released { id, reply });
}

#[test]
fn a_candidate_gives_the_lease_back_once_the_last_promise_has_run_out_and_not_before() {
    let mut stage = standby();
    stage.input(departed(rival().session, PROMISE));
    let waited = stage.until_due(PROMISE + SOON);
    assert!(waited >= PROMISE * 51 / 50, "another clock may be 1 % slow, and this one 1 % fast: {waited:?}");
    let (id, request) = stage.release();
    let named = Candidate { session: rival().session, attempt: Attempt::ANY };
    assert_eq!((request.candidate, request.token), (named, token(10)));
    stage.answer_release(id);
    assert!(stage.told(&Event::Departed { holder: Arc::from("other"), token: token(10) }));
    assert!(stage.until_due(ms(5)) < ms(5), "the heartbeat of a dead leader keeps nobody quiet");
    stage.campaign();
}

#[test]
fn without_a_promise_to_wait_for_it_does_so_within_its_spread() {
    let mut stage = standby();
    stage.input(departed(rival().session, Duration::ZERO));
    stage.until_due(ms(5));
    stage.release();
}

#[test]
fn a_promise_counts_from_when_it_was_first_told_of_and_may_turn_out_shorter() {
    let mut stage = standby();
    stage.input(departed(rival().session, PROMISE));
    stage.pass(PROMISE / 2).input(departed(rival().session, PROMISE));
    assert!(stage.until_due(PROMISE) <= PROMISE * 11 / 20);
    let mut stage = standby();
    stage.input(departed(rival().session, PROMISE));
    stage.pass(PROMISE / 2).input(departed(rival().session, Duration::ZERO));
    stage.until_due(ms(5));
    stage.release();
}

#[test]
fn word_of_another_session_changes_nothing_nor_does_word_of_itself() {
    let mut stage = standby();
    let before = stage.election.poll_timeout();
    for session in [SessionId::from_u128(98), profile().session] {
        stage.input(departed(session, Duration::ZERO));
    }
    assert_eq!((stage.election.poll_timeout(), stage.actions()), (before, vec![]));
    // The same pod has another process by now, and that one leads.
    let mut stage = standby();
    let successor = Holder { session: SessionId::from_u128(100), identity: rival().identity };
    let kind = AnnouncementKind::Grant;
    stage.input(Input::Heard(Announcement { kind, token: token(11), count: 7, holder: successor, audience: 3 }));
    stage.input(departed(rival().session, Duration::ZERO));
    stage.pass(SOON);
    assert_eq!(stage.actions(), vec![], "the one that leads is another");
}

#[test]
fn a_leader_goes_on_leading_whatever_it_is_told_of_others() {
    let mut stage = Stage::leading(token(7));
    stage.actions();
    stage.input(departed(rival().session, Duration::ZERO));
    stage.pass(ms(50));
    assert!(stage.leads());
    assert_eq!(stage.actions(), vec![]);
}

#[test]
fn a_lease_that_a_dead_process_is_granted_late_is_given_back_as_well() {
    let mut stage = standby();
    stage.input(departed(rival().session, Duration::ZERO));
    stage.until_due(ms(5));
    let (id, _) = stage.release();
    stage.answer_release(id);
    stage.campaign();
    stage.hear(AnnouncementKind::Grant, token(11), 8);
    stage.until_due(PERIOD);
    let (_, request) = stage.release();
    assert_eq!(request.token, token(11));
}

#[test]
fn a_lease_that_another_gave_back_first_is_looked_for_and_not_counted() {
    let mut stage = standby();
    stage.input(departed(rival().session, Duration::ZERO));
    stage.until_due(ms(5));
    let (id, _) = stage.release();
    not_held(&mut stage, id);
    assert_eq!(stage.actions(), vec![]);
    stage.until_due(ms(5));
    stage.campaign();
    assert!(!stage.events.iter().any(|event| matches!(event, Event::Departed { .. })), "{:?}", stage.events);
}

#[test]
fn the_answer_to_a_release_in_anothers_place_says_nothing_of_who_leads_now() {
    let mut stage = standby();
    stage.input(departed(rival().session, Duration::ZERO));
    stage.until_due(ms(5));
    let (id, _) = stage.release();
    let successor = Holder { session: SessionId::from_u128(100), identity: Arc::from("third") };
    let kind = AnnouncementKind::Grant;
    stage.input(Input::Heard(Announcement { kind, token: token(11), count: 8, holder: successor, audience: 3 }));
    stage.answer_release(id);
    stage.actions();
    assert_eq!(stage.election.view(stage.now).holder.map(|(name, _)| name), Some(Arc::from("third")));
    assert!(stage.election.poll_timeout().unwrap().since(stage.now) >= LEASE, "its heartbeat counts");
}

#[test]
fn an_unanswered_release_is_tried_again_and_not_all_the_time() {
    let mut stage = standby();
    stage.input(departed(rival().session, Duration::ZERO));
    stage.until_due(ms(5));
    let (id, _) = stage.release();
    stage.pass(SOON * 2);
    assert_eq!(stage.actions(), vec![], "one at a time");
    stage.input(Input::Released { id, reply: Err(no_answer()) });
    stage.election.handle_timeout(stage.now);
    let (id, _) = stage.release();
    stage.input(Input::Released { id, reply: Err(no_answer()) });
    assert_eq!(stage.actions(), vec![]);
    assert!(stage.until_due(PERIOD) >= PERIOD / 20);
    stage.release();
}

#[test]
fn who_could_not_lead_leaves_it_to_others() {
    let mut stage = standby();
    stage.input(Input::AppHealth { healthy: false });
    stage.input(departed(rival().session, Duration::ZERO));
    stage.pass(SOON);
    assert_eq!(stage.actions(), vec![]);
    stage.input(Input::AppHealth { healthy: true });
    stage.pass(ms(5));
    stage.release();
}

#[test]
fn a_step_of_the_stores_clock_that_such_an_answer_shows_keeps_it_out_for_a_lease() {
    let mut stage = standby();
    stage.input(departed(rival().session, Duration::ZERO));
    stage.until_due(ms(5));
    let (id, _) = stage.release();
    let stepped = StoreTime(1_700_000_000_000_000 + stage.now.as_nanos() / 1_000 + 60_000_000);
    stage.input(Input::Released { id, reply: Ok(Stamped { reply: ReleaseReply::Released, store_time: stepped }) });
    assert!(stage.told(&Event::StoreClockStepped { by_ms: 60_000 }));
    assert!(stage.until_due(LEASE + ms(100)) >= LEASE);
}

#[test]
fn one_that_ends_waits_for_its_answer() {
    let mut stage = standby();
    stage.input(departed(rival().session, Duration::ZERO));
    stage.until_due(ms(5));
    let (id, _) = stage.release();
    stage.input(Input::Shutdown);
    assert!(!stage.election.is_ended());
    stage.answer_release(id);
    assert!(stage.election.is_ended());
}

#[test]
fn whoever_is_heard_to_renew_after_its_end_has_not_ended() {
    let mut stage = standby();
    stage.input(departed(rival().session, PROMISE));
    stage.actions();
    // It may have asked for this before.
    stage.hear(AnnouncementKind::Grant, token(11), 7);
    stage.actions();
    let refuted = Event::DepartureRefuted { holder: Arc::from("other"), session: rival().session };
    assert!(!stage.events.contains(&refuted));
    stage.hear(AnnouncementKind::Heartbeat, token(11), 8);
    stage.actions();
    assert!(stage.events.contains(&refuted), "{:?}", stage.events);
    // Nothing of the kind is believed again.
    stage.input(departed(rival().session, Duration::ZERO));
    assert!(stage.election.poll_timeout().unwrap().since(stage.now) > LEASE / 2);
}

#[test]
fn of_many_who_live_though_they_were_said_to_have_ended_the_last_are_remembered() {
    let mut stage = standby();
    let session = |of: u64| SessionId::from_u128(u128::from(100 + of));
    let hear = |stage: &mut Stage, of, value| {
        let holder = Holder { session: session(of), identity: Arc::from("another") };
        let (kind, audience) = (AnnouncementKind::Heartbeat, 2);
        stage.input(Input::Heard(Announcement { kind, token: token(value), count: value, holder, audience }));
    };
    let last = 65;
    for of in 1..=last {
        stage.input(departed(session(of), PROMISE));
        hear(&mut stage, of, 100 + of);
    }
    for (of, is_believed) in [(1, true), (2, false)] {
        hear(&mut stage, of, 200 + of);
        stage.input(departed(session(of), Duration::ZERO));
        stage.actions();
        stage.pass(ms(100));
        assert_eq!(!stage.actions().is_empty(), is_believed, "{of} of {last}");
    }
}
