//! What operators do to a release: upgrade it, change its store, its roles, its password, and uninstall it.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;
use testkit::wait::until_within;

use crate::node::{self, attempt, run};
use crate::release::{LEASE, PATIENCE, Release, SLACK, Store};

/// How long a pod may take to see a changed ConfigMap or Secret: the kubelet looks about once a minute.
const SEEN: Duration = Duration::from_secs(150);

#[test]
fn from_redis_to_lease_objects_and_back() {
    let _shared = node::shared();
    let release = Release::install("moves", Store::Redis, &[]);
    let reused = release.try_helm(
        ["upgrade", "demo"],
        &["--reuse-values".to_owned()],
        &["--set", "baton.config.store.redis=null", "--set-json", "baton.config.store.kubernetes={}"],
    );
    let said = reused.expect_err("a null undoes what was set, and then the default is back");
    assert!(said.contains("--reuse-values"), "{said}");
    let terms = release.terms();
    for (step, store) in [Store::Leases, Store::Redis].into_iter().enumerate() {
        release.helm(["upgrade", "demo"], &store.arguments(), &[]);
        until_within(PATIENCE, "somebody leads on the other store", || release.terms() > terms + step);
        release.settle();
    }
}

#[test]
fn a_role_more_comes_without_new_pods() {
    let _shared = node::shared();
    let release = Release::install("roles", Store::Redis, &[]);
    let (before, leader) = (release.pod_names(), release.leader());
    release.change(&["--set-json", r#"baton.config.roles=[{"name":"scheduler"},{"name":"mailer"}]"#]);
    until_within(SEEN, "every sidecar knows the role", || {
        let knows =
            |pod: &String| release.try_kubectl(&["exec", pod, "--container", "baton", "--", "/baton", "status"]);
        before.iter().all(|pod| knows(pod).is_ok_and(|said| said.lines().any(|line| line.starts_with("mailer "))))
    });
    assert_eq!((release.pod_names(), release.leader()), (before, leader));
}

#[test]
fn a_rotated_password_costs_nobody_a_term() {
    let _shared = node::shared();
    let release = Release::namespace("rotated", Store::Redis);
    let secret = |password: &str| {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login"},
            "stringData": {"password": password}});
        let mut apply = Command::new("kubectl");
        apply.args(["--namespace", &release.namespace, "apply", "--filename", "-"]);
        attempt(&mut apply, &secret.to_string()).unwrap_or_else(|said| panic!("the Secret: {said}"));
    };
    secret("first");
    let redis =
        |arguments: &[&str]| release.kubectl(&[&["exec", "deployment/redis", "--", "redis-cli"], arguments].concat());
    redis(&["acl", "setuser", "default", "resetpass", ">first"]);
    release.helm(
        ["install", "demo"],
        &Store::Redis.arguments(),
        &["--set", "baton.redis.existingSecret=login", "--set", "baton.redis.passwordKey=password"],
    );
    let (leader, terms) = (release.leader(), release.terms());
    // Both hold, until every pod has the new one.
    redis(&["--pass", "first", "--no-auth-warning", "acl", "setuser", "default", ">second"]);
    secret("second");
    let seen = |pod: &String| {
        let mut file = Command::new("kubectl");
        file.args(["--namespace", &release.namespace, "exec", pod, "--container", "baton", "--", "/baton", "status"]);
        attempt(&mut file, "")
    };
    until_within(SEEN, "every pod has the new one", || {
        // The image has nothing to show a file with; its processes' files are on this machine.
        release.pod_names().iter().all(|pod| {
            let process = release.processes(pod, "baton")[0];
            let files = format!("/proc/{process}/root");
            fs::read_to_string(Path::new(&files).join("etc/baton-secrets/password")).is_ok_and(|text| text == "second")
        })
    });
    redis(&["--pass", "second", "--no-auth-warning", "acl", "setuser", "default", "<first"]);
    redis(&["--pass", "second", "--no-auth-warning", "client", "kill", "type", "normal", "skipme", "yes"]);
    redis(&["--pass", "second", "--no-auth-warning", "client", "kill", "type", "pubsub"]);
    until_within(PATIENCE, "all are back", || {
        release.pod_names().iter().all(|pod| seen(pod).is_ok_and(|said| said.contains(&leader)))
    });
    assert_eq!((release.leader(), release.terms()), (leader, terms));
}

/// Nothing is left that keeps the next installation from a leader for longer than a new one takes.
#[test]
fn an_uninstall_after_scaling_to_zero_leaves_a_free_lease() {
    let _shared = node::shared();
    for store in Store::BOTH {
        let release = Release::install("leaves", store, &[]);
        release.kubectl(&["scale", "deployment/demo-baton-demo", "--replicas=0"]);
        until_within(PATIENCE, "the pods are gone", || release.pod_names().is_empty());
        release.kubectl(&[
            "wait",
            "--for=delete",
            "pod",
            "--selector=app.kubernetes.io/name=baton-demo",
            "--timeout=60s",
        ]);
        run(Command::new("helm").args(["uninstall", "demo", "--wait", "--namespace", &release.namespace]));
        let last = release.log.terms().pop().expect("somebody led");
        assert!(last.ended.is_some(), "it was given back: {last:?}");
        let terms = release.terms();
        let began = Timestamp::now();
        release.helm(["install", "demo"], &store.arguments(), &[]);
        until_within(PATIENCE, "somebody leads again", || release.terms() > terms);
        let after = Duration::try_from(release.log.terms().pop().expect("just seen").begun - began).expect("forwards");
        println!("installed again on {}: a leader after {after:?}", store.name());
        assert!(after < LEASE + SLACK, "{after:?}");
        assert_eq!(node::refusals(&release.namespace), Vec::<String>::new());
    }
}

/// What uninstalling takes away while the pods still end is asked for once, and told once.
#[test]
fn an_uninstall_at_once_is_quiet() {
    let _shared = node::shared();
    let release = Release::install("abrupt", Store::Leases, &[]);
    run(Command::new("helm").args(["uninstall", "demo", "--wait", "--namespace", &release.namespace]));
    release.kubectl(&["wait", "--for=delete", "pod", "--selector=app.kubernetes.io/name=baton-demo", "--timeout=60s"]);
    let refused = node::refusals(&release.namespace);
    let complaints: Vec<_> = release.log.lines().into_iter().filter(crate::log::Line::is_complaint).collect();
    println!("refused: {refused:?}; complaints: {}", complaints.len());
    // The last of each of three pods, and what each was about to do.
    assert!(refused.len() <= 9, "{refused:?}");
    assert!(complaints.len() <= 9, "{complaints:?}");
}
