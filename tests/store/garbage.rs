//! Keys of ours that hold what we did not write: an error that names them, and not a byte changed.

use testkit::redis::RedisServer;
use testkit::resp::Reply;

use super::*;

const LEASE_KEY: &str = "baton:{scheduler}:lease";
const RECORD_KEY: &str = "baton:{scheduler}:record";

/// Every request finds the garbage in `key`, tells of `word`, and leaves the database as it is.
async fn all_refuse(redis: &RedisServer, store: &RedisStore, key: &str, word: &str) {
    let before = redis.command(&["DEBUG", "DIGEST"]);
    let errors = [
        store.campaign(&role(), ask(1, 1)).await.expect_err("garbage"),
        store.campaign(&role(), unguarded(1, 1)).await.expect_err("garbage"),
        store.renew(&role(), renewal(1, 1, Token::new(7).expect("small"))).await.expect_err("garbage"),
        store.release(&role(), giving_back(1, 1, Token::NONE)).await.expect_err("garbage"),
        store.purge(&role()).await.expect_err("garbage"),
    ];
    for error in errors {
        is_garbage(Err::<(), _>(error), key, word);
    }
    assert_eq!(redis.command(&["DEBUG", "DIGEST"]), before, "{key} {word}");
}

fn server() -> RedisServer {
    RedisServer::start_with(&["--enable-debug-command", "yes"])
}

#[tokio::test]
async fn keys_of_another_type_are_refused_and_left_alone() {
    let redis = server();
    let store = connected(&redis.url()).await;
    for key in [LEASE_KEY, RECORD_KEY] {
        for make in [["SET", key, "x"], ["SADD", key, "x"], ["LPUSH", key, "x"]] {
            redis.command(&["FLUSHALL"]);
            redis.command(&make);
            all_refuse(&redis, &store, key, "not a hash").await;
        }
    }
}

#[tokio::test]
async fn hashes_with_missing_or_odd_fields_are_refused_and_left_alone() {
    let redis = server();
    let store = connected(&redis.url()).await;
    let record_fields = [
        "v",
        "token",
        "floor",
        "count",
        "released",
        "session",
        "attempt",
        "lease_ms",
        "until",
        "generation",
        "guard_until",
        "guard_cause",
    ];
    for field in record_fields {
        redis.command(&["FLUSHALL"]);
        let (token, _) = win(&store, unguarded(1, 1)).await;
        release(&store, giving_back(1, 1, token)).await;
        assert_eq!(redis.command(&["HDEL", RECORD_KEY, field]), Reply::Number(1), "{field}");
        all_refuse(&redis, &store, RECORD_KEY, field).await;
    }
    for (field, value) in [
        ("v", "2"),
        ("token", "abc"),
        ("token", "-1"),
        ("token", "1e5"),
        ("token", "12345678901234567"),
        ("count", ""),
        ("released", "yes"),
        ("session", "me"),
        ("session", "abc"),
        ("session", &"z".repeat(32)),
        ("guard_until", "soon"),
        ("guard_cause", "boredom"),
    ] {
        redis.command(&["FLUSHALL"]);
        let (token, _) = win(&store, unguarded(1, 1)).await;
        release(&store, giving_back(1, 1, token)).await;
        redis.command(&["HSET", RECORD_KEY, field, value]);
        all_refuse(&redis, &store, RECORD_KEY, field).await;
    }
}

#[tokio::test]
async fn a_lease_with_missing_or_odd_fields_is_refused_and_left_alone() {
    let redis = server();
    let store = connected(&redis.url()).await;
    for field in ["v", "session", "attempt", "token", "identity", "lease_ms"] {
        redis.command(&["FLUSHALL"]);
        win(&store, unguarded(1, 1)).await;
        assert_eq!(redis.command(&["HDEL", LEASE_KEY, field]), Reply::Number(1), "{field}");
        all_refuse(&redis, &store, LEASE_KEY, field).await;
    }
    for (field, value) in [("token", "x"), ("session", "x"), ("lease_ms", "long"), ("attempt", " 1")] {
        redis.command(&["FLUSHALL"]);
        win(&store, unguarded(1, 1)).await;
        redis.command(&["HSET", LEASE_KEY, field, value]);
        all_refuse(&redis, &store, LEASE_KEY, field).await;
    }
    redis.command(&["FLUSHALL"]);
    win(&store, unguarded(1, 1)).await;
    redis.command(&["PERSIST", LEASE_KEY]);
    all_refuse(&redis, &store, LEASE_KEY, "TTL").await;
}

#[tokio::test]
async fn a_question_that_is_answered_with_who_leads_writes_nothing() {
    let redis = server();
    let store = connected(&redis.url()).await;
    win(&store, unguarded(1, 1)).await;
    for key_that_goes in ["another", RECORD_KEY] {
        redis.command(&["DEL", key_that_goes]);
        let before = redis.command(&["DEBUG", "DIGEST"]);
        assert!(matches!(campaign(&store, unguarded(2, 1)).await, CampaignReply::Held { .. }));
        assert_eq!(redis.command(&["DEBUG", "DIGEST"]), before, "without {key_that_goes}");
    }
}
