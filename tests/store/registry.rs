//! Jobs that are made at run time: random operations on a store and on the reference (`JobRegistry`) have the same
//! answers, and the same is heard of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use baton::base::Subscription;
use baton::base::clock::BootClock;
use baton::protocol::jobs::{
    JobName, JobPut, JobPutReply, JobRegistry, JobSettle, JobSettleReply, JobTake, JobTakeReply, JobWish, JobWishReply,
    Revision, Settlement, Wall,
};
use baton::protocol::{RoleName, StoreTime, Token};
use baton::store::memory::MemoryStore;
use baton::store::redis::RedisStore;
use baton::store::{JobNews, LedgerStore, RegistryStore, StoreError};
use bytes::Bytes;
use testkit::cluster::Cluster;
use testkit::redis::RedisServer;
use testkit::sentinel::SentinelSet;

use super::refusals::{LEAST_RIGHTS, with_rights};
use super::{calls, connected};
use crate::suite::ledgers::{next, token as any_token};

const SEEDS: u64 = 200;
/// Where servers are behind more servers.
const SEEDS_FEW: u64 = 15;
const OPERATIONS: usize = 60;
const NAMES: u64 = 5;

/// A store of both: what is heard of these jobs is heard with the ledgers' news.
trait Store: RegistryStore + LedgerStore {}
impl<S: RegistryStore + LedgerStore> Store for S {}

#[derive(Clone, Debug)]
enum Operation {
    Put(JobName, JobPut<Bytes>),
    Get(JobName),
    List(Option<JobName>, usize),
    Delete(JobName),
    Wish(JobName, Revision, JobWish),
    Take(JobTake),
    Settle(JobName, JobSettle<Bytes>),
}

struct Pair<'a> {
    store: &'a dyn Store,
    news: &'a mut Subscription<JobNews>,
    registry: JobRegistry<Bytes>,
    rng: fastrand::Rng,
    /// Names of this run begin with it.
    prefix: String,
    now: u64,
    request: u64,
    seen: &'a mut BTreeMap<&'static str, usize>,
}

impl Pair<'_> {
    fn saw(&mut self, outcome: &'static str) {
        *self.seen.entry(outcome).or_default() += 1;
    }

    fn name(&mut self) -> JobName {
        JobName::new(format!("{}-{}", self.prefix, self.rng.u64(0..NAMES))).expect("a DNS label")
    }

    fn role(&mut self) -> RoleName {
        let shard = RoleName::new(format!("{}-r", self.prefix)).expect("a DNS label");
        if self.rng.u8(0..4) == 0 { shard.shard(3) } else { shard }
    }

    fn wall(&mut self) -> Wall {
        Wall::from_millis(self.now + self.rng.u64(0..200))
    }

    fn body(&mut self) -> Bytes {
        let length = self.rng.usize(0..3);
        (0..length).map(|_| self.rng.choice([0_u8, 10, 65, 255]).expect("some")).collect()
    }

    fn choose(&mut self) -> Operation {
        self.now += self.rng.u64(0..40);
        match self.rng.u32(0..40) {
            0..=9 => {
                let (name, role, slot) = (self.name(), self.role(), self.wall());
                let (suspended, overwrite) = (self.rng.u8(0..5) == 0, self.rng.u8(0..4) > 0);
                let (spec, state) = (self.body(), self.body());
                Operation::Put(name, JobPut { role, slot, suspended, spec, state, overwrite })
            }
            10 => Operation::Get(self.name()),
            11 => Operation::List(self.rng.bool().then(|| self.name()), self.rng.usize(1..6)),
            12..=13 => Operation::Delete(self.name()),
            14..=18 => {
                let name = self.name();
                let wish = match self.rng.u8(0..3) {
                    0 => JobWish::Run { now: self.wall() },
                    1 => JobWish::Suspend,
                    _ => JobWish::Resume { slot: self.wall() },
                };
                let revision = self.revision(&name);
                Operation::Wish(name, revision, wish)
            }
            19..=28 => {
                self.request = if self.rng.u8(0..4) == 0 { self.rng.u64(1..6) } else { self.request + 1 };
                let token = any_token(self.rng.u64(1..4) * 1_000);
                let floor = any_token(if self.rng.u8(0..4) == 0 { self.rng.u64(0..9_000) } else { 0 });
                let (role, now, most) = (self.role(), Wall::from_millis(self.now), self.rng.usize(0..4));
                let all = self.rng.u8(0..6) == 0;
                Operation::Take(JobTake { role, token, request: self.request, floor, now, most, all })
            }
            _ => {
                let name = self.name();
                let job = self.registry.get(&name);
                let ticket = job.map_or(0, |job| job.ticket.get());
                let ticket = any_token(match self.rng.u8(0..6) {
                    0 => ticket.saturating_sub(1),
                    1 => ticket + 1,
                    _ => ticket,
                });
                let (slot, due, attempt) = (self.wall(), self.wall(), self.rng.u32(0..3));
                let state = self.rng.bool().then(|| self.body());
                let then = match self.rng.u8(0..3) {
                    0 => Settlement::Remove,
                    _ => Settlement::Again { slot, due, attempt, state },
                };
                let (token, revision) = (any_token(self.rng.u64(1..4) * 1_000), self.revision(&name));
                Operation::Settle(name, JobSettle { token, revision, ticket, then })
            }
        }
    }

    /// Mostly that which is there.
    fn revision(&mut self, name: &JobName) -> Revision {
        let known = self.registry.get(name).map_or(7, |job| job.revision.get());
        Revision::new(if self.rng.u8(0..6) == 0 { known - 1 } else { known }).expect("below 2^53")
    }

    async fn apply(&mut self, operation: &Operation) {
        match operation.clone() {
            Operation::Put(name, put) => self.put(&name, put).await,
            Operation::Get(name) => assert_eq!(self.store.get(&name).await, Ok(self.registry.get(&name))),
            Operation::List(after, most) => {
                let listed = self.store.list(after.as_ref(), most).await.expect("an answer");
                // Jobs of other runs may be there.
                let listed: Vec<_> =
                    listed.into_iter().filter(|(name, _)| name.as_str().starts_with(&self.prefix)).collect();
                let expected = self.registry.list(after.as_ref(), most);
                assert_eq!(listed[..], expected[..listed.len()]);
            }
            Operation::Delete(name) => {
                let (deleted, news) = self.registry.delete(&name);
                assert_eq!(self.store.delete(&name).await, Ok(deleted));
                self.saw(if deleted { "deleted" } else { "absent" });
                self.heard(news, &name).await;
            }
            Operation::Wish(name, revision, wish) => {
                let expected = self.registry.wish(&name, revision, wish);
                assert_eq!(self.store.wish(&name, revision, wish).await, Ok(expected));
                let (news, outcome) = match expected {
                    JobWishReply::Granted { .. } => (true, "granted"),
                    JobWishReply::Busy => (false, "busy"),
                    JobWishReply::Gone => (false, "gone"),
                };
                self.saw(outcome);
                self.heard(news, &name).await;
            }
            Operation::Take(take) => {
                let expected = self.registry.take(&take);
                assert_eq!(RegistryStore::take(self.store, take).await, Ok(expected.clone()));
                self.saw(match expected {
                    JobTakeReply::Stale { .. } => "stale",
                    JobTakeReply::Taken { jobs, .. } if jobs.is_empty() => "nothing is due",
                    JobTakeReply::Taken { jobs, .. } if jobs.iter().any(|(_, job)| job.interrupted) => "interrupted",
                    JobTakeReply::Taken { .. } => "taken",
                });
            }
            Operation::Settle(name, settle) => {
                let expected = self.registry.settle(&name, settle.clone());
                assert_eq!(self.store.settle(&name, settle).await, Ok(expected));
                self.saw(match expected {
                    JobSettleReply::Settled => "settled",
                    JobSettleReply::Gone => "not open",
                    JobSettleReply::Stale { .. } => "stale",
                });
            }
        }
    }

    /// The reference is told the moment at which the store wrote, which is the revision that it answers.
    async fn put(&mut self, name: &JobName, put: JobPut<Bytes>) {
        let reply = self.store.put(name, put.clone()).await.expect("an answer");
        let (JobPutReply::Created(revision)
        | JobPutReply::Replaced(revision)
        | JobPutReply::Unchanged(revision)
        | JobPutReply::Exists(revision)) = reply;
        let (expected, news) = self.registry.put(name, put, StoreTime(revision.get())).expect("a moment");
        assert_eq!(reply, expected);
        self.saw(match reply {
            JobPutReply::Created(_) => "created",
            JobPutReply::Replaced(_) => "replaced",
            JobPutReply::Unchanged(_) => "unchanged",
            JobPutReply::Exists(_) => "exists",
        });
        self.heard(news, name).await;
    }

    async fn heard(&mut self, news: bool, name: &JobName) {
        if news {
            assert_eq!(next(self.news).await, JobNews::Changed(name.clone()));
        }
    }
}

async fn run(store: &dyn Store, news: &mut Subscription<JobNews>, seed: u64, seen: &mut BTreeMap<&'static str, usize>) {
    let (rng, prefix) = (fastrand::Rng::with_seed(seed), format!("seed-{seed}"));
    let mut pair = Pair { store, news, registry: JobRegistry::default(), rng, prefix, now: 1_000, request: 0, seen };
    let mut trail = Trail { seed, operations: Vec::new() };
    for _ in 0..OPERATIONS {
        let operation = pair.choose();
        trail.operations.push(operation.clone());
        pair.apply(&operation).await;
    }
    for number in 0..NAMES {
        let name = JobName::new(format!("{}-{number}", pair.prefix)).expect("a DNS label");
        assert_eq!(pair.store.get(&name).await, Ok(pair.registry.get(&name)));
        let (deleted, news) = pair.registry.delete(&name);
        assert_eq!(pair.store.delete(&name).await, Ok(deleted));
        pair.heard(news, &name).await;
    }
    assert!(pair.news.try_recv().is_err(), "nothing was said beside that");
}

/// Tells what led to a failure.
struct Trail {
    seed: u64,
    operations: Vec<Operation>,
}

impl Drop for Trail {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}:", self.seed);
            for operation in &self.operations {
                eprintln!("  {operation:?}");
            }
        }
    }
}

async fn listening(store: &dyn Store) -> Subscription<JobNews> {
    let mut news = store.changes();
    assert_eq!(next(&mut news).await, JobNews::Gap);
    news
}

async fn runs(store: &dyn Store, seeds: u64) -> BTreeMap<&'static str, usize> {
    let (mut news, mut seen) = (listening(store).await, BTreeMap::new());
    for seed in 0..seeds {
        run(store, &mut news, seed, &mut seen).await;
    }
    seen
}

#[tokio::test]
async fn random_operations_on_jobs_made_at_run_time_have_the_same_outcomes_in_memory() {
    runs(&MemoryStore::new(Arc::new(BootClock)), 50).await;
}

#[tokio::test]
async fn random_operations_on_jobs_made_at_run_time_have_the_same_outcomes_on_redis_with_the_least_rights() {
    let redis = RedisServer::start();
    let store = with_rights(&redis, LEAST_RIGHTS).await;
    let seen = runs(&store, SEEDS).await;
    println!("{seen:?}");
    for outcome in [
        "created",
        "replaced",
        "unchanged",
        "exists",
        "deleted",
        "absent",
        "granted",
        "busy",
        "gone",
        "stale",
        "nothing is due",
        "interrupted",
        "taken",
        "settled",
        "not open",
    ] {
        assert!(seen.get(outcome).is_some_and(|times| *times >= 20), "{outcome} was hardly met: {seen:?}");
    }
    // What is left are the fences of roles, and no job.
    let keys = redis.command(&["KEYS", "baton:*"]).texts();
    assert!(keys.iter().all(|key| key.starts_with("baton:{jobs}:desk:")), "{keys:?}");
}

#[tokio::test]
async fn random_operations_on_jobs_made_at_run_time_have_the_same_outcomes_behind_sentinels() {
    let set = SentinelSet::start().await;
    runs(&connected(&set.url()).await, SEEDS_FEW).await;
}

#[tokio::test]
async fn random_operations_on_jobs_made_at_run_time_have_the_same_outcomes_in_a_cluster() {
    let cluster = Cluster::start(&[]).await;
    runs(&connected(&cluster.url()).await, SEEDS_FEW).await;
}

fn one_shot(slot: u64, spec: &'static str) -> JobPut<Bytes> {
    let role = RoleName::new("scheduler").expect("a DNS label");
    let (slot, spec) = (Wall::from_millis(slot), Bytes::from_static(spec.as_bytes()));
    JobPut { role, slot, suspended: false, spec, state: Bytes::new(), overwrite: true }
}

fn taking(request: u64, now: u64) -> JobTake {
    let role = RoleName::new("scheduler").expect("a DNS label");
    let (token, floor, now) = (any_token(50), Token::NONE, Wall::from_millis(now));
    JobTake { role, token, request, floor, now, most: 10, all: false }
}

fn name(text: &str) -> JobName {
    JobName::new(text).expect("a DNS label")
}

#[tokio::test]
async fn what_is_not_ours_is_left_as_it_is() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    redis.command(&["SET", "baton:{jobs}:registry:theirs", "1"]);
    redis.command(&["HSET", "baton:{jobs}:registry:later", "v", "2"]);
    redis.command(&["HSET", "baton:{jobs}:desk:scheduler", "v", "1", "fence", "x", "request", "1", "last", "1"]);
    let garbage =
        |error: Result<(), StoreError>| assert!(matches!(error, Err(StoreError::Garbage { .. })), "{error:?}");
    for job in ["theirs", "later"] {
        garbage(store.put(&name(job), one_shot(1, "a")).await.map(drop));
        garbage(store.get(&name(job)).await.map(drop));
        garbage(store.delete(&name(job)).await.map(drop));
    }
    garbage(RegistryStore::take(&store, taking(1, 5)).await.map(drop));
    assert_eq!(redis.command(&["GET", "baton:{jobs}:registry:theirs"]).text(), "1");
}

#[tokio::test]
async fn a_full_redis_refuses_new_jobs_and_gives_back_the_room_of_those_that_are_done() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    store.put(&name("a"), one_shot(1, "a")).await.expect("there is room");
    let JobTakeReply::Taken { jobs, .. } = RegistryStore::take(&store, taking(1, 5)).await.expect("an answer") else {
        panic!("refused")
    };
    redis.command(&["CONFIG", "SET", "maxmemory", "1"]);
    let refused = store.put(&name("b"), one_shot(1, "b")).await;
    assert!(matches!(&refused, Err(StoreError::Refused { reason }) if reason.contains("(OOM)")), "{refused:?}");
    let (job, stored) = &jobs[0];
    let then = Settlement::Remove;
    let settle = JobSettle { token: any_token(50), revision: stored.revision, ticket: stored.ticket, then };
    assert_eq!(store.settle(job, settle).await, Ok(JobSettleReply::Settled));
    redis.command(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(store.get(&name("b")).await, Ok(None), "all or nothing");
}

/// 100,000 that wait for tomorrow cost a take nothing.
#[tokio::test]
async fn a_take_costs_what_is_due_and_not_what_is_stored() {
    let redis = RedisServer::start();
    let store: RedisStore = connected(&redis.url()).await;
    let cost = async |store: &RedisStore, request: u64| {
        redis.command(&["CONFIG", "RESETSTAT"]);
        for round in 0..20 {
            RegistryStore::take(store, taking(request + round, 5)).await.expect("an answer");
        }
        ["zrange:", "hmget"].map(|command| calls(&redis, command))
    };
    // The first of a term looks for what an earlier one has left.
    cost(&store, 1).await;
    let before = cost(&store, 50).await;
    for number in 0..500 {
        store.put(&name(&format!("job-{number}")), one_shot(1_000_000, "a")).await.expect("there is room");
    }
    assert_eq!(cost(&store, 100).await, before);
}
