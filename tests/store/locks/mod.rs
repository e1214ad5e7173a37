//! The locks' scripts on real servers.

mod cost;
mod differential;
mod garbage;
mod kept;
mod opened;
mod operator;
mod servers;
mod sides;
mod steps;
mod turns;

use std::sync::Arc;
use std::time::Duration;

use baton::base::Subscription;
use baton::protocol::{
    AcquireReply, AcquireRequest, CancelRequest, ExtendReply, ExtendRequest, LockGrant, LockId, LockName,
    LockReleaseReply, LockReleaseRequest, Queueing, Restore, SessionId, Token, UnlockReply, UnlockRequest,
};
use baton::store::redis::RedisStore;
use baton::store::{LockStore, WakeNews};
use testkit::redis::RedisServer;
use testkit::within;

use super::databases::in_database;
use super::{connected, store_with, until_up};

/// Long enough that no test waits for it by accident.
const LEASE: Duration = Duration::from_secs(60);

fn session(number: u128) -> SessionId {
    SessionId::from_u128(number)
}

fn id(number: u128) -> LockId {
    LockId::from_u128(number)
}

fn names(names: &[&str]) -> Vec<LockName> {
    names.iter().map(|name| LockName::new(*name).expect("a good name")).collect()
}

/// A request of a session of its own, for an owner of its own, that does not wait; no guard.
fn ask(name: &str, number: u128) -> AcquireRequest {
    AcquireRequest {
        names: names(&[name]),
        session: session(number),
        id: id(number),
        owner: Arc::from(format!("owner {number}")),
        beside: None,
        identity: Arc::from(format!("web {number}")),
        lease: LEASE,
        at_least: Duration::ZERO,
        permits: 1,
        floor: Token::NONE,
        queueing: Queueing::No,
        yields: false,
        reminds: false,
        tokens: 1,
        guard: None,
    }
}

/// The same under a guard that is over as soon as it begins.
fn ask_guarded(name: &str, number: u128) -> AcquireRequest {
    AcquireRequest { guard: Some(Duration::from_millis(1)), ..ask(name, number) }
}

/// Until the guard of a store that is new is over, and that it is has been noted: then grants go the short way.
async fn noted_as_open(store: &RedisStore, name: &str) {
    for number in 1..=2 {
        while !matches!(acquire(store, ask_guarded(name, number)).await, AcquireReply::Granted(_)) {}
        release(store, name, number).await;
    }
}

fn waiting(name: &str, number: u128) -> AcquireRequest {
    AcquireRequest { queueing: Queueing::Fair, ..ask(name, number) }
}

fn extension(name: &str, number: u128) -> ExtendRequest {
    let (names, id, session) = (names(&[name]), id(number), session(number));
    ExtendRequest { names, id, session, seat: None, lease: None, restore: None, guard: None }
}

/// What the sidecar of [`ask`] knows of its lock.
fn known(number: u128, token: Token) -> Option<Box<Restore>> {
    let request = ask("any", number);
    let (owner, identity) = (request.owner, request.identity);
    Some(Box::new(Restore { owner, identity, token, last: token, permits: 1, lease: LEASE, at_least: Duration::ZERO }))
}

fn giving_back(name: &str, number: u128) -> LockReleaseRequest {
    LockReleaseRequest { names: names(&[name]), id: id(number), session: session(number), seat: None }
}

fn cancelling(name: &str, number: u128) -> CancelRequest {
    CancelRequest { names: names(&[name]), session: session(number), id: id(number), keeps: false }
}

fn unlocking(name: &str, token: Token) -> UnlockRequest {
    UnlockRequest { name: LockName::new(name).expect("a good name"), token }
}

async fn acquire(store: &RedisStore, request: AcquireRequest) -> AcquireReply {
    store.acquire(request).await.expect("an answer")
}

async fn granted(store: &RedisStore, request: AcquireRequest) -> LockGrant {
    match acquire(store, request).await {
        AcquireReply::Granted(grant) => grant,
        other => panic!("not granted: {other:?}"),
    }
}

async fn is_held(store: &RedisStore, request: AcquireRequest) -> bool {
    matches!(acquire(store, request).await, AcquireReply::Held { .. })
}

async fn release(store: &RedisStore, name: &str, number: u128) {
    let reply = store.release(giving_back(name, number)).await.expect("an answer");
    assert_eq!(reply, LockReleaseReply::Released);
}

fn is_extended(reply: &ExtendReply) -> bool {
    matches!(reply, ExtendReply::Extended { .. })
}

/// Listens, and waits until that has begun.
async fn listening(store: &RedisStore, number: u128) -> Subscription<WakeNews> {
    let mut wakes = store.wakes(session(number));
    assert_eq!(next(&mut wakes).await, WakeNews::Gap);
    wakes
}

async fn next(wakes: &mut Subscription<WakeNews>) -> WakeNews {
    within("a wake", wakes.recv()).await.expect("the store lives")
}

fn wake(name: &str, number: u128) -> WakeNews {
    WakeNews::Wake { id: id(number), name: LockName::new(name).expect("a good name") }
}

#[tokio::test]
async fn a_waiter_is_woken_by_its_own_database_only() {
    let redis = RedisServer::start();
    let (ours, theirs) = (connected(&redis.url()).await, store_with(&in_database(&redis, 1)));
    until_up(&theirs).await;
    // One process may have locks in several databases: the session alone does not tell whose word it is.
    let (mut here, mut there) = (listening(&ours, 2).await, listening(&theirs, 2).await);
    for (store, name) in [(&ours, "a"), (&theirs, "b")] {
        granted(store, ask(name, 1)).await;
        assert!(is_held(store, waiting(name, 2)).await);
        release(store, name, 1).await;
    }
    assert_eq!((next(&mut here).await, next(&mut there).await), (wake("a", 2), wake("b", 2)));
    assert!(here.try_recv().is_err() && there.try_recv().is_err(), "only its own");
}
