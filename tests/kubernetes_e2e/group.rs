//! Sidecars on the API server, each with an account that may do just what the documentation says, and their apps.

use std::path::{Path, PathBuf};

use k8s_openapi::api::coordination::v1::Lease as LeaseObject;
use k8s_openapi::api::rbac::v1::{PolicyRule, Role};
use testkit::apiserver::{Cluster, lease_rule};
use testkit::place::Place;
use testkit::sidecars::group;
use testkit::sidecars::replica::{Lease, Settings};

/// The Lease of the role that every scenario is about.
pub const LEASE_NAME: &str = "baton-scheduler";

/// Timings with the margin that client-go's whole seconds ask for.
pub const TIMINGS: Lease = Lease { duration: 4_000, renew: 1_000, margin: 1_000, validity: 500 };

/// The Role that docs/kubernetes.md tells people to make.
pub fn documented_rules() -> Vec<PolicyRule> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/kubernetes.md");
    let page = std::fs::read_to_string(path).expect("the page is there");
    let blocks = page.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let documents = blocks.flat_map(|block| block.split("\n---\n"));
    let text = documents.into_iter().find(|document| document.lines().any(|line| line == "kind: Role"));
    let role: Role = serde_yaml::from_str(text.expect("the page has a Role")).expect("it can be read");
    role.rules.expect("it allows something")
}

/// The same for a replica with this job, by the page's line about jobs.
pub fn documented_rules_with(job: &str) -> Vec<PolicyRule> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/kubernetes.md");
    let page = std::fs::read_to_string(path).expect("the page is there");
    let line = page.lines().find(|line| line.contains("resourceNames: [") && line.contains("-jobs.wishes"));
    let line = line.expect("the page tells of jobs").replace("nightly-report", job);
    let (_, names) = line.split_once(':').expect("a list");
    let names: Vec<String> = serde_yaml::from_str(names).expect("a list");
    let mut rules = documented_rules();
    rules.iter_mut().filter_map(|rule| rule.resource_names.as_mut()).for_each(|named| named.clone_from(&names));
    rules
}

/// The `store` section of a configuration.
pub fn store_section(namespace: &str) -> String {
    format!("{{ kubernetes: {{ namespace: {namespace}, commandTimeout: 800ms }} }}")
}

/// What the replicas keep their leases in.
pub struct OnKubernetes {
    count: usize,
    pub cluster: Cluster,
    /// The kubeconfig of the replicas.
    pub sidecar_config: PathBuf,
    /// The kubeconfig of participants that are built on client-go.
    pub client_config: PathBuf,
}

impl OnKubernetes {
    /// The Lease as it is.
    pub async fn lease(&self) -> LeaseObject {
        self.cluster.leases().get(LEASE_NAME).await.expect("the Lease is there")
    }
}

pub type Group = group::Group<OnKubernetes>;

/// Replicas named web-0, web-1, …
pub async fn start(cluster: Cluster, replicas: usize) -> Group {
    let mut group = prepare(cluster, replicas).await;
    start_all(&mut group);
    group
}

/// The same, but for the replicas, which [`start_all`] starts.
pub async fn prepare(cluster: Cluster, replicas: usize) -> Group {
    let sidecar_config = cluster.account("sidecar", documented_rules()).await;
    let client_config = cluster.account("client-go", vec![lease_rule(&["get", "create", "update"], &[])]).await;
    Group::new(OnKubernetes { count: replicas, cluster, sidecar_config, client_config }, replicas)
}

/// Starts the replicas.
pub fn start_all(group: &mut Group) {
    for number in 0..group.count {
        let settings = settings(number, group.cluster.namespace(), &group.sidecar_config);
        group.add(settings);
    }
}

/// Of web-`number`, with this account.
pub fn settings(number: usize, namespace: &str, kubeconfig: &Path) -> Settings {
    let on_store = Settings::on_store(number, store_section(namespace), Place::here(), TIMINGS);
    Settings { kubeconfig: Some(kubeconfig.to_owned()), ..on_store }
}
