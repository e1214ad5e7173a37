//! Threads that share an owner, through several sidecars, over a Redis that is stopped and started all the time.
//! Threads beside one sidecar share its lock, so they take turns by themselves, as those of one app would; sidecars
//! exclude each other. Two at once would oversell the register, and what each was promised is compared with what the
//! others were.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use testkit::redis::{Data, RedisServer};
use testkit::sidecars::http::{Answer, Connection};
use testkit::sidecars::wait::last_for;

use crate::sidecar::{GUARD, Sidecar, Store};

const SIDECARS: usize = 4;
const THREADS: usize = 100;
/// From one stop of Redis to the next.
const CYCLE: Duration = Duration::from_secs(5);
const DOWN: Duration = Duration::from_millis(700);
/// Shorter than the guard: a Redis that forgets grants must not promise them to others while they stand.
const LEASE: Duration = Duration::from_millis(1_000);
/// Nobody begins to write with less of its promise left: a machine may be busy.
const MARGIN: Duration = Duration::from_millis(300);
const SEED: u64 = 20_261_123;

/// What somebody was promised, as long as it used it.
#[derive(Clone, Copy, Debug)]
struct Promise {
    sidecar: usize,
    from: Instant,
    until: Instant,
}

struct Shop {
    /// Read and written in two steps: only the lock makes one of them.
    register: AtomicUsize,
    sold: AtomicUsize,
    /// Of the threads beside one sidecar.
    turns: [Mutex<()>; SIDECARS],
    promises: Mutex<Vec<Promise>>,
    lost: Mutex<Vec<String>>,
    closed: AtomicBool,
}

impl Shop {
    fn sell(&self, until: Instant) {
        let stock = self.register.load(Ordering::SeqCst);
        thread::yield_now();
        if Instant::now() + MARGIN < until {
            self.register.store(stock + 1, Ordering::SeqCst);
            self.sold.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// One hold of the lock: taken, extended, used, given back.
    fn buy(&self, sidecar: usize, address: SocketAddr) -> io::Result<()> {
        let mut connection = Connection::open_for(address, Duration::from_secs(30))?;
        let body = format!(r#"{{"owner":"shop","wait":"5s","lease":"{}ms"}}"#, LEASE.as_millis());
        let granted = connection.ask("POST /locks/register", &body)?;
        if granted.status != 201 {
            return Ok(());
        }
        let (from, path) = (Instant::now(), format!("/locks/register/{}", granted.json()["lock"].as_str().unwrap()));
        // The grant may have waited to be read: only half of what it says is counted on, and then an extension.
        let extended = connection.ask(&format!("PUT {path}"), "")?;
        self.note_loss(&extended, from + LEASE / 2);
        let valid = extended.header("baton-valid-for-ms").and_then(|ms| ms.parse().ok()).map(Duration::from_millis);
        let until = valid.filter(|_| extended.status == 204).map(|valid| from + valid);
        if let Some(until) = until {
            let _turn = self.turns[sidecar].lock().expect("nobody panics");
            self.sell(until);
        }
        let used = Instant::now();
        let gone = connection.ask(&format!("DELETE {path}"), "")?;
        if let Some(until) = until {
            self.note_loss(&gone, until);
            self.promises.lock().expect("nobody panics").push(Promise { sidecar, from, until: until.min(used) });
        }
        Ok(())
    }

    /// An answer that a lock is not held, although it was promised until a moment that is still to come.
    fn note_loss(&self, answer: &Answer, until: Instant) {
        if answer.status == 410 && Instant::now() < until {
            self.lost.lock().expect("nobody panics").push(format!("{answer:?}"));
        }
    }

    fn client(&self, number: usize, address: SocketAddr) {
        let mut rolls = fastrand::Rng::with_seed(SEED + number as u64);
        while !self.closed.load(Ordering::SeqCst) {
            self.buy(number % SIDECARS, address).expect("a sidecar answers, whatever its store does");
            last_for(Duration::from_millis(rolls.u64(0..2_000)));
        }
    }

    /// How often two sidecars' apps were promised the lock at once.
    fn overlaps(&self) -> Vec<(Promise, Promise)> {
        let mut promises = self.promises.lock().expect("nobody panics").clone();
        promises.sort_by_key(|promise| promise.from);
        let mut latest: [Option<Promise>; SIDECARS] = [None; SIDECARS];
        let mut found = Vec::new();
        for promise in promises {
            let others = latest.iter().flatten().filter(|other| other.sidecar != promise.sidecar);
            found.extend(others.filter(|other| promise.from < other.until).map(|other| (*other, promise)));
            let own = &mut latest[promise.sidecar];
            if own.is_none_or(|own| own.until < promise.until) {
                *own = Some(promise);
            }
        }
        found
    }
}

fn outages(lasts: Duration) {
    let mut redis = RedisServer::start();
    let sidecars = Sidecar::several(SIDECARS, &Store::of(&redis), GUARD);
    sidecars.iter().for_each(Sidecar::until_open);
    let shop = Arc::new(Shop {
        register: AtomicUsize::new(0),
        sold: AtomicUsize::new(0),
        turns: Default::default(),
        promises: Mutex::default(),
        lost: Mutex::default(),
        closed: AtomicBool::new(false),
    });
    let clients: Vec<_> = (0..THREADS)
        .map(|number| {
            let (shop, address) = (Arc::clone(&shop), sidecars[number % SIDECARS].api);
            thread::spawn(move || shop.client(number, address))
        })
        .collect();
    let (begun, mut stops) = (Instant::now(), 0);
    while begun.elapsed() < lasts {
        last_for(CYCLE - DOWN);
        // Every third time it forgets everything.
        redis.stop(if stops % 3 == 2 { Data::Lost } else { Data::Kept });
        last_for(DOWN);
        redis.start_again();
        stops += 1;
    }
    shop.closed.store(true, Ordering::SeqCst);
    clients.into_iter().for_each(|client| client.join().expect("no client panics"));
    let (sold, holds) = (shop.sold.load(Ordering::SeqCst), shop.promises.lock().expect("nobody panics").len());
    println!("{holds} holds of {THREADS} threads in {SIDECARS} sidecars, {sold} sold, {stops} stops of Redis");
    assert!(sold > stops, "it was sold");
    assert_eq!(shop.register.load(Ordering::SeqCst), sold, "the register is exact");
    assert_eq!(format!("{:?}", shop.overlaps()), "[]");
    assert_eq!(*shop.lost.lock().expect("nobody panics"), Vec::<String>::new(), "lost before their promise had ended");
}

#[test]
fn a_shared_owner_oversells_nothing_while_redis_comes_and_goes() {
    outages(Duration::from_secs(12));
}

#[test]
#[ignore = "three minutes: make chaos"]
fn minutes_of_a_shared_owner_over_a_redis_that_comes_and_goes_oversell_nothing() {
    let given = std::env::var("BATON_OUTAGES_SECONDS");
    outages(Duration::from_secs(given.map_or(180, |seconds| seconds.parse().expect("seconds"))));
}
