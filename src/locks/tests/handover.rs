//! Locks that go from one request of a sidecar to the next.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::super::handover::TURN_MAX;
use super::super::{Granted, Refusal, Want};
use super::stage::{Act, Asked, Op, Stage, WOKEN, lock, patient, until, want, within};
use crate::base::clock::{BootClock, Clock};
use crate::protocol::HandOverRequest;

type Client = JoinHandle<Result<Granted, Refusal>>;

/// One that waits here.
async fn waiter(stage: &Stage, want: Want) -> Client {
    let before = stage.service.waiters.count();
    let client = stage.ask(want);
    until("it waits", async || stage.service.waiters.count() == before + 1).await;
    client
}

fn handed(stage: &Stage) -> Vec<HandOverRequest> {
    let asked = stage.store.asked().into_iter();
    asked.filter_map(|asked| if let Asked::HandOver(request) = asked { Some(request) } else { None }).collect()
}

#[tokio::test]
async fn a_release_hands_the_lock_to_who_has_waited_here_for_the_longest_in_one_step() {
    let stage = Stage::new();
    let held = stage.take(want()).await;
    let (first, second) = (waiter(&stage, patient()).await, waiter(&stage, patient()).await);
    assert_eq!(stage.service.release(lock("a"), held.id).await, Ok(()));
    let one = first.await.unwrap().unwrap();
    assert!(one.token > held.token && one.id != held.id && !second.is_finished());
    assert_eq!(stage.service.release(lock("a"), one.id).await, Ok(()));
    let two = second.await.unwrap().unwrap();
    assert!(two.token > one.token);
    assert_eq!(stage.insight().await.holders[0].token, two.token);
    assert_eq!(stage.service.release(lock("a"), two.id).await, Ok(()));
    assert_eq!((stage.store.count(Op::HandOver), stage.store.count(Op::Release)), (2, 1), "the last is just released");
    for granted in [one, two] {
        let about = stage.store.asked().into_iter().filter(|asked| match asked {
            Asked::Acquire(request) => request.id == granted.id,
            Asked::HandOver(request) => request.acquire.id == granted.id,
            Asked::Extend(_) | Asked::Release | Asked::Cancel(_) => false,
        });
        assert!(matches!(about.last(), Some(Asked::HandOver(_))), "it was not asked for once more");
    }
    stage.until(0, 0).await;
    assert_eq!(stage.metric("baton_locks_releases_total"), 3.0);
    assert_eq!(stage.metric("baton_locks_acquisitions_total{outcome=\"granted\"}"), 3.0);
    assert_eq!((stage.metric("baton_locks_held"), stage.metric("baton_locks_waiting")), (0.0, 0.0));
}

#[tokio::test]
async fn what_is_handed_over_counts_from_when_it_was_sent() {
    let stage = Stage::new();
    let held = stage.take(want()).await;
    let gate = Arc::new(Notify::new());
    stage.store.next(Op::HandOver, Act::Delay(Arc::clone(&gate)));
    let client = waiter(&stage, Want { lease: Duration::from_millis(100), ..patient() }).await;
    let service = Arc::clone(&stage.service);
    let releasing = tokio::spawn(async move { service.release(lock("a"), held.id).await });
    stage.until(1, 0).await;
    stage.until(0, 0).await;
    gate.notify_one();
    let refusal = client.await.unwrap().unwrap_err();
    assert_eq!(refusal, Refusal::TooLate { lease: Duration::from_millis(100) }, "its lease is over");
    assert_eq!(releasing.await.unwrap(), Ok(()));
    stage.until_asked(Op::Cancel, 1).await;
}

#[tokio::test]
async fn a_client_that_goes_while_the_lock_is_handed_to_it_leaves_no_lock_and_the_next_gets_it() {
    let stage = Stage::new();
    let held = stage.take(want()).await;
    let (gate, other) = (Arc::new(Notify::new()), Stage::over(Arc::clone(&stage.store.memory), 10));
    stage.store.next(Op::HandOver, Act::Delay(Arc::clone(&gate)));
    let client = waiter(&stage, patient()).await;
    let next = other.ask(patient());
    stage.until(1, 2).await;
    let service = Arc::clone(&stage.service);
    let releasing = tokio::spawn(async move { service.release(lock("a"), held.id).await });
    stage.until_asked(Op::HandOver, 1).await;
    client.abort();
    assert!(client.await.unwrap_err().is_cancelled());
    tokio::task::yield_now().await;
    assert_eq!(stage.store.count(Op::Cancel), 0, "not before the answer is there: it could overtake the handover");
    gate.notify_one();
    assert_eq!(releasing.await.unwrap(), Ok(()));
    let granted = within(WOKEN, next).await.unwrap().unwrap();
    assert_eq!(stage.store.count(Op::Cancel), 1);
    assert_eq!(other.service.release(lock("a"), granted.id).await, Ok(()));
    stage.until(0, 0).await;
}

#[tokio::test]
async fn a_handover_that_was_lost_on_either_way_is_made_good_by_each_for_itself() {
    for act in [Act::Refuse, Act::LoseReply] {
        let stage = Stage::new();
        let held = stage.take(want()).await;
        let client = waiter(&stage, patient()).await;
        stage.store.next(Op::HandOver, act.clone());
        assert_eq!(stage.service.release(lock("a"), held.id).await, Ok(()), "{act:?}");
        let granted = within(WOKEN, client).await.unwrap().unwrap();
        let insight = stage.insight().await;
        assert_eq!((insight.holders.len(), insight.holders[0].token), (1, granted.token), "{act:?}");
        assert_eq!((stage.store.count(Op::HandOver), stage.store.count(Op::Release)), (1, 1), "{act:?}");
        assert_eq!(stage.service.release(lock("a"), granted.id).await, Ok(()));
        stage.until(0, 0).await;
    }
}

#[tokio::test]
async fn a_handover_that_ends_with_the_wait_is_waited_for() {
    let stage = Stage::new();
    let held = stage.take(want()).await;
    let gate = Arc::new(Notify::new());
    stage.store.next(Op::HandOver, Act::Delay(Arc::clone(&gate)));
    let (clock, wait) = (BootClock, Duration::from_millis(200));
    let client = waiter(&stage, Want { wait, ..want() }).await;
    let waits_since = clock.now();
    let service = Arc::clone(&stage.service);
    let releasing = tokio::spawn(async move { service.release(lock("a"), held.id).await });
    stage.until_asked(Op::HandOver, 1).await;
    let asked = stage.store.count(Op::Acquire);
    until("the wait is over", async || clock.now().since(waits_since) > wait * 3 / 2).await;
    assert!(!client.is_finished() && stage.store.count(Op::Acquire) == asked, "nothing else about it is under way");
    gate.notify_one();
    let granted = client.await.unwrap().unwrap();
    assert_eq!(releasing.await.unwrap(), Ok(()));
    assert_eq!(stage.service.release(lock("a"), granted.id).await, Ok(()));
    stage.until(0, 0).await;
}

#[tokio::test]
async fn after_a_turn_the_lock_goes_to_who_has_waited_elsewhere() {
    let stage = Stage::new();
    let other = Stage::over(Arc::clone(&stage.store.memory), 10);
    let mut held = stage.take(want()).await;
    let stranger = other.ask(patient());
    stage.until(1, 1).await;
    let next = loop {
        let next = waiter(&stage, patient()).await;
        assert_eq!(stage.service.release(lock("a"), held.id).await, Ok(()));
        until("somebody has it", async || next.is_finished() || stranger.is_finished()).await;
        if stranger.is_finished() {
            break next;
        }
        held = next.await.unwrap().unwrap();
    };
    let handed = handed(&stage);
    let (last, before) = handed.split_last().unwrap();
    assert!(last.yields && before.iter().all(|request| !request.yields));
    assert!(before.len() <= usize::try_from(TURN_MAX).unwrap(), "{}", before.len());
    let granted = stranger.await.unwrap().unwrap();
    assert_eq!(other.service.release(lock("a"), granted.id).await, Ok(()));
    within(WOKEN, next).await.unwrap().unwrap();
}

#[tokio::test]
async fn the_same_owner_takes_its_lock_again_though_others_wait_beside_it() {
    let stage = Stage::new();
    let mine = Want { owner: Some("me".into()), ..patient() };
    let held = stage.take(mine.clone()).await;
    let client = waiter(&stage, patient()).await;
    let again = stage.take(mine).await;
    assert_eq!((again.token, again.holds), (held.token, 2));
    assert_eq!(stage.service.release(lock("a"), held.id).await, Ok(()));
    assert_eq!(stage.store.count(Op::HandOver), 0, "not the last hold");
    assert_eq!(stage.service.release(lock("a"), again.id).await, Ok(()));
    within(WOKEN, client).await.unwrap().unwrap();
    assert_eq!(stage.store.count(Op::HandOver), 1);
}

#[tokio::test]
async fn locks_of_several_names_or_permits_are_released_and_their_waiters_woken() {
    let several = Want { names: vec![lock("a"), lock("b")], ..patient() };
    for wanted in [several, Want { permits: 2, ..patient() }] {
        let stage = Stage::new();
        let held = stage.take(wanted.clone()).await;
        if wanted.permits == 2 {
            stage.take(wanted.clone()).await;
        }
        let client = stage.ask(wanted);
        until("it has a ticket", async || stage.insight().await.waiting == 1).await;
        assert_eq!(stage.service.release(lock("a"), held.id).await, Ok(()));
        within(WOKEN, client).await.unwrap().unwrap();
        assert_eq!((stage.store.count(Op::HandOver), stage.store.count(Op::Release)), (0, 1));
    }
}

#[tokio::test]
async fn a_connection_that_closes_hands_its_lock_over() {
    let stage = Stage::new();
    let hold = stage.service.hold(want()).await.unwrap();
    let client = waiter(&stage, patient()).await;
    drop(hold);
    let granted = within(WOKEN, client).await.unwrap().unwrap();
    assert_eq!((stage.store.count(Op::HandOver), stage.store.count(Op::Release)), (1, 0));
    assert_eq!(stage.service.release(lock("a"), granted.id).await, Ok(()));
    stage.until(0, 0).await;
}

#[tokio::test]
async fn a_wake_that_comes_while_a_lock_is_handed_over_in_vain_is_not_lost() {
    let stage = Stage::new();
    let other = Stage::over(Arc::clone(&stage.store.memory), 10);
    let held = stage.take(want()).await;
    let fair = other.ask(Want { fair: true, ..patient() });
    stage.until(1, 1).await;
    let client = stage.ask(patient());
    stage.until(1, 2).await;
    let gate = Arc::new(Notify::new());
    stage.store.next(Op::HandOver, Act::Delay(Arc::clone(&gate)));
    let service = Arc::clone(&stage.service);
    let releasing = tokio::spawn(async move { service.release(lock("a"), held.id).await });
    // Nobody overtakes a fair request; and when it gives the lock back, the other's ticket is the first.
    let first = within(WOKEN, fair).await.unwrap().unwrap();
    assert_eq!(other.service.release(lock("a"), first.id).await, Ok(()));
    stage.until(0, 1).await;
    gate.notify_one();
    assert_eq!(releasing.await.unwrap(), Ok(()));
    within(WOKEN, client).await.unwrap().unwrap();
}

#[tokio::test]
async fn who_comes_when_others_wait_here_has_a_ticket_before_long() {
    let stage = Stage::new();
    stage.take(want()).await;
    let (first, second) = (waiter(&stage, patient()).await, waiter(&stage, patient()).await);
    within(WOKEN, stage.until(1, 2)).await;
    assert_eq!((stage.store.count(Op::Acquire), stage.store.count(Op::HandOver)), (3, 0));
    first.abort();
    second.abort();
    stage.until(1, 0).await;
}
