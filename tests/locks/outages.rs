//! Threads that share an owner, through several sidecars, over a Redis that is stopped and started all the time.
//! Threads beside one sidecar share its lock, so they take turns by themselves, as those of one app would; sidecars
//! exclude each other. Two at once would oversell the register, and what each was promised is compared with what the
//! others were.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use testkit::redis::{Data, RedisServer};
use testkit::sidecars::http::{Answer, Connection};
use testkit::wait::{last_for, until};

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
/// No sidecar waits longer for its turn.
const PATIENCE: Duration = Duration::from_secs(60);

/// What somebody was promised, as long as it used it.
#[derive(Clone, Copy, Debug)]
struct Promise {
    sidecar: usize,
    from: Instant,
    until: Instant,
}

/// What was sold so far.
#[derive(Default)]
struct Sales {
    count: usize,
    /// Beside which sidecar the last was sold.
    last: Option<usize>,
    closed: bool,
}

struct Shop {
    /// Read and written in two steps: only the lock makes one of them.
    register: AtomicUsize,
    sales: Mutex<Sales>,
    news: Condvar,
    /// Of the threads beside one sidecar.
    turns: [Mutex<()>; SIDECARS],
    promises: Mutex<Vec<Promise>>,
    lost: Mutex<Vec<String>>,
}

impl Shop {
    fn sales(&self) -> MutexGuard<'_, Sales> {
        self.sales.lock().expect("nobody panics")
    }

    fn sell(&self, sidecar: usize, until: Instant) {
        let stock = self.register.load(Ordering::SeqCst);
        thread::yield_now();
        if Instant::now() + MARGIN < until {
            self.register.store(stock + 1, Ordering::SeqCst);
            let mut sales = self.sales();
            (sales.count, sales.last) = (sales.count + 1, Some(sidecar));
            self.news.notify_all();
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
        self.note_loss(&format!("PUT {path}"), &extended, from + LEASE / 2);
        let valid = extended.header("baton-valid-for-ms").and_then(|ms| ms.parse().ok()).map(Duration::from_millis);
        let until = valid.filter(|_| extended.status == 204).map(|valid| from + valid);
        if let Some(until) = until {
            let _turn = self.turns[sidecar].lock().expect("nobody panics");
            self.sell(sidecar, until);
        }
        let used = Instant::now();
        let gone = connection.ask(&format!("DELETE {path}"), "")?;
        if let Some(until) = until {
            self.note_loss(&format!("DELETE {path}"), &gone, until);
            self.promises.lock().expect("nobody panics").push(Promise { sidecar, from, until: until.min(used) });
        }
        Ok(())
    }

    /// An answer that a lock is not held, although it was promised until a moment that is still to come.
    fn note_loss(&self, what: &str, answer: &Answer, until: Instant) {
        if answer.status == 410 && Instant::now() < until {
            let left = until - Instant::now();
            self.lost.lock().expect("nobody panics").push(format!("{what}, {left:?} before its end: {answer:?}"));
        }
    }

    /// Buys, and then leaves the lock to those beside other sidecars, until the shop is closed.
    fn client(&self, sidecar: usize, address: SocketAddr) {
        while !self.sales().closed {
            self.buy(sidecar, address).expect("a sidecar answers, whatever its store does");
            let is_ours = |sales: &mut Sales| !sales.closed && sales.last == Some(sidecar);
            let waited = self.news.wait_timeout_while(self.sales(), PATIENCE, is_ours).expect("nobody panics").1;
            assert!(!waited.timed_out(), "nothing is sold beside another sidecar");
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
        sales: Mutex::default(),
        news: Condvar::new(),
        turns: Default::default(),
        promises: Mutex::default(),
        lost: Mutex::default(),
    });
    let clients: Vec<_> = (0..THREADS)
        .map(|number| {
            let (shop, sidecar) = (Arc::clone(&shop), number % SIDECARS);
            let address = sidecars[sidecar].api;
            thread::spawn(move || shop.client(sidecar, address))
        })
        .collect();
    let (begun, mut stops) = (Instant::now(), 0_u32);
    while begun.elapsed() < lasts {
        let (before, due) = (shop.sales().count, CYCLE * (stops + 1) - DOWN);
        until("it is sold again, and the next stop is due", || {
            shop.sales().count > before + THREADS && begun.elapsed() >= due
        });
        // Every third time it forgets everything.
        redis.stop(if stops % 3 == 2 { Data::Lost } else { Data::Kept });
        last_for(DOWN);
        redis.start_again();
        stops += 1;
    }
    shop.sales().closed = true;
    shop.news.notify_all();
    clients.into_iter().for_each(|client| client.join().expect("no client panics"));
    let (sold, holds) = (shop.sales().count, shop.promises.lock().expect("nobody panics").len());
    println!("{holds} holds of {THREADS} threads in {SIDECARS} sidecars, {sold} sold, {stops} stops of Redis");
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
