//! What docs/install.md says, word for word.

use std::fs;
use std::process::Command;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;
use testkit::root;
use testkit::wait::until_within;

use crate::log::Line;
use crate::node::{self, attempt, run};
use crate::release::{PATIENCE, Release, SLACK, Store};

/// The first commands of a section, in a copy of the charts and in the release's namespace.
fn follow(section: &str, release: &Release) -> Result<String, String> {
    let page = fs::read_to_string(root().join("docs/install.md")).expect("the page is there");
    let section = page.split(&format!("\n## {section}\n")).nth(1).expect("the section is there");
    let commands = section.split("\n```sh\n").nth(1).and_then(|rest| rest.split("\n```").next()).expect("its commands");
    let folder = tempfile::tempdir().expect("a folder");
    run(Command::new("cp").arg("--recursive").arg(root().join("charts")).arg(folder.path()));
    // The page's commands are for the namespace that a new user has, and for a Redis that is there.
    run(Command::new("kubectl").args(["config", "set-context", "--current", "--namespace", &release.namespace]));
    let said = attempt(Command::new("bash").args(["-euc", commands]).current_dir(folder.path()), "");
    run(Command::new("kubectl").args(["config", "set-context", "--current", "--namespace=default"]));
    said
}

#[test]
fn the_demo_installs() {
    let _alone = node::alone();
    let release = Release::namespace("page", Store::Redis);
    let said = follow("Try the demo", &release).unwrap_or_else(|said| panic!("{said}"));
    assert!(said.contains("Phase:          Succeeded"), "{said}");
    release.leader();
    // Nothing that a new user reads on the first day warns of anything; a handover warns of nothing either.
    let (leader, fault) = (release.leader(), Timestamp::now());
    release.kubectl(&["delete", "pod", &leader, "--wait=false"]);
    release.gap_after(&leader, fault);
    release.settle();
    let complaints: Vec<_> = release.log.lines().into_iter().filter(Line::is_complaint).collect();
    assert!(complaints.is_empty(), "{complaints:?}");
}

#[test]
fn the_injector_adds_the_sidecar_where_kubernetes_has_its_policies() {
    let _alone = node::alone();
    let release = Release::namespace("injected", Store::Redis);
    let app = r#"import os, signal, urllib.request
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
while True:
    try: urllib.request.urlopen("http://127.0.0.1:4040/leader?wait=500ms").close()
    except OSError: break"#;
    let shop = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "shop"}, "spec": {
        "replicas": 3, "selector": {"matchLabels": {"app": "shop"}}, "template": {
            "metadata": {"labels": {"app": "shop"}},
            "spec": {"automountServiceAccountToken": false, "containers": [{
                "name": "shop", "image": "python:3.13-alpine", "imagePullPolicy": "IfNotPresent",
                "command": ["python3", "-c", app]}]}}}});
    let mut apply = Command::new("kubectl");
    apply.args(["--namespace", &release.namespace, "apply", "--filename", "-"]);
    attempt(&mut apply, &shop.to_string()).unwrap_or_else(|said| panic!("the shop: {said}"));
    let has_policies = run(Command::new("kubectl").args(["api-resources", "--api-group=admissionregistration.k8s.io"]))
        .lines()
        .any(|line| line.contains("/v1 ") && line.contains("MutatingAdmissionPolicyBinding"));
    let said = follow("Without touching a chart", &release);
    if !has_policies {
        let said = said.expect_err("there are none");
        assert!(said.contains("kubeVersion: >=1.36"), "{said}");
        return;
    }
    said.unwrap_or_else(|said| panic!("{said}"));
    release.kubectl(&["rollout", "status", "deployment/shop", "--timeout=90s"]);
    let leading = || release.log.terms().pop().filter(|term| term.ended.is_none()).map(|term| term.pod);
    until_within(PATIENCE, "somebody leads", || leading().is_some());
    let (leader, fault) = (leading().expect("just seen"), Timestamp::now());
    release.kubectl(&["delete", "pod", &leader, "--wait=false"]);
    let gap = release.gap_after(&leader, fault);
    println!("injected: handed over after {gap:?}");
    assert!(gap < Duration::from_secs(2) + SLACK, "{gap:?}");
    // What was injected goes on without the policy; what is made after it is plain.
    run(Command::new("helm").args(["uninstall", "shop-baton", "--namespace", &release.namespace]));
    let trial = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "trial", "labels": {"baton.dev/inject": "shop-baton"}},
        "spec": {"containers": [{"name": "shop", "image": "python:3.13-alpine"}]}});
    until_within(PATIENCE, "the policy is out of force", || {
        let mut create = Command::new("kubectl");
        create.args(["--namespace", &release.namespace, "create", "--dry-run=server", "--output=json", "--filename=-"]);
        attempt(&mut create, &trial.to_string()).is_ok_and(|pod| !pod.contains("initContainers"))
    });
    release.kubectl(&["rollout", "restart", "deployment/shop"]);
    release.kubectl(&["rollout", "status", "deployment/shop", "--timeout=90s"]);
}
