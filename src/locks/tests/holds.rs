//! Locks that last as long as a connection.

use std::sync::Arc;
use std::time::Duration;

use super::super::{HoldState, Refusal, Want};
use super::stage::{Act, Op, Stage, WOKEN, lock, patient, until, want, within};

fn short() -> Want {
    Want { lease: Duration::from_millis(300), ..want() }
}

/// More of them than a hold asks for.
fn refuse_extensions(stage: &Stage) {
    for _ in 0..50 {
        stage.store.next(Op::Extend, Act::Refuse);
    }
}

#[tokio::test]
async fn a_hold_is_renewed_for_as_long_as_it_lives_and_then_given_back() {
    let stage = Stage::new();
    let mut hold = stage.service.hold(short()).await.unwrap();
    let mut last = hold.granted.valid_until;
    for _ in 0..4 {
        within(WOKEN, hold.state.changed()).await.unwrap();
        let HoldState::Held { valid_until } = *hold.state.borrow_and_update() else { panic!("lost") };
        assert!(valid_until > last);
        last = valid_until;
    }
    let waiting = stage.ask(patient());
    stage.until(1, 1).await;
    drop(hold);
    within(WOKEN, waiting).await.unwrap().unwrap();
    assert_eq!(stage.store.count(Op::Cancel), 0, "it was released, not cancelled");
}

#[tokio::test]
async fn a_hold_outlives_a_few_answers_that_do_not_come() {
    let stage = Stage::new();
    let mut hold = stage.service.hold(Want { lease: Duration::from_secs(2), ..want() }).await.unwrap();
    stage.store.next(Op::Extend, Act::Refuse);
    stage.store.next(Op::Extend, Act::LoseReply);
    within(WOKEN, hold.state.changed()).await.unwrap();
    assert!(matches!(*hold.state.borrow(), HoldState::Held { .. }));
    assert_eq!(stage.store.count(Op::Extend), 3);
}

#[tokio::test]
async fn a_hold_that_cannot_be_renewed_is_lost_when_its_promise_ends() {
    let stage = Stage::new();
    let mut hold = stage.service.hold(short()).await.unwrap();
    refuse_extensions(&stage);
    within(WOKEN, hold.state.changed()).await.unwrap();
    assert!(matches!(*hold.state.borrow(), HoldState::Lost { .. }));
    assert!(stage.service.now() >= hold.granted.valid_until);
    assert_eq!(stage.metric("baton_locks_lost_total"), 1.0);
}

#[tokio::test]
async fn a_hold_that_is_lost_is_counted_though_all_was_tidied_first() {
    let stage = Stage::new();
    let mut hold = stage.service.hold(short()).await.unwrap();
    refuse_extensions(&stage);
    // As after a standstill, when everything is due at once.
    stage.service.held.tidy(hold.granted.valid_until);
    within(WOKEN, hold.state.changed()).await.unwrap();
    assert!(matches!(*hold.state.borrow(), HoldState::Lost { .. }));
    assert_eq!(stage.metric("baton_locks_lost_total"), 1.0);
    assert_eq!(stage.metric("baton_locks_held"), 0.0);
}

#[tokio::test]
async fn a_hold_whose_lock_is_gone_is_told_so() {
    let stage = Stage::new();
    let mut hold = stage.service.hold(Want { lease: Duration::from_secs(1), ..want() }).await.unwrap();
    let thief = Stage::over(Arc::clone(&stage.store.memory), 10);
    thief.service.release(lock("a"), hold.granted.id).await.unwrap();
    within(WOKEN, hold.state.changed()).await.unwrap();
    assert!(matches!(*hold.state.borrow(), HoldState::Lost { .. }));
    let successor = stage.take(want()).await;
    drop(hold);
    within(WOKEN, stage.service.all_ended()).await;
    assert_eq!(stage.insight().await.holders[0].token, successor.token, "the successor's lock is not touched");
}

#[tokio::test]
async fn two_holds_of_one_owner_end_apart() {
    let stage = Stage::new();
    let mine = Want { owner: Some("me".into()), ..want() };
    let first = stage.service.hold(mine.clone()).await.unwrap();
    let second = stage.service.hold(mine).await.unwrap();
    assert_eq!((first.granted.token, second.granted.holds), (second.granted.token, 2));
    drop(first);
    stage.until_asked(Op::Release, 1).await;
    within(WOKEN, stage.until(1, 0)).await;
    drop(second);
    stage.until(0, 0).await;
}

#[tokio::test]
async fn a_lock_whose_hold_has_ended_is_forgotten_with_the_lease_of_what_its_owner_took_besides() {
    let stage = Stage::new();
    let mine = Want { owner: Some("me".into()), ..short() };
    let hold = stage.service.hold(mine.clone()).await.unwrap();
    assert_eq!(stage.take(mine).await.holds, 2);
    drop(hold);
    stage.until_asked(Op::Release, 1).await;
    until("the lock is forgotten", async || stage.metric("baton_locks_held") == 0.0).await;
}

#[tokio::test]
async fn holds_take_places_as_waiters_do() {
    let stage = Stage::over(Stage::new().store.memory.clone(), 1);
    let hold = stage.service.hold(want()).await.unwrap();
    assert_eq!(stage.service.acquire(patient()).await.unwrap_err(), Refusal::TooManyWaiters { max: 1 });
    drop(hold);
    stage.until(0, 0).await;
    within(WOKEN, stage.service.all_ended()).await;
    stage.service.hold(patient()).await.unwrap();
}

#[tokio::test]
async fn at_the_end_a_client_that_hangs_up_gives_its_lock_back_and_another_keeps_its_promise() {
    let stage = Stage::new();
    let mut polite = stage.service.hold(want()).await.unwrap();
    let other = Want { names: vec![lock("b")], ..want() };
    let deaf = stage.service.hold(other.clone()).await.unwrap();
    stage.service.begin_shutdown();
    within(WOKEN, polite.state.changed()).await.unwrap();
    assert!(matches!(*polite.state.borrow(), HoldState::Ending { .. }));
    drop(polite);
    stage.until(0, 0).await;
    within(WOKEN, stage.service.all_ended()).await;
    assert_eq!(*deaf.state.borrow(), HoldState::Left);
    let next = Stage::over(Arc::clone(&stage.store.memory), 10);
    assert!(matches!(next.service.acquire(other).await, Err(Refusal::Held { .. })), "its lease goes on");
}
