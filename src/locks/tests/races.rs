//! Clients, answers and wake-ups that come and go in an unlucky order.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::super::{Refusal, Want};
use super::stage::{Act, Asked, Op, Stage, WOKEN, lock, patient, until, want, within};
use crate::protocol::{AcquireReply, AcquireRequest, LockId, Queueing, Token};
use crate::store::{LockStore, WakeNews};

#[tokio::test]
async fn a_client_that_goes_while_the_answer_is_out_leaves_no_lock() {
    let stage = Stage::new();
    let gate = Arc::new(Notify::new());
    stage.store.next(Op::Acquire, Act::Delay(Arc::clone(&gate)));
    let client = stage.ask(want());
    stage.until(1, 0).await;
    client.abort();
    assert!(client.await.unwrap_err().is_cancelled());
    assert_eq!(stage.store.count(Op::Cancel), 0, "not before the answer is there: it could overtake the request");
    gate.notify_one();
    stage.until(0, 0).await;
}

#[tokio::test]
async fn a_client_that_goes_while_it_waits_leaves_no_ticket() {
    let stage = Stage::new();
    let held = stage.take(want()).await;
    let client = stage.ask(patient());
    stage.until(1, 1).await;
    client.abort();
    stage.until(1, 0).await;
    assert_eq!(stage.service.release(lock("a"), held.id).await, Ok(()));
    stage.until(0, 0).await;
    assert_eq!(stage.metric("baton_locks_waiting"), 0.0);
    assert_eq!(stage.metric("baton_locks_acquisitions_total{outcome=\"timeout\"}"), 1.0);
}

#[tokio::test]
async fn a_claim_that_nobody_takes_is_given_back() {
    let stage = Stage::new();
    let claim = stage.service.acquire(want()).await.unwrap();
    stage.until(1, 0).await;
    drop(claim);
    stage.until(0, 0).await;
    assert_eq!(stage.store.count(Op::Cancel), 1);
}

#[tokio::test]
async fn an_unclaimed_hold_of_an_owners_lock_leaves_its_other_holds() {
    let stage = Stage::new();
    let mine = Want { owner: Some("me".into()), ..want() };
    let first = stage.take(mine.clone()).await;
    let second = stage.service.acquire(mine).await.unwrap();
    assert_eq!(stage.insight().await.holders[0].holds, 2);
    drop(second);
    until("one hold is left", async || stage.insight().await.holders.iter().any(|holder| holder.holds == 1)).await;
    assert_eq!(stage.service.release(lock("a"), first.id).await, Ok(()));
}

#[tokio::test]
async fn a_grant_whose_answer_is_lost_is_cancelled_and_so_is_its_late_repetition() {
    let stage = Stage::new();
    stage.store.next(Op::Acquire, Act::LoseReply);
    let refusal = stage.service.acquire(want()).await.unwrap_err();
    assert!(matches!(refusal, Refusal::Store(_)), "{refusal:?}");
    stage.until(0, 0).await;
    // The request may have been on its way all the time, and arrive after the first cancellation.
    let asked = stage.store.asked();
    let Some(Asked::Acquire(request)) = asked.first().cloned() else { panic!("{asked:?}") };
    let late = stage.store.memory.acquire(request).await.unwrap();
    assert!(matches!(late, AcquireReply::Held { .. }), "what was given back does not come again: {late:?}");
    stage.until_asked(Op::Cancel, 2).await;
    stage.until(0, 0).await;
}

#[tokio::test]
async fn a_waiter_whose_answer_is_lost_asks_again_and_is_granted_once() {
    let stage = Stage::new();
    stage.store.next(Op::Acquire, Act::LoseReply);
    stage.store.next(Op::Acquire, Act::Refuse);
    let granted = within(WOKEN, stage.ask(patient())).await.unwrap().unwrap();
    let insight = stage.insight().await;
    assert_eq!((insight.holders.len(), insight.holders[0].token, granted.holds), (1, granted.token, 1));
}

#[tokio::test]
async fn a_grant_that_comes_after_its_lease_is_not_told() {
    let stage = Stage::new();
    let gate = Arc::new(Notify::new());
    stage.store.next(Op::Acquire, Act::Delay(Arc::clone(&gate)));
    let client = stage.ask(Want { lease: Duration::from_millis(100), ..want() });
    stage.until(1, 0).await;
    stage.until(0, 0).await;
    gate.notify_one();
    let refusal = client.await.unwrap().unwrap_err();
    assert_eq!(refusal, Refusal::TooLate { lease: Duration::from_millis(100) });
    stage.until_asked(Op::Cancel, 1).await;
}

#[tokio::test]
async fn a_wake_that_overtakes_the_answer_is_not_lost() {
    let stage = Stage::new();
    let held = stage.take(want()).await;
    let gate = Arc::new(Notify::new());
    stage.store.next(Op::Acquire, Act::Delay(Arc::clone(&gate)));
    let client = stage.ask(patient());
    stage.until(1, 1).await;
    // The wake comes now; the answer "held by another" afterwards.
    assert_eq!(stage.service.release(lock("a"), held.id).await, Ok(()));
    tokio::task::yield_now().await;
    gate.notify_one();
    within(WOKEN, client).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_wake_that_comes_after_the_grant_takes_nothing_away() {
    let stage = Stage::new();
    let me = |owner: &str| Want { owner: Some(owner.into()), ..patient() };
    let held = stage.take(me("me")).await;
    let again = stage.take(me("me")).await;
    assert_eq!((again.token, again.holds), (held.token, 2));
    let asked = stage.store.asked().into_iter();
    let ids = asked.filter_map(|asked| if let Asked::Acquire(request) = asked { Some(request.id) } else { None });
    for id in ids {
        stage.store.wakes.send(WakeNews::Wake { id, name: lock("a") }).await.unwrap();
    }
    // One that nobody knows is answered, and shows that the others were heard before it.
    let stranger = LockId::from_u128(1);
    stage.store.wakes.send(WakeNews::Wake { id: stranger, name: lock("a") }).await.unwrap();
    stage.until_asked(Op::Cancel, 1).await;
    let mut asked = stage.store.asked().into_iter();
    let cancelled = asked.find_map(|asked| if let Asked::Cancel(request) = asked { Some(request.id) } else { None });
    assert_eq!((cancelled, stage.store.count(Op::Cancel)), (Some(stranger), 1));
    assert_eq!(stage.insight().await.holders[0].holds, 2);
}

#[tokio::test]
async fn a_ticket_that_nobody_waits_under_is_passed_over() {
    let stage = Stage::new();
    let held = stage.take(want()).await;
    let zombie = AcquireRequest {
        names: vec![lock("a")],
        session: stage.service.session,
        id: LockId::from_u128(7),
        owner: "gone".into(),
        beside: None,
        identity: "web-0".into(),
        lease: Duration::from_secs(60),
        at_least: Duration::ZERO,
        permits: 1,
        floor: Token::NONE,
        queueing: Queueing::Fair,
        yields: false,
        reminds: false,
        tokens: 1,
        guard: None,
    };
    stage.store.memory.acquire(zombie).await.unwrap();
    let client = stage.ask(patient());
    stage.until(1, 2).await;
    stage.service.release(lock("a"), held.id).await.unwrap();
    within(WOKEN, client).await.unwrap().unwrap();
    stage.until(1, 0).await;
}

#[tokio::test]
async fn a_gap_makes_everybody_look() {
    let stage = Stage::new();
    let other = Stage::over(Arc::clone(&stage.store.memory), 10);
    let held = stage.take(want()).await;
    let client = other.ask(patient());
    stage.until(1, 1).await;
    let before = other.store.count(Op::Acquire);
    other.store.wakes.send(WakeNews::Gap).await.unwrap();
    within(WOKEN, other.until_asked(Op::Acquire, before + 1)).await;
    stage.service.release(lock("a"), held.id).await.unwrap();
    within(WOKEN, client).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_store_that_is_down_at_the_release_is_asked_until_it_is_back() {
    let stage = Stage::new();
    let held = stage.take(want()).await;
    for _ in 0..3 {
        stage.store.next(Op::Release, Act::Refuse);
    }
    assert_eq!(stage.service.release(lock("a"), held.id).await, Ok(()));
    assert_eq!(stage.store.count(Op::Release), 4);
    stage.until(0, 0).await;
}

#[tokio::test]
async fn a_release_whose_answer_is_lost_takes_one_hold_and_not_two() {
    let stage = Stage::new();
    let mine = Want { owner: Some("me".into()), ..want() };
    let held = stage.take(mine.clone()).await;
    stage.take(mine).await;
    stage.store.next(Op::Release, Act::LoseReply);
    assert_eq!(stage.service.release(lock("a"), held.id).await, Ok(()));
    assert_eq!(stage.insight().await.holders[0].holds, 1);
    assert_eq!(stage.service.release(lock("a"), held.id).await, Ok(()), "as often as it is asked for");
    assert_eq!(stage.insight().await.holders[0].holds, 1);
}

/// An app that sends its releases again, because their answers were lost, frees the lock of nobody.
#[tokio::test]
async fn releases_of_one_owner_that_are_repeated_crosswise_leave_its_third_hold() {
    let stage = Stage::new();
    let other = Stage::over(Arc::clone(&stage.store.memory), 10);
    let mine = Want { owner: Some("me".into()), ..want() };
    let [one, two, three] =
        [stage.take(mine.clone()).await, stage.take(mine.clone()).await, stage.take(mine).await].map(|held| held.id);
    for id in [one, two, one] {
        stage.store.next(Op::Release, Act::LoseReply);
        assert_eq!(stage.service.release(lock("a"), id).await, Ok(()));
    }
    assert!(matches!(other.service.acquire(want()).await, Err(Refusal::Held { .. })), "the third hold stands");
    assert_eq!(stage.service.release(lock("a"), three).await, Ok(()));
    other.take(want()).await;
}

#[tokio::test]
async fn in_the_last_moments_of_a_lease_a_lock_is_given_back_on_all_of_its_names() {
    let stage = Stage::new();
    let names = vec![lock("a"), lock("b")];
    let held = stage.take(Want { names, lease: Duration::from_secs(20), ..want() }).await;
    // Past its validity, and not of its lease.
    stage.service.held.shorten(held.id, stage.service.now());
    assert_eq!(stage.service.release(lock("b"), held.id).await, Ok(()));
    for name in ["a", "b"] {
        stage.take(Want { names: vec![lock(name)], ..want() }).await;
    }
}

#[tokio::test]
async fn one_that_waits_is_granted_beside_its_owners_hold_as_soon_as_there_is_one() {
    let stage = Stage::new();
    let other = Stage::over(Arc::clone(&stage.store.memory), 10);
    let held = other.take(want()).await;
    let mine = Want { owner: Some("me".into()), ..patient() };
    let both = [stage.ask(mine.clone()), stage.ask(mine)];
    until("both wait", async || stage.metric("baton_locks_waiting") == 2.0).await;
    assert_eq!(other.service.release(lock("a"), held.id).await, Ok(()));
    let mut holds = Vec::new();
    for client in both {
        holds.push(within(WOKEN, client).await.unwrap().unwrap().holds);
    }
    holds.sort_unstable();
    assert_eq!(holds, [1, 2]);
}

#[tokio::test]
async fn a_client_that_goes_while_it_releases_releases_all_the_same() {
    let stage = Stage::new();
    let held = stage.take(want()).await;
    stage.store.next(Op::Release, Act::Refuse);
    let service = Arc::clone(&stage.service);
    let client = tokio::spawn(async move { service.release(lock("a"), held.id).await });
    stage.until_asked(Op::Release, 1).await;
    client.abort();
    stage.until(0, 0).await;
}
