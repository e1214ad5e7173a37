//! Real `baton run` processes, alone and in groups that compete for one role.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use testkit::ports::free_port;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::client::{Client, Way};

/// The binary that cargo built.
pub const BUILT: &str = env!("CARGO_BIN_EXE_baton");
/// The role that all replicas compete for.
pub const ROLE: &str = "bench";
/// No state takes longer to come about: the longest lease here is 15 s, and a guard may come before it.
const BOUND: Duration = Duration::from_secs(60);

/// The binary that is measured.
pub fn binary() -> String {
    std::env::var("BATON_BENCH_BINARY").unwrap_or_else(|_| BUILT.to_owned())
}

/// What a replica is started with.
#[derive(Clone, Debug)]
pub struct Spec {
    pub identity: String,
    /// The whole of `store:`, as YAML in one line.
    pub store: String,
    pub lease: Duration,
    /// The default when absent.
    pub answer_validity: Option<Duration>,
    /// How many roles it has: only [`ROLE`], or others.
    pub roles: usize,
    /// The section `log`.
    pub log: &'static str,
    /// Further sections, as YAML.
    pub more: String,
}

impl Spec {
    /// On a Redis behind `url`, beside others with the same prefix.
    pub fn redis(identity: &str, url: &str, prefix: &str, lease: Duration) -> Self {
        let timeout = (lease / 4).min(Duration::from_secs(1)).as_millis();
        let store = format!("{{ redis: {{ url: \"{url}\", keyPrefix: {prefix}, commandTimeout: {timeout}ms }} }}");
        Self {
            identity: identity.to_owned(),
            store,
            lease,
            answer_validity: None,
            roles: 1,
            log: "{ level: warn, format: text }",
            more: String::new(),
        }
    }

    /// Its roles' names.
    pub fn names(&self) -> Vec<String> {
        match self.roles {
            1 => vec![ROLE.to_owned()],
            roles => (0..roles).map(|n| format!("{ROLE}-{n}")).collect(),
        }
    }

    /// The whole configuration of a replica with these ports.
    pub fn yaml(&self, api: u16, telemetry: u16) -> String {
        let Self { identity, store, lease, answer_validity, log, more, roles: _ } = self;
        let validity = answer_validity.map(|v| format!(", answerValidity: {}ms", v.as_millis())).unwrap_or_default();
        let lease = lease.as_millis();
        let role = |name| format!("  - {{ name: {name}, leaseDuration: {lease}ms{validity} }}\n");
        let roles: String = self.names().into_iter().map(role).collect();
        format!(
            "identity: {identity}\napi: {{ listen: 127.0.0.1:{api} }}\ntelemetry: {{ listen: 127.0.0.1:{telemetry} }}\n\
             store: {store}\nroles:\n{roles}\
             log: {log}\n{more}"
        )
    }
}

/// A running replica; killed when dropped.
pub struct Replica {
    child: Child,
    dir: TempDir,
    pub identity: String,
    pub api: SocketAddr,
    pub telemetry: SocketAddr,
}

impl Replica {
    /// Starts one, without waiting for anything.
    pub fn start(spec: &Spec) -> Self {
        Self::start_with(spec, |log| std::fs::File::create(log).expect("a temporary file can be created").into())
    }

    /// The same with a pipe to log to.
    pub fn start_piped(spec: &Spec) -> (Self, ChildStderr) {
        let mut replica = Self::start_with(spec, |_| Stdio::piped());
        let pipe = replica.child.stderr.take().expect("it has a pipe");
        (replica, pipe)
    }

    fn start_with(spec: &Spec, log: impl FnOnce(&Path) -> Stdio) -> Self {
        let dir = TempDir::new().expect("a temporary directory");
        let (api, telemetry) = (free_port(), free_port());
        let config = dir.path().join("config.yaml");
        std::fs::write(&config, spec.yaml(api, telemetry)).expect("a temporary file can be written");
        let child = Command::new(binary())
            .args(["run", "--config"])
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log(&dir.path().join("log")))
            .spawn()
            .expect("the binary that cargo built starts");
        let address = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let (api, telemetry) = (address(api), address(telemetry));
        Self { child, dir, identity: spec.identity.clone(), api, telemetry }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// SIGKILL, and only that: the process is collected later.
    pub fn kill(&mut self) {
        // Fails only when it has ended already.
        let _ = self.child.kill();
    }

    /// What it has written on standard error.
    pub fn log(&self) -> String {
        let path: PathBuf = self.dir.path().join("log");
        std::fs::read_to_string(path).unwrap_or_default()
    }

    /// Connects to the app's side as soon as it listens.
    pub async fn client(&self) -> Client {
        self.connect(self.api).await
    }

    /// The same with the listener that promises nothing.
    pub async fn telemetry_client(&self) -> Client {
        self.connect(self.telemetry).await
    }

    /// Connects as soon as it listens there: its two listeners do not open in one moment.
    async fn connect(&self, address: SocketAddr) -> Client {
        let begun = Instant::now();
        loop {
            match Client::connect(address).await {
                Ok(client) => return client,
                Err(error) if begun.elapsed() > BOUND => {
                    panic!("{} does not listen: {error}; it says: {}", self.identity, self.log())
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(2)).await,
            }
        }
    }

    /// The answer to `GET /leader`, which is a promise if it leads.
    pub async fn leader(&self) -> Value {
        self.client().await.json("GET", "/leader", "").await.expect("a replica that listens answers")
    }

    /// Whether it leads, without making a promise.
    pub async fn leads(&self) -> bool {
        let mut client = self.connect(self.telemetry).await;
        client.send("GET", "/leading", "").await.expect("it answers").0 == 200
    }

    /// Waits until `/readyz` says so.
    pub async fn ready(&self, bound: Duration) {
        let (begun, mut pause) = (Instant::now(), Duration::from_millis(1));
        let mut client = self.connect(self.telemetry).await;
        while client.send("GET", "/readyz", "").await.expect("it answers").0 != 200 {
            assert!(begun.elapsed() < bound, "{} is not ready within {bound:?}: {}", self.identity, self.log());
            tokio::time::sleep(pause).await;
            // With many roles it is work to answer.
            pause = (pause * 2).min(Duration::from_millis(50));
        }
    }

    /// The sum of a metric's series whose line contains `labels`.
    pub async fn metric(&self, name: &str, labels: &str) -> f64 {
        let mut client = self.connect(self.telemetry).await;
        let (_, _, text) = client.send("GET", "/metrics", "").await.expect("it answers");
        let lines = text.lines().filter(|line| line.starts_with(&format!("{name}{{")) && line.contains(labels));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.kill();
        let _ = self.child.wait();
    }
}

/// Replicas that compete for one role.
pub struct Group {
    pub specs: Vec<Spec>,
    pub replicas: Vec<Replica>,
}

impl Group {
    pub fn start(specs: Vec<Spec>) -> Self {
        let replicas = specs.iter().map(Replica::start).collect();
        Self { specs, replicas }
    }

    /// Three replicas on a Redis under a prefix of their own.
    pub fn trio(url: &str, prefix: &str, lease: Duration, answer_validity: Option<Duration>) -> Self {
        let spec = |n| Spec { answer_validity, ..Spec::redis(&format!("{prefix}-{n}"), url, prefix, lease) };
        Self::start((0..3).map(spec).collect())
    }

    /// Three replicas with so many roles, whose promises are short.
    pub fn trio_with(roles: usize, spec: impl Fn(usize) -> Spec) -> Self {
        let answer_validity = Some(Duration::from_millis(20));
        Self::start((0..3).map(|n| Spec { roles, answer_validity, ..spec(n) }).collect())
    }

    /// Starts a killed replica anew.
    pub fn restart(&mut self, at: usize) {
        self.replicas[at] = Replica::start(&self.specs[at]);
    }

    /// Waits until one replica leads and every other one knows it. Makes no promise.
    pub async fn settled(&self) -> usize {
        let (begun, mut pause) = (Instant::now(), Duration::from_millis(2));
        loop {
            if let Some(leader) = self.agreed().await {
                return leader;
            }
            assert!(begun.elapsed() < BOUND, "no leader within {BOUND:?}; the first says: {}", self.replicas[0].log());
            tokio::time::sleep(pause).await;
            // Who has just started may hear of the leader only at its next heartbeat, and others are being measured.
            pause = (pause * 2).min(Duration::from_millis(250));
        }
    }

    async fn agreed(&self) -> Option<usize> {
        let mut leader = None;
        for (at, replica) in self.replicas.iter().enumerate() {
            if replica.leads().await {
                leader = Some(at);
            }
        }
        let leader = leader?;
        for (at, replica) in self.replicas.iter().enumerate() {
            let knows = at == leader || replica.leader().await["holder"] == self.replicas[leader].identity.as_str();
            if !knows {
                return None;
            }
        }
        Some(leader)
    }

    /// Apps beside every replica but one, already waiting for its lead in this way when this returns.
    pub async fn watch_others(&self, leader: usize, way: Way) -> Watch {
        let mut tasks = JoinSet::new();
        for (at, replica) in self.replicas.iter().enumerate().filter(|(at, _)| *at != leader) {
            let (follows, following) = oneshot::channel();
            let mut client = replica.client().await;
            tasks.spawn(async move { client.until_leading(way, follows).await.map(|moment| (at, moment)) });
            // Lost only if it leads already, which the wait below finds.
            let _ = following.await;
        }
        // The requests after the first answers are on their way; let them arrive.
        tokio::time::sleep(Duration::from_millis(5)).await;
        Watch { tasks }
    }
}

/// See [`Group::watch_others`]. Dropping it closes the connections.
pub struct Watch {
    tasks: JoinSet<Result<(usize, Instant), String>>,
}

impl Watch {
    /// And, after a while, the app beside this one, which does not lead any more.
    pub fn also(&mut self, at: usize, mut client: Client, way: Way, after: Duration) {
        let (follows, _) = oneshot::channel();
        self.tasks.spawn(async move {
            tokio::time::sleep(after).await;
            client.until_leading(way, follows).await.map(|moment| (at, moment))
        });
    }

    /// Which replica says first that it leads, and when that was read.
    pub async fn next_leader(mut self) -> (usize, Instant) {
        let first = tokio::time::timeout(BOUND, self.tasks.join_next()).await;
        let first = first.unwrap_or_else(|_| panic!("no next leader within {BOUND:?}"));
        first.expect("two are watched").expect("no panic").unwrap_or_else(|error| panic!("a long poll broke: {error}"))
    }
}
