//! The oversell case: read a plain counter, write it back one higher, under a lock. Two at once would lose a count.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use testkit::redis::RedisServer;
use testkit::resp;
use testkit::sidecars::http::Connection;
use testkit::wait::{last_for, until_within};

use crate::http::hold;
use crate::sidecar::{GUARD, Sidecar, Store};

const SIDECARS: usize = 10;
const CLIENTS: usize = 100;
const INCREMENTS: usize = 1_000;
/// Longer than the longest run takes.
const ENDS: Duration = Duration::from_secs(3_600);
/// Nobody begins to write with less of its promise left: a machine may be busy.
const MARGIN: Duration = Duration::from_secs(2);
const COUNTER: &str = "stock";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Plain,
    Fair,
    Held,
}

/// When sidecars are killed. Each is started again.
#[derive(Clone, Copy, Debug)]
enum Kills {
    Never,
    /// One every second, so many times.
    EverySecond(usize),
    /// As many, each after the same number of increments.
    Spread(usize),
}

/// What all clients share.
struct Shop {
    addresses: Mutex<Vec<SocketAddr>>,
    redis_port: u16,
    /// How many increments are left to be done.
    left: AtomicUsize,
}

impl Shop {
    fn address(&self, client: usize) -> SocketAddr {
        let addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        addresses[client % addresses.len()]
    }

    /// Takes one of the increments that are left.
    fn claim(&self) -> bool {
        self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
    }
}

/// Reads, and writes one more, unless the promise ends first. True when it was written.
fn increment(redis: &mut resp::Connection, until: Instant) -> bool {
    let count: usize = redis.command(&["GET", COUNTER]).expect("Redis answers").text().parse().expect("a number");
    // What an app does in between.
    thread::yield_now();
    if Instant::now() + MARGIN > until {
        return false;
    }
    redis.command(&["SET", COUNTER, &(count + 1).to_string()]).expect("Redis answers");
    true
}

/// One increment under the lock; an error or false when there was none, and it is to be tried again.
fn buy(shop: &Shop, client: usize, way: Way, redis: &mut resp::Connection) -> io::Result<bool> {
    let address = shop.address(client);
    let ms = |value: Option<u64>| Duration::from_millis(value.unwrap_or(0));
    if way == Way::Held {
        let Ok((connection, grant)) = hold(address, "counter", "wait=1m")? else { return Ok(false) };
        // The line may have waited to be read: only half of what it says is counted on.
        let until = Instant::now() + ms(grant["valid_for_ms"].as_u64()) / 2 + MARGIN / 2;
        let done = increment(redis, until);
        drop(connection);
        return Ok(done);
    }
    let mut connection = Connection::open(address)?;
    let body = if way == Way::Fair { r#"{"wait":"1m","fair":true}"# } else { r#"{"wait":"1m"}"# };
    let answer = connection.ask("POST /locks/counter", body)?;
    if answer.status != 201 {
        return Ok(false);
    }
    let path = format!("/locks/counter/{}", answer.json()["lock"].as_str().expect("an id"));
    // Having waited, it counts from an extension.
    let asked = Instant::now();
    let extended = connection.ask(&format!("PUT {path}"), "")?;
    let valid = extended.header("baton-valid-for-ms").and_then(|ms| ms.parse().ok());
    let done = extended.status == 204 && increment(redis, asked + ms(valid));
    // Whatever becomes of the release, what was written is written.
    let _ = connection.ask(&format!("DELETE {path}"), "");
    Ok(done)
}

fn kill(sidecars: &mut [Sidecar], shop: &Shop, number: usize) {
    let victim = (number * 7) % SIDECARS;
    sidecars[victim].start_again();
    shop.addresses.lock().unwrap_or_else(PoisonError::into_inner)[victim] = sidecars[victim].api;
}

fn shop(ways: &'static [Way], kills: Kills, increments: usize) {
    let redis = RedisServer::start();
    let mut sidecars = Sidecar::several(SIDECARS, &Store::of(&redis), GUARD);
    sidecars.iter().for_each(Sidecar::until_open);
    redis.command(&["SET", COUNTER, "0"]);
    let shop = Arc::new(Shop {
        addresses: Mutex::new(sidecars.iter().map(|sidecar| sidecar.api).collect()),
        redis_port: redis.port(),
        left: AtomicUsize::new(increments),
    });
    let begun = Instant::now();
    let failures = Arc::new(AtomicUsize::new(0));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let (shop, failures) = (Arc::clone(&shop), Arc::clone(&failures));
            let way = ways[client % ways.len()];
            thread::spawn(move || {
                let mut redis = resp::Connection::open(shop.redis_port).expect("Redis is there");
                while shop.claim() {
                    until_within(ENDS, "an increment is made", || {
                        let done = buy(&shop, client, way, &mut redis).unwrap_or(false);
                        failures.fetch_add(usize::from(!done), Ordering::SeqCst);
                        done
                    });
                }
            })
        })
        .collect();
    match kills {
        Kills::Never => {}
        Kills::EverySecond(count) => (0..count).for_each(|number| {
            last_for(Duration::from_secs(1));
            kill(&mut sidecars, &shop, number);
        }),
        Kills::Spread(count) => (0..count).for_each(|number| {
            let share = increments / (count + 1);
            let left = increments - share * (number + 1);
            until_within(ENDS, "another share is sold", || shop.left.load(Ordering::SeqCst) <= left);
            kill(&mut sidecars, &shop, number);
        }),
    }
    clients.into_iter().for_each(|client| client.join().expect("no client panics"));
    assert_eq!(redis.command(&["GET", COUNTER]).text(), increments.to_string());
    sidecars[0].until_like("counter", 0, 0);
    let (took, failures) = (begun.elapsed(), failures.load(Ordering::SeqCst));
    println!("{ways:?}, {kills:?}: {increments} in {} ms, {failures} tried again", took.as_millis());
}

#[test]
fn a_thousand_increments_under_plain_locks_are_a_thousand() {
    shop(&[Way::Plain], Kills::Never, INCREMENTS);
}

#[test]
fn a_thousand_increments_under_fair_locks_are_a_thousand() {
    shop(&[Way::Fair], Kills::Never, INCREMENTS);
}

#[test]
fn a_thousand_increments_under_held_locks_are_a_thousand() {
    shop(&[Way::Held], Kills::Never, INCREMENTS);
}

#[test]
fn a_thousand_increments_are_a_thousand_while_sidecars_are_killed() {
    shop(&[Way::Plain, Way::Fair, Way::Held], Kills::EverySecond(5), INCREMENTS);
}

#[test]
#[ignore = "some minutes: make chaos"]
fn a_hundred_thousand_increments_are_a_hundred_thousand_while_sidecars_are_killed() {
    let given = std::env::var("BATON_OVERSELL_INCREMENTS");
    let increments = given.map_or(100_000, |count| count.parse().expect("a number"));
    shop(&[Way::Plain, Way::Fair, Way::Held], Kills::Spread(9), increments);
}
