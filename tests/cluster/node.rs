//! The node that `up.sh` has started for this process: its `kubectl` and `helm`, and what can be done to its processes.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use serde_json::Value;

/// Whatever is done to the node itself, nothing else runs beside.
static NODE: RwLock<()> = RwLock::new(());

/// Nothing is done to the node itself while this is held.
pub fn shared() -> RwLockReadGuard<'static, ()> {
    NODE.read().unwrap_or_else(PoisonError::into_inner)
}

/// Nobody else is on the node while this is held.
pub fn alone() -> RwLockWriteGuard<'static, ()> {
    NODE.write().unwrap_or_else(PoisonError::into_inner)
}

/// The folder of its logs and keys.
///
/// # Panics
/// When there is no node.
pub fn folder() -> PathBuf {
    let folder = std::env::var_os("BATON_CLUSTER").expect("there is no node: `make cluster` starts one");
    PathBuf::from(folder)
}

/// Runs a command with the cluster's `kubectl` and `helm` on its path; what it printed, or what it said against it.
pub fn attempt(command: &mut Command, input: &str) -> Result<String, String> {
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    // Who reads nothing may have ended.
    let _ = child.stdin.take().expect("piped").write_all(input.as_bytes());
    let output = child.wait_with_output().expect("our own child");
    let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() { Ok(said.into_owned()) } else { Err(format!("{said}{errors}")) }
}

/// The same for what must succeed.
///
/// # Panics
/// With what it said when it fails.
pub fn run(command: &mut Command) -> String {
    attempt(command, "").unwrap_or_else(|said| panic!("{command:?}: {said}"))
}

/// Processes of the machine whose file of control groups names this: a container's id, or `pod` and a pod's UID.
pub fn processes(group: &str) -> Vec<i32> {
    let all = fs::read_dir("/proc").expect("there is a /proc");
    let ids = all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let is_its = |id: &i32| fs::read_to_string(format!("/proc/{id}/cgroup")).is_ok_and(|groups| groups.contains(group));
    ids.filter(is_its).collect()
}

/// Processes whose command line begins like this.
pub fn processes_called(begin: &str) -> Vec<i32> {
    let found = Command::new("pgrep").args(["--full", &format!("^{begin}")]).output().expect("procps is installed");
    String::from_utf8_lossy(&found.stdout).split_whitespace().filter_map(|id| id.parse().ok()).collect()
}

/// `KILL`, `STOP`, `CONT`, …
pub fn signal(signal: &str, processes: &[i32]) {
    assert!(!processes.is_empty(), "there is nothing to send {signal} to");
    let ids = processes.iter().map(i32::to_string);
    // One that has ended meanwhile needs no signal.
    let _ = Command::new("kill").arg(format!("-{signal}")).args(ids).stderr(Stdio::null()).status();
}

/// What accounts of pods in a namespace asked of the API server, and were refused: method, URL and code of each.
pub fn refusals(namespace: &str) -> Vec<String> {
    let audit = fs::read_to_string(folder().join("log/audit.log")).expect("the API server writes it");
    let account = format!("system:serviceaccount:{namespace}:");
    let events = audit.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let events = events.filter(|event| event["user"]["username"].as_str().is_some_and(|who| who.starts_with(&account)));
    let refused = events.filter(|event| matches!(event["responseStatus"]["code"].as_u64(), Some(401 | 403)));
    refused
        .map(|event| format!("{} {} {}", event["verb"], event["requestURI"], event["responseStatus"]["code"]))
        .collect()
}

/// The processes that keep these containers for containerd: their parents.
pub fn shims_of(processes: &[i32]) -> Vec<i32> {
    let parent = |process: &i32| {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
    };
    let mut shims: Vec<i32> = processes.iter().filter_map(parent).collect();
    shims.sort_unstable();
    shims.dedup();
    shims
}

/// Whether a process goes on; one that has ended and is not yet forgotten does not.
pub fn lives(process: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// Nothing of a pod runs, whatever is sent to it, until this is dropped.
pub struct Frozen(PathBuf);

/// Freezes the pod that a process is in, all of it: one container alone is thawed by whoever kills it.
pub fn freeze_pod_of(process: i32) -> Frozen {
    let groups = fs::read_to_string(format!("/proc/{process}/cgroup")).expect("it lives");
    let group = groups.lines().find_map(|line| line.split_once(":freezer:")).expect("control groups, version 1").1;
    let pod = group.rsplit_once('/').expect("a container is in its pod's").0;
    let frozen = Frozen(PathBuf::from(format!("/sys/fs/cgroup/freezer{pod}/freezer.state")));
    fs::write(&frozen.0, "FROZEN").unwrap_or_else(|error| panic!("{:?}: {error}", frozen.0));
    frozen
}

impl Drop for Frozen {
    fn drop(&mut self) {
        // A pod that is gone needs none.
        let _ = fs::write(&self.0, "THAWED");
    }
}
