//! Locks that go from request to request of a sidecar in a turn: what the store knows of it.

use baton::protocol::{LockTurn, Mono, TURN_MAX, TurnSeat};
use baton::store::StoreError;
use testkit::redis::RedisServer;

use super::super::live::acknowledged;
use super::super::refusals::{LEAST_RIGHTS, with_rights};
use super::super::{connected, store_with, until_up};
use super::*;

fn in_turn(name: &str, number: u128) -> AcquireRequest {
    AcquireRequest { tokens: TURN_MAX, queueing: Queueing::Plain, ..ask(name, number) }
}

/// Request 5 of the same sidecar has the lock of request 1 by now, and so had request 3.
fn seat() -> Option<TurnSeat> {
    Some(TurnSeat { id: id(1), served: vec![id(3), id(5)] })
}

fn ticket(number: u128) -> AcquireRequest {
    AcquireRequest { session: session(1), queueing: Queueing::Plain, ..ask("a", number) }
}

#[tokio::test]
async fn at_the_end_of_a_turn_the_next_is_woken_elsewhere_and_no_token_of_it_comes_again() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    let grant = granted(&store, in_turn("a", 1)).await;
    assert_eq!(grant.tokens, TURN_MAX);
    assert_eq!(granted(&store, in_turn("a", 1)).await, grant, "the answer was lost");
    for number in [3, 5] {
        assert!(is_held(&store, ticket(number)).await);
    }
    let mut wakes = listening(&store, 6).await;
    assert!(is_held(&store, AcquireRequest { queueing: Queueing::Plain, ..ask("a", 6) }).await);
    let end = LockReleaseRequest { id: id(5), seat: seat(), ..giving_back("a", 1) };
    for _ in 0..2 {
        assert_eq!(store.release(end.clone()).await.expect("an answer"), LockReleaseReply::Released);
    }
    assert_eq!(next(&mut wakes).await, wake("a", 6));
    assert_eq!(
        store.inspect(names(&["a"]).remove(0)).await.expect("an answer").waiting,
        1,
        "those who were served left"
    );
    let next = granted(&store, ask("a", 6)).await;
    assert!(next.token.get() >= grant.token.get() + u64::from(TURN_MAX));
}

#[tokio::test]
async fn a_sidecar_that_dies_in_its_turn_leaves_a_lock_that_ends_and_tokens_that_nobody_has() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    let lease = Duration::from_millis(300);
    let grant = granted(&store, AcquireRequest { lease, ..in_turn("a", 1) }).await;
    let mut turn = LockTurn::begin(id(1), grant, lease, Mono::from_nanos(0)).expect("a turn");
    let passed: Vec<Token> = std::iter::from_fn(|| turn.pass(Mono::from_nanos(0), lease)).collect();
    assert_eq!(passed.len(), TURN_MAX as usize - 1);
    let mut next = None;
    testkit::wait_until_async(testkit::BOUND, "its lease is over", async || {
        if let AcquireReply::Granted(grant) = acquire(&store, ask("a", 2)).await {
            next = Some(grant);
        }
        next.is_some()
    })
    .await;
    assert!(Some(&next.expect("granted").token) > passed.last());
}

#[tokio::test]
async fn an_extension_tells_who_has_the_seat_and_until_then_no_other_sidecar_may_touch_it() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    let grant = granted(&store, in_turn("a", 1)).await;
    let theirs = LockReleaseRequest { session: session(2), ..giving_back("a", 1) };
    assert_eq!(store.release(theirs).await.expect("an answer"), LockReleaseReply::NotHeld);
    let token = Token::new(grant.token.get() + 2).expect("below 2^53");
    let last = Token::new(grant.token.get() + u64::from(TURN_MAX) - 1).expect("below 2^53");
    let restore = known(5, token).map(|known| Box::new(Restore { last, ..*known }));
    let told = ExtendRequest { id: id(5), session: session(1), seat: seat(), restore, ..extension("a", 1) };
    for forgotten in [false, false, true] {
        if forgotten {
            redis.command(&["DEL", "baton:{locks}:lock:a"]);
        }
        let reply = store.extend(told.clone()).await.expect("an answer");
        assert!(
            matches!(reply, ExtendReply::Extended { token: t, restored, .. } if t == token && restored == forgotten),
            "{reply:?}"
        );
    }
    let insight = store.inspect(names(&["a"]).remove(0)).await.expect("an answer");
    assert_eq!((&*insight.holders[0].owner, insight.holders[0].token), ("owner 5", token));
    let anybody = LockReleaseRequest { id: id(5), session: session(2), ..giving_back("a", 1) };
    assert_eq!(store.release(anybody).await.expect("an answer"), LockReleaseReply::Released);
    assert!(granted(&store, ask("a", 7)).await.token > last);
}

#[tokio::test]
async fn without_the_replica_there_is_no_turn() {
    let redis = RedisServer::start();
    let store = store_with(&acknowledged(&redis.url()));
    until_up(&store).await;
    let refused = store.acquire(in_turn("a", 1)).await;
    assert!(
        matches!(&refused, Err(StoreError::Refused { reason }) if reason.contains("0 of 1 replicas")),
        "{refused:?}"
    );
}

#[tokio::test]
async fn the_documented_rights_are_enough_for_a_turn() {
    let redis = RedisServer::start();
    let store = with_rights(&redis, LEAST_RIGHTS).await;
    granted(&store, in_turn("a", 1)).await;
    for number in [3, 5] {
        assert!(is_held(&store, ticket(number)).await);
    }
    let end = LockReleaseRequest { id: id(5), seat: seat(), ..giving_back("a", 1) };
    assert_eq!(store.release(end).await.expect("an answer"), LockReleaseReply::Released);
}
