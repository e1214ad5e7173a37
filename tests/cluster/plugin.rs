//! `kubectl baton`: the program that was built, as kubectl's plugin, on a workload of the cluster.

use std::os::unix::fs::symlink;
use std::process::Command;

use jiff::Timestamp;
use testkit::wait::until_within;

use crate::node::{self, attempt};
use crate::release::{PATIENCE, Release, Store};

const JOB: &str =
    r#"baton.config.jobs=[{"name":"report","schedule":"0 3 * * *","run":{"exec":{"command":["/baton","--version"]}}}]"#;

#[test]
fn the_plugin_asks_and_moves_a_workload() {
    let _shared = node::shared();
    let release = Release::install("plugin", Store::Redis, &["--set-json", JOB]);
    let plugin = node::folder().join("bin/kubectl-baton");
    symlink(env!("CARGO_BIN_EXE_baton"), plugin).expect("nobody else makes it");
    let baton = |command: &str, more: &[&str]| {
        let mut kubectl = Command::new("kubectl");
        kubectl.args(["baton", command, "--namespace", &release.namespace, "deploy/demo-baton-demo"]).args(more);
        let said = attempt(&mut kubectl, "");
        println!("kubectl baton {command} {more:?}: {said:?}");
        said
    };
    let (leader, fault) = (release.leader(), Timestamp::now());
    until_within(PATIENCE, "all pods say who leads", || {
        let said = baton("status", &[]).unwrap_or_default();
        release.pod_names().iter().all(|pod| said.contains(pod.as_str()))
    });
    assert!(baton("resign", &["scheduler"]).is_ok());
    release.gap_after(&leader, fault);
    assert_ne!(release.leader(), leader);
    assert!(baton("jobs", &["list"]).is_ok_and(|said| said.contains("report")));
    assert!(baton("jobs", &["run", "report"]).is_ok());
    until_within(PATIENCE, "the job ran in the leader's pod", || {
        baton("jobs", &["runs", "report"]).is_ok_and(|said| said.contains("succeeded"))
    });
    assert!(baton("locks", &[]).is_ok());
    let audit = baton("audit", &[]);
    assert!(audit.as_ref().is_ok_and(|said| said.contains("redis")), "{audit:?}");
    let stranger = baton("resign", &["painter"]).expect_err("no such role");
    assert!(stranger.contains("painter"), "{stranger}");
}
