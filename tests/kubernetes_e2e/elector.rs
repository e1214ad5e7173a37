//! A participant that is built on client-go (`tests/apiserver/cmd/client`), and what it says of itself.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use rustix::time::{ClockId, clock_gettime};
use serde::Deserialize;
use testkit::apiserver::Cluster;
use testkit::apiserver::server::programs;

/// The lease that [`Campaign::new`] asks for: what others wait for when it has died.
pub const LEASE: Duration = Duration::from_secs(4);

/// Which client-go a participant is built on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientGo {
    /// The one that is current: a standby waits for as long as the record says.
    Current,
    /// That of Kubernetes 1.26, the last one of which a standby waits for its own lease duration.
    V1_26,
}

impl ClientGo {
    fn program(self) -> PathBuf {
        programs().join(match self {
            Self::Current => "client",
            Self::V1_26 => "client-1.26",
        })
    }
}

/// What a participant asks of client-go.
#[derive(Clone, Debug)]
pub struct Campaign {
    pub built_on: ClientGo,
    pub kubeconfig: PathBuf,
    pub namespace: String,
    pub name: String,
    pub identity: String,
    pub lease: Duration,
    pub renew_deadline: Duration,
    pub retry_period: Duration,
}

impl Campaign {
    /// For a Lease of the cluster, as short as a busy machine allows.
    pub fn new(cluster: &Cluster, kubeconfig: &Path, name: &str, identity: &str) -> Self {
        Self {
            built_on: ClientGo::Current,
            kubeconfig: kubeconfig.to_owned(),
            namespace: cluster.namespace().to_owned(),
            name: name.to_owned(),
            identity: identity.to_owned(),
            lease: LEASE,
            renew_deadline: Duration::from_millis(2_500),
            retry_period: Duration::from_millis(400),
        }
    }
}

/// The record that all participants built on client-go compare. Its times are whole seconds.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    pub holder_identity: String,
    pub lease_duration_seconds: u64,
    pub acquire_time: Timestamp,
    pub renew_time: Timestamp,
    pub leader_transitions: u64,
}

/// Reads a Lease with client-go's own types and its own lock.
///
/// # Panics
/// When it cannot, saying what client-go said.
pub fn read_record(cluster: &Cluster, kubeconfig: &Path, name: &str) -> Record {
    let mut command = Command::new(programs().join("client"));
    command.arg("read").arg("--kubeconfig").arg(kubeconfig);
    command.args(["--namespace", cluster.namespace(), "--name", name]).stdin(Stdio::null());
    let output = command.output().expect("the client can be started");
    let (said, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    serde_json::from_str(&said).unwrap_or_else(|wrong| panic!("{wrong}: {said}{error}"))
}

#[derive(Deserialize)]
struct Line {
    at_ns: i64,
    event: String,
    #[serde(default)]
    identity: String,
}

#[derive(Default)]
struct Journal {
    /// Since when and until when it led; without an end it leads.
    terms: Vec<(Instant, Option<Instant>)>,
    /// Who leads, as it says.
    leader: Option<String>,
}

/// See the module. It campaigns until it is dropped.
pub struct Elector {
    child: Child,
    journal: Arc<Mutex<Journal>>,
    reader: Option<JoinHandle<()>>,
}

impl Elector {
    /// Starts one.
    pub fn start(campaign: &Campaign) -> Self {
        let Campaign { built_on, kubeconfig, namespace, name, identity, lease, renew_deadline, retry_period } =
            campaign;
        let mut command = Command::new(built_on.program());
        command.arg("elect").arg("--kubeconfig").arg(kubeconfig);
        command.args(["--namespace", namespace, "--name", name, "--identity", identity]);
        let timings = [("lease-duration", lease), ("renew-deadline", renew_deadline), ("retry-period", retry_period)];
        command.args(timings.map(|(flag, span)| format!("--{flag}={}ms", span.as_millis())));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the client can be started");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let journal = Arc::new(Mutex::new(Journal::default()));
        let notes = Arc::clone(&journal);
        let reader = thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                note(&notes, &serde_json::from_str(&line).expect("the client writes JSON"));
            }
        });
        Self { child, journal, reader: Some(reader) }
    }

    /// Its terms so far: from when client-go said so until the client stopped, which is before it released.
    pub fn terms(&self) -> Vec<(Instant, Option<Instant>)> {
        lock(&self.journal).terms.clone()
    }

    /// Whether it leads.
    pub fn leads(&self) -> bool {
        self.terms().last().is_some_and(|(_, end)| end.is_none())
    }

    /// Who leads, as it was told last.
    pub fn leader(&self) -> Option<String> {
        lock(&self.journal).leader.clone()
    }

    /// Makes it hand over if it leads; it campaigns again afterwards.
    pub fn resign(&mut self) {
        let input = self.child.stdin.as_mut().expect("piped");
        input.write_all(b"resign\n").expect("the client listens");
    }

    /// SIGKILL: it releases nothing. A term that it has ends here.
    pub fn kill(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(reader) = self.reader.take() {
            let read = reader.join();
            assert!(read.is_ok() || thread::panicking(), "the client wrote what it should not");
        }
        if let Some((_, end @ None)) = lock(&self.journal).terms.last_mut() {
            *end = Some(Instant::now());
        }
    }
}

impl Drop for Elector {
    fn drop(&mut self) {
        self.kill();
    }
}

fn lock(journal: &Mutex<Journal>) -> std::sync::MutexGuard<'_, Journal> {
    journal.lock().unwrap_or_else(PoisonError::into_inner)
}

fn note(journal: &Mutex<Journal>, line: &Line) {
    let now = clock_gettime(ClockId::Monotonic);
    let ns = now.tv_sec * 1_000_000_000 + now.tv_nsec - line.at_ns;
    let at = Instant::now() - Duration::from_nanos(u64::try_from(ns).unwrap_or(0));
    let mut journal = lock(journal);
    match (line.event.as_str(), journal.terms.last_mut()) {
        ("started", _) => journal.terms.push((at, None)),
        ("stopped", Some((_, end))) => *end = Some(at),
        ("leader", _) => journal.leader = Some(line.identity.clone()),
        (other, _) => panic!("an event that is none: {other}"),
    }
}
