//! What is asked mostly costs little: the campaign where somebody else leads (`campaign_held.lua`), the renewal of who
//! was answered last (`renew_again.lua`, `member_renew_again.lua`). Where anything is otherwise the whole script
//! follows, which shows by how often it reads. What either answers is compared in `differential` and `members`.

use baton::protocol::MemberRequest;
use testkit::redis::RedisServer;

use super::members::connected_by;
use super::renewals::win_guarded;
use super::rules::win_after_the_start;
use super::*;

const LEASE_KEY: &str = "baton:{scheduler}:lease";
const RECORD_KEY: &str = "baton:{scheduler}:record";

/// Whether no other hash is read for this request than the lease and the record, once each.
async fn is_short<R>(redis: &RedisServer, request: impl Future<Output = R>) -> bool {
    redis.command(&["CONFIG", "RESETSTAT"]);
    request.await;
    calls(redis, "hmget") == 2
}

/// The lease and the record as they are, which can be put back.
struct Stored([(&'static str, Vec<String>); 2]);

impl Stored {
    fn of(redis: &RedisServer) -> Self {
        Self([LEASE_KEY, RECORD_KEY].map(|key| (key, redis.command(&["HGETALL", key]).texts())))
    }

    fn put_back(&self, redis: &RedisServer) {
        for (key, fields) in &self.0 {
            redis.command(&["DEL", key]);
            let words: Vec<&str> = ["HSET", key].into_iter().chain(fields.iter().map(String::as_str)).collect();
            redis.command(&words);
        }
        redis.command(&["PEXPIRE", LEASE_KEY, &LEASE.as_millis().to_string()]);
    }
}

/// Fields, each with what it becomes; without that it goes.
type Change = Vec<(&'static str, &'static str, Option<String>)>;

fn set(key: &'static str, field: &'static str, value: &str) -> Change {
    vec![(key, field, Some(value.to_owned()))]
}

fn set_both(field: &'static str, value: &str) -> Change {
    [set(LEASE_KEY, field, value), set(RECORD_KEY, field, value)].concat()
}

fn gone(key: &'static str, field: &'static str) -> Change {
    vec![(key, field, None)]
}

fn make(redis: &RedisServer, change: &Change) {
    for (key, field, value) in change {
        match value {
            Some(value) => redis.command(&["HSET", key, field, value]),
            None => redis.command(&["HDEL", key, field]),
        };
    }
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
    assert!(!is_short(&redis, store.campaign(&role(), ask(1, 2))).await, "its own term");
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
        assert!(is_short(&redis, store.campaign(&role(), request.clone())).await, "{known}");
    }
    assert!(
        !is_short(&redis, store.campaign(&role(), still.clone())).await,
        "this version, for a lease: it is granted"
    );
    let without_guard = CampaignRequest { guard: false, ..ask(3, 1) };
    redis.command(&["HSET", RECORD_KEY, "generation", "another"]);
    assert!(is_short(&redis, store.campaign(&role(), without_guard.clone())).await, "without R5");
    assert!(is_short(&redis, heard(&redis.url()).await.campaign(&role(), ask(3, 1))).await, "guard: heard");
    assert!(!is_short(&redis, store.campaign(&role(), ask(3, 1))).await, "another server");
}

#[tokio::test]
async fn a_campaign_does_not_take_for_granted_what_it_has_not_read() {
    let (redis, store) = guarded_store().await;
    let version = led(&store).await;
    let stored = Stored::of(&redis);
    let session = SessionId::from_u128(9).to_string();
    let token = version.token.get();
    let (other, long) = ((token + 1).to_string(), format!("{token}0"));
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
        set_both("session", "x"),
        set_both("session", &format!("{session}0")),
        set_both("token", "x"),
        set_both("token", &long),
        set_both("attempt", "x"),
        set_both("lease_ms", "x"),
    ];
    changes.extend(["identity", "attempt"].map(|field| gone(LEASE_KEY, field)));
    changes.extend(["count", "floor", "until", "generation", "guard_until"].map(|field| gone(RECORD_KEY, field)));
    for change in changes {
        stored.put_back(&redis);
        assert!(is_short(&redis, store.campaign(&role(), ask(2, 1))).await, "before {change:?}");
        make(&redis, &change);
        assert!(!is_short(&redis, store.campaign(&role(), ask(2, 1))).await, "{change:?}");
    }
    for ends in [["PERSIST", LEASE_KEY].as_slice(), &["PEXPIRE", LEASE_KEY, "70000"]] {
        stored.put_back(&redis);
        redis.command(ends);
        assert!(!is_short(&redis, store.campaign(&role(), ask(2, 1))).await, "{ends:?}");
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
    let much_longer = CampaignRequest { lease_duration: LEASE * 1000, ..ask(2, 1) };
    for (further, request, expected) in [
        (Duration::ZERO, &shorter, true),
        (LEASE, &longer, true),
        (LEASE, &ask(2, 1), false),
        (LEASE * 3, &longer, false),
        (LEASE * 999 + LEASE / 2, &much_longer, false),
    ] {
        let moment = until + u64::try_from(further.as_micros()).expect("small");
        redis.command(&["HSET", RECORD_KEY, "until", &moment.to_string()]);
        assert_eq!(
            is_short(&redis, store.campaign(&role(), request.clone())).await,
            expected,
            "{further:?} further, {:?}",
            request.lease_duration
        );
    }
}

#[tokio::test]
async fn a_renewal_does_not_take_for_granted_what_it_has_not_read() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    let request = win_guarded(&store).await;
    // The first of a connection asks which server it is.
    let RenewReply::Renewed { count, .. } = renew(&store, request.clone()).await else { panic!("it leads") };
    let request = RenewRequest { count, ..request };
    let stored = Stored::of(&redis);
    let (session, other) = (SessionId::from_u128(9).to_string(), (request.token.get() + 1).to_string());
    let changes = [
        set(RECORD_KEY, "count", "7"),
        set(RECORD_KEY, "token", &other),
        set(RECORD_KEY, "session", &session),
        set(RECORD_KEY, "attempt", "3"),
        set(RECORD_KEY, "generation", "another"),
        set(RECORD_KEY, "guard_cause", "empty"),
        set(RECORD_KEY, "lease_ms", "70000"),
        set(RECORD_KEY, "v", "q1"),
        set(LEASE_KEY, "token", &other),
    ];
    for change in changes {
        stored.put_back(&redis);
        assert!(is_short(&redis, store.renew(&role(), request.clone())).await, "before {change:?}");
        stored.put_back(&redis);
        make(&redis, &change);
        assert!(!is_short(&redis, store.renew(&role(), request.clone())).await, "{change:?}");
    }
    stored.put_back(&redis);
    make(&redis, &set(RECORD_KEY, "generation", "another"));
    let unguarded = RenewRequest { guard: false, ..request };
    assert!(is_short(&redis, store.renew(&role(), unguarded)).await, "without R5");
}

#[tokio::test]
async fn a_members_renewal_does_not_take_for_granted_what_it_has_not_read() {
    let redis = RedisServer::start();
    let [(_, member), (_, elsewhere)] = connected_by(&redis.url(), ["a, b, c", "a, b, d"]).await;
    let renew = |request: &RenewRequest| MemberRequest::Renew(request.clone());
    let mut request = renewal(1, 1, Token::new(7).expect("small"));
    for _ in 0..2 {
        let answer = member.ask_stamped(&role(), &renew(&request)).await.expect("an answer").reply;
        let baton::protocol::MemberReply::Renew(RenewReply::Renewed { count, .. }) = answer else {
            panic!("{answer:?}")
        };
        request.count = count;
        // What it began with is over: nothing was known here.
        make(&redis, &[set(RECORD_KEY, "guard_cause", ""), set(RECORD_KEY, "guard_until", "0")].concat());
    }
    let stored = Stored::of(&redis);
    let session = SessionId::from_u128(9).to_string();
    let changes = [
        set(RECORD_KEY, "count", "7"),
        set(RECORD_KEY, "token", "8"),
        set(RECORD_KEY, "confirmed", "6"),
        set(RECORD_KEY, "generation", "another"),
        set(RECORD_KEY, "guard_cause", "empty"),
        set(RECORD_KEY, "lists", "a, b, d"),
        set(RECORD_KEY, "lease_ms", "70000"),
        set(RECORD_KEY, "v", "1"),
        set(LEASE_KEY, "token", "6"),
        set(LEASE_KEY, "session", &session),
        set(LEASE_KEY, "attempt", "2"),
        set(LEASE_KEY, "confirmed", "0"),
        set(LEASE_KEY, "lease_ms", "70000"),
    ];
    for change in changes {
        stored.put_back(&redis);
        assert!(is_short(&redis, member.ask_stamped(&role(), &renew(&request))).await, "before {change:?}");
        stored.put_back(&redis);
        make(&redis, &change);
        assert!(!is_short(&redis, member.ask_stamped(&role(), &renew(&request))).await, "{change:?}");
    }
    stored.put_back(&redis);
    assert!(!is_short(&redis, elsewhere.ask_stamped(&role(), &renew(&request))).await, "by another list");
    stored.put_back(&redis);
    make(&redis, &set(RECORD_KEY, "generation", "another"));
    let unguarded = RenewRequest { guard: false, ..request };
    assert!(is_short(&redis, member.ask_stamped(&role(), &renew(&unguarded))).await, "without R5");
}
