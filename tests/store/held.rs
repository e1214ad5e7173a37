//! The campaign as it mostly is, where somebody else leads (`campaign_held.lua`): it asks Redis little. Where anything
//! is otherwise the whole script follows, which shows by how often it reads.

use testkit::redis::RedisServer;

use super::rules::win_after_the_start;
use super::*;

const LEASE_KEY: &str = "baton:{scheduler}:lease";
const RECORD_KEY: &str = "baton:{scheduler}:record";

/// Whether no other hash is read for this campaign than the lease and the record, once each.
async fn is_short(redis: &RedisServer, store: &RedisStore, request: &CampaignRequest) -> bool {
    redis.command(&["CONFIG", "RESETSTAT"]);
    // What it answers is compared elsewhere, with what the whole script says.
    let _ = store.campaign(&role(), request.clone()).await;
    let stats = redis.command(&["INFO", "commandstats"]).text();
    let calls = stats.lines().find_map(|line| line.strip_prefix("cmdstat_hmget:calls=")?.split(',').next());
    calls.expect("it has read").parse::<u64>().expect("a number") == 2
}

/// The term of the first session, under R5.
async fn led(store: &RedisStore) -> RecordVersion {
    version_of(1, win(store, ask(1, 2)).await)
}

async fn guarded_store() -> (RedisServer, RedisStore) {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    win_after_the_start(&store, 1, ms(100)).await;
    (redis, store)
}

#[tokio::test]
async fn a_campaign_where_somebody_leads_reads_twice_whatever_it_knows_but_that_nobody_renews() {
    let (redis, store) = guarded_store().await;
    let version = led(&store).await;
    assert!(!is_short(&redis, &store, &ask(1, 2)).await, "its own term");
    let version = RecordVersion { count: version.count + 1, ..version };
    let knows = |version, unchanged_for| {
        let known = KnownRecord { version, age: unchanged_for, unchanged_for, remaining: Duration::ZERO };
        CampaignRequest { knowledge: Some(known), ..ask(2, 1) }
    };
    let another = RecordVersion { token: Token::new(7).expect("small"), ..version };
    let earlier = RecordVersion { count: version.count - 1, ..version };
    let nothing = ask(2, 1);
    let (now, still) = (knows(version, ms(1)), knows(version, LEASE));
    let (of_another, of_earlier) = (knows(another, LEASE), knows(earlier, LEASE));
    for (known, request) in [
        ("nothing", &nothing),
        ("this version, for a moment", &now),
        ("another token, for a lease", &of_another),
        ("an earlier count, for a lease", &of_earlier),
    ] {
        assert!(is_short(&redis, &store, request).await, "{known}");
    }
    assert!(!is_short(&redis, &store, &still).await, "this version, for a lease: it is granted");
    let without_guard = CampaignRequest { guard: false, ..ask(3, 1) };
    redis.command(&["HSET", RECORD_KEY, "generation", "another"]);
    assert!(is_short(&redis, &store, &without_guard).await, "without R5");
    assert!(is_short(&redis, &heard(&redis.url()).await, &ask(3, 1)).await, "guard: heard");
    assert!(!is_short(&redis, &store, &ask(3, 1)).await, "another server");
}

#[tokio::test]
async fn a_campaign_does_not_take_for_granted_what_it_has_not_read() {
    let (redis, store) = guarded_store().await;
    let version = led(&store).await;
    let backup = |key: &str| redis.command(&["HGETALL", key]).texts();
    let (lease, record) = (backup(LEASE_KEY), backup(RECORD_KEY));
    let put_back = || {
        for (key, fields) in [(LEASE_KEY, &lease), (RECORD_KEY, &record)] {
            redis.command(&["DEL", key]);
            let words: Vec<&str> = ["HSET", key].into_iter().chain(fields.iter().map(String::as_str)).collect();
            redis.command(&words);
        }
        redis.command(&["PEXPIRE", LEASE_KEY, &LEASE.as_millis().to_string()]);
    };
    let session = SessionId::from_u128(9).to_string();
    let token = version.token.get();
    let (other, long) = ((token + 1).to_string(), format!("{token}0"));
    let set = |key: &'static str, field: &'static str, value: &str| vec![(key, field, Some(value.to_owned()))];
    let both = |field: &'static str, value: &str| {
        vec![(LEASE_KEY, field, Some(value.to_owned())), (RECORD_KEY, field, Some(value.to_owned()))]
    };
    let gone = |key: &'static str, field: &'static str| vec![(key, field, None)];
    let mut changes = vec![
        set(RECORD_KEY, "session", &session),
        set(LEASE_KEY, "session", &session),
        set(RECORD_KEY, "token", &other),
        set(LEASE_KEY, "token", &other),
        set(RECORD_KEY, "attempt", "3"),
        set(RECORD_KEY, "lease_ms", "70000"),
        set(LEASE_KEY, "lease_ms", "70000"),
        set(LEASE_KEY, "v", "q1"),
        set(RECORD_KEY, "v", "q1"),
        set(RECORD_KEY, "guard_cause", "empty"),
        set(RECORD_KEY, "guard_until", "1"),
        set(RECORD_KEY, "released", "1"),
        set(RECORD_KEY, "floor", "x"),
        set(RECORD_KEY, "until", "x"),
        set(RECORD_KEY, "count", "x"),
        set(RECORD_KEY, "count", &long),
        both("session", "x"),
        both("session", &format!("{session}0")),
        both("token", "x"),
        both("token", &long),
        both("attempt", "x"),
        both("lease_ms", "x"),
    ];
    changes.extend(["identity", "attempt"].map(|field| gone(LEASE_KEY, field)));
    changes.extend(["count", "floor", "until", "generation", "guard_until"].map(|field| gone(RECORD_KEY, field)));
    for change in changes {
        put_back();
        assert!(is_short(&redis, &store, &ask(2, 1)).await, "before {change:?}");
        for (key, field, value) in &change {
            match value {
                Some(value) => redis.command(&["HSET", key, field, value]),
                None => redis.command(&["HDEL", key, field]),
            };
        }
        assert!(!is_short(&redis, &store, &ask(2, 1)).await, "{change:?}");
    }
    for ends in [["PERSIST", LEASE_KEY].as_slice(), &["PEXPIRE", LEASE_KEY, "70000"]] {
        put_back();
        redis.command(ends);
        assert!(!is_short(&redis, &store, &ask(2, 1)).await, "{ends:?}");
    }
}

/// No lease ends further away than the longer of what stands and what is asked for: the clock was stepped back.
#[tokio::test]
async fn a_campaign_believes_an_end_that_is_no_further_away_than_the_longer_lease() {
    let (redis, store) = guarded_store().await;
    led(&store).await;
    let until: u64 = redis.command(&["HGET", RECORD_KEY, "until"]).text().parse().expect("a moment");
    let longer = CampaignRequest { lease_duration: LEASE * 3, ..ask(2, 1) };
    let shorter = CampaignRequest { lease_duration: LEASE / 3, ..ask(2, 1) };
    for (further, request, expected) in [
        (Duration::ZERO, &shorter, true),
        (LEASE, &longer, true),
        (LEASE, &ask(2, 1), false),
        (LEASE * 3, &longer, false),
    ] {
        let moment = until + u64::try_from(further.as_micros()).expect("small");
        redis.command(&["HSET", RECORD_KEY, "until", &moment.to_string()]);
        assert_eq!(
            is_short(&redis, &store, request).await,
            expected,
            "{further:?} further, {:?}",
            request.lease_duration
        );
    }
}
