//! What the service promises when nothing goes wrong.

use std::sync::Arc;
use std::time::Duration;

use super::super::{Refusal, Want};
use super::stage::{Act, Asked, Op, Stage, WOKEN, lock, patient, until, want, within};
use crate::protocol::{LockId, valid_span};

#[tokio::test]
async fn a_lock_that_is_held_is_refused_with_its_holder() {
    let stage = Stage::new();
    let mine = Want { owner: Some("me".into()), ..want() };
    let held = stage.take(mine).await;
    let refusal = stage.service.acquire(want()).await.unwrap_err();
    let Refusal::Held { holder: Some(holder), waited: false, .. } = refusal else { panic!("{refusal:?}") };
    assert_eq!((&*holder.owner, &*holder.identity, holder.token), ("me", "web-0", held.token));
    assert_eq!(stage.metric("baton_locks_acquisitions_total{outcome=\"held\"}"), 1.0);
    assert_eq!(stage.metric("baton_locks_held"), 1.0);
}

#[tokio::test]
async fn nobody_is_never_the_same_owner() {
    let stage = Stage::new();
    stage.take(want()).await;
    assert!(matches!(stage.service.acquire(want()).await, Err(Refusal::Held { .. })));
}

#[tokio::test]
async fn the_end_of_the_wait_is_told_and_leaves_no_ticket() {
    let stage = Stage::new();
    stage.take(want()).await;
    let refusal = stage.service.acquire(Want { wait: Duration::from_millis(50), ..want() }).await.unwrap_err();
    assert!(matches!(refusal, Refusal::Held { waited: true, .. }), "{refusal:?}");
    stage.until(1, 0).await;
    assert_eq!(stage.metric("baton_locks_acquisitions_total{outcome=\"timeout\"}"), 1.0);
}

#[tokio::test]
async fn waiters_of_two_sidecars_are_woken_in_their_order() {
    let stage = Stage::new();
    let other = Stage::over(Arc::clone(&stage.store.memory), 10);
    let held = stage.take(want()).await;
    let fair = Want { fair: true, ..patient() };
    let first = other.ask(fair.clone());
    stage.until(1, 1).await;
    let second = stage.ask(fair);
    stage.until(1, 2).await;
    stage.service.release(lock("a"), held.id).await.unwrap();
    let granted = within(WOKEN, first).await.unwrap().unwrap();
    assert!(granted.token > held.token && !second.is_finished());
    other.service.release(lock("a"), granted.id).await.unwrap();
    let last = within(WOKEN, second).await.unwrap().unwrap();
    assert!(last.token > granted.token);
    // The first to come asked when it came and when it was woken, and so did the second.
    assert_eq!((other.store.count(Op::Acquire), stage.store.count(Op::Acquire)), (2, 3));
}

#[tokio::test]
async fn one_waiter_too_many_is_refused_at_once() {
    let stage = Stage::over(Stage::new().store.memory.clone(), 2);
    stage.take(want()).await;
    let _waiting = [stage.ask(patient()), stage.ask(patient())];
    until("two wait", async || stage.metric("baton_locks_waiting") == 2.0).await;
    assert_eq!(stage.service.acquire(patient()).await.unwrap_err(), Refusal::TooManyWaiters { max: 2 });
    assert!(
        matches!(stage.service.acquire(want()).await, Err(Refusal::Held { .. })),
        "who does not wait needs no place"
    );
}

#[tokio::test]
async fn a_lock_over_several_names_is_known_under_each_of_them() {
    let stage = Stage::new();
    let both = Want { names: vec![lock("a"), lock("b")], ..want() };
    let held = stage.take(both).await;
    stage.service.extend(lock("b"), held.id, None).await.unwrap();
    let asked = stage.store.asked();
    let Some(Asked::Extend(extension)) = asked.last() else { panic!("{asked:?}") };
    assert_eq!(extension.names, [lock("a"), lock("b")]);
    assert!(extension.restore.is_some(), "what this sidecar granted, it can put back");
    assert_eq!(stage.service.extend(lock("c"), held.id, None).await, Err(Refusal::Lost));
    assert_eq!(stage.service.release(lock("c"), held.id).await, Err(Refusal::Lost));
    assert_eq!(stage.service.release(lock("b"), held.id).await, Ok(()));
    stage.until(0, 0).await;
}

#[tokio::test]
async fn another_sidecar_extends_and_releases_by_name_and_id_alone() {
    let stage = Stage::new();
    let held = stage.take(want()).await;
    let next = Stage::over(Arc::clone(&stage.store.memory), 10);
    next.service.extend(lock("a"), held.id, None).await.unwrap();
    let asked = next.store.asked();
    let Some(Asked::Extend(extension)) = asked.last() else { panic!("{asked:?}") };
    assert!(extension.restore.is_none(), "it does not know what to put back");
    assert_eq!(next.service.extend(lock("a"), LockId::from_u128(1), None).await, Err(Refusal::Lost));
    assert_eq!(next.service.release(lock("a"), LockId::from_u128(1)).await, Err(Refusal::Lost));
    assert_eq!(next.service.release(lock("a"), held.id).await, Ok(()));
}

#[tokio::test]
async fn an_extension_promises_a_lease_from_when_it_was_sent() {
    let stage = Stage::new();
    let held = stage.take(Want { lease: Duration::from_secs(1), ..want() }).await;
    stage.store.next(Op::Extend, Act::Refuse);
    let before = stage.service.now();
    let extended = stage.service.extend(lock("a"), held.id, Some(Duration::from_secs(30))).await.unwrap();
    let after = stage.service.now();
    assert!(extended.valid_until >= before + valid_span(Duration::from_secs(30)));
    assert!(extended.valid_until <= after + valid_span(Duration::from_secs(30)));
    assert_eq!(stage.store.count(Op::Extend), 2, "an answer that did not come is asked for again");
}

#[tokio::test]
async fn a_lost_lock_is_counted_once_and_forgotten() {
    let stage = Stage::new();
    let held = stage.take(want()).await;
    // Behind the service's back, as by an operator.
    let thief = Stage::over(Arc::clone(&stage.store.memory), 10);
    thief.service.release(lock("a"), held.id).await.unwrap();
    for _ in 0..2 {
        assert_eq!(stage.service.extend(lock("a"), held.id, None).await, Err(Refusal::Lost));
    }
    assert_eq!((stage.metric("baton_locks_lost_total"), stage.metric("baton_locks_held")), (1.0, 0.0));
}

#[tokio::test]
async fn shutting_down_ends_who_waits_and_leaves_the_locks_of_who_works() {
    let stage = Stage::new();
    stage.take(want()).await;
    let client = stage.ask(patient());
    stage.until(1, 1).await;
    stage.service.begin_shutdown();
    assert_eq!(within(WOKEN, client).await.unwrap(), Err(Refusal::ShuttingDown));
    assert_eq!(stage.service.acquire(want()).await.unwrap_err(), Refusal::ShuttingDown);
    within(WOKEN, stage.service.all_ended()).await;
    let insight = stage.insight().await;
    assert_eq!((insight.holders.len(), insight.waiting), (1, 0));
}

#[tokio::test]
async fn every_request_to_the_store_is_counted_under_its_own_word() {
    let stage = Stage::new();
    let count = |word: &str| {
        stage.metric(&format!("baton_store_command_duration_seconds_count{{command=\"lock_{word}\",outcome=\"ok\"}}"))
    };
    let words = ["acquire", "extend", "release", "cancel", "beat", "inspect"];
    assert_eq!(words.map(count), [0.0; 6], "present at zero from the start");
    let held = stage.take(want()).await;
    let client = stage.ask(patient());
    until("a sign of life is given", async || count("beat") > 0.0).await;
    stage.service.extend(lock("a"), held.id, None).await.unwrap();
    stage.service.inspect(lock("a")).await.unwrap();
    stage.service.release(lock("a"), held.id).await.unwrap();
    let next = within(WOKEN, client).await.unwrap().unwrap();
    stage.service.release(lock("a"), next.id).await.unwrap();
    let other = Stage::over(Arc::clone(&stage.store.memory), 10);
    other.take(want()).await;
    stage.service.acquire(Want { wait: Duration::from_millis(50), ..want() }).await.unwrap_err();
    until("the ticket is cancelled", async || count("cancel") > 0.0).await;
    for (word, op) in words.into_iter().zip([Op::Acquire, Op::Extend, Op::Release, Op::Cancel]) {
        let asked = stage.store.count(op);
        assert!(asked > 0 && count(word) as usize == asked, "{asked} times {word}, counted {} times", count(word));
    }
    assert_eq!(count("inspect"), 1.0);
}
