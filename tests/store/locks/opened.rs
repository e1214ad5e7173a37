//! Until when a store is shut for new grants, and how that is noted.

use testkit::profile::{Profile, Profiled};
use testkit::redis::RedisServer;
use testkit::resp::Reply;
use testkit::{BOUND, wait_until};

use super::super::replication::{acknowledging, pair};
use super::super::{calls, connected, is_garbage, now_us};
use super::*;

const STORE: &str = "baton:{locks}:store";
const LOCK: &str = "baton:{locks}:lock:a";
const HALF_A_DAY_US: u64 = 43_200_000_000;
/// More than a test takes, and less than a five-hundredth of that.
const BRIEF_US: u64 = 60_000_000;

fn guarded(name: &str, number: u128) -> AcquireRequest {
    AcquireRequest { guard: Some(LEASE), ..ask(name, number) }
}

fn kept(redis: &RedisServer) -> u64 {
    redis.command(&["HGET", STORE, "kept"]).text().parse().expect("microseconds")
}

/// What its server has been asked is counted in whole seconds, which may be almost one more than it is up.
#[tokio::test]
async fn a_new_store_is_shut_for_a_whole_guard_from_the_start_of_its_server() {
    let started = std::time::Instant::now();
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    let uptime = || {
        let told = redis.command(&["INFO", "server"]).text();
        let line = told.lines().find_map(|line| line.strip_prefix("uptime_in_seconds:")).expect("told");
        line.parse::<u64>().expect("a number")
    };
    wait_until(BOUND, "it is up for a second, as it says", || uptime() > 0).await;
    let AcquireReply::Guarded { remaining } = acquire(&store, guarded("a", 1)).await else { panic!("it is shut") };
    assert!(remaining + started.elapsed() >= LEASE, "{remaining:?} after {:?}", started.elapsed());
    assert!(remaining > LEASE / 2);
}

#[tokio::test]
async fn a_store_whose_server_is_up_for_longer_is_open_where_the_sidecar_asks_for_how_long() {
    let redis = RedisServer::start();
    let profile = Profile { told: &[("uptime_in_seconds", "86400")], ..Profile::MUTE };
    let proxy = Profiled::start(redis.port(), profile).await;
    granted(&connected(&proxy.url()).await, guarded("a", 1)).await;
}

/// That the store is open is noted anew after half a day, before it would be forgotten, and not each time.
#[tokio::test]
async fn that_a_store_is_open_is_noted_twice_a_day() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    noted_as_open(&store, "a").await;
    let both = |number| AcquireRequest { names: names(&["a", "b"]), ..ask_guarded("a", number) };
    let one = |number| ask_guarded("a", number);
    let ways: [fn(u128) -> AcquireRequest; 2] = [one, both];
    let mut numbers = 3..;
    for way in ways {
        // The last is what an earlier version left.
        for (after, is_noted) in
            [(Some(HALF_A_DAY_US - BRIEF_US), false), (Some(HALF_A_DAY_US + BRIEF_US), true), (None, true)]
        {
            let before = after.map_or(0, |after| now_us(&redis) - after);
            match after {
                Some(_) => redis.command(&["HSET", STORE, "kept", &before.to_string()]),
                None => redis.command(&["HDEL", STORE, "kept"]),
            };
            redis.command(&["PEXPIRE", STORE, "60000"]);
            let request = way(numbers.next().expect("numbers do not end"));
            granted(&store, request.clone()).await;
            assert_eq!(kept(&redis) > before, is_noted, "{after:?}: {:?}", request.names);
            let left = redis.command(&["PTTL", STORE]).number();
            assert_eq!(left > 80_000_000, is_noted, "{left} ms after {after:?} µs");
            let AcquireRequest { names, id, session, .. } = request;
            store.release(LockReleaseRequest { names, id, session, seat: None }).await.expect("an answer");
        }
    }
    // By the short way, which does without most of what the other asks.
    redis.command(&["HSET", STORE, "kept", &(now_us(&redis) - HALF_A_DAY_US + BRIEF_US).to_string()]);
    let asked = calls(&redis, "exists") + calls(&redis, "hgetall");
    granted(&store, one(100)).await;
    assert_eq!(calls(&redis, "exists") + calls(&redis, "hgetall"), asked + 1);
}

/// Where acknowledgements count, a replica that came since may have been elsewhere.
#[tokio::test]
async fn a_replica_that_came_shuts_an_open_store_for_who_wants_acknowledgements() {
    let (master, _replica) = pair().await;
    let store = acknowledging(&master.url()).await;
    noted_as_open(&store, "a").await;
    let generation = master.command(&["HGET", STORE, "generation"]).text();
    let (id, synchronised) = generation.split_once('/').expect("with how many synchronisations");
    let earlier = format!("{id}/{}", synchronised.parse::<u64>().expect("a number") + 1);
    master.command(&["HSET", STORE, "generation", &earlier]);
    let reply = acquire(&store, guarded("a", 3)).await;
    assert!(matches!(reply, AcquireReply::Guarded { .. }), "{reply:?}");
}

/// A grant that waits for its replica counts only if nothing has happened to the store meanwhile.
#[tokio::test]
async fn a_grant_counts_only_if_the_store_is_what_it_was_when_replicas_have_acknowledged_it() {
    let (master, replica) = pair().await;
    let store = acknowledging(&master.url()).await;
    noted_as_open(&store, "a").await;
    let later = (now_us(&master) + HALF_A_DAY_US).to_string();
    let events: [&[&str]; 4] = [
        &["HSET", STORE, "guard_until", &later],
        &["HSET", STORE, "guard_until", "x"],
        &["HSET", STORE, "generation", "another"],
        &["SET", STORE, "x"],
    ];
    for (number, event) in (3..).zip(events) {
        replica.pause();
        let asked = async { store.acquire(ask_guarded("a", number)).await };
        let meanwhile = async {
            let hold = format!("h:{}", id(number));
            wait_until(BOUND, "it is written", || master.command(&["HEXISTS", LOCK, &hold]) == Reply::Number(1)).await;
            master.command(event);
            replica.resume();
        };
        let (reply, ()) = tokio::join!(asked, meanwhile);
        if event[0] == "SET" {
            is_garbage(reply, STORE, "not a hash");
        } else {
            assert!(!matches!(reply, Ok(AcquireReply::Granted(_))), "{event:?}: {reply:?}");
        }
        master.command(&["DEL", STORE, LOCK]);
        noted_as_open(&store, "a").await;
    }
}
