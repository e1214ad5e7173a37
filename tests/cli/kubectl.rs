//! `kubectl baton`: the binary under its other name, with a stand-in for kubectl whose pods are those of `baton dev`.
//! On a real cluster it is tried by `make cluster`.

use std::os::unix::fs::{PermissionsExt, symlink};

use serde_json::json;

use crate::bench::{Bench, Running, Said, dev_port};

/// What it was asked goes into `asked`; a program in a pod is the binary, beside the replica whose name that pod has.
const KUBECTL: &str = r#"#!/bin/sh
echo "$*" >>asked
case "$*" in
*"get --output json deploy/shop") cat deployment.json ;;
*"get --output json deployment/shop statefulset/shop daemonset/shop --ignore-not-found") cat deployment.json ;;
*"get --output json deployment/twice"*) cat two.json ;;
*"--ignore-not-found") ;;
*"get --output json pods --selector app=shop,tier in (a,b)") cat pods.json ;;
*"get --output json pod/dev-1") cat pod.json ;;
*exec*)
    while [ "$1" != exec ]; do shift; done
    pod=$2
    [ "$pod" != gone ] || { echo "error: the container is not there" >&2; exit 1; }
    while [ "$1" != -- ]; do shift; done
    [ "$2" = /opt/baton ] || { echo "error: no $2" >&2; exit 126; }
    shift 2
    BATON_API=127.0.0.1:$((PORT + ${pod#dev-})) exec "$BATON" "$@" ;;
*) echo "Error from server (NotFound)" >&2; exit 1 ;;
esac
"#;

struct Cluster {
    bench: Bench,
    _replicas: Running,
}

/// Two pods that are replicas, one that has ended, and one that is on its way out.
async fn cluster(more: &[&str]) -> Cluster {
    let port = dev_port();
    let path = std::env::var("PATH").unwrap();
    let bench = Bench::new().with("PORT", &port.to_string()).with("BATON", env!("CARGO_BIN_EXE_baton"));
    let bin = bench.path("");
    let bench = bench.with("PATH", &format!("{}:{path}", bin.display()));
    let kubectl = bench.file("kubectl", KUBECTL);
    std::fs::set_permissions(kubectl, PermissionsExt::from_mode(0o755)).unwrap();
    symlink(env!("CARGO_BIN_EXE_baton"), bench.path("kubectl-baton")).unwrap();
    let deployment = json!({"kind": "Deployment", "spec": {"selector": {"matchLabels": {"app": "shop"},
        "matchExpressions": [{"key": "tier", "operator": "In", "values": ["a", "b"]}]}}});
    let pod = |name: &str, phase: &str| json!({"metadata": {"name": name}, "status": {"phase": phase}});
    let mut leaving = pod("dev-8", "Running");
    leaving["metadata"]["deletionTimestamp"] = "2026-11-23T00:00:00Z".into();
    let mut pods = vec![pod("dev-1", "Running"), pod("dev-0", "Running"), pod("dev-9", "Succeeded"), leaving];
    pods.extend(more.iter().map(|name| pod(name, "Running")));
    bench.file("deployment.json", &deployment.to_string());
    bench.file("two.json", &json!({"kind": "List", "items": [deployment, deployment]}).to_string());
    bench.file("pods.json", &json!({"items": pods}).to_string());
    bench.file("pod.json", &pod("dev-1", "Running").to_string());
    let replicas = bench.start(&["dev", "--replicas", "2", "--port", &port.to_string()]);
    replicas.says(" leads (token").await;
    Cluster { bench, _replicas: replicas }
}

impl Cluster {
    async fn plugin(&self, arguments: &[&str]) -> Said {
        let arguments = [&["--namespace", "shop", "--context=test", "--program", "/opt/baton"], arguments].concat();
        self.bench.run(self.bench.path("kubectl-baton").to_str().unwrap(), &arguments).await
    }
}

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

#[tokio::test]
async fn every_pod_of_a_workload_is_shown_and_the_leader_is_asked_to_resign() {
    let cluster = cluster(&[]).await;
    for workload in ["deploy/shop", "shop"] {
        let said = cluster.plugin(&["status", workload]).await.ends_with(0);
        let rows: Vec<Vec<&str>> = said.out.lines().map(words).collect();
        assert_eq!(rows[0][..4], ["POD", "ROLE", "STATE", "TOKEN"], "{}", said.out);
        let mut states = [rows[1][..3].to_vec(), rows[2][..3].to_vec()];
        assert_eq!((rows.len(), states[0][0], states[1][0]), (3, "dev-0", "dev-1"), "{}", said.out);
        states.sort_unstable_by_key(|row| row[2]);
        assert_eq!((states[0][2], states[1][2]), ("leading", "standby"), "{}", said.out);
    }
    let leader = async || {
        let json = cluster.plugin(&["status", "deploy/shop", "-o", "json"]).await.ends_with(0).json();
        let leads = |pod: &&serde_json::Value| pod["status"]["roles"][0]["leads"] == true;
        json["pods"].as_array().unwrap().iter().find(leads).map(|pod| pod["pod"].as_str().unwrap().to_owned())
    };
    let first = leader().await.expect("one leads");
    let said = cluster.plugin(&["resign", "deploy/shop", "scheduler", "--cooldown", "1m"]).await.ends_with(0);
    assert_eq!(said.out, format!("scheduler: {first} hands over\n"));
    testkit::wait_until_async(crate::bench::PATIENCE, "the other leads", async || {
        leader().await.is_some_and(|now| now != first)
    })
    .await;
    let asked = cluster.bench.read("asked");
    assert!(asked.lines().all(|line| line.starts_with("--namespace=shop --context=test ")), "{asked}");
    let said = cluster.plugin(&["resign", "pod/dev-1", "mailer"]).await.ends_with(1);
    assert_eq!(said.err, "mailer: none of the 1 pods of pod/dev-1 leads it\n");
}

#[tokio::test]
async fn a_pod_that_does_not_answer_is_named_beside_the_others() {
    let cluster = cluster(&["gone"]).await;
    let said = cluster.plugin(&["status", "deploy/shop"]).await.ends_with(1);
    assert_eq!((said.out.lines().count(), said.err.as_str()), (3, "gone: error: the container is not there\n"));
    let json = cluster.plugin(&["status", "deploy/shop", "-o", "json"]).await.ends_with(1).json();
    assert_eq!(json["pods"][2], json!({"pod": "gone", "error": "error: the container is not there"}));
    let said = cluster.plugin(&["status", "pod/dev-1", "--program", "/baton"]).await.ends_with(69);
    assert_eq!(said.err, "dev-1: error: no /baton\n");
}

#[tokio::test]
async fn what_the_sidecars_own_commands_say_and_end_with_is_passed_on() {
    let cluster = cluster(&[]).await;
    assert!(cluster.plugin(&["locks", "deploy/shop"]).await.ends_with(0).out.contains("no lock is held"));
    assert_eq!(cluster.plugin(&["locks", "deploy/shop", "-o", "json"]).await.ends_with(0).out, "[]\n");
    let said = cluster.plugin(&["jobs", "deploy/shop", "run", "nothing"]).await;
    assert!(said.code != 0 && said.err.contains("nothing"), "{said:?}");
    cluster.plugin(&["audit", "deploy/shop", "--config", "absent.yaml"]).await.ends_with(64);
}

#[tokio::test]
async fn workloads_that_are_not_there_or_are_not_one_are_named() {
    let cluster = cluster(&[]).await;
    for (workload, code, words) in [
        ("deploy/other", 69, "Error from server (NotFound)"),
        ("other", 64, "there is no Deployment, StatefulSet or DaemonSet other in this namespace"),
        ("twice", 64, "twice is the name of several kinds: say deploy/twice, sts/… or ds/…"),
    ] {
        let said = cluster.plugin(&["status", workload]).await.ends_with(code);
        assert_eq!(said.err, format!("kubectl baton: {words}\n"));
    }
    cluster.plugin(&["status"]).await.ends_with(64);
    let alone = Bench::new().with("PATH", "/nowhere");
    symlink(env!("CARGO_BIN_EXE_baton"), alone.path("kubectl-baton")).unwrap();
    let said = alone.run(alone.path("kubectl-baton").to_str().unwrap(), &["status", "shop"]).await.ends_with(69);
    assert!(said.err.starts_with("kubectl baton: kubectl cannot be run: "), "{}", said.err);
}
