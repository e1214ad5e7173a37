//! When exactly something is due, and what is told of it, once.

use super::*;

/// Less than the spread of a few listeners.
const SPREAD: Duration = Duration::from_millis(2);
/// The least that a request is put off that got no answer: a twentieth of a renewal period.
const PAUSE: Duration = Duration::from_millis(250);

#[test]
fn a_loser_looks_behind_a_renewal_that_comes_late() {
    let mut stage = Stage::standby(ms(9_000));
    stage.actions();
    let waited = stage.until_due(LEASE);
    assert!(waited >= ms(9_020) && waited <= ms(9_020) + SPREAD, "{waited:?}");

    let lease = ms(200);
    let timing = Timing::from_lease(lease).unwrap();
    let mut stage = Stage::with(Profile { timing, ..profile() });
    let (id, _) = stage.campaign();
    stage.answer(id, held(token(10), 5, ms(100)));
    stage.actions();
    let waited = stage.until_due(lease);
    assert!(waited >= ms(110) && waited <= ms(110) + SPREAD, "a twentieth of a short lease: {waited:?}");
}

#[test]
fn who_got_no_answer_that_counts_waits_a_moment_before_it_asks_again() {
    let mut unanswered = Stage::new();
    let (id, _) = unanswered.campaign();
    unanswered.input(Input::Campaigned { id, reply: Err(no_answer()) });

    let mut late = Stage::new();
    let (id, _) = late.campaign();
    late.pass(TERM).answer(id, CampaignReply::Granted { token: token(7), count: 1 });

    let mut lost = Stage::leading(token(7));
    lost.pass(PERIOD);
    let (id, _) = lost.renewal();
    lost.answer_renewal(id, RenewReply::Lost { token: token(8), holder: None });

    for (mut stage, case) in [(unanswered, "no answer"), (late, "too late"), (lost, "lost")] {
        stage.actions();
        let waited = stage.until_due(SOON);
        assert!(waited >= PAUSE, "{case}: {waited:?}");
    }
}

#[test]
fn a_term_that_is_lost_while_it_drains_keeps_its_replica_out_all_the_same() {
    let mut stage = Stage::leading(token(7));
    stage.actions();
    stage.election.leadership().promise(stage.now);
    stage.pass(PERIOD);
    let (id, _) = stage.renewal();
    stage.election.leadership().promise(stage.now);
    stage.input(Input::Resign { cooldown: ms(9_000) });
    assert_eq!(stage.state(), State::Draining);
    stage.answer_renewal(id, RenewReply::Lost { token: token(8), holder: None });
    stage.actions();
    assert!(stage.until_due(ms(9_100)) >= ms(9_000));
}

/// How often it was told that another won.
fn contentions(stage: &mut Stage) -> usize {
    stage.actions();
    stage.events.iter().filter(|event| matches!(event, Event::Contended { .. })).count()
}

#[test]
fn losing_is_no_race_to_who_knew_of_none_or_knows_who_leads() {
    let mut stage = Stage::new();
    let (id, _) = stage.campaign();
    stage.answer(id, held(token(10), 5, ms(100)));
    assert_eq!(contentions(&mut stage), 0, "the first that it ever hears of");
    stage.pass(SOON);
    let (id, _) = stage.campaign();
    stage.answer(id, held(token(10), 6, ms(100)));
    assert_eq!(contentions(&mut stage), 0, "the same term goes on");
    stage.pass(SOON);
    let (id, _) = stage.campaign();
    stage.hear(AnnouncementKind::Heartbeat, token(11), 7);
    assert_eq!(contentions(&mut stage), 0, "a heartbeat is of a term that was there before");
    stage.answer(id, held(token(12), 8, ms(100)));
    assert_eq!(contentions(&mut stage), 0, "nobody waits for that answer any more");
}

#[test]
fn a_grant_to_another_is_a_race_to_who_has_asked_only() {
    let mut stage = Stage::standby(ms(100));
    stage.hear(AnnouncementKind::Grant, token(11), 6);
    assert_eq!(contentions(&mut stage), 0, "it had not asked");
    stage.pass(LEASE + SOON);
    stage.campaign();
    stage.hear(AnnouncementKind::Grant, token(12), 7);
    assert_eq!(contentions(&mut stage), 1);
}

#[test]
fn a_guard_is_told_of_once_and_again_when_there_is_another() {
    let mut stage = Stage::new();
    let guarded = |cause, remaining| CampaignReply::Guarded { cause, remaining, version: version(token(10), 5) };
    let mut told = 0;
    let mut ask = |cause, remaining| {
        stage.actions();
        stage.until_due(LEASE);
        let (id, _) = stage.campaign();
        stage.answer(id, guarded(cause, remaining));
        stage.actions();
        let all = stage.events.iter().filter(|event| matches!(event, Event::Guarded { .. })).count();
        let new = all - told;
        told = all;
        new
    };
    assert_eq!(ask(GuardCause::Generation, LEASE), 1);
    assert_eq!(ask(GuardCause::Generation, LEASE / 2), 0, "the same goes on");
    assert_eq!(ask(GuardCause::Vanished, ms(200)), 1, "another cause");
    assert_eq!(ask(GuardCause::Vanished, LEASE), 1, "the one before was over");
}

#[test]
fn who_is_told_to_look_again_in_the_moment_that_it_waited_for_comes_back_after_a_while() {
    let mut stage = Stage::new();
    let (id, _) = stage.campaign();
    stage.answer(id, look_again(token(10), 5));
    stage.actions();
    let told_at = stage.now;
    stage.input(Input::Gap);
    stage.until_due(ms(100));
    let (id, _) = stage.campaign();
    // The answer comes when its record has stood still for a whole lease.
    let waited = stage.now.since(told_at);
    stage.pass(LEASE - waited).answer(id, look_again(token(10), 5));
    stage.actions();
    let waited = stage.until_due(LEASE);
    assert!(waited >= LEASE / 20 && waited <= LEASE / 20 + SPREAD, "{waited:?}");
}

#[test]
fn one_that_is_granted_the_role_does_not_make_way_before_a_renewal_period_is_over() {
    let mut stage = Stage::new();
    let mine = Holder { session: SessionId::from_u128(1), identity: Arc::from("me") };
    // Long without any answer.
    stage.pass(LEASE * 2);
    let (id, _) = stage.campaign();
    let (kind, audience) = (AnnouncementKind::Grant, 0);
    stage.input(Input::Heard(Announcement { kind, token: token(10), count: 1, holder: mine, audience }));
    stage.pass(ms(500)).input(Input::Campaigned { id, reply: Err(no_answer()) });
    assert_eq!(stage.state(), State::Unreachable, "it asks again first");
}

#[test]
fn a_lease_that_should_stand_is_told_to_the_store_but_for_what_messages_may_take() {
    let mut stage = Stage::standby(LEASE);
    let until = stage.now + LEASE;
    stage.actions();
    stage.until_due(LEASE);
    let (_, request) = stage.campaign();
    let remaining = request.knowledge.expect("it knows of a term").remaining;
    assert_eq!(remaining, until.since(stage.now) - LEASE / 10);
    assert!(!remaining.is_zero());
}

#[test]
fn the_answers_of_two_requests_are_told_apart() {
    let mut flights = Flights::default();
    let now = Mono::from_nanos(1);
    let [one, other] = [1, 2].map(|attempt| flights.depart(now, Kind::Campaign, Attempt(attempt)));
    assert!(flights.has(Kind::Campaign, Attempt(2)) && !flights.has(Kind::Campaign, Attempt(3)));
    assert!(!flights.has(Kind::Renew, Attempt(2)));
    assert_eq!(flights.arrive(other, Kind::Campaign).map(|flight| flight.attempt), Some(Attempt(2)));
    assert_eq!(flights.arrive(one, Kind::Campaign).map(|flight| flight.attempt), Some(Attempt(1)));
}

#[test]
fn each_renewal_counts_further_though_none_is_answered() {
    let mut stage = Stage::leading(token(7));
    stage.actions();
    let mut counts = Vec::new();
    for _ in 0..3 {
        stage.until_due(PERIOD);
        let (id, request) = stage.renewal();
        counts.push(request.count);
        stage.input(Input::Renewed { id, reply: Err(no_answer()) });
        stage.actions();
    }
    assert_eq!(counts, [1, 2, 3]);
}

#[test]
fn news_of_ones_own_term_are_no_reason_to_renew_at_once() {
    let mut stage = Stage::leading(token(10));
    stage.actions();
    stage.pass(SOON).hear(AnnouncementKind::Heartbeat, token(10), 2);
    assert!(stage.election.poll_timeout().unwrap() > stage.now);
    stage.hear(AnnouncementKind::Heartbeat, token(11), 3);
    assert_eq!(stage.election.poll_timeout(), Some(stage.now));
}

#[test]
fn a_release_is_repeated_after_a_moment_and_once_at_a_time() {
    let mut stage = Stage::leading(token(7));
    stage.actions();
    stage.input(Input::Resign { cooldown: Duration::ZERO });
    stage.election.handle_timeout(stage.now);
    let (id, _) = stage.release();
    stage.pass(SOON);
    assert_eq!(stage.actions(), vec![], "one at a time");
    stage.input(Input::Released { id, reply: Err(no_answer()) });
    assert_eq!(stage.pass(ms(10)).actions(), vec![], "not at once, whatever wakes it");
    assert!(stage.until_due(SOON) >= PAUSE - ms(10));
    stage.release();
    assert_eq!(stage.pass(SOON).actions(), vec![]);
    let due = stage.election.poll_timeout().unwrap();
    assert!(due > stage.now, "while that is out it waits for nothing but the end of its patience");
}

#[test]
fn another_leader_of_the_same_name_or_the_same_leader_again_is_news() {
    let mut stage = Stage::standby(LEASE);
    let follow = |stage: &mut Stage, holder: Holder, value| {
        stage.input(Input::Heard(Announcement {
            kind: AnnouncementKind::Heartbeat,
            token: token(value),
            count: 20 + value,
            holder,
            audience: 2,
        }));
        stage.actions();
        stage.events.iter().filter(|event| matches!(event, Event::Following { .. })).count()
    };
    assert_eq!(follow(&mut stage, rival(), 10), 1, "as the store has said");
    assert_eq!(follow(&mut stage, rival(), 11), 2, "another term");
    let other = Holder { session: SessionId::from_u128(98), ..rival() };
    assert_eq!(follow(&mut stage, other, 11), 3, "another process");
}

#[test]
fn a_session_is_believed_again_when_the_store_names_it_and_others_are_not() {
    let mut knowledge = Knowledge::default();
    let session = |of: usize| SessionId::from_u128(of as u128);
    let now = Mono::from_nanos(1);
    let deny = |knowledge: &mut Knowledge, of| {
        knowledge.hear(session(of), token(10), 1, now);
        knowledge.compare_with_store(None);
    };
    for of in 1..=17 {
        deny(&mut knowledge, of);
    }
    let disbelieved = |knowledge: &Knowledge| (1..=17).filter(|of| knowledge.disbelieves(session(*of))).count();
    assert!(!knowledge.disbelieves(session(1)), "the oldest is forgotten");
    assert_eq!(disbelieved(&knowledge), 16);
    let holder = Holder { session: session(9), identity: Arc::from("other") };
    knowledge.follow(holder, token(10), now);
    assert!(!knowledge.disbelieves(session(9)));
    assert_eq!(disbelieved(&knowledge), 15);
}

#[test]
fn those_behind_in_a_divided_quorum_do_not_come_back_all_at_once() {
    let come_back = |seed| {
        let mut stage = Stage::with(Profile { rules: Rules::QUORUM, seed, ..profile() });
        let (id, _) = stage.campaign();
        stage.pass(ms(10)).answer(id, CampaignReply::Divided { token: token(10), after: Some(LEASE / 3) });
        stage.actions();
        stage.until_due(PERIOD)
    };
    let looks: Vec<Duration> = (0..50).map(come_back).collect();
    let (soonest, latest) = (looks.iter().min().unwrap(), looks.iter().max().unwrap());
    assert!(*soonest < ms(25) && *latest > ms(35), "{soonest:?} to {latest:?}");
}

#[test]
fn roles_that_are_renewed_often_go_out_together_more_often() {
    let timing = Timing::from_lease(ms(1_500)).unwrap();
    let (role_stagger, together) = (ms(300), timing.renew_period() / 100);
    let dues = (0..20).map(|seed| {
        let mut stage = Stage::with(Profile { timing, role_stagger, seed, ..profile() });
        stage.until_due(PERIOD);
        let (id, _) = stage.campaign();
        stage.answer(id, CampaignReply::Granted { token: token(7), count: 1 });
        stage.actions();
        stage.until_due(timing.renew_period());
        let (id, _) = stage.renewal();
        stage.answer_renewal(id, renewed(2));
        stage.election.poll_timeout().unwrap().as_nanos()
    });
    let dues: Vec<u64> = dues.collect();
    let at_multiples_of = |span: Duration| dues.iter().all(|due| u128::from(*due) % span.as_nanos() == 0);
    assert!(at_multiples_of(together) && !at_multiples_of(together * 2), "{dues:?}");
}
