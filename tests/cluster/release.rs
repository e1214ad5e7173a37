//! The demo, installed in a namespace of its own.

use std::path::PathBuf;
use std::process::Command;
use std::sync::LazyLock;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use testkit::root;
use testkit::wait::until_within;

use crate::log::{Follower, Term};
use crate::node::{self, attempt, run};

/// The lease of the chart's defaults, in which the tests wait.
pub const LEASE: Duration = Duration::from_secs(15);
/// What a busy machine may add.
pub const SLACK: Duration = Duration::from_secs(3);
/// How long the cluster may take for what it does.
pub const PATIENCE: Duration = Duration::from_secs(90);
/// All of the demo's workers.
const WORKERS: &str = "app.kubernetes.io/name=baton-demo";

/// The charts in a folder of their own, with what `helm dependency update` fetches.
static CHARTS: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = node::folder().join("charts");
    run(Command::new("cp").arg("--recursive").arg(root().join("charts")).arg(&folder));
    run(Command::new("helm").args(["dependency", "update"]).arg(folder.join("baton-demo")));
    folder
});

/// Where leases are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Store {
    Redis,
    Leases,
}

impl Store {
    pub const BOTH: [Self; 2] = [Self::Redis, Self::Leases];

    /// For names.
    pub fn name(self) -> &'static str {
        match self {
            Self::Redis => "redis",
            Self::Leases => "leases",
        }
    }

    /// What docs/install.md says for it.
    pub fn arguments(self) -> Vec<String> {
        let words: &[&str] = match self {
            Self::Redis => &["--set", "baton.config.store.redis.url=redis://redis:6379/0"],
            Self::Leases => {
                &["--set", "baton.config.store.redis=null", "--set-json", "baton.config.store.kubernetes={}"]
            }
        };
        words.iter().map(|word| (*word).to_owned()).collect()
    }
}

/// A namespace, and what is in it. Deleted when dropped.
pub struct Release {
    pub namespace: String,
    pub store: Store,
    pub log: Follower,
}

impl Release {
    /// A namespace with a Redis, if that is what is wanted, and nothing else.
    pub fn namespace(name: &str, store: Store) -> Self {
        let namespace = format!("{name}-{}", store.name());
        let release = Self { log: Follower::start(&namespace), namespace, store };
        run(Command::new("kubectl").args(["create", "namespace", &release.namespace]));
        if store == Store::Redis {
            release.start_redis(&["--appendonly", "yes"]);
        }
        release
    }

    /// The demo as docs/install.md says, and these arguments.
    pub fn install(name: &str, store: Store, more: &[&str]) -> Self {
        let release = Self::namespace(name, store);
        release.helm(["install", "demo"], &store.arguments(), more);
        release.leader();
        release
    }

    pub fn start_redis(&self, options: &[&str]) {
        let command = [&["redis-server", "--bind", "0.0.0.0", "--protected-mode", "no"], options].concat();
        let manifest = json!({"apiVersion": "v1", "kind": "List", "items": [
            {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "redis"}, "spec": {
                "replicas": 1, "selector": {"matchLabels": {"app": "redis"}}, "template": {
                    "metadata": {"labels": {"app": "redis"}},
                    "spec": {"automountServiceAccountToken": false, "terminationGracePeriodSeconds": 1, "containers": [{
                        "name": "redis", "image": "redis:7", "imagePullPolicy": "IfNotPresent",
                        "args": command,
                        "securityContext": {"runAsNonRoot": true, "runAsUser": 65532, "allowPrivilegeEscalation": false,
                            "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"}},
                        "readinessProbe": {"tcpSocket": {"port": 6379}, "periodSeconds": 1},
                        "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
                        "volumes": [{"name": "data", "emptyDir": {}}]}}}},
            {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "redis"},
                "spec": {"selector": {"app": "redis"}, "ports": [{"port": 6379}]}}]});
        attempt(
            Command::new("kubectl").args(["--namespace", &self.namespace, "apply", "--filename", "-"]),
            &manifest.to_string(),
        )
        .unwrap_or_else(|said| panic!("Redis: {said}"));
        self.kubectl(&["rollout", "status", "deployment/redis", "--timeout=60s"]);
    }

    /// `kubectl` in the namespace.
    ///
    /// # Panics
    /// With its words when it fails.
    pub fn kubectl(&self, arguments: &[&str]) -> String {
        run(Command::new("kubectl").args(["--namespace", &self.namespace]).args(arguments))
    }

    /// The same for what may fail.
    pub fn try_kubectl(&self, arguments: &[&str]) -> Result<String, String> {
        attempt(Command::new("kubectl").args(["--namespace", &self.namespace]).args(arguments), "")
    }

    /// An object, or all of a kind.
    pub fn get(&self, what: &[&str]) -> Value {
        let text = self.kubectl(&[&["get", "--output", "json"], what].concat());
        serde_json::from_str(&text).expect("JSON")
    }

    /// `helm COMMAND demo CHART --wait …`
    pub fn helm(&self, command: [&str; 2], arguments: &[String], more: &[&str]) -> String {
        self.try_helm(command, arguments, more).unwrap_or_else(|said| panic!("helm {command:?} {more:?}: {said}"))
    }

    /// The same for what may fail.
    pub fn try_helm(&self, command: [&str; 2], arguments: &[String], more: &[&str]) -> Result<String, String> {
        let mut helm = Command::new("helm");
        helm.args(command).arg(CHARTS.join("baton-demo")).args([
            "--namespace",
            &self.namespace,
            "--wait",
            "--timeout",
            "120s",
        ]);
        helm.args(["--set", "baton.image.repository=registry.example.com/baton"]).args(arguments).args(more);
        attempt(&mut helm, "")
    }

    /// An upgrade that changes only this.
    pub fn change(&self, more: &[&str]) {
        self.helm(["upgrade", "demo"], &["--reuse-values".to_owned()], more);
    }

    /// The workers' pods, those that end left out.
    pub fn pods(&self) -> Vec<Value> {
        let pods = self.get(&["pods", "--selector", WORKERS])["items"].take();
        let living = |pod: &Value| pod["metadata"]["deletionTimestamp"].is_null();
        pods.as_array().expect("a list").iter().filter(|pod| living(pod)).cloned().collect()
    }

    pub fn pod_names(&self) -> Vec<String> {
        let mut names: Vec<_> = self.pods().iter().map(|pod| text(&pod["metadata"]["name"])).collect();
        names.sort_unstable();
        names
    }

    /// Waits until somebody leads whose pod lives; its name.
    pub fn leader(&self) -> String {
        self.leading().pod
    }

    fn leading(&self) -> Term {
        let mut found = None;
        until_within(PATIENCE, "somebody leads", || {
            found = self.log.terms().pop().filter(|term| term.ended.is_none() && self.pod_names().contains(&term.pod));
            found.is_some()
        });
        found.expect("just seen")
    }

    /// Waits until all workers are ready and one of them leads, and no pod is on its way out.
    pub fn settle(&self) {
        self.kubectl(&["rollout", "status", "deployment/demo-baton-demo", "--timeout=90s"]);
        until_within(PATIENCE, "the old pods are gone", || {
            let all = self.get(&["pods", "--selector", WORKERS]);
            all["items"]
                .as_array()
                .is_some_and(|pods| pods.iter().all(|pod| pod["metadata"]["deletionTimestamp"].is_null()))
        });
        self.leader();
    }

    /// The id of a pod's container, as its runtime knows it.
    pub fn container(&self, pod: &str, container: &str) -> String {
        let status = self.get(&["pod", pod])["status"].take();
        let kinds = ["initContainerStatuses", "containerStatuses"];
        let all = kinds.iter().flat_map(|kind| status[*kind].as_array().into_iter().flatten());
        let id = all.filter(|one| one["name"] == container).find_map(|one| one["containerID"].as_str());
        let id = id.unwrap_or_else(|| panic!("{pod} has no {container}: {status}"));
        id.rsplit('/').next().expect("there is one").to_owned()
    }

    /// The processes of a pod's container.
    pub fn processes(&self, pod: &str, container: &str) -> Vec<i32> {
        node::processes(&self.container(pod, container))
    }

    /// All processes of a pod, the one that keeps its namespaces included.
    pub fn all_processes(&self, pod: &str) -> Vec<i32> {
        node::processes(&format!("pod{}", text(&self.get(&["pod", pod])["metadata"]["uid"])))
    }

    /// Waits for the term after one; for how long nobody led: from the end of the first, or from when the fault began
    /// that left it no time to say so.
    pub fn gap_after(&self, pod: &str, fault: Timestamp) -> Duration {
        let of = |terms: &[Term]| terms.iter().rposition(|term| term.pod == pod && term.begun <= fault);
        let mut next = None;
        until_within(PATIENCE, "another leads", || {
            let terms = self.log.terms();
            next = of(&terms).and_then(|at| terms.get(at + 1).cloned());
            next.is_some()
        });
        let terms = self.log.terms();
        let last = &terms[of(&terms).expect("it is there")];
        let next = next.expect("just seen");
        assert!(next.token > last.token, "tokens rise: {last:?}, {next:?}");
        let end = last.ended.filter(|ended| *ended >= fault).unwrap_or(fault);
        assert!(next.begun >= end, "two lead: {last:?}, {next:?}, from {end}");
        Duration::try_from(next.begun - end).expect("forwards")
    }

    /// For how long nobody led between the terms after the first so many, each of whose leaders said that it ends.
    pub fn gaps_since(&self, terms: usize) -> Vec<Duration> {
        let gap = |two: &[Term]| {
            let ended = two[0].ended.unwrap_or_else(|| panic!("it was told to end: {two:?}"));
            assert!(two[1].begun >= ended && two[1].token > two[0].token, "two lead: {two:?}");
            Duration::try_from(two[1].begun - ended).expect("forwards")
        };
        self.log.terms().windows(2).skip(terms - 1).map(gap).collect()
    }

    /// How many terms there have been.
    pub fn terms(&self) -> usize {
        self.log.terms().len()
    }
}

impl Drop for Release {
    fn drop(&mut self) {
        // What is on the node goes away with it: what the sidecars said is kept for whoever looks for a mistake.
        let lines: Vec<String> = self.log.lines().iter().map(|line| format!("{} {}", line.pod, line.fields)).collect();
        let kept = node::folder().join("log").join(format!("{}.jsonl", self.namespace));
        let _ = std::fs::write(kept, lines.join("\n"));
        // The node ends after the last test: what is left on it goes with it.
        let _ = attempt(Command::new("kubectl").args(["delete", "namespace", &self.namespace, "--wait=false"]), "");
    }
}

/// A JSON string's text.
pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}")).to_owned()
}
