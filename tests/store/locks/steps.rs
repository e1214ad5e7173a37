//! What the scripts do step by step is checked by `differential`; here is the rest: messages, errors, rights, lateness.

use baton::protocol::{TURN_MAX, TurnSeat};
use baton::store::StoreError;
use testkit::redis::RedisServer;
use testkit::resp::Reply;
use testkit::sidecars::clock;
use testkit::{BOUND, wait_until, wait_until_async};

use super::super::live::acknowledged;
use super::super::refusals::{LEAST_RIGHTS, with_rights};
use super::super::{calls, connected, impatient, ms, step_clock, store_with, until_up};
use super::*;

#[tokio::test]
async fn a_release_wakes_the_first_waiter_at_its_own_sidecar_only() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    let (mut first, mut second) = (listening(&store, 2).await, listening(&store, 3).await);
    granted(&store, ask("orders 42 – é", 1)).await;
    assert!(is_held(&store, waiting("orders 42 – é", 2)).await);
    assert!(is_held(&store, waiting("orders 42 – é", 3)).await);
    release(&store, "orders 42 – é", 1).await;
    assert_eq!(next(&mut first).await, wake("orders 42 – é", 2));
    granted(&store, waiting("orders 42 – é", 2)).await;
    release(&store, "orders 42 – é", 2).await;
    assert_eq!(next(&mut second).await, wake("orders 42 – é", 3), "the first that it hears");
    assert!(first.try_recv().is_err());
}

#[tokio::test]
async fn who_listens_is_told_of_a_gap_after_every_subscription() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    let mut wakes = listening(&store, 2).await;
    redis.command(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    assert_eq!(next(&mut wakes).await, WakeNews::Gap);
    granted(&store, ask("a", 1)).await;
    assert!(is_held(&store, waiting("a", 2)).await);
    release(&store, "a", 1).await;
    assert_eq!(next(&mut wakes).await, wake("a", 2));
    drop(wakes);
    wait_until(BOUND, "nobody listens any more", || redis.command(&["PUBSUB", "CHANNELS"]) == Reply::List(Vec::new()))
        .await;
}

#[tokio::test]
async fn a_request_that_its_sender_has_given_up_does_nothing_when_it_arrives() {
    let redis = RedisServer::start();
    let (store, other) = (impatient(&redis.url()).await, connected(&redis.url()).await);
    granted(&store, ask("warm", 1)).await;
    let before = calls(&redis, "eval");
    redis.pause();
    let unknown = store.acquire(waiting("a", 2)).await;
    assert!(matches!(unknown, Err(StoreError::Unknown { .. })), "{unknown:?}");
    redis.resume();
    wait_until(BOUND, "it has arrived", || calls(&redis, "eval") > before).await;
    let insight = other.inspect(names(&["a"]).remove(0)).await.expect("an answer");
    assert_eq!((insight.holders.len(), insight.waiting), (0, 0));
    granted(&other, ask("a", 3)).await;
}

#[tokio::test]
async fn a_request_that_seems_late_because_the_stores_clock_was_stepped_is_sent_again() {
    let Some((redis, control)) = clock::redis() else { return };
    let store = connected(&redis.url()).await;
    let mut token = granted(&store, ask("0", 1)).await.token;
    for (number, offset) in [(1_u128, 3_600), (2, -3_600), (3, 0)] {
        step_clock(&redis, &control, offset).await;
        let request = AcquireRequest { floor: token, ..ask(&number.to_string(), number) };
        let before = calls(&redis, "eval");
        let later = granted(&store, request).await.token;
        assert!(later > token);
        token = later;
        let late = if offset == -3_600 { 1 } else { 2 };
        assert_eq!(calls(&redis, "eval") - before, late, "{offset} s");
    }
}

#[tokio::test]
async fn a_lost_reply_is_found_by_the_same_request() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    let grant = granted(&store, ask("a", 1)).await;
    assert_eq!(redis.command(&["SCRIPT", "FLUSH"]), Reply::Text("OK".to_owned()), "scripts are sent again as needed");
    assert_eq!(granted(&store, ask("a", 1)).await, grant);
    assert!(is_extended(&store.extend(extension("a", 1)).await.expect("an answer")));
    redis.command(&["DEL", "baton:{locks}:lock:a"]);
    let restore = ExtendRequest { restore: known(1, grant.token), ..extension("a", 1) };
    let restored = store.extend(restore).await.expect("an answer");
    assert!(matches!(restored, ExtendReply::Extended { token, restored: true, .. } if token == grant.token));
}

#[tokio::test]
async fn a_server_that_comes_back_with_what_it_had_saved_takes_back_who_came_after_that() {
    let mut redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    granted(&store, AcquireRequest { tokens: TURN_MAX, ..ask("a", 1) }).await;
    redis.command(&["SAVE"]);
    release(&store, "a", 1).await;
    let token = granted(&store, ask("a", 2)).await.token;
    redis.kill();
    redis.start_again();
    let name = LockName::new("a").expect("a good name");
    wait_until_async(BOUND, "it is back", async || store.inspect(name.clone()).await.is_ok()).await;
    assert!(is_held(&store, ask("a", 3)).await, "by the first, for all it knows");
    let restore = ExtendRequest { restore: known(2, token), ..extension("a", 2) };
    let reply = store.extend(restore).await.expect("an answer");
    assert!(matches!(reply, ExtendReply::Extended { token: told, holds: 1, restored: true, .. } if told == token));
    let tokens = store.inspect(name).await.expect("an answer").holders.iter().map(|it| it.token).collect::<Vec<_>>();
    assert_eq!(tokens, [token]);
    assert!(!is_extended(&store.extend(extension("a", 1)).await.expect("an answer")), "it was over");
}

#[tokio::test]
async fn a_server_that_comes_back_with_the_beginning_of_a_turn_takes_back_who_has_the_lock_in_it() {
    let mut redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    let first = granted(&store, AcquireRequest { tokens: TURN_MAX, ..ask("a", 1) }).await.token;
    redis.command(&["SAVE"]);
    let last = Token::new(first.get() + u64::from(TURN_MAX) - 1).expect("a token");
    let in_turn = Token::new(first.get() + 1).expect("a token");
    let restore = known(2, in_turn).map(|known| Box::new(Restore { last, ..*known }));
    let seat = Some(TurnSeat { id: id(1), served: vec![id(2)] });
    let extended = ExtendRequest { session: session(1), restore, ..extension("a", 2) };
    let told = ExtendRequest { seat, ..extended.clone() };
    assert!(is_extended(&store.extend(told).await.expect("an answer")));
    redis.kill();
    redis.start_again();
    let name = LockName::new("a").expect("a good name");
    wait_until_async(BOUND, "it is back", async || store.inspect(name.clone()).await.is_ok()).await;
    let reply = store.extend(extended).await.expect("an answer");
    assert!(matches!(reply, ExtendReply::Extended { token, restored: true, .. } if token == in_turn), "{reply:?}");
    let tokens = store.inspect(name).await.expect("an answer").holders.iter().map(|it| it.token).collect::<Vec<_>>();
    assert_eq!(tokens, [in_turn]);
}

#[tokio::test]
async fn a_full_memory_refuses_to_acquire_and_extend_and_lets_go() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    granted(&store, ask("a", 1)).await;
    assert!(is_held(&store, waiting("a", 2)).await);
    granted(&store, ask("b", 3)).await;
    let mut wakes = listening(&store, 2).await;
    redis.command(&["CONFIG", "SET", "maxmemory", "1"]);
    let keys = || {
        let mut keys = redis.command(&["KEYS", "*"]).texts();
        keys.sort();
        (keys, redis.command(&["HGETALL", "baton:{locks}:lock:a"]))
    };
    let before = keys();
    for refused in [
        store.acquire(ask("new", 4)).await.map(drop),
        store.acquire(waiting("new", 4)).await.map(drop),
        store.extend(extension("a", 1)).await.map(drop),
    ] {
        assert!(matches!(&refused, Err(StoreError::Refused { reason }) if reason.contains("maxmemory")), "{refused:?}");
    }
    assert_eq!(keys(), before);
    release(&store, "a", 1).await;
    assert_eq!(next(&mut wakes).await, wake("a", 2));
    store.cancel(cancelling("b", 3)).await.expect("given back");
    redis.command(&["CONFIG", "SET", "maxmemory", "0"]);
    granted(&store, ask("b", 5)).await;
    granted(&store, waiting("a", 2)).await;
}

#[tokio::test]
async fn without_the_replica_neither_a_lock_nor_its_extension_counts() {
    let redis = RedisServer::start();
    let plain = connected(&redis.url()).await;
    let store = store_with(&acknowledged(&redis.url()));
    until_up(&store).await;
    granted(&plain, ask("a", 1)).await;
    for refused in [store.acquire(ask("b", 1)).await.map(drop), store.extend(extension("a", 1)).await.map(drop)] {
        let told = |reason: &str| reason.contains("0 of 1 replicas");
        assert!(matches!(&refused, Err(StoreError::Refused { reason }) if told(reason)), "{refused:?}");
    }
    assert!(is_held(&store, ask("a", 2)).await, "a refusal needs no replica");
    release(&store, "a", 1).await;
}

#[tokio::test]
async fn the_documented_rights_are_enough_for_locks() {
    let redis = RedisServer::start();
    let store = with_rights(&redis, LEAST_RIGHTS).await;
    let mut wakes = listening(&store, 2).await;
    let guard = Some(ms(1));
    wait_until_async(BOUND, "the server is old enough", async || {
        matches!(acquire(&store, AcquireRequest { guard, ..ask("a", 1) }).await, AcquireReply::Granted(_))
    })
    .await;
    assert!(is_held(&store, waiting("a", 2)).await);
    assert!(is_held(&store, waiting("a", 3)).await);
    store.beat(session(2)).await.expect("alive");
    assert!(is_extended(&store.extend(extension("a", 1)).await.expect("an answer")));
    assert_eq!(store.inspect(names(&["a"]).remove(0)).await.expect("an answer").waiting, 2);
    store.cancel(cancelling("a", 3)).await.expect("an answer");
    release(&store, "a", 1).await;
    assert_eq!(next(&mut wakes).await, wake("a", 2));
    // The dead are dropped, too.
    redis.command(&["DEL", "baton:{locks}:sessions"]);
    granted(&store, ask("a", 4)).await;
    assert_eq!(redis.command(&["ACL", "LOG"]), Reply::List(Vec::new()), "nothing was denied on the way");
}
