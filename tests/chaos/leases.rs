//! Lease objects of an API server: a fake one, or with `BATON_TEST_APISERVER=real` the real one. Between it and each
//! replica is a proxy, which is their network.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fastrand::Rng;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::apiserver::{Cluster, lease_rule};
use testkit::kubernetes::{FakeApi, NAMESPACE, write_kubeconfig};
use testkit::proxy::{Network, Proxy};
use tokio::runtime::{Builder, Runtime};

use crate::fault::Fault;
use crate::run::REPLICAS;
use crate::stage::Stage;

/// The Lease of the role.
const LEASE_NAME: &str = "baton-scheduler";
/// Far longer than a server that is well takes.
const ANSWER_MAX: Duration = Duration::from_secs(20);

/// Whether the API server is to be the real one.
pub fn wants_real() -> bool {
    match std::env::var("BATON_TEST_APISERVER").as_deref() {
        Err(_) => false,
        Ok("real") => true,
        Ok(other) => panic!("BATON_TEST_APISERVER={other}: only \"real\" is known"),
    }
}

enum Server {
    Fake(FakeApi),
    Real(Box<Cluster>),
}

/// See the module. Fields end in this order: the runtime after what runs on it.
pub struct LeaseStage {
    proxies: Vec<Proxy>,
    server: Server,
    kubeconfigs: TempDir,
    /// What everybody's network is, and who has none.
    network: Network,
    cut: Vec<usize>,
    /// What makes good what a stranger did.
    repair: Option<Value>,
    runtime: Runtime,
}

fn kubeconfig_of(folder: &Path, replica: usize) -> PathBuf {
    folder.join(format!("replica-{replica}"))
}

impl LeaseStage {
    /// Starts it.
    pub fn start() -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let kubeconfigs = TempDir::new().expect("a temporary directory");
        let (server, proxies) = runtime.block_on(async {
            if wants_real() { start_real(kubeconfigs.path()).await } else { start_fake(kubeconfigs.path()).await }
        });
        Self { proxies, server, kubeconfigs, network: Network::Good, cut: Vec::new(), repair: None, runtime }
    }

    fn connect(&self) {
        for (replica, proxy) in self.proxies.iter().enumerate() {
            proxy.set(if self.cut.contains(&replica) { Network::Stalled } else { self.network });
        }
    }

    /// The object now; nothing if there is none.
    fn lease(&self) -> Option<Value> {
        match &self.server {
            Server::Fake(api) => api.lease(LEASE_NAME),
            Server::Real(cluster) => {
                let leases = cluster.leases();
                let found = self.answer(leases.get_opt(LEASE_NAME));
                found.map(|lease| serde_json::to_value(lease).expect("JSON"))
            }
        }
    }

    /// Changes the object, if it is there, as `kubectl patch` does; whether it was.
    fn patch(&self, patch: &Value) -> bool {
        if self.lease().is_none() {
            return false;
        }
        match &self.server {
            Server::Fake(api) => api.edit(LEASE_NAME, |object| merge(object, patch)),
            Server::Real(cluster) => {
                let (leases, with, patch) = (cluster.leases(), PatchParams::default(), Patch::Merge(patch));
                self.answer(leases.patch(LEASE_NAME, &with, &patch));
            }
        }
        true
    }

    fn delete(&self) -> bool {
        match &self.server {
            Server::Fake(api) => api.delete(LEASE_NAME),
            Server::Real(cluster) => {
                let leases = cluster.leases();
                self.lease().is_some() && {
                    self.answer(leases.delete(LEASE_NAME, &DeleteParams::default()));
                    true
                }
            }
        }
    }

    fn answer<T>(&self, question: impl Future<Output = Result<T, kube::Error>>) -> T {
        let answered = self.runtime.block_on(async { tokio::time::timeout(ANSWER_MAX, question).await });
        answered.expect("the API server answers in time").expect("the administrator may do that")
    }

    /// What people do with kubectl, and what other programs do that think the object theirs.
    fn edit(&mut self, dice: &mut Rng) -> String {
        let number = dice.u32(..);
        let annotation = |name: &str, value: Value| json!({"metadata": {"annotations": {name: value}}});
        let edit = match dice.u8(0..12) {
            0 => json!({"metadata": {"labels": {"team": format!("t{number}")}}}),
            1 => annotation("note", json!(format!("n{number}"))),
            2 => json!({"spec": {"holderIdentity": format!("somebody-{number}")}}),
            3 => json!({"spec": {"renewTime": "2001-02-03T04:05:06.000000Z"}}),
            4 => json!({"spec": {"renewTime": null, "acquireTime": null}}),
            5 => json!({"spec": {"leaseTransitions": dice.i32(0..9)}}),
            6 => json!({"spec": {"holderIdentity": ""}}),
            7 => json!({"spec": {"leaseDurationSeconds": dice.i32(1..9)}}),
            8 => json!({"metadata": {"annotations": null}}),
            9 => annotation("baton.dev/token", json!("1")),
            10 => annotation("baton.dev/token", json!("not a number")),
            _ => annotation("baton.dev/session", json!(format!("{:032x}", dice.u128(..)))),
        };
        let lease = self.lease();
        self.repair =
            lease.as_ref().map(|lease| json!({"metadata": {"annotations": lease["metadata"]["annotations"]}}));
        let done = self.patch(&edit);
        format!("{edit}, done: {done}")
    }

    /// Only what could not be read is put back, since nobody but a person can do that.
    fn mend(&mut self) {
        let Some(repair) = self.repair.take() else { return };
        let token = self.lease().and_then(|lease| {
            let token = &lease["metadata"]["annotations"]["baton.dev/token"];
            token.as_str().map(str::to_owned)
        });
        if token.is_some_and(|token| token.parse::<u64>().is_err()) {
            self.patch(&repair);
        }
    }
}

async fn start_fake(kubeconfigs: &Path) -> (Server, Vec<Proxy>) {
    let api = FakeApi::start();
    let proxies = proxies(api.port()).await;
    for (replica, proxy) in proxies.iter().enumerate() {
        write_kubeconfig(&kubeconfig_of(kubeconfigs, replica), proxy.port(), NAMESPACE);
    }
    (Server::Fake(api), proxies)
}

async fn start_real(kubeconfigs: &Path) -> (Server, Vec<Proxy>) {
    let cluster = Cluster::start_own().await;
    let verbs = ["get", "create", "update", "watch", "delete"];
    let written = cluster.account("sidecar", vec![lease_rule(&verbs, &[])]).await;
    let text = fs::read_to_string(written).expect("it was written");
    let mut kubeconfig: Value = serde_json::from_str(&text).expect("JSON");
    let url = &mut kubeconfig["clusters"][0]["cluster"]["server"];
    let port = url.as_str().and_then(|url| url.rsplit(':').next()).and_then(|port| port.parse().ok());
    let proxies = proxies(port.expect("a URL with a port")).await;
    for (replica, proxy) in proxies.iter().enumerate() {
        kubeconfig["clusters"][0]["cluster"]["server"] = json!(format!("https://127.0.0.1:{}", proxy.port()));
        fs::write(kubeconfig_of(kubeconfigs, replica), kubeconfig.to_string()).expect("a kubeconfig");
    }
    (Server::Real(Box::new(cluster)), proxies)
}

async fn proxies(target: u16) -> Vec<Proxy> {
    let mut proxies = Vec::new();
    for _ in 0..REPLICAS {
        proxies.push(Proxy::start(target).await);
    }
    proxies
}

/// RFC 7396.
fn merge(object: &mut Value, patch: &Value) {
    let Some(changes) = patch.as_object() else {
        *object = patch.clone();
        return;
    };
    if !object.is_object() {
        *object = json!({});
    }
    for (key, change) in changes {
        if change.is_null() {
            object.as_object_mut().map(|fields| fields.remove(key));
        } else {
            merge(&mut object[key], change);
        }
    }
}

impl Stage for LeaseStage {
    fn store(&self) -> String {
        "{ kubernetes: { commandTimeout: 400ms } }".to_owned()
    }

    fn kubeconfig(&self, replica: usize) -> Option<PathBuf> {
        Some(kubeconfig_of(self.kubeconfigs.path(), replica))
    }

    fn begin(&mut self, fault: Fault, dice: &mut Rng) -> Result<String, String> {
        match (fault, &mut self.server) {
            (Fault::StorePause, Server::Real(cluster)) => cluster.server().expect("our own").pause(),
            (Fault::StoreRestart, Server::Real(cluster)) => cluster.server().expect("our own").kill(),
            (Fault::StorePause, Server::Fake(_)) => self.network = Network::Stalled,
            (Fault::StoreRestart, Server::Fake(_)) => self.network = Network::Cut,
            (Fault::Delete, _) => return self.delete().then(String::new).ok_or("there was none".to_owned()),
            (Fault::Edit, _) => return Ok(self.edit(dice)),
            (other, _) => unreachable!("an API server has no {other:?}"),
        }
        self.connect();
        Ok(String::new())
    }

    fn end(&mut self, fault: Fault) {
        match (fault, &mut self.server) {
            (Fault::StorePause, Server::Real(cluster)) => cluster.server().expect("our own").resume(),
            (Fault::StoreRestart, Server::Real(cluster)) => cluster.server().expect("our own").start_again(),
            (Fault::StorePause | Fault::StoreRestart, Server::Fake(_)) => self.network = Network::Good,
            (Fault::Edit, _) => self.mend(),
            _ => {}
        }
        self.connect();
    }

    fn to_cut_off(&self, _: &mut Rng) -> Vec<usize> {
        Vec::new()
    }

    fn cut_off(&mut self, replicas: &[usize]) {
        self.cut = replicas.to_vec();
        self.connect();
    }

    fn settle(&mut self) {
        self.lease();
    }
}
