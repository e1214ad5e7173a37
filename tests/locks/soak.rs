//! Locks for a long time: so many requests a second, clients that vanish in every way, a Redis whose connections are
//! cut. In the end nothing is left of it, and the sidecars and Redis need no more memory than near the beginning.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use testkit::redis::RedisServer;
use testkit::sidecars::http::Connection;
use testkit::wait::{last_for, until};

use crate::http::hold;
use crate::sidecar::{GUARD, Sidecar, Store};

const SIDECARS: usize = 3;
const CLIENTS: u64 = 64;
/// From here on memory is compared with what it was, or from a third of the time on: buffers and tables have had the
/// time to grow, and Redis to forget the first names.
const WARM: Duration = Duration::from_secs(60);
const SEED: u64 = 20_261_121;

/// How much of it.
#[derive(Clone, Copy)]
struct Load {
    /// How long it lasts.
    lasts: Duration,
    /// How many requests there are in a second.
    rate: u32,
    names: usize,
}

/// What all clients share.
#[derive(Default)]
struct Tally {
    asked: AtomicU64,
    granted: AtomicU64,
    refused: AtomicU64,
    vanished: AtomicU64,
}

impl Tally {
    fn count(&self, granted: bool) {
        let which = if granted { &self.granted } else { &self.refused };
        which.fetch_add(1, Ordering::Relaxed);
    }
}

/// One request for a lock, and what an app may do then.
fn ask(address: SocketAddr, names: usize, rolls: &mut fastrand::Rng, tally: &Tally) -> io::Result<()> {
    let (name, fair) = (rolls.usize(..names), rolls.bool());
    match rolls.u8(..20) {
        // The lock is used and given back.
        0..8 => {
            let mut connection = Connection::open(address)?;
            let body = format!(r#"{{"wait":"2s","lease":"5s","fair":{fair}}}"#);
            let answer = connection.ask(&format!("POST /locks/soak-{name}"), &body)?;
            tally.count(answer.status == 201);
            if answer.status == 201 {
                let line = format!("DELETE /locks/soak-{name}/{}", answer.json()["lock"].as_str().expect("an id"));
                connection.ask(&line, "")?;
            }
        }
        // Several at once, and two of them may be another's one.
        8..10 => {
            let mut connection = Connection::open(address)?;
            let other = (name + 1) % names;
            let body = format!(r#"{{"names":["soak-{name}","soak-{other}"],"wait":"2s","lease":"300ms"}}"#);
            tally.count(connection.ask("POST /locks", &body)?.status == 201);
        }
        // The client is gone after its grant.
        10..13 => {
            let mut connection = Connection::open(address)?;
            let body = format!(r#"{{"wait":"2s","lease":"300ms","fair":{fair}}}"#);
            tally.count(connection.ask(&format!("POST /locks/soak-{name}"), &body)?.status == 201);
        }
        // The connection that holds it is cut.
        13..17 => {
            let held = hold(address, &format!("soak-{name}"), &format!("wait=2s&lease=1s&fair={fair}"))?;
            tally.count(held.is_ok());
            last_for(Duration::from_millis(rolls.u64(..40)));
        }
        // The client is gone before its grant, as a rule.
        _ => {
            let mut connection = Connection::open(address)?;
            let body = format!(r#"{{"wait":"1m","lease":"300ms","fair":{fair}}}"#);
            connection.send(&format!("POST /locks/soak-{name}"), &body)?;
            last_for(Duration::from_millis(rolls.u64(..30)));
            tally.vanished.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(())
}

fn client(addresses: &[SocketAddr], number: u64, begun: Instant, load: Load, tally: &Tally) {
    let mut rolls = fastrand::Rng::with_seed(SEED + number);
    loop {
        let turn = tally.asked.fetch_add(1, Ordering::Relaxed);
        let due = Duration::from_secs(1) * u32::try_from(turn).expect("a soak is not that long") / load.rate;
        // A machine that is too busy for the pace asks for less, and not for longer.
        last_for(due.saturating_sub(begun.elapsed()));
        if begun.elapsed() >= load.lasts {
            return;
        }
        let address = rolls.choice(addresses).expect("there are sidecars");
        ask(*address, load.names, &mut rolls, tally).expect("a sidecar answers, whatever its store does");
    }
}

/// Cuts connections to Redis, or lets it stand still.
fn disturb(redis: &RedisServer, rolls: &mut fastrand::Rng) {
    let kill = |kind: &str| drop(redis.command(&["CLIENT", "KILL", "TYPE", kind]));
    match rolls.u8(..4) {
        0 => kill("normal"),
        1 => kill("pubsub"),
        2 => {
            kill("pubsub");
            kill("normal");
        }
        _ => {
            redis.pause();
            last_for(Duration::from_millis(rolls.u64(100..700)));
            redis.resume();
        }
    }
}

/// What the sidecars need, and Redis, in KiB.
fn memory(sidecars: &[Sidecar], redis: &RedisServer) -> Vec<u64> {
    let resident = sidecars.iter().map(|sidecar| sidecar.metric("process_resident_memory_bytes") as u64 / 1_024);
    let told = redis.command(&["INFO", "memory"]).text();
    let used = told.lines().find_map(|line| line.strip_prefix("used_memory:")).expect("Redis tells it");
    resident.chain([used.trim().parse::<u64>().expect("a number") / 1_024]).collect()
}

fn assert_nothing_is_left(names: usize, sidecars: &[Sidecar], redis: &RedisServer) {
    for name in 0..names {
        sidecars[0].until_like(&format!("soak-{name}"), 0, 0);
    }
    for sidecar in sidecars {
        until("no lock is held and nobody waits", || {
            ["held", "waiting"].iter().all(|what| sidecar.metric(&format!("baton_locks_{what}")) == 0.0)
        });
    }
    for queue in ["queue", "fair"] {
        until("there is no ticket in Redis", || {
            redis.command(&["KEYS", &format!("baton:{{locks}}:{queue}:*")]).texts().is_empty()
        });
    }
}

fn soak(load: Load) {
    let lasts = load.lasts;
    let redis = RedisServer::start();
    let sidecars = Sidecar::several(SIDECARS, &Store::of(&redis), GUARD);
    sidecars.iter().for_each(Sidecar::until_open);
    let addresses: Arc<[SocketAddr]> = sidecars.iter().map(|sidecar| sidecar.api).collect();
    let (tally, begun) = (Arc::new(Tally::default()), Instant::now());
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let (addresses, tally) = (Arc::clone(&addresses), Arc::clone(&tally));
            thread::spawn(move || client(&addresses, number, begun, load, &tally))
        })
        .collect();

    let mut rolls = fastrand::Rng::with_seed(SEED);
    let (mut samples, mut disturbed, mut sampled_at) = (Vec::new(), 0, Duration::ZERO);
    while begun.elapsed() < lasts {
        let pause = Duration::from_millis(rolls.u64(500..2_000)).max(lasts / 100 * rolls.u32(1..4));
        last_for(pause.min(lasts.saturating_sub(begun.elapsed())));
        disturb(&redis, &mut rolls);
        disturbed += 1;
        if begun.elapsed() > sampled_at {
            sampled_at = begun.elapsed() + Duration::from_secs(10);
            samples.push((begun.elapsed(), memory(&sidecars, &redis)));
        }
    }
    clients.into_iter().for_each(|client| client.join().expect("no client panics"));
    assert_nothing_is_left(load.names, &sidecars, &redis);

    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let (granted, refused, vanished) = (count(&tally.granted), count(&tally.refused), count(&tally.vanished));
    let second = (granted + refused + vanished) / lasts.as_secs().max(1);
    println!(
        "{second} requests a second for {lasts:?}: {granted} granted, {refused} refused, {vanished} vanished; \
         {disturbed} disturbances of Redis"
    );
    samples.push((begun.elapsed(), memory(&sidecars, &redis)));
    for (at, kib) in &samples {
        println!("memory after {:>3} s: {kib:?} KiB", at.as_secs());
    }
    assert!(granted > refused, "it was locks that were taken");
    let warm: Vec<_> = samples.iter().filter(|(at, _)| *at >= WARM.max(lasts / 3)).collect();
    if let (Some((_, first)), Some((_, last))) = (warm.first(), warm.last()) {
        for (first, last) in first.iter().zip(last) {
            assert!(*last <= first + first / 4 + 4_096, "it grew from {first} to {last} KiB");
        }
    }
}

#[test]
fn a_few_seconds_of_clients_that_vanish_and_connections_that_are_cut_leave_nothing_behind() {
    soak(Load { lasts: Duration::from_secs(4), rate: 200, names: 100 });
}

#[test]
#[ignore = "ten minutes: make chaos"]
fn ten_minutes_of_clients_that_vanish_and_connections_that_are_cut_leave_nothing_behind() {
    let given = |name, usual| std::env::var(name).map_or(usual, |number| number.parse().expect("a number"));
    let lasts = Duration::from_secs(given("BATON_SOAK_SECONDS", 600));
    let rate = u32::try_from(given("BATON_SOAK_RATE", 200)).expect("a number of requests");
    soak(Load { lasts, rate, names: usize::try_from(given("BATON_SOAK_NAMES", 100)).expect("a number of names") });
}
