//! Locks that are handed over: what each half comes to when the other fails.

use baton::store::StoreError;
use testkit::redis::RedisServer;

use super::super::live::acknowledged;
use super::super::refusals::{LEAST_RIGHTS, as_user, rights_for};
use super::super::{connected, store_with, until_up};
use super::*;

const QUEUE: &str = "baton:{locks}:queue:a";
const STORE: &str = "baton:{locks}:store";

async fn handed(store: &RedisStore, request: HandOverRequest) -> HandedOver {
    store.hand_over(request).await.expect("an answer")
}

fn is_granted(handed: &HandedOver) -> bool {
    handed.released == LockReleaseReply::Released
        && matches!(&handed.acquired, Ok(AcquireReply::Granted(grant)) if grant.holds == 1)
}

/// Nobody was woken: what is said last is heard first.
async fn heard_nothing(store: &RedisStore, wakes: &mut Subscription<WakeNews>, number: u128) {
    granted(store, ask("last", 1_000)).await;
    assert!(is_held(store, waiting("last", number)).await);
    release(store, "last", 1_000).await;
    assert_eq!(next(wakes).await, wake("last", number));
}

#[tokio::test]
async fn a_lock_that_is_handed_over_wakes_nobody_and_a_repeated_handover_changes_nothing() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    let first = granted(&store, ask("a", 1)).await;
    let mut wakes = listening(&store, 3).await;
    assert!(is_held(&store, AcquireRequest { queueing: Queueing::Plain, ..ask("a", 3) }).await);
    let request = handing("a", 1, ask("a", 2));
    let one = handed(&store, request.clone()).await;
    assert!(is_granted(&one), "{one:?}");
    assert_eq!(handed(&store, request).await, one, "the answer was lost");
    let Ok(AcquireReply::Granted(second)) = one.acquired else { panic!() };
    assert!(second.token > first.token);
    heard_nothing(&store, &mut wakes, 3).await;
    let yields = HandOverRequest { yields: true, ..handing("a", 2, waiting("a", 4)) };
    let refused = handed(&store, yields).await;
    assert!(matches!(&refused.acquired, Ok(AcquireReply::Held { holder: None, ahead: 1, .. })), "{refused:?}");
    assert_eq!(next(&mut wakes).await, wake("a", 3), "it stood back");
}

#[tokio::test]
async fn a_full_memory_lets_a_lock_be_handed_over() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    granted(&store, ask("a", 1)).await;
    redis.command(&["CONFIG", "SET", "maxmemory", "1"]);
    let one = handed(&store, handing("a", 1, waiting("a", 2))).await;
    assert!(is_granted(&one), "what was given back makes room for it: {one:?}");
    release(&store, "a", 2).await;
    redis.command(&["CONFIG", "SET", "maxmemory", "0"]);
    granted(&store, ask("a", 3)).await;
}

#[tokio::test]
async fn a_lock_is_given_back_though_what_it_is_handed_over_by_holds_something_else() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    for (key, make) in [(QUEUE, ["ZADD", QUEUE, "1", "x"]), (STORE, ["HSET", STORE, "v", "2"])] {
        redis.command(&["FLUSHALL"]);
        granted(&store, ask("a", 1)).await;
        redis.command(&make);
        let one = handed(&store, handing("a", 1, AcquireRequest { guard: Some(LEASE), ..ask("a", 2) })).await;
        assert_eq!(one.released, LockReleaseReply::Released, "{key}");
        assert!(matches!(&one.acquired, Err(StoreError::Garbage { key: k, .. }) if k == key), "{one:?}");
        let insight = redis.command(&["HEXISTS", "baton:{locks}:lock:a", &format!("h:{}", id(1))]);
        assert_eq!(insight.number(), 0, "{key}");
    }
}

#[tokio::test]
async fn without_the_replica_a_lock_is_given_back_and_its_next_grant_does_not_count() {
    let redis = RedisServer::start();
    let plain = connected(&redis.url()).await;
    let store = store_with(&acknowledged(&redis.url()));
    until_up(&store).await;
    granted(&plain, ask("a", 1)).await;
    let one = handed(&store, handing("a", 1, ask("a", 2))).await;
    assert_eq!(one.released, LockReleaseReply::Released);
    let told = |reason: &str| reason.contains("0 of 1 replicas");
    assert!(matches!(&one.acquired, Err(StoreError::Refused { reason }) if told(reason)), "{one:?}");
    // It is unknown to whom it is: as after any such answer it is cancelled.
    plain.cancel(cancelling("a", 2)).await.expect("given back");
    granted(&plain, ask("a", 3)).await;
}

#[tokio::test]
async fn the_documented_rights_are_enough_to_hand_a_lock_over() {
    let redis = RedisServer::start();
    rights_for(&redis, "sidecar", LEAST_RIGHTS);
    let store = store_with(&as_user(&redis, "sidecar"));
    until_up(&store).await;
    granted(&store, ask("a", 1)).await;
    let one = handed(&store, handing("a", 1, AcquireRequest { queueing: Queueing::Plain, ..ask("a", 2) })).await;
    assert!(is_granted(&one), "{one:?}");
}
