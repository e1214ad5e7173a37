//! The rules R1, R3, R4, R5, R7 on a real Redis, one by one.

use baton::protocol::GuardCause;
use baton::store::Purge;

use super::support::redis::{Data, RedisServer};
use super::support::resp::Reply;
use super::support::{BOUND, wait_until};
use super::*;

const LEASE_KEY: &str = "baton:{scheduler}:lease";
const RECORD_KEY: &str = "baton:{scheduler}:record";

/// Waits out the guard of a server that has just started, as the role with this lease sees it.
async fn win_after_the_start(store: &RedisStore, session: u128, lease: Duration) -> (Token, u64) {
    let (mut won, mut knowledge) = (None, None);
    support::wait_until_async(BOUND, "the guard of a young server ends", async || {
        let request = CampaignRequest { lease_duration: lease, knowledge, ..ask(session, 1) };
        match campaign(store, request).await {
            CampaignReply::Granted { token, count } => won = Some((token, count)),
            CampaignReply::Guarded { cause: GuardCause::Empty, token, count, .. }
            | CampaignReply::LookAgain { token, count } => knowledge = knows((token, count), ms(0)),
            other => panic!("{other:?}"),
        }
        won.is_some()
    })
    .await;
    won.expect("waited for")
}

#[tokio::test]
async fn a_free_role_is_granted_and_a_held_one_names_its_holder() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    let (token, count) = win(&store, unguarded(1, 1)).await;
    match campaign(&store, unguarded(2, 1)).await {
        CampaignReply::Held { holder, token: theirs, remaining, count: c } => {
            assert_eq!((&*holder.identity, holder.session), ("web-1", SessionId::from_u128(1)));
            assert_eq!((theirs, c), (token, count));
            assert!(remaining <= LEASE && remaining > LEASE / 2, "{remaining:?}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_same_attempt_gets_the_same_token_again_and_a_newer_one_a_new_term() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    let (first, count) = win(&store, unguarded(1, 1)).await;
    assert_eq!(win(&store, unguarded(1, 1)).await, (first, count + 1));
    let (second, _) = win(&store, unguarded(1, 2)).await;
    assert!(second > first);
    match campaign(&store, unguarded(1, 1)).await {
        CampaignReply::Stale { token, .. } => assert_eq!(token, second),
        other => panic!("an older attempt must not disturb a newer one: {other:?}"),
    }
    assert_eq!(
        renew(&store, renewal(1, 1, first)).await,
        RenewReply::Lost {
            token: second,
            holder: Some(baton::protocol::Holder { session: SessionId::from_u128(1), identity: Arc::from("web-1") }),
        }
    );
}

#[tokio::test]
async fn the_same_attempt_gets_the_same_token_again_although_its_lease_ran_out() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    let (token, count) = win(&store, unguarded(1, 1)).await;
    redis.command(&["DEL", LEASE_KEY]);
    assert_eq!(win(&store, ask(1, 1)).await, (token, count + 1));
}

#[tokio::test]
async fn a_campaign_that_was_delayed_past_its_release_is_stale() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    let (token, _) = win(&store, unguarded(1, 1)).await;
    assert_eq!(release(&store, giving_back(1, 1, token)).await, ReleaseReply::Released);
    assert!(matches!(campaign(&store, unguarded(1, 1)).await, CampaignReply::Stale { .. }));
    assert_eq!(redis.command(&["EXISTS", LEASE_KEY]), Reply::Number(0));
}

#[tokio::test]
async fn tokens_rise_above_the_record_the_floor_and_the_clock() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    let stamped = store.campaign(&role(), unguarded(1, 1)).await.expect("an answer");
    let CampaignReply::Granted { token, .. } = stamped.reply else { panic!("{stamped:?}") };
    assert_eq!(token.get(), stamped.store_time.0 + 1, "all 16 digits survive the way out of Lua");
    let floor = Token::new(token.get() + 1_000_000_000_000_000).expect("below 2^53");
    let (second, _) = win(&store, CampaignRequest { floor, ..unguarded(1, 2) }).await;
    assert_eq!(second.get(), floor.get() + 1);
    assert_eq!(win(&store, unguarded(1, 3)).await.0.get(), floor.get() + 2);
}

#[tokio::test]
async fn the_last_token_is_never_exceeded() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    let floor = Token::new(Token::LIMIT - 1).expect("below 2^53");
    let refused = store.campaign(&role(), CampaignRequest { floor, ..unguarded(1, 1) }).await;
    assert!(matches!(refused, Err(StoreError::Refused { reason }) if reason.contains("2^53")));
    assert_eq!(redis.command(&["EXISTS", LEASE_KEY]), Reply::Number(0));
}

#[tokio::test]
async fn an_incumbent_puts_its_lease_back_and_keeps_its_token() {
    let mut redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    let (token, count) = win(&store, unguarded(1, 1)).await;
    redis.restart(Data::Lost);
    until_down(&store, "").await;
    until_up(&store).await;
    match renew(&store, renewal(1, 1, token)).await {
        RenewReply::Renewed { count: next, reasserted: true, .. } => assert!(next > count, "counts go on rising"),
        other => panic!("{other:?}"),
    }
    assert!(matches!(campaign(&store, ask(2, 1)).await, CampaignReply::Held { token: t, .. } if t == token));
}

#[tokio::test]
async fn a_released_term_is_not_put_back() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    let (token, _) = win(&store, unguarded(1, 1)).await;
    assert_eq!(release(&store, giving_back(1, 1, token)).await, ReleaseReply::Released);
    assert_eq!(renew(&store, renewal(1, 1, token)).await, RenewReply::Lost { token, holder: None });
}

#[tokio::test]
async fn a_restart_without_data_guards_the_role_as_empty() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    match campaign(&store, CampaignRequest { knowledge: knows(NOTHING, ms(0)), ..ask(1, 1) }).await {
        CampaignReply::Guarded { cause: GuardCause::Empty, remaining, .. } => {
            assert!(remaining <= LEASE && remaining > LEASE / 2, "{remaining:?}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_server_that_has_run_for_a_lease_delays_no_first_term() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    let lease = ms(100);
    wait_until(BOUND, "the server has run for a while", || {
        let info = redis.command(&["INFO", "server"]).text();
        !["uptime_in_seconds:0\r", "uptime_in_seconds:1\r"].iter().any(|young| info.contains(young))
    })
    .await;
    let request = CampaignRequest { lease_duration: lease, ..ask(1, 1) };
    let CampaignReply::LookAgain { token, count } = campaign(&store, request.clone()).await else { panic!() };
    win(&store, CampaignRequest { knowledge: knows((token, count), ms(50)), ..request }).await;
}

#[tokio::test]
async fn a_restart_with_data_guards_the_role_for_another_generation() {
    let mut redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    let (token, _) = win_after_the_start(&store, 1, ms(100)).await;
    assert_eq!(release(&store, giving_back(1, 1, token)).await, ReleaseReply::Released);
    redis.restart(Data::Kept);
    until_down(&store, "").await;
    until_up(&store).await;
    match campaign(&store, ask(2, 1)).await {
        CampaignReply::Guarded { cause: GuardCause::Generation, remaining, token: t, .. } => {
            assert_eq!(t, token);
            assert!(remaining <= LEASE && remaining > LEASE / 2, "{remaining:?}");
        }
        other => panic!("{other:?}"),
    }
    let (next, _) = win(&store, unguarded(3, 1)).await;
    assert!(next > token, "guard: off does not wait");
}

#[tokio::test]
async fn a_record_below_the_floor_guards_the_role_for_regression() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    let (token, _) = win_after_the_start(&store, 1, ms(100)).await;
    assert_eq!(release(&store, giving_back(1, 1, token)).await, ReleaseReply::Released);
    let floor = Token::new(token.get() + 5_000_000).expect("below 2^53");
    match campaign(&store, CampaignRequest { floor, ..ask(2, 1) }).await {
        CampaignReply::Guarded { cause: GuardCause::Regression, token: t, .. } => {
            assert_eq!(t, token, "of the last term")
        }
        other => panic!("{other:?}"),
    }
    let stored = redis.command(&["HGET", RECORD_KEY, "floor"]).text();
    assert_eq!(stored, floor.to_string(), "the record learned the floor");
    let (next, _) = win(&store, unguarded(3, 1)).await;
    assert!(next > floor, "{next}");
}

#[tokio::test]
async fn a_lease_that_is_gone_without_a_release_guards_the_role_as_vanished() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    let (token, before) = win_after_the_start(&store, 1, LEASE / 60).await;
    let RenewReply::Renewed { count, .. } = renew(&store, renewal(1, 1, token)).await else { panic!("not renewed") };
    assert_eq!(redis.command(&["DEL", LEASE_KEY]), Reply::Number(1));
    assert!(
        matches!(campaign(&store, ask(2, 1)).await, CampaignReply::LookAgain { count: c, .. } if c == count),
        "who knows nothing looks again"
    );
    let late = CampaignRequest { knowledge: knows((token, before), LEASE * 5 / 4), ..ask(3, 1) };
    let early = CampaignRequest { knowledge: knows((token, before), LEASE * 5 / 4 - ms(1)), ..ask(2, 1) };
    assert!(matches!(campaign(&store, early).await, CampaignReply::Guarded { cause: GuardCause::Vanished, .. }));
    assert!(
        matches!(campaign(&store, late).await, CampaignReply::Guarded { cause: GuardCause::Vanished, .. }),
        "the guard holds for everybody"
    );
    match renew(&store, renewal(1, 1, token)).await {
        RenewReply::Renewed { reasserted: true, .. } => {}
        other => panic!("the incumbent may come back meanwhile: {other:?}"),
    }
}

#[tokio::test]
async fn a_lease_that_is_gone_before_its_time_guards_the_role_as_vanished() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    let (token, count) = win_after_the_start(&store, 1, LEASE / 60).await;
    redis.command(&["DEL", LEASE_KEY]);
    let knowledge = Some(Knowledge { token, count, age: ms(10), remaining: ms(1) });
    let reply = campaign(&store, CampaignRequest { knowledge, ..ask(2, 1) }).await;
    assert!(matches!(reply, CampaignReply::Guarded { cause: GuardCause::Vanished, .. }), "{reply:?}");
    redis.command(&["DEL", RECORD_KEY]);
}

#[tokio::test]
async fn a_lease_that_ran_out_and_was_not_renewed_is_free() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    let (token, count) = win_after_the_start(&store, 1, LEASE / 60).await;
    redis.command(&["DEL", LEASE_KEY]);
    let (next, _) = win(&store, CampaignRequest { knowledge: knows((token, count), LEASE), ..ask(2, 1) }).await;
    assert!(next > token);
}

#[tokio::test]
async fn a_holder_that_has_not_renewed_for_its_whole_lease_is_overdue_whatever_the_ttl_says() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    let (token, count) = win_after_the_start(&store, 1, LEASE / 60).await;
    let RenewReply::Renewed { count: renewed, .. } = renew(&store, renewal(1, 1, token)).await else { panic!() };
    assert_eq!(renewed, count + 1);
    redis.command(&["PEXPIRE", LEASE_KEY, "9000000"]);
    let ask = |age| CampaignRequest { lease_duration: ms(100), knowledge: knows((token, renewed), age), ..ask(2, 1) };
    assert!(matches!(campaign(&store, ask(LEASE - ms(1))).await, CampaignReply::Held { .. }));
    let (next, _) = win(&store, ask(LEASE)).await;
    assert!(next > token);
}

#[tokio::test]
async fn nobody_releases_anothers_lease() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    let (token, _) = win(&store, unguarded(1, 2)).await;
    let other = Token::new(token.get() - 1).expect("below 2^53");
    for wrong in
        [giving_back(2, 2, token), giving_back(1, 1, token), giving_back(1, 2, other), giving_back(1, 3, token)]
    {
        assert_eq!(release(&store, wrong).await, ReleaseReply::NotHeld);
    }
    assert_eq!(redis.command(&["EXISTS", LEASE_KEY]), Reply::Number(1));
    assert_eq!(release(&store, giving_back(1, 2, Token::NONE)).await, ReleaseReply::Released, "the reply never came");
    assert_eq!(release(&store, giving_back(1, 2, token)).await, ReleaseReply::NotHeld);
}

#[tokio::test]
async fn a_released_role_is_granted_at_once_to_who_knows_nothing() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    let (token, _) = win_after_the_start(&store, 1, LEASE / 60).await;
    release(&store, giving_back(1, 1, token)).await;
    let (next, _) = win(&store, ask(2, 1)).await;
    assert!(next > token);
}

#[tokio::test]
async fn a_lease_ends_by_itself_and_its_record_stays() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    win(&store, CampaignRequest { lease_duration: ms(100), ..unguarded(1, 1) }).await;
    wait_until(BOUND, "the lease runs out", || redis.command(&["EXISTS", LEASE_KEY]) == Reply::Number(0)).await;
    assert_eq!(redis.command(&["TTL", RECORD_KEY]), Reply::Number(-1));
}

#[tokio::test]
async fn a_role_is_purged_unless_somebody_has_it() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    assert_eq!(store.purge(&role()).await, Ok(Purge::Absent));
    let (token, _) = win(&store, unguarded(1, 1)).await;
    assert_eq!(store.purge(&role()).await, Ok(Purge::InUse));
    release(&store, giving_back(1, 1, token)).await;
    assert_eq!(store.purge(&role()).await, Ok(Purge::Purged));
    assert_eq!(redis.command(&["DBSIZE"]), Reply::Number(0));
}

#[tokio::test]
async fn an_identity_may_hold_spaces_and_any_letters() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    let identity: Arc<str> = Arc::from("web 0 – “naïve” \u{1f680} 日本");
    win(&store, CampaignRequest { identity: Arc::clone(&identity), ..unguarded(1, 1) }).await;
    match campaign(&store, unguarded(2, 1)).await {
        CampaignReply::Held { holder, .. } => assert_eq!(holder.identity, identity),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_flushed_script_cache_is_filled_again_by_itself() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    let (token, _) = win(&store, unguarded(1, 1)).await;
    assert_eq!(redis.command(&["SCRIPT", "FLUSH"]), Reply::Text("OK".to_owned()));
    assert!(matches!(renew(&store, renewal(1, 1, token)).await, RenewReply::Renewed { reasserted: false, .. }));
    redis.command(&["CONFIG", "RESETSTAT"]);
    assert!(matches!(renew(&store, renewal(1, 1, token)).await, RenewReply::Renewed { .. }));
    let stats = redis.command(&["INFO", "commandstats"]).text();
    assert!(stats.contains("cmdstat_evalsha:calls=1") && !stats.contains("cmdstat_eval:"), "{stats}");
}
