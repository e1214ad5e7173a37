//! What is tried on each server, on real sidecars beside apps that judge them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::time::{Duration, Instant};

use testkit::block_on;
use testkit::cluster::Cluster;
use testkit::place::Place;
use testkit::profile::{Front, Profile};
use testkit::redis::{Data, RedisServer};
use testkit::resp::Reply;
use testkit::sidecars::group::Group;
use testkit::sidecars::replica::{LEASE_KEY, Lease, Replica, Settings};
use testkit::wait::{until, until_some, until_within};

/// What one row shows: for each column nothing where it is as it should be, or why not.
pub struct Row {
    pub name: String,
    pub cells: Vec<(&'static str, Option<String>)>,
    /// Which RESP.
    pub speaks: &'static str,
    /// What `baton audit` says.
    pub audit: String,
}

/// The columns, in the order of the page.
pub const COLUMNS: [&str; 9] = [
    "elects",
    "renews",
    "hands over",
    "acknowledgements",
    "locks",
    "jobs",
    "P1: restart",
    "P1: data loss",
    "P1: failover",
];

/// Why nothing else works, either.
pub const DOES_NOT_ELECT: &str = "it does not elect";

/// Far longer than a lease and a guard.
const PATIENCE: Duration = Duration::from_secs(20);

/// Servers behind what a service refuses.
struct Store {
    front: Front,
    servers: Servers,
}

enum Servers {
    /// A master with a replica.
    Pair(Box<[RedisServer; 2]>),
    /// Three masters with a replica each.
    Cluster(Cluster),
}

impl Store {
    fn start(profile: Profile, is_cluster: bool) -> Self {
        if is_cluster {
            let cluster = block_on(Cluster::start(&[]));
            let ports: Vec<u16> = cluster.nodes.iter().map(RedisServer::port).collect();
            let front = Front::start(&Place::here(), &ports, profile);
            return Self { front, servers: Servers::Cluster(cluster) };
        }
        let master = RedisServer::start();
        let replica = RedisServer::start_with(&["--replicaof", "127.0.0.1", &master.port().to_string()]);
        until("the replica follows", || {
            replica.command(&["INFO", "replication"]).text().contains("master_link_status:up")
        });
        let front = Front::start(&Place::here(), &[master.port()], profile);
        Self { front, servers: Servers::Pair(Box::new([master, replica])) }
    }

    fn url(&self) -> String {
        match &self.servers {
            Servers::Pair(_) => self.front.url(),
            Servers::Cluster(_) => {
                let addresses = self.front.addresses();
                let others: Vec<String> = addresses[1..].iter().map(|address| format!("node={address}")).collect();
                format!("redis-cluster://{}?{}", addresses[0], others.join("&"))
            }
        }
    }

    /// The master of the lease is restarted.
    fn restart(&mut self, data: Data) {
        match &mut self.servers {
            Servers::Pair(pair) => pair[0].restart(data),
            Servers::Cluster(cluster) => {
                block_on(cluster.settled());
                let master = cluster.owners(cluster.slot_of(LEASE_KEY))[0];
                cluster.nodes[master].restart(data);
            }
        }
    }

    /// Its replica takes over, and it is gone.
    fn fail_over(&mut self) {
        match &mut self.servers {
            Servers::Pair(pair) => {
                assert_eq!(pair[1].command(&["REPLICAOF", "NO", "ONE"]), Reply::Text("OK".to_owned()));
                self.front.lead_to(pair[1].port());
                pair[0].kill();
            }
            Servers::Cluster(cluster) => {
                block_on(cluster.settled());
                let slot = cluster.slot_of(LEASE_KEY);
                let owners = cluster.owners(slot);
                let agreed = cluster.nodes[owners[1]].command(&["CLUSTER", "FAILOVER"]);
                assert_eq!(agreed, Reply::Text("OK".to_owned()));
                block_on(cluster.moved_from(owners[0], slot));
                cluster.nodes[owners[0]].kill();
            }
        }
    }

    fn settings(&self, number: usize, acks: bool) -> Settings {
        let replication = ", replication: { acks: 1, timeout: 200ms }";
        Settings {
            redis_more: if acks { replication.to_owned() } else { String::new() },
            more: "locks: { guard: 1s }\n\
                   jobs:\n  - { name: tick, schedule: '@every 1s', run: { exec: { command: ['true'] } } }\n"
                .to_owned(),
            ..Settings::new(number, self.url(), Lease::SHORT)
        }
    }
}

/// Everything about one server.
pub fn row(profile: Profile, is_cluster: bool) -> Row {
    let mut store = Store::start(profile, is_cluster);
    let replica = Replica::start(0, store.settings(0, false));
    let reason = led(&replica);
    let mut audit = self::audit(&replica);
    let works = reason.is_none();
    let mut cells = vec![reason];
    if works {
        let locks = attempt(|| lock(&replica));
        let jobs = attempt(|| {
            until_within(PATIENCE, "a run succeeds", || {
                let answer = replica.ask("GET /jobs/tick", "");
                serde_json::from_str::<serde_json::Value>(&answer.body).is_ok_and(|job| job["last_success"].is_string())
            });
        });
        cells.push(attempt(|| renews(&replica)));
        drop(replica);
        cells.push(hand_over(&store));
        let acked = Replica::start(0, store.settings(0, true));
        cells.extend([led(&acked), locks, jobs]);
        audit += &self::audit(&acked);
        drop(acked);
        cells.push(under(&mut store, |store| store.restart(Data::Kept)));
        cells.push(under(&mut store, |store| store.restart(Data::Lost)));
        cells.push(under(&mut store, Store::fail_over));
    } else {
        cells.resize(COLUMNS.len(), Some(DOES_NOT_ELECT.to_owned()));
    }
    let cells = COLUMNS.into_iter().zip(cells).collect();
    let speaks = if audit.contains("it has no RESP3") { "RESP2" } else { "RESP3" };
    let kind = if is_cluster { ", a cluster" } else { "" };
    Row { name: format!("{}{kind}", profile.name), cells, speaks, audit }
}

/// The token of its term, if it leads.
fn token(replica: &Replica) -> Option<u64> {
    let answer = replica.ask("GET /leader", "");
    let told: serde_json::Value = serde_json::from_str(&answer.body).unwrap_or_default();
    told["token"].as_u64().filter(|_| told["leader"] == true)
}

/// A term outlasts two leases.
fn renews(replica: &Replica) {
    let (mut term, mut since) = (token(replica), Instant::now());
    until_within(PATIENCE, "a term outlasts two leases", || {
        let now = token(replica);
        if now != term {
            (term, since) = (now, Instant::now());
        }
        term.is_some() && since.elapsed() > Lease::SHORT.duration() * 2
    });
}

/// Why nobody leads, if nobody comes to.
fn led(replica: &Replica) -> Option<String> {
    let mut reason = String::new();
    let begun = Instant::now();
    loop {
        let answer = replica.ask("GET /leader?wait=500ms", "");
        let told: serde_json::Value = serde_json::from_str(&answer.body).unwrap_or_default();
        if told["leader"] == true {
            return None;
        }
        if let Some(told) = told["reason"].as_str() {
            reason = told.to_owned();
        }
        // A refusal stays one; what else keeps it from leading may be a machine that is busy.
        let bound = if reason.starts_with("the store refuses") { PATIENCE } else { PATIENCE * 3 };
        if begun.elapsed() > bound {
            return Some(reason);
        }
    }
}

fn lock(replica: &Replica) {
    let (mut held, mut last) = (String::new(), String::new());
    let begun = Instant::now();
    until_some("a lock is granted", || {
        assert!(begun.elapsed() < PATIENCE, "a lock is granted, but {last}");
        let answer = replica.ask("POST /locks/orders", "{}");
        held = serde_json::from_str::<serde_json::Value>(&answer.body)
            .ok()
            .and_then(|grant| Some(grant["lock"].as_str()?.to_owned()))
            .unwrap_or_default();
        last = answer.body;
        (answer.status < 300 && !held.is_empty()).then_some(())
    });
    assert!(replica.ask("POST /locks/orders", "{}").status >= 400, "a second has it, too");
    assert_eq!(replica.ask(&format!("DELETE /locks/orders/{held}"), "").status, 204);
}

/// Two replicas under a fault, and apps that judge them: somebody leads again, and nobody led beside another.
fn under(store: &mut Store, fault: impl FnOnce(&mut Store)) -> Option<String> {
    let mut group = Group::new((), 2);
    for number in 0..2 {
        group.add(store.settings(number, false));
    }
    attempt(|| {
        group.leader();
        fault(store);
        // Its promises of before are over by then, and whoever leads has them from the server of now.
        let moment = Instant::now() + Lease::SHORT.duration();
        until_within(PATIENCE, "somebody leads again", || {
            (0..2).any(|replica| group.apps.last_after(replica, moment).is_some_and(|seen| seen.told.leader))
        });
        group.finish("compatibility", "");
    })
}

/// The leader hands over when it is asked to.
fn hand_over(store: &Store) -> Option<String> {
    let mut group = Group::new((), 2);
    for number in 0..2 {
        group.add(store.settings(number, false));
    }
    attempt(|| {
        let before = group.leader();
        let asked = group.replicas[before.who.replica].ask("POST /leader/scheduler/resign", "");
        assert!(asked.status < 300, "{}", asked.body);
        let after = group.leader_after(&before);
        assert_ne!(after.who.replica, before.who.replica, "it came back");
        group.finish("compatibility", "");
    })
}

fn attempt(what: impl FnOnce()) -> Option<String> {
    let failed = catch_unwind(AssertUnwindSafe(what)).err()?;
    Some(failed.downcast_ref::<String>().cloned().unwrap_or_else(|| "it failed".to_owned()))
}

fn audit(replica: &Replica) -> String {
    let mut command = Command::new(testkit::baton());
    let output = command.args(["audit", "--config"]).arg(&replica.config).output().expect("it runs");
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}
