//! One state, one input, one expectation: the election without a store, a clock or a network.

use super::super::event::{CampaignOutcome, LossReason};
use super::super::names::StoreTime;
use super::super::wire::{AnnouncementKind, Holder};
use super::*;

const LEASE: Duration = Duration::from_secs(15);
const PERIOD: Duration = Duration::from_secs(5);
const TERM: Duration = Duration::from_secs(14);
const VALIDITY: Duration = Duration::from_secs(5);
/// More than any spread or retry delay.
const SOON: Duration = Duration::from_secs(1);

/// An election with its clock, and the requests that are out.
struct Stage {
    election: Election,
    now: Mono,
    events: Vec<Event>,
}

fn token(value: u64) -> Token {
    Token::new(value).unwrap()
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn rival() -> Holder {
    Holder { session: SessionId::from_u128(99), identity: Arc::from("other") }
}

fn profile() -> Profile {
    Profile {
        session: SessionId::from_u128(1),
        identity: Arc::from("me"),
        timing: Timing::from_lease(LEASE).unwrap(),
        guard: true,
        app_checked: false,
        rules: Rules::ALL,
        seed: 7,
    }
}

impl Stage {
    fn new() -> Self {
        Self::with(profile())
    }

    fn with(profile: Profile) -> Self {
        let now = Mono::from_nanos(1_000_000_000_000);
        Self { election: Election::new(profile, now), now, events: Vec::new() }
    }

    /// A leader whose lease was asked for and granted just now.
    fn leading(token: Token) -> Self {
        let mut stage = Self::new();
        let (id, _) = stage.campaign();
        stage.answer(id, CampaignReply::Granted { token, count: 1 });
        assert_eq!(stage.state(), State::Leading);
        stage
    }

    /// A standby that knows that another leads.
    fn standby(remaining: Duration) -> Self {
        let mut stage = Self::new();
        let (id, _) = stage.campaign();
        stage.answer(id, CampaignReply::Held { holder: rival(), token: token(10), remaining, count: 5 });
        assert_eq!(stage.state(), State::Standby);
        stage
    }

    /// Lets time pass, in one go, and does what is due.
    fn pass(&mut self, span: Duration) -> &mut Self {
        self.now = self.now + span;
        self.election.handle_timeout(self.now);
        self
    }

    /// Lets time pass until something is due, which must be within `at_most`. Returns how long that was.
    fn until_due(&mut self, at_most: Duration) -> Duration {
        let due = self.election.poll_timeout().expect("something is due");
        let span = due.since(self.now);
        assert!(span <= at_most, "due in {span:?}, expected within {at_most:?}");
        self.pass(span);
        span
    }

    /// Everything that is to be done; events are kept aside.
    fn actions(&mut self) -> Vec<Action> {
        let mut actions = Vec::new();
        while let Some(action) = self.election.poll_action() {
            match action {
                Action::Tell(event) => self.events.push(event),
                action => actions.push(action),
            }
        }
        actions
    }

    fn only_action(&mut self) -> Action {
        let mut actions = self.actions();
        assert_eq!(actions.len(), 1, "{actions:?}");
        actions.remove(0)
    }

    fn campaign(&mut self) -> (RequestId, CampaignRequest) {
        self.election.handle_timeout(self.now);
        match self.only_action() {
            Action::Campaign { id, request } => (id, request),
            other => panic!("expected a campaign, not {other:?}"),
        }
    }

    fn renewal(&mut self) -> (RequestId, RenewRequest) {
        match self.only_action() {
            Action::Renew { id, request } => (id, request),
            other => panic!("expected a renewal, not {other:?}"),
        }
    }

    fn release(&mut self) -> (RequestId, ReleaseRequest) {
        match self.only_action() {
            Action::Release { id, request } => (id, request),
            other => panic!("expected a release, not {other:?}"),
        }
    }

    fn input(&mut self, input: Input) -> &mut Self {
        self.election.handle_input(self.now, input);
        self
    }

    fn stamped<T>(&self, reply: T) -> Result<Stamped<T>, Failure> {
        Ok(Stamped { reply, store_time: StoreTime(1_700_000_000_000_000 + self.now.as_nanos() / 1_000) })
    }

    fn answer(&mut self, id: RequestId, reply: CampaignReply) -> &mut Self {
        let reply = self.stamped(reply);
        self.input(Input::Campaigned { id, reply })
    }

    fn answer_renewal(&mut self, id: RequestId, reply: RenewReply) -> &mut Self {
        let reply = self.stamped(reply);
        self.input(Input::Renewed { id, reply })
    }

    fn answer_release(&mut self, id: RequestId) -> &mut Self {
        let reply = self.stamped(ReleaseReply::Released);
        self.input(Input::Released { id, reply })
    }

    fn hear(&mut self, kind: AnnouncementKind, token: Token, count: u64) -> &mut Self {
        self.input(Input::Heard(Announcement { kind, token, count, holder: rival(), audience: 3 }))
    }

    fn state(&self) -> State {
        self.election.view(self.now).state
    }

    fn leads(&self) -> bool {
        self.election.standing().leads(self.now)
    }

    fn told(&mut self, event: &Event) -> bool {
        assert_eq!(self.actions(), vec![], "only events are expected here");
        self.events.contains(event)
    }
}

fn no_answer() -> Failure {
    Failure { reason: "no answer".to_owned() }
}

fn renewed(count: u64) -> RenewReply {
    RenewReply::Renewed { count, reasserted: false, audience: 2 }
}

#[test]
fn a_fresh_candidate_asks_at_once_and_claims_to_know_nothing() {
    let mut stage = Stage::new();
    let (_, request) = stage.campaign();
    assert_eq!((request.knowledge, request.floor), (None, Token::NONE));
    assert_eq!(stage.pass(LEASE).actions(), vec![], "one campaign at a time");
}

#[test]
fn a_term_is_counted_from_when_its_request_was_sent() {
    let mut stage = Stage::new();
    let (id, _) = stage.campaign();
    stage.pass(ms(900)).answer(id, CampaignReply::Granted { token: token(7), count: 1 });
    let (_, remaining) = stage.election.standing().remaining(stage.now).unwrap();
    assert_eq!(remaining, TERM - ms(900));
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
    assert_eq!((knowledge.token, knowledge.count, knowledge.remaining), (token(10), 6, Duration::ZERO));
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
    stage.answer(id, CampaignReply::Held { holder: rival(), token: token(10), remaining: LEASE, count: 6 });
    stage.actions();
    stage.until_due(ms(5));
    stage.campaign();
}

#[test]
fn a_newcomer_listens_for_half_a_lease_before_it_claims_to_know_anything() {
    let mut stage = Stage::new();
    let (id, _) = stage.campaign();
    stage.answer(id, CampaignReply::LookAgain { token: token(10), count: 5 });
    stage.actions();
    stage.input(Input::Gap);
    stage.until_due(ms(100));
    let (id, early) = stage.campaign();
    assert_eq!(early.knowledge, None, "an early look may only find a released role");
    stage.answer(id, CampaignReply::LookAgain { token: token(10), count: 5 });
    stage.actions();
    stage.until_due(LEASE / 2 + ms(100));
    let (_, late) = stage.campaign();
    assert_eq!(late.knowledge.map(|known| known.count), Some(5));
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
fn knowledge_older_than_a_lease_and_a_quarter_is_not_told() {
    let mut stage = Stage::standby(ms(14_000));
    stage.actions();
    stage.pass(LEASE * 5 / 4);
    let (_, request) = stage.campaign();
    assert_eq!(request.knowledge, None);
}

#[test]
fn a_guarded_role_is_said_to_be_guarded_and_asked_for_when_that_ends() {
    let mut stage = Stage::new();
    let (id, _) = stage.campaign();
    let cause = GuardCause::Generation;
    stage.answer(id, CampaignReply::Guarded { cause, remaining: ms(6_000), token: token(10), count: 5 });
    assert_eq!(stage.state(), State::Guarded);
    assert!(stage.told(&Event::Guarded { cause, remaining: ms(6_000) }));
    assert!(stage.until_due(ms(6_100)) >= ms(6_000));
    assert_eq!(stage.campaign().1.floor, token(10));
}

#[test]
fn a_leader_renews_every_period_from_sending_and_moves_its_deadline() {
    let mut stage = Stage::leading(token(7));
    stage.actions();
    assert_eq!(stage.until_due(PERIOD), PERIOD);
    let (id, request) = stage.renewal();
    assert_eq!((request.token, request.count), (token(7), 1));
    stage.pass(ms(700)).answer_renewal(id, renewed(2));
    let (_, remaining) = stage.election.standing().remaining(stage.now).unwrap();
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
    assert_eq!(stage.election.standing().promise(stage.now), None);
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
    assert_eq!(stage.election.standing().promise(stage.now).map(|p| p.valid_for), Some(VALIDITY));
    stage.input(Input::Resign { cooldown: SOON });
    assert_eq!((stage.leads(), stage.state()), (false, State::Draining));
    assert_eq!(stage.actions(), vec![], "not released yet");
    assert_eq!(stage.until_due(PERIOD), ms(1_000));
    let (id, _) = stage.renewal();
    stage.answer_renewal(id, renewed(2));
    assert_eq!(stage.election.standing().promise(stage.now), None, "a renewal does not reopen a draining term");
    stage.actions();
    assert_eq!(stage.until_due(VALIDITY), ms(4_000));
    stage.release();
}

#[test]
fn the_apps_word_ends_a_drain_early() {
    let mut stage = Stage::leading(token(7));
    stage.actions();
    stage.election.standing().promise(stage.now);
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
    stage.election.standing().promise(stage.now);
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
    stage.election.standing().promise(stage.now);
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
    stage.answer(id, CampaignReply::Held { holder: rival(), token: token(11), remaining: LEASE, count: 6 });
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
    assert_eq!(stage.election.standing().remaining(stage.now).unwrap().0, token(7));
}
