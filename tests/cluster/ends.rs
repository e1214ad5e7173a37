//! The leader's pod ends as pods do: its lease is given back.

use std::process::Command;
use std::time::Duration;

use jiff::Timestamp;
use testkit::wait::until_within;

use crate::node::{self, attempt};
use crate::release::{LEASE, PATIENCE, Release, SLACK, Store};
use crate::table;

/// How long nobody may lead when the lease is given back: milliseconds, on a machine that is not busy.
const HANDOVER: Duration = Duration::from_secs(2);

#[test]
fn pods_that_end_hand_over_on_redis() {
    pods_that_end_hand_over(Store::Redis);
}

#[test]
fn pods_that_end_hand_over_on_lease_objects() {
    pods_that_end_hand_over(Store::Leases);
}

fn pods_that_end_hand_over(store: Store) {
    let _shared = node::shared();
    let release = Release::install("ends", store, &[]);
    ends(&release, "the leader's pod is deleted", 1, &|leader| {
        release.kubectl(&["delete", "pod", leader, "--wait=false"]);
    });
    ends(&release, "… with `--force --grace-period=0`", 1, &|leader| {
        release.kubectl(&["delete", "pod", leader, "--force", "--grace-period=0", "--wait=false"]);
    });
    ends(&release, "… is evicted", 1, &|leader| evict(&release, leader));
    // A pod that is about to be replaced may be elected before.
    ends(&release, "`kubectl rollout restart` of three", 3, &|_| {
        release.kubectl(&["rollout", "restart", "deployment/demo-baton-demo"]);
    });
    release.kubectl(&["scale", "deployment/demo-baton-demo", "--replicas=5"]);
    release.settle();
    let terms = release.terms();
    // Which of the five stays is the controller's choice: it may be the leader.
    release.kubectl(&["scale", "deployment/demo-baton-demo", "--replicas=1"]);
    release.settle();
    table::note("`kubectl scale` from five to one", store, release.gaps_since(terms).into_iter().max(), HANDOVER);
    let terms = release.terms();
    release.kubectl(&["scale", "deployment/demo-baton-demo", "--replicas=3"]);
    release.settle();
    assert_eq!(release.terms(), terms, "whoever is new takes nothing from whoever leads");
    assert_eq!(node::refusals(&release.namespace), Vec::<String>::new());
}

/// Each new pod is there before an old one ends, and knows by its own label that it is newer.
#[test]
fn a_rollout_hands_over_once_where_the_newest_is_preferred() {
    let _shared = node::shared();
    let roles = r#"baton.config.roles=[{"name": "scheduler", "prefer": "newest"}]"#;
    let release = Release::install("newest", Store::Redis, &["--set-json", roles]);
    for _ in 0..3 {
        let (leader, terms, fault) = (release.leader(), release.terms(), Timestamp::now());
        release.kubectl(&["rollout", "restart", "deployment/demo-baton-demo"]);
        release.gap_after(&leader, fault);
        release.settle();
        let gaps = release.gaps_since(terms);
        println!("`kubectl rollout restart` where the newest is preferred: {gaps:?}");
        assert!(gaps.len() == 1 && gaps[0] <= HANDOVER, "{gaps:?}");
    }
}

/// A handover in time, or so many at most; the longest is noted.
fn ends(release: &Release, row: &'static str, most: usize, end: &dyn Fn(&str)) {
    let (leader, terms, fault) = (release.leader(), release.terms(), Timestamp::now());
    end(&leader);
    release.gap_after(&leader, fault);
    release.settle();
    let gaps = release.gaps_since(terms);
    assert!((1..=most).contains(&gaps.len()), "{row}: {gaps:?}");
    println!("{row}, {}: {gaps:?}", release.store.name());
    table::note(row, release.store, gaps.into_iter().max(), HANDOVER);
}

fn evict(release: &Release, pod: &str) {
    let eviction = format!(
        r#"{{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {{"name": "{pod}", "namespace": "{}"}}}}"#,
        release.namespace
    );
    let url = format!("/api/v1/namespaces/{}/pods/{pod}/eviction", release.namespace);
    let mut create = Command::new("kubectl");
    create.args(["create", "--raw", &url, "--filename", "-"]);
    attempt(&mut create, &eviction).unwrap_or_else(|said| panic!("evicting {pod}: {said}"));
}

/// A node that is drained takes nobody: this one alone on it.
#[test]
fn a_drained_node_hands_over() {
    for store in Store::BOTH {
        let _alone = node::alone();
        let release = Release::install("drained", store, &[]);
        let (leader, fault) = (release.leader(), Timestamp::now());
        release.kubectl(&["label", "pod", &leader, "drained=now"]);
        release.kubectl(&["drain", "node", "--pod-selector=drained=now", "--delete-emptydir-data", "--timeout=60s"]);
        let gap = release.gap_after(&leader, fault);
        release.kubectl(&["uncordon", "node"]);
        release.settle();
        table::note("… is drained from its node", store, Some(gap), HANDOVER);
    }
}

/// It is killed when its grace is over. The sidecar gets its own signal after that.
#[test]
fn an_app_that_ignores_sigterm_hands_over_when_it_is_killed() {
    let _shared = node::shared();
    for store in Store::BOTH {
        let release = Release::install("deaf", store, &[]);
        let stubborn = r#"import os, signal, urllib.request
signal.signal(signal.SIGTERM, signal.SIG_IGN)
while True:
    try: urllib.request.urlopen(os.environ["BATON_LEADER_URL"] + "?wait=500ms").close()
    except OSError: pass"#;
        let worker = serde_json::json!({"name": "worker", "command": ["python3", "-c", stubborn]});
        let patch = serde_json::json!({"spec": {"template": {"spec": {
            "terminationGracePeriodSeconds": 5, "containers": [worker]}}}});
        release.kubectl(&["patch", "deployment", "demo-baton-demo", "--patch", &patch.to_string()]);
        release.settle();
        let (leader, fault) = (release.leader(), Timestamp::now());
        release.kubectl(&["delete", "pod", &leader, "--wait=false"]);
        let gap = release.gap_after(&leader, fault);
        // The last promise may still stand when the kubelet kills the sidecar, too: then the lease runs out.
        table::note("its app ignores SIGTERM, and the pod is deleted", store, Some(gap), LEASE + SLACK);
        let killed = release.log.terms().iter().rev().find(|term| term.pod == leader).and_then(|term| term.ended);
        let after = Duration::try_from(killed.expect("it was given back") - fault).expect("forwards");
        assert!(after >= Duration::from_secs(4), "not before the app has ended: {after:?}");
    }
}

/// The sidecar is an ordinary container: both get the signal at once.
#[test]
fn an_ordinary_container_hands_over_after_its_app_has_drained() {
    let _shared = node::shared();
    let release = Release::install("ordinary", Store::Redis, &["--set", "baton.nativeSidecar=false"]);
    let (leader, fault) = (release.leader(), Timestamp::now());
    release.kubectl(&["delete", "pod", &leader, "--wait=false"]);
    assert!(release.gap_after(&leader, fault) < HANDOVER + SLACK);
    release.settle();
}

#[test]
fn a_job_ends_with_its_app() {
    let _shared = node::shared();
    let release = Release::install("once", Store::Redis, &[]);
    let mut pod = release.get(&["deployment", "demo-baton-demo"])["spec"]["template"].take();
    pod["metadata"]["labels"] = serde_json::json!({"app": "once"});
    pod["spec"]["restartPolicy"] = "Never".into();
    pod["spec"].as_object_mut().expect("a spec").remove("topologySpreadConstraints");
    pod["spec"]["containers"][0]["command"] = serde_json::json!(["python3", "-c", "print('done')"]);
    let job = serde_json::json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "once"},
        "spec": {"template": pod, "backoffLimit": 0}});
    let mut create = Command::new("kubectl");
    create.args(["--namespace", &release.namespace, "create", "--filename", "-"]);
    attempt(&mut create, &job.to_string()).unwrap_or_else(|said| panic!("the Job: {said}"));
    until_within(PATIENCE, "the Job is complete", || release.get(&["job", "once"])["status"]["succeeded"] == 1);
    let pod = release.get(&["pods", "--selector", "app=once"])["items"][0].take();
    let sidecar = &pod["status"]["initContainerStatuses"][0]["state"]["terminated"];
    assert_eq!(sidecar["exitCode"], 0, "{pod}");
}
