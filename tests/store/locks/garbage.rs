//! Keys of the locks that hold what we did not write: an error that names them, and not a byte changed.

use testkit::redis::RedisServer;

use super::super::{connected, is_garbage};
use super::*;

const STORE: &str = "baton:{locks}:store";
const FLOOR: &str = "baton:{locks}:floor";
const SESSIONS: &str = "baton:{locks}:sessions";
const LOCK: &str = "baton:{locks}:lock:a";
const QUEUE: &str = "baton:{locks}:queue:a";
const FAIR: &str = "baton:{locks}:fair:a";
/// A number of more digits than we write.
const LONG: &str = "12345678901234567";

fn server() -> RedisServer {
    RedisServer::start_with(&["--enable-debug-command", "yes"])
}

/// This request tells of it, and leaves the database as it is.
async fn refuses(redis: &RedisServer, store: &RedisStore, request: AcquireRequest, key: &str, word: &str) {
    let before = redis.command(&["DEBUG", "DIGEST"]);
    is_garbage(store.acquire(request).await, key, word);
    assert_eq!(redis.command(&["DEBUG", "DIGEST"]), before, "{key} {word}");
}

/// Every request that reads the key tells of it, and leaves the database as it is.
async fn all_refuse(redis: &RedisServer, store: &RedisStore, key: &str, word: &str) {
    let before = redis.command(&["DEBUG", "DIGEST"]);
    let guarded = AcquireRequest { guard: Some(LEASE), ..ask("a", 2) };
    is_garbage(store.acquire(guarded).await, key, word);
    if key != FLOOR {
        is_garbage(store.extend(ExtendRequest { guard: Some(LEASE), ..extension("a", 1) }).await, key, word);
    }
    if key != STORE && key != FLOOR {
        is_garbage(store.acquire(waiting("a", 2)).await, key, word);
        is_garbage(store.release(giving_back("a", 1)).await, key, word);
        is_garbage(store.cancel(cancelling("a", 1)).await, key, word);
        is_garbage(store.inspect(names(&["a"]).remove(0)).await, key, word);
        is_garbage(store.unlock(unlocking("a", Token::new(1).expect("small"))).await, key, word);
    }
    if key == SESSIONS {
        is_garbage(store.beat(session(1)).await, key, word);
        is_garbage(store.names(0).await, key, word);
    }
    assert_eq!(redis.command(&["DEBUG", "DIGEST"]), before, "{key} {word}");
}

#[tokio::test]
async fn keys_of_locks_of_another_type_are_refused_and_left_alone() {
    let redis = server();
    let store = connected(&redis.url()).await;
    for (key, word) in
        [(STORE, "not a hash"), (LOCK, "not a hash"), (SESSIONS, "sorted"), (QUEUE, "sorted"), (FAIR, "sorted")]
    {
        for make in [["SET", key, "x"], ["SADD", key, "x"], ["LPUSH", key, "x"]] {
            redis.command(&["FLUSHALL"]);
            redis.command(&make);
            all_refuse(&redis, &store, key, word).await;
        }
    }
}

#[tokio::test]
async fn odd_fields_of_locks_are_refused_and_left_alone() {
    let redis = server();
    let store = connected(&redis.url()).await;
    let holder = format!("h:{}", id(1));
    // No lease has ended: then nothing but what is wrong with them makes them no holds.
    let later = "9007199254740991";
    let bad_numbers = [
        format!("{LONG} 6 {later} 0 0 5"),
        format!("5 {LONG} {later} 0 0 5"),
        format!("5 6 {LONG} 0 0 5"),
        format!("5 6 {later} 0 {LONG} 5"),
        format!("5 6 {later} 0 0 00000000000000005"),
        format!("5 6 {later} 0 0 99"),
        "5 6 7 0 0 99".to_owned(),
    ];
    let mut bad_holders: Vec<String> =
        bad_numbers.iter().map(|numbers| format!("{} {numbers} owner web", session(1))).collect();
    bad_holders.extend(["", "x"].map(str::to_owned));
    let mut bad: Vec<(&str, &str)> = vec![
        ("v", "2"),
        ("v", ""),
        ("token", "x"),
        ("token", LONG),
        ("ended", "-1"),
        ("ended", LONG),
        ("permits", "1e3"),
        ("permits", LONG),
        ("longest", ""),
        ("longest", LONG),
        ("h:7", "x"),
    ];
    bad.extend(bad_holders.iter().map(|value| (holder.as_str(), value.as_str())));
    for (field, value) in bad {
        redis.command(&["FLUSHALL"]);
        granted(&store, ask("a", 1)).await;
        redis.command(&["HSET", LOCK, field, value]);
        all_refuse(&redis, &store, LOCK, &format!("field {field}")).await;
    }
    for field in ["v", "token", "ended", "permits", "longest", "released"] {
        redis.command(&["FLUSHALL"]);
        granted(&store, ask("a", 1)).await;
        redis.command(&["HDEL", LOCK, field]);
        all_refuse(&redis, &store, LOCK, &format!("field {field}")).await;
    }
    for make in [["HSET", STORE, "v", "2"], ["HSET", STORE, "generation", "x"], ["HSET", STORE, "v", "1"]] {
        redis.command(&["FLUSHALL"]);
        redis.command(&make);
        all_refuse(&redis, &store, STORE, "fields").await;
    }
}

/// By the whole scripts and by the short way of a grant.
#[tokio::test]
async fn odd_fields_of_the_store_are_refused_and_left_alone() {
    let redis = server();
    let store = connected(&redis.url()).await;
    let spoil: [&[&str]; 6] = [
        &["HSET", STORE, "v", "2"],
        &["HDEL", STORE, "v"],
        &["HDEL", STORE, "generation"],
        &["HDEL", STORE, "guard_until"],
        &["HSET", STORE, "guard_until", "x"],
        &["HSET", STORE, "guard_until", LONG],
    ];
    for spoil in spoil {
        redis.command(&["FLUSHALL"]);
        noted_as_open(&store, "a").await;
        redis.command(spoil);
        all_refuse(&redis, &store, STORE, "fields").await;
        refuses(&redis, &store, ask_guarded("a", 3), STORE, "fields").await;
    }
}

#[tokio::test]
async fn a_floor_that_is_no_number_is_refused_and_left_alone() {
    let redis = server();
    let store = connected(&redis.url()).await;
    // The guard of a new store is written first.
    let guarded = AcquireRequest { guard: Some(LEASE), ..ask("b", 1) };
    for (make, word) in [(["SET", FLOOR, "x"], "not a number"), (["SADD", FLOOR, "1"], "not a string")] {
        redis.command(&["DEL", FLOOR]);
        store.acquire(guarded.clone()).await.expect("an answer");
        redis.command(&["DEL", FLOOR]);
        redis.command(&make);
        all_refuse(&redis, &store, FLOOR, word).await;
    }
}

#[tokio::test]
async fn a_queue_that_holds_no_tickets_is_refused_and_costs_a_release_only_the_wake() {
    let redis = server();
    let store = connected(&redis.url()).await;
    granted(&store, ask("a", 1)).await;
    redis.command(&["ZADD", QUEUE, "1", "x"]);
    release(&store, "a", 1).await;
    let (session, id) = (session(7), id(7));
    let odd = [
        ("1", "x".to_owned()),
        ("1", format!("{session}:7")),
        ("1", format!("7:{id}")),
        ("-1", format!("{session}:{id}")),
    ];
    for key in [QUEUE, FAIR] {
        for (order, ticket) in &odd {
            redis.command(&["DEL", QUEUE, FAIR]);
            redis.command(&["ZADD", key, order, ticket]);
            refuses(&redis, &store, ask("a", 2), key, "not a ticket").await;
        }
    }
}

/// Who has lost a lock would put it back above a floor that cannot be read.
#[tokio::test]
async fn a_floor_that_is_no_number_lets_nothing_be_put_back() {
    let redis = server();
    let store = connected(&redis.url()).await;
    let restore = known(1, granted(&store, ask("a", 1)).await.token);
    redis.command(&["DEL", LOCK]);
    redis.command(&["SET", FLOOR, "x"]);
    is_garbage(store.extend(ExtendRequest { restore, ..extension("a", 1) }).await, FLOOR, "not a number");
    assert_eq!(redis.command(&["EXISTS", LOCK]).number(), 0);
}
