//! Ledgers where servers have replicas (R6), fail over or share the slots: what counts is there afterwards.

use std::time::Duration;

use baton::base::Subscription;
use baton::config::AckMode;
use baton::protocol::jobs::OpenReply;
use baton::store::StoreError;
use testkit::cluster::Cluster;
use testkit::sentinel::SentinelSet;
use testkit::{wait_until, wait_until_async};

use super::super::ms;
use super::super::replication::{PATIENT, pair, with_one_ack};
use super::*;
use crate::suite::ledgers::{request, stale, stored, term};

const PATIENCE: Duration = Duration::from_secs(30);

async fn at(server: &RedisServer, timeout: Duration) -> Arc<RedisStore> {
    one_ack(&server.url(), timeout).await
}

/// A store that waits for its one acknowledgement shorter than a failover takes, and longer than a busy machine does.
async fn acknowledged(url: &str) -> Arc<RedisStore> {
    one_ack(url, ms(2_000)).await
}

async fn one_ack(url: &str, timeout: Duration) -> Arc<RedisStore> {
    let store = store_with(&with_one_ack(url, AckMode::Wait, timeout));
    until_up(&store).await;
    Arc::new(store)
}

fn lacks_acks<T: std::fmt::Debug>(reply: Result<T, StoreError>) {
    assert!(matches!(&reply, Err(StoreError::Refused { reason }) if reason.contains("0 of 1")), "{reply:?}");
}

#[tokio::test]
async fn a_look_and_a_write_count_once_a_replica_has_them_also_when_they_are_repeated_elsewhere() {
    let (master, replica) = pair().await;
    let leader = desk(&at(&master, PATIENT).await);
    leader.open(7).await;
    let base = leader.written(Some(7), None, "a").await;
    assert_eq!(replica.command(&["HGET", &key(&leader), "body"]).text(), "a");

    replica.pause();
    // Each on a connection of its own, which has written nothing before: there is something to acknowledge all the
    // same.
    for _ in 0..2 {
        lacks_acks(at(&master, ms(100)).await.open(&leader.job, &term(9)).await);
    }
    let impatient = at(&master, ms(100)).await;
    lacks_acks(impatient.write(&leader.job, request(Some(9), Some(base), "b")).await);
    lacks_acks(impatient.write(&another(&leader), request(None, None, "b")).await);
    replica.resume();
    // It was written, but counted for nothing: the writer finds it, and writes on it.
    let found = leader.read().await.expect("it is there");
    assert_eq!(found.body, "b");
    assert_eq!(leader.open(9).await, OpenReply::Opened(Some(found.clone())));
    leader.written(Some(9), Some(found.revision), "c").await;
    assert_eq!(replica.command(&["HGET", &key(&leader), "body"]).text(), "c");
}

fn another(desk: &Desk) -> baton::protocol::jobs::JobName {
    Desk::new(Arc::clone(&desk.store)).job
}

/// A ledger that counts, and who listens, as a failover finds them.
async fn before_the_failover(store: &Arc<RedisStore>) -> (Desk, Subscription<JobNews>) {
    let (desk, news) = (desk(store), listening(store).await);
    wait_until_async(PATIENCE, "the ledger is opened", async || store.open(&desk.job, &term(9)).await.is_ok()).await;
    desk.written(Some(9), None, "claimed").await;
    (desk, news)
}

async fn after_the_failover(store: &RedisStore, desk: &Desk, mut news: Subscription<JobNews>) {
    wait_until_async(PATIENCE, "the ledger is opened at the new master", async || {
        store.open(&desk.job, &term(9)).await.is_ok()
    })
    .await;
    let found = desk.read().await.expect("it is there");
    assert_eq!(found.body, "claimed");
    assert_eq!(desk.write(Some(7), Some(found.revision), "old").await, stale(9));
    let base = desk.written(Some(9), Some(found.revision), "done").await;
    assert!(base > found.revision);
    assert_eq!(desk.read().await, stored(base, "done"));
    // Where the subscription went with the old master, its end is told.
    let base = desk.written(None, Some(base), "wish").await;
    while next(&mut news).await == JobNews::Gap {
        if desk.read().await == stored(base, "wish") {
            // Whoever hears of a gap looks.
            break;
        }
    }
}

#[tokio::test]
async fn ledgers_hold_behind_sentinels_and_outlive_a_failover() {
    let mut set = SentinelSet::start().await;
    run_ledgers(Arc::new(connected(&set.url()).await), Bodies::Any).await;
    let store = acknowledged(&set.url()).await;
    let (desk, news) = before_the_failover(&store).await;
    let first = set.master();
    set.server_mut(first).kill();
    set.switched_from(first).await;
    after_the_failover(&store, &desk, news).await;
}

#[tokio::test]
async fn ledgers_hold_in_a_cluster_and_outlive_a_failover_of_their_node() {
    let cluster = Cluster::start(&[]).await;
    run_ledgers(Arc::new(connected(&cluster.url()).await), Bodies::Any).await;
    let store = acknowledged(&cluster.url()).await;
    let slot = cluster.slot_of("baton:{jobs}:");
    wait_until(PATIENCE, "the replica is fit to take over", || cluster.owners(slot).len() == 2).await;
    let (desk, news) = before_the_failover(&store).await;
    let [first, replica] = cluster.owners(slot)[..] else { panic!("a master and a replica") };
    cluster.nodes[replica].command(&["CLUSTER", "FAILOVER"]);
    cluster.moved_from(first, slot).await;
    after_the_failover(&store, &desk, news).await;
}
