//! The clients of docs/clients/, as they stand there, against a sidecar whose answers the test decides: each must work
//! only under a promise that has not run out, and hand over when it ends. A client whose language is not installed here
//! says so and is left out; Python and the shell are always there.

mod sidecar;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use sidecar::{Answer, Sidecar};
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
        command.arg(sidecar.url());
        command
    });
    for untrustworthy in [
        Answer::Follower,
        Answer::Garbage,
        Answer::Failure,
        // The reply takes longer than the promise in it lasts.
        Answer::Leader { token: 98, valid_for_ms: 500, delay: Duration::from_millis(700) },
        // No step of the work fits into what is left.
        Answer::Leader { token: 99, valid_for_ms: 100, delay: Duration::ZERO },
    ] {
        let asked = sidecar.answer_with(untrustworthy);
        until_within(PATIENCE, "the client has asked three times", || sidecar.asked() >= asked + 3);
    }
    sidecar.answer_with(Answer::Leader { token: 41, valid_for_ms: 5_000, delay: Duration::ZERO });
    until_within(PATIENCE, "it works", || client.has_printed("acting with token 41"));
    sidecar.answer_with(Answer::Follower);
    until_within(PATIENCE, "it says that it has stopped", || sidecar.posts() == ["drained"]);
    sidecar.answer_with(Answer::Leader { token: 42, valid_for_ms: 5_000, delay: Duration::ZERO });
    until_within(PATIENCE, "it works again", || client.has_printed("acting with token 42"));
    client.terminate();
    until_within(PATIENCE, "it hands over", || sidecar.posts() == ["drained", "resign", "drained"]);
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
    if !is_installed(Command::new("go").arg("version")) {
        println!("left out: there is no Go here");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("leader");
    let mut build = Command::new("go");
    build.arg("build").arg("-o").arg(&program).arg(client("leader.go")).current_dir(folder.path());
    assert!(build.status().unwrap().success());
    behaves(Command::new(program), 0);
}

#[test]
fn the_java_client_works_only_under_a_promise() {
    let modules = Command::new("java").arg("--list-modules").stderr(Stdio::null()).output();
    // A runtime without the compiler cannot run a source file.
    if !modules.is_ok_and(|list| String::from_utf8_lossy(&list.stdout).contains("jdk.compiler")) {
        println!("left out: there is no Java development kit here");
        return;
    }
    let mut command = Command::new("java");
    command.arg(client("Leader.java"));
    behaves(command, 128 + 15);
}

#[test]
fn the_node_client_works_only_under_a_promise() {
    if !is_installed(Command::new("node").args(["--eval", "process.exit(typeof fetch === 'function' ? 0 : 1)"])) {
        println!("left out: there is no Node 18 or later here");
        return;
    }
    let mut command = Command::new("node");
    command.arg(client("leader.mjs"));
    behaves(command, 0);
}

#[test]
fn a_client_that_trusts_late_promises_is_caught() {
    let script = "while :; do curl --silent \"$0\" | grep -q true && echo 'acting with token 98'; sleep 0.05; done";
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    let sidecar = Sidecar::start();
    sidecar.answer_with(Answer::Leader { token: 98, valid_for_ms: 500, delay: Duration::from_millis(700) });
    let careless = Running::start({
        command.arg(sidecar.url());
        command
    });
    until_within(PATIENCE, "the careless client works", || careless.has_printed("acting with token 98"));
}
