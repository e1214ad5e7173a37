//! The side that has the lease.

use super::*;

#[test]
fn a_term_is_counted_from_when_its_request_was_sent() {
    let mut stage = Stage::new();
    let (id, _) = stage.campaign();
    stage.pass(ms(900)).answer(id, CampaignReply::Granted { token: token(7), count: 1 });
    let (_, remaining) = stage.election.leadership().remaining(stage.now).unwrap();
    assert_eq!(remaining, TERM - ms(900));
}

#[test]
fn a_leader_renews_every_period_from_sending_and_moves_its_deadline() {
    let mut stage = Stage::leading(token(7));
    stage.actions();
    assert_eq!(stage.until_due(PERIOD), PERIOD);
    let (id, request) = stage.renewal();
    assert_eq!((request.token, request.count), (token(7), 1));
    stage.pass(ms(700)).answer_renewal(id, renewed(2));
    let (_, remaining) = stage.election.leadership().remaining(stage.now).unwrap();
    assert_eq!(remaining, TERM - ms(700));
    stage.actions();
    assert_eq!(stage.until_due(PERIOD), PERIOD - ms(700));
}

#[test]
fn a_failed_renewal_is_repeated_faster_until_the_deadline_and_never_after() {
    let mut stage = Stage::leading(token(7));
    stage.actions();
    stage.until_due(PERIOD);
    let mut failures = 0;
    while stage.leads() {
        if let Some(Action::Renew { id, .. }) = stage.actions().pop() {
            failures += 1;
            stage.input(Input::Renewed { id, reply: Err(no_answer()) });
        }
        assert!(stage.until_due(SOON) > Duration::ZERO);
    }
    assert!(failures > 5);
    let held_for = TERM;
    stage.actions();
    assert!(stage.events.contains(&Event::Lost { token: token(7), reason: LossReason::Expired, held_for }));
    assert_eq!(stage.state(), State::Unreachable);
}

#[test]
fn a_renewal_that_succeeds_after_the_deadline_revives_nothing() {
    let mut stage = Stage::leading(token(7));
    stage.actions();
    stage.until_due(PERIOD);
    let (id, _) = stage.renewal();
    stage.pass(TERM - PERIOD);
    stage.answer_renewal(id, renewed(2));
    assert!(!stage.leads());
    assert_eq!(stage.election.leadership().promise(stage.now), None);
}

#[test]
fn a_refused_renewal_ends_the_term_at_once() {
    let mut stage = Stage::leading(token(7));
    stage.actions();
    stage.until_due(PERIOD);
    let (id, _) = stage.renewal();
    stage.answer_renewal(id, RenewReply::Lost { token: token(12), holder: Some(rival()) });
    assert!(!stage.leads());
    assert!(stage.told(&Event::Lost { token: token(7), reason: LossReason::Superseded, held_for: PERIOD }));
    assert_eq!(stage.election.view(stage.now).holder.map(|(name, _)| name), Some(Arc::from("other")));
    stage.until_due(SOON);
    assert_eq!(stage.campaign().1.floor, token(12));
}

#[test]
fn a_leader_that_hears_of_a_later_term_asks_the_store_at_once() {
    let mut stage = Stage::leading(token(7));
    stage.actions();
    stage.hear(AnnouncementKind::Grant, token(12), 9);
    stage.until_due(Duration::ZERO);
    stage.renewal();
    assert!(stage.leads(), "the store decides, not the rumour");
}

#[test]
fn without_a_promise_outstanding_a_resignation_releases_at_once() {
    let mut stage = Stage::leading(token(7));
    stage.actions();
    stage.input(Input::Resign { cooldown: ms(30_000) });
    let (id, request) = stage.release();
    assert_eq!(request.token, token(7));
    assert!(!stage.leads());
    stage.pass(ms(1)).answer_release(id);
    let held_for = ms(1);
    assert!(stage.told(&Event::Released { token: token(7), reason: ReleaseReason::Resigned, held_for }));
    assert!(stage.until_due(ms(30_100)) >= ms(29_998), "it stays out for the cooldown");
}

#[test]
fn a_drain_keeps_and_renews_the_lease_until_the_last_promise_has_run_out() {
    let mut stage = Stage::leading(token(7));
    stage.actions();
    stage.pass(ms(4_000));
    assert_eq!(stage.election.leadership().promise(stage.now).map(|p| p.valid_for), Some(VALIDITY));
    stage.input(Input::Resign { cooldown: SOON });
    assert_eq!((stage.leads(), stage.state()), (false, State::Draining));
    assert_eq!(stage.actions(), vec![], "not released yet");
    assert_eq!(stage.until_due(PERIOD), ms(1_000));
    let (id, _) = stage.renewal();
    stage.answer_renewal(id, renewed(2));
    assert_eq!(stage.election.leadership().promise(stage.now), None, "a renewal does not reopen a draining term");
    stage.actions();
    assert_eq!(stage.until_due(VALIDITY), ms(4_000));
    stage.release();
}

#[test]
fn a_term_that_is_lost_while_it_drains_is_told_of() {
    let mut stage = Stage::leading(token(7));
    stage.pass(PERIOD);
    let (id, _) = stage.renewal();
    stage.election.leadership().promise(stage.now).expect("it leads");
    stage.input(Input::Shutdown);
    stage.answer_renewal(id, RenewReply::Lost { token: token(9), holder: None });
    let lost = Event::Lost { token: token(7), reason: LossReason::Superseded, held_for: PERIOD };
    assert!(stage.told(&lost), "{:?}", stage.events);
}

#[test]
fn what_may_not_have_been_granted_holds_up_no_end_for_long() {
    let mut stage = Stage::new();
    let (id, _) = stage.campaign();
    stage.input(Input::Campaigned { id, reply: Err(no_answer()) });
    stage.input(Input::Shutdown);
    let begun = stage.now;
    while !stage.election.is_ended() {
        stage.actions();
        stage.until_due(PERIOD);
    }
    assert_eq!(stage.now.since(begun), Duration::from_secs(2));
}

#[test]
fn the_apps_word_ends_a_drain_early() {
    let mut stage = Stage::leading(token(7));
    stage.actions();
    stage.election.leadership().promise(stage.now);
    stage.input(Input::Shutdown);
    assert!(stage.election.is_draining());
    assert_eq!(stage.actions(), vec![]);
    stage.input(Input::Drained);
    let (id, _) = stage.release();
    stage.answer_release(id);
    assert!(stage.election.is_ended());
}

#[test]
fn the_apps_word_means_nothing_while_it_leads() {
    let mut stage = Stage::leading(token(7));
    stage.actions();
    stage.input(Input::Drained);
    assert!(stage.leads());
    assert_eq!(stage.actions(), vec![]);
}

#[test]
fn a_release_without_an_answer_is_repeated_and_then_left_to_the_ttl() {
    let mut stage = Stage::leading(token(7));
    stage.actions();
    stage.input(Input::Shutdown);
    let begun = stage.now;
    let mut sent = 0;
    while !stage.election.is_ended() {
        if let Some(Action::Release { id, .. }) = stage.actions().pop() {
            sent += 1;
            stage.input(Input::Released { id, reply: Err(no_answer()) });
        }
        if stage.election.poll_timeout().is_some() {
            stage.until_due(PERIOD);
        }
    }
    assert!(sent > 1);
    assert!(stage.now.since(begun) <= PERIOD);
}

#[test]
fn a_candidate_that_leaves_gives_back_what_was_granted_meanwhile() {
    let mut stage = Stage::new();
    let (id, request) = stage.campaign();
    stage.input(Input::Shutdown);
    assert!(!stage.election.is_ended(), "the answer is still out");
    stage.answer(id, CampaignReply::Granted { token: token(7), count: 1 });
    assert!(!stage.leads());
    let (id, release) = stage.release();
    assert_eq!((release.candidate, release.token), (request.candidate, token(7)));
    stage.answer_release(id);
    assert!(stage.election.is_ended());
}

#[test]
fn a_release_that_is_denied_is_not_asked_for_again_by_who_leaves() {
    let mut stage = Stage::leading(token(10));
    stage.input(Input::Shutdown);
    let (id, _) = stage.release();
    stage.input(Input::Released { id, reply: Err(denied()) });
    assert!(stage.told(&Event::Abandoned { token: token(10), remaining: Duration::ZERO }));
    assert!(stage.election.is_ended(), "whoever leaves has nothing left to wait for");
}

#[test]
fn a_release_that_is_denied_is_tried_again_by_who_stays() {
    let mut stage = Stage::leading(token(10));
    stage.input(Input::Resign { cooldown: PERIOD });
    let (id, _) = stage.release();
    stage.input(Input::Released { id, reply: Err(denied()) });
    stage.pass(SOON);
    let (id, _) = stage.release();
    stage.answer_release(id);
    assert!(stage.told(&Event::Released { token: token(10), reason: ReleaseReason::Resigned, held_for: SOON }));
}

#[test]
fn a_candidate_that_leaves_without_an_answer_releases_what_it_may_have() {
    let mut stage = Stage::new();
    let (id, request) = stage.campaign();
    stage.input(Input::Shutdown).input(Input::Campaigned { id, reply: Err(no_answer()) });
    let (_, release) = stage.release();
    assert_eq!((release.candidate, release.token), (request.candidate, Token::NONE));
}

#[test]
fn an_idle_candidate_ends_at_once() {
    let mut stage = Stage::standby(LEASE);
    stage.input(Input::Shutdown);
    assert!(stage.election.is_ended());
    assert_eq!(stage.election.poll_timeout(), None);
}

#[test]
fn a_second_signal_leaves_a_promised_lease_to_its_ttl() {
    let mut stage = Stage::leading(token(7));
    stage.actions();
    stage.election.leadership().promise(stage.now);
    stage.input(Input::Shutdown).input(Input::Abandon);
    assert!(stage.election.is_ended());
    assert!(stage.told(&Event::Abandoned { token: token(7), remaining: VALIDITY }));
}

#[test]
fn a_second_signal_releases_where_nothing_is_promised() {
    let mut stage = Stage::leading(token(7));
    stage.actions();
    stage.input(Input::Abandon);
    let (id, _) = stage.release();
    stage.answer_release(id);
    assert!(stage.election.is_ended());
}

#[test]
fn an_unwell_app_loses_the_role_without_another_renewal() {
    let mut stage = Stage::leading(token(7));
    stage.actions();
    stage.pass(ms(3_000));
    stage.election.leadership().promise(stage.now);
    stage.input(Input::AppHealth { healthy: false });
    assert_eq!((stage.leads(), stage.state()), (false, State::Unhealthy));
    let held_for = ms(3_000);
    assert!(stage.told(&Event::Lost { token: token(7), reason: LossReason::Unhealthy, held_for }));
    assert_eq!(stage.until_due(VALIDITY), VALIDITY, "past the renewal that was due");
    let (id, _) = stage.release();
    stage.answer_release(id).actions();
    assert_eq!((stage.state(), stage.election.poll_timeout()), (State::Unhealthy, None));
    stage.input(Input::AppHealth { healthy: true });
    stage.until_due(ms(5));
    stage.campaign();
}

#[test]
fn an_app_with_a_check_is_unwell_until_the_first_one_succeeds() {
    let mut stage = Stage::with(Profile { app_checked: true, ..profile() });
    assert_eq!((stage.pass(LEASE).actions(), stage.state()), (vec![], State::Unhealthy));
    stage.input(Input::AppHealth { healthy: true });
    stage.until_due(ms(5));
    stage.campaign();
}

#[test]
fn spurious_calls_and_strange_answers_change_nothing() {
    let mut stage = Stage::leading(token(7));
    stage.actions();
    let before = stage.election.view(stage.now);
    for _ in 0..3 {
        stage.pass(Duration::ZERO);
    }
    stage.answer(RequestId(1), CampaignReply::Granted { token: token(9), count: 3 });
    stage.answer(RequestId(77), CampaignReply::Stale { token: token(9), count: 3 });
    stage.answer_renewal(RequestId(1), RenewReply::Lost { token: token(9), holder: None });
    stage.answer_release(RequestId(1));
    assert_eq!(stage.actions(), vec![]);
    assert_eq!(stage.election.view(stage.now), before);
    assert_eq!(stage.election.leadership().remaining(stage.now).unwrap().0, token(7));
}

#[test]
fn the_apps_word_says_nothing_of_what_the_replica_itself_still_does() {
    for app_first in [true, false] {
        let mut stage = Stage::leading(token(7));
        stage.actions();
        stage.election.leadership().promise(stage.now);
        stage.election.leadership().begin_work(Duration::ZERO);
        stage.election.leadership().promise_work(stage.now);
        stage.input(Input::Resign { cooldown: SOON });
        for app in [app_first, !app_first] {
            assert_eq!(stage.actions(), vec![], "not released yet");
            assert!(stage.election.is_draining());
            if app {
                stage.input(Input::Drained);
            } else {
                assert!(stage.election.leadership().end_work());
                stage.input(Input::WorkEnded);
            }
        }
        stage.release();
    }
}

#[test]
fn what_the_replica_itself_does_ends_a_drain_with_its_promise_at_the_latest() {
    let mut stage = Stage::leading(token(7));
    stage.actions();
    stage.election.leadership().begin_work(Duration::ZERO);
    stage.election.leadership().promise_work(stage.now);
    stage.input(Input::Resign { cooldown: SOON }).input(Input::Drained);
    assert_eq!(stage.until_due(VALIDITY), VALIDITY);
    stage.release();
}

/// It is renewed meanwhile, so that no other leads before the work has ended.
#[test]
fn a_drain_waits_for_work_that_lingers_for_leases_and_no_longer() {
    let mut stage = Stage::leading(token(7));
    stage.actions();
    let linger = 3 * LEASE;
    stage.election.leadership().begin_work(linger);
    stage.input(Input::Resign { cooldown: SOON });
    let begun = stage.now;
    let mut renewals = 1;
    loop {
        match stage.actions().pop() {
            Some(Action::Renew { id, .. }) => {
                renewals += 1;
                stage.answer_renewal(id, renewed(renewals));
            }
            Some(Action::Release { .. }) => break,
            _ => assert!(stage.until_due(PERIOD) <= PERIOD),
        }
    }
    assert_eq!((stage.now.since(begun), renewals), (linger, 9));
}

#[test]
fn work_that_lingers_has_no_more_than_the_lease_when_that_cannot_be_renewed() {
    let mut stage = Stage::leading(token(7));
    stage.actions();
    stage.election.leadership().begin_work(3 * LEASE);
    stage.input(Input::Resign { cooldown: SOON });
    let begun = stage.now;
    loop {
        match stage.actions().pop() {
            Some(Action::Renew { id, .. }) => {
                stage.input(Input::Renewed { id, reply: Err(no_answer()) });
            }
            Some(Action::Release { .. }) => break,
            _ => drop(stage.until_due(PERIOD)),
        }
    }
    assert_eq!(stage.now.since(begun), TERM);
}

#[test]
fn an_app_that_has_left_is_followed_at_once_where_nobody_else_was_told_anything() {
    let mut stage = Stage::leading(token(7));
    stage.actions();
    let hold = |stage: &Stage| stage.election.leadership().open_hold(stage.now, AppHoldScope::Process).unwrap().0;
    let [first, second] = [hold(&stage), hold(&stage)];
    assert!(!stage.election.leadership().close_hold(first, AppHoldEnd::Closed));
    stage.input(Input::AppLeft { cooldown: PERIOD });
    assert!(stage.leads(), "another is there");
    assert!(stage.election.leadership().close_hold(second, AppHoldEnd::Closed));
    stage.input(Input::AppLeft { cooldown: PERIOD });
    let (id, _) = stage.release();
    stage.answer_release(id);
    assert!(stage.told(&Event::Released { token: token(7), reason: ReleaseReason::AppLeft, held_for: Duration::ZERO }));
    assert_eq!(stage.state(), State::Standby);
    assert!(stage.until_due(LEASE) >= PERIOD, "it stays out for the cooldown");
    // Whose end comes late finds a candidate.
    stage.input(Input::AppLeft { cooldown: LEASE });
    stage.campaign();
}

#[test]
fn an_app_that_has_left_is_waited_for_where_others_may_act_and_not_longer_in_a_drain_that_goes_on() {
    let none = Duration::ZERO;
    for (scope, end, waits) in [
        (AppHoldScope::Pod, AppHoldEnd::Closed, VALIDITY),
        (AppHoldScope::Process, AppHoldEnd::Closed, none),
        (AppHoldScope::Pod, AppHoldEnd::Stopped, none),
        (AppHoldScope::Process, AppHoldEnd::Stopped, none),
        (AppHoldScope::Pod, AppHoldEnd::Broken, VALIDITY),
        (AppHoldScope::Process, AppHoldEnd::Broken, VALIDITY),
    ] {
        for resigns in [false, true] {
            let mut stage = Stage::leading(token(7));
            stage.actions();
            let (hold, _) = stage.election.leadership().open_hold(stage.now, scope).unwrap();
            if resigns {
                stage.input(Input::Resign { cooldown: PERIOD });
                assert!(stage.election.is_draining());
            }
            assert!(stage.election.leadership().close_hold(hold, end));
            stage.input(Input::AppLeft { cooldown: PERIOD });
            assert_eq!(stage.election.is_draining(), !waits.is_zero(), "{scope:?} {end:?} {resigns}");
            if !waits.is_zero() {
                assert_eq!(stage.until_due(LEASE), waits);
            }
            stage.release();
        }
    }
}
