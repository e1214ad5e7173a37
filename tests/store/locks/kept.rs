//! What the scripts keep of a lock, for how long, and what they drop: nothing that random operations would show.

use baton::store::StoreError;
use testkit::redis::RedisServer;
use testkit::resp::Reply;
use testkit::{BOUND, wait_until_async};

use super::super::refusals::{LEAST_RIGHTS, with_rights};
use super::super::{connected, ms, now_us};
use super::*;

const LOCK: &str = "baton:{locks}:lock:a";
const FLOOR: &str = "baton:{locks}:floor";
const SESSIONS: &str = "baton:{locks}:sessions";
const TICKET_US: u64 = 5_000_000;
/// More than a test takes, and less than any of the spans that are told apart here.
const MINUTE: Duration = Duration::from_secs(60);

/// A request that goes the whole way: the short ones are for one lock.
fn two(number: u128) -> AcquireRequest {
    AcquireRequest { names: names(&["a", "b"]), ..ask("a", number) }
}

async fn release_two(store: &RedisStore, number: u128) {
    let request = LockReleaseRequest { names: names(&["a", "b"]), ..giving_back("a", number) };
    assert_eq!(store.release(request).await, Ok(LockReleaseReply::Released));
}

fn left_of(redis: &RedisServer, key: &str) -> Duration {
    Duration::from_millis(u64::try_from(redis.command(&["PTTL", key]).number()).expect("it has a TTL"))
}

#[track_caller]
fn assert_about(left: Duration, expected: Duration) {
    assert!(left.abs_diff(expected) < MINUTE, "{left:?} of {expected:?}");
}

#[tokio::test]
async fn a_lock_is_remembered_for_two_minutes_more_than_the_longest_lease_that_was_granted() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    let remembered = |lease: Duration| lease + 2 * MINUTE;
    let lease = |minutes, number| AcquireRequest { lease: minutes * MINUTE, ..two(number) };
    granted(&store, lease(10, 1)).await;
    assert_about(left_of(&redis, LOCK), remembered(10 * MINUTE));
    let longer = ExtendRequest { names: names(&["a", "b"]), lease: Some(20 * MINUTE), ..extension("a", 1) };
    assert!(is_extended(&store.extend(longer).await.expect("an answer")));
    assert_about(left_of(&redis, LOCK), remembered(20 * MINUTE));
    release_two(&store, 1).await;
    granted(&store, lease(5, 2)).await;
    assert_about(left_of(&redis, LOCK), remembered(20 * MINUTE));
    // Also by who only asks for a place in the queue.
    redis.command(&["PEXPIRE", LOCK, "30000"]);
    assert!(is_held(&store, waiting("a", 3)).await);
    assert_about(left_of(&redis, LOCK), remembered(20 * MINUTE));
}

#[tokio::test]
async fn the_greatest_token_is_remembered_for_a_day_more_than_it_is_ahead_of_the_clock() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    const DAY: Duration = Duration::from_secs(86_400);
    granted(&store, two(1)).await;
    assert_about(left_of(&redis, FLOOR), DAY);
    release_two(&store, 1).await;
    let ahead = 10 * DAY;
    let floor = Token::new(now_us(&redis) + u64::try_from(ahead.as_micros()).expect("small")).expect("below 2^53");
    let token = granted(&store, AcquireRequest { floor, ..two(2) }).await.token;
    assert_eq!(token.get(), floor.get() + 1);
    assert_about(left_of(&redis, FLOOR), DAY + ahead);
    release_two(&store, 2).await;
    // A lock knows its own greatest besides.
    redis.command(&["DEL", FLOOR]);
    assert!(granted(&store, two(3)).await.token > token);
}

#[tokio::test]
async fn the_last_token_is_granted_and_none_after_it() {
    const LAST: u64 = Token::LIMIT - 1;
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    noted_as_open(&store, "a").await;
    for request in [ask_guarded("a", 3), two(4)] {
        redis.command(&["DEL", LOCK, "baton:{locks}:lock:b"]);
        redis.command(&["SET", FLOOR, &(LAST - 1).to_string()]);
        assert_eq!(granted(&store, request.clone()).await.token.get(), LAST);
        redis.command(&["DEL", LOCK, "baton:{locks}:lock:b"]);
        let refused = store.acquire(request).await;
        let is_told = matches!(&refused, Err(StoreError::Refused { reason }) if reason.contains("2^53"));
        assert!(is_told, "{refused:?}");
        assert_eq!(redis.command(&["GET", FLOOR]).text(), LAST.to_string());
        assert_eq!(redis.command(&["EXISTS", LOCK]), Reply::Number(0));
    }
}

#[tokio::test]
async fn the_last_eight_that_were_given_back_are_remembered() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    for number in 1..=10 {
        granted(&store, two(number)).await;
        release_two(&store, number).await;
    }
    let expected: String = (3..=10).map(|number| format!(" {}", id(number))).collect();
    assert_eq!(redis.command(&["HGET", LOCK, "released"]).text(), expected);
}

#[tokio::test]
async fn holds_whose_leases_have_ended_go_with_the_next_grant() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    let brief = AcquireRequest { lease: ms(50), permits: 2, ..ask("a", 1) };
    granted(&store, brief).await;
    granted(&store, AcquireRequest { permits: 2, ..ask("a", 2) }).await;
    let name = LockName::new("a").expect("a good name");
    wait_until_async(BOUND, "its lease has ended", async || {
        store.inspect(name.clone()).await.expect("an answer").holders.len() == 1
    })
    .await;
    granted(&store, AcquireRequest { permits: 2, ..ask("a", 3) }).await;
    let fields = redis.command(&["HKEYS", LOCK]).texts();
    let mut holds: Vec<&String> = fields.iter().filter(|field| field.starts_with("h:")).collect();
    holds.sort();
    assert_eq!(holds, [&format!("h:{}", id(2)), &format!("h:{}", id(3))]);
}

#[tokio::test]
async fn signs_of_life_that_have_ended_go_with_the_next_one() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    redis.command(&["ZADD", SESSIONS, "1", &session(1).to_string()]);
    store.beat(session(2)).await.expect("an answer");
    assert_eq!(redis.command(&["ZRANGE", SESSIONS, "0", "-1"]).texts(), [session(2).to_string()]);
}

/// It was given before the clock was stepped back.
#[tokio::test]
async fn a_sign_of_life_from_later_than_now_ends_as_one_of_now_but_for_who_only_looks() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    granted(&store, ask("a", 1)).await;
    assert!(is_held(&store, waiting("a", 2)).await);
    let later = now_us(&redis) + 1_000 * TICKET_US;
    redis.command(&["ZADD", SESSIONS, &later.to_string(), &session(2).to_string()]);
    let till = || redis.command(&["ZSCORE", SESSIONS, &session(2).to_string()]).text().parse::<f64>().expect("a score");
    assert_eq!(store.inspect(names(&["a"]).remove(0)).await.expect("an answer").waiting, 1);
    assert_eq!(till(), later as f64);
    assert!(is_held(&store, waiting("a", 3)).await);
    assert!(till() <= (now_us(&redis) + TICKET_US) as f64, "{}", till());
}

/// Whoever waits for several names leaves each to those behind while it cannot have all.
#[tokio::test]
async fn who_is_first_for_a_name_that_it_cannot_use_yet_wakes_the_next() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    let (mut first, mut second) = (listening(&store, 3).await, listening(&store, 4).await);
    granted(&store, ask("a", 1)).await;
    granted(&store, ask("b", 2)).await;
    let several = AcquireRequest { queueing: Queueing::Plain, ..two(3) };
    assert!(is_held(&store, several.clone()).await);
    assert!(is_held(&store, AcquireRequest { queueing: Queueing::Plain, ..ask("a", 4) }).await);
    release(&store, "a", 1).await;
    assert_eq!(next(&mut first).await, wake("a", 3));
    assert!(is_held(&store, several).await, "by who has b");
    assert_eq!(next(&mut second).await, wake("a", 4));
}

#[tokio::test]
async fn a_missing_right_is_told_as_it_is() {
    for missing in ["+hgetall", "+zcard", "+get"] {
        let redis = RedisServer::start();
        let store = with_rights(&redis, &LEAST_RIGHTS.replace(&format!("{missing} "), "")).await;
        let refused = store.acquire(two(1)).await;
        let is_told = matches!(&refused, Err(StoreError::Refused { reason }) if reason.contains("(NOPERM)"));
        assert!(is_told, "{missing}: {refused:?}");
        assert_eq!(redis.command(&["EXISTS", LOCK]), Reply::Number(0));
    }
}
