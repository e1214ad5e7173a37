//! The ledgers of jobs on real servers, and in memory.

mod differential;
mod faults;
mod garbage;
mod lease_objects;
mod servers;

use std::sync::Arc;

use baton::base::Subscription;
use baton::base::clock::BootClock;
use baton::store::memory::MemoryStore;
use baton::store::redis::RedisStore;
use baton::store::{JobNews, LedgerStore};
use testkit::redis::RedisServer;

use super::databases::in_database;
use super::refusals::{LEAST_RIGHTS, with_rights};
use super::{connected, is_garbage, now_us};
use super::{store_with, until_up};
use crate::suite::ledgers::{Bodies, Desk, next, run_ledgers};

fn desk(store: &Arc<RedisStore>) -> Desk {
    Desk::new(Arc::clone(store) as Arc<dyn LedgerStore>)
}

/// Where a job's ledger is.
fn key(desk: &Desk) -> String {
    format!("baton:{{jobs}}:ledger:{}", desk.job)
}

/// Listens, and waits until that has begun.
async fn listening(store: &RedisStore) -> Subscription<JobNews> {
    let mut news = store.changes();
    assert_eq!(next(&mut news).await, JobNews::Gap);
    news
}

#[tokio::test]
async fn what_holds_of_ledgers_holds_in_memory() {
    run_ledgers(Arc::new(MemoryStore::new(Arc::new(BootClock))), Bodies::Any).await;
}

#[tokio::test]
async fn what_holds_of_ledgers_holds_on_one_redis_with_the_least_rights() {
    let redis = RedisServer::start();
    let store = with_rights(&redis, LEAST_RIGHTS).await;
    run_ledgers(Arc::new(store), Bodies::Any).await;
}

#[tokio::test]
async fn two_prefixes_and_two_databases_have_ledgers_and_wishes_of_their_own() {
    let redis = RedisServer::start();
    let ours = Arc::new(connected(&redis.url()).await);
    let prefixed = super::RedisConfig { key_prefix: "other".to_owned(), ..super::config(&redis.url()) };
    for theirs in [prefixed, in_database(&redis, 1)] {
        let theirs = store_with(&theirs);
        until_up(&theirs).await;
        let desk = desk(&ours);
        let mut news = listening(&theirs).await;
        desk.written(None, None, "a").await;
        assert_eq!(theirs.read(&desk.job).await, Ok(None));
        let other = Desk { store: Arc::new(theirs), job: desk.job.clone() };
        other.written(None, None, "b").await;
        assert_eq!(next(&mut news).await, JobNews::Changed(desk.job.clone()));
        assert!(news.try_recv().is_err(), "only its own");
    }
}
