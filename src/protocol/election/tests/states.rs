//! What it says of itself, and what it makes of what comes at another time than it was waited for.

use super::*;

fn reason(stage: &Stage) -> String {
    stage.election.view(stage.now).reason.unwrap_or_default().into_owned()
}

/// A candidate whose first attempt a heartbeat has ended, with the requests of that and of the next.
fn with_two_attempts() -> (Stage, RequestId, RequestId) {
    let mut stage = Stage::new();
    let (first, _) = stage.campaign();
    stage.hear(AnnouncementKind::Heartbeat, token(10), 6).hear(AnnouncementKind::Release, token(10), 7);
    stage.actions();
    stage.until_due(ms(5));
    let (second, _) = stage.campaign();
    (stage, first, second)
}

#[test]
fn a_grant_of_an_attempt_that_news_have_ended_begins_no_term_though_the_next_is_out() {
    let (mut stage, first, second) = with_two_attempts();
    stage.answer(first, CampaignReply::Granted { token: token(11), count: 8 });
    assert!(!stage.leads());
    stage.answer(second, CampaignReply::Granted { token: token(12), count: 9 });
    assert!(stage.leads());
}

#[test]
fn what_was_out_when_a_lease_was_given_back_is_not_waited_for() {
    let (mut stage, first, _) = with_two_attempts();
    stage.input(Input::AppHealth { healthy: false });
    stage.answer(first, CampaignReply::Granted { token: token(11), count: 8 });
    let (id, _) = stage.release();
    stage.answer_release(id).actions();
    stage.input(Input::AppHealth { healthy: true });
    stage.until_due(SOON);
    stage.campaign();
}

#[test]
fn who_made_way_asks_again_as_one_that_was_granted_nothing() {
    let mut stage = Stage::new();
    let mine = Holder { session: SessionId::from_u128(1), identity: Arc::from("me") };
    let unanswered = |stage: &mut Stage, is_granted: bool| {
        stage.until_due(LEASE + SOON);
        let Some(Action::Campaign { id, .. }) = stage.actions().pop() else { panic!("it asks") };
        if is_granted {
            let (kind, holder) = (AnnouncementKind::Grant, mine.clone());
            stage.input(Input::Heard(Announcement { kind, token: token(10), count: 1, holder, audience: 0 }));
        }
        stage.pass(ms(500)).input(Input::Campaigned { id, reply: Err(no_answer()) });
    };
    while stage.state() != State::Draining {
        unanswered(&mut stage, true);
    }
    let (id, _) = stage.release();
    stage.input(Input::Released { id, reply: Err(no_answer()) });
    while stage.state() == State::Draining {
        stage.until_due(PERIOD);
    }
    stage.actions();
    unanswered(&mut stage, false);
    assert_eq!(stage.actions(), vec![], "nothing was granted this time");
    assert_eq!(stage.state(), State::Unreachable);
}

#[test]
fn a_leader_that_hears_news_behind_its_deadline_has_lost_its_term_first() {
    let mut stage = Stage::leading(token(7));
    stage.actions();
    stage.now = stage.now + TERM;
    stage.hear(AnnouncementKind::Heartbeat, token(6), 1);
    let lost = Event::Lost { token: token(7), reason: LossReason::Expired, held_for: TERM };
    assert!(stage.told(&lost), "{:?}", stage.events);
}

#[test]
fn whether_the_store_has_answered_and_whether_it_drains_is_said_as_it_is() {
    let mut stage = Stage::new();
    assert!(!stage.election.has_answer() && !stage.election.is_draining());
    let (id, _) = stage.campaign();
    assert!(!stage.election.has_answer());
    stage.answer(id, CampaignReply::Granted { token: token(7), count: 1 });
    assert!(stage.election.has_answer() && !stage.election.is_draining());
    stage.actions();
    stage.election.leadership().promise(stage.now);
    stage.input(Input::Resign { cooldown: Duration::ZERO });
    assert!(stage.election.is_draining());
}

#[test]
fn who_stays_out_says_so_until_that_is_over() {
    let mut stage = Stage::new();
    assert!(!stage.election.view(stage.now).stays_out);
    let (id, _) = stage.campaign();
    stage.answer(id, CampaignReply::Granted { token: token(7), count: 1 });
    assert!(!stage.election.view(stage.now).stays_out);
    stage.actions();
    stage.input(Input::Resign { cooldown: ms(3_000) });
    stage.election.handle_timeout(stage.now);
    assert!(stage.election.view(stage.now).stays_out);
    let (id, _) = stage.release();
    let back = stage.now + ms(3_000);
    stage.answer_release(id);
    let stays_out = |at| stage.election.view(at).stays_out;
    assert_eq!([stays_out(stage.now), stays_out(back - Duration::from_nanos(1)), stays_out(back)], [true, true, false]);
}

#[test]
fn who_has_not_asked_yet_does_not_say_that_it_watches() {
    let mut stage = Stage::new();
    assert_eq!(reason(&stage), "nobody is known to lead; asking the store");
    let (id, _) = stage.campaign();
    stage.answer(id, look_again(token(10), 5));
    assert_eq!(reason(&stage), "nobody is known to lead; watching for a lease before the first grant");
    stage.pass(LEASE);
    assert_eq!(reason(&stage), "nobody is known to lead; asking the store", "it has listened");
}

/// Whether a grant counts before which the store's clock moved so against this one.
fn leads_after_a_step(within: Duration, step_us: i64) -> bool {
    let mut stage = Stage::standby(ms(100));
    stage.actions();
    stage.now = stage.now + within;
    let (id, _) = stage.campaign();
    let clock = 1_700_000_000_000_000 + stage.now.as_nanos() / 1_000;
    let reply = CampaignReply::Granted { token: token(20), count: 6 };
    let store_time = StoreTime(clock.saturating_add_signed(step_us));
    stage.input(Input::Campaigned { id, reply: Ok(Stamped { reply, store_time }) });
    stage.leads()
}

#[test]
fn a_step_of_the_stores_clock_back_or_of_long_ago_ends_no_lease_early() {
    assert!(!leads_after_a_step(SOON, 60_000_000));
    assert!(leads_after_a_step(SOON, -60_000_000), "back: leases last longer");
    assert!(leads_after_a_step(LEASE * 10, 60_000_000), "whoever had a lease then has stepped down since");
}

#[test]
fn a_candidate_whose_app_is_well_again_looks_at_once() {
    let mut stage = Stage::standby(LEASE);
    stage.input(Input::AppHealth { healthy: false });
    assert_eq!(stage.election.poll_timeout(), None);
    stage.pass(SOON).input(Input::AppHealth { healthy: true });
    stage.actions();
    assert!(stage.until_due(LEASE) < ms(5));
}

#[test]
fn a_release_that_is_on_its_way_is_waited_for_no_longer_than_a_fifth_of_a_period_when_all_shall_end() {
    let timing = Timing::from_lease(ms(1_500)).unwrap();
    let mut stage = Stage::with(Profile { timing, ..profile() });
    let (id, _) = stage.campaign();
    stage.answer(id, CampaignReply::Granted { token: token(7), count: 1 });
    stage.actions();
    stage.input(Input::Resign { cooldown: Duration::ZERO });
    stage.election.handle_timeout(stage.now);
    stage.release();
    stage.input(Input::Abandon);
    assert!(!stage.election.is_ended(), "its answer may come");
    assert_eq!(stage.until_due(PERIOD), ms(100));
    assert!(stage.election.is_ended());
}

#[test]
fn who_is_told_twice_to_look_again_counts_from_the_first_time() {
    let mut stage = Stage::new();
    let (id, _) = stage.campaign();
    stage.answer(id, look_again(token(10), 5));
    let told_at = stage.now;
    stage.actions();
    stage.pass(ms(3_000)).input(Input::Gap);
    stage.until_due(ms(100));
    let (id, _) = stage.campaign();
    stage.answer(id, look_again(token(10), 5));
    stage.actions();
    stage.until_due(LEASE);
    let waited = stage.now.since(told_at);
    assert!(waited >= LEASE && waited <= LEASE + ms(5), "{waited:?}");
}
