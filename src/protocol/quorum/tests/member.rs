//! A member's side, branch by branch.

use super::super::super::reference::lease::{Server, TokensExhausted};
use super::super::super::reference::quorum_member::MemberOutcome;
use super::super::super::rules::Rules;
use super::*;

/// One role on a server whose clock and generation the test sets.
struct Member {
    cell: MemberCell,
    now: StoreTime,
    generation: &'static str,
    /// By which list of members it is asked.
    lists: &'static str,
}

impl Member {
    /// A server that somebody has asked for the role, a lease ago.
    fn new() -> Self {
        Self::under(Rules::QUORUM)
    }

    fn under(rules: Rules) -> Self {
        let mut member =
            Self { cell: MemberCell::new(rules), now: StoreTime(1_700_000_000_000_000), generation: "one", lists: "" };
        member.campaign(99, 1);
        member.pass(LEASE);
        member
    }

    fn server(&self) -> Server<'static> {
        Server { now: self.now, uptime: Duration::ZERO, generation: self.generation }
    }

    fn pass(&mut self, span: Duration) -> &mut Self {
        self.now = self.now.plus(span);
        self
    }

    fn step_clock_back(&mut self, span: Duration) {
        self.now = StoreTime(self.now.0 - u64::try_from(span.as_micros()).unwrap());
    }

    /// Another server process, with the same data or without.
    fn restart(&mut self, forget: bool) {
        self.generation = "two";
        if forget {
            self.cell.forget();
        }
    }

    fn campaign(&mut self, session: u128, attempt: u64) -> MemberCampaignReply {
        self.cell.campaign(self.server(), self.lists, &campaign(session, attempt)).unwrap().0
    }

    fn grant(&mut self, session: u128, attempt: u64) -> Token {
        match self.campaign(session, attempt) {
            MemberCampaignReply::Granted { token, .. } => token,
            other => panic!("expected a grant, not {other:?}"),
        }
    }

    fn raise(&mut self, session: u128, attempt: u64, token: Token) -> MemberOutcome<RaiseReply> {
        self.cell.raise(self.server(), self.lists, &raise(session, attempt, token))
    }

    /// Grants and confirms a term under the token that was granted.
    fn elect(&mut self, session: u128, attempt: u64) -> Token {
        let token = self.grant(session, attempt);
        assert!(is_raised(&self.raise(session, attempt, token).0));
        token
    }

    fn renew(&mut self, session: u128, attempt: u64, token: Token) -> MemberOutcome<RenewReply> {
        self.cell.renew(self.server(), self.lists, &renew(session, attempt, token))
    }

    fn release(&mut self, session: u128, attempt: u64, token: Token) -> MemberOutcome<ReleaseReply> {
        self.cell.release(self.server(), &release(session, attempt, token))
    }
}

fn is_raised(reply: &RaiseReply) -> bool {
    matches!(reply, RaiseReply::Raised { .. })
}

/// Whether it was renewed, and if so, whether the lease was put back.
fn renewed((reply, _): &MemberOutcome<RenewReply>) -> Option<bool> {
    match reply {
        RenewReply::Renewed { reasserted, .. } => Some(*reasserted),
        RenewReply::Lost { .. } => None,
    }
}

fn guard(reply: &MemberCampaignReply) -> Option<(GuardCause, Duration)> {
    match reply {
        MemberCampaignReply::Guarded { cause, remaining, .. } => Some((*cause, *remaining)),
        _ => None,
    }
}

fn held(reply: &MemberCampaignReply) -> Option<(Holder, Duration, bool)> {
    match reply {
        MemberCampaignReply::Held { holder, remaining, confirmed, .. } => {
            Some((holder.clone(), *remaining, *confirmed))
        }
        _ => None,
    }
}

#[test]
fn a_grant_holds_its_member_for_a_third_of_a_lease_and_a_raise_for_a_whole_one() {
    let mut member = Member::new();
    let granted = member.grant(1, 1);
    assert_eq!(held(&member.campaign(2, 1)), Some((holder(1), LEASE / 3, false)));
    let (reply, news) = member.raise(1, 1, granted);
    let RaiseReply::Raised { count } = reply else { panic!("{reply:?}") };
    let news = news.unwrap();
    assert_eq!((news.kind, news.token, news.count), (AnnouncementKind::Grant, granted, count));
    assert_eq!(held(&member.campaign(2, 2)), Some((holder(1), LEASE, true)));
    member.pass(LEASE);
    assert!(member.grant(2, 3) > granted);
}

#[test]
fn a_grant_that_is_not_raised_runs_out_and_cannot_be_raised_afterwards() {
    let mut member = Member::new();
    let first = member.grant(1, 1);
    member.pass(LEASE / 3);
    assert!(!member.cell.is_held(member.now));
    assert_eq!(member.raise(1, 1, first), (RaiseReply::Gone { token: first }, None));
    let second = member.grant(2, 1);
    assert_eq!(member.raise(1, 1, second).0, RaiseReply::Gone { token: second }, "another has it");
}

#[test]
fn the_same_attempt_gets_its_grant_again_a_newer_one_a_new_token_and_an_older_one_nothing() {
    let mut member = Member::new();
    let first = member.grant(1, 2);
    assert_eq!(member.grant(1, 2), first);
    assert_eq!(member.campaign(1, 1), MemberCampaignReply::Stale { token: first });
    let second = member.grant(1, 3);
    assert!(second > first);
    assert_eq!(member.raise(1, 2, second).0, RaiseReply::Gone { token: second }, "the older attempt is over");
    member.release(1, 3, Token::NONE);
    assert_eq!(member.campaign(1, 3), MemberCampaignReply::Stale { token: second }, "given back, and asked again late");
}

#[test]
fn an_older_attempt_does_not_replace_a_term_that_was_put_back() {
    let mut member = Member::new();
    member.grant(2, 1);
    member.pass(LEASE);
    let term = token(member.now.0 + 1);
    assert_eq!(renewed(&member.renew(1, 5, term)), Some(true), "another was granted here last");
    assert_eq!(member.campaign(1, 4), MemberCampaignReply::Stale { token: term });
    assert_eq!(renewed(&member.renew(1, 5, term)), Some(false));
}

#[test]
fn tokens_rise_above_the_record_the_floor_and_the_clock() {
    let mut member = Member::new();
    let clock = member.now.0;
    assert_eq!(member.grant(1, 1).get(), clock + 1);
    assert!(is_raised(&member.raise(1, 1, token(clock + 1_000_000)).0), "another member's grant was greater");
    member.release(1, 1, token(clock + 1_000_000));
    assert_eq!(member.grant(2, 1).get(), clock + 1_000_001);
    member.release(2, 1, Token::NONE);
    let request = CampaignRequest { floor: token(clock + 5_000_000), ..campaign(3, 1) };
    let (reply, _) = member.cell.campaign(member.server(), member.lists, &request).unwrap();
    assert_eq!(reply, MemberCampaignReply::Granted { token: token(clock + 5_000_001), last: LastTerm::GivenBack });
    member.release(3, 1, Token::NONE);
    let request = CampaignRequest { floor: token(Token::LIMIT - 1), ..campaign(4, 1) };
    assert_eq!(member.cell.campaign(member.server(), member.lists, &request), Err(TokensExhausted));
    assert!(!member.cell.is_held(member.now), "nothing changed");
}

#[test]
fn a_floor_is_remembered_while_nobody_may_be_granted_and_while_another_list_is_in_use() {
    let mut member = Member::new();
    let floor = token(member.now.0 + 50_000_000);
    let ask = |member: &mut Member, session, floor| {
        let request = CampaignRequest { floor, ..campaign(session, 1) };
        member.cell.campaign(member.server(), member.lists, &request).unwrap().0
    };
    member.restart(true);
    assert!(matches!(ask(&mut member, 1, floor), MemberCampaignReply::Guarded { token, .. } if token == floor));
    member.pass(LEASE);
    member.lists = "a, b, c";
    assert!(member.grant(2, 1) > floor, "by whoever knows of none");
    let later = token(floor.get() + 50_000_000);
    member.lists = "a, b, d";
    assert!(matches!(ask(&mut member, 3, later), MemberCampaignReply::Unlisted { token, .. } if token == later));
    member.pass(LEASE);
    assert!(member.grant(4, 1) > later);
}

#[test]
fn a_raise_never_lowers_a_token() {
    let mut member = Member::new();
    let granted = member.grant(1, 1);
    let below = token(granted.get() - 1);
    assert_eq!(member.raise(1, 1, below).0, RaiseReply::Gone { token: granted });
}

#[test]
fn a_restarted_member_grants_and_raises_nothing_for_one_lease_and_incumbents_come_back_at_once() {
    for forget in [false, true] {
        let mut member = Member::new();
        let granted = member.grant(1, 1);
        member.restart(forget);
        let cause = if forget { GuardCause::Empty } else { GuardCause::Generation };
        if !forget {
            assert!(!is_raised(&member.raise(1, 1, granted).0), "what else it granted may be forgotten");
            member.pass(LEASE / 3);
        }
        let (found, remaining) = guard(&member.campaign(2, 1)).unwrap();
        assert_eq!((found, remaining), (cause, if forget { LEASE } else { LEASE - LEASE / 3 }));
        assert_eq!(renewed(&member.renew(9, 1, token(member.now.0 + 1))), Some(true));
        member.release(9, 1, token(member.now.0 + 1));
        assert!(guard(&member.campaign(2, 2)).is_some(), "the guard outlasts a release");
        member.pass(LEASE);
        assert!(matches!(member.campaign(2, 3), MemberCampaignReply::Granted { .. }));
    }
}

#[test]
fn a_record_that_is_new_on_a_member_is_shut_for_a_lease() {
    let mut member = Member::new();
    member.cell.forget();
    assert_eq!(guard(&member.campaign(1, 1)), Some((GuardCause::Empty, LEASE)));
    member.pass(LEASE);
    assert!(matches!(member.campaign(1, 2), MemberCampaignReply::Granted { .. }));
}

#[test]
fn a_lease_that_is_gone_before_its_end_without_a_release_vanished() {
    let mut member = Member::new();
    let term = member.elect(1, 1);
    member.pass(secs(2));
    member.cell.evict_lease();
    assert_eq!(guard(&member.campaign(2, 1)), Some((GuardCause::Vanished, LEASE - secs(2))));
    assert_eq!(renewed(&member.renew(1, 1, term)), Some(true), "the incumbent may come back meanwhile");
    member.cell.evict_lease();
    member.pass(secs(1)).step_clock_back(secs(3_600));
    assert_eq!(guard(&member.campaign(2, 2)), Some((GuardCause::Vanished, LEASE)), "no longer than a lease");
    member.pass(LEASE);
    member.grant(2, 3);

    // Given back by its holder, with the lease or without.
    for evicted in [false, true] {
        let mut member = Member::new();
        let term = member.elect(1, 1);
        if evicted {
            member.cell.evict_lease();
        }
        member.release(1, 1, term);
        member.grant(2, 1);
    }
    // A confirmation that came to nothing is taken back without a token.
    let mut member = Member::new();
    member.elect(1, 1);
    member.release(1, 1, Token::NONE);
    member.grant(2, 1);
    // Nothing is due of a grant that nobody confirmed.
    let mut member = Member::new();
    member.grant(1, 1);
    member.cell.evict_lease();
    member.grant(2, 1);
}

#[test]
fn a_guard_lasts_for_the_longer_of_the_askers_lease_and_the_last_terms() {
    let mut member = Member::new();
    member.elect(1, 1);
    member.restart(false);
    let short = |attempt| CampaignRequest { lease_duration: LEASE / 3, ..campaign(2, attempt) };
    let ask = |member: &mut Member, attempt| {
        let (reply, _) = member.cell.campaign(member.server(), member.lists, &short(attempt)).unwrap();
        guard(&reply)
    };
    member.cell.evict_lease();
    assert_eq!(ask(&mut member, 1), Some((GuardCause::Generation, LEASE)));
    member.pass(LEASE / 2);
    assert_eq!(
        ask(&mut member, 2),
        Some((GuardCause::Generation, LEASE - LEASE / 2)),
        "nor does a question shorten it"
    );
}

#[test]
fn a_grant_tells_what_became_of_the_last_term() {
    use LastTerm::{GivenBack, Of, Unknown};
    let tells = |member: &mut Member, session| match member.campaign(session, 1) {
        MemberCampaignReply::Granted { last, .. } => last,
        other => panic!("expected a grant, not {other:?}"),
    };
    assert_eq!(tells(&mut Member::new(), 1), Unknown);
    let mut member = Member::new();
    let term = member.elect(1, 1);
    member.release(1, 1, term);
    assert_eq!(tells(&mut member, 2), GivenBack);
    assert_eq!(tells(&mut member, 2), GivenBack, "the answer was lost, and it is asked again");
    let mut member = Member::new();
    let term = member.elect(1, 1);
    member.pass(LEASE);
    assert_eq!(tells(&mut member, 2), Of(term), "it ran out");
    member.release(2, 1, Token::NONE);
    member.release(1, 1, term);
    assert_eq!(tells(&mut member, 3), GivenBack, "which the holder says late");
    let mut member = Member::new();
    let term = member.elect(1, 1);
    member.release(1, 1, term);
    member.restart(false);
    assert!(guard(&member.campaign(2, 1)).is_some());
    member.pass(LEASE);
    assert_eq!(tells(&mut member, 2), Unknown, "its data may be of an earlier time");
    let mut member = Member::new();
    let term = member.elect(1, 1);
    member.release(1, 1, term);
    let term = member.elect(2, 1);
    member.release(2, 1, Token::NONE);
    assert_eq!(tells(&mut member, 3), Of(term), "another was confirmed since");
}

#[test]
fn a_campaign_that_has_heard_of_the_release_is_not_kept_out_by_a_member_that_has_not() {
    let mut member = Member::new();
    let term = member.elect(1, 1);
    let ask = |member: &mut Member, released| {
        let request = CampaignRequest { released: Some(released), ..campaign(2, 1) };
        member.cell.campaign(member.server(), member.lists, &request).unwrap()
    };
    let session = candidate(1, 1).session;
    for other in [(session, token(term.get() + 1)), (candidate(3, 1).session, term)] {
        let (reply, news) = ask(&mut member, other);
        assert!(held(&reply).is_some() && news.is_none(), "another term is none of its business");
    }
    let (reply, news) = ask(&mut member, (session, term));
    assert!(
        matches!(reply, MemberCampaignReply::Granted { last: LastTerm::Of(_), .. }),
        "{reply:?}: it was not told by the holder"
    );
    let news = news.unwrap();
    assert_eq!((news.kind, news.token, news.holder), (AnnouncementKind::Release, term, holder(1)));
    assert_eq!(member.release(1, 1, term), (ReleaseReply::NotHeld, None), "the release itself, late");
    assert!(member.cell.is_held(member.now));

    let mut member = Member::new();
    let term = member.grant(1, 1);
    assert!(held(&ask(&mut member, (session, term)).0).is_some(), "a grant is no term");
}

#[test]
fn without_the_guard_a_restarted_member_grants_at_once() {
    let mut member = Member::new();
    member.restart(true);
    let request = CampaignRequest { guard: false, ..campaign(1, 1) };
    let (reply, _) = member.cell.campaign(member.server(), member.lists, &request).unwrap();
    assert!(matches!(reply, MemberCampaignReply::Granted { .. }));
}

#[test]
fn a_clock_that_is_stepped_back_lengthens_neither_a_guard_nor_a_lease() {
    let mut guarded = Member::new();
    guarded.grant(1, 1);
    guarded.restart(false);
    guarded.pass(LEASE / 2);
    assert!(guard(&guarded.campaign(1, 2)).is_some());
    guarded.step_clock_back(secs(3_600));
    assert_eq!(guard(&guarded.campaign(1, 3)), Some((GuardCause::Generation, LEASE)));

    let mut member = Member::new();
    member.elect(1, 1);
    member.step_clock_back(secs(3_600));
    assert_eq!(held(&member.campaign(2, 1)), Some((holder(1), LEASE, true)));
    member.pass(LEASE);
    assert!(matches!(member.campaign(2, 2), MemberCampaignReply::Granted { .. }), "the dead do not object for an hour");
    member.step_clock_back(secs(3_600));
    assert_eq!(held(&member.campaign(3, 1)), Some((holder(2), LEASE / 3, false)));
}

#[test]
fn a_renewal_extends_its_own_lease_under_whatever_token_it_was_granted() {
    let mut member = Member::new();
    let granted = member.grant(1, 1);
    let term = token(granted.get() - 1);
    assert_eq!(renewed(&member.renew(1, 1, term)), Some(false), "this grant's answer was lost, others made the term");
    member.pass(secs(8));
    let (reply, news) = member.renew(1, 1, term);
    let RenewReply::Renewed { count, reasserted: false, audience: 0 } = reply else { panic!("{reply:?}") };
    let news = news.unwrap();
    assert_eq!((news.kind, news.token, news.count, news.audience), (AnnouncementKind::Heartbeat, term, count, 3));
    assert_eq!(held(&member.campaign(2, 1)), Some((holder(1), LEASE, true)));
}

#[test]
fn the_members_count_together() {
    let mut member = Member::new();
    let term = member.elect(1, 1);
    let ahead = RenewRequest { count: u64::MAX / 2, ..renew(1, 1, term) };
    let (reply, _) = member.cell.renew(member.server(), member.lists, &ahead);
    assert_eq!(reply, RenewReply::Renewed { count: u64::MAX / 2 + 1, reasserted: false, audience: 0 });
    let behind = RenewRequest { count: 1, ..renew(1, 1, term) };
    let (reply, _) = member.cell.renew(member.server(), member.lists, &behind);
    assert_eq!(reply, RenewReply::Renewed { count: u64::MAX / 2 + 2, reasserted: false, audience: 0 });
}

#[test]
fn a_renewal_puts_its_lease_back_over_grants_and_earlier_terms_but_not_over_a_later_one() {
    let mut member = Member::new();
    let earlier = member.elect(2, 1);
    let term = token(earlier.get() + 1);
    assert_eq!(renewed(&member.renew(1, 1, term)), Some(true), "an earlier term's lease, as a stepped clock keeps it");
    assert_eq!(renewed(&member.renew(2, 1, earlier)), None);
    member.pass(LEASE);
    let vain = member.grant(3, 1);
    assert!(vain > term);
    assert_eq!(renewed(&member.renew(1, 1, term)), Some(true), "a grant is only a question");
    assert_eq!(member.raise(3, 1, vain).0, RaiseReply::Gone { token: vain });
    member.pass(LEASE);
    let later = member.elect(4, 1);
    let lost = RenewReply::Lost { token: later, holder: Some(holder(4)) };
    assert_eq!(member.renew(1, 1, term), (lost, None));
}

#[test]
fn a_confirmation_that_came_to_nothing_keeps_no_incumbent_out() {
    let mut member = Member::new();
    let vain = member.elect(2, 1);
    let term = token(vain.get() - 1_000);
    let (reply, news) = member.release(2, 1, Token::NONE);
    assert_eq!((reply, news.map(|news| news.token)), (ReleaseReply::Released, Some(vain)), "it was heard, so this is");
    assert_eq!(renewed(&member.renew(1, 1, term)), Some(true), "elected by others, whose clocks are behind");
    member.pass(LEASE);
    let dead = member.elect(3, 1);
    member.pass(LEASE);
    assert!(dead > term && renewed(&member.renew(1, 1, term)) == Some(true));
}

#[test]
fn without_r4_a_lost_lease_stays_lost() {
    let mut member = Member::under(Rules { reassert: false, ..Rules::QUORUM });
    let term = member.elect(1, 1);
    assert_eq!(renewed(&member.renew(1, 1, term)), Some(false));
    member.pass(LEASE);
    assert_eq!(renewed(&member.renew(1, 1, term)), None);
}

#[test]
fn a_release_frees_its_own_lease_only_and_ends_the_term_for_late_renewals() {
    let mut member = Member::new();
    let term = member.elect(1, 1);
    assert_eq!(member.release(2, 1, term), (ReleaseReply::NotHeld, None), "never another's");
    assert_eq!(member.release(1, 2, term), (ReleaseReply::NotHeld, None), "nor another attempt's");
    assert!(member.cell.is_held(member.now));

    let mut member = Member::new();
    let term = member.elect(1, 1);
    let (reply, news) = member.release(1, 1, term);
    let news = news.unwrap();
    assert_eq!((reply, news.kind, news.token), (ReleaseReply::Released, AnnouncementKind::Release, term));
    assert_eq!(renewed(&member.renew(1, 1, term)), None, "a late renewal");
    assert!(!member.cell.is_held(member.now));
    assert_eq!(renewed(&member.renew(2, 1, token(term.get() + 1))), Some(true), "a later term is another's");
}

#[test]
fn session_and_token_alone_name_the_term_of_a_process_that_has_ended() {
    let mut member = Member::new();
    let term = member.elect(1, 3);
    assert_eq!(member.release(1, 0, Token::NONE).0, ReleaseReply::NotHeld, "one of attempt and token must be told");
    assert_eq!(member.release(2, 0, term).0, ReleaseReply::NotHeld, "never another's");
    assert!(member.cell.is_held(member.now));
    let (reply, news) = member.release(1, 0, term);
    assert_eq!((reply, news.map(|news| news.kind)), (ReleaseReply::Released, Some(AnnouncementKind::Release)));
    assert_eq!(renewed(&member.renew(1, 3, term)), None, "a late renewal");
    member.grant(1, 4);
    assert_eq!(member.release(1, 0, term), (ReleaseReply::Released, None), "what it was granted since, it cannot use");

    let mut member = Member::new();
    let leader = member.elect(2, 1);
    let elsewhere = token(leader.get() + 1);
    assert_eq!(member.release(1, 0, elsewhere).0, ReleaseReply::NotHeld);
    member.cell.evict_lease();
    assert_eq!(renewed(&member.renew(2, 1, leader)), Some(true), "nothing is over where that term never was");
}

#[test]
fn a_release_ends_the_term_on_members_that_never_had_it() {
    let mut member = Member::new();
    let term = token(member.now.0);
    assert_eq!(member.release(1, 1, term).0, ReleaseReply::NotHeld);
    assert_eq!(renewed(&member.renew(1, 1, term)), None);
    assert_eq!(member.release(1, 1, Token::NONE).0, ReleaseReply::NotHeld);
}

#[test]
fn a_grant_that_is_taken_back_is_not_announced() {
    let mut member = Member::new();
    member.grant(1, 1);
    assert_eq!(member.release(1, 1, Token::NONE), (ReleaseReply::Released, None));
    assert!(matches!(member.campaign(2, 1), MemberCampaignReply::Granted { .. }));
}

#[test]
fn a_step_is_the_step_of_its_name() {
    let mut member = Member::new();
    let server = member.server();
    let mut step = |ask| member.cell.step(server, "", &ask).unwrap();
    let (MemberReply::Campaign(MemberCampaignReply::Granted { token, .. }), None) =
        step(MemberRequest::Campaign(campaign(1, 1)))
    else {
        panic!("a grant, and nothing published")
    };
    assert!(matches!(
        step(MemberRequest::Raise(raise(1, 1, token))),
        (MemberReply::Raise(RaiseReply::Raised { .. }), Some(_))
    ));
    assert!(matches!(
        step(MemberRequest::Renew(renew(1, 1, token))),
        (MemberReply::Renew(RenewReply::Renewed { .. }), Some(_))
    ));
    assert_eq!(step(MemberRequest::Release(release(1, 1, token))).0, MemberReply::Release(ReleaseReply::Released));
}

#[test]
fn another_list_of_the_members_is_an_objection_until_a_lease_after_the_last_lease_by_the_first() {
    let unlisted = |reply: MemberCampaignReply| match reply {
        MemberCampaignReply::Unlisted { theirs, remaining, .. } => Some((theirs.to_string(), remaining)),
        _ => None,
    };
    let by = |lists| {
        let mut member = Member::new();
        member.lists = lists;
        member
    };
    // A grant is told for as long as it stands.
    let mut member = by("abc");
    member.grant(1, 1);
    member.lists = "abd";
    assert_eq!(unlisted(member.campaign(2, 1)), Some(("abc".to_owned(), LEASE / 3)));
    // Whoever changes from one to the other gets on with both, and is told of in its turn.
    for lists in ["abc|abd", "abd|abc", ""] {
        let mut member = by("abc");
        member.elect(1, 1);
        member.pass(LEASE);
        member.lists = lists;
        member.grant(2, 1);
    }
    let mut member = by("abc|abd");
    member.elect(1, 1);
    for (lists, agrees) in [("abc", true), ("abd", true), ("abe", false), ("abd|abe", true)] {
        member.lists = lists;
        assert_eq!(unlisted(member.campaign(2, 1)).is_none(), agrees, "{lists}");
    }
    // A lease that ran out, and one that was given back.
    let mut member = by("abc");
    let term = member.elect(1, 1);
    member.pass(LEASE);
    member.lists = "abd";
    assert_eq!(unlisted(member.campaign(2, 1)), Some(("abc".to_owned(), LEASE)));
    member.pass(LEASE);
    member.grant(2, 2);
    let mut member = by("abc");
    let term = member.elect(1, 1).max(term);
    member.release(1, 1, term);
    member.lists = "abd";
    assert_eq!(unlisted(member.campaign(2, 1)), Some(("abc".to_owned(), LEASE)));
    member.step_clock_back(secs(3_600));
    assert_eq!(unlisted(member.campaign(2, 2)), Some(("abc".to_owned(), LEASE * 2)), "no longer than two leases");
    // An incumbent is no question: it is refused by nobody's list.
    let mut member = by("abc");
    let term = member.elect(1, 1);
    member.lists = "abd";
    assert!(renewed(&member.renew(1, 1, term)).is_some());
}
