//! Who takes part in a role that is split over shards: the script against the reference, its key, and what it refuses.

use baton::protocol::{
    AppVersion, Participant, Portion, Presence, PresenceRequest, Random, Rank, SHARDS_MAX, ShardSet, StoreTime,
};
use testkit::redis::RedisServer;
use testkit::resp::Reply;
use testkit::wait_until_async;

use super::refusals::{LEAST_RIGHTS, with_rights};
use super::*;

const KEY: &str = "baton:{scheduler}:presence";
/// Longer than any test takes.
const SPAN: Duration = Duration::from_secs(600);

fn request(session: u128, portion: Option<Portion>, span: Duration) -> PresenceRequest {
    PresenceRequest { session: SessionId::from_u128(session), portion, span }
}

async fn present(store: &RedisStore, request: PresenceRequest) -> Vec<Participant> {
    store.presence(&role(), request).await.expect("an answer")
}

#[tokio::test]
async fn random_signs_of_life_get_the_same_answers_from_redis_and_from_the_reference() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    let (mut reference, mut dice) = (Presence::default(), Random::new(7));
    let mut roll = move |below: u64| {
        let rolled = dice.between(Duration::ZERO, Duration::from_micros(below)).as_micros();
        u64::try_from(rolled).expect("small")
    };
    let mut most = 0;
    for _ in 0..500 {
        let mut set = |size| (0..size).map(|_| roll(u64::from(SHARDS_MAX)) as u16).collect::<ShardSet>();
        let (leads, shuns) = (set(9), set(3));
        let version = (roll(3) > 0).then(|| AppVersion::new(["a", "b"][roll(2) as usize], roll(1_000)));
        let rank = (roll(3) > 0).then(|| Rank { priority: roll(9) as u32, version });
        let portion = Portion { leads, shuns, rank };
        let portion = (roll(4) > 0).then_some(portion);
        let request = request(u128::from(roll(40)) + 1, portion, SPAN);
        let wanted = reference.note(StoreTime(1), &request);
        most = most.max(wanted.len());
        assert_eq!(present(&store, request).await, wanted);
    }
    assert!(most > 20, "few of them at once: {most}");
}

#[tokio::test]
async fn those_whose_time_is_over_are_removed_and_the_key_goes_with_the_last() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    let some = Some(Portion::default());
    // The whole key goes four spans after the last sign: a shorter span, on a busy machine, and that is what is seen.
    for session in 1..=250 {
        present(&store, request(session, some, ms(1_000))).await;
    }
    wait_until_async(BOUND, "all but the last are over", async || {
        present(&store, request(999, some, SPAN)).await.len() == 1
    })
    .await;
    assert_eq!(redis.command(&["HLEN", KEY]), Reply::Number(2), "v and one session");
    let ttl = redis.command(&["PTTL", KEY]).number();
    assert!((1..=2_400_000).contains(&ttl), "it would go by itself: {ttl} ms");
    assert_eq!(present(&store, request(999, None, SPAN)).await, []);
    assert_eq!(redis.command(&["EXISTS", KEY]), Reply::Number(0));
    // A shard's name leads to its role's key.
    let members = store.presence(&role().shard(3), request(1, some, SPAN)).await.expect("an answer");
    assert_eq!((members.len(), redis.command(&["EXISTS", KEY])), (1, Reply::Number(1)));
}

#[tokio::test]
async fn a_sign_stands_by_the_servers_clock_however_long() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    let (session, set) = ("0".repeat(31) + "9", "0".repeat(64));
    for lasts in ["60000000".to_owned(), "9".repeat(16)] {
        let said = format!("{} {lasts} {set} {set}", now_us(&redis));
        redis.command(&["HSET", KEY, "v", "1", &session, &said]);
        let told = present(&store, request(1, None, SPAN)).await;
        assert_eq!(told.iter().map(|member| member.session).collect::<Vec<_>>(), [SessionId::from_u128(9)], "{lasts}");
    }
}

#[tokio::test]
async fn a_key_that_is_not_batons_is_told_and_left_alone() {
    let redis = RedisServer::start_with(&["--enable-debug-command", "yes"]);
    let store = connected(&redis.url()).await;
    let session = "0".repeat(31) + "9";
    let (set, short, long) = ("0".repeat(64), "0".repeat(63), "1".repeat(17));
    let rows: [(&[&str], &str); 10] = [
        (&["SET", KEY, "x"], "not a hash"),
        (&["HSET", KEY, "x", "y"], "field x"),
        (&["HSET", KEY, &session, &format!("1 1 {set} {set}")], "field v is missing"),
        (&["HSET", KEY, "v", "2"], "field v is not 1"),
        (&["HSET", KEY, "v", "1", &session, &format!("1 1 {set} {short}")], &session),
        (&["HSET", KEY, "v", "1", &session, &format!("1 -1 {set} {set}")], &session),
        (&["HSET", KEY, "v", "1", &session, &format!("1 1 {set} {set} 12")], &session),
        (&["HSET", KEY, "v", "1", &session, &format!("{long} 1 {set} {set}")], &session),
        (&["HSET", KEY, "v", "1", &session, &format!("1 {long} {set} {set}")], &session),
        (&["HSET", KEY, "v", "1", "me", &format!("1 1 {set} {set}")], "field me"),
    ];
    for (make, word) in rows {
        redis.command(&["FLUSHALL"]);
        redis.command(make);
        let before = redis.command(&["DEBUG", "DIGEST"]);
        for portion in [Some(Portion::default()), None] {
            match store.presence(&role(), request(1, portion, SPAN)).await {
                Err(StoreError::Garbage { key, why }) => assert!(key == KEY && why.contains(word), "{word}: {why}"),
                other => panic!("{word}: {other:?}"),
            }
        }
        assert_eq!(redis.command(&["DEBUG", "DIGEST"]), before, "{word}");
    }
}

#[tokio::test]
async fn a_user_that_may_not_read_is_told_so() {
    let redis = RedisServer::start();
    let store = with_rights(&redis, &format!("{LEAST_RIGHTS} -hgetall")).await;
    let refused = store.presence(&role(), request(1, Some(Portion::default()), SPAN)).await;
    assert!(matches!(&refused, Err(StoreError::Refused { reason }) if reason.contains("NOPERM")), "{refused:?}");
}

#[tokio::test]
async fn a_full_redis_refuses_signs_of_life_and_lets_leave() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    present(&store, request(1, Some(Portion::default()), SPAN)).await;
    redis.command(&["CONFIG", "SET", "maxmemory", "1"]);
    let refused = store.presence(&role(), request(2, Some(Portion::default()), SPAN)).await;
    assert!(matches!(&refused, Err(StoreError::Refused { reason }) if reason.contains("maxmemory")), "{refused:?}");
    redis.command(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(present(&store, request(1, None, SPAN)).await, [], "nothing of the refused one was kept");
}
