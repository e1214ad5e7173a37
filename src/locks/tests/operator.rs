//! What an operator ends, and who hears of it.

use std::sync::Arc;

use super::super::{HoldState, Refusal, Want};
use super::stage::{Act, Op, Stage, WOKEN, lock, patient, until, want, within};
use super::turns::passed;

#[tokio::test]
async fn a_hold_that_an_operator_ends_elsewhere_is_told_so_at_once_and_the_next_one_has_it() {
    let stage = Stage::new();
    let mut hold = stage.service.hold(want(), None).await.unwrap();
    let waiting = stage.ask(patient());
    stage.until(1, 1).await;
    let operator = Stage::over(Arc::clone(&stage.store.memory), 10);
    let had = operator.service.unlock(lock("a"), hold.granted.token).await.unwrap().unwrap();
    assert_eq!((&*had.identity, had.token), ("web-0", hold.granted.token));
    within(WOKEN, hold.state.changed()).await.unwrap();
    assert_eq!(*hold.state.borrow(), HoldState::Lost { reason: "an operator has unlocked it" });
    let next = within(WOKEN, waiting).await.unwrap().unwrap();
    assert!(next.token > hold.granted.token);
    drop(hold);
    assert_eq!(stage.insight().await.holders[0].token, next.token, "the successor's lock is not touched");
    assert_eq!(stage.metric("baton_locks_lost_total"), 1.0);
    assert_eq!(operator.metric("baton_locks_unlocks_total"), 1.0);
}

#[tokio::test]
async fn a_lock_that_an_operator_ends_is_forgotten_by_its_sidecar_and_its_extension_is_refused() {
    let stage = Stage::new();
    let granted = stage.take(want()).await;
    let seen = stage.service.unlock(lock("a"), granted.token).await.unwrap().unwrap();
    assert_eq!(seen.token, granted.token);
    until("it is forgotten", async || stage.metric("baton_locks_held") == 0.0).await;
    assert_eq!(stage.service.extend(lock("a"), granted.id, None).await, Err(Refusal::Lost));
    assert_eq!(stage.service.release(lock("a"), granted.id).await, Ok(()), "it is given back, by whomever");
}

#[tokio::test]
async fn an_unlock_names_the_lock_that_was_seen_and_may_be_repeated() {
    let stage = Stage::new();
    let granted = stage.take(want()).await;
    stage.store.next(Op::Unlock, Act::LoseReply);
    assert_eq!(stage.service.unlock(lock("a"), granted.token).await, Ok(None), "its answer was lost");
    let next = stage.take(want()).await;
    let Err(Refusal::TokenDiffers { holders, .. }) = stage.service.unlock(lock("a"), granted.token).await else {
        panic!("another has it")
    };
    assert_eq!(holders[0].token, next.token);
    let words = stage.service.unlock(lock("b"), next.token).await.unwrap_err().to_string();
    assert_eq!(words, format!("b is not held under the token {}: nobody holds it", next.token));
}

#[tokio::test]
async fn what_has_gone_on_in_a_turn_is_ended_where_it_is() {
    let stage = Stage::new();
    let (first, second) = passed(&stage, &patient()).await;
    // The store knows the first token, or the second by now.
    let seen = stage.service.unlock(lock("a"), second.token).await.unwrap().unwrap();
    assert!((first.token..=second.token).contains(&seen.token));
    until("it is forgotten", async || stage.metric("baton_locks_held") == 0.0).await;
    assert_eq!(stage.service.extend(lock("a"), second.id, None).await, Err(Refusal::Lost));
    assert!(stage.take(want()).await.token > second.token);
}

#[tokio::test]
async fn all_locks_of_the_store_are_listed_and_none_that_nobody_uses() {
    let stage = Stage::new();
    let elsewhere = Stage::over(Arc::clone(&stage.store.memory), 10);
    let named = |name: &str| Want { names: vec![lock(name)], owner: Some("me".into()), ..want() };
    let gone = stage.take(named("c")).await;
    stage.service.release(lock("c"), gone.id).await.unwrap();
    for name in ["b", "a"] {
        stage.take(named(name)).await;
    }
    let waiting = elsewhere.ask(Want { owner: None, ..patient() });
    stage.until(1, 1).await;
    let page = elsewhere.service.list(0).await.unwrap();
    let seen: Vec<_> = page.locks.iter().map(|(name, insight)| (name.as_str(), insight.waiting)).collect();
    assert_eq!((seen, page.next), (vec![("a", 1), ("b", 0)], 0));
    waiting.abort();
}
