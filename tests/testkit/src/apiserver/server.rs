//! A Kubernetes API server of a test's own: the real one, with its etcd, in one process (`tests/apiserver`). It ends
//! when its standard input closes, so that none outlives the tests.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{OnceLock, mpsc};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use tempfile::TempDir;

use crate::wait::found_within;

/// It takes some three seconds of two processors, and machines are busy.
const START_MAX: Duration = Duration::from_secs(120);

/// The line that it prints when it serves.
#[derive(Clone, Debug, Deserialize)]
struct Ready {
    kubeconfig: PathBuf,
    url: String,
    version: String,
}

/// A running server, or one that was killed and may be started again with its data, on the same port.
pub struct ApiServer {
    child: Option<Child>,
    ready: Ready,
    dir: TempDir,
}

/// The folder of the programs in `tests/apiserver`, which are built if they are not there.
///
/// # Panics
/// When they cannot be built, saying what is missing.
pub fn programs() -> &'static Path {
    static PROGRAMS: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let build = || {
        let script = crate::root().join("tests/apiserver/build.sh");
        let output = Command::new(&script).stdin(Stdio::null()).output().map_err(|e| format!("{script:?}: {e}"))?;
        let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        if output.status.success() { Ok(PathBuf::from(said(&output.stdout))) } else { Err(said(&output.stderr)) }
    };
    match PROGRAMS.get_or_init(build) {
        Ok(folder) => folder,
        Err(why) => panic!("there is no API server to test with: {why}"),
    }
}

impl ApiServer {
    /// Starts one that has no data yet, and waits until it serves.
    ///
    /// # Panics
    /// When it does not.
    pub fn start() -> Self {
        let dir = TempDir::new().expect("a temporary directory");
        let (child, ready) = launch(dir.path(), None);
        Self { child: Some(child), ready, dir }
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        &self.ready.kubeconfig
    }

    /// Where it listens.
    pub fn url(&self) -> &str {
        &self.ready.url
    }

    /// Such as `v1.35.4`.
    pub fn version(&self) -> &str {
        &self.ready.version
    }

    /// How much memory it has taken, in KiB.
    pub fn resident_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child().id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        line.and_then(|line| line.split_whitespace().next()?.parse().ok()).expect("the process is there")
    }

    /// SIGSTOP: it keeps its connections and answers nothing.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// SIGCONT.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// SIGKILL. What it has acknowledged is on disk.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // Both fail only when it has ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Starts it again with its data, on the same port, and waits until it serves.
    ///
    /// # Panics
    /// When it runs, or does not start.
    pub fn start_again(&mut self) {
        assert!(self.child.is_none(), "the API server is running");
        let port = self.ready.url.rsplit(':').next().expect("a URL with a port").to_owned();
        let (child, ready) = launch(self.dir.path(), Some(&port));
        assert_eq!(ready.url, self.ready.url);
        self.child = Some(child);
    }

    /// Closes its standard input and waits until it has ended by itself; says with which code.
    ///
    /// # Panics
    /// When it does not end.
    pub fn close(&mut self) -> Option<i32> {
        let mut child = self.child.take().expect("the API server runs");
        drop(child.stdin.take());
        let ended = found_within(START_MAX, || child.try_wait().expect("our own child can be asked"));
        let Some(status) = ended else {
            self.child = Some(child);
            panic!("the API server does not end: {}", log(self.dir.path()));
        };
        status.code()
    }

    fn child(&self) -> &Child {
        self.child.as_ref().expect("the API server runs")
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(self.child()), signal).expect("our own child takes signals");
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        self.kill();
        if thread::panicking() {
            eprintln!("--- the end of the API server's log\n{}", log(self.dir.path()));
        }
    }
}

fn launch(dir: &Path, port: Option<&str>) -> (Child, Ready) {
    let errors = File::options().create(true).append(true).open(dir.join("log")).expect("a log file");
    let mut command = Command::new(programs().join("apiserver"));
    command.arg("--data-dir").arg(dir.join("data")).args(["--port", port.unwrap_or("0")]);
    let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors).spawn();
    let mut child = spawned.expect("the API server can be started");
    let output = child.stdout.take().expect("piped");
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        let mut line = String::new();
        // An error is an empty line: it has ended.
        let _ = BufReader::new(output).read_line(&mut line);
        // The receiver may have given up.
        let _ = tell.send(line);
    });
    let line = told.recv_timeout(START_MAX).unwrap_or_default();
    match serde_json::from_str(&line) {
        Ok(ready) => (child, ready),
        Err(_) => {
            // Both fail only when it has ended already.
            let _ = child.kill();
            let _ = child.wait();
            panic!("the API server does not start: {}", log(dir));
        }
    }
}

/// The last lines of what it logged.
fn log(dir: &Path) -> String {
    let text = std::fs::read_to_string(dir.join("log")).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}
