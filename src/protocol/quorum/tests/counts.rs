//! What a member counts, and what it cuts where its clock is stepped back.

use super::super::super::reference::lease::{Server, TokensExhausted};
use super::super::super::rules::Rules;
use super::*;

const START: StoreTime = StoreTime(1_700_000_000_000_000);
const HOUR: u64 = 3_600_000_000;

/// A member that was asked a lease ago, and its clock.
fn member() -> (MemberCell, StoreTime) {
    let mut cell = MemberCell::new(Rules::QUORUM);
    cell.campaign(server(START), "", &campaign(99, 1)).unwrap();
    (cell, START.plus(LEASE))
}

fn server(now: StoreTime) -> Server<'static> {
    Server { now, uptime: Duration::ZERO, generation: "one" }
}

fn asked(cell: &mut MemberCell, now: StoreTime, lists: &str, session: u128) -> MemberCampaignReply {
    cell.campaign(server(now), lists, &campaign(session, 1)).unwrap().0
}

fn elect(cell: &mut MemberCell, now: StoreTime, lists: &str, session: u128) -> (Token, u64) {
    let MemberCampaignReply::Granted { token, .. } = asked(cell, now, lists, session) else { panic!("not granted") };
    let RaiseReply::Raised { count } = cell.raise(server(now), lists, &raise(session, 1, token)).0 else { panic!() };
    (token, count)
}

/// For how long another list is an objection.
fn unlisted(reply: &MemberCampaignReply) -> Option<Duration> {
    match reply {
        MemberCampaignReply::Unlisted { remaining, .. } => Some(*remaining),
        _ => None,
    }
}

fn guarded(reply: &MemberCampaignReply) -> Option<Duration> {
    match reply {
        MemberCampaignReply::Guarded { remaining, .. } => Some(*remaining),
        _ => None,
    }
}

#[test]
fn each_confirmation_and_each_release_counts_from_the_members_clock_on() {
    let (mut cell, now) = member();
    let (token, first) = elect(&mut cell, now, "", 1);
    assert!(first > START.0, "what was known of a lost record never fits it");
    let again = cell.raise(server(now), "", &raise(1, 1, token)).0;
    assert_eq!(again, RaiseReply::Raised { count: first + 1 });
    let mut heard = cell.clone();
    let news = cell.release(server(now), &release(1, 1, token)).1.unwrap();
    assert_eq!((news.kind, news.count), (AnnouncementKind::Release, first + 2));
    let released = Some((SessionId::from_u128(1), token));
    let news = heard.campaign(server(now), "", &CampaignRequest { released, ..campaign(2, 1) }).unwrap().1.unwrap();
    assert_eq!((news.kind, news.count), (AnnouncementKind::Release, first + 2), "by who has heard of it");
}

#[test]
fn a_floor_that_has_no_successor_is_not_remembered() {
    let (mut cell, now) = member();
    let floor = token(Token::LIMIT - 1);
    assert_eq!(cell.campaign(server(now), "", &CampaignRequest { floor, ..campaign(1, 1) }), Err(TokensExhausted));
    assert!(matches!(asked(&mut cell, now, "", 2), MemberCampaignReply::Granted { .. }));
}

#[test]
fn a_grant_by_lists_in_change_does_not_let_the_later_list_in_before_its_time() {
    let (mut cell, now) = member();
    let (token, _) = elect(&mut cell, now, "a", 1);
    cell.release(server(now), &release(1, 1, token));
    assert!(matches!(asked(&mut cell, now, "a|b", 2), MemberCampaignReply::Granted { .. }));
    assert_eq!(unlisted(&asked(&mut cell, now, "b", 3)), Some(LEASE));
}

#[test]
fn a_renewal_makes_another_list_an_objection_for_two_leases() {
    let (mut cell, now) = member();
    let (token, _) = elect(&mut cell, now, "a", 1);
    let now = now.plus(LEASE / 3);
    cell.renew(server(now), "a", &renew(1, 1, token));
    assert_eq!(unlisted(&asked(&mut cell, now, "b", 2)), Some(LEASE * 2));
}

#[test]
fn a_grant_that_is_taken_back_takes_its_list_along_and_not_that_of_a_term() {
    let (mut cell, now) = member();
    asked(&mut cell, now, "a", 1);
    cell.release(server(now), &release(1, 1, Token::NONE));
    assert!(matches!(asked(&mut cell, now, "b", 2), MemberCampaignReply::Granted { .. }));
    let (mut cell, now) = member();
    let (token, _) = elect(&mut cell, now, "a", 1);
    cell.release(server(now), &release(1, 1, token));
    asked(&mut cell, now, "a", 2);
    cell.release(server(now), &release(2, 1, Token::NONE));
    assert_eq!(unlisted(&asked(&mut cell, now, "b", 3)), Some(LEASE));
}

#[test]
fn a_release_of_a_term_that_was_never_here_ends_no_list_after_a_restart() {
    let (mut cell, now) = member();
    elect(&mut cell, now, "a", 1);
    let restarted = Server { generation: "two", ..server(now) };
    cell.campaign(restarted, "a", &campaign(2, 1)).unwrap();
    cell.release(restarted, &release(5, 1, token(5)));
    let reply = cell.campaign(restarted, "b", &campaign(3, 1)).unwrap().0;
    assert_eq!(unlisted(&reply), Some(LEASE * 2));
}

#[test]
fn an_end_that_a_step_of_the_clock_has_cut_is_counted_from_the_first_question() {
    // The end of a term's lease, which nobody gave back.
    let (mut cell, start) = member();
    elect(&mut cell, start, "", 1);
    let later = start.plus(LEASE * 2);
    asked(&mut cell, later, "", 2);
    cell.release(server(later), &release(2, 1, Token::NONE));
    let now = StoreTime(start.0 - HOUR);
    assert_eq!(guarded(&asked(&mut cell, now, "", 3)), Some(LEASE));
    assert_eq!(guarded(&asked(&mut cell, now.plus(secs(4)), "", 3)), Some(LEASE - secs(4)));
    // The time of a list.
    let (mut cell, start) = member();
    let (token, _) = elect(&mut cell, start, "a", 1);
    cell.release(server(start), &release(1, 1, token));
    let now = StoreTime(start.0 - HOUR);
    assert_eq!(unlisted(&asked(&mut cell, now, "b", 2)), Some(LEASE * 2));
    assert_eq!(unlisted(&asked(&mut cell, now.plus(secs(4)), "b", 2)), Some(LEASE * 2 - secs(4)));
}
