//! What the scripts keep of a lock, for how long, and what they drop: nothing that random operations would show.

use baton::protocol::TurnSeat;
use baton::store::StoreError;
use testkit::redis::RedisServer;
use testkit::resp::Reply;
use testkit::sidecars::clock;
use testkit::{BOUND, wait_until_async};

use super::super::refusals::{LEAST_RIGHTS, with_rights};
use super::super::{connected, ms, now_us, step_clock};
use super::*;

const LOCK: &str = "baton:{locks}:lock:a";
const LOCK_B: &str = "baton:{locks}:lock:b";
const FLOOR: &str = "baton:{locks}:floor";
const SESSIONS: &str = "baton:{locks}:sessions";
const TICKET_US: u64 = 5_000_000;
/// More than a test takes, and less than any of the spans that are told apart here.
const MINUTE: Duration = Duration::from_secs(60);
/// A thousandth of it is more than that.
const DAY: Duration = Duration::from_secs(86_400);

/// A request that goes the whole way: the short ones are for one lock.
fn two(number: u128) -> AcquireRequest {
    AcquireRequest { names: names(&["a", "b"]), ..ask("a", number) }
}

fn left_of(redis: &RedisServer, key: &str) -> Duration {
    Duration::from_millis(u64::try_from(redis.command(&["PTTL", key]).number()).expect("it has a TTL"))
}

#[track_caller]
fn assert_about(left: Duration, expected: Duration) {
    assert!(left.abs_diff(expected) < MINUTE, "{left:?} of {expected:?}");
}

/// Grants, extensions and releases by the whole scripts and by the short ways.
const WAYS: [fn(u128) -> AcquireRequest; 2] = [two, |number| ask_guarded("a", number)];

async fn release_as(store: &RedisStore, request: AcquireRequest) {
    let AcquireRequest { names, id, session, .. } = request;
    let reply = store.release(LockReleaseRequest { names, id, session, seat: None }).await;
    assert_eq!(reply, Ok(LockReleaseReply::Released));
}

#[tokio::test]
async fn a_lock_is_remembered_for_two_minutes_more_than_the_longest_lease_that_was_granted() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    noted_as_open(&store, "a").await;
    let remembered = |lease: Duration| lease + 2 * MINUTE;
    for way in WAYS {
        redis.command(&["DEL", LOCK]);
        let lease = |days, number| AcquireRequest { lease: days * DAY, ..way(number) };
        granted(&store, lease(10, 1)).await;
        assert_about(left_of(&redis, LOCK), remembered(10 * DAY));
        let longer = ExtendRequest { names: way(1).names, lease: Some(20 * DAY), ..extension("a", 1) };
        assert!(is_extended(&store.extend(longer).await.expect("an answer")));
        assert_about(left_of(&redis, LOCK), remembered(20 * DAY));
        release_as(&store, way(1)).await;
        granted(&store, lease(5, 2)).await;
        assert_about(left_of(&redis, LOCK), remembered(20 * DAY));
        // Also by who only asks for a place in the queue.
        redis.command(&["PEXPIRE", LOCK, "30000"]);
        assert!(is_held(&store, waiting("a", 3)).await);
        assert_about(left_of(&redis, LOCK), remembered(20 * DAY));
        store.cancel(cancelling("a", 3)).await.expect("an answer");
        release_as(&store, way(2)).await;
    }
}

#[tokio::test]
async fn the_greatest_token_is_remembered_for_a_day_more_than_it_is_ahead_of_the_clock() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    noted_as_open(&store, "a").await;
    for way in WAYS {
        redis.command(&["DEL", LOCK, LOCK_B, FLOOR]);
        granted(&store, way(1)).await;
        assert_about(left_of(&redis, FLOOR), DAY);
        release_as(&store, way(1)).await;
        let ahead = 10 * DAY;
        let floor = Token::new(now_us(&redis) + u64::try_from(ahead.as_micros()).expect("small"));
        let floor = floor.expect("below 2^53");
        let token = granted(&store, AcquireRequest { floor, ..way(2) }).await.token;
        assert_eq!(token.get(), floor.get() + 1);
        assert_about(left_of(&redis, FLOOR), DAY + ahead);
        release_as(&store, way(2)).await;
        // A lock knows its own greatest besides.
        redis.command(&["DEL", FLOOR]);
        assert!(granted(&store, way(3)).await.token > token);
        release_as(&store, way(3)).await;
    }
}

#[tokio::test]
async fn the_last_token_is_granted_and_none_after_it() {
    const LAST: u64 = Token::LIMIT - 1;
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    noted_as_open(&store, "a").await;
    for request in WAYS.map(|way| way(3)) {
        redis.command(&["DEL", LOCK, LOCK_B]);
        redis.command(&["SET", FLOOR, &(LAST - 1).to_string()]);
        assert_eq!(granted(&store, request.clone()).await.token.get(), LAST);
        redis.command(&["DEL", LOCK, LOCK_B]);
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
    noted_as_open(&store, "a").await;
    for way in WAYS {
        redis.command(&["DEL", LOCK, LOCK_B]);
        for number in 1..=10 {
            granted(&store, way(number)).await;
            release_as(&store, way(number)).await;
        }
        let expected: String = (3..=10).map(|number| format!(" {}", id(number))).collect();
        let told = || redis.command(&["HGET", LOCK, "released"]).text();
        assert_eq!(told(), expected);
        granted(&store, way(11)).await;
        let extension = ExtendRequest { names: way(11).names, ..extension("a", 11) };
        assert!(is_extended(&store.extend(extension).await.expect("an answer")));
        assert_eq!(told(), expected, "whoever extends gives nothing back");
        release_as(&store, way(11)).await;
    }
}

/// A request whose first hold was given back may have the lock in a turn after that: the answer to it was lost.
#[tokio::test]
async fn who_has_the_seat_has_not_given_it_back_whatever_became_of_an_earlier_hold() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    granted(&store, ask("a", 2)).await;
    release(&store, "a", 2).await;
    let grant = granted(&store, AcquireRequest { tokens: 32, queueing: Queueing::Plain, ..ask("a", 1) }).await;
    let seat = Some(TurnSeat { id: id(1), served: vec![id(2)] });
    let restore = known(2, Token::new(grant.token.get() + 1).expect("below 2^53"));
    let passed_on = ExtendRequest { id: id(2), session: session(1), seat, restore, ..extension("a", 1) };
    let store_has = |reply| matches!(reply, ExtendReply::Extended { .. });
    assert!(store_has(store.extend(passed_on.clone()).await.expect("an answer")));
    redis.command(&["HDEL", LOCK, &format!("h:{}", id(2))]);
    let last = Token::new(grant.token.get() + 31).expect("below 2^53");
    let restore = passed_on.restore.map(|known| Box::new(Restore { last, ..*known }));
    let lost = ExtendRequest { seat: None, restore, ..passed_on };
    assert!(store_has(store.extend(lost).await.expect("an answer")), "it may be put back");
}

/// What rests was given back; who says that it is another's turn does not give that one's back instead.
#[tokio::test]
async fn who_gives_back_what_rests_gives_back_no_seat() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    let of_two = |number| AcquireRequest { permits: 2, ..ask("a", number) };
    granted(&store, of_two(1)).await;
    granted(&store, AcquireRequest { at_least: LEASE, ..of_two(2) }).await;
    release(&store, "a", 2).await;
    let seat = Some(TurnSeat { id: id(1), served: vec![] });
    let again = LockReleaseRequest { session: session(1), seat, ..giving_back("a", 2) };
    assert_eq!(store.release(again).await, Ok(LockReleaseReply::Released), "before");
    assert_eq!(redis.command(&["HEXISTS", LOCK, &format!("h:{}", id(1))]), Reply::Number(1));
}

#[tokio::test]
async fn an_owner_that_gave_one_of_two_holds_back_has_not_given_the_lock_back() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    let token = granted(&store, ask("a", 1)).await.token;
    let beside = AcquireRequest { id: id(2), beside: Some(id(1)), ..ask("a", 1) };
    assert_eq!(granted(&store, beside).await.token, token);
    release(&store, "a", 1).await;
    redis.command(&["HDEL", LOCK, &format!("h:{}", id(2))]);
    let differs = store.unlock(unlocking("a", token)).await.expect("an answer");
    assert!(matches!(&differs, UnlockReply::Differs { holders } if holders.is_empty()), "{differs:?}");
}

#[tokio::test]
async fn an_owner_has_no_more_holds_than_may_be() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    granted(&store, ask("a", 1)).await;
    let beside = |number| AcquireRequest { id: id(number), beside: Some(id(1)), ..ask("a", 1) };
    for number in 2..=100 {
        granted(&store, beside(number)).await;
    }
    assert!(is_held(&store, beside(1_000)).await);
}

/// Redis was told to evict, and did so with what is known of the lock, under those who wait for it.
#[tokio::test]
async fn who_waits_for_a_lock_that_was_evicted_agrees_with_whoever_else_does() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    granted(&store, ask("a", 1)).await;
    for number in [2, 3] {
        assert!(is_held(&store, waiting("a", number)).await);
    }
    redis.command(&["DEL", LOCK]);
    assert!(is_held(&store, waiting("a", 3)).await, "by who comes first");
    granted(&store, waiting("a", 2)).await;
}

/// Where a part of a request's tickets was evicted it lines up anew, as it asks to now.
#[tokio::test]
async fn who_lines_up_anew_may_be_overtaken_if_it_says_so() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    granted(&store, two(1)).await;
    assert!(is_held(&store, AcquireRequest { queueing: Queueing::Fair, ..two(2) }).await);
    let fair = || redis.command(&["ZCARD", "baton:{locks}:fair:a"]);
    assert_eq!(fair(), Reply::Number(1));
    redis.command(&["DEL", "baton:{locks}:queue:b"]);
    assert!(is_held(&store, AcquireRequest { queueing: Queueing::Plain, ..two(2) }).await);
    assert_eq!(fair(), Reply::Number(0));
}

/// Leases that were granted before the clock was stepped back are cut once, and not anew with every look.
#[tokio::test]
async fn an_extension_writes_what_the_clock_has_cut_of_the_leases_of_others() {
    let Some((redis, control)) = clock::redis() else { return };
    let store = connected(&redis.url()).await;
    for number in [1, 2] {
        granted(&store, AcquireRequest { permits: 2, ..ask("a", number) }).await;
    }
    step_clock(&redis, &control, -3_600).await;
    assert!(is_extended(&store.extend(extension("a", 1)).await.expect("an answer")));
    let hold = redis.command(&["HGET", LOCK, &format!("h:{}", id(2))]).text();
    let ends: u64 = hold.split(' ').nth(3).expect("when it ends").parse().expect("a number");
    assert!(ends <= now_us(&redis) + u64::try_from(LEASE.as_micros()).expect("small"), "{hold}");
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
    assert!(left_of(&redis, SESSIONS) <= Duration::from_micros(TICKET_US));
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
