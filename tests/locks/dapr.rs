//! Dapr's published client takes locks from real sidecars on a real Redis.

use std::path::Path;
use std::process::{Command, Stdio};

use testkit::redis::RedisServer;

use crate::sidecar::{GUARD, LOCK_STORE, Sidecar, Store};

/// Runs a command in a folder; what it wrote.
fn run(folder: &Path, program: &str, arguments: &[&str]) -> String {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder).stdin(Stdio::null());
    let output = command.output().unwrap_or_else(|error| panic!("{program}: {error}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {}\n{text}{errors}", output.status);
    text
}

#[test]
#[ignore = "installs the client from npm's registry: make e2e"]
fn daprs_published_node_client_takes_is_refused_and_frees_locks() {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e/dapr");
    let folder = tempfile::tempdir().unwrap();
    for file in ["package.json", "package-lock.json"] {
        std::fs::copy(scripts.join(file), folder.path().join(file)).unwrap();
    }
    // What the lock file says and nothing else, with its hashes; no code of a package runs while it is installed.
    run(folder.path(), "npm", &["ci", "--ignore-scripts", "--no-audit", "--no-fund"]);

    let redis = RedisServer::start();
    let sidecars = Sidecar::several(2, &Store::of(&redis), GUARD);
    sidecars.iter().for_each(Sidecar::until_open);
    let errors = |sidecar: &Sidecar| sidecar.metric("baton_locks_acquisitions_total{outcome=\"error\"}");
    // Those of who asked whether it was open before it had a connection.
    let before: Vec<f64> = sidecars.iter().map(errors).collect();
    let client = scripts.join("client.mjs");
    let ports: Vec<String> = sidecars.iter().map(|sidecar| sidecar.api.port().to_string()).collect();
    let said = run(folder.path(), "node", &[client.to_str().unwrap(), LOCK_STORE, &ports[0], &ports[1]]);
    println!("{said}");
    sidecars[0].until_like("dapr%2Flockstore%2Forder%2F42", 0, 0);
    for (sidecar, before) in sidecars.iter().zip(before) {
        assert_eq!(errors(sidecar), before);
        assert!(
            sidecar.metric("baton_store_command_duration_seconds_count{command=\"lock_acquire\",outcome=\"ok\"}") > 0.0
        );
    }
}
