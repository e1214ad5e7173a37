//! Leaders that are killed on a real API server, and how soon another leads: with leases in Redis, sidecars that may do
//! no more than watch pods, and a test that patches the pods' status as a kubelet does.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::Api;
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::apiserver::Cluster;
use testkit::redis::RedisServer;
use testkit::sidecars::apps::Apps;
use testkit::sidecars::claims::Term;
use testkit::sidecars::replica::{Lease, ROLE, Replica, Settings};
use testkit::wait::{until, until_some};

/// The defaults of a role.
const DEFAULTS: Lease = Lease { duration: 15_000, renew: 5_000, margin: 1_000, validity: 5_000 };
const REPLICAS: usize = 3;
const KILLS: usize = 5;

/// The right that docs/kubernetes.md asks for.
fn documented_rule() -> PolicyRule {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/kubernetes.md");
    let page = std::fs::read_to_string(path).expect("the page is there");
    let (_, section) = page.split_once("## A faster failover").expect("a section of that name");
    let block = section.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap_or_default());
    let rules = block.filter_map(|text| text.split_once("rules:\n")).map(|(_, rules)| rules).next().expect("a rule");
    let rules: Vec<PolicyRule> = serde_yaml::from_str(rules).expect("it can be read");
    rules.into_iter().next().expect("one")
}

/// Fields end in this order.
struct Pods {
    replicas: Vec<Replica>,
    apps: Apps,
    _redis: RedisServer,
    dir: TempDir,
    cluster: Cluster,
}

impl Pods {
    async fn start() -> Self {
        let cluster = Cluster::start().await;
        let accounts: Api<ServiceAccount> = Api::namespaced(cluster.client(), cluster.namespace());
        let account = ServiceAccount {
            metadata: ObjectMeta { name: Some("web".to_owned()), ..ObjectMeta::default() },
            ..ServiceAccount::default()
        };
        accounts.create(&PostParams::default(), &account).await.expect("the pods' account");
        let kubeconfig = cluster.account("sidecar", vec![documented_rule()]).await;
        let (redis, dir) = (RedisServer::start(), TempDir::new().expect("a temporary directory"));
        let mut pods = Self { replicas: Vec::new(), apps: Apps::start(REPLICAS, ROLE), _redis: redis, dir, cluster };
        for number in 0..REPLICAS {
            let env = pods.make(number).await;
            let message = pods.new_message(number);
            let settings = Settings {
                kubeconfig: Some(kubeconfig.clone()),
                env,
                more: format!("kubernetes: {{ fastFailover: true, terminationMessagePath: \"{message}\" }}\n"),
                ..Settings::new(number, pods._redis.url(), DEFAULTS)
            };
            let replica = Replica::start(number, settings);
            pods.apps.ask_at(&replica);
            pods.replicas.push(replica);
        }
        pods
    }

    fn api(&self) -> Api<Pod> {
        Api::namespaced(self.cluster.client(), self.cluster.namespace())
    }

    /// Makes the object of a pod, which nobody schedules, and says what its containers are told of it.
    async fn make(&self, number: usize) -> Vec<(String, String)> {
        let pod = json!({
            "metadata": {"name": format!("web-{number}")},
            "spec": {
                "serviceAccountName": "web", "automountServiceAccountToken": false,
                "containers": [{"name": "app", "image": "app"}, {"name": "baton", "image": "baton"}],
            },
        });
        let pod: Pod = serde_json::from_value(pod).expect("a pod");
        let made = self.api().create(&PostParams::default(), &pod).await.expect("the server takes it");
        let (name, uid) = (format!("web-{number}"), made.metadata.uid.expect("the server gives one"));
        let namespace = self.cluster.namespace().to_owned();
        let env = [("POD_NAME", name), ("POD_NAMESPACE", namespace), ("POD_UID", uid)];
        env.map(|(name, value)| (name.to_owned(), value)).to_vec()
    }

    /// Deletes the object by force: at once, whatever still runs.
    async fn delete(&self, number: usize) {
        let at_once = DeleteParams::default().grace_period(0);
        self.api().delete(&format!("web-{number}"), &at_once).await.expect("it is there");
    }

    /// Patches a pod's status, as the kubelet of its node does.
    async fn report(&self, number: usize, phase: &str, sidecar: Value, app: Value) {
        let status = json!({"status": {"phase": phase, "containerStatuses": [app, sidecar]}});
        let (api, name, status) = (self.api(), format!("web-{number}"), Patch::Strategic(status));
        api.patch_status(&name, &PatchParams::default(), &status).await.expect("the server takes it");
    }

    /// Empties the message file, as a kubelet makes a new one for each start, and says where it is.
    fn new_message(&self, number: usize) -> String {
        let path = self.dir.path().join(format!("web-{number}"));
        std::fs::write(&path, "").expect("the kubelet's file");
        path.display().to_string()
    }

    fn message(&self, number: usize) -> String {
        std::fs::read_to_string(self.dir.path().join(format!("web-{number}"))).expect("the kubelet's file")
    }

    fn leader_after(&self, earlier: Option<&Term>) -> Term {
        until_some("somebody leads", || {
            self.apps.leader().filter(|term| earlier.is_none_or(|earlier| term.token > earlier.token))
        })
    }

    /// Kills the leader, has the kubelet's word of it follow, and says how long it took until another led.
    async fn kill(&mut self, leader: &Term, phase: &str, app: Value) -> (Term, Duration) {
        let dead = leader.who.replica;
        let message = self.message(dead);
        let killed_at = Instant::now();
        self.replicas[dead].kill();
        let over = phase != "Running";
        if over {
            // Its app ends with it, whatever it had been told.
            self.apps.has_drained(leader.who);
        }
        self.report(dead, phase, ended("baton", &message), app).await;
        let next = self.leader_after(Some(leader));
        let took = next.from - killed_at;
        // In the place of a pod that is over another is made; in one that goes on the container starts again.
        self.new_message(dead);
        if over {
            self.delete(dead).await;
            self.replicas[dead].settings.env = self.make(dead).await;
        }
        self.replicas[dead].start_again();
        self.apps.ask_at(&self.replicas[dead]);
        let mut sidecar = running("baton");
        if !over {
            sidecar["lastState"] = ended("baton", &message)["state"].clone();
        }
        self.report(dead, "Running", sidecar, running("app")).await;
        until("it follows the leader", || {
            let answer = self.replicas[dead].ask(&format!("GET /leader/{ROLE}"), "");
            answer.body.contains("\"standby\"")
        });
        (next, took)
    }
}

fn container(name: &str, state: &Value) -> Value {
    json!({"name": name, "ready": false, "restartCount": 0, "image": name, "imageID": "", "state": state})
}

fn running(name: &str) -> Value {
    container(name, &json!({"running": {"startedAt": "2026-11-20T10:00:00Z"}}))
}

fn ended(name: &str, message: &str) -> Value {
    container(name, &json!({"terminated": {"exitCode": 139, "reason": "Error", "message": message}}))
}

fn told(took: &[Duration]) -> String {
    let times: Vec<String> = took.iter().map(|took| format!("{} ms", took.as_millis())).collect();
    times.join(", ")
}

#[tokio::test]
async fn the_next_leader_comes_before_the_lease_is_over_where_the_end_of_the_last_is_proven() {
    let mut pods = Pods::start().await;
    let mut leader = pods.leader_after(None);
    let lease = DEFAULTS.duration();
    let (mut whole, mut alone) = (Vec::new(), Vec::new());
    for _ in 0..KILLS {
        let (next, took) = pods.kill(&leader, "Failed", ended("app", "")).await;
        assert!(took < lease / 2, "the whole pod had ended: {took:?}");
        whole.push(took);
        leader = next;
    }
    for _ in 0..KILLS {
        let (next, took) = pods.kill(&leader, "Running", running("app")).await;
        assert!(took >= Duration::from_millis(DEFAULTS.validity), "its app may still act: {took:?}");
        assert!(took < lease * 2 / 3, "only the sidecar had ended: {took:?}");
        alone.push(took);
        leader = next;
    }
    // A pod's object that is gone proves nothing: its node may be cut off, and the container runs on.
    pods.delete(leader.who.replica).await;
    let later = Instant::now() + Duration::from_secs(2);
    let still = until_some("the leader leads on", || pods.apps.last_after(leader.who.replica, later));
    assert!(still.told.leader && still.told.token == Some(leader.token), "{still:?}");
    println!("lease 15 s, answers good for 5 s: from kill -9 to the next leader's first answer");
    println!("  whole pod: {}", told(&whole));
    println!("  sidecar alone: {}", told(&alone));
    let Pods { mut replicas, apps, .. } = pods;
    replicas.iter_mut().for_each(Replica::kill);
    let found = apps.breaches();
    assert!(found.is_empty(), "{} breaches: {found:?}", found.len());
    let report = apps.finish();
    println!("  {} answers, {} terms, no two leaders", report.answers, report.terms.len());
}
