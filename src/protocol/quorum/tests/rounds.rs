//! The replica's side: what each combination of answers comes to.

use super::super::super::election::NoReply;
use super::super::super::messages::{CampaignReply, RecordVersion};
use super::super::super::rules::Rules;
use super::*;

/// The question that is out, and whom it went to.
fn asked<R: Round>(round: &mut R) -> (Ballot, Vec<usize>, MemberRequest) {
    match round.poll() {
        Some(RoundStep::Ask { ballot, to, ask }) => (ballot, to, ask),
        _ => panic!("expected a question"),
    }
}

fn told<R: Round>(round: &mut R) -> (Vec<usize>, MemberRequest) {
    match round.poll() {
        Some(RoundStep::Tell { to, ask }) => (to, ask),
        _ => panic!("expected a message"),
    }
}

fn done<R: Round>(round: &mut R) -> Result<R::Reply, NoReply> {
    match round.poll() {
        Some(RoundStep::Done(reply)) => {
            assert!(round.poll().is_none(), "nothing comes after it");
            reply
        }
        _ => panic!("expected the end"),
    }
}

fn silent(member: usize) -> Vote {
    Err(NoReply::new(format!("member {member}: no answer within 500ms")))
}

fn granted(value: u64) -> Vote {
    Ok(MemberReply::Campaign(MemberCampaignReply::Granted { token: token(value), last: LastTerm::Unknown }))
}

/// By a member whose last term was given back.
fn succeeds(value: u64) -> Vote {
    Ok(MemberReply::Campaign(MemberCampaignReply::Granted { token: token(value), last: LastTerm::GivenBack }))
}

/// By a member that knows of this term, and not that it is over.
fn granted_after(term: u64, value: u64) -> Vote {
    let last = LastTerm::Of(token(term));
    Ok(MemberReply::Campaign(MemberCampaignReply::Granted { token: token(value), last }))
}

fn held(session: u128, value: u64, remaining: u64, confirmed: bool) -> Vote {
    let (holder, token) = (holder(session), token(value));
    Ok(MemberReply::Campaign(MemberCampaignReply::Held { holder, token, remaining: secs(remaining), confirmed }))
}

fn guarded(remaining: u64) -> Vote {
    let (cause, token) = (GuardCause::Generation, token(5));
    Ok(MemberReply::Campaign(MemberCampaignReply::Guarded { cause, remaining: secs(remaining), token }))
}

fn raised(count: u64) -> Vote {
    Ok(MemberReply::Raise(RaiseReply::Raised { count }))
}

fn gone(value: u64) -> Vote {
    Ok(MemberReply::Raise(RaiseReply::Gone { token: token(value) }))
}

/// A campaign of replica 5 that has asked everybody and got these answers, in this order.
fn campaigned(seats: Seats, votes: Vec<Vote>) -> CampaignRound {
    let mut round = CampaignRound::new(seats, Rules::QUORUM, campaign(5, 1));
    let (ballot, to, ask) = asked(&mut round);
    assert_eq!((to, ask), (seats.members().collect(), MemberRequest::Campaign(campaign(5, 1))));
    for (member, vote) in votes.into_iter().enumerate() {
        round.answered(ballot, member, vote);
    }
    round
}

/// What a campaign comes to that nobody is elected by. All that was granted is taken back first.
fn failed(seats: Seats, votes: Vec<Vote>) -> Result<CampaignReply, NoReply> {
    let mut round = campaigned(seats, votes);
    taken_back(&mut round, seats);
    done(&mut round)
}

fn taken_back(round: &mut CampaignRound, seats: Seats) {
    let release = ReleaseRequest { audience: 0, ..release(5, 1, Token::NONE) };
    assert_eq!(
        told(round),
        (seats.members().collect(), MemberRequest::Release(release)),
        "without a token: no term ended"
    );
}

const FIVE: Seats = Seats::majority(5);

#[test]
fn a_majority_is_more_than_half_and_all_is_all() {
    let needed = |seats: Seats| (0..=9).find(|many| seats.are_enough(0..*many)).unwrap();
    assert_eq!([1, 2, 3, 4, 5, 7].map(|members| needed(Seats::majority(members))), [1, 2, 2, 3, 3, 4]);
    assert_eq!(needed(Seats::all(5)), 5);
    assert_eq!([3, 4, 5].map(|members| Seats::majority(members).blocking()), [2, 2, 3]);
    assert_eq!((Seats::all(5).blocking(), Seats::majority(5).spare(&[0, 1, 2, 4])), (1, 1));
}

/// [0, 1, 2] becomes [0, 1, 3].
fn replacing() -> Seats {
    Seats::of(&[Seat::Stays, Seat::Stays, Seat::Leaves, Seat::Joins].map(Some), false)
}

#[test]
fn while_the_list_changes_it_takes_a_majority_of_each() {
    let enough: Vec<Vec<usize>> = (0..16_usize)
        .map(|set| (0..4).filter(|member| set & (1 << member) != 0).collect::<Vec<_>>())
        .filter(|who| replacing().are_enough(who.iter().copied()))
        .collect();
    assert_eq!(enough, [vec![0, 1], vec![0, 1, 2], vec![0, 1, 3], vec![0, 2, 3], vec![1, 2, 3], vec![0, 1, 2, 3]]);
    // Each shares a member with each majority of either list: what two lists by themselves do not.
    for list in [[0, 1, 2], [0, 1, 3]] {
        for without in list {
            let majority: Vec<usize> = list.into_iter().filter(|member| *member != without).collect();
            assert!(enough.iter().all(|who| who.iter().any(|member| majority.contains(member))), "{majority:?}");
        }
    }
    assert_eq!(replacing().tell([0, 2], "answer"), "1 of 3 members after the change answer and 2 are needed");
    assert_eq!(replacing().tell([0, 3], "answer"), "1 of 3 members before the change answer and 2 are needed");
    assert_eq!(Seats::majority(3).tell([1], "answer"), "1 of 3 members answer and 2 are needed");
    assert_eq!((replacing().blocking(), replacing().spare(&[0, 1, 2, 3])), (2, 1));
    // One that is of neither list is not asked, and does not count.
    let seats = Seats::of(&[Some(Seat::Stays), None, Some(Seat::Stays), Some(Seat::Stays)], false);
    assert_eq!(seats.members().collect::<Vec<_>>(), [0, 2, 3]);
    assert!(!seats.are_enough([0, 1]) && seats.are_enough([0, 3]));
}

#[test]
fn while_the_list_changes_a_campaign_and_a_renewal_take_a_majority_of_each() {
    let votes = vec![granted(10), silent(1), granted(20), silent(3)];
    let answer = failed(replacing(), votes);
    assert!(matches!(answer, Err(NoReply { reason, .. }) if reason.contains("after the change answer")));
    let mut round = campaigned(replacing(), vec![granted(10), silent(1), granted(20), granted(30)]);
    let (ballot, to, _) = asked(&mut round);
    assert_eq!(to, [0, 2, 3]);
    for (member, vote) in [(0, raised(1)), (2, raised(2))] {
        round.answered(ballot, member, vote);
        assert!(round.poll().is_none(), "a majority of the list before alone");
    }
    round.answered(ballot, 3, raised(3));
    assert_eq!(told(&mut round).0, [1]);
    let votes = vec![renewed(4, false, 2), renewed(4, false, 2)];
    assert!(matches!(renewal(replacing(), votes), Some(Ok(_))));
    let votes = vec![renewed(4, false, 2), silent(1), renewed(4, false, 2)];
    assert_eq!(renewal(replacing(), votes), None);
}

#[test]
fn a_member_that_was_asked_by_another_list_vetoes_and_names_it() {
    let (theirs, remaining) = (Arc::from("a:1, b:1, c:1"), secs(3));
    let unlisted = Ok(MemberReply::Campaign(MemberCampaignReply::Unlisted { theirs, remaining, token: token(5) }));
    let votes = vec![granted(1), granted(2), granted(3), granted(4), unlisted];
    assert!(matches!(failed(FIVE, votes), Err(NoReply { reason, .. }) if reason.contains("a:1, b:1, c:1")));
}

#[test]
fn the_greatest_token_is_the_terms_and_a_majority_that_confirms_it_elects() {
    let votes = vec![granted(30), granted(50), silent(2), granted(40), granted(20)];
    let mut round = campaigned(FIVE, votes);
    let (ballot, to, ask) = asked(&mut round);
    assert_eq!(
        (to, ask),
        (vec![0, 1, 3, 4], MemberRequest::Raise(raise(5, 1, token(50)))),
        "whoever granted, and nobody else"
    );
    for (member, vote) in [(0, raised(7)), (4, gone(60)), (3, raised(9))] {
        round.answered(ballot, member, vote);
        assert!(round.poll().is_none());
    }
    round.answered(ballot, 1, raised(8));
    let first = RenewRequest { count: 8, audience: 0, ..renew(5, 1, token(50)) };
    assert_eq!(told(&mut round), (vec![2], MemberRequest::Renew(first)), "the rest learns of the term at once");
    assert_eq!(done(&mut round), Ok(CampaignReply::Granted { token: token(50), count: 9 }));
}

#[test]
fn whoever_has_a_majority_still_waits_for_every_member() {
    let mut round = campaigned(FIVE, (1..=4).map(granted).collect());
    assert!(round.poll().is_none(), "the last one may object");
}

#[test]
fn one_member_that_knows_of_an_incumbent_outweighs_all_others() {
    let votes = vec![granted(1), granted(2), granted(3), granted(4), held(9, 90, 6, true)];
    let by = |token, remaining| {
        let version = RecordVersion { token, count: 0, writer: Some(holder(9).session) };
        CampaignReply::Held { holder: holder(9), token, remaining: secs(remaining), version }
    };
    assert_eq!(failed(FIVE, votes), Ok(by(token(90), 6)));
    let votes = vec![held(8, 80, 9, true), granted(2), granted(3), granted(4), held(9, 90, 6, true)];
    assert_eq!(failed(FIVE, votes), Ok(by(token(90), 9)), "the newest term, for as long as anybody objects");
    let votes = vec![granted(1), granted(2), granted(3), held(9, 90, 3, false), silent(4)];
    let mut round = campaigned(FIVE, votes);
    assert!(matches!(asked(&mut round).2, MemberRequest::Raise(_)), "a grant to another is no objection");
}

/// The members are not asked at one moment: the second was asked before it confirmed term 6, and the first when its
/// clock had ended what was confirmed there. Who had the second's grant then may be another.
#[test]
fn a_grant_to_another_is_an_objection_where_only_one_who_grants_knows_of_the_newest_term() {
    let three = Seats::majority(3);
    let divided = CampaignReply::Divided { token: token(9), after: None };
    for votes in [
        vec![granted_after(6, 1), held(6, 9, 3, false), granted(2)],
        vec![granted_after(4, 1), held(7, 9, 3, false), granted_after(6, 2)],
    ] {
        assert_eq!(failed(three, votes), Ok(divided.clone()));
    }
    for votes in [
        // One more knows of it: there, too, it is over.
        vec![granted_after(6, 1), held(6, 9, 3, false), granted_after(6, 2)],
        // All who answered grant.
        vec![granted_after(6, 1), granted(2), silent(2)],
        // No term is known that was not given back.
        vec![granted(1), held(6, 9, 3, false), succeeds(2)],
    ] {
        assert!(matches!(asked(&mut campaigned(three, votes)).2, MemberRequest::Raise(_)));
    }
    // A majority knows that the last one is over.
    let votes = vec![succeeds(1), succeeds(2), granted_after(6, 3), held(6, 9, 3, false), succeeds(4)];
    assert!(matches!(asked(&mut campaigned(FIVE, votes)).2, MemberRequest::Raise(_)));
}

#[test]
fn after_a_release_a_majority_that_knows_of_it_elects_whatever_the_others_say() {
    let votes = || vec![succeeds(10), succeeds(20), held(9, 5, 9, true), succeeds(30)];
    assert!(campaigned(FIVE, votes()).poll().is_none(), "the last one may be as quick, and know of another list");
    let mut round = campaigned(FIVE, votes());
    round.hurry();
    let (_, to, ask) = asked(&mut round);
    assert_eq!(
        (to, ask),
        (vec![0, 1, 3], MemberRequest::Raise(raise(5, 1, token(30)))),
        "nobody waits for the last one"
    );
    assert!(campaigned(FIVE, vec![succeeds(1), succeeds(2), granted(3), granted(4)]).poll().is_none());
    let vetoed = vec![succeeds(1), succeeds(2), granted(3), granted(4), held(9, 5, 9, true)];
    assert!(matches!(failed(FIVE, vetoed), Ok(CampaignReply::Held { .. })), "two members alone may both be wrong");
    assert!(campaigned(Seats::all(3), vec![succeeds(1), succeeds(2)]).poll().is_none());
}

#[test]
fn with_objection_switched_off_a_majority_is_enough() {
    let rules = Rules { objection: false, ..Rules::QUORUM };
    let mut round = CampaignRound::new(Seats::majority(3), rules, campaign(5, 1));
    let (ballot, ..) = asked(&mut round);
    for (member, vote) in [granted(1), granted(2), held(9, 90, 6, true)].into_iter().enumerate() {
        round.answered(ballot, member, vote);
    }
    assert!(matches!(asked(&mut round).2, MemberRequest::Raise(_)));
}

#[test]
fn a_token_that_somebody_reported_is_exceeded_though_the_granters_forgot_it() {
    let votes = vec![granted(10), granted(11), granted(12), guarded(3), held(9, 40, 3, false)];
    let mut round = campaigned(FIVE, votes);
    let (_, to, ask) = asked(&mut round);
    assert_eq!((to, ask), (vec![0, 1, 2], MemberRequest::Raise(raise(5, 1, token(41)))));
    let last = Token::LIMIT - 1;
    let votes = vec![granted(10), granted(11), granted(12), silent(3), held(9, last, 3, false)];
    let divided = CampaignReply::Divided { token: token(last), after: None };
    assert_eq!(failed(FIVE, votes), Ok(divided), "there is no greater one");
}

#[test]
fn too_few_answers_are_an_error_that_names_every_member_that_gave_none() {
    let votes = vec![granted(1), held(9, 90, 6, true), silent(2), silent(3), silent(4)];
    let reason = "2 of 5 members answer and 3 are needed: member 2: no answer within 500ms; \
                  member 3: no answer within 500ms; member 4: no answer within 500ms";
    assert_eq!(failed(FIVE, votes), Err(NoReply::new(reason)), "whatever the others know");
    let votes = vec![granted(1), granted(2), silent(2)];
    let reason = "2 of 3 members answer and 3 are needed: member 2: no answer within 500ms";
    assert_eq!(failed(Seats::all(3), votes), Err(NoReply::new(reason)));
}

#[test]
fn guards_that_leave_no_majority_tell_when_enough_members_are_open_again() {
    let shut = |seconds| {
        let (cause, remaining) = (GuardCause::Generation, secs(seconds));
        Ok(CampaignReply::Guarded {
            cause,
            remaining,
            version: RecordVersion { token: token(5), count: 0, writer: None },
        })
    };
    assert_eq!(failed(FIVE, vec![guarded(7), granted(1), guarded(3), granted(2), guarded(9)]), shut(3));
    assert_eq!(failed(FIVE, vec![guarded(7), guarded(3), guarded(9), silent(3), silent(4)]), shut(9));
    assert_eq!(failed(Seats::all(3), vec![guarded(7), guarded(3), granted(1)]), shut(7));
    let few = vec![guarded(7), granted(1), granted(2), held(6, 3, 2, false), held(7, 3, 2, false)];
    assert_eq!(failed(FIVE, few), shut(7), "the guard's end is what is known");
    let one = vec![guarded(7), granted(1), held(6, 3, 2, false), held(7, 3, 2, false), silent(4)];
    assert_eq!(failed(FIVE, one), Ok(CampaignReply::Divided { token: token(5), after: Some(secs(2)) }));
}

#[test]
fn of_those_who_campaign_together_one_is_ahead_and_all_see_the_same() {
    let divided = |after: Option<u64>| Ok(CampaignReply::Divided { token: token(9), after: after.map(secs) });
    let rival = |session, remaining| held(session, 9, remaining, false);
    // By grants…
    assert_eq!(failed(FIVE, vec![granted(1), granted(2), rival(6, 3), rival(7, 3), silent(4)]), divided(None));
    assert_eq!(failed(FIVE, vec![granted(1), rival(6, 1), rival(6, 3), rival(7, 2), silent(4)]), divided(Some(3)));
    // … then by session.
    let votes = |other| vec![granted(1), granted(2), rival(other, 2), rival(other, 3), silent(4)];
    assert_eq!(failed(FIVE, votes(6)), divided(Some(3)));
    assert_eq!(failed(FIVE, votes(4)), divided(None));
}

#[test]
fn a_round_that_cannot_be_won_does_not_wait_for_the_rest() {
    let rival = |session| held(session, 9, 3, false);
    let after = Some(secs(3));
    let divided = CampaignReply::Divided { token: token(9), after };
    // So many said no that the two that are out make no majority.
    assert_eq!(failed(FIVE, vec![rival(6), rival(7), rival(8)]), Ok(divided.clone()));
    // Another is ahead, whatever the one that is out will say.
    assert_eq!(failed(FIVE, vec![granted(1), rival(6), rival(6), silent(3)]), Ok(divided));
    // What is out may still decide for this one: by grants, or by the session, which is smaller.
    for votes in [
        vec![rival(6), rival(6)],
        vec![granted(1), rival(6), rival(6)],
        vec![granted(1), granted(2), rival(6)],
        vec![granted(1), granted(2), rival(4), rival(4)],
    ] {
        assert!(campaigned(FIVE, votes).poll().is_none());
    }
    // Where an incumbent is known of, all are heard: the newest term is the one to follow.
    assert!(campaigned(FIVE, vec![granted(1), held(6, 9, 3, true), rival(7)]).poll().is_none());
    // Members that do not answer do not refuse.
    assert!(campaigned(FIVE, vec![silent(0), silent(1), silent(2)]).poll().is_none());
}

#[test]
fn candidates_that_share_the_quick_members_do_not_wait_for_the_slow_ones() {
    let three = Seats::majority(3);
    let shared = || campaigned(three, vec![granted(1), held(6, 9, 3, false)]);
    assert!(shared().has_a_quorum() && !campaigned(three, vec![granted(1)]).has_a_quorum());
    assert!(shared().poll().is_none(), "the third decides");
    let mut hurried = shared();
    hurried.hurry();
    taken_back(&mut hurried, three);
    let divided = CampaignReply::Divided { token: token(9), after: Some(secs(3)) };
    assert_eq!(done(&mut hurried), Ok(divided), "session 6 is ahead, and comes back first");
    // Whoever is late may object, so that whoever has a majority, or knows of an incumbent, waits for it.
    for (seats, votes) in [
        (three, vec![granted(1), granted(2)]),
        (three, vec![granted(1), held(6, 9, 3, true)]),
        (FIVE, vec![granted(1), granted(2), granted(3), held(6, 9, 3, false)]),
    ] {
        let mut round = campaigned(seats, votes);
        round.hurry();
        assert!(round.poll().is_none());
    }
}

#[test]
fn a_raise_that_fails_takes_everything_back() {
    for (votes, expected) in [
        (vec![raised(1), raised(2), gone(77)], Ok(CampaignReply::Divided { token: token(77), after: None })),
        // Two members have confirmed it, so this token is nobody's again.
        (vec![raised(1), raised(2), gone(1)], Ok(CampaignReply::Divided { token: token(3), after: None })),
        (
            vec![raised(1), silent(1), silent(2)],
            Err("1 of 5 members answer and 3 are needed: member 1: no answer within 500ms; \
                 member 2: no answer within 500ms"),
        ),
    ] {
        let mut round = campaigned(FIVE, vec![granted(1), granted(2), granted(3), silent(3), silent(4)]);
        let (ballot, to, _) = asked(&mut round);
        assert_eq!(to, [0, 1, 2]);
        for (member, vote) in votes.into_iter().enumerate() {
            assert!(round.poll().is_none());
            round.answered(ballot, member, vote);
        }
        taken_back(&mut round, FIVE);
        assert_eq!(done(&mut round), expected.map_err(|reason: &str| NoReply::new(reason)));
    }
}

#[test]
fn late_double_and_unasked_answers_change_nothing() {
    let mut round = CampaignRound::new(Seats::majority(3), Rules::QUORUM, campaign(5, 1));
    let (first, ..) = asked(&mut round);
    round.answered(first, 0, granted(1));
    round.answered(first, 0, held(9, 90, 6, true));
    round.answered(first, 7, granted(9));
    assert!(round.poll().is_none());
    round.answered(first, 1, granted(2));
    round.answered(first, 2, silent(2));
    let (second, to, _) = asked(&mut round);
    assert_eq!(to, [0, 1]);
    round.answered(second, 2, raised(1));
    round.answered(first, 0, raised(1));
    round.answered(second, 0, granted(5));
    round.answered(second, 0, raised(1));
    assert!(round.poll().is_none(), "nobody has confirmed, and member 0 answers once");
    round.answered(second, 1, raised(2));
    taken_back(&mut round, Seats::majority(3));
    assert_eq!(done(&mut round), Ok(CampaignReply::Divided { token: token(5), after: None }));
    round.answered(second, 0, raised(1));
    assert!(round.poll().is_none());
}

fn beaten(value: u64, by: Option<u128>) -> Vote {
    Ok(MemberReply::Renew(RenewReply::Lost { token: token(value), holder: by.map(holder) }))
}

fn renewed(count: u64, reasserted: bool, audience: u32) -> Vote {
    Ok(MemberReply::Renew(RenewReply::Renewed { count, reasserted, audience }))
}

/// A renewal of the term 50 that got these answers; none while it waits for more.
fn renewal(seats: Seats, votes: Vec<Vote>) -> Option<Result<RenewReply, NoReply>> {
    let mut round = RenewRound::new(seats, renew(5, 1, token(50)));
    let (ballot, to, ask) = asked(&mut round);
    assert_eq!((to, ask), (seats.members().collect(), MemberRequest::Renew(renew(5, 1, token(50)))));
    for (member, vote) in votes.into_iter().enumerate() {
        round.answered(ballot, member, vote);
    }
    match round.poll() {
        Some(RoundStep::Done(reply)) => Some(reply),
        None => None,
        Some(other) => panic!("unexpected {other:?}"),
    }
}

#[test]
fn a_renewal_is_done_as_soon_as_enough_members_have_it() {
    let votes = vec![renewed(4, false, 2), renewed(9, true, 1)];
    assert_eq!(renewal(FIVE, votes.clone()), None);
    let votes = [votes, vec![renewed(6, false, 7)]].concat();
    assert_eq!(renewal(FIVE, votes), Some(Ok(RenewReply::Renewed { count: 9, reasserted: true, audience: 7 })));
    assert_eq!(renewal(Seats::all(3), vec![renewed(4, false, 2), renewed(4, false, 2)]), None);
}

#[test]
fn a_term_is_over_when_a_majority_knows_of_a_later_one() {
    let votes = vec![beaten(60, Some(6)), beaten(70, Some(7)), beaten(65, None)];
    assert_eq!(renewal(FIVE, votes), Some(Ok(RenewReply::Lost { token: token(70), holder: Some(holder(7)) })));
    let votes = vec![beaten(60, Some(6)), beaten(70, Some(7)), beaten(50, None), silent(3), renewed(1, false, 0)];
    let reason = "1 of 5 members renewed the lease and 3 are needed: member 3: no answer within 500ms";
    let reply = renewal(FIVE, votes).unwrap();
    assert_eq!(reply, Err(NoReply::new(reason)), "a minority does not end a term");
}

#[test]
fn a_release_waits_for_every_member() {
    let say = |reply| Ok(MemberReply::Release(reply));
    let ended = |votes: Vec<Vote>| {
        let mut round = ReleaseRound::new(Seats::majority(3), release(5, 1, token(50)));
        let (ballot, to, ask) = asked(&mut round);
        assert_eq!((to, ask), (vec![0, 1, 2], MemberRequest::Release(release(5, 1, token(50)))));
        for (member, vote) in votes.into_iter().enumerate() {
            assert!(round.poll().is_none());
            round.answered(ballot, member, vote);
        }
        done(&mut round)
    };
    let (yes, no) = (ReleaseReply::Released, ReleaseReply::NotHeld);
    assert_eq!(ended(vec![say(no), say(yes), silent(2)]), Ok(yes));
    assert_eq!(ended(vec![say(no), say(no), say(no)]), Ok(no));
    let reason = "1 of 3 members answer and 2 are needed: member 1: no answer within 500ms; \
                  member 2: no answer within 500ms";
    assert_eq!(ended(vec![say(yes), silent(1), silent(2)]), Err(NoReply::new(reason)));
}
