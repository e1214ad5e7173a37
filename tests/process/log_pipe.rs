//! A log pipe that nobody reads: a container runtime that stands still, or a disk that is full behind it.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use testkit::ports::free_port;
use testkit::redis::RedisServer;
use testkit::sidecars::http::Connection;
use testkit::wait::until_within;

/// Each has some lines to say when it begins to lead, and when it resigns: a pipe takes a few hundred.
const ROLES: usize = 1_000;
/// All of them at one moment, on a machine that is busy with other tests: a first lease, and then some.
const ALL_LED: Duration = Duration::from_secs(120);

struct Blocked {
    child: Child,
    api: SocketAddr,
    _dir: TempDir,
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Blocked {
    fn start(store: &str) -> Self {
        let dir = TempDir::new().expect("a temporary directory");
        let [api, telemetry] = [free_port(), free_port()].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let roles: String = (0..ROLES).map(|n| format!("  - {{ name: role-{n:04} }}\n")).collect();
        let config = format!(
            "identity: web-0\napi: {{ listen: {api} }}\ntelemetry: {{ listen: {telemetry} }}\nstore: {store}\n\
             log: {{ level: debug }}\nroles:\n{roles}"
        );
        let path = dir.path().join("config.yaml");
        std::fs::write(&path, config).expect("a configuration");
        let mut command = Command::new(env!("CARGO_BIN_EXE_baton"));
        command.arg("run").arg("--config").arg(&path).stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.stderr(Stdio::piped()).spawn().expect("the sidecar starts");
        Self { child, api, _dir: dir }
    }

    /// What it answers, if it does.
    fn ask(&self, line: &str) -> Option<String> {
        let answer = Connection::open(self.api).and_then(|mut connection| connection.ask(line, ""));
        answer.ok().map(|answer| answer.body)
    }

    /// The names of its threads.
    fn threads(&self) -> Vec<String> {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).expect("it runs").flatten();
        let name = |thread: std::fs::DirEntry| std::fs::read_to_string(thread.path().join("comm")).ok();
        threads.filter_map(name).map(|name| name.trim_end().to_owned()).collect()
    }

    /// Who looks makes no promise, so that it can resign at once.
    fn leads_all(&self) -> bool {
        self.ask("GET /status").is_some_and(|status| status.matches("\"leads\":true").count() == ROLES)
    }
}

#[test]
fn a_log_pipe_that_nobody_reads_keeps_no_role_from_its_lease_and_what_was_dropped_is_told() {
    let redis = RedisServer::start();
    let mut blocked = Blocked::start(&format!("{{ redis: {{ url: \"{}\", commandTimeout: 4s }} }}", redis.url()));
    until_within(ALL_LED, "all roles are led though nobody reads", || blocked.leads_all());
    // Nothing of these runs on the thread that renews: not who asks, not who scrapes, not what is logged.
    for own in ["api", "telemetry", "log"] {
        assert!(blocked.threads().iter().any(|name| name == own), "{own} in {:?}", blocked.threads());
    }
    // More lines than may wait.
    for _ in 0..3 {
        let mut connection = Connection::open(blocked.api).expect("it listens");
        for n in 0..ROLES {
            let line = format!("POST /leader/role-{n:04}/resign");
            // One among a thousand may be answered late by a machine that is busy, and is told so.
            until_within(ALL_LED, "the role resigns though nobody reads", || {
                connection.ask(&line, r#"{"cooldown":"100ms"}"#).expect("an answer").status == 202
            });
        }
        until_within(ALL_LED, "all roles are led again", || blocked.leads_all());
    }
    let mut lines =
        BufReader::new(blocked.child.stderr.take().expect("a pipe")).lines().map(|line| line.expect("text"));
    let told = lines.find(|line| line.contains("log lines were dropped")).expect("it is told");
    let told: serde_json::Value = serde_json::from_str(&told).expect("a line of JSON");
    assert!(told["lines"].as_u64() > Some(0) && told["level"] == "ERROR", "{told}");
    kill_process(Pid::from_child(&blocked.child), Signal::TERM).expect("our own child takes signals");
    let rest: Vec<String> = lines.collect();
    assert!(rest.iter().any(|line| line.contains("shutting down")), "the end is logged");
    // A machine that is too busy for a thousand releases at once leaves some to their TTL, and says so as well.
    let ends = ["the lease is given back", "the lease is left to run out"];
    let ended = rest.iter().filter(|line| ends.iter().any(|end| line.contains(end))).count();
    assert_eq!(ended, ROLES, "to the last line");
    assert!(blocked.child.wait().expect("our own child").success());
}
