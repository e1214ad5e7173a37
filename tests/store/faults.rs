//! What breaks between the store and its Redis: nothing hangs, nothing runs later, nothing is claimed that is not
//! known.

use testkit::proxy::{Network, Proxy};
use testkit::redis::{Data, RedisServer};
use testkit::resp::Reply;
use testkit::{wait_until, wait_until_async};

use super::*;

const LEASE_KEY: &str = "baton:{scheduler}:lease";

/// Runs the campaign script once, for another role, so that the server knows it by its hash.
async fn warm_up(store: &RedisStore) {
    let other = RoleName::new("other").expect("a label");
    store.campaign(&other, unguarded(9, 1)).await.expect("an answer");
}

fn scripts_run(redis: &RedisServer) -> bool {
    calls(redis, "eval") > 0
}

#[tokio::test]
async fn a_redis_that_is_down_at_the_start_is_found_when_it_comes() {
    let mut redis = RedisServer::start();
    redis.kill();
    let store = store_with(&config(&redis.url()));
    let refused = store.campaign(&role(), ask(1, 1)).await;
    assert!(is_unreachable(&refused), "{refused:?}");
    let reason = until_down(&store, "Connection refused").await;
    assert!(reason.contains(&redis.entry_port().to_string()), "{reason}");
    redis.start_again();
    until_up(&store).await;
    win(&store, unguarded(1, 1)).await;
}

#[tokio::test]
async fn a_command_without_a_connection_is_answered_at_once_and_never_run_later() {
    let mut redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    redis.kill();
    // The first ones may meet a connection whose end nobody has noticed yet; they fail with it.
    for attempt in 1..=20 {
        let refused = store.campaign(&role(), unguarded(1, attempt)).await;
        assert!(is_unreachable(&refused), "{refused:?}");
    }
    until_down(&store, "").await;
    let refused = store.campaign(&role(), unguarded(1, 21)).await;
    assert!(is_unreachable(&refused), "{refused:?}");
    redis.start_again();
    until_up(&store).await;
    // Answered on the same connection after anything that had waited for it.
    assert_eq!(store.purge(&RoleName::new("other").expect("a label")).await, Ok(baton::store::Purge::Absent));
    assert_eq!(redis.command(&["DBSIZE"]), Reply::Number(0), "a campaign ran after its caller was told that it failed");
}

#[tokio::test]
async fn a_command_whose_future_was_dropped_does_not_run_on_another_connection() {
    let redis = RedisServer::start();
    let proxy = Proxy::start(redis.entry_port()).await;
    let store = impatient(&proxy.url()).await;
    proxy.set(Network::Stalled);
    {
        let role = role();
        let mut abandoned = std::pin::pin!(store.campaign(&role, unguarded(1, 1)));
        // Begun, and then left, as a shutdown does.
        assert!(futures_util::poll!(abandoned.as_mut()).is_pending());
    }
    proxy.set(Network::Cut);
    until_down(&store, "").await;
    proxy.set(Network::Good);
    until_up(&store).await;
    assert_eq!(store.purge(&RoleName::new("other").expect("a label")).await, Ok(baton::store::Purge::Absent));
    assert_eq!(redis.command(&["EXISTS", LEASE_KEY]), Reply::Number(0));
}

#[tokio::test]
async fn a_black_hole_makes_the_outcome_unknown_and_the_connection_is_replaced() {
    let redis = RedisServer::start();
    let proxy = Proxy::start(redis.entry_port()).await;
    let store = impatient(&proxy.url()).await;
    proxy.set(Network::Stalled);
    let unknown = within("a stalled campaign ends by itself", store.campaign(&role(), unguarded(1, 1))).await;
    assert!(matches!(unknown, Err(StoreError::Unknown { .. })), "{unknown:?}");
    assert!(!scripts_run(&redis));
    until_down(&store, "").await;
    let refused = store.campaign(&role(), unguarded(1, 1)).await;
    assert!(is_unreachable(&refused), "{refused:?}");
    proxy.set(Network::Good);
    until_up(&store).await;
    win(&store, unguarded(1, 1)).await;
}

#[tokio::test]
async fn a_black_hole_is_noticed_although_commands_keep_coming() {
    let redis = RedisServer::start();
    let proxy = Proxy::start(redis.entry_port()).await;
    let store = impatient(&proxy.url()).await;
    proxy.set(Network::Stalled);
    wait_until_async(BOUND, "the connection is given up", async || {
        is_unreachable(&store.campaign(&role(), unguarded(1, 1)).await)
    })
    .await;
}

#[tokio::test]
async fn a_black_hole_is_noticed_long_before_a_patient_command_would_be_given_up() {
    let redis = RedisServer::start();
    let proxy = Proxy::start(redis.entry_port()).await;
    let patient = RedisConfig { command_timeout: Duration::from_secs(3600), ..config(&proxy.url()) };
    // It may be silent for a quarter of a second.
    let store = RedisStore::connect(&patient, Duration::from_secs(1), 7).expect("the configuration is good");
    until_up(&store).await;
    proxy.set(Network::Stalled);
    let unknown = within("the campaign ends by itself", store.campaign(&role(), unguarded(1, 1))).await;
    assert!(matches!(unknown, Err(StoreError::Unknown { .. })), "{unknown:?}");
    until_down(&store, "no answer to anything within 250ms").await;
}

#[tokio::test]
async fn connections_are_judged_by_the_shortest_lease_of_now_not_of_when_they_were_opened() {
    let redis = RedisServer::start();
    let proxy = Proxy::start(redis.entry_port()).await;
    let hour = Duration::from_secs(3600);
    let patient = RedisConfig { command_timeout: hour, ..config(&proxy.url()) };
    let lease_min = ShortestLease::from(hour);
    let store = RedisStore::connect(&patient, lease_min.clone(), 7).expect("the configuration is good");
    until_up(&store).await;
    lease_min.set(Duration::from_secs(1));
    proxy.set(Network::Stalled);
    let unknown = within("the campaign ends by itself", store.campaign(&role(), unguarded(1, 1))).await;
    assert!(matches!(unknown, Err(StoreError::Unknown { .. })), "{unknown:?}");
    until_down(&store, "no answer to anything within 250ms").await;
}

#[tokio::test]
async fn one_command_without_an_answer_does_not_end_a_connection_that_answers_again() {
    let redis = RedisServer::start();
    let proxy = Proxy::start(redis.entry_port()).await;
    // Commands have less time than a connection may be silent for: 5 s.
    let hasty = RedisConfig { command_timeout: Duration::from_millis(500), ..config(&proxy.url()) };
    let store = RedisStore::connect(&hasty, Duration::from_secs(20), 7).expect("the configuration is good");
    until_up(&store).await;
    wait_until(BOUND, "one connection for commands and one to listen", || proxy.accepted() == 2).await;
    // All that the latter asks is answered: only the campaign is without an answer.
    assert_eq!(within("the subscription", store.subscribe(&role(), None).recv()).await, Some(baton::store::News::Gap));
    proxy.set(Network::Stalled);
    let unknown = within("the campaign ends by itself", store.campaign(&role(), unguarded(1, 1))).await;
    assert!(matches!(unknown, Err(StoreError::Unknown { .. })), "{unknown:?}");
    proxy.set(Network::Good);
    win(&store, unguarded(1, 1)).await;
    assert_eq!(proxy.accepted(), 2, "it is the same connection");
    assert_eq!(*store.health().borrow(), StoreHealth::Up);
}

#[tokio::test]
async fn a_lost_reply_is_unknown_and_the_same_attempt_finds_its_lease() {
    let redis = RedisServer::start();
    let proxy = Proxy::start(redis.entry_port()).await;
    let store = impatient(&proxy.url()).await;
    warm_up(&store).await;
    proxy.set(Network::AnswersLost);
    let unknown = store.campaign(&role(), unguarded(1, 1)).await;
    assert!(matches!(unknown, Err(StoreError::Unknown { .. })), "{unknown:?}");
    let stored = redis.command(&["HGET", LEASE_KEY, "token"]).text();
    let counted = redis.command(&["HGET", "baton:{scheduler}:record", "count"]).text();
    until_down(&store, "").await;
    proxy.set(Network::Good);
    until_up(&store).await;
    let (token, count) = win(&store, unguarded(1, 1)).await;
    assert_eq!((token.to_string(), (count - 1).to_string()), (stored, counted), "granted once, and found again");
}

#[tokio::test]
async fn a_connection_that_breaks_under_a_command_ends_it_at_once() {
    let redis = RedisServer::start();
    let proxy = Proxy::start(redis.entry_port()).await;
    let hour = Duration::from_secs(3600);
    let patient = RedisConfig { command_timeout: hour, ..config(&proxy.url()) };
    let store = RedisStore::connect(&patient, hour, 7).expect("the configuration is good");
    until_up(&store).await;
    warm_up(&store).await;
    proxy.set(Network::AnswersLost);
    let role = role();
    let campaign = store.campaign(&role, unguarded(1, 1));
    let cut = async {
        wait_until(BOUND, "the campaign has arrived", || redis.command(&["EXISTS", LEASE_KEY]) == Reply::Number(1))
            .await;
        proxy.set(Network::Cut);
    };
    let (broken, ()) = within("the campaign ends with its connection", async { tokio::join!(campaign, cut) }).await;
    assert!(is_unreachable(&broken), "{broken:?}");
}

#[tokio::test]
async fn a_redis_that_hangs_is_unknown_and_used_again_when_it_goes_on() {
    let redis = RedisServer::start();
    let store = impatient(&redis.url()).await;
    let (token, _) = win(&store, unguarded(1, 1)).await;
    redis.pause();
    let unknown = store.renew(&role(), renewal(1, 1, token)).await;
    redis.resume();
    assert!(matches!(unknown, Err(StoreError::Unknown { .. })), "{unknown:?}");
    wait_until_async(BOUND, "renewed again", async || {
        matches!(store.renew(&role(), renewal(1, 1, token)).await.map(|r| r.reply), Ok(RenewReply::Renewed { .. }))
    })
    .await;
}

#[tokio::test]
async fn every_restart_is_survived() {
    let mut redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    let (token, _) = win(&store, unguarded(1, 1)).await;
    for data in [Data::Lost, Data::Kept, Data::Lost] {
        redis.restart(data);
        wait_until_async(BOUND, "renewed again", async || {
            matches!(store.renew(&role(), renewal(1, 1, token)).await.map(|r| r.reply), Ok(RenewReply::Renewed { .. }))
        })
        .await;
    }
}

#[tokio::test]
async fn a_killed_connection_is_replaced() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    let (token, _) = win(&store, unguarded(1, 1)).await;
    for _ in 0..5 {
        redis.command(&["CLIENT", "KILL", "TYPE", "normal"]);
        wait_until_async(BOUND, "renewed again", async || {
            matches!(store.renew(&role(), renewal(1, 1, token)).await.map(|r| r.reply), Ok(RenewReply::Renewed { .. }))
        })
        .await;
    }
}

#[tokio::test]
async fn a_dropped_store_leaves_no_connection_behind() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    let listener = store.subscribe(&role(), None);
    let clients = || redis.command(&["CLIENT", "LIST"]).text().lines().count();
    wait_until(BOUND, "two connections besides ours", || clients() == 3).await;
    drop((store, listener));
    wait_until(BOUND, "only ours is left", || clients() == 1).await;
}
