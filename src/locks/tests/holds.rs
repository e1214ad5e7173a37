//! Locks that last as long as a connection.

use std::sync::Arc;
use std::time::Duration;

use testkit::last_for;

use super::super::{Hold, HoldState, Refusal, Want};
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
    let mut hold = stage.service.hold(short(), None).await.unwrap();
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
    let mut hold = stage.service.hold(Want { lease: Duration::from_secs(2), ..want() }, None).await.unwrap();
    stage.store.next(Op::Extend, Act::Refuse);
    stage.store.next(Op::Extend, Act::LoseReply);
    within(WOKEN, hold.state.changed()).await.unwrap();
    assert!(matches!(*hold.state.borrow(), HoldState::Held { .. }));
    assert_eq!(stage.store.count(Op::Extend), 3);
}

#[tokio::test]
async fn a_hold_that_cannot_be_renewed_is_lost_when_its_promise_ends() {
    let stage = Stage::new();
    let mut hold = stage.service.hold(short(), None).await.unwrap();
    refuse_extensions(&stage);
    within(WOKEN, hold.state.changed()).await.unwrap();
    assert!(matches!(*hold.state.borrow(), HoldState::Lost { .. }));
    assert!(stage.service.now() >= hold.granted.valid_until);
    assert_eq!(stage.metric("baton_locks_lost_total"), 1.0);
}

#[tokio::test]
async fn a_hold_that_is_lost_is_counted_though_all_was_tidied_first() {
    let stage = Stage::new();
    let mut hold = stage.service.hold(short(), None).await.unwrap();
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
    let mut hold = stage.service.hold(Want { lease: Duration::from_secs(1), ..want() }, None).await.unwrap();
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
    let first = stage.service.hold(mine.clone(), None).await.unwrap();
    let second = stage.service.hold(mine, None).await.unwrap();
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
    let hold = stage.service.hold(mine.clone(), None).await.unwrap();
    assert_eq!(stage.take(mine).await.holds, 2);
    drop(hold);
    stage.until_asked(Op::Release, 1).await;
    until("the lock is forgotten", async || stage.metric("baton_locks_held") == 0.0).await;
}

#[tokio::test]
async fn holds_take_places_as_waiters_do() {
    let stage = Stage::over(Stage::new().store.memory.clone(), 1);
    let hold = stage.service.hold(want(), None).await.unwrap();
    assert_eq!(stage.service.acquire(patient()).await.unwrap_err(), Refusal::TooManyWaiters { max: 1 });
    drop(hold);
    stage.until(0, 0).await;
    within(WOKEN, stage.service.all_ended()).await;
    stage.service.hold(patient(), None).await.unwrap();
}

#[tokio::test]
async fn at_the_end_a_client_that_hangs_up_gives_its_lock_back_and_another_keeps_its_promise() {
    let stage = Stage::new();
    let mut polite = stage.service.hold(want(), None).await.unwrap();
    let other = Want { names: vec![lock("b")], ..want() };
    let deaf = stage.service.hold(other.clone(), None).await.unwrap();
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

/// What a hold is told when it is lost: after its promise, and never before.
async fn lost(stage: &Stage, hold: &mut Hold) -> &'static str {
    let mut until = hold.granted.valid_until;
    loop {
        within(WOKEN, hold.state.changed()).await.unwrap();
        match *hold.state.borrow_and_update() {
            HoldState::Held { valid_until } => until = valid_until,
            HoldState::Lost { reason } => {
                assert!(stage.service.now() >= until, "it was promised for longer");
                return reason;
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn while_the_app_fails_its_check_no_hold_is_renewed_and_the_next_has_the_lock_after_its_promise() {
    let stage = Stage::new();
    let mut hold = stage.service.hold(short(), None).await.unwrap();
    within(WOKEN, hold.state.changed()).await.unwrap();
    let own = stage.take(Want { names: vec![lock("b")], ..want() }).await;
    let waiting = stage.ask(patient());
    stage.until(1, 1).await;
    stage.app.send_replace(1);
    let asked = stage.store.count(Op::Extend);
    assert!(lost(&stage, &mut hold).await.contains("appCheck"));
    within(WOKEN, waiting).await.unwrap().unwrap();
    assert!(stage.store.count(Op::Extend) <= asked + 1, "one may have been on its way");
    assert_eq!(stage.metric("baton_locks_lost_total"), 1.0);
    stage.service.extend(lock("b"), own.id, None).await.expect("what the app extends by itself is its own affair");
}

#[tokio::test]
async fn an_app_that_is_well_again_before_its_promise_ends_keeps_its_hold() {
    let stage = Stage::new();
    let lease = Duration::from_secs(6);
    let mut hold = stage.service.hold(Want { lease, ..want() }, None).await.unwrap();
    stage.app.send_replace(2);
    // Its first renewal is due after a third of it.
    last_for(lease * 3 / 8).await;
    stage.app.send_replace(1);
    assert_eq!(stage.store.count(Op::Extend), 0);
    stage.app.send_replace(0);
    within(WOKEN, hold.state.changed()).await.unwrap();
    assert!(matches!(*hold.state.borrow(), HoldState::Held { .. }));
}

#[tokio::test]
async fn an_app_that_fails_its_check_neither_takes_a_hold_nor_waits_for_one() {
    let stage = Stage::new();
    stage.take(want()).await;
    let (service, mut waiting) = (Arc::clone(&stage.service), tokio::task::JoinSet::new());
    waiting.spawn(async move { service.hold(patient(), None).await });
    stage.until(1, 1).await;
    stage.app.send_replace(1);
    let refusal = within(WOKEN, waiting.join_next()).await.unwrap().unwrap().unwrap_err();
    assert_eq!(refusal, Refusal::AppFails);
    stage.until(1, 0).await;
    let free = Want { names: vec![lock("b")], ..want() };
    assert_eq!(stage.service.hold(free.clone(), None).await.unwrap_err(), Refusal::AppFails);
    stage.take(free).await;
}

#[tokio::test]
async fn a_hold_ends_when_it_was_held_for_as_long_as_it_was_asked_for() {
    let stage = Stage::new();
    let max = Duration::from_millis(700);
    let begun = stage.service.now();
    let mut hold = stage.service.hold(short(), Some(max)).await.unwrap();
    assert!(lost(&stage, &mut hold).await.contains("max"));
    assert!(stage.service.now() >= begun + max, "it was renewed until then");
    stage.until(0, 0).await;
    assert_eq!(stage.metric("baton_locks_lost_total"), 0.0, "it has ended as it was meant to");
    let brief = stage.service.hold(want(), Some(max)).await.unwrap();
    assert!(brief.granted.valid_until <= stage.service.now() + max, "nothing is promised past its end");
}

/// A client that has a connection may send `PUT` as well, for a lease of its own choice.
#[tokio::test]
async fn what_an_app_extended_by_itself_stands_though_its_check_fails() {
    let stage = Stage::new();
    let mut hold = stage.service.hold(short(), None).await.unwrap();
    let longer = Some(Duration::from_secs(2));
    let extended = stage.service.extend(lock("a"), hold.granted.id, longer).await.unwrap();
    stage.app.send_replace(1);
    let waiting = stage.ask(patient());
    lost(&stage, &mut hold).await;
    assert!(stage.service.now() >= extended.valid_until, "it was promised for longer");
    within(WOKEN, waiting).await.unwrap().unwrap();
}

#[tokio::test]
async fn an_extension_promises_nothing_past_what_a_hold_was_asked_for() {
    let stage = Stage::new();
    let (begun, max) = (stage.service.now(), Duration::from_secs(1));
    let mut hold = stage.service.hold(Want { lease: Duration::from_secs(9), ..want() }, Some(max)).await.unwrap();
    let extended = stage.service.extend(lock("a"), hold.granted.id, None).await.unwrap();
    assert_eq!(extended.valid_until, hold.granted.valid_until, "it ends then");
    assert!(lost(&stage, &mut hold).await.contains("max"));
    assert!(stage.service.now() >= begun + max);
    assert_eq!(stage.service.extend(lock("a"), hold.granted.id, None).await, Err(Refusal::Lost));
}
