//! What the rules mean for one Redis in particular; the rules themselves are in `conformance`.

use baton::protocol::GuardCause;
use baton::store::Purge;
use testkit::redis::{Data, RedisServer};
use testkit::resp::Reply;
use testkit::{BOUND, wait_until};

use super::*;

const LEASE_KEY: &str = "baton:{scheduler}:lease";
const RECORD_KEY: &str = "baton:{scheduler}:record";

/// Waits out the guard of a server that has just started, as the role with this lease sees it.
pub async fn win_after_the_start(store: &RedisStore, session: u128, lease: Duration) -> (Token, u64) {
    let (mut won, mut knowledge) = (None, None);
    testkit::wait_until_async(BOUND, "the guard ends", async || {
        let request = CampaignRequest { lease_duration: lease, knowledge, ..ask(session, 1) };
        match campaign(store, request).await {
            CampaignReply::Granted { token, count } => won = Some((token, count)),
            CampaignReply::Guarded { version, .. } | CampaignReply::LookAgain { version, .. } => {
                knowledge = knows_for(version, lease)
            }
            other => panic!("{other:?}"),
        }
        won.is_some()
    })
    .await;
    won.expect("waited for")
}

/// The same, and gives the role back: again, where its lease ended first because the machine was busy.
pub async fn free_after_the_start(store: &RedisStore, session: u128, lease: Duration) -> (Token, u64) {
    let mut given_back = None;
    testkit::wait_until_async(BOUND, "the role is given back while its lease stands", async || {
        let (token, count) = win_after_the_start(store, session, lease).await;
        let reply = release(store, giving_back(session, 1, token)).await;
        given_back = (reply == ReleaseReply::Released).then_some((token, count));
        given_back.is_some()
    })
    .await;
    given_back.expect("waited for")
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
async fn after_a_flush_nobody_new_is_granted_for_a_lease_however_long_the_server_is_up() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    win_after_the_start(&store, 1, ms(300)).await;
    let (token, _) = win(&store, ask(1, 2)).await;
    assert_eq!(release(&store, giving_back(1, 2, token)).await, ReleaseReply::Released);
    redis.command(&["FLUSHALL"]);
    let CampaignReply::Guarded { cause, remaining, .. } = campaign(&store, ask(2, 1)).await else { panic!() };
    assert_eq!(cause, GuardCause::Empty);
    assert!(remaining <= LEASE && remaining > LEASE / 2, "{remaining:?}");
}

#[tokio::test]
async fn a_record_below_the_floor_guards_the_role_for_regression() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    win_after_the_start(&store, 1, ms(100)).await;
    let (token, _) = win(&store, ask(1, 2)).await;
    assert_eq!(release(&store, giving_back(1, 2, token)).await, ReleaseReply::Released);
    let floor = Token::new(token.get() + 5_000_000).expect("below 2^53");
    match campaign(&store, CampaignRequest { floor, ..ask(2, 1) }).await {
        CampaignReply::Guarded { cause: GuardCause::Regression, version: RecordVersion { token: t, .. }, .. } => {
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
async fn a_lease_that_is_gone_before_its_time_guards_the_role_as_vanished() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    let (token, count) = win_after_the_start(&store, 1, LEASE / 60).await;
    redis.command(&["DEL", LEASE_KEY]);
    let knowledge = Some(KnownRecord {
        version: version_of(1, (token, count)),
        age: ms(10),
        unchanged_for: ms(10),
        remaining: ms(1),
    });
    let reply = campaign(&store, CampaignRequest { knowledge, ..ask(2, 1) }).await;
    assert!(matches!(reply, CampaignReply::Guarded { cause: GuardCause::Vanished, .. }), "{reply:?}");
    redis.command(&["DEL", RECORD_KEY]);
}

/// A TTL is counted in whole milliseconds, and may end a little before the moment that the record remembers.
#[tokio::test]
async fn a_lease_that_is_gone_within_the_rounding_of_its_ttl_has_not_vanished() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    win_after_the_start(&store, 1, ms(100)).await;
    let version = version_of(1, win(&store, ask(1, 2)).await);
    let known = KnownRecord { version, age: LEASE * 2, unchanged_for: LEASE / 2, remaining: Duration::ZERO };
    redis.command(&["DEL", LEASE_KEY]);
    redis.command(&["HSET", RECORD_KEY, "until", &(now_us(&redis) + 1_000).to_string()]);
    let reply = campaign(&store, CampaignRequest { knowledge: Some(known), ..ask(2, 1) }).await;
    assert!(matches!(reply, CampaignReply::LookAgain { .. }), "{reply:?}");
}

#[tokio::test]
async fn the_last_token_is_granted_and_none_after_it() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    let floor = Token::new(Token::LIMIT - 2).expect("below 2^53");
    let (token, _) = win(&store, CampaignRequest { floor, ..unguarded(1, 1) }).await;
    assert_eq!(token.get(), Token::LIMIT - 1);
    release(&store, giving_back(1, 1, token)).await;
    let refused = store.campaign(&role(), unguarded(2, 1)).await;
    assert!(matches!(&refused, Err(StoreError::Refused { reason }) if reason.contains("2^53")), "{refused:?}");
    assert_eq!(redis.command(&["EXISTS", LEASE_KEY]), Reply::Number(0));
}

/// Nobody can have come to it elsewhere: not by renewals, nor by another server's clock.
#[tokio::test]
async fn a_watch_begins_with_a_count_further_on_than_a_term_gets_and_not_behind_the_clock() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    win_after_the_start(&store, 1, ms(100)).await;
    let (token, _) = win(&store, ask(1, 2)).await;
    assert_eq!(release(&store, giving_back(1, 2, token)).await, ReleaseReply::Released);
    let salt = u64::from_str_radix(&redis.command(&["HGET", RECORD_KEY, "generation"]).text()[..4], 16);
    let now = now_us(&redis);
    let begun = async |count: u64| {
        redis.command(&["HSET", RECORD_KEY, "count", &count.to_string(), "generation", "another"]);
        match campaign(&store, ask(2, 1)).await {
            CampaignReply::Guarded { cause: GuardCause::Generation, version, .. } => version.count,
            other => panic!("{other:?}"),
        }
    };
    let ahead = now + 1_000_000_000_000;
    assert_eq!(begun(ahead).await, ahead + 4_096 + salt.expect("hexadecimal"));
    assert!(begun(5).await >= now);
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
async fn a_release_of_a_lease_whose_record_is_gone_remembers_its_token() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    let (token, _) = win(&store, unguarded(1, 1)).await;
    redis.command(&["DEL", RECORD_KEY]);
    assert_eq!(release(&store, giving_back(1, 1, token)).await, ReleaseReply::Released);
    let told = redis.command(&["HMGET", RECORD_KEY, "token", "released"]).texts();
    assert_eq!(told, [token.to_string(), "1".to_owned()]);
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

#[tokio::test]
async fn a_script_is_sent_once_however_many_roles_find_it_missing() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    redis.command(&["SCRIPT", "FLUSH"]);
    redis.command(&["CONFIG", "RESETSTAT"]);
    let names: Vec<RoleName> = (0..200).map(|n| RoleName::new(format!("role-{n}")).expect("a name")).collect();
    let campaigns = names.iter().map(|name| store.campaign(name, unguarded(1, 1)));
    for reply in futures_util::future::join_all(campaigns).await {
        assert!(matches!(reply.expect("it answers").reply, CampaignReply::Granted { .. }));
    }
    let stats = redis.command(&["INFO", "commandstats"]).text();
    assert!(stats.contains("cmdstat_eval:calls=1,"), "{stats}");
}
