//! Jobs that are made at run time, on Redis: what is not ours is told and left alone, what was deleted by hand is
//! missed by nobody, what comes late does nothing, and what has an end has room before it.

use baton::protocol::jobs::{
    JobName, JobPut, JobPutReply, JobSettle, JobSettleReply, JobTake, JobTakeReply, JobWish, Revision, Settlement, Wall,
};
use baton::protocol::{RoleName, Token};
use baton::store::redis::RedisStore;
use baton::store::{RegistryStore, StoreError};
use bytes::Bytes;
use testkit::profile::{Profile, Profiled};
use testkit::proxy::{Network, Proxy};
use testkit::redis::RedisServer;
use testkit::resp::Reply;
use testkit::sidecars::clock;
use testkit::{BOUND, wait_until, within};

use super::refusals::{LEAST_RIGHTS, with_rights};
use super::{calls, connected, impatient, is_garbage, now_us, step_clock};
use crate::suite::ledgers::token as any_token;

const JOB: &str = "baton:{jobs}:registry:a";
const DESK: &str = "baton:{jobs}:desk:scheduler";
const QUEUE: &str = "baton:{jobs}:queue:scheduler";
const TAKEN: &str = "baton:{jobs}:taken:scheduler";
/// One digit more than any number has, though no great one.
const LONG: &str = "00000000000000007";
const LAST: u64 = Token::LIMIT - 1;

fn role() -> RoleName {
    RoleName::new("scheduler").expect("a DNS label")
}

fn name(text: &str) -> JobName {
    JobName::new(text).expect("a DNS label")
}

fn due_at_once(spec: impl Into<Bytes>) -> JobPut<Bytes> {
    let (slot, spec, state) = (Wall::from_millis(1), spec.into(), Bytes::new());
    JobPut { role: role(), slot, suspended: false, spec, state, overwrite: true }
}

fn taking(request: u64) -> JobTake {
    let (token, floor, now) = (any_token(50), Token::NONE, Wall::from_millis(5));
    JobTake { role: role(), token, request, floor, now, most: 10, all: false }
}

async fn put(store: &RedisStore, job: &str, spec: &'static str) -> JobPutReply {
    store.put(&name(job), due_at_once(spec)).await.expect("an answer")
}

/// The names and tickets of what is given, and how many are taken.
async fn taken(store: &RedisStore, take: JobTake) -> (Vec<(String, Token)>, usize) {
    match RegistryStore::take(store, take).await.expect("an answer") {
        JobTakeReply::Taken { jobs, held, .. } => {
            (jobs.iter().map(|(name, job)| (name.to_string(), job.ticket)).collect(), held)
        }
        other => panic!("{other:?}"),
    }
}

fn settling(revision: u64) -> JobSettle<Bytes> {
    let (revision, then) = (Revision::new(revision).expect("a revision"), Settlement::Remove);
    JobSettle { token: any_token(50), revision, ticket: any_token(50), then }
}

/// Every request for the job tells of it, and leaves the database as it is.
async fn all_refuse(redis: &RedisServer, store: &RedisStore, word: &str) {
    let (before, a) = (redis.command(&["DEBUG", "DIGEST"]), name("a"));
    is_garbage(store.put(&a, due_at_once("b")).await, JOB, word);
    is_garbage(store.get(&a).await, JOB, word);
    is_garbage(store.list(None, 10).await, JOB, word);
    is_garbage(store.wish(&a, Revision::new(7).expect("one"), JobWish::Suspend).await, JOB, word);
    is_garbage(store.settle(&a, settling(7)).await, JOB, word);
    is_garbage(store.delete(&a).await, JOB, word);
    assert_eq!(redis.command(&["DEBUG", "DIGEST"]), before, "{word}");
}

#[tokio::test]
async fn a_job_that_is_not_batons_is_refused_and_left_alone() {
    let redis = RedisServer::start_with(&["--enable-debug-command", "yes"]);
    let store = connected(&redis.url()).await;
    let numbers = ["revision", "slot", "due", "attempt", "ticket", "suspended", "taken", "interrupted"];
    let limit = Token::LIMIT.to_string();
    let odd = |field: &'static str| ["x", "", "-1", LONG, &limit].map(|value| (field, value.to_owned()));
    let mut changes: Vec<(&str, String)> = numbers.into_iter().flat_map(odd).collect();
    changes.extend(["2", ""].map(|v| ("v", v.to_owned())));
    for (field, value) in changes {
        redis.command(&["FLUSHALL"]);
        put(&store, "a", "a").await;
        redis.command(&["HSET", JOB, field, &value]);
        all_refuse(&redis, &store, &format!("field {field}")).await;
    }
    for field in numbers.into_iter().chain(["v", "role", "spec", "state"]) {
        redis.command(&["FLUSHALL"]);
        put(&store, "a", "a").await;
        assert_eq!(redis.command(&["HDEL", JOB, field]), Reply::Number(1), "{field}");
        all_refuse(&redis, &store, &format!("field {field}")).await;
    }
    redis.command(&["DEL", JOB]);
    redis.command(&["SET", JOB, "x"]);
    all_refuse(&redis, &store, "not a hash").await;
}

#[tokio::test]
async fn what_is_known_of_leaders_and_is_not_batons_is_refused_and_left_alone() {
    let redis = RedisServer::start_with(&["--enable-debug-command", "yes"]);
    let store = connected(&redis.url()).await;
    let refuse = async |word: &str| {
        let before = redis.command(&["DEBUG", "DIGEST"]);
        is_garbage(RegistryStore::take(&store, taking(9)).await, DESK, word);
        let revision = redis.command(&["HGET", JOB, "revision"]).text().parse().expect("a number");
        is_garbage(store.settle(&name("a"), settling(revision)).await, DESK, word);
        assert_eq!(redis.command(&["DEBUG", "DIGEST"]), before, "{word}");
    };
    for field in ["fence", "request", "last"] {
        for value in ["x", LONG] {
            redis.command(&["FLUSHALL"]);
            put(&store, "a", "a").await;
            taken(&store, taking(1)).await;
            redis.command(&["HSET", DESK, field, value]);
            refuse(&format!("field {field}")).await;
        }
        redis.command(&["HDEL", DESK, field]);
        refuse(&format!("field {field}")).await;
    }
    redis.command(&["DEL", DESK]);
    redis.command(&["SET", DESK, "x"]);
    refuse("not a hash").await;
}

#[tokio::test]
async fn a_missing_right_is_told_as_it_is() {
    let redis = RedisServer::start();
    let store = with_rights(&redis, &LEAST_RIGHTS.replace("+hmget ", "")).await;
    let refused = store.get(&name("a")).await;
    assert!(matches!(&refused, Err(StoreError::Refused { reason }) if reason.contains("(NOPERM)")), "{refused:?}");
}

/// It tells nothing of its memory either.
#[tokio::test]
async fn where_scripts_may_not_ask_for_info_jobs_are_made_without_a_reserve() {
    let redis = RedisServer::start();
    let proxy = Profiled::start(redis.port(), Profile::MUTE).await;
    let store = connected(&proxy.url()).await;
    assert!(matches!(put(&store, "a", "x").await, JobPutReply::Created(_)));
}

#[tokio::test]
async fn a_revision_is_the_moment_at_which_the_job_was_made() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    let before = now_us(&redis);
    let JobPutReply::Created(revision) = put(&store, "a", "x").await else { panic!("it is new") };
    assert!((before..=now_us(&redis)).contains(&revision.get()), "{revision:?} after {before}");
}

#[tokio::test]
async fn jobs_that_were_deleted_by_hand_are_neither_listed_nor_taken_nor_held() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    for job in ["a", "b", "c"] {
        put(&store, job, "x").await;
    }
    redis.command(&["DEL", JOB]);
    let listed: Vec<String> =
        store.list(None, 10).await.expect("an answer").iter().map(|(name, _)| name.to_string()).collect();
    assert_eq!(listed, ["b", "c"]);
    // One that another role's leader runs has no place here either.
    redis.command(&["HSET", "baton:{jobs}:registry:c", "role", "reporter"]);
    let (jobs, held) = taken(&store, taking(1)).await;
    assert_eq!((jobs.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), held), (vec!["b"], 1));
    assert_eq!(redis.command(&["ZCARD", QUEUE]), Reply::Number(0));
    redis.command(&["DEL", "baton:{jobs}:registry:b"]);
    assert_eq!(taken(&store, taking(1)).await, (Vec::new(), 0), "the same request again");
    assert_eq!(redis.command(&["EXISTS", TAKEN]), Reply::Number(0));
    // Nor by the next leader, for whom what was taken goes back into the queue.
    put(&store, "b", "x").await;
    assert_eq!(taken(&store, taking(2)).await.1, 1);
    redis.command(&["DEL", "baton:{jobs}:registry:b"]);
    assert_eq!(taken(&store, JobTake { token: any_token(60), ..taking(1) }).await, (Vec::new(), 0));
    assert_eq!(redis.command(&["ZCARD", QUEUE]), Reply::Number(0));
}

#[tokio::test]
async fn the_last_ticket_is_given_again_and_the_last_revision_has_no_successor() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    put(&store, "a", "x").await;
    put(&store, "b", "x").await;
    let floor = Token::new(LAST - 1).expect("below 2^53");
    let (jobs, _) = taken(&store, JobTake { floor, ..taking(1) }).await;
    assert_eq!(jobs.iter().map(|(_, ticket)| ticket.get()).collect::<Vec<_>>(), [LAST, LAST]);
    redis.command(&["HSET", JOB, "revision", &(LAST - 1).to_string()]);
    let replaced = put(&store, "a", "y").await;
    assert!(matches!(replaced, JobPutReply::Replaced(revision) if revision.get() == LAST), "{replaced:?}");
    let refused = store.put(&name("a"), due_at_once("z")).await;
    assert!(matches!(&refused, Err(StoreError::Refused { reason }) if reason.contains("2^53")), "{refused:?}");
    assert_eq!(redis.command(&["HGET", JOB, "spec"]).text(), "y");
}

/// Less than a sixteenth of maxmemory is left behind it.
#[tokio::test]
async fn a_job_that_takes_the_room_of_leases_is_refused_though_redis_has_room() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    put(&store, "a", "x").await;
    let used = |redis: &RedisServer| {
        let info = redis.command(&["INFO", "memory"]).text();
        let line = info.lines().find_map(|line| line.strip_prefix("used_memory:")).expect("told");
        line.parse::<usize>().expect("a number")
    };
    const MEBIBYTE: usize = 1024 * 1024;
    redis.command(&["SETRANGE", "filler", &(128 * MEBIBYTE).to_string(), "x"]);
    // Some is left for jobs, of which an answer takes more than twice the request, and far more for leases.
    let most = (used(&redis) + MEBIBYTE * 3 / 2) / 15 * 16;
    redis.command(&["CONFIG", "SET", "maxmemory", &most.to_string()]);
    store.put(&name("fits"), due_at_once(vec![b'x'; MEBIBYTE / 16])).await.expect("there is room");
    let size = MEBIBYTE * 5 / 8;
    let refused = store.put(&name("b"), due_at_once(vec![b'x'; size])).await;
    assert!(matches!(&refused, Err(StoreError::Refused { reason }) if reason.contains("(OOM)")), "{refused:?}");
    assert_eq!(store.get(&name("b")).await, Ok(None));
    assert_eq!(redis.command(&["SET", "other", &"x".repeat(size)]), Reply::Text("OK".to_owned()));
}

#[tokio::test]
async fn what_its_sender_has_given_up_does_nothing_when_it_arrives() {
    let redis = RedisServer::start();
    let proxy = Proxy::start(redis.entry_port()).await;
    let (store, direct) = (impatient(&proxy.url()).await, connected(&redis.url()).await);
    wait_until_put(&store).await;
    proxy.set(Network::Stalled);
    let unknown = within("it ends by itself", store.put(&name("a"), due_at_once("late"))).await;
    assert!(matches!(unknown, Err(StoreError::Unknown { .. })), "{unknown:?}");
    let run = calls(&redis, "eval");
    proxy.set(Network::Good);
    wait_until(BOUND, "it arrives", || calls(&redis, "eval") > run).await;
    assert_eq!(direct.get(&name("a")).await, Ok(None));
}

/// So that the store has brought its script.
async fn wait_until_put(store: &RedisStore) {
    testkit::wait_until_async(BOUND, "a job is put", async || store.put(&name("warm"), due_at_once("x")).await.is_ok())
        .await;
}

#[tokio::test]
async fn what_seems_late_because_the_stores_clock_was_stepped_is_sent_again() {
    let Some((redis, control)) = clock::redis() else { return };
    let store = connected(&redis.url()).await;
    put(&store, "a", "0").await;
    for (offset, spec) in [(3_600, "1"), (-3_600, "2"), (0, "3")] {
        step_clock(&redis, &control, offset).await;
        assert!(matches!(put(&store, "a", spec).await, JobPutReply::Replaced(_)));
    }
}

/// What the next leader finds interrupted and has an end after all waits no longer, but where it is to be tried again.
#[tokio::test]
async fn a_suspended_job_waits_after_its_run_only_for_another_attempt_of_it() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    for (attempt, waits) in [(0, 0), (1, 1)] {
        redis.command(&["FLUSHALL"]);
        let suspended = JobPut { suspended: true, ..due_at_once("x") };
        let JobPutReply::Created(revision) = store.put(&name("a"), suspended).await.expect("an answer") else {
            panic!("it is new")
        };
        store.wish(&name("a"), revision, JobWish::Run { now: Wall::from_millis(1) }).await.expect("an answer");
        let (jobs, _) = taken(&store, taking(1)).await;
        let later = any_token(60);
        taken(&store, JobTake { token: later, all: true, ..taking(1) }).await;
        assert_eq!(redis.command(&["ZCARD", QUEUE]), Reply::Number(1), "it was interrupted");
        let (slot, due) = (Wall::from_millis(2), Wall::from_millis(3));
        let then = Settlement::Again { slot, due, attempt, state: None };
        let settle = JobSettle { token: later, revision, ticket: jobs[0].1, then };
        assert_eq!(store.settle(&name("a"), settle).await, Ok(JobSettleReply::Settled));
        assert_eq!(redis.command(&["ZCARD", QUEUE]), Reply::Number(waits), "after attempt {attempt}");
    }
}
