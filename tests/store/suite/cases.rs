//! The cases. What exactly a reply's counts are is not theirs: the differential test holds Redis against the reference.

use std::sync::Arc;
use std::time::Duration;

use baton::base::Subscription;
use baton::base::clock::{BootClock, Clock, wall_time};
use baton::protocol::{
    Announcement, AnnouncementKind, Attempt, CampaignReply, CampaignRequest, GuardCause, Holder, Portion,
    PresenceRequest, ReleaseReply, RenewReply, RenewRequest, RoleName, SessionId, Stamped, Token,
};
use baton::store::{LeaseStore, News, StoreError};
use testkit::wait_until_async;

use super::stage::PATIENCE;
use super::{Case, Fault, Stage};
use crate::requests::{LEASE, NOTHING, ask, giving_back, knows, ms, renewal, unguarded, version_of};

/// Lists the cases, each with the faults that it needs and the rules whose stores it concerns.
macro_rules! cases {
    ($($name:ident $([$($fault:ident),+])? $(if $rules:ident $concerns:expr)?;)+) => {
        /// Every case, in the order in which they run.
        pub const ALL: &[Case] = &[$(
            Case {
                name: stringify!($name),
                needs: &[$($(Fault::$fault),+)?],
                concerns: cases!(@concerns $($rules $concerns)?),
                test: |stage| Box::pin($name(stage)),
            },
        )+];
    };
    (@concerns) => { |_| true };
    (@concerns $rules:ident $concerns:expr) => { |$rules| $concerns };
}

cases! {
    r5_a_young_server_that_knows_nothing_guards_the_role_as_empty [YoungServer] if rules rules.generation;
    r1_a_free_role_is_granted_and_a_held_one_names_its_holder;
    r1_the_same_attempt_gets_the_same_token_and_a_newer_one_a_new_term if rules rules.repeat;
    r1_the_same_attempt_gets_the_same_token_although_its_lease_is_gone [LeaseGone]
        if rules rules.repeat && !rules.fresh_repeat;
    r1_the_same_attempt_gets_a_new_token_once_its_lease_is_gone [LeaseGone] if rules rules.repeat && rules.fresh_repeat;
    r1_an_older_attempt_gets_nothing_and_harms_nothing;
    r1_a_campaign_that_was_delayed_past_its_release_is_stale if rules rules.repeat;
    r2_a_lease_lasts_for_as_long_as_was_asked_counted_from_the_request;
    r3_tokens_begin_at_the_stores_clock_and_rise_above_the_record_and_the_floor if rules rules.tokens;
    r3_the_last_token_is_never_exceeded if rules rules.tokens;
    r4_an_incumbent_puts_back_a_lease_that_is_gone_and_keeps_its_token [LeaseGone] if rules rules.reassert;
    r4_an_incumbent_puts_back_a_lease_that_was_forgotten_and_keeps_its_token [AllForgotten] if rules rules.reassert;
    r4_a_released_term_is_not_put_back if rules rules.reassert;
    r5_a_record_below_the_floor_guards_the_role_as_regression if rules rules.tokens && !rules.objection;
    r5_a_lease_that_is_gone_without_a_release_guards_the_role_as_vanished [LeaseGone] if rules rules.vanished;
    r5_a_lease_that_ran_out_although_it_was_renewed_a_moment_ago_guards_the_role_as_vanished if rules rules.vanished;
    r5_a_lease_that_ran_out_and_was_not_renewed_is_free if rules rules.vanished;
    r6_a_grant_and_a_renewal_count_only_with_their_acknowledgements [ReplicasSilent];
    r6_the_attempt_whose_grant_was_not_acknowledged_finds_it_once_it_is [ReplicasSilent];
    r7_nobody_releases_anothers_lease;
    r7_a_released_role_is_granted_at_once_to_who_knows_nothing;
    r7_the_lease_of_a_process_that_has_ended_is_given_back_by_session_and_token;
    r8_a_listener_is_told_to_look_first if rules rules.heartbeats;
    r8_grants_heartbeats_and_releases_are_heard_in_order if rules rules.heartbeats;
    r8_a_holder_that_is_silent_for_its_whole_lease_is_overdue_whatever_the_ttl_says [LeaseStretched]
        if rules rules.heartbeats;
    those_who_take_part_in_shards_are_told_of_each_other_for_as_long_as_they_say_so if rules rules.listening;
    r4_r5_another_server_keeps_the_incumbent_and_guards_the_role_as_generation [AnotherServer]
        if rules rules.reassert && rules.generation;
}

async fn r1_a_free_role_is_granted_and_a_held_one_names_its_holder(stage: &mut Stage) {
    let (token, count) = stage.win(unguarded(1, 1)).await;
    match stage.campaign(unguarded(2, 1)).await {
        CampaignReply::Held { holder, token: theirs, remaining, version } => {
            let c = version.count;
            assert_eq!((&*holder.identity, holder.session), ("web-1", SessionId::from_u128(1)));
            assert_eq!(theirs, token);
            // The members of a quorum count each for itself, but for renewals; who leads there is told without a count.
            assert!(c == count || stage.store().rules().objection, "{c}, not {count}");
            assert!(remaining <= LEASE && remaining > LEASE / 2, "{remaining:?}");
        }
        other => panic!("{other:?}"),
    }
}

async fn r1_the_same_attempt_gets_the_same_token_and_a_newer_one_a_new_term(stage: &mut Stage) {
    let (first, count) = stage.win(unguarded(1, 1)).await;
    let (again, next) = stage.win(unguarded(1, 1)).await;
    assert!(again == first && next >= count, "{again} after {first}, {next} after {count}");
    let (second, _) = stage.win(unguarded(1, 2)).await;
    assert!(second > first);
    let stale = stage.campaign(unguarded(1, 1)).await;
    assert!(matches!(stale, CampaignReply::Stale { token, .. } if token == second), "{stale:?}");
    assert_eq!(stage.renew(renewal(1, 1, first)).await, RenewReply::Lost { token: second, holder: Some(web_1()) });
}

async fn r1_the_same_attempt_gets_the_same_token_although_its_lease_is_gone(stage: &mut Stage) {
    let (token, count) = stage.win(unguarded(1, 1)).await;
    stage.inflict(Fault::LeaseGone).await;
    let (again, next) = stage.win(ask(1, 1)).await;
    assert!(again == token && next > count, "{again} after {token}, {next} after {count}");
}

async fn r1_the_same_attempt_gets_a_new_token_once_its_lease_is_gone(stage: &mut Stage) {
    let (token, _) = stage.win_and_renew(1).await;
    stage.inflict(Fault::LeaseGone).await;
    let (next, _) = stage.win(ask(1, 1)).await;
    assert!(next > token, "{next} after {token}: others may have come in between");
}

async fn r1_an_older_attempt_gets_nothing_and_harms_nothing(stage: &mut Stage) {
    let (first, _) = stage.win(unguarded(1, 1)).await;
    let (second, _) = stage.win(unguarded(1, 2)).await;
    assert!(second > first);
    let older = stage.store().campaign(stage.role(), unguarded(1, 1)).await.map(|stamped| stamped.reply);
    assert!(!matches!(older, Ok(CampaignReply::Granted { .. })), "{older:?}");
    assert!(matches!(stage.renew(renewal(1, 1, first)).await, RenewReply::Lost { .. }));
    assert_eq!(stage.release(giving_back(1, 1, first)).await, ReleaseReply::NotHeld);
    assert!(matches!(stage.renew(renewal(1, 2, second)).await, RenewReply::Renewed { reasserted: false, .. }));
}

async fn r1_a_campaign_that_was_delayed_past_its_release_is_stale(stage: &mut Stage) {
    let (token, _) = stage.win(unguarded(1, 1)).await;
    assert_eq!(stage.release(giving_back(1, 1, token)).await, ReleaseReply::Released);
    assert!(matches!(stage.campaign(unguarded(1, 1)).await, CampaignReply::Stale { .. }));
    stage.win(unguarded(2, 1)).await;
}

async fn r2_a_lease_lasts_for_as_long_as_was_asked_counted_from_the_request(stage: &mut Stage) {
    let lease = ms(300);
    let sent_at = BootClock.now();
    stage.win(CampaignRequest { lease_duration: lease, ..unguarded(1, 1) }).await;
    let mut attempt = 0;
    wait_until_async(PATIENCE, "the lease is over", async || {
        attempt += 1;
        matches!(stage.campaign(unguarded(2, attempt)).await, CampaignReply::Granted { .. })
    })
    .await;
    let lasted = BootClock.now().since(sent_at);
    assert!(lasted >= lease, "a deadline within the lease was passed over: {lasted:?}");
}

async fn r3_tokens_begin_at_the_stores_clock_and_rise_above_the_record_and_the_floor(stage: &mut Stage) {
    let stamped = stage.store().campaign(stage.role(), unguarded(1, 1)).await.expect("an answer");
    let CampaignReply::Granted { token, .. } = stamped.reply else { panic!("{stamped:?}") };
    // A quorum has as many clocks as members, and tells a time of its own.
    let ours_us = u64::try_from(wall_time().as_microsecond()).expect("after 1970");
    let clock_us = if stage.store().rules().objection { ours_us } else { stamped.store_time.0 };
    let apart_us = token.get().abs_diff(clock_us);
    assert!(apart_us < 60_000_000, "{token} is {apart_us} us from the store's clock, {clock_us}");
    let floor = Token::new(token.get() + 1_000_000_000_000_000).expect("below 2^53");
    let (second, _) = stage.win(CampaignRequest { floor, ..unguarded(1, 2) }).await;
    assert!(second > floor, "{second} is not above the floor, {floor}");
    let (third, _) = stage.win(unguarded(1, 3)).await;
    assert!(third > second, "{third} is not above the record's, {second}");
}

async fn r3_the_last_token_is_never_exceeded(stage: &mut Stage) {
    let floor = Token::new(Token::LIMIT - 1).expect("below 2^53");
    let refused = stage.store().campaign(stage.role(), CampaignRequest { floor, ..unguarded(1, 1) }).await;
    assert!(matches!(refused, Err(StoreError::Refused { reason }) if reason.contains("2^53")));
    stage.win(unguarded(2, 1)).await;
}

async fn r4_an_incumbent_puts_back_a_lease_that_is_gone_and_keeps_its_token(stage: &mut Stage) {
    puts_back_after(stage, Fault::LeaseGone).await;
}

async fn r4_an_incumbent_puts_back_a_lease_that_was_forgotten_and_keeps_its_token(stage: &mut Stage) {
    puts_back_after(stage, Fault::AllForgotten).await;
}

async fn puts_back_after(stage: &mut Stage, fault: Fault) {
    let (token, count) = stage.win(unguarded(1, 1)).await;
    stage.inflict(fault).await;
    match stage.renew(RenewRequest { count, ..renewal(1, 1, token) }).await {
        RenewReply::Renewed { count: next, reasserted: true, .. } => assert!(next > count, "counts go on rising"),
        other => panic!("{other:?}"),
    }
    let next = stage.campaign(ask(2, 1)).await;
    assert!(matches!(next, CampaignReply::Held { token: t, .. } if t == token), "{next:?}");
}

async fn r4_a_released_term_is_not_put_back(stage: &mut Stage) {
    let (token, _) = stage.win(unguarded(1, 1)).await;
    assert_eq!(stage.release(giving_back(1, 1, token)).await, ReleaseReply::Released);
    let renewed = stage.store().renew(stage.role(), renewal(1, 1, token)).await.map(|stamped| stamped.reply);
    // A quorum only says that a term is over when enough members know of a later one.
    let is_refused = stage.store().rules().objection && matches!(renewed, Err(StoreError::Refused { .. }));
    assert!(is_refused || renewed == Ok(RenewReply::Lost { token, holder: None }), "{renewed:?}");
}

async fn r4_r5_another_server_keeps_the_incumbent_and_guards_the_role_as_generation(stage: &mut Stage) {
    let (token, _) = stage.win_and_renew(1).await;
    stage.inflict(Fault::AnotherServer).await;
    assert!(matches!(stage.renew(renewal(1, 1, token)).await, RenewReply::Renewed { .. }), "the incumbent stays");
    assert_eq!(stage.release(giving_back(1, 1, token)).await, ReleaseReply::Released);
    match stage.campaign(ask(2, 1)).await {
        CampaignReply::Guarded { cause: GuardCause::Generation, remaining, version } => {
            assert_eq!((version.token, version.writer), (token, None));
            assert!(remaining <= LEASE && remaining > LEASE / 2, "{remaining:?}");
        }
        other => panic!("{other:?}"),
    }
    assert!(stage.win(unguarded(3, 1)).await.0 > token, "guard: off does not wait");
}

async fn r5_a_young_server_that_knows_nothing_guards_the_role_as_empty(stage: &mut Stage) {
    // Longer than any test runs.
    let lease = Duration::from_secs(3600);
    let request = CampaignRequest { knowledge: knows(NOTHING, ms(0)), lease_duration: lease, ..ask(1, 1) };
    match stage.campaign(request).await {
        CampaignReply::Guarded { cause: GuardCause::Empty, remaining, .. } => {
            assert!(remaining <= lease && remaining > lease / 2, "{remaining:?}");
        }
        other => panic!("{other:?}"),
    }
}

async fn r5_a_record_below_the_floor_guards_the_role_as_regression(stage: &mut Stage) {
    let (token, _) = stage.win_guarded(1, ms(100)).await;
    stage.release(giving_back(1, 1, token)).await;
    let floor = Token::new(token.get() + 5_000_000).expect("below 2^53");
    match stage.campaign(CampaignRequest { floor, ..ask(2, 1) }).await {
        CampaignReply::Guarded { cause: GuardCause::Regression, version, .. } => {
            assert_eq!(version.token, token, "of the last term");
        }
        other => panic!("{other:?}"),
    }
    let (next, _) = stage.win(unguarded(3, 1)).await;
    assert!(next > floor, "the store learned the floor: {next}");
}

async fn r5_a_lease_that_is_gone_without_a_release_guards_the_role_as_vanished(stage: &mut Stage) {
    let (token, count) = stage.win_and_renew(1).await;
    stage.inflict(Fault::LeaseGone).await;
    for knowledge in [None, knows(version_of(1, (token, count)), LEASE)] {
        let guarded = stage.campaign(CampaignRequest { knowledge, ..ask(2, 1) }).await;
        let CampaignReply::Guarded { cause: GuardCause::Vanished, remaining, .. } = guarded else {
            panic!("{guarded:?}")
        };
        assert!(remaining <= LEASE && remaining > LEASE / 2, "until it would have ended: {remaining:?}");
    }
    let renewed = stage.renew(renewal(1, 1, token)).await;
    assert!(
        matches!(renewed, RenewReply::Renewed { reasserted: true, .. }),
        "the incumbent may come back: {renewed:?}"
    );
}

/// A lease that has ended by its TTL: who knows nothing is told to look again.
async fn let_a_lease_run_out(stage: &mut Stage) -> (Token, u64) {
    let (token, count) = stage.win_guarded(1, LEASE / 60).await;
    wait_until_async(PATIENCE, "the lease runs out", async || match stage.campaign(ask(2, 1)).await {
        CampaignReply::LookAgain { version, .. } => version.count == count,
        CampaignReply::Held { .. } => false,
        other => panic!("{other:?}"),
    })
    .await;
    (token, count)
}

async fn r5_a_lease_that_ran_out_although_it_was_renewed_a_moment_ago_guards_the_role_as_vanished(stage: &mut Stage) {
    let (token, count) = let_a_lease_run_out(stage).await;
    let early =
        CampaignRequest { knowledge: knows(version_of(1, (token, count - 1)), LEASE * 5 / 4 - ms(1)), ..ask(2, 1) };
    let guarded = stage.campaign(early).await;
    assert!(matches!(guarded, CampaignReply::Guarded { cause: GuardCause::Vanished, .. }), "{guarded:?}");
}

async fn r5_a_lease_that_ran_out_and_was_not_renewed_is_free(stage: &mut Stage) {
    let (token, count) = let_a_lease_run_out(stage).await;
    let (next, _) =
        stage.win(CampaignRequest { knowledge: knows(version_of(1, (token, count)), LEASE), ..ask(2, 1) }).await;
    assert!(next > token);
}

async fn r6_a_grant_and_a_renewal_count_only_with_their_acknowledgements(stage: &mut Stage) {
    let (role, store) = (stage.role().clone(), stage.acknowledged().await);
    let mut won = None;
    wait_until_async(PATIENCE, "an acknowledged grant", async || {
        if let Ok(Stamped { reply: CampaignReply::Granted { token, .. }, .. }) =
            store.campaign(&role, unguarded(1, 1)).await
        {
            won = Some(token);
        }
        won.is_some()
    })
    .await;
    let token = won.expect("waited for");
    stage.inflict(Fault::ReplicasSilent).await;
    for _ in 0..3 {
        let renewed = store.renew(&role, renewal(1, 1, token)).await;
        assert!(renewed.is_err(), "nobody acknowledged it: {renewed:?}");
    }
    stage.relieve(Fault::ReplicasSilent).await;
    wait_until_async(PATIENCE, "an acknowledged renewal", async || {
        let renewed = store.renew(&role, renewal(1, 1, token)).await.map(|stamped| stamped.reply);
        assert!(!matches!(renewed, Ok(RenewReply::Lost { .. })), "the term stands: {renewed:?}");
        renewed.is_ok()
    })
    .await;
}

async fn r6_the_attempt_whose_grant_was_not_acknowledged_finds_it_once_it_is(stage: &mut Stage) {
    let (role, store) = (stage.role().clone(), stage.acknowledged().await);
    stage.inflict(Fault::ReplicasSilent).await;
    for _ in 0..3 {
        let granted = store.campaign(&role, unguarded(1, 1)).await;
        assert!(granted.is_err(), "nobody acknowledged it: {granted:?}");
    }
    // What is not a success may be there all the same; that others have it needs no acknowledgement.
    let held = wait_for_held(&store, &role).await;
    stage.relieve(Fault::ReplicasSilent).await;
    wait_until_async(PATIENCE, "the same attempt is granted the same term", async || {
        match store.campaign(&role, unguarded(1, 1)).await.map(|stamped| stamped.reply) {
            Ok(CampaignReply::Granted { token, .. }) => {
                assert_eq!(token, held);
                true
            }
            Ok(other) => panic!("{other:?}"),
            Err(_) => false,
        }
    })
    .await;
}

/// The token of a term that another sees.
async fn wait_for_held(store: &Arc<dyn LeaseStore>, role: &RoleName) -> Token {
    let mut held = None;
    wait_until_async(PATIENCE, "another is told who has it", async || {
        // Behind Sentinels the connection is given up when acknowledgements stay away, and made again.
        match store.campaign(role, ask(2, 1)).await.map(|stamped| stamped.reply) {
            Ok(CampaignReply::Held { token, .. }) => held = Some(token),
            Ok(other) => panic!("{other:?}"),
            Err(_) => {}
        }
        held.is_some()
    })
    .await;
    held.expect("waited for")
}

async fn r7_nobody_releases_anothers_lease(stage: &mut Stage) {
    let (token, _) = stage.win(unguarded(1, 2)).await;
    let other = Token::new(token.get() - 1).expect("below 2^53");
    for wrong in
        [giving_back(2, 2, token), giving_back(1, 1, token), giving_back(1, 2, other), giving_back(1, 3, token)]
    {
        assert_eq!(stage.release(wrong).await, ReleaseReply::NotHeld);
    }
    assert!(matches!(stage.campaign(ask(2, 1)).await, CampaignReply::Held { .. }));
    assert_eq!(stage.release(giving_back(1, 2, Token::NONE)).await, ReleaseReply::Released, "the reply never came");
    assert_eq!(stage.release(giving_back(1, 2, token)).await, ReleaseReply::NotHeld);
}

async fn r7_a_released_role_is_granted_at_once_to_who_knows_nothing(stage: &mut Stage) {
    let (token, _) = stage.win_guarded(1, LEASE / 60).await;
    assert_eq!(stage.release(giving_back(1, 1, token)).await, ReleaseReply::Released);
    assert!(stage.win(ask(2, 1)).await.0 > token);
}

async fn r7_the_lease_of_a_process_that_has_ended_is_given_back_by_session_and_token(stage: &mut Stage) {
    let (token, _) = stage.win(unguarded(1, 2)).await;
    let (any, other) = (Attempt::ANY.0, Token::new(token.get() - 1).expect("below 2^53"));
    for wrong in [giving_back(2, any, token), giving_back(1, any, other), giving_back(1, any, Token::NONE)] {
        assert_eq!(stage.release(wrong).await, ReleaseReply::NotHeld);
    }
    assert!(matches!(stage.renew(renewal(1, 2, token)).await, RenewReply::Renewed { reasserted: false, .. }));
    assert_eq!(stage.release(giving_back(1, any, token)).await, ReleaseReply::Released);
    let late = stage.store().renew(stage.role(), renewal(1, 2, token)).await.map(|stamped| stamped.reply);
    assert!(!matches!(late, Ok(RenewReply::Renewed { .. })), "one that was on its way: {late:?}");
    assert_eq!(stage.release(giving_back(1, any, token)).await, ReleaseReply::NotHeld, "another's, a moment later");
    let (later, _) = stage.win(unguarded(3, 1)).await;
    assert!(later > token);
    assert_eq!(stage.release(giving_back(1, any, token)).await, ReleaseReply::NotHeld);
    // What it had asked for before it ended is granted late, and given back as well.
    assert_eq!(stage.release(giving_back(3, 1, later)).await, ReleaseReply::Released);
    let (last, _) = stage.win(unguarded(1, 3)).await;
    assert_eq!(stage.release(giving_back(1, any, last)).await, ReleaseReply::Released);
}

async fn r8_a_listener_is_told_to_look_first(stage: &mut Stage) {
    let mut news = stage.store().subscribe(stage.role(), None);
    assert_eq!(heard(&mut news).await, News::Gap);
    stage.win(unguarded(1, 1)).await;
    // And again whoever comes later.
    assert_eq!(heard(&mut stage.store().subscribe(stage.role(), None)).await, News::Gap);
}

async fn r8_grants_heartbeats_and_releases_are_heard_in_order(stage: &mut Stage) {
    // The members of a quorum count each by itself at first, and a majority's word is told by one of them.
    let counts_apart = stage.store().rules().objection;
    let mut news = stage.store().subscribe(stage.role(), None);
    assert_eq!(heard(&mut news).await, News::Gap);
    // Each is heard before the next is said: of members that are heard late, a quorum passes on only what counts by
    // then.
    let (token, granted) = stage.win(unguarded(1, 1)).await;
    let grant = said(&mut news).await;
    assert_eq!((grant.kind, grant.token, grant.holder), (AnnouncementKind::Grant, token, web_1()));
    assert!(grant.count == granted || counts_apart, "{}, not {granted}", grant.count);
    let renewal = RenewRequest { count: granted, ..renewal(1, 1, token) };
    let RenewReply::Renewed { count: renewed, .. } = stage.renew(renewal).await else { panic!("lost") };
    assert!(renewed > granted, "the count rises with every renewal: {renewed} after {granted}");
    let beat = said(&mut news).await;
    assert_eq!((beat.kind, beat.token, beat.holder), (AnnouncementKind::Heartbeat, token, web_1()));
    assert!(beat.count == renewed || counts_apart, "{}, not {renewed}", beat.count);
    assert_eq!(stage.release(giving_back(1, 1, token)).await, ReleaseReply::Released);
    let end = said(&mut news).await;
    assert_eq!((end.kind, end.token, end.holder), (AnnouncementKind::Release, token, web_1()));
    assert!(end.count > renewed || counts_apart, "and with a release");
}

async fn heard(news: &mut Subscription<News>) -> News {
    let heard = tokio::time::timeout(PATIENCE, news.recv()).await;
    heard.expect("news in time").expect("the store lives")
}

async fn said(news: &mut Subscription<News>) -> Announcement {
    match heard(news).await {
        News::Said(said) => *said,
        News::Gap => panic!("a gap where nothing broke"),
    }
}

fn web_1() -> Holder {
    Holder { session: SessionId::from_u128(1), identity: Arc::from("web-1") }
}

async fn r8_a_holder_that_is_silent_for_its_whole_lease_is_overdue_whatever_the_ttl_says(stage: &mut Stage) {
    let (token, count) = stage.win_and_renew(1).await;
    stage.inflict(Fault::LeaseStretched).await;
    let version = version_of(1, (token, count));
    let ask = |age| CampaignRequest { lease_duration: ms(100), knowledge: knows(version, age), ..ask(2, 1) };
    assert!(matches!(stage.campaign(ask(LEASE - ms(1))).await, CampaignReply::Held { .. }));
    assert!(stage.win(ask(LEASE)).await.0 > token);
}

/// Kept where one server's word is enough; the configuration refuses shards on other stores.
async fn those_who_take_part_in_shards_are_told_of_each_other_for_as_long_as_they_say_so(stage: &mut Stage) {
    let store = stage.presence();
    let set = |shards: &[u16]| shards.iter().copied().collect();
    let portion = |leads: &[u16], shuns: &[u16]| Some(Portion { leads: set(leads), shuns: set(shuns), rank: None });
    let note = async |number: u128, portion, span| {
        let request = PresenceRequest { session: SessionId::from_u128(number), portion, span };
        let members = store.presence(stage.role(), request).await.expect("an answer");
        members.into_iter().map(|member| (member.session, member.portion)).collect::<Vec<_>>()
    };
    let member = |number: u128, portion: Option<Portion>| (SessionId::from_u128(number), portion.expect("one"));
    let long = Duration::from_secs(600);
    let (one, two) = (portion(&[0, 255], &[]), portion(&[64], &[0, 1]));
    assert_eq!(note(3, None, long).await, [], "who takes no part is told who does");
    assert_eq!(note(2, two, long).await, [member(2, two)]);
    assert_eq!(note(1, one, long).await, [member(1, one), member(2, two)], "in the order of their sessions");
    assert_eq!(note(2, one, long).await, [member(1, one), member(2, one)], "the last word counts");
    assert_eq!(note(1, None, long).await, [member(2, one)]);
    note(2, two, ms(300)).await;
    wait_until_async(PATIENCE, "its time is over", async || note(3, None, long).await.is_empty()).await;
    let other = RoleName::new("another").expect("a label");
    let request = PresenceRequest { session: SessionId::from_u128(1), portion: one, span: long };
    assert_eq!(store.presence(&other, request).await.map(|members| members.len()), Ok(1), "each role has its own");
    let leave = PresenceRequest { portion: None, ..request };
    assert_eq!(store.presence(&other, leave).await, Ok(Vec::new()));
}
