//! Leaders that die beside a kubelet that says so: `kubernetes.fastFailover`, on a real Redis and a stand-in for the
//! API server.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::kubernetes::{FakeApi, NAMESPACE};
use testkit::redis::RedisServer;
use testkit::sidecars::claims::Term;
use testkit::sidecars::replica::{Lease, Settings};
use testkit::wait::until;

use crate::group::{self, Group, ms_between};

/// So long that nobody is next because of it while a test looks.
const LONG: Lease = Lease { duration: 60_000, renew: 1_000, margin: 1_200, validity: 700 };
/// What others may have to wait for: the longer of the last answer's validity and the margin.
const PROMISE: Duration = Duration::from_millis(1_200);

/// Pods of an app and a sidecar, and their API server. Fields end in this order.
struct Pods {
    group: Group,
    api: FakeApi,
    dir: TempDir,
}

impl Pods {
    fn start(replicas: usize, lease: Lease) -> Self {
        let (dir, api) = (TempDir::new().expect("a temporary directory"), FakeApi::start());
        let (redis, kubeconfig) = (RedisServer::start(), api.kubeconfig());
        let settings = (0..replicas).map(|number| {
            let message = dir.path().join(format!("web-{number}"));
            std::fs::write(&message, "").expect("a file as a kubelet makes it");
            api.put_pod(&pod(number, "Running", running("baton"), running("app")));
            Settings {
                kubeconfig: Some(kubeconfig.clone()),
                env: pod_variables(number),
                more: format!(
                    "kubernetes: {{ fastFailover: true, terminationMessagePath: \"{}\" }}\n",
                    message.display()
                ),
                // A new Redis with a long lease: its first leader shall not wait for that.
                redis_more: ", guard: \"off\"".to_owned(),
                ..Settings::new(number, redis.url(), lease)
            }
        });
        let settings = settings.collect();
        Self { group: group::start_with(redis, settings), api, dir }
    }

    fn message_path(&self, number: usize) -> PathBuf {
        self.dir.path().join(format!("web-{number}"))
    }

    /// What this replica's process has left for the case of its end.
    fn message(&self, number: usize) -> String {
        std::fs::read_to_string(self.message_path(number)).expect("the kubelet's file")
    }

    /// Waits until somebody leads and every other replica watches its pod.
    fn watched_leader(&self, leads: impl Fn(&Term) -> bool) -> Term {
        let leader = self.group.leader_that("somebody leads", leads);
        let pod = format!("web-{}", leader.who.replica);
        until("the leader's pod is watched", || self.api.count("watch", &pod) > 0);
        leader
    }

    /// How often a release in the place of another was counted by those that live, which is all but one.
    fn departed(&self, dead: usize) -> f64 {
        let alive = self.group.replicas.iter().enumerate().filter(|(number, _)| *number != dead);
        alive.map(|(_, replica)| replica.role_metric("baton_releases_total", &[("reason", "departed")])).sum()
    }

    /// Starts the next process in the pod of a replica, as a kubelet does.
    fn start_again(&mut self, number: usize) {
        std::fs::write(self.message_path(number), "").expect("a new file");
        self.group.start_again(number);
    }
}

fn pod_variables(number: usize) -> Vec<(String, String)> {
    let (name, uid) = (format!("web-{number}"), format!("uid-{number}"));
    [("POD_NAME", name.as_str()), ("POD_NAMESPACE", NAMESPACE), ("POD_UID", uid.as_str())]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec()
}

fn container(name: &str, state: &Value) -> Value {
    json!({"name": name, "ready": false, "restartCount": 0, "image": "", "imageID": "", "state": state})
}

fn running(name: &str) -> Value {
    container(name, &json!({"running": {"startedAt": "2026-11-20T10:00:00Z"}}))
}

/// Of a fault of its own, which no runtime makes up.
const CRASHED: i32 = 139;

fn terminated(reason: &str, message: &str) -> Value {
    with_code(CRASHED, reason, message)
}

fn with_code(code: i32, reason: &str, message: &str) -> Value {
    json!({"terminated": {"exitCode": code, "reason": reason, "message": message}})
}

fn ended(name: &str, message: &str) -> Value {
    container(name, &terminated("Error", message))
}

fn pod(number: usize, phase: &str, sidecar: Value, app: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("web-{number}"), "namespace": NAMESPACE, "uid": format!("uid-{number}")},
        "spec": {"containers": [{"name": "app"}, {"name": "baton"}]},
        "status": {"phase": phase, "containerStatuses": [app, sidecar]},
    })
}

#[test]
fn a_leader_whose_end_is_proven_is_followed_once_nobody_may_act_on_its_word() {
    let mut pods = Pods::start(3, LONG);
    let first = pods.watched_leader(|_| true);
    let (dead, message) = (first.who.replica, pods.message(first.who.replica));
    assert!(message.starts_with(&format!("baton/1 pod=uid-{dead} promise_ms=1200 reach=pod session=")), "{message}");
    pods.group.replicas[dead].kill();
    // The sidecar alone: its app may act to the end of the last answer.
    let told_at = Instant::now();
    pods.api.put_pod(&pod(dead, "Running", ended("baton", &message), running("app")));
    let second = pods.watched_leader(|term| term.token > first.token);
    let took = second.from - told_at;
    assert!(took >= PROMISE, "{took:?} after the kubelet's word");
    assert!(took < LONG.duration() / 2, "it was not the lease that ended: {took:?}");
    assert!(pods.departed(dead) >= 1.0);
    let logged =
        |replica: usize| pods.group.replicas[replica].has_logged(&["process has ended", &format!("web-{dead}")]);
    assert!((0..3).any(logged), "the log of whoever gave it back says so");

    // It is started again in the same pod, and old accounts of its end come again: they are about nobody who leads.
    pods.start_again(dead);
    let mut again = running("baton");
    again["lastState"] = terminated("Error", &message);
    pods.api.put_pod(&pod(dead, "Running", again, running("app")));

    // The whole pod: nobody is left to act.
    let (dead, message) = (second.who.replica, pods.message(second.who.replica));
    pods.group.replicas[dead].kill();
    // Its app ends with it, whatever it had been told.
    pods.group.apps.has_drained(second.who);
    let second_told_at = Instant::now();
    pods.api.put_pod(&pod(dead, "Failed", ended("baton", &message), ended("app", "")));
    let third = pods.watched_leader(|term| term.token > second.token);
    let at_once = third.from - second_told_at;
    assert!(at_once < LONG.duration() / 2, "{at_once:?}");
    pods.group.still_leads(&third, Duration::from_millis(500));

    // Of whoever led before it may be told again and again.
    pods.api.put_pod(&pod(dead, "Failed", ended("baton", &message), ended("app", "")));
    pods.group.still_leads(&third, Duration::from_millis(500));
    let (alone, whole) = (ms_between(told_at, second.from), ms_between(second_told_at, third.from));
    let others: Vec<_> = pods.api.asked().into_iter().filter(|(verb, _)| *verb != "watch").collect();
    assert_eq!(others, [], "nothing but watches is asked for");
    let Pods { group, .. } = pods;
    let measured = format!("{alone} ms after the sidecar's end is told, {whole} ms after the pod's, lease 60 s, ");
    group.finish("ends that Kubernetes proves", &measured);
}

#[test]
fn what_proves_no_end_changes_nothing() {
    let mut pods = Pods::start(3, Lease::LONG);
    let first = pods.watched_leader(|_| true);
    let (dead, follower) = (first.who.replica, (first.who.replica + 1) % 3);
    let (message, another) = (pods.message(dead), pods.message(follower));
    let put = |pods: &Pods, phase, sidecar| pods.api.put_pod(&pod(dead, phase, sidecar, ended("app", "")));
    // While it leads: its pod is said to have failed, another process to have ended in it, a runtime has lost it, and
    // its object goes.
    let orphan = container("baton", &with_code(137, "Error", &message));
    for sidecar in [running("baton"), ended("baton", &another), ended("baton", &message[..message.len() - 1]), orphan] {
        put(&pods, "Failed", sidecar);
    }
    pods.api.delete_pod(&format!("web-{dead}"));
    pods.group.still_leads(&first, Duration::from_millis(500));
    // It is cut off from its kubelet, and dies: of a container that nobody finds, a kubelet makes something up.
    pods.group.replicas[dead].kill();
    let unknown = container("baton", &terminated("ContainerStatusUnknown", &message));
    put(&pods, "Failed", unknown);
    put(&pods, "Failed", ended("baton", &format!("panicked after {message}")));
    pods.api.put_pod(&pod(dead, "Failed", ended("baton", &message), ended("app", &message)));
    let second = pods.group.leader_after(&first);
    assert!(pods.departed(dead) == 0.0, "the lease ran out by itself");
    // Without the right to look nothing is different, and it is said.
    pods.api.forbid(&["watch"]);
    pods.start_again(dead);
    let words = ["pods cannot be watched", "verbs: [watch]", "resources: [pods]"];
    until("it is said which rule is missing", || pods.group.replicas[dead].has_logged(&words));
    pods.group.still_leads(&second, Duration::from_millis(100));
    let Pods { group, .. } = pods;
    group.finish("ends that nothing proves", "");
}
