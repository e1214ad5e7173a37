//! The clients of docs/clients/, as they stand there, against a sidecar whose answers the test decides: each must work
//! only under a promise that has not run out, and hand over when it ends. A client whose language is not installed here
//! says so and is left out; Python and the shell are always there.

mod cells;
mod client;
mod packages;
mod sidecar;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use sidecar::{Answers, Sidecar};
use testkit::programs::{Running, is_installed};
use testkit::wait::until_within;

/// Java compiles its client first, which takes a busy machine more than a minute.
const PATIENCE: Duration = Duration::from_secs(180);

fn client(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/clients").join(name)
}

/// The life of one client. `code`: what it exits with after SIGTERM.
fn behaves(mut command: Command, code: i32) {
    let sidecar = Sidecar::start();
    let mut client = Running::start({
        command.arg(format!("{}/leader/scheduler", sidecar.url()));
        command
    });
    let asks = |answers, valid_for_ms| {
        let asked = sidecar.answer(answers);
        sidecar.lead(98, Duration::from_millis(valid_for_ms));
        until_within(PATIENCE, "the client has asked three times", || sidecar.asked() >= asked + 3);
    };
    let posts = || -> Vec<String> { sidecar.posts().into_iter().map(|post| post.word).collect() };
    for wrong in [Answers::Garbled, Answers::Failing] {
        asks(wrong, 5_000);
    }
    // The reply takes longer than the promise in it lasts.
    asks(Answers::Late(Duration::from_millis(700)), 500);
    // No step of the work fits into what is left.
    asks(Answers::Well, 100);
    sidecar.follow();
    let asked = sidecar.asked();
    until_within(PATIENCE, "the client has asked three times", || sidecar.asked() >= asked + 3);
    sidecar.lead(41, Duration::from_secs(5));
    until_within(PATIENCE, "it works", || client.has_printed("acting with token 41"));
    sidecar.follow();
    until_within(PATIENCE, "it says that it has stopped", || posts() == ["drained"]);
    sidecar.lead(42, Duration::from_secs(5));
    until_within(PATIENCE, "it works again", || client.has_printed("acting with token 42"));
    client.terminate();
    until_within(PATIENCE, "it hands over", || posts() == ["drained", "resign", "drained"]);
    let mut ended = None;
    until_within(PATIENCE, "it has ended", || {
        ended = client.ended();
        ended.is_some()
    });
    assert_eq!(ended.flatten(), Some(code));
    let lines = client.lines();
    let strange = lines.iter().filter(|l| !matches!(l.as_str(), "acting with token 41" | "acting with token 42"));
    assert_eq!(strange.count(), 0, "it worked without a promise that held, or said something else: {lines:?}");
}

#[test]
fn the_python_client_works_only_under_a_promise() {
    let mut command = Command::new("python3");
    command.arg(client("leader.py"));
    behaves(command, 0);
}

#[test]
fn the_shell_client_works_only_under_a_promise() {
    let mut command = Command::new("sh");
    command.arg(client("leader.sh"));
    behaves(command, 0);
}

#[test]
fn the_go_client_works_only_under_a_promise() {
    let Some((_built, command)) = go_client() else { return println!("left out: there is no Go here") };
    behaves(command, 0);
}

/// Built into a folder that lasts as long as what is returned.
fn go_client() -> Option<(tempfile::TempDir, Command)> {
    if !is_installed(Command::new("go").arg("version")) {
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("leader");
    let mut build = Command::new("go");
    build.arg("build").arg("-o").arg(&program).arg(client("leader.go")).current_dir(folder.path());
    assert!(build.status().unwrap().success());
    Some((folder, Command::new(program)))
}

#[test]
fn the_java_client_works_only_under_a_promise() {
    let Some(command) = java_client() else { return println!("left out: there is no Java development kit here") };
    behaves(command, 128 + 15);
}

fn java_client() -> Option<Command> {
    let modules = Command::new("java").arg("--list-modules").stderr(Stdio::null()).output();
    // A runtime without the compiler cannot run a source file.
    if !modules.is_ok_and(|list| String::from_utf8_lossy(&list.stdout).contains("jdk.compiler")) {
        return None;
    }
    let mut command = Command::new("java");
    command.arg(client("Leader.java"));
    Some(command)
}

#[test]
fn the_node_client_works_only_under_a_promise() {
    let Some(command) = node_client() else { return println!("left out: there is no Node 18 or later here") };
    behaves(command, 0);
}

fn node_client() -> Option<Command> {
    if !is_installed(Command::new("node").args(["--eval", "process.exit(typeof fetch === 'function' ? 0 : 1)"])) {
        return None;
    }
    let mut command = Command::new("node");
    command.arg(client("leader.mjs"));
    Some(command)
}

#[test]
fn a_client_that_trusts_late_promises_is_caught() {
    let script = "while :; do curl --silent \"$0\" | grep -q true && echo 'acting with token 98'; sleep 0.05; done";
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    let sidecar = Sidecar::start();
    sidecar.lead(98, Duration::from_millis(500));
    sidecar.answer(Answers::Late(Duration::from_millis(700)));
    let careless = Running::start({
        command.arg(format!("{}/leader/scheduler", sidecar.url()));
        command
    });
    until_within(PATIENCE, "the careless client works", || careless.has_printed("acting with token 98"));
}
