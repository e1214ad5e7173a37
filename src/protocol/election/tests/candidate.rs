//! The side that wants the lease.

use super::*;

#[test]
fn a_fresh_candidate_asks_at_once_and_claims_to_know_nothing() {
    let mut stage = Stage::new();
    let (_, request) = stage.campaign();
    assert_eq!((request.knowledge, request.floor), (None, Token::NONE));
    assert_eq!(stage.pass(LEASE).actions(), vec![], "one campaign at a time");
}

#[test]
fn a_grant_that_comes_after_its_deadline_begins_no_term() {
    let mut stage = Stage::new();
    let (id, first) = stage.campaign();
    stage.pass(TERM).answer(id, CampaignReply::Granted { token: token(7), count: 1 });
    assert!(!stage.leads());
    stage.actions();
    stage.until_due(SOON);
    let (_, second) = stage.campaign();
    assert!(second.candidate.attempt > first.candidate.attempt, "the late grant's attempt is over");
}

#[test]
fn an_unanswered_campaign_is_repeated_under_the_same_attempt() {
    let mut stage = Stage::new();
    let (id, first) = stage.campaign();
    stage.input(Input::Campaigned { id, reply: Err(no_answer()) });
    assert_eq!(stage.state(), State::Unreachable);
    stage.actions();
    stage.until_due(SOON);
    let (_, again) = stage.campaign();
    assert_eq!(again.candidate, first.candidate);
}

#[test]
fn a_loser_comes_back_when_the_lease_ends_and_at_least_every_085_leases() {
    let mut stage = Stage::standby(ms(9_000));
    stage.actions();
    let waited = stage.until_due(ms(9_100));
    assert!(waited >= ms(9_000));
    let mut stage = Stage::standby(LEASE);
    stage.actions();
    let waited = stage.until_due(LEASE.mul_f64(0.86));
    assert!(waited >= LEASE.mul_f64(0.85));
}

#[test]
fn a_heartbeat_keeps_a_candidate_quiet_for_one_lease_on_its_own_clock() {
    let mut stage = Stage::standby(ms(500));
    stage.pass(ms(400)).hear(AnnouncementKind::Heartbeat, token(10), 6);
    let waited = stage.until_due(LEASE + ms(100));
    assert!(waited >= LEASE, "whatever the store said of the TTL");
    let (_, request) = stage.campaign();
    let knowledge = request.knowledge.unwrap();
    assert_eq!((knowledge.version, knowledge.remaining), (version(token(10), 6), Duration::ZERO));
}

#[test]
fn a_heartbeat_of_another_ends_an_attempt_whose_answer_is_out() {
    let mut stage = Stage::new();
    let (id, _) = stage.campaign();
    stage.hear(AnnouncementKind::Heartbeat, token(10), 6);
    stage.answer(id, CampaignReply::Granted { token: token(11), count: 7 });
    assert!(!stage.leads(), "the store has granted a lease while another leads: its clock was stepped");
    assert_eq!(stage.actions(), vec![], "and it is left to its TTL, for a release would invite the next");
}

#[test]
fn a_release_wakes_a_candidate_within_its_spread() {
    let mut stage = Stage::standby(LEASE);
    stage.hear(AnnouncementKind::Heartbeat, token(10), 6);
    stage.pass(ms(100)).hear(AnnouncementKind::Release, token(10), 7);
    stage.until_due(ms(5));
    stage.campaign();
    assert_eq!(stage.election.view(stage.now).holder, None, "who released no longer leads");
}

#[test]
fn who_has_heard_a_release_does_not_say_that_it_watches() {
    let reason = |stage: &Stage| stage.election.view(stage.now).reason.unwrap_or_default().into_owned();
    let mut stage = Stage::standby(LEASE);
    assert_eq!(reason(&stage), "other leads");
    stage.hear(AnnouncementKind::Heartbeat, token(10), 6);
    stage.pass(ms(100)).hear(AnnouncementKind::Release, token(10), 7);
    assert_eq!(reason(&stage), "the last leader gave the lease back; asking the store", "it has just started, and yet");
    stage.until_due(ms(5));
    let (id, _) = stage.campaign();
    stage.answer(id, look_again(token(12), 9));
    let watching = "nobody is known to lead; watching for a lease before the first grant";
    assert_eq!(reason(&stage), watching, "there was a later term, and nobody knows how it ended");
}

#[test]
fn a_candidate_whose_look_is_due_hears_first_that_another_leads() {
    let mut stage = Stage::standby(ms(500));
    stage.actions();
    stage.now = stage.now + SOON;
    assert!(stage.election.poll_timeout().unwrap() <= stage.now, "it has not been woken for it yet");
    stage.hear(AnnouncementKind::Grant, token(11), 6);
    assert_eq!(stage.actions(), vec![]);
    assert!(stage.until_due(LEASE + SOON) >= LEASE);
}

#[test]
fn an_old_release_does_not_wake_anybody() {
    let mut stage = Stage::standby(LEASE);
    stage.hear(AnnouncementKind::Heartbeat, token(10), 6);
    stage.hear(AnnouncementKind::Release, token(9), 4);
    assert!(stage.election.poll_timeout().unwrap().since(stage.now) >= LEASE);
}

#[test]
fn a_release_heard_while_a_campaign_is_out_makes_it_look_again() {
    let mut stage = Stage::new();
    let (id, _) = stage.campaign();
    stage.hear(AnnouncementKind::Release, token(10), 7);
    stage.answer(id, held(token(10), 6, LEASE));
    stage.actions();
    stage.until_due(ms(5));
    stage.campaign();
}

#[test]
fn of_candidates_that_a_quorum_is_divided_among_the_one_ahead_comes_back_before_the_others() {
    // The spread of a few listeners comes on top.
    let slack = ms(2);
    let come_back = |after, rounds: u32| {
        let mut stage = Stage::with(Profile { rules: Rules::QUORUM, ..profile() });
        let mut pause = Duration::ZERO;
        for round in 0..rounds {
            let (id, asked) = stage.campaign();
            stage.pass(ms(10));
            stage.answer(id, CampaignReply::Divided { token: token(10 + u64::from(round)), after });
            pause = stage.until_due(PERIOD);
            if round > 0 {
                assert_eq!(asked.floor, token(9 + u64::from(round)), "what was tried is exceeded");
            }
        }
        pause
    };
    assert!(come_back(None, 1) <= ms(10) + slack, "a round takes 10 ms");
    let behind = come_back(Some(LEASE / 3), 1);
    assert!(behind >= ms(20) && behind <= ms(40) + slack, "{behind:?}: after the other's round");
    assert!(come_back(Some(LEASE / 3), 3) >= ms(80), "which took longer than that, twice");
    assert!(come_back(Some(LEASE / 3), 12) <= PERIOD / 2 + slack, "but not for ever");
    assert!(come_back(None, 12) <= PERIOD / 6 + slack);
    assert!(come_back(Some(ms(0)), 12) <= PERIOD / 20 + slack, "no longer than its grants stand");
}

#[test]
fn a_candidate_carries_the_release_that_it_heard() {
    let mut stage = Stage::new();
    let (id, first) = stage.campaign();
    assert_eq!(first.released, None);
    stage.answer(id, held(token(9), 3, LEASE));
    stage.actions();
    stage.hear(AnnouncementKind::Release, token(9), 4);
    stage.until_due(ms(100));
    let (_, second) = stage.campaign();
    assert_eq!(second.released, Some((rival().session, token(9))));
}

#[test]
fn a_newcomer_watches_for_a_whole_lease_whatever_it_is_told_meanwhile() {
    let mut stage = Stage::new();
    let (id, first) = stage.campaign();
    assert_eq!(first.knowledge, None);
    stage.answer(id, look_again(token(10), 5));
    let told_at = stage.now;
    stage.actions();
    stage.input(Input::Gap);
    stage.until_due(ms(100));
    let (id, early) = stage.campaign();
    assert_eq!(early.knowledge, None, "an early look may only find a released role");
    stage.answer(id, look_again(token(10), 5));
    stage.actions();
    stage.until_due(LEASE + ms(100));
    let (_, late) = stage.campaign();
    assert!(stage.now.since(told_at) >= LEASE, "counted from when it was first told");
    assert_eq!(late.knowledge.map(|known| (known.version.count, known.unchanged_for >= LEASE)), Some((5, true)));
}

#[test]
fn after_a_gap_a_candidate_looks_once_and_listens_again() {
    let mut stage = Stage::standby(LEASE);
    stage.hear(AnnouncementKind::Heartbeat, token(10), 6);
    stage.pass(ms(9_000)).input(Input::Gap);
    stage.until_due(ms(5));
    let (_, request) = stage.campaign();
    assert_eq!(request.knowledge, None);
}

#[test]
fn gaps_do_not_put_off_for_ever_one_who_was_told_that_nobody_renews() {
    let mut stage = Stage::standby(LEASE);
    let mut told = None;
    // The leader is dead, and the subscription breaks again and again within the time of listening.
    while told.is_none() && stage.now < Mono::from_nanos(1_100_000_000_000) {
        stage.actions();
        stage.pass(LEASE / 4).input(Input::Gap);
        stage.until_due(ms(100));
        let (id, request) = stage.campaign();
        told = request.knowledge;
        stage.answer(id, look_again(token(10), 5));
    }
    let told = told.expect("it has seen the count stand still for half a lease");
    assert!(told.version == version(token(10), 5) && told.unchanged_for >= LEASE / 2, "{told:?}");
}

#[test]
fn what_is_known_grows_old_although_it_is_told_again() {
    let mut stage = Stage::standby(LEASE);
    stage.actions();
    stage.until_due(LEASE);
    let (id, _) = stage.campaign();
    stage.answer(id, held(token(10), 5, LEASE * 200));
    stage.actions();
    stage.until_due(LEASE);
    let (_, request) = stage.campaign();
    let known = request.knowledge.unwrap();
    assert!(known.age < LEASE && known.unchanged_for > LEASE, "overdue, whatever the TTL says: {known:?}");
}

#[test]
fn news_keep_nobody_quiet_for_more_than_ten_leases_and_the_store_says_whose_they_are() {
    for named in [false, true] {
        let mut stage = Stage::new();
        let (id, _) = stage.campaign();
        stage.answer(id, look_again(token(10), 5));
        let quiet_since = stage.now;
        let mut count = 100;
        let id = loop {
            stage.pass(PERIOD).hear(AnnouncementKind::Heartbeat, token(20), count);
            count += 1;
            if stage.election.poll_timeout().is_some_and(|due| due <= stage.now + SOON) {
                stage.actions();
                stage.until_due(SOON);
                break stage.campaign().0;
            }
            assert!(stage.now.since(quiet_since) < LEASE * 11, "it never asks");
        };
        assert!(stage.now.since(quiet_since) >= LEASE * 10 - PERIOD, "news postpone");
        assert_eq!(stage.election.view(stage.now).holder.map(|(name, _)| name), Some(rival().identity));
        let reply = if named { held(token(20), count, LEASE) } else { look_again(token(10), 5) };
        stage.answer(id, reply);
        stage.hear(AnnouncementKind::Heartbeat, token(20), count + 1);
        let holder = stage.election.view(stage.now).holder;
        assert_eq!(holder.is_some(), named, "the store's word stands against the news");
    }
}

#[test]
fn an_empty_store_is_a_worry_only_to_who_has_known_a_term() {
    let remaining = LEASE;
    let empty = CampaignReply::Guarded { cause: GuardCause::Empty, remaining, version: version(Token::NONE, 0) };
    for (mut stage, is_first) in [(Stage::new(), true), (Stage::standby(LEASE), false)] {
        stage.until_due(LEASE * 2);
        let (id, _) = stage.campaign();
        stage.answer(id, empty.clone());
        assert!(stage.told(&Event::Guarded { cause: GuardCause::Empty, remaining, is_first }));
        if is_first {
            let reason = stage.election.view(stage.now).reason.expect("it does not lead").into_owned();
            assert_eq!(stage.state(), State::Guarded);
            assert!(reason.starts_with("the store knows of no term of this role"), "{reason}");
        }
    }
}

#[test]
fn a_guarded_role_is_said_to_be_guarded_and_asked_for_when_that_ends() {
    let mut stage = Stage::new();
    let (id, _) = stage.campaign();
    let cause = GuardCause::Generation;
    stage.answer(id, CampaignReply::Guarded { cause, remaining: ms(6_000), version: version(token(10), 5) });
    assert_eq!(stage.state(), State::Guarded);
    assert!(stage.told(&Event::Guarded { cause, remaining: ms(6_000), is_first: false }));
    assert!(stage.until_due(ms(6_100)) >= ms(6_000));
    assert_eq!(stage.campaign().1.floor, token(10));
}

#[test]
fn a_grant_whose_app_fell_ill_meanwhile_is_given_back() {
    let mut stage = Stage::new();
    let (id, _) = stage.campaign();
    stage.input(Input::AppHealth { healthy: false });
    stage.answer(id, CampaignReply::Granted { token: token(7), count: 1 });
    assert!(!stage.leads());
    stage.release();
}

#[test]
fn a_token_that_does_not_rise_above_all_that_was_seen_begins_no_term() {
    let mut stage = Stage::standby(ms(100));
    stage.actions();
    stage.pass(SOON);
    let (id, _) = stage.campaign();
    stage.answer(id, CampaignReply::Granted { token: token(10), count: 6 });
    assert!(!stage.leads());
}

#[test]
fn a_lease_granted_right_after_a_step_of_the_stores_clock_is_not_believed() {
    let mut stage = Stage::standby(ms(100));
    stage.actions();
    stage.pass(SOON);
    let (id, _) = stage.campaign();
    let stepped = StoreTime(1_700_000_000_000_000 + stage.now.as_nanos() / 1_000 + 60_000_000);
    let reply = CampaignReply::Granted { token: token(20), count: 6 };
    stage.input(Input::Campaigned { id, reply: Ok(Stamped { reply, store_time: stepped }) });
    assert!(!stage.leads(), "the lease of another may have been ended by the step");
    assert!(stage.told(&Event::StoreClockStepped { by_ms: 60_000 }));
    assert!(stage.until_due(LEASE + ms(100)) >= LEASE, "one lease later nobody can be leading any more");
    let (id, _) = stage.campaign();
    let stepped = StoreTime(1_700_000_000_000_000 + stage.now.as_nanos() / 1_000 + 60_000_000);
    let reply = CampaignReply::Granted { token: token(30), count: 7 };
    stage.input(Input::Campaigned { id, reply: Ok(Stamped { reply, store_time: stepped }) });
    assert!(stage.leads());
}

#[test]
fn another_process_with_this_name_is_reported_once() {
    let mut stage = Stage::standby(LEASE);
    stage.actions();
    let twin = Holder { session: SessionId::from_u128(5), identity: Arc::from("me") };
    for count in 6..9 {
        let kind = AnnouncementKind::Heartbeat;
        stage.input(Input::Heard(Announcement { kind, token: token(10), count, holder: twin.clone(), audience: 2 }));
    }
    stage.actions();
    let clash = Event::IdentityClash { session: twin.session };
    assert_eq!(stage.events.iter().filter(|event| **event == clash).count(), 1);
}

#[test]
fn losing_a_race_is_told_as_contention() {
    let mut stage = Stage::standby(ms(100));
    stage.actions();
    stage.pass(SOON);
    let (id, _) = stage.campaign();
    stage.answer(id, held(token(11), 6, LEASE));
    assert!(stage.told(&Event::Contended { winner: Arc::from("other"), token: token(11) }));
    assert!(stage.events.contains(&Event::Campaigned { outcome: CampaignOutcome::Held }));
}

#[test]
fn a_name_is_not_told_past_what_is_known_of_it() {
    let stage = Stage::standby(ms(2_000));
    let known = |at: Mono| stage.election.view(at).holder.map(|(name, _)| name);
    assert_eq!(known(stage.now + ms(1_999)), Some(Arc::from("other")));
    assert_eq!(known(stage.now + ms(2_000)), None);
}

/// When so many candidates look that have heard a release, each since then, the soonest first. All know how many
/// listen.
fn looks_after_a_release(rules: Rules, listeners: u32, candidates: u64) -> Vec<Duration> {
    let look = |seed| {
        let mut stage = Stage::with(Profile { rules, seed, ..profile() });
        let (id, _) = stage.campaign();
        stage.answer(id, held(token(10), 5, LEASE));
        for (kind, count) in [(AnnouncementKind::Heartbeat, 6), (AnnouncementKind::Release, 7)] {
            let news = Announcement { kind, token: token(10), count, holder: rival(), audience: listeners };
            stage.input(Input::Heard(news));
        }
        stage.actions();
        stage.until_due(SOON)
    };
    let mut looks: Vec<Duration> = (0..candidates).map(look).collect();
    looks.sort();
    looks
}

#[test]
fn of_a_few_that_hear_a_release_nobody_waits() {
    for listeners in [0, 1, 2, 3, 6] {
        let looks = looks_after_a_release(Rules::REDIS, listeners, u64::from(listeners.max(1)));
        assert!(looks.iter().all(Duration::is_zero), "of {listeners}: {looks:?}");
    }
}

/// The first of so many looks soon, and few within the time in which all hear of its grant.
fn few_look_soon(looks: &[Duration], case: &str) {
    let first = looks[0];
    assert!(first <= ms(5), "{case}: the first looks after {first:?}");
    let soon = looks.iter().filter(|look| **look <= first + ms(5)).count();
    assert!(soon <= 20, "{case}: {soon} within five milliseconds of the first");
    let widest = Duration::from_micros(600) * u32::try_from(looks.len()).unwrap();
    assert!(looks.iter().all(|look| *look <= widest), "{case}: the last after {:?}", looks.last());
}

#[test]
fn of_many_that_hear_a_release_the_first_looks_as_soon_as_of_a_few_and_few_at_a_time() {
    for listeners in [10, 30, 300, 1_000] {
        let looks = looks_after_a_release(Rules::REDIS, listeners, u64::from(listeners));
        few_look_soon(&looks, &format!("{listeners} listen"));
    }
}

#[test]
fn when_a_lease_ends_few_look_at_a_time_too() {
    let look = |seed| {
        let mut stage = Stage::with(Profile { seed, ..profile() });
        let (id, _) = stage.campaign();
        stage.answer(id, held(token(10), 5, LEASE));
        let (kind, count) = (AnnouncementKind::Heartbeat, 6);
        stage.input(Input::Heard(Announcement { kind, token: token(10), count, holder: rival(), audience: 100 }));
        stage.actions();
        stage.until_due(LEASE + SOON).checked_sub(LEASE).expect("not before the lease ends")
    };
    let mut looks: Vec<Duration> = (0..100).map(look).collect();
    looks.sort();
    few_look_soon(&looks, "a lease ends");
}

#[test]
fn those_who_would_divide_a_quorum_among_themselves_do_not_look_at_once() {
    let looks = looks_after_a_release(Rules::QUORUM, 3, 1_000);
    let (first, last) = (looks[100], looks[900]);
    assert!(first >= Duration::from_micros(50) && last <= ms(2), "they spread as ever: {first:?}..{last:?}");
}

#[test]
fn however_many_are_said_to_listen_nobody_waits_for_long() {
    let looks = looks_after_a_release(Rules::REDIS, u32::MAX, 100);
    assert!(looks.iter().all(|look| *look <= ms(600)), "{looks:?}");
}

#[test]
fn who_stays_out_for_a_while_does_not_look_at_a_release() {
    let mut stage = Stage::leading(token(7));
    let cooldown = ms(3_000);
    stage.actions();
    stage.input(Input::Resign { cooldown });
    stage.election.handle_timeout(stage.now);
    let (id, _) = stage.release();
    stage.answer_release(id);
    stage.actions();
    stage.hear(AnnouncementKind::Grant, token(10), 3).hear(AnnouncementKind::Release, token(10), 4);
    stage.actions();
    assert!(stage.until_due(cooldown + ms(10)) >= cooldown);
}

#[test]
fn who_does_not_know_how_many_listen_makes_nobody_forget_it() {
    let mut stage = Stage::standby(LEASE);
    let mut hear = |kind, value, audience| {
        let news = Announcement { kind, token: token(value), count: value, holder: rival(), audience };
        stage.input(Input::Heard(news));
        stage.election.knowledge.audience
    };
    assert_eq!(hear(AnnouncementKind::Heartbeat, 10, 1_000), 1_000);
    for value in 11..20 {
        assert_eq!(hear(AnnouncementKind::Grant, value, 0), 1_000);
    }
    assert_eq!(hear(AnnouncementKind::Heartbeat, 20, 0), 1_000, "nor does a leader that has not been told yet");
    assert_eq!(hear(AnnouncementKind::Heartbeat, 21, 3), 500, "many may have gone, or this one may be wrong");
}

#[test]
fn a_replica_that_leaves_gives_back_what_its_unanswered_campaign_may_have_been_granted() {
    let mut stage = Stage::new();
    let (id, request) = stage.campaign();
    stage.input(Input::Campaigned { id, reply: Err(no_answer()) });
    assert_eq!(stage.actions(), vec![]);
    stage.input(Input::Shutdown);
    let (id, release) = stage.release();
    assert_eq!((release.candidate, release.token), (request.candidate, Token::NONE));
    stage.answer_release(id);
    assert!(stage.election.is_ended());

    let mut answered = Stage::standby(LEASE);
    answered.input(Input::Shutdown);
    assert_eq!((answered.actions(), answered.election.is_ended()), (vec![], true), "there is nothing to give back");
}

#[test]
fn the_roles_of_a_session_never_make_the_same_attempt_not_even_one_after_the_other() {
    let attempts = Attempts::default();
    let campaign = |attempts: &Attempts| {
        let mut stage = Stage::with(Profile { attempts: attempts.clone(), ..profile() });
        stage.campaign().1.candidate.attempt
    };
    let made: Vec<Attempt> = (0..3).map(|_| campaign(&attempts)).collect();
    assert!(made.windows(2).all(|two| two[0] < two[1]), "{made:?}");
}

#[test]
fn one_that_is_granted_the_role_and_never_answered_makes_way() {
    let mut stage = Stage::new();
    let mine = Holder { session: SessionId::from_u128(1), identity: Arc::from("me") };
    let grant = |count| Announcement {
        kind: AnnouncementKind::Grant,
        token: token(10),
        count,
        holder: mine.clone(),
        audience: 0,
    };
    let unanswered = |stage: &mut Stage, heard: bool| {
        stage.until_due(SOON);
        let Some(Action::Campaign { id, request }) = stage.actions().pop() else { panic!("it asks again") };
        if heard {
            stage.input(Input::Heard(grant(request.candidate.attempt.0)));
        }
        stage.pass(ms(500)).input(Input::Campaigned { id, reply: Err(NoReply::new("no")) });
    };
    // A store that is away gives nothing: it asks on and on, for a grant may be there that it was not told of.
    let begun = stage.now;
    while stage.now.since(begun) < LEASE * 3 {
        unanswered(&mut stage, false);
    }
    // But not where it hears that it has the role, and no answer comes.
    let granted = stage.now;
    while stage.state() != State::Draining && stage.now.since(granted) < LEASE {
        unanswered(&mut stage, true);
    }
    let (id, _) = stage.release();
    stage.answer_release(id);
    let out = stage.until_due(LEASE + SOON);
    assert!(out > LEASE - SOON, "it stays out for {out:?}");
}
