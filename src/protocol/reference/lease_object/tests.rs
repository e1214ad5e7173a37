//! Every request on everything that can be seen.

use std::sync::Arc;
use std::time::Duration;

use super::super::super::ids::{Attempt, Candidate, Mono, SessionId, StoreTime, Token};
use super::super::super::messages::{
    AnnouncementKind, CampaignReply, CampaignRequest, GuardCause, Holder, ReleaseReply, ReleaseRequest, RenewReply,
    RenewRequest,
};
use super::super::super::rules::Rules;
use super::*;

const LEASE: Duration = Duration::from_secs(10);
const WALL: StoreTime = StoreTime(1_700_000_000_000_000);
const RULES: Rules = Rules::KUBERNETES;

fn at(ms: u64) -> Mono {
    Mono::from_nanos(1_000_000_000_000 + ms * 1_000_000)
}

fn candidate(session: u128, attempt: u64) -> Candidate {
    Candidate { session: SessionId::from_u128(session), attempt: Attempt(attempt) }
}

fn ask(session: u128, attempt: u64) -> CampaignRequest {
    CampaignRequest {
        candidate: candidate(session, attempt),
        identity: Arc::from(format!("web-{session}")),
        lease_duration: LEASE,
        floor: Token::NONE,
        knowledge: None,
        released: None,
        guard: true,
    }
}

fn renewal(session: u128, attempt: u64, token: Token) -> RenewRequest {
    RenewRequest {
        candidate: candidate(session, attempt),
        identity: Arc::from(format!("web-{session}")),
        token,
        count: 0,
        lease_duration: LEASE,
        audience: 0,
        guard: true,
    }
}

/// Seen since `at(0)`, and looked at often.
fn since_zero(seen: Seen, until_ms: u64) -> Observation {
    let mut observation = Observation::new(Caution::ALL);
    for ms in (0..=until_ms).step_by(1_000) {
        observation.see(seen.clone(), LEASE, at(ms));
    }
    observation
}

fn present(record: &LeaseRecord) -> Seen {
    Seen::Present(record.clone())
}

fn try_campaign(observation: &Observation, request: &CampaignRequest, ms: u64) -> Step<CampaignReply> {
    campaign(observation, request, RULES, (at(ms), WALL)).unwrap()
}

/// What a campaign writes, and its token.
fn granted(observation: &Observation, request: &CampaignRequest, ms: u64) -> (LeaseRecord, Token) {
    match try_campaign(observation, request, ms) {
        Step::Write { record, reply: CampaignReply::Granted { token, .. } } => (record, token),
        other => panic!("{other:?}"),
    }
}

fn guarded(observation: &Observation, request: &CampaignRequest, ms: u64) -> (GuardCause, Duration) {
    match try_campaign(observation, request, ms) {
        Step::Reply(CampaignReply::Guarded { cause, remaining, .. }) => (cause, remaining),
        other => panic!("{other:?}"),
    }
}

/// A first term of web-`session`.
fn term(session: u128) -> (LeaseRecord, Token) {
    granted(&since_zero(Seen::Absent, 0), &CampaignRequest { guard: false, ..ask(session, 1) }, 0)
}

fn released(record: &LeaseRecord) -> LeaseRecord {
    let mark = record.mark.as_ref().unwrap();
    let request = ReleaseRequest { candidate: mark.candidate, token: Token::NONE, audience: 0 };
    match release(&since_zero(present(record), 0), &request, later(5)) {
        Step::Write { record, reply: ReleaseReply::Released } => record,
        other => panic!("{other:?}"),
    }
}

fn later(seconds: u64) -> StoreTime {
    WALL.plus(Duration::from_secs(seconds))
}

/// client-go has it.
fn strangers(record: Option<&LeaseRecord>, seconds: u32) -> LeaseRecord {
    LeaseRecord {
        identity: Arc::from("controller_1"),
        lease_seconds: Some(seconds),
        transitions: record.map_or(0, |record| record.transitions + 1),
        acquired_us: Some(7),
        renewed_us: Some(7),
        mark: record.and_then(|record| record.mark.clone()),
    }
}

#[test]
fn an_absent_object_is_watched_for_a_whole_lease_and_then_made() {
    let request = ask(1, 1);
    let observation = since_zero(Seen::Absent, 9_000);
    assert_eq!(guarded(&observation, &request, 9_000), (GuardCause::Empty, Duration::from_secs(1)));
    let (record, token) = granted(&observation, &request, 10_000);
    assert_eq!(token.get(), WALL.0 + 1);
    assert_eq!((record.transitions, record.lease_seconds), (0, Some(10)));
    granted(&since_zero(Seen::Absent, 0), &CampaignRequest { guard: false, ..request }, 0);
}

#[test]
fn absence_that_nobody_looked_at_for_long_begins_anew() {
    let mut observation = since_zero(Seen::Absent, 5_000);
    observation.see(Seen::Absent, LEASE, at(7_600));
    assert_eq!(guarded(&observation, &ask(1, 1), 10_000).1, Duration::from_millis(7_600));
}

#[test]
fn an_object_that_goes_away_is_watched_for_the_longer_of_both_leases() {
    let long = CampaignRequest { lease_duration: LEASE * 3, guard: false, ..ask(2, 1) };
    let (record, token) = granted(&since_zero(Seen::Absent, 0), &long, 0);
    let mut observation = since_zero(present(&record), 0);
    observation.see(Seen::Absent, LEASE, at(1_000));
    assert_eq!(guarded(&observation, &ask(1, 1), 1_000), (GuardCause::Empty, LEASE * 3));
    let behind = CampaignRequest { guard: false, ..ask(1, 1) };
    assert!(granted(&observation, &behind, 1_000).1 > token, "what was seen is remembered");
}

#[test]
fn a_lease_is_over_when_its_record_was_seen_for_all_of_it_and_not_by_its_times() {
    let (record, token) = term(1);
    // Its holder's clock is a year behind: nobody cares.
    let old = LeaseRecord { transitions: 4, ..record.clone() };
    let observation = since_zero(present(&old), 0);
    let Step::Reply(CampaignReply::Held { holder, token: theirs, remaining, .. }) =
        campaign(&observation, &ask(2, 1), RULES, (at(9_999), later(31_000_000))).unwrap()
    else {
        panic!("granted within the lease")
    };
    assert_eq!(holder, Holder { session: SessionId::from_u128(1), identity: Arc::from("web-1") });
    assert_eq!((theirs, remaining), (token, Duration::from_millis(1)));
    let (next, newer) = granted(&observation, &ask(2, 1), 10_000);
    assert!(newer > token);
    assert_eq!(next.transitions, 5, "another holder's name");
    // A renewal starts the clock again.
    let Step::Write { record: renewed, .. } = renew(&observation, &renewal(1, 1, token), RULES, later(3)) else {
        panic!("lost")
    };
    let mut observation = observation;
    observation.see(Seen::Present(renewed), LEASE, at(3_000));
    assert!(matches!(try_campaign(&observation, &ask(2, 1), 12_999), Step::Reply(CampaignReply::Held { .. })));
    granted(&observation, &ask(2, 1), 13_000);
}

#[test]
fn believing_the_times_would_end_a_lease_early_under_a_skewed_clock() {
    let (record, _) = term(1);
    let mut observation = Observation::new(Caution { own_clock: false, ..Caution::ALL });
    observation.see(Seen::Present(record), LEASE, at(0));
    let early = campaign(&observation, &ask(2, 1), RULES, (at(0), later(11))).unwrap();
    assert!(matches!(early, Step::Write { .. }), "{early:?}");
}

#[test]
fn the_same_attempt_gets_its_token_again_and_a_newer_one_a_new_term_at_once() {
    let (record, token) = term(1);
    let observation = since_zero(present(&record), 0);
    let (again, same) = granted(&observation, &ask(1, 1), 1);
    assert_eq!((same, again.count()), (token, record.count() + 1));
    assert_eq!((again.transitions, again.acquired_us), (record.transitions, record.acquired_us));
    let (next, newer) = granted(&observation, &ask(1, 2), 1);
    assert!(newer > token);
    assert_eq!(next.transitions, record.transitions, "the same name: no transition, as client-go counts them");
    let stale = try_campaign(&since_zero(present(&next), 0), &ask(1, 1), 1);
    assert!(matches!(stale, Step::Reply(CampaignReply::Stale { token, .. }) if token == newer), "{stale:?}");
}

#[test]
fn two_processes_of_one_name_do_not_share_a_lease() {
    let (record, _) = term(1);
    let twin = CampaignRequest { identity: Arc::from("web-1"), ..ask(2, 1) };
    let held = try_campaign(&since_zero(present(&record), 0), &twin, 1);
    assert!(matches!(held, Step::Reply(CampaignReply::Held { .. })), "{held:?}");
}

#[test]
fn what_a_create_without_an_answer_left_is_watched_for_a_lease() {
    let (record, token) = term(1);
    let mut observation = since_zero(present(&record), 0);
    observation.create_unanswered();
    for attempt in [1, 2] {
        assert_eq!(guarded(&observation, &ask(1, attempt), 1).0, GuardCause::Regression);
        assert!(granted(&observation, &ask(1, attempt), 10_000).1 > token, "never the old term again");
    }
    observation.updated();
    assert_eq!(granted(&observation, &ask(1, 1), 1).1, token);
}

#[test]
fn a_release_empties_the_holder_as_client_go_does_and_frees_the_role_at_once() {
    let (record, token) = term(1);
    let free = released(&record);
    assert_eq!((&*free.identity, free.lease_seconds, free.transitions), ("", Some(1), record.transitions));
    assert_eq!(free.acquired_us, free.renewed_us);
    assert_eq!(free.token(), token, "it stays");
    let observation = since_zero(present(&free), 0);
    let (next, newer) = granted(&observation, &ask(2, 1), 0);
    assert!(newer > token && next.transitions == record.transitions + 1);
    let stale = try_campaign(&observation, &ask(1, 1), 0);
    assert!(matches!(stale, Step::Reply(CampaignReply::Stale { .. })), "delayed past its release: {stale:?}");
    granted(&observation, &ask(1, 2), 0);
}

#[test]
fn a_released_record_older_than_a_token_that_was_seen_is_watched_for_a_lease() {
    let (record, token) = term(1);
    let observation = since_zero(present(&released(&record)), 0);
    let floor = Token::new(token.get() + 500).unwrap();
    let behind = CampaignRequest { floor, ..ask(2, 1) };
    let step = try_campaign(&observation, &behind, 1);
    let Step::Write { record: noted, reply: CampaignReply::Guarded { cause, remaining, .. } } = step else {
        panic!("{step:?}")
    };
    assert_eq!((cause, remaining), (GuardCause::Regression, LEASE));
    assert_eq!((noted.tenure(), noted.token()), (Tenure::Released { ours: true }, token), "nothing else changes");
    let noted = since_zero(present(&noted), 0);
    for request in [&behind, &ask(3, 1)] {
        assert_eq!(guarded(&noted, request, 1).0, GuardCause::Regression, "who has not seen that token, too");
        let (next, newer) = granted(&noted, request, 10_000);
        assert!(newer > floor && next.mark.unwrap().floor == Token::NONE);
    }
    assert!(granted(&observation, &CampaignRequest { guard: false, ..behind }, 1).1 > floor);
}

#[test]
fn nobody_releases_anothers_lease() {
    let (record, token) = term(1);
    let observation = since_zero(present(&record), 0);
    let other = Token::new(token.get() - 1).unwrap();
    for (candidate, token) in [(candidate(2, 1), token), (candidate(1, 2), token), (candidate(1, 1), other)] {
        let reply = release(&observation, &ReleaseRequest { candidate, token, audience: 0 }, WALL);
        assert_eq!(reply, Step::Reply(ReleaseReply::NotHeld));
    }
    let gone = ReleaseRequest { candidate: candidate(1, 1), token, audience: 0 };
    assert_eq!(release(&since_zero(Seen::Absent, 0), &gone, WALL), Step::Reply(ReleaseReply::NotHeld));
}

#[test]
fn a_renewal_puts_back_what_is_gone_or_emptied_under_the_same_token() {
    let (record, token) = term(1);
    let record = LeaseRecord { transitions: 4, ..record };
    let mut gone = since_zero(present(&record), 0);
    gone.see(Seen::Absent, LEASE, at(1));
    let emptied = LeaseRecord { identity: Arc::from(""), ..record.clone() };
    assert_eq!(emptied.tenure(), Tenure::Vacant);
    for observation in [gone, since_zero(present(&emptied), 0), since_zero(Seen::Absent, 0)] {
        let step = renew(&observation, &renewal(1, 1, token), RULES, later(3));
        let Step::Write { record: back, reply: RenewReply::Renewed { reasserted: true, .. } } = step else {
            panic!("{step:?}")
        };
        assert_eq!((back.token(), &*back.identity), (token, "web-1"));
        if observation.top() > Token::NONE {
            assert_eq!((back.transitions, back.acquired_us), (4, record.acquired_us), "it is the same term");
            assert!(back.count() > record.count());
        }
    }
    // And meanwhile nobody new is let in.
    let mut emptied_at_zero = since_zero(present(&record), 0);
    emptied_at_zero.see(Seen::Present(emptied), LEASE, at(1_000));
    assert_eq!(guarded(&emptied_at_zero, &ask(2, 1), 1_000), (GuardCause::Vanished, LEASE));
    assert_eq!(granted(&emptied_at_zero, &ask(1, 1), 1_000).1, token, "its own campaign once more");
}

#[test]
fn a_renewal_is_lost_to_another_a_release_or_a_later_term() {
    let (record, token) = term(1);
    let (next, newer) = granted(&since_zero(present(&record), 0), &ask(2, 1), 10_000);
    let free = released(&record);
    for (seen, told) in [(&next, newer), (&free, token), (&strangers(Some(&record), 15), token)] {
        let mut observation = since_zero(present(seen), 0);
        let reply = renew(&observation, &renewal(1, 1, token), RULES, WALL);
        assert!(matches!(reply, Step::Reply(RenewReply::Lost { token, .. }) if token == told), "{seen:?}: {reply:?}");
        // Not even when the object is gone afterwards.
        observation.see(Seen::Absent, LEASE, at(1));
        let reply = renew(&observation, &renewal(1, 1, token), RULES, WALL);
        assert!(matches!(reply, Step::Reply(RenewReply::Lost { .. })), "{seen:?}, then gone: {reply:?}");
    }
}

#[test]
fn a_renewal_writes_over_an_earlier_term_that_a_backup_has_brought_back() {
    let (old, before) = term(1);
    let token = Token::new(before.get() + 10).unwrap();
    for earlier in [released(&old), old] {
        let step = renew(&since_zero(present(&earlier), 0), &renewal(2, 1, token), RULES, later(3));
        assert!(matches!(step, Step::Write { reply: RenewReply::Renewed { reasserted: true, .. }, .. }), "{step:?}");
    }
}

#[test]
fn a_stranger_is_waited_for_in_its_own_seconds_and_its_release_is_heard() {
    let (record, token) = term(1);
    let theirs = strangers(Some(&record), 15);
    let observation = since_zero(present(&theirs), 0);
    let held = try_campaign(&observation, &ask(2, 1), 14_999);
    assert!(
        matches!(&held, Step::Reply(CampaignReply::Held { holder, .. }) if &*holder.identity == "controller_1"),
        "{held:?}"
    );
    let (next, newer) = granted(&observation, &ask(2, 1), 15_000);
    assert!(newer > token && next.transitions == theirs.transitions + 1);
    let free = LeaseRecord { identity: Arc::from(""), lease_seconds: Some(1), renewed_us: Some(9), ..theirs.clone() };
    assert_eq!(free.tenure(), Tenure::Released { ours: false });
    assert!(granted(&since_zero(present(&free), 0), &ask(2, 1), 0).1 > token);
    let said = news(Some(&theirs), &free).unwrap();
    assert_eq!((said.kind, said.holder.session), (AnnouncementKind::Release, FOREIGN));
}

#[test]
fn who_writes_over_a_term_with_a_shorter_time_is_waited_for_as_long_as_that_term_lasts() {
    let (record, _) = term(1);
    let observation = since_zero(present(&strangers(Some(&record), 1)), 0);
    let held = try_campaign(&observation, &ask(2, 1), 9_999);
    assert!(matches!(&held, Step::Reply(CampaignReply::Held { .. })), "{held:?}");
    granted(&observation, &ask(2, 1), 10_000);
    granted(&since_zero(present(&strangers(Some(&released(&record)), 1)), 0), &ask(2, 1), 1_000);
}

#[test]
fn an_object_made_in_advance_is_watched_for_a_lease() {
    let empty = LeaseRecord { identity: Arc::from(""), lease_seconds: None, ..strangers(None, 0) };
    let observation = since_zero(present(&empty), 0);
    assert_eq!(guarded(&observation, &ask(1, 1), 1).0, GuardCause::Vanished);
    granted(&observation, &CampaignRequest { guard: false, ..ask(1, 1) }, 1);
    let (record, _) = granted(&observation, &ask(1, 1), 10_000);
    assert_eq!(record.transitions, 1, "as client-go counts a holder after nobody");
}

#[test]
fn short_leases_are_told_to_others_in_whole_seconds_rounded_up() {
    for (ms, seconds) in [(100, 1), (1_000, 1), (1_001, 2), (15_000, 15)] {
        let request = CampaignRequest { lease_duration: Duration::from_millis(ms), guard: false, ..ask(1, 1) };
        let (record, _) = granted(&since_zero(Seen::Absent, 0), &request, 0);
        assert_eq!(record.lease_seconds, Some(seconds));
        assert_eq!(record.mark.unwrap().lease_duration, Duration::from_millis(ms));
    }
}

#[test]
fn tokens_rise_above_the_record_the_floor_and_the_clock_and_end_below_2_to_the_53() {
    let (record, token) = term(1);
    let high = Token::new(token.get() + 1_000).unwrap();
    let mut mark = record.mark.clone().unwrap();
    mark.token = high;
    let observation = since_zero(present(&LeaseRecord { mark: Some(mark), ..record }), 0);
    assert_eq!(granted(&observation, &ask(2, 1), 10_000).1.get(), high.get() + 1);
    let floor = Token::new(Token::LIMIT - 1).unwrap();
    let last = campaign(&observation, &CampaignRequest { floor, ..ask(2, 1) }, RULES, (at(10_000), WALL));
    assert!(last.is_err());
}

#[test]
fn a_change_is_told_as_a_grant_a_heartbeat_or_a_release() {
    let (record, token) = term(1);
    let step = renew(&since_zero(present(&record), 0), &renewal(1, 1, token), RULES, later(3));
    let Step::Write { record: renewed, .. } = step else { panic!("{step:?}") };
    let free = released(&renewed);
    let kind = |before, now| news(before, now).map(|said| (said.kind, said.token, said.holder.session));
    let me = SessionId::from_u128(1);
    assert_eq!(kind(None, &record), Some((AnnouncementKind::Grant, token, me)));
    assert_eq!(kind(Some(&record), &renewed), Some((AnnouncementKind::Heartbeat, token, me)));
    assert_eq!(kind(Some(&renewed), &free), Some((AnnouncementKind::Release, token, me)));
    assert_eq!(kind(Some(&free), &record), Some((AnnouncementKind::Grant, token, me)));
    let emptied = LeaseRecord { identity: Arc::from(""), ..record.clone() };
    assert_eq!(kind(Some(&renewed), &emptied), None, "only that there is something to look at");
}

#[test]
fn news_of_an_object_are_those_with_a_greater_version_and_what_is_asked_for_later() {
    let at = |secs: u64| Mono::from_nanos(secs * 1_000_000_000);
    let mut seen = Observation::new(Caution::ALL);
    assert!(seen.admit(Some(5), true, Source::Watch, at(10)));
    assert!(!seen.admit(Some(5), true, Source::Watch, at(11)), "the same again");
    assert!(!seen.admit(Some(4), true, Source::Watch, at(11)));
    assert!(!seen.admit(Some(4), true, Source::Asked(at(9)), at(11)), "asked for before the last was learned");
    assert!(!seen.admit(Some(5), true, Source::Asked(at(10)), at(11)), "or in that moment");
    assert!(seen.admit(Some(6), true, Source::Watch, at(11)));
    assert!(seen.admit(Some(2), true, Source::Asked(at(12)), at(13)), "a server restored from a backup");
    assert!(seen.admit(Some(3), true, Source::Watch, at(14)), "counts from there on");
    assert!(!seen.admit(None, false, Source::Asked(at(13)), at(15)));
    assert!(seen.admit(None, false, Source::Asked(at(15)), at(16)));
    assert!(!seen.admit(Some(3), true, Source::Watch, at(17)), "what is missing was of that version or a later one");
    assert!(seen.admit(Some(4), true, Source::Watch, at(18)));
}

#[test]
fn grants_and_releases_count_and_a_repeated_campaign_extends_by_what_it_asks_for() {
    let (record, token) = term(1);
    assert_eq!(released(&record).count(), record.count() + 1);
    let observation = since_zero(present(&record), 0);
    let later_by = |request| match campaign(&observation, &request, RULES, (at(1), later(3))).unwrap() {
        Step::Write { record, .. } => record,
        other @ Step::Reply(_) => panic!("{other:?}"),
    };
    let again = later_by(CampaignRequest { lease_duration: LEASE * 2, ..ask(1, 1) });
    let mark = again.mark.unwrap();
    assert_eq!((mark.token, mark.lease_duration), (token, LEASE * 2));
    assert_eq!((again.renewed_us, mark.renewed_us), (Some(micros_of(later(3))), micros_of(later(3))));
    let next = later_by(ask(1, 2));
    assert_eq!(next.count(), record.count() + 1);
    assert_eq!((next.acquired_us, next.renewed_us), (record.acquired_us, Some(micros_of(later(3)))), "of one name");
}

fn micros_of(wall: StoreTime) -> i64 {
    i64::try_from(wall.0).unwrap()
}

#[test]
fn a_token_that_the_record_has_is_none_that_it_should_have_known_of() {
    let (record, floor) = term(1);
    granted(&since_zero(present(&released(&record)), 0), &CampaignRequest { floor, ..ask(2, 1) }, 0);
    let mut doubted = since_zero(present(&record), 0);
    doubted.create_unanswered();
    let request = CampaignRequest { floor, ..ask(1, 1) };
    assert_eq!(guarded(&doubted, &request, 1).0, GuardCause::Regression, "there is nothing to note");
    let emptied = LeaseRecord { identity: Arc::from(""), ..record };
    let mut doubted = since_zero(present(&emptied), 0);
    doubted.create_unanswered();
    assert_eq!(guarded(&doubted, &ask(1, 1), 1).0, GuardCause::Vanished, "nor is it extended");
}

fn renewed(seen: &Observation, request: &RenewRequest, rules: Rules) -> Option<(LeaseRecord, bool)> {
    match renew(seen, request, rules, later(3)) {
        Step::Write { record, reply: RenewReply::Renewed { reasserted, .. } } => Some((record, reasserted)),
        _ => None,
    }
}

#[test]
fn a_renewal_stands_back_for_a_term_of_the_same_token_and_not_for_an_earlier_one() {
    let (record, token) = term(1);
    let record = LeaseRecord { transitions: 4, ..record };
    let next = Token::new(token.get() + 1).unwrap();
    let emptied = LeaseRecord { identity: Arc::from(""), ..record.clone() };
    for seen in [&record, &emptied] {
        let mut observation = since_zero(present(seen), 0);
        for is_gone in [false, true] {
            assert_eq!(renewed(&observation, &renewal(2, 1, token), RULES), None, "{seen:?} {is_gone}");
            let (over, reasserted) = renewed(&observation, &renewal(2, 1, next), RULES).unwrap();
            assert_eq!((over.transitions, reasserted), (4, true), "{seen:?} {is_gone}");
            let of_mine = renewed(&observation, &renewal(1, 1, next), RULES).unwrap();
            assert!(of_mine.1, "its next term, and not that one: {seen:?} {is_gone}");
            observation.see(Seen::Absent, LEASE, at(1));
        }
    }
    let mut free = since_zero(present(&released(&record)), 0);
    free.see(Seen::Absent, LEASE, at(1));
    assert!(renewed(&free, &renewal(2, 1, next), RULES).is_some(), "an earlier term's release");
    let touched = LeaseRecord { renewed_us: Some(7), lease_seconds: Some(9), ..released(&record) };
    assert_eq!(touched.tenure(), Tenure::Vacant);
    assert_eq!(renewed(&since_zero(present(&touched), 0), &renewal(1, 1, token), RULES), None, "it was given back");
}

#[test]
fn a_renewal_puts_nothing_back_without_r4_nor_where_a_later_term_was_seen() {
    let (record, token) = term(1);
    let mut gone = since_zero(present(&record), 0);
    gone.see(Seen::Absent, LEASE, at(1));
    assert_eq!(renewed(&gone, &renewal(1, 1, token), Rules { reassert: false, ..RULES }), None);
    let (next, _) = granted(&since_zero(present(&record), 0), &ask(2, 1), 10_000);
    let mut restored = since_zero(present(&next), 0);
    let emptied = LeaseRecord { identity: Arc::from(""), ..record };
    restored.see(present(&emptied), LEASE, at(1));
    assert_eq!(renewed(&restored, &renewal(1, 1, token), RULES), None, "a backup of before that term");
}
