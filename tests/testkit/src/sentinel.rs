//! A master, two replicas and three Sentinels, each ended by its own handle.

use std::io::Write;
use std::net::Ipv4Addr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::place::Place;
use super::redis::{RedisServer, program};
use super::resp::{Connection, Reply};
use super::{found_within, wait_until};

/// Sentinels and failovers take seconds. On a machine that is too busy for their timers they do not agree, and try
/// again after twelve seconds, more than once.
const PATIENCE: Duration = Duration::from_secs(90);
/// A server that was silent for this long is down for the Sentinels of a set.
const DOWN_AFTER: Duration = Duration::from_millis(800);
/// The same where none shall be.
const NEVER: Duration = Duration::from_secs(3_600);
/// How the Sentinels call the master.
pub const SERVICE: &str = "main";

/// One running Sentinel.
pub struct Sentinel {
    child: Child,
    place: Place,
    port: u16,
    dir: tempfile::TempDir,
}

impl Sentinel {
    /// Watches this master; `quorum` Sentinels must agree that it is down after `down_after`.
    pub fn start(master: u16, quorum: u32, down_after: Duration) -> Self {
        Self::start_with(master, quorum, down_after, "")
    }

    /// The same with further lines in its configuration.
    pub fn start_with(master: u16, quorum: u32, down_after: Duration, more: &str) -> Self {
        Self::start_whole(&Place::here(), Ipv4Addr::LOCALHOST, master, quorum, down_after, more)
    }

    /// The same at this place, with the master at that address.
    pub fn start_at(place: &Place, host: Ipv4Addr, master: u16, quorum: u32, down_after: Duration) -> Self {
        Self::start_whole(place, host, master, quorum, down_after, "")
    }

    fn start_whole(place: &Place, host: Ipv4Addr, master: u16, quorum: u32, down_after: Duration, more: &str) -> Self {
        let (port, dir) = (place.server_port(), in_memory());
        let path = dir.path().join("sentinel.conf");
        let mut file = std::fs::File::create(&path).expect("a file");
        let lines = format!(
            "port {port}\nbind {}\ndir {}\nsentinel monitor {SERVICE} {host} {master} {quorum}\n\
             sentinel down-after-milliseconds {SERVICE} {}\nsentinel failover-timeout {SERVICE} 6000\n\
             sentinel parallel-syncs {SERVICE} 2\n{more}",
            place.addresses().join(" "),
            dir.path().display(),
            down_after.as_millis(),
        );
        file.write_all(lines.as_bytes()).expect("written");
        let child = launch(place, &dir);
        Self { child, place: place.clone(), port, dir }
    }

    /// Its answer; none when it does not answer.
    pub fn command(&self, words: &[&str]) -> Option<Reply> {
        self.place.run(|| Connection::open(self.port).and_then(|mut connection| connection.command(words)).ok())
    }

    /// The port of the master as it knows it.
    pub fn master(&self) -> Option<u16> {
        match self.command(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE])? {
            Reply::List(address) => address.get(1)?.clone().text().parse().ok(),
            _ => None,
        }
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// SIGSTOP: it keeps its connections and answers nothing.
    pub fn pause(&self) {
        kill_process(Pid::from_child(&self.child), Signal::STOP).expect("our own child takes signals");
    }

    /// SIGCONT.
    pub fn resume(&self) {
        kill_process(Pid::from_child(&self.child), Signal::CONT).expect("our own child takes signals");
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Starts it again with what it has noted, after it was killed.
    pub fn start_again(&mut self) {
        self.child = launch(&self.place, &self.dir);
    }
}

/// A directory in memory, where there is one. A Sentinel waits for the disk (fsync) at every step of an election, and
/// one that stood still for two seconds, as beside a dozen busy servers of one disk, takes part in none for half a
/// minute (TILT). Sentinels that count on each other do not share a disk.
fn in_memory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a directory")
}

fn launch(place: &Place, dir: &tempfile::TempDir) -> Child {
    let mut command = Command::new(program());
    command.arg(dir.path().join("sentinel.conf")).arg("--sentinel");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    place.run(|| command.spawn()).expect("redis-server is installed by `make test`")
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        self.kill();
    }
}

/// See the module.
pub struct SentinelSet {
    /// The first began as the master.
    pub servers: Vec<RedisServer>,
    pub sentinels: Vec<Sentinel>,
}

impl SentinelSet {
    /// Starts all of them, and waits until they know of each other.
    pub async fn start() -> Self {
        Self::start_at(|_| Place::here(), &[]).await
    }

    /// The same with the servers at the first three of these places and the Sentinels at the next three, and with
    /// further options for every server.
    pub async fn start_at(place: impl Fn(usize) -> Place, options: &[&str]) -> Self {
        let master = RedisServer::start_at(&place(0), &[], options);
        let (host, port) = (master.host(), master.port().to_string());
        let following = [options, &["--replicaof", &host, &port]].concat();
        let replicas = (1..3).map(|at| RedisServer::start_at(&place(at), &[], &following));
        let replicas: Vec<RedisServer> = replicas.collect();
        let first = master.port();
        let servers: Vec<RedisServer> = std::iter::once(master).chain(replicas).collect();
        wait_until(
            PATIENCE,
            "the replicas follow before the Sentinels look, which then do so only now and then",
            || servers[0].command(&["INFO", "replication"]).text().matches("state=online").count() == 2,
        )
        .await;
        let sentinel = |at: usize| Sentinel::start_at(&place(3 + at), place(0).ip(), first, 2, DOWN_AFTER);
        let sentinels = (0..3).map(sentinel).collect();
        let set = Self { servers, sentinels };
        set.settled().await;
        set
    }

    /// Waits until every Sentinel takes the same one for the master, the two others follow it, and no failover is
    /// under way; says which. Who does not follow is told to at once: the Sentinels do that only after eight seconds in
    /// which it was never down for them, which on a busy machine may never be. There may be a failover that nobody
    /// asked for, too: the result is what counts.
    pub async fn settled(&self) -> u16 {
        let is_settled =
            |master: &u16| self.sentinels.iter().all(|sentinel| sentinel.is_settled(*master)) && self.follow(*master);
        let found = found_within(PATIENCE, async || self.try_master().filter(is_settled)).await;
        let master = found.unwrap_or_else(|| {
            let views: Vec<_> = self.sentinels.iter().map(|it| (it.master(), it.view())).collect();
            let roles: Vec<_> = self.servers.iter().map(replication).collect();
            panic!("the Sentinels do not settle: {views:#?} {roles:#?}")
        });
        self.take_for_down_after(DOWN_AFTER);
        master
    }

    /// Whether the two others follow this one. Who takes itself for the master, or follows another, is told to.
    fn follow(&self, master: u16) -> bool {
        for other in self.servers.iter().filter(|server| server.port() != master) {
            // A master names none.
            if !replication(other).contains(&format!("master_port:{master}\r")) {
                self.demote(other.port(), master);
            }
        }
        self.replicas_of(master) == 2
    }

    fn replicas_of(&self, master: u16) -> usize {
        replication(self.server(master)).matches("state=online").count()
    }

    /// The URL of the set.
    pub fn url(&self) -> String {
        let [first, others @ ..] = &self.sentinels[..] else { unreachable!("there are three") };
        let nodes: String = others.iter().map(|other| format!("&node={}:{}", other.place.ip(), other.port)).collect();
        format!("redis-sentinel://{}:{}/0?sentinelServiceName={SERVICE}{nodes}", first.place.ip(), first.port)
    }

    /// The server on this port.
    pub fn server(&self, port: u16) -> &RedisServer {
        self.servers.iter().find(|server| server.port() == port).expect("one of ours")
    }

    /// The same, to be stopped and started.
    pub fn server_mut(&mut self, port: u16) -> &mut RedisServer {
        self.servers.iter_mut().find(|server| server.port() == port).expect("one of ours")
    }

    /// The port of the master as most Sentinels that answer know it.
    pub fn master(&self) -> u16 {
        self.try_master().expect("some Sentinel answers")
    }

    /// The same; none when no Sentinel answers.
    pub fn try_master(&self) -> Option<u16> {
        let told: Vec<u16> = self.sentinels.iter().filter_map(Sentinel::master).collect();
        let votes = |port: u16| told.iter().filter(|other| **other == port).count();
        told.iter().copied().max_by_key(|port| votes(*port))
    }

    /// Waits until another than `old` is the master for all Sentinels, no failover is under way, and a replica follows
    /// it, without which no write can be acknowledged; says which. From here to `settled` no server is taken for down:
    /// a Sentinel connects anew to a master that it has only just heard of. On a busy machine that takes longer than it
    /// waits, and two of them would make the only replica the master next, under the writes of a test.
    pub async fn switched_from(&self, old: u16) -> u16 {
        wait_until(PATIENCE, "the Sentinels have another master", || {
            self.agreed_master().is_some_and(|master| master != old)
        })
        .await;
        self.take_for_down_after(NEVER);
        let found = found_within(PATIENCE, async || {
            let master = self.agreed_master().filter(|_| self.sentinels.iter().all(Sentinel::is_calm))?;
            (self.replicas_of(master) > 0).then_some(master)
        });
        found.await.expect("no failover is under way, and a replica follows the master")
    }

    /// The port of the master, if all Sentinels know the same one.
    fn agreed_master(&self) -> Option<u16> {
        let told: Vec<Option<u16>> = self.sentinels.iter().map(Sentinel::master).collect();
        told[0].filter(|_| told.iter().all(|other| *other == told[0]))
    }

    fn take_for_down_after(&self, silence: Duration) {
        let silence = silence.as_millis().to_string();
        for sentinel in &self.sentinels {
            let reply = sentinel.command(&["SENTINEL", "SET", SERVICE, "down-after-milliseconds", &silence]);
            assert_eq!(reply, Some(Reply::Text("OK".to_owned())));
        }
    }

    /// Asks the Sentinels for a failover, until one agrees to it.
    pub async fn fail_over(&self) {
        wait_until(PATIENCE, "a Sentinel begins a failover", || {
            let reply = self.sentinels[0].command(&["SENTINEL", "FAILOVER", SERVICE]);
            reply == Some(Reply::Text("OK".to_owned()))
        })
        .await;
    }

    fn demote(&self, old: u16, new: u16) {
        let server = self.server(old);
        server.ask(&["REPLICAOF", &self.server(new).host(), &new.to_string()]);
        server.ask(&["CLIENT", "KILL", "TYPE", "normal"]);
        server.ask(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    }
}

/// What a server tells of who follows whom.
fn replication(server: &RedisServer) -> String {
    server.ask(&["INFO", "replication"]).text()
}

impl Sentinel {
    /// It takes this one for the master and knows of both replicas and of the other Sentinels; no failover is under
    /// way, and all is well.
    pub fn is_settled(&self, master: u16) -> bool {
        // What others said of a master before is kept for a while, by Valkey 9.1 until it is asked for again.
        let view = self.view().replace(",master_down", "");
        self.master() == Some(master) && view == "master | slave slave | sentinel sentinel"
    }

    /// The master is up for it, and no failover that it has begun is under way.
    fn is_calm(&self) -> bool {
        self.flags_of_master() == "master"
    }

    fn flags_of_master(&self) -> String {
        self.command(&["SENTINEL", "MASTER", SERVICE]).map_or_else(String::new, |reply| flags(&reply))
    }

    /// The flags of everything that it knows.
    fn view(&self) -> String {
        let all = |what: &str| match self.command(&["SENTINEL", what, SERVICE]) {
            Some(Reply::List(instances)) => instances.iter().map(flags).collect::<Vec<_>>().join(" "),
            other => format!("{other:?}"),
        };
        format!("{} | {} | {}", self.flags_of_master(), all("REPLICAS"), all("SENTINELS"))
    }
}

/// What a Sentinel tells of the state of a server or of another Sentinel.
fn flags(instance: &Reply) -> String {
    let Reply::List(fields) = instance else { return format!("{instance:?}") };
    let at = fields.iter().position(|field| *field == Reply::Text("flags".to_owned()));
    at.and_then(|at| fields.get(at + 1)).map_or_else(String::new, |flags| flags.clone().text())
}
