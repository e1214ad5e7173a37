//! What is tried on each server, on real sidecars beside apps that judge them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::time::{Duration, Instant};

use testkit::profile::{Profile, Profiled};
use testkit::redis::{Data, RedisServer};
use testkit::resp::Reply;
use testkit::sidecars::group::Group;
use testkit::sidecars::replica::{Lease, Replica, Settings};
use testkit::sidecars::wait::{last_for, until, until_some, until_within};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// What one row shows: for each column nothing where it is as it should be, or why not.
pub struct Row {
    pub name: String,
    pub cells: Vec<(&'static str, Option<String>)>,
    /// What `baton audit` says.
    pub audit: String,
}

/// The columns, in the order of the page.
pub const COLUMNS: [&str; 8] =
    ["elects", "hands over", "acknowledgements", "locks", "jobs", "P1: restart", "P1: data loss", "P1: failover"];

/// Far longer than a lease and a guard.
const PATIENCE: Duration = Duration::from_secs(20);

/// A master with a replica, behind what a service refuses.
struct Servers {
    proxy: Profiled,
    master: RedisServer,
    replica: RedisServer,
    /// Serves the proxy's connections.
    _runtime: Background,
}

/// A runtime on a thread of its own. Ends when dropped.
struct Background {
    handle: Handle,
    end: Option<oneshot::Sender<()>>,
}

impl Background {
    fn start() -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let (end, ended) = oneshot::channel();
        let handle = runtime.handle().clone();
        // It ends when nobody can tell it to any more.
        std::thread::spawn(move || runtime.block_on(ended));
        Self { handle, end: Some(end) }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.end.take();
    }
}

impl Servers {
    fn start(profile: Profile) -> Self {
        let master = RedisServer::start();
        let replica = RedisServer::start_with(&["--replicaof", "127.0.0.1", &master.port().to_string()]);
        until("the replica follows", || {
            replica.command(&["INFO", "replication"]).text().contains("master_link_status:up")
        });
        let runtime = Background::start();
        let proxy = runtime.handle.block_on(Profiled::start(master.port(), profile));
        Self { proxy, master, replica, _runtime: runtime }
    }

    fn settings(&self, number: usize, acks: bool) -> Settings {
        let replication = ", replication: { acks: 1, timeout: 200ms }";
        Settings {
            redis_more: if acks { replication.to_owned() } else { String::new() },
            more: "locks: { guard: 1s }\n\
                   jobs:\n  - { name: tick, schedule: '@every 1s', run: { exec: { command: ['true'] } } }\n"
                .to_owned(),
            ..Settings::new(number, self.proxy.url(), Lease::SHORT)
        }
    }
}

/// Everything about one server.
pub fn row(profile: Profile) -> Row {
    let mut servers = Servers::start(profile);
    let mut cells = Vec::new();
    let mut replica = Replica::start(0, servers.settings(0, false));
    let reason = led(&replica);
    let mut audit = self::audit(&replica);
    let works = reason.is_none();
    cells.push(reason);
    if works {
        let locks = attempt(|| lock(&replica));
        let jobs = attempt(|| {
            until_within(PATIENCE, "a run succeeds", || {
                let answer = replica.ask("GET /jobs/tick", "");
                serde_json::from_str::<serde_json::Value>(&answer.body).is_ok_and(|job| job["last_success"].is_string())
            });
        });
        replica.kill();
        cells.push(hand_over(&servers));
        let acked = Replica::start(0, servers.settings(0, true));
        cells.extend([led(&acked), locks, jobs]);
        audit += &self::audit(&acked);
        drop(acked);
        cells.push(under(&mut servers, |servers| servers.master.restart(Data::Kept)));
        cells.push(under(&mut servers, |servers| servers.master.restart(Data::Lost)));
        cells.push(under(&mut servers, |servers| {
            let promoted = servers.replica.command(&["REPLICAOF", "NO", "ONE"]);
            assert_eq!(promoted, Reply::Text("OK".to_owned()));
            servers.proxy.lead_to(servers.replica.port());
            servers.master.kill();
        }));
    } else {
        cells.resize(COLUMNS.len(), Some("it does not elect".to_owned()));
    }
    let cells = COLUMNS.into_iter().zip(cells).collect();
    Row { name: profile.name.to_owned(), cells, audit }
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
        if begun.elapsed() > PATIENCE {
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
fn under(servers: &mut Servers, fault: impl FnOnce(&mut Servers)) -> Option<String> {
    let mut group = Group::new((), 2);
    for number in 0..2 {
        group.add(servers.settings(number, false));
    }
    attempt(|| {
        group.leader();
        fault(servers);
        // Its promises of before are over by then, and whoever leads has them from the server of now.
        last_for(Lease::SHORT.duration());
        let moment = Instant::now();
        until_within(PATIENCE, "somebody leads again", || {
            (0..2).any(|replica| group.apps.last_after(replica, moment).is_some_and(|seen| seen.told.leader))
        });
        group.finish("compatibility", "");
    })
}

/// The leader hands over when it is asked to.
fn hand_over(servers: &Servers) -> Option<String> {
    let mut group = Group::new((), 2);
    for number in 0..2 {
        group.add(servers.settings(number, false));
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
