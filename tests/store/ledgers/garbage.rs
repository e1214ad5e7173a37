//! Keys of ledgers that hold what we did not write: an error that names them, and not a byte changed. A full memory.

use baton::protocol::Token;
use baton::store::StoreError;

use super::*;
use crate::suite::ledgers::{request, stored, term};

/// Every request tells of it, and leaves the database as it is.
async fn all_refuse(redis: &RedisServer, desk: &Desk, word: &str) {
    let (before, key) = (redis.command(&["DEBUG", "DIGEST"]), key(desk));
    is_garbage(desk.store.open(&desk.job, &term(9)).await, &key, word);
    is_garbage(desk.store.write(&desk.job, request(Some(9), None, "x")).await, &key, word);
    is_garbage(desk.store.write(&desk.job, request(None, None, "x")).await, &key, word);
    is_garbage(desk.store.read(&desk.job).await, &key, word);
    is_garbage(desk.store.forget(&desk.job).await, &key, word);
    assert_eq!(redis.command(&["DEBUG", "DIGEST"]), before, "{word}");
}

#[tokio::test]
async fn keys_of_ledgers_that_are_not_batons_are_refused_and_left_alone() {
    let redis = RedisServer::start_with(&["--enable-debug-command", "yes"]);
    let desk = desk(&Arc::new(connected(&redis.url()).await));
    let key = key(&desk);
    for make in [["SET", &key, "x"], ["SADD", &key, "x"], ["LPUSH", &key, "x"]] {
        redis.command(&["DEL", &key]);
        redis.command(&make);
        all_refuse(&redis, &desk, "not a hash").await;
    }
    let limit = Token::LIMIT.to_string();
    let bad = [
        ("v", "2"),
        ("v", ""),
        ("role", "Ours"),
        ("fence", "x"),
        ("fence", "-1"),
        ("fence", &limit),
        ("fence", "00000000000000007"),
        ("revision", "1e3"),
        ("revision", ""),
        ("revision", &limit),
    ];
    for (field, value) in bad {
        redis.command(&["DEL", &key]);
        desk.written(Some(7), None, "a").await;
        redis.command(&["HSET", &key, field, value]);
        all_refuse(&redis, &desk, &format!("field {field}")).await;
    }
    for field in ["v", "fence", "revision", "body"] {
        redis.command(&["DEL", &key]);
        desk.written(Some(7), None, "a").await;
        redis.command(&["HDEL", &key, field]);
        all_refuse(&redis, &desk, &format!("field {field}")).await;
    }
}

#[tokio::test]
async fn a_revision_that_has_no_successor_is_told() {
    let redis = RedisServer::start();
    let desk = desk(&Arc::new(connected(&redis.url()).await));
    desk.written(Some(7), None, "a").await;
    let last = (Token::LIMIT - 1).to_string();
    redis.command(&["HSET", &key(&desk), "revision", &last]);
    let base = desk.read().await.expect("it is there").revision;
    let refused = desk.store.write(&desk.job, request(Some(9), Some(base), "b")).await;
    assert!(matches!(&refused, Err(StoreError::Refused { reason }) if reason.contains("2^53")), "{refused:?}");
    assert_eq!(desk.read().await, stored(base, "a"));
}

#[tokio::test]
async fn a_full_memory_takes_no_ledger_and_loses_none() {
    let redis = RedisServer::start();
    let desk = desk(&Arc::new(connected(&redis.url()).await));
    let base = desk.written(Some(7), None, "a").await;
    redis.command(&["CONFIG", "SET", "maxmemory", "1"]);
    for refused in [
        desk.store.open(&desk.job, &term(9)).await.map(drop),
        desk.store.write(&desk.job, request(Some(9), Some(base), "b")).await.map(drop),
        desk.store.write(&desk.job, request(Some(9), None, "b")).await.map(drop),
    ] {
        assert!(matches!(&refused, Err(StoreError::Refused { reason }) if reason.contains("maxmemory")), "{refused:?}");
    }
    assert_eq!(desk.read().await, stored(base, "a"));
    assert_eq!(desk.store.forget(&desk.job).await, Ok(true), "that makes room");
    redis.command(&["CONFIG", "SET", "maxmemory", "0"]);
    desk.written(Some(7), None, "a").await;
}

#[tokio::test]
async fn a_missing_right_is_told_as_it_is() {
    let redis = RedisServer::start();
    let store = with_rights(&redis, &LEAST_RIGHTS.replace("+hmget ", "")).await;
    let desk = desk(&Arc::new(store));
    for refused in [
        desk.store.read(&desk.job).await.map(drop),
        desk.store.write(&desk.job, request(Some(7), None, "a")).await.map(drop),
    ] {
        assert!(matches!(&refused, Err(StoreError::Refused { reason }) if reason.contains("(NOPERM)")), "{refused:?}");
    }
}
