//! A `baton run` process, as far as locks are concerned.

use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use testkit::ports::free_port;
use testkit::redis::RedisServer;
use testkit::sidecars::http::Answer;
use testkit::wait::until;

use crate::http::ask;

/// The lease of locks whose request names none, in milliseconds.
pub const LEASE_MS: u64 = 6_000;
/// For how long nobody new is granted after Redis may have forgotten locks, where a test does not make it forget any:
/// short, for every Redis that has just started is guarded.
pub const GUARD: Duration = Duration::from_millis(1_500);

/// What Dapr's lock API is answered for.
pub const LOCK_STORE: &str = "lockstore";

/// Where a sidecar keeps locks.
#[derive(Clone, Debug)]
pub enum Store {
    Memory,
    Redis(String),
}

impl Store {
    pub fn of(redis: &RedisServer) -> Self {
        Self::Redis(redis.url())
    }
}

/// See the module. Killed when dropped.
pub struct Sidecar {
    child: Option<Child>,
    identity: String,
    store: Store,
    guard: Duration,
    dir: TempDir,
    /// Where its app answers for its health.
    app_port: Option<u16>,
    pub api: SocketAddr,
    telemetry: SocketAddr,
}

impl Sidecar {
    pub fn start(identity: &str, store: Store, guard: Duration) -> Self {
        Self::start_beside(identity, store, guard, None)
    }

    /// One with an appCheck of 300 ms, twice, at this port.
    pub fn start_beside(identity: &str, store: Store, guard: Duration, app_port: Option<u16>) -> Self {
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let dir = TempDir::new().expect("a temporary directory");
        let (identity, api, telemetry) = (identity.to_owned(), nowhere, nowhere);
        let mut sidecar = Self { child: None, identity, store, guard, dir, app_port, api, telemetry };
        sidecar.start_again();
        sidecar
    }

    /// So many on one store.
    pub fn several(count: usize, store: &Store, guard: Duration) -> Vec<Self> {
        (0..count).map(|n| Self::start(&format!("web-{n}"), store.clone(), guard)).collect()
    }

    /// Starts a new process on new ports, and waits until it listens.
    pub fn start_again(&mut self) {
        // Somebody else may take a free port before it does; it then ends with this code.
        const TAKEN: i32 = 69;
        self.kill();
        for _ in 0..5 {
            self.api = SocketAddr::from(([127, 0, 0, 1], free_port()));
            self.telemetry = SocketAddr::from(([127, 0, 0, 1], free_port()));
            let path = self.dir.path().join("config.yaml");
            std::fs::write(&path, self.config()).expect("a configuration");
            let log = std::fs::File::options().create(true).append(true).open(self.dir.path().join("log"));
            let mut command = Command::new(env!("CARGO_BIN_EXE_baton"));
            command.arg("run").arg("--config").arg(path).stdin(Stdio::null()).stdout(Stdio::null());
            self.child = Some(command.stderr(log.expect("a log file")).spawn().expect("the sidecar starts"));
            let mut ended = None;
            until("a sidecar listens", || {
                ended = self.child.as_mut().and_then(|child| child.try_wait().expect("our own child can be asked"));
                ended.is_some() || [self.api, self.telemetry].iter().all(|at| TcpStream::connect(at).is_ok())
            });
            match ended {
                None => return,
                Some(status) => assert_eq!(status.code(), Some(TAKEN), "{}", self.log()),
            }
        }
        panic!("no port was free for long enough: {}", self.log());
    }

    fn config(&self) -> String {
        let store = match &self.store {
            Store::Memory => "memory: {}".to_owned(),
            Store::Redis(url) => format!("redis: {{ url: \"{url}\", commandTimeout: 2s }}"),
        };
        let check = self.app_port.map_or_else(String::new, |port| {
            format!(", appCheck: {{ httpGet: {{ port: {port} }}, period: 300ms, timeout: 250ms, failureThreshold: 2 }}")
        });
        format!(
            "identity: {}\napi: {{ listen: {} }}\ntelemetry: {{ listen: {} }}\nstore: {{ {store} }}\n\
             roles: [{{ name: scheduler, leaseDuration: 30s{check} }}]\n\
             locks: {{ lease: {LEASE_MS}ms, guard: {}ms, dapr: {{ stores: [{LOCK_STORE}] }} }}\n\
             log: {{ level: debug, format: text }}\n",
            self.identity,
            self.api,
            self.telemetry,
            self.guard.as_millis()
        )
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    /// Waits until it grants: its store is reached, and no guard is up.
    pub fn until_open(&self) {
        until("locks are granted", || {
            let name = format!("open-{}", self.identity);
            let answer = self.ask(&format!("POST /locks/{name}"), "");
            answer.status == 201 && {
                let lock = answer.json()["lock"].as_str().expect("an id").to_owned();
                self.ask(&format!("DELETE /locks/{name}/{lock}"), "").status == 204
            }
        });
    }

    pub fn ask(&self, line: &str, body: &str) -> Answer {
        ask(self.api, line, body)
    }

    /// Takes a lock; its id and its token.
    pub fn take(&self, name: &str, body: &str) -> (String, u64) {
        let answer = self.ask(&format!("POST /locks/{name}"), body);
        assert_eq!(answer.status, 201, "{answer:?}");
        let json = answer.json();
        (json["lock"].as_str().expect("an id").to_owned(), json["token"].as_u64().expect("a token"))
    }

    pub fn release(&self, name: &str, id: &str) -> u16 {
        self.ask(&format!("DELETE /locks/{name}/{id}"), "").status
    }

    pub fn insight(&self, name: &str) -> Value {
        self.ask(&format!("GET /locks/{name}"), "").json()
    }

    /// Waits until a lock has as many holders and waiters.
    pub fn until_like(&self, name: &str, holders: usize, waiting: u64) {
        until("a lock is as wanted", || {
            let insight = self.insight(name);
            insight["holders"].as_array().map(Vec::len) == Some(holders) && insight["waiting"] == waiting
        });
    }

    /// The value of a series in `/metrics`.
    pub fn metric(&self, series: &str) -> f64 {
        let text = ask(self.telemetry, "GET /metrics", "").body;
        let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {series}"))
    }

    pub fn signal(&self, signal: Signal) {
        let child = self.child.as_ref().expect("it runs");
        kill_process(Pid::from_child(child), signal).expect("our own child takes signals");
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // Both fail only when it has ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Waits until it has ended by itself; its exit code.
    pub fn wait_end(&mut self) -> Option<i32> {
        let mut child = self.child.take().expect("it runs");
        let mut status = None;
        until("a sidecar has ended", || {
            status = child.try_wait().expect("our own child can be asked");
            status.is_some()
        });
        status.and_then(|status| status.code())
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            let log = self.log();
            let tail: Vec<&str> = log.lines().rev().take(60).collect();
            eprintln!("--- the log of {}", self.identity);
            tail.iter().rev().for_each(|line| eprintln!("{line}"));
        }
    }
}
