//! A role split over shards, on real sidecars and a real Redis: spread evenly, moved when a replica dies, at most one
//! owner each. Every answer about every shard is judged.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde::Deserialize;
use testkit::redis::RedisServer;
use testkit::resp;
use testkit::sidecars::claims::{Claim, Who, breaches};
use testkit::sidecars::http::Connection;
use testkit::sidecars::replica::{Lease, Replica, Settings};
use testkit::wait::{Ending, SLACK, holds_for, last_for, until};

const SHARDS: usize = 12;
/// An entry of `GET /roles`.
#[derive(Deserialize)]
struct Told {
    role: String,
    leader: bool,
    token: Option<u64>,
    valid_for_ms: Option<u64>,
}

#[derive(Default)]
struct Journal {
    targets: Vec<Option<(Who, SocketAddr)>>,
    claims: BTreeMap<String, Vec<Claim>>,
}

/// The apps: each asks its sidecar for all roles, again and again.
struct Watchers {
    journal: Arc<Mutex<Journal>>,
    ending: Arc<Ending>,
    threads: Vec<JoinHandle<()>>,
    origin: Instant,
}

fn lock(journal: &Mutex<Journal>) -> MutexGuard<'_, Journal> {
    journal.lock().unwrap_or_else(PoisonError::into_inner)
}

fn watch(replica: usize, journal: &Mutex<Journal>, ending: &Ending) {
    let mut kept: Option<(Who, Connection)> = None;
    while !ending.within(Duration::from_millis(10)) {
        let target = lock(journal).targets[replica];
        if let Some((who, address)) = target {
            if kept.as_ref().is_none_or(|(known, _)| *known != who) {
                kept = Connection::open(address).ok().map(|connection| (who, connection));
            }
            let asked = Instant::now();
            let answer = kept.as_mut().and_then(|(_, connection)| connection.ask("GET /roles", "").ok());
            let read = Instant::now();
            match answer {
                Some(answer) => note(who, asked, read, &answer.body, journal),
                // It was killed, or has ended.
                None => kept = None,
            }
        }
    }
}

fn note(who: Who, asked: Instant, read: Instant, body: &str, journal: &Mutex<Journal>) {
    let roles: Vec<Told> = serde_json::from_str(body).expect("an array of roles");
    let mut journal = lock(journal);
    for told in roles.into_iter().filter(|told| told.leader) {
        let (token, ms) = (told.token.expect("a token"), told.valid_for_ms.expect("an expiry"));
        let claim = Claim::new(who, token, asked, read, Duration::from_millis(ms));
        journal.claims.entry(told.role).or_default().extend(claim);
    }
}

impl Watchers {
    fn start(replicas: usize) -> Self {
        let journal = Arc::new(Mutex::new(Journal { targets: vec![None; replicas], ..Journal::default() }));
        let ending = Arc::new(Ending::default());
        let watcher = |replica| {
            let (journal, ending) = (Arc::clone(&journal), Arc::clone(&ending));
            thread::spawn(move || watch(replica, &journal, &ending))
        };
        Self { threads: (0..replicas).map(watcher).collect(), journal, ending, origin: Instant::now() }
    }

    fn ask_at(&self, replica: &Replica) {
        lock(&self.journal).targets[replica.who().replica] = Some((replica.who(), replica.api()));
    }

    /// How many shards each replica leads at this moment, by answers that still stand; those that lead none left out.
    fn spread(&self) -> Vec<(usize, usize)> {
        let (journal, now) = (lock(&self.journal), Instant::now());
        let mut spread: BTreeMap<usize, usize> = BTreeMap::new();
        for claims in journal.claims.values() {
            let last = claims.iter().rev().take(200).find(|claim| claim.until > now);
            if let Some(claim) = last {
                *spread.entry(claim.who.replica).or_default() += 1;
            }
        }
        spread.into_iter().collect()
    }

    /// How many terms of all shards were seen so far.
    fn terms(&self) -> usize {
        let journal = lock(&self.journal);
        let tokens = |claims: &Vec<Claim>| {
            let mut tokens: Vec<u64> = claims.iter().map(|claim| claim.token).collect();
            tokens.sort_unstable();
            tokens.dedup();
            tokens.len()
        };
        journal.claims.values().map(tokens).sum()
    }

    fn wait_spread(&self, what: &str, wanted: &[(usize, usize)]) -> Duration {
        let begun = Instant::now();
        let mut last = Vec::new();
        until(&format!("{what}: {wanted:?}"), || {
            let now = self.spread();
            if now != last {
                eprintln!("{:>6} ms {what}: {now:?}", self.origin.elapsed().as_millis());
                last.clone_from(&now);
            }
            last == wanted
        });
        begun.elapsed()
    }

    /// Ends, and judges every answer.
    fn finish(mut self, scenario: &str, measured: &str) {
        self.ending.tell();
        for thread in self.threads.drain(..) {
            thread.join().expect("a watcher panicked");
        }
        let mut journal = lock(&self.journal);
        assert_eq!(journal.claims.len(), SHARDS, "shards that were never led");
        let (mut answers, mut found) = (0, Vec::new());
        for (shard, claims) in &mut journal.claims {
            claims.sort_by_key(|claim| claim.from);
            answers += claims.len();
            found.extend(breaches(claims, self.origin).into_iter().map(|breach| format!("{shard}: {breach}")));
        }
        assert!(found.is_empty(), "{} breaches: {}", found.len(), found[..found.len().min(10)].join("\n"));
        drop(journal);
        println!("{scenario}: {measured}{answers} claims, {} terms", self.terms());
    }
}

impl Drop for Watchers {
    fn drop(&mut self) {
        self.ending.tell();
    }
}

/// Of each shard.
const STOCK: u64 = 40;
/// What an app must have left of a promise to begin a sale.
const MARGIN: Duration = Duration::from_millis(100);

/// A sale of one piece, as the app read the stock a moment ago: refused to a smaller token than one that has written.
const SELL: &str = "local seen = tonumber(redis.call('GET', KEYS[1]) or '0') \
    if tonumber(ARGV[1]) < seen then return 0 end \
    redis.call('SET', KEYS[1], ARGV[1]) redis.call('SET', KEYS[2], ARGV[2]) return redis.call('INCR', KEYS[3])";

/// Sells one piece of each shard that this sidecar leads. False when it does not answer.
fn sell_round(connection: &mut Connection, redis: &mut resp::Connection) -> bool {
    let asked = Instant::now();
    let Ok(answer) = connection.ask("GET /roles", "") else { return false };
    let roles: Vec<Told> = serde_json::from_str(&answer.body).expect("an array of roles");
    for told in roles.into_iter().filter(|told| told.leader) {
        let until = asked + Duration::from_millis(told.valid_for_ms.expect("an expiry"));
        let [fence, left, sold] = ["fence", "left", "sold"].map(|what| format!("{what}:{}", told.role));
        let stock: u64 = redis.command(&["GET", &left]).expect("Redis answers").text().parse().expect("a number");
        // What an app does in between: long enough for another owner, if there were one, to read the same.
        last_for(Duration::from_millis(2));
        if stock > 0 && Instant::now() + MARGIN < until {
            let (token, rest) = (told.token.expect("a token").to_string(), (stock - 1).to_string());
            redis.command(&["EVAL", SELL, "3", &fence, &left, &sold, &token, &rest]).expect("Redis answers");
        }
    }
    true
}

#[test]
fn stock_that_is_split_over_shards_is_sold_once_while_replicas_are_killed() {
    let (redis, lease) = (RedisServer::start(), Lease::SHORT);
    let shards: Vec<String> = (0..SHARDS).map(|shard| format!("stock/{shard}")).collect();
    for shard in &shards {
        redis.command(&["MSET", &format!("left:{shard}"), &STOCK.to_string(), &format!("sold:{shard}"), "0"]);
    }
    let mut replicas: Vec<Replica> =
        (0..3).map(|number| Replica::start(number, settings(number, &redis, lease))).collect();
    let targets = Arc::new(Mutex::new(replicas.iter().map(|replica| Some(replica.api())).collect::<Vec<_>>()));
    let target = |replica: usize| targets.lock().unwrap_or_else(PoisonError::into_inner)[replica];
    let sum = |what: &str| {
        let count =
            |shard| redis.command(&["GET", &format!("{what}:{shard}")]).text().parse::<u64>().expect("a number");
        shards.iter().map(count).sum::<u64>()
    };
    let all = STOCK * SHARDS as u64;
    let over = Ending::default();
    thread::scope(|scope| {
        for replica in 0..3 {
            let mut redis = redis.connect().expect("Redis answers");
            let (target, over) = (&target, &over);
            scope.spawn(move || {
                let mut kept: Option<(SocketAddr, Connection)> = None;
                while !over.within(Duration::from_millis(40)) {
                    let at = target(replica);
                    if kept.as_ref().map(|(address, _)| *address) != at {
                        kept = at.and_then(|at| Connection::open(at).ok().map(|connection| (at, connection)));
                    }
                    if kept.as_mut().is_some_and(|(_, connection)| !sell_round(connection, &mut redis)) {
                        kept = None;
                    }
                }
            });
        }
        // However this ends, the apps end with it.
        let ends = EndsAtDrop(&over);
        for (victim, share) in [(0, 5), (1, 3), (2, 2)] {
            until("a share of the stock is sold", || sum("sold") >= all / share);
            replicas[victim].kill();
            replicas[victim].start_again();
            let address = replicas[victim].api();
            targets.lock().unwrap_or_else(PoisonError::into_inner)[victim] = Some(address);
        }
        until("all is sold", || sum("left") == 0);
        drop(ends);
    });
    replicas.iter_mut().for_each(Replica::kill);
    for shard in &shards {
        let sold = redis.command(&["GET", &format!("sold:{shard}")]).text().parse::<u64>().expect("a number");
        assert_eq!(sold, STOCK, "{shard} was sold {} times too often", sold.abs_diff(STOCK));
    }
}

/// Tells the apps to end, also when a check has failed.
struct EndsAtDrop<'a>(&'a Ending);

impl Drop for EndsAtDrop<'_> {
    fn drop(&mut self) {
        self.0.tell();
    }
}

fn settings(number: usize, redis: &RedisServer, lease: Lease) -> Settings {
    let roles = lease.role("stock", &format!(", shards: {SHARDS}"));
    Settings { roles, ..Settings::new(number, redis.url(), lease) }
}

/// Whether a shard of this replica stays as it is for a while, by the terms that its app sees.
fn stays_at_rest(watchers: &Watchers, lease: Lease) {
    let before = watchers.terms();
    holds_for(lease.duration() * 3 / 2, "shards that are spread evenly stay", || watchers.terms() == before);
}

#[test]
fn twelve_shards_are_spread_over_three_replicas_and_move_when_one_dies_and_comes_back() {
    // Long enough that only a death ends a term: each move is counted.
    let (redis, lease) = (RedisServer::start(), Lease::LONG);
    let watchers = Watchers::start(3);
    let start = |number| {
        let replica = Replica::start(number, settings(number, &redis, lease));
        watchers.ask_at(&replica);
        replica
    };
    // One first, which must lead all of them: no shard waits for replicas that are not there.
    let mut replicas = vec![start(0)];
    watchers.wait_spread("one alone", &[(0, 12)]);
    replicas.extend([start(1), start(2)]);
    let joined = watchers.wait_spread("three", &[(0, 4), (1, 4), (2, 4)]);
    assert_eq!(watchers.terms(), SHARDS + 8, "each shard that had to move moved once");
    stays_at_rest(&watchers, lease);

    let killed_at = Instant::now();
    replicas[1].kill();
    // The answers of the killed one stand until they expire: wait for the survivors' shares.
    watchers.wait_spread("two are left", &[(0, 6), (2, 6)]);
    let killed = killed_at.elapsed();
    assert!(killed < lease.duration() + SLACK, "it took {killed:?}");
    assert_eq!(watchers.terms(), SHARDS + 8 + 4, "only the dead replica's shards moved");

    replicas[1].start_again();
    watchers.ask_at(&replicas[1]);
    let back = watchers.wait_spread("it is back", &[(0, 4), (1, 4), (2, 4)]);
    assert_eq!(watchers.terms(), SHARDS + 8 + 4 + 4);
    stays_at_rest(&watchers, lease);

    let one = replicas[0].metric("baton_leader", &[("role", "stock/11")]);
    assert!(one.is_some(), "every shard has its series");
    let led: f64 = (0..SHARDS)
        .filter_map(|shard| replicas[0].metric("baton_leader", &[("role", &format!("stock/{shard}"))]))
        .sum();
    assert_eq!(led, 4.0);
    let handed = (0..SHARDS).filter_map(|shard| {
        let role = format!("stock/{shard}");
        replicas[0].metric("baton_releases_total", &[("role", &role), ("reason", "balanced")])
    });
    // Eight when two joined, two when one came back. A release whose answer is late is not counted.
    let handed = handed.sum::<f64>();
    assert!((1.0..=10.0).contains(&handed), "{handed}");
    replicas.iter_mut().for_each(Replica::kill);
    let ms = |span: Duration| span.as_millis();
    watchers
        .finish("12 shards", &format!("joined in {} ms, killed {} ms, back {} ms, ", ms(joined), ms(killed), ms(back)));
}
