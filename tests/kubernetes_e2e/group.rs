//! Sidecars on the API server, each with an account that may do just what the documentation says, and their apps.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::Lease as LeaseObject;
use k8s_openapi::api::rbac::v1::{PolicyRule, Role};
use testkit::apiserver::{Cluster, lease_rule};
use testkit::place::Place;
use testkit::sidecars::apps::{Apps, Seen};
use testkit::sidecars::claims::Term;
use testkit::sidecars::replica::{Lease, ROLE, Replica, Settings};
use testkit::sidecars::wait::until_some;

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

/// See the module. Fields end in this order: the replicas before what they use.
pub struct Group {
    pub replicas: Vec<Replica>,
    count: usize,
    pub apps: Apps,
    pub cluster: Cluster,
    /// The kubeconfig of the replicas.
    pub sidecar_config: PathBuf,
    /// The kubeconfig of participants that are built on client-go.
    pub client_config: PathBuf,
}

impl Group {
    /// Replicas named web-0, web-1, …
    pub async fn start(cluster: Cluster, replicas: usize) -> Self {
        let mut group = Self::prepare(cluster, replicas).await;
        group.start_all();
        group
    }

    /// The same, but for the replicas, which [`Self::start_all`] starts.
    pub async fn prepare(cluster: Cluster, replicas: usize) -> Self {
        let sidecar_config = cluster.account("sidecar", documented_rules()).await;
        let client_config = cluster.account("client-go", vec![lease_rule(&["get", "create", "update"], &[])]).await;
        let apps = Apps::start(replicas, ROLE);
        Self { replicas: Vec::new(), count: replicas, apps, cluster, sidecar_config, client_config }
    }

    /// Starts the replicas.
    pub fn start_all(&mut self) {
        for number in 0..self.count {
            let replica = Replica::start(number, settings(number, self.cluster.namespace(), &self.sidecar_config));
            self.apps.ask_at(&replica);
            self.replicas.push(replica);
        }
    }

    /// Starts a replica's next process, and tells its app.
    pub fn start_again(&mut self, replica: usize) {
        self.replicas[replica].start_again();
        self.apps.ask_at(&self.replicas[replica]);
    }

    /// Waits until somebody leads.
    pub fn leader(&self) -> Term {
        self.leader_that("somebody leads", |_| true)
    }

    /// Waits until somebody leads with a later token than this term's.
    pub fn leader_after(&self, earlier: &Term) -> Term {
        self.leader_that("a later term begins", |term| term.token > earlier.token)
    }

    /// Waits for a leader like this.
    pub fn leader_that(&self, what: &str, wanted: impl Fn(&Term) -> bool) -> Term {
        until_some(what, || self.apps.leader().filter(|term| wanted(term)))
    }

    /// Waits until a replica answers like this to a question asked after `moment`.
    pub fn answer_after(&self, replica: usize, moment: Instant, what: &str, wanted: impl Fn(&Seen) -> bool) -> Seen {
        until_some(what, || self.apps.last_after(replica, moment).filter(|seen| wanted(seen)))
    }

    /// Waits until this term's holder says, `later` from now, that it still leads with the same token.
    pub fn still_leads(&self, term: &Term, later: Duration) {
        let moment = Instant::now() + later;
        self.answer_after(term.who.replica, moment, "the leader keeps its token", |seen| {
            assert!(!seen.told.leader || seen.told.token == Some(term.token), "another token: {seen:?}");
            seen.told.leader
        });
    }

    /// The Lease as it is.
    pub async fn lease(&self) -> LeaseObject {
        self.cluster.leases().get(LEASE_NAME).await.expect("the Lease is there")
    }

    /// Ends all, checks the promises, and prints what was measured.
    pub fn finish(mut self, scenario: &str, measured: &str) {
        self.replicas.iter_mut().for_each(Replica::kill);
        let report = self.apps.finish();
        let (answers, terms, leaderless) = (report.answers, report.terms.len(), report.leaderless.as_millis());
        println!("{scenario}: {measured}{answers} answers, {terms} terms, leaderless {leaderless} ms");
    }
}

/// Of web-`number`, with this account.
pub fn settings(number: usize, namespace: &str, kubeconfig: &Path) -> Settings {
    let on_store = Settings::on_store(number, store_section(namespace), Place::here(), TIMINGS);
    Settings { kubeconfig: Some(kubeconfig.to_owned()), ..on_store }
}
