//! Locks that go from one request of a sidecar to the next, without a word to the store.

use std::sync::Arc;
use std::time::Duration;

use testkit::last_for;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::super::release::give_back;
use super::super::{Granted, Refusal, Want};
use super::stage::{Act, Asked, Op, Stage, WOKEN, lock, patient, until, want, within};
use crate::protocol::{AcquireRequest, LockReleaseRequest, TURN_MAX};
use crate::store::WakeNews;

type Client = JoinHandle<Result<Granted, Refusal>>;

/// One that waits here, and sleeps.
async fn waiter(stage: &Stage, want: Want) -> Client {
    let before = stage.service.waiters.count();
    let client = stage.ask(want);
    until("it waits", async || stage.service.waiters.count() == before + 1).await;
    client
}

/// A lock that is granted with a turn: its request waited, and so does this one. The machine may take longer for the
/// rest than a turn lasts: then it is tried anew.
async fn in_turn(stage: &Stage, wanted: &Want) -> (Granted, Client) {
    loop {
        let held = stage.take(want()).await;
        let first = waiter(stage, wanted.clone()).await;
        let second = waiter(stage, wanted.clone()).await;
        until("both have tickets", async || stage.insight().await.waiting == 2).await;
        assert_eq!(stage.service.release(lock("a"), held.id).await, Ok(()));
        let first = within(WOKEN, first).await.unwrap().unwrap();
        if !second.is_finished() {
            return (first, second);
        }
        for granted in [first, within(WOKEN, second).await.unwrap().unwrap()] {
            let _ = stage.service.release(lock("a"), granted.id).await;
        }
        stage.until(0, 0).await;
    }
}

/// The same, until the lock has gone on to the second in its turn.
pub(super) async fn passed(stage: &Stage, wanted: &Want) -> (Granted, Granted) {
    loop {
        let (first, second) = in_turn(stage, wanted).await;
        let released = stage.store.count(Op::Release);
        assert_eq!(stage.service.release(lock("a"), first.id).await, Ok(()));
        let second = within(WOKEN, second).await.unwrap().unwrap();
        if stage.store.count(Op::Release) == released {
            return (first, second);
        }
        assert_eq!(stage.service.release(lock("a"), second.id).await, Ok(()));
        stage.until(0, 0).await;
    }
}

fn acquisitions(stage: &Stage) -> Vec<AcquireRequest> {
    let asked = stage.store.asked().into_iter();
    asked.filter_map(|asked| if let Asked::Acquire(request) = asked { Some(request) } else { None }).collect()
}

fn releases(stage: &Stage) -> Vec<LockReleaseRequest> {
    let asked = stage.store.asked().into_iter();
    asked.filter_map(|asked| if let Asked::Release(request) = asked { Some(request) } else { None }).collect()
}

#[tokio::test]
async fn in_a_turn_the_lock_goes_from_request_to_request_without_a_word_to_the_store() {
    let stage = Stage::new();
    let (first, second) = passed(&stage, &patient()).await;
    assert!(second.token.get() == first.token.get() + 1 && second.id != first.id);
    assert!(second.valid_until == first.valid_until, "within the lease that the store has granted");
    assert_eq!(stage.service.release(lock("a"), second.id).await, Ok(()));
    stage.until(0, 0).await;
    let releases = releases(&stage);
    let Some(LockReleaseRequest { id, seat: Some(seat), .. }) = releases.last() else { panic!("{releases:?}") };
    assert_eq!((*id, seat.id, &seat.served[..]), (second.id, first.id, &[second.id][..]));
    assert_eq!((stage.metric("baton_locks_held"), stage.metric("baton_locks_waiting")), (0.0, 0.0));
    for id in [first.id, second.id] {
        assert_eq!(stage.service.release(lock("a"), id).await, Ok(()), "asked for once more");
        assert_eq!(stage.service.extend(lock("a"), id, None).await, Err(Refusal::Lost));
    }
}

#[tokio::test]
async fn a_request_that_nobody_waits_beside_has_no_turn_and_is_released_through_any_sidecar() {
    let stage = Stage::new();
    let held = stage.take(patient()).await;
    assert_eq!(acquisitions(&stage)[0].tokens, 1);
    let other = Stage::over(Arc::clone(&stage.store.memory), 10);
    assert_eq!(other.service.release(lock("a"), held.id).await, Ok(()));
}

#[tokio::test]
async fn a_request_that_has_waited_beside_others_stands_back_for_who_is_queued() {
    let stage = Stage::new();
    let held = stage.take(want()).await;
    let client = waiter(&stage, patient()).await;
    stage.until(1, 1).await;
    let yields: Vec<bool> = acquisitions(&stage).iter().map(|request| request.yields).collect();
    assert_eq!(yields, [false, true]);
    assert_eq!(stage.service.release(lock("a"), held.id).await, Ok(()));
    let granted = within(WOKEN, client).await.unwrap().unwrap();
    assert_eq!(stage.service.release(lock("a"), granted.id).await, Ok(()));
}

#[tokio::test]
async fn a_turn_is_so_many_requests_at_the_most_and_then_the_store_is_asked() {
    let stage = Stage::new();
    let other = Stage::over(Arc::clone(&stage.store.memory), 10);
    let held = stage.take(want()).await;
    let clients: Vec<JoinHandle<u64>> = (0..TURN_MAX + 8)
        .map(|_| {
            let service = Arc::clone(&stage.service);
            tokio::spawn(async move {
                let held = service.acquire(patient()).await.unwrap().take();
                service.release(lock("a"), held.id).await.unwrap();
                held.token.get()
            })
        })
        .collect();
    until("all have tickets", async || stage.insight().await.waiting == TURN_MAX + 8).await;
    let stranger = other.ask(patient());
    until("the stranger has one, too", async || stage.insight().await.waiting == TURN_MAX + 9).await;
    assert_eq!(stage.service.release(lock("a"), held.id).await, Ok(()));
    let mut tokens = Vec::new();
    for client in clients {
        tokens.push(within(WOKEN, client).await.unwrap());
    }
    tokens.sort_unstable();
    let turns: Vec<usize> = tokens.chunk_by(|one, next| next - one == 1).map(<[u64]>::len).collect();
    println!("turns of {turns:?}");
    assert!(turns.iter().all(|requests| *requests <= TURN_MAX as usize) && turns.len() > 1, "{turns:?}");
    assert_eq!(tokens.len(), TURN_MAX as usize + 8);
    let granted = within(WOKEN, stranger).await.unwrap().unwrap();
    assert_eq!(other.service.release(lock("a"), granted.id).await, Ok(()));
    stage.until(0, 0).await;
}

#[tokio::test]
async fn who_keeps_a_lock_beyond_its_turn_is_known_to_the_store() {
    let stage = Stage::new();
    let (_, second) = passed(&stage, &patient()).await;
    until("the store has heard", async || stage.insight().await.holders[0].token == second.token).await;
    let other = Stage::over(Arc::clone(&stage.store.memory), 10);
    other.service.extend(lock("a"), second.id, None).await.unwrap();
    assert_eq!(other.service.release(lock("a"), second.id).await, Ok(()));
}

#[tokio::test]
async fn a_client_that_goes_while_the_lock_comes_to_it_leaves_no_lock_and_the_next_gets_it() {
    let stage = Stage::new();
    let (first, second) = in_turn(&stage, &patient()).await;
    let third = waiter(&stage, patient()).await;
    second.abort();
    assert_eq!(stage.service.release(lock("a"), first.id).await, Ok(()));
    let third = within(WOKEN, third).await.unwrap().unwrap();
    assert!(third.token > first.token);
    assert_eq!(stage.service.release(lock("a"), third.id).await, Ok(()));
    stage.until(0, 0).await;
}

#[tokio::test]
async fn a_late_wake_takes_only_the_ticket_of_who_has_the_lock_in_a_turn() {
    let stage = Stage::new();
    let (first, second) = passed(&stage, &patient()).await;
    for id in [first.id, second.id] {
        stage.store.wakes.send(WakeNews::Wake { id, name: lock("a") }).await.unwrap();
    }
    stage.until_asked(Op::Cancel, 1).await;
    let cancelled = stage.store.asked().into_iter();
    let mut cancelled =
        cancelled.filter_map(|asked| if let Asked::Cancel(request) = asked { Some(request) } else { None });
    assert!(cancelled.all(|request| request.keeps && request.id == second.id));
    assert_eq!(stage.insight().await.holders.len(), 1);
    assert_eq!(stage.service.release(lock("a"), second.id).await, Ok(()));
}

#[tokio::test]
async fn an_owner_that_asks_again_ends_the_turn_and_has_two_holds() {
    let stage = Stage::new();
    let mine = Want { owner: Some("me".into()), ..patient() };
    // The second is of the same owner, and is granted beside the first as soon as that is.
    let held = stage.take(want()).await;
    let both = [waiter(&stage, mine.clone()).await, waiter(&stage, mine).await];
    let stranger = waiter(&stage, patient()).await;
    assert_eq!(stage.service.release(lock("a"), held.id).await, Ok(()));
    let mut holds = Vec::new();
    for client in both {
        holds.push(within(WOKEN, client).await.unwrap().unwrap());
    }
    assert_eq!(holds[0].token, holds[1].token);
    assert_eq!(stage.service.release(lock("a"), holds[0].id).await, Ok(()));
    assert!(!stranger.is_finished(), "the other hold stands");
    assert_eq!(stage.insight().await.holders[0].holds, 1);
    assert_eq!(stage.service.release(lock("a"), holds[1].id).await, Ok(()));
    within(WOKEN, stranger).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_release_whose_answer_is_lost_at_the_end_of_a_turn_is_made_good() {
    for act in [Act::Refuse, Act::LoseReply] {
        let stage = Stage::new();
        let (_, second) = passed(&stage, &patient()).await;
        stage.store.next(Op::Release, act.clone());
        assert_eq!(stage.service.release(lock("a"), second.id).await, Ok(()), "{act:?}");
        stage.until(0, 0).await;
    }
}

#[tokio::test]
async fn an_extension_whose_answer_is_lost_tells_the_same_again() {
    let stage = Stage::new();
    let (_, second) = passed(&stage, &patient()).await;
    stage.store.next(Op::Extend, Act::LoseReply);
    let extended = stage.service.extend(lock("a"), second.id, None).await.unwrap();
    assert!(extended.valid_until >= second.valid_until, "nothing that was promised is shortened");
    assert_eq!(stage.insight().await.holders[0].token, second.token);
    assert_eq!(stage.service.release(lock("a"), second.id).await, Ok(()));
    stage.until(0, 0).await;
}

#[tokio::test]
async fn fair_requests_and_other_leases_are_not_served_in_a_turn() {
    for other in [Want { fair: true, ..patient() }, Want { lease: Duration::from_secs(61), ..patient() }] {
        let stage = Stage::new();
        let (first, second) = in_turn(&stage, &patient()).await;
        second.abort();
        until("it has left", async || stage.service.waiters.count() == 0).await;
        let next = waiter(&stage, other).await;
        let before = stage.store.count(Op::Release);
        assert_eq!(stage.service.release(lock("a"), first.id).await, Ok(()));
        assert_eq!(stage.store.count(Op::Release), before + 1);
        within(WOKEN, next).await.unwrap().unwrap();
    }
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
        assert!(acquisitions(&stage).iter().all(|request| request.tokens == 1));
    }
}

#[tokio::test]
async fn a_connection_that_closes_gives_its_lock_to_who_waits_here() {
    let stage = Stage::new();
    let hold = stage.service.hold(want(), None).await.unwrap();
    let client = waiter(&stage, patient()).await;
    drop(hold);
    let granted = within(WOKEN, client).await.unwrap().unwrap();
    assert_eq!(stage.service.release(lock("a"), granted.id).await, Ok(()));
    stage.until(0, 0).await;
}

#[tokio::test]
async fn a_wake_that_comes_while_a_request_is_on_its_way_is_not_lost() {
    let stage = Stage::new();
    let other = Stage::over(Arc::clone(&stage.store.memory), 10);
    let held = other.take(want()).await;
    let gate = Arc::new(Notify::new());
    stage.store.next(Op::Acquire, Act::Delay(Arc::clone(&gate)));
    let client = stage.ask(patient());
    stage.until(1, 1).await;
    assert_eq!(other.service.release(lock("a"), held.id).await, Ok(()));
    tokio::task::yield_now().await;
    gate.notify_one();
    within(WOKEN, client).await.unwrap().unwrap();
}

#[tokio::test]
async fn who_comes_when_others_wait_here_has_a_ticket_before_long() {
    let stage = Stage::new();
    stage.take(want()).await;
    let (first, second) = (waiter(&stage, patient()).await, waiter(&stage, patient()).await);
    within(WOKEN, stage.until(1, 2)).await;
    assert_eq!(stage.store.count(Op::Acquire), 3);
    first.abort();
    second.abort();
    stage.until(1, 0).await;
}

/// Both names are busy without a gap, and free at one moment never: whoever comes finds the one free and holds it until
/// the other is taken.
#[tokio::test]
async fn a_request_for_several_names_is_not_starved_by_those_for_each() {
    let stage = Stage::new();
    let other = Stage::over(Arc::clone(&stage.store.memory), 10);
    let named = |name: &str| Want { names: vec![lock(name)], ..want() };
    let mut held = ("a", stage.take(named("a")).await);
    let both = other.ask(Want { names: vec![lock("a"), lock("b")], ..patient() });
    stage.until(1, 1).await;
    let taking_turns = async {
        loop {
            let next = if held.0 == "a" { "b" } else { "a" };
            let taken = stage.service.acquire(named(next)).await;
            let (name, before) = held;
            assert_eq!(stage.service.release(lock(name), before.id).await, Ok(()));
            match taken {
                Ok(claim) => held = (next, claim.take()),
                Err(_) => break,
            }
            // As long as the work takes.
            last_for(Duration::from_millis(30)).await;
        }
    };
    within(WOKEN, taking_turns).await;
    assert!(within(WOKEN, both).await.unwrap().is_ok());
}

/// As when an app gives a hold back by its id and closes its connection, too: the store knows the turn by that id.
#[tokio::test]
async fn a_hold_that_was_passed_on_is_not_given_back_a_second_time_when_its_connection_ends() {
    let stage = Stage::new();
    let (first, second) = passed(&stage, &patient()).await;
    let released = stage.store.count(Op::Release);
    assert_eq!(give_back(Arc::clone(&stage.service), vec![lock("a")], first.id).await, Ok(()));
    assert_eq!(stage.store.count(Op::Release), released, "it is another's now");
    assert_eq!(stage.insight().await.holders.len(), 1);
    assert_eq!(stage.service.release(lock("a"), second.id).await, Ok(()));
    stage.until(0, 0).await;
}
