//! R6 for locks: a master that no replica has acknowledged begins no guard.

use std::time::Instant;

use baton::config::AckMode;
use baton::store::StoreError;
use testkit::redis::RedisServer;
use testkit::resp::Reply;
use testkit::{BOUND, wait_until, wait_until_async};

use super::super::replication::{PATIENT, online, pair, with_one_ack};
use super::super::{ms, now_us, store_with, until_up};
use super::*;

const GUARD: Duration = Duration::from_secs(1);

fn guarded(name: &str, number: u128) -> AcquireRequest {
    AcquireRequest { guard: Some(GUARD), lease: GUARD, ..ask(name, number) }
}

/// A store that wants one acknowledgement, and waits for it as long as this.
async fn at(server: &RedisServer, timeout: Duration) -> RedisStore {
    let store = store_with(&with_one_ack(&server.url(), AckMode::Wait, timeout));
    until_up(&store).await;
    store
}

/// Asks until it is granted, and says what was answered on the way.
async fn until_granted(store: &RedisStore, request: AcquireRequest) -> (LockGrant, Vec<AcquireReply>) {
    let (mut replies, mut granted) = (Vec::new(), None);
    wait_until_async(BOUND, "the lock is granted", async || {
        match store.acquire(request.clone()).await {
            Ok(AcquireReply::Granted(grant)) => granted = Some(grant),
            Ok(other) => replies.push(other),
            Err(error) => println!("not yet: {error}"),
        }
        granted.is_some()
    })
    .await;
    (granted.expect("granted"), replies)
}

/// A master has one of its two replicas with it, the other was promoted elsewhere; then the first changes sides. A lock
/// that it acknowledged for the old master a moment ago, and that the new one has never heard of, stands for its lease.
#[tokio::test]
async fn a_replica_that_changes_sides_opens_the_locks_to_its_new_master_only_after_a_whole_guard() {
    let (master, heir) = pair().await;
    let waverer = RedisServer::start_with(&["--replicaof", "127.0.0.1", &master.port().to_string()]);
    wait_until(BOUND, "both replicas are connected", || online(&master) == 2).await;
    let old = at(&master, PATIENT).await;
    until_granted(&old, guarded("a", 1)).await;
    wait_until(BOUND, "the heir knows the old master's locks", || {
        heir.command(&["EXISTS", "baton:{locks}:lock:a"]) == Reply::Number(1)
    })
    .await;

    assert_eq!(heir.command(&["REPLICAOF", "NO", "ONE"]), Reply::Text("OK".to_owned()));
    wait_until(BOUND, "one replica is left", || online(&master) == 1).await;
    let (grant, _) = until_granted(&old, guarded("b", 1)).await;
    let extends = || {
        let (lease, guard) = (Some(GUARD), Some(GUARD));
        old.extend(ExtendRequest { lease, guard, restore: known(1, grant.token), ..extension("b", 1) })
    };
    let new = at(&heir, ms(300)).await;
    let promoted_at = Instant::now();
    while promoted_at.elapsed() < GUARD * 5 / 2 {
        let reply = new.acquire(guarded("b", 2)).await;
        assert!(!matches!(reply, Ok(AcquireReply::Granted(_))), "nobody acknowledged it: {reply:?}");
        assert!(is_extended(&extends().await.expect("an answer")), "the other side extends all the while");
    }

    let extended_at = Instant::now();
    assert!(is_extended(&extends().await.expect("an answer")));
    let to = heir.port().to_string();
    assert_eq!(waverer.command(&["REPLICAOF", "127.0.0.1", &to]), Reply::Text("OK".to_owned()));
    wait_until(BOUND, "it follows the other master", || online(&heir) == 1).await;
    let (later, replies) = until_granted(&new, guarded("b", 2)).await;
    let waited = extended_at.elapsed();
    assert!(waited >= GUARD, "granted {waited:?} after an extension that stands for {GUARD:?}: {replies:?}");
    assert!(replies.iter().any(|reply| matches!(reply, AcquireReply::Guarded { .. })), "{replies:?}");
    assert!(later.token > grant.token);
}

#[tokio::test]
async fn a_replica_that_follows_a_new_master_begins_another_guard_there() {
    let (master, heir) = pair().await;
    let old = at(&master, PATIENT).await;
    let (grant, _) = until_granted(&old, AcquireRequest { lease: LEASE, ..guarded("a", 1) }).await;
    heir.command(&["REPLICAOF", "NO", "ONE"]);
    let extension = ExtendRequest { guard: Some(GUARD), ..extension("a", 1) };
    let alone = at(&heir, ms(100)).await.extend(extension.clone()).await;
    assert!(matches!(&alone, Err(StoreError::Refused { reason }) if reason.contains("0 of 1")), "{alone:?}");
    let guard_ends =
        || -> u64 { heir.command(&["HGET", "baton:{locks}:store", "guard_until"]).text().parse().unwrap() };
    let is_over = || now_us(&heir) > guard_ends();
    wait_until(BOUND, "the guard that the promotion began is over", is_over).await;
    // What the old master goes on with is nothing that the new one knows.
    master.command(&["SET", "another", "write"]);
    master.command(&["REPLICAOF", "127.0.0.1", &heir.port().to_string()]);
    wait_until(BOUND, "the old master follows", || online(&heir) == 1).await;
    let new = at(&heir, PATIENT).await;
    let other = new.acquire(guarded("b", 2)).await;
    assert!(matches!(other, Ok(AcquireReply::Guarded { .. })), "{other:?}");
    let extended = new.extend(extension).await.expect("an answer");
    assert!(
        matches!(extended, ExtendReply::Extended { token, restored: false, .. } if token == grant.token),
        "{extended:?}"
    );
}
