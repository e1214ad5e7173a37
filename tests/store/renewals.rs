//! The renewal as it mostly is: nothing has changed since the last one, and Redis is asked little. Whatever has changed
//! is noticed all the same, by this renewal or before anything is granted.

use baton::protocol::GuardCause;
use testkit::redis::{Data, RedisServer};
use testkit::resp::Reply;

use super::rules::win_after_the_start;
use super::*;

const LEASE_KEY: &str = "baton:{scheduler}:lease";
const RECORD_KEY: &str = "baton:{scheduler}:record";

/// A term under R5 on a server that has been up for a while.
pub async fn win_guarded(store: &RedisStore) -> RenewRequest {
    win_after_the_start(store, 1, ms(100)).await;
    let (token, count) = win(store, ask(1, 2)).await;
    RenewRequest { count, ..renewal(1, 2, token) }
}

/// Renews, and counts on.
async fn again(store: &RedisStore, request: &mut RenewRequest) {
    match renew(store, request.clone()).await {
        RenewReply::Renewed { count, reasserted: false, .. } if count == request.count + 1 => request.count = count,
        other => panic!("{other:?} to {request:?}"),
    }
}

/// Commands within one renewal, each by its calls. INFO itself is counted only afterwards.
async fn commands_of(redis: &RedisServer, store: &RedisStore, request: &mut RenewRequest) -> Vec<(String, u64)> {
    redis.command(&["CONFIG", "RESETSTAT"]);
    again(store, request).await;
    let stats = redis.command(&["INFO", "commandstats"]).text();
    let calls = |line: &str| {
        let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        Some((name.to_owned(), rest.split(',').next()?.parse().ok()?))
    };
    let mut commands: Vec<_> =
        stats.lines().filter_map(calls).filter(|(name, _)| !name.starts_with("config")).collect();
    commands.sort();
    commands
}

fn field(redis: &RedisServer, key: &str, field: &str) -> String {
    redis.command(&["HGET", key, field]).text()
}

#[tokio::test]
async fn a_renewal_asks_who_the_server_is_once_for_each_connection() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    let mut request = win_guarded(&store).await;
    let first = commands_of(&redis, &store, &mut request).await;
    assert!(first.iter().any(|(name, _)| name == "info"), "{first:?}");
    let expected = [("evalsha", 1), ("hmget", 2), ("hset", 1), ("pexpire", 1), ("publish", 1), ("time", 1)];
    for _ in 0..3 {
        let commands = commands_of(&redis, &store, &mut request).await;
        assert_eq!(commands, expected.map(|(name, calls)| (name.to_owned(), calls)));
    }
    assert_eq!(field(&redis, RECORD_KEY, "count"), request.count.to_string());
    let until: u64 = field(&redis, RECORD_KEY, "until").parse().expect("a moment");
    let now = now_us(&redis);
    assert!(until.abs_diff(now + 60_000_000) < 30_000_000, "{until} {now}");
}

#[tokio::test]
async fn the_stores_clock_is_told_by_the_short_answer_as_by_the_whole_one() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    let mut request = win_guarded(&store).await;
    let mut last = 0;
    for _ in 0..3 {
        let answer = store.renew(&role(), request.clone()).await.expect("an answer");
        assert!(answer.store_time.0 > last && (last == 0 || answer.store_time.0 - last < 30_000_000), "{answer:?}");
        (last, request.count) = (answer.store_time.0, request.count + 1);
    }
}

/// Replicas that acknowledge may come at any time, which makes the server another.
#[tokio::test]
async fn with_acknowledgements_the_server_is_asked_each_time() {
    let (master, _replica) = replication::pair().await;
    let store = store_with(&replication::with_one_ack(&master.url(), AckMode::Wait, replication::PATIENT));
    until_up(&store).await;
    let mut request = win_guarded(&store).await;
    // Nothing is reset: how many replicas have come is a statistic, too.
    let asked = || calls(&master, "info");
    for _ in 0..3 {
        let before = asked();
        again(&store, &mut request).await;
        assert!(asked() - before > 1, "besides this test's own question");
    }
}

/// What a renewal would have noticed is noticed before a grant, and shuts the role from then on.
#[tokio::test]
async fn a_master_that_was_no_master_in_between_grants_nobody_for_a_lease_though_its_incumbent_goes_on() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    let mut request = win_guarded(&store).await;
    again(&store, &mut request).await;
    again(&store, &mut request).await;
    let before = field(&redis, RECORD_KEY, "generation");
    // Nobody there; and no command comes while it is a replica, so that no connection ends.
    for words in [["REPLICAOF", "127.0.0.1", "1"], ["REPLICAOF", "NO", "ONE"]] {
        assert_eq!(redis.command(&words), Reply::Text("OK".to_owned()));
    }
    assert!(!redis.command(&["INFO", "replication"]).text().contains(&format!("master_replid:{before}")), "it shifted");
    again(&store, &mut request).await;
    assert_eq!(field(&redis, RECORD_KEY, "generation"), before, "written by who has asked, never by who has not");
    assert_eq!(release(&store, giving_back(1, 2, request.token)).await, ReleaseReply::Released);
    let CampaignReply::Guarded { cause: GuardCause::Generation, remaining, version } =
        campaign(&store, ask(2, 1)).await
    else {
        panic!("a guard")
    };
    assert!(remaining > LEASE / 2 && version.writer.is_none(), "{remaining:?} {version:?}");
}

#[tokio::test]
async fn after_a_restart_the_first_renewal_begins_the_guard() {
    let mut redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    let mut request = win_guarded(&store).await;
    again(&store, &mut request).await;
    again(&store, &mut request).await;
    redis.restart(Data::Kept);
    until_down(&store, "").await;
    until_up(&store).await;
    assert!(matches!(renew(&store, request).await, RenewReply::Renewed { reasserted: false, .. }));
    assert_eq!(field(&redis, RECORD_KEY, "guard_cause"), "generation");
}

#[tokio::test]
async fn what_was_lost_is_put_back_by_the_next_renewal() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    for lost in [&["DEL", LEASE_KEY][..], &["DEL", LEASE_KEY, RECORD_KEY], &["FLUSHALL"]] {
        redis.command(&["FLUSHALL"]);
        let (token, count) = win(&store, unguarded(1, 1)).await;
        let mut request = RenewRequest { count, guard: false, ..renewal(1, 1, token) };
        again(&store, &mut request).await;
        redis.command(lost);
        let reply = renew(&store, request).await;
        assert!(matches!(reply, RenewReply::Renewed { reasserted: true, .. }), "{lost:?}: {reply:?}");
        assert_eq!(field(&redis, LEASE_KEY, "token"), token.to_string());
    }
}

#[tokio::test]
async fn what_somebody_else_wrote_is_told_and_left_alone() {
    let redis = RedisServer::start_with(&["--enable-debug-command", "yes"]);
    let store = connected(&redis.url()).await;
    let odd = [
        (RECORD_KEY, "v", "2"),
        (RECORD_KEY, "token", "abc"),
        (RECORD_KEY, "count", ""),
        (RECORD_KEY, "session", "me"),
        (RECORD_KEY, "attempt", "one"),
        (RECORD_KEY, "guard_cause", "boredom"),
        (RECORD_KEY, "lease_ms", "long"),
        (LEASE_KEY, "token", "x"),
    ];
    for guard in [false, true] {
        for (key, field, value) in odd {
            redis.command(&["FLUSHALL"]);
            let (token, count) = win(&store, unguarded(1, 1)).await;
            let mut request = RenewRequest { count, guard: false, ..renewal(1, 1, token) };
            again(&store, &mut request).await;
            redis.command(&["HSET", key, field, value]);
            refuses(&redis, &store, RenewRequest { guard, ..request }, key).await;
        }
    }
    for key in [LEASE_KEY, RECORD_KEY] {
        redis.command(&["FLUSHALL"]);
        let (token, count) = win(&store, unguarded(1, 1)).await;
        redis.command(&["SET", key, "x"]);
        refuses(&redis, &store, RenewRequest { count, guard: false, ..renewal(1, 1, token) }, key).await;
    }
}

async fn refuses(redis: &RedisServer, store: &RedisStore, request: RenewRequest, key: &str) {
    let before = redis.command(&["DEBUG", "DIGEST"]);
    let refused = store.renew(&role(), request).await;
    assert!(matches!(&refused, Err(StoreError::Garbage { key: k, .. }) if k == key), "{key}: {refused:?}");
    assert_eq!(redis.command(&["DEBUG", "DIGEST"]), before, "{key}");
}
