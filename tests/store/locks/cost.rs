//! What waiting and forgetting cost.

use std::sync::atomic::{AtomicU64, Ordering};

use baton::protocol::{PERMITS_MAX, RECORD_SPAN};
use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt};
use testkit::redis::RedisServer;

use super::super::{calls, connected, ms};
use super::*;

/// Commands that this request executes, its own call among them, less what is counted by looking.
async fn commands<R>(redis: &RedisServer, request: impl Future<Output = R>) -> u64 {
    let measured = calls(redis, "");
    let looking = calls(redis, "") - measured;
    request.await;
    calls(redis, "") - measured - 2 * looking
}

#[tokio::test]
async fn a_lock_that_nobody_else_uses_goes_the_short_ways() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    noted_as_open(&store, "a").await;
    let free = [
        ("not new", AcquireRequest { tokens: 32, ..ask_guarded("a", 3) }),
        ("new", AcquireRequest { names: names(&["b"]), ..ask_guarded("a", 4) }),
        ("would wait", AcquireRequest { queueing: Queueing::Plain, ..ask_guarded("a", 5) }),
    ];
    for (what, request) in free {
        let giving_back = LockReleaseRequest { names: request.names.clone(), ..giving_back("a", number_of(&request)) };
        let acquired = commands(&redis, granted(&store, request)).await;
        let released = commands(&redis, store.release(giving_back)).await;
        assert_eq!((acquired, released), (11, 7), "a lock that is {what}");
    }
}

#[tokio::test]
async fn a_semaphore_of_a_hundred_permits_takes_as_many_commands_as_one_of_two() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    let mut steps = Vec::new();
    for (name, permits) in [("few", 2), ("many", PERMITS_MAX)] {
        let of = |number: u32| AcquireRequest { permits, ..ask(name, u128::from(number)) };
        for number in 1..permits {
            granted(&store, of(number)).await;
        }
        let last = u128::from(permits);
        let acquired = commands(&redis, granted(&store, of(permits))).await;
        let extended = commands(&redis, store.extend(extension(name, last))).await;
        let refused = commands(&redis, is_held(&store, of(permits + 1))).await;
        let released = commands(&redis, release(&store, name, last)).await;
        steps.push([acquired, extended, refused, released]);
    }
    // Of the first ones each has brought its script.
    assert!(steps[0].iter().zip(steps[1]).all(|(few, many)| many <= *few), "{steps:?}");
}

const WAITERS: u64 = 100;

/// That [`ask`] was given.
fn number_of(request: &AcquireRequest) -> u128 {
    u128::from_str_radix(&request.id.to_string(), 16).expect("hexadecimal")
}

/// Waits for its turn as a sidecar's request does, and gives the lock back at once.
async fn wait_for_turn(store: &RedisStore, request: AcquireRequest, mut wakes: Subscription<WakeNews>) -> Token {
    let number = number_of(&request);
    let name = request.names[0].to_string();
    loop {
        assert_eq!(next(&mut wakes).await, wake(&name, number), "nobody is woken for nothing");
        if let AcquireReply::Granted(grant) = acquire(store, request.clone()).await {
            release(store, &name, number).await;
            return grant.token;
        }
    }
}

/// A sign of life of each waiter's sidecar.
async fn beat_all(store: &RedisStore) {
    for at in 0..WAITERS {
        store.beat(session(u128::from(at) + 2)).await.expect("alive");
    }
}

#[tokio::test]
async fn a_hundred_waiters_cost_two_scripts_per_release() {
    let redis = RedisServer::start();
    let mut stores = Vec::new();
    for _ in 0..10 {
        stores.push(connected(&redis.url()).await);
    }
    for (name, queueing) in [("a", Queueing::Fair), ("b", Queueing::Plain)] {
        granted(&stores[0], ask(name, 1)).await;
        let mut waiters = Vec::new();
        for at in 0..WAITERS {
            let store = &stores[usize::try_from(at % 10).expect("small")];
            let number = u128::from(at) + 2;
            let wakes = listening(store, number).await;
            let request = AcquireRequest { queueing, ..ask(name, number) };
            assert!(is_held(store, request.clone()).await);
            waiters.push(wait_for_turn(store, request, wakes));
        }
        beat_all(&stores[0]).await;
        let before = calls(&redis, "eval");
        release(&stores[0], name, 1).await;
        // A busy machine may take longer than tickets stand without that.
        let beats = AtomicU64::new(0);
        let beating = async {
            let mut rounds = tokio::time::interval(Duration::from_secs(1));
            rounds.tick().await;
            loop {
                rounds.tick().await;
                beats.fetch_add(WAITERS, Ordering::Relaxed);
                beat_all(&stores[0]).await;
            }
        };
        let tokens = tokio::select! {
            tokens = join_all(waiters) => tokens,
            () = beating => unreachable!("it goes on"),
        };
        // Of the last round some may not have been sent.
        let scripts = (calls(&redis, "eval") - before).saturating_sub(beats.load(Ordering::Relaxed));
        println!("{WAITERS} waiters, {queueing:?}: {scripts} scripts for {} releases", WAITERS + 1);
        assert!(tokens.is_sorted_by(|one, other| one < other), "in the order of their coming: {tokens:?}");
        // A release each, and the request of the one that it wakes; by its hash, then once by its text.
        assert!(scripts <= 2 * WAITERS + 2, "{scripts}");
    }
}

#[tokio::test]
async fn ten_thousand_tickets_do_not_make_a_step_longer() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    granted(&store, ask("a", 1)).await;
    let fill = "for i = tonumber(ARGV[1]), tonumber(ARGV[2]) do
        redis.call('ZADD', KEYS[1], i, string.format('%032x:%032x', ARGV[3], i))
      end";
    let fill = |from, to, session| {
        redis.command(&["EVAL", fill, "1", "baton:{locks}:queue:a", from, to, session]);
    };
    fill("1", "100", "7");
    assert!(is_held(&store, waiting("a", 2)).await);
    fill("1000", "10999", "2");
    let all = || calls(&redis, "");
    let measured = all();
    let looking = all() - measured;
    let mut steps = Vec::new();
    for (what, number) in [("plain", 3_u128), ("fair", 4), ("cancelled", 3), ("released", 1), ("overtaking", 5)] {
        let before = all();
        match what {
            "plain" => assert!(is_held(&store, AcquireRequest { queueing: Queueing::Plain, ..ask("a", number) }).await),
            "fair" => assert!(is_held(&store, waiting("a", number)).await),
            "cancelled" => store.cancel(cancelling("a", number)).await.expect("an answer"),
            "released" => release(&store, "a", number).await,
            _ => drop(acquire(&store, ask("a", number)).await),
        }
        steps.push((what, all() - before - looking));
    }
    println!("commands per step, with 10,000 tickets and before them 100 of a sidecar that is gone: {steps:?}");
    // The dead are dropped, by a look and two removals each: 16 by each that is refused, the rest by the release.
    assert!(steps.iter().all(|(what, commands)| *commands < if *what == "released" { 450 } else { 80 }), "{steps:?}");
    let insight = store.inspect(names(&["a"]).remove(0)).await.expect("an answer");
    assert_eq!(insight.waiting, 10_002, "the tickets of the dead are gone");
}

#[tokio::test]
async fn ten_thousand_names_are_forgotten_minutes_after_the_longest_lease_granted_under_them() {
    let redis = RedisServer::start();
    let store = connected(&redis.url()).await;
    let chunks = (0..10_000_u32).collect::<Vec<_>>();
    let rounds = chunks.chunks(16).enumerate().map(|(at, chunk)| {
        let names: Vec<String> = chunk.iter().map(|number| format!("{number:05}")).collect();
        let names: Vec<LockName> = names.into_iter().map(|name| LockName::new(name).expect("a good name")).collect();
        let (store, number) = (&store, at as u128 + 1);
        async move {
            let queueing = if at.is_multiple_of(2) { Queueing::Plain } else { Queueing::No };
            let request = AcquireRequest { names: names.clone(), queueing, guard: Some(ms(1)), ..ask("x", number) };
            let waits = matches!(acquire(store, request).await, AcquireReply::Guarded { .. });
            if !waits {
                store.release(LockReleaseRequest { names, ..giving_back("x", number) }).await.expect("an answer");
            }
        }
    });
    // Not all at once: the last would wait for an answer for as long as all take.
    stream::iter(rounds).buffer_unordered(16).collect::<()>().await;
    granted(&store, AcquireRequest { lease: ms(3_600_000), ..ask("long", 1) }).await;
    assert!(redis.command(&["DBSIZE"]).number() > 9_000, "most names are known");
    let lasting = "local lasting = {}
      for _, key in ipairs(redis.call('KEYS', '*')) do
        local ttl = redis.call('PTTL', key)
        if ttl < 0 or ttl > tonumber(ARGV[1]) then table.insert(lasting, key) end
      end
      table.sort(lasting)
      return lasting";
    let kept = ((LEASE + RECORD_SPAN).as_millis()).to_string();
    let lasting = redis.command(&["EVAL", lasting, "0", &kept]).texts();
    let of_all = ["baton:{locks}:floor", "baton:{locks}:lock:long", "baton:{locks}:store"];
    assert_eq!(lasting, of_all, "one as long as it may be put back, and what is one for all");
    let bytes = redis.command(&["INFO", "memory"]).text();
    let used = bytes.lines().find(|line| line.starts_with("used_memory_human")).expect("it is told");
    println!("10,000 names: {} keys, {used}", redis.command(&["DBSIZE"]).number());
}
