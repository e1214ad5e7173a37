//! A namespace on a Kubernetes API server: of the tests' own server, or of the user's cluster when `KUBECONFIG` is set.

pub mod server;

use std::collections::BTreeMap;
use std::path::PathBuf;

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::json;
use tempfile::TempDir;

use server::ApiServer;

/// See the module. The namespace goes away with it.
pub struct Cluster {
    server: Option<ApiServer>,
    client: Client,
    kubeconfig: Kubeconfig,
    dir: TempDir,
    namespace: String,
}

impl Cluster {
    /// The user's cluster when there is one, else a server of one's own.
    ///
    /// # Panics
    /// When there is neither, saying what is missing, or when it does not let the tests do what they need.
    pub async fn start() -> Self {
        match Kubeconfig::from_env() {
            Ok(None) => Self::start_own().await,
            Ok(Some(kubeconfig)) => Self::on(None, kubeconfig).await,
            Err(error) => panic!("KUBECONFIG is set, but cannot be read: {error}"),
        }
    }

    /// A server of one's own, which may be paused and killed.
    pub async fn start_own() -> Self {
        let server = ApiServer::start();
        let kubeconfig = Kubeconfig::read_from(server.kubeconfig()).expect("the server writes a kubeconfig");
        Self::on(Some(server), kubeconfig).await
    }

    async fn on(server: Option<ApiServer>, kubeconfig: Kubeconfig) -> Self {
        let client = client(kubeconfig.clone()).await;
        let namespace = format!("baton-e2e-{:08x}", fastrand::u32(..));
        let object = Namespace { metadata: named(&namespace), ..Namespace::default() };
        let made = Api::all(client.clone()).create(&PostParams::default(), &object).await;
        made.expect("the tests may make a namespace");
        Self { server, client, kubeconfig, dir: TempDir::new().expect("a temporary directory"), namespace }
    }

    /// The server, when it is the tests' own.
    pub fn server(&mut self) -> Option<&mut ApiServer> {
        self.server.as_mut()
    }

    /// The namespace that nobody else uses.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The administrator's client.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> Kubeconfig {
        self.kubeconfig.clone()
    }

    /// The Leases of the namespace, for the administrator.
    pub fn leases(&self) -> Api<Lease> {
        Api::namespaced(self.client(), &self.namespace)
    }

    /// Makes a ServiceAccount that may do this in the namespace and nothing else, and says where its kubeconfig is.
    pub async fn account(&self, name: &str, rules: Vec<PolicyRule>) -> PathBuf {
        let with = PostParams::default();
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client(), &self.namespace);
        let account = ServiceAccount { metadata: named(name), ..ServiceAccount::default() };
        accounts.create(&with, &account).await.expect("a ServiceAccount");
        let role = Role { metadata: named(name), rules: Some(rules) };
        Api::namespaced(self.client(), &self.namespace).create(&with, &role).await.expect("a Role");
        let binding = RoleBinding {
            metadata: named(name),
            role_ref: RoleRef {
                api_group: "rbac.authorization.k8s.io".to_owned(),
                kind: "Role".to_owned(),
                name: name.to_owned(),
            },
            subjects: Some(vec![Subject {
                kind: "ServiceAccount".to_owned(),
                name: name.to_owned(),
                namespace: Some(self.namespace.clone()),
                ..Subject::default()
            }]),
        };
        Api::namespaced(self.client(), &self.namespace).create(&with, &binding).await.expect("a RoleBinding");
        self.kubeconfig_of(name).await
    }

    /// Where the kubeconfig is of a ServiceAccount of the namespace.
    pub async fn kubeconfig_of(&self, name: &str) -> PathBuf {
        let (with, accounts) =
            (PostParams::default(), Api::<ServiceAccount>::namespaced(self.client(), &self.namespace));
        let spec = TokenRequestSpec { expiration_seconds: Some(24 * 3600), ..TokenRequestSpec::default() };
        let request = TokenRequest { spec, ..TokenRequest::default() };
        let granted = accounts.create_token_request(name, &with, &request).await.expect("a token");
        self.write_kubeconfig(name, &granted.status.expect("a granted request has a status").token)
    }

    /// The kubeconfig of who has this token. JSON is YAML.
    fn write_kubeconfig(&self, name: &str, token: &str) -> PathBuf {
        let current = self.kubeconfig.current_context.as_deref();
        let context = self.kubeconfig.contexts.iter().find(|context| Some(context.name.as_str()) == current);
        let cluster = context.and_then(|context| context.context.as_ref()).map(|context| context.cluster.as_str());
        let entry = self.kubeconfig.clusters.iter().find(|entry| Some(entry.name.as_str()) == cluster);
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [entry.expect("the current context's cluster is there")],
            "users": [{"name": name, "user": {"token": token}}],
            "contexts": [{"name": name, "context": {"cluster": cluster, "user": name, "namespace": self.namespace}}],
            "current-context": name,
        });
        let path = self.dir.path().join(name);
        std::fs::write(&path, config.to_string()).expect("a kubeconfig");
        path
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if self.server.is_some() {
            return; // It goes away with all that it has.
        }
        let (kubeconfig, namespace) = (self.kubeconfig.clone(), self.namespace.clone());
        // On a thread of its own: this one may be busy with a runtime already.
        let deleted = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let namespaces: Api<Namespace> = Api::all(client(kubeconfig).await);
                namespaces.delete(&namespace, &DeleteParams::default()).await.map(drop)
            })
        });
        match deleted.join() {
            Ok(Ok(())) => {}
            other => eprintln!("the namespace {} could not be deleted: {other:?}", self.namespace),
        }
    }
}

/// A client for a kubeconfig's current context.
pub async fn client(kubeconfig: Kubeconfig) -> Client {
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    Client::try_from(config.expect("a kubeconfig that works")).expect("a client")
}

fn named(name: &str) -> ObjectMeta {
    let labels = BTreeMap::from([("app.kubernetes.io/part-of".to_owned(), "baton-tests".to_owned())]);
    ObjectMeta { name: Some(name.to_owned()), labels: Some(labels), ..ObjectMeta::default() }
}

/// A rule about Leases, for a Role.
pub fn lease_rule(verbs: &[&str], names: &[&str]) -> PolicyRule {
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    PolicyRule {
        api_groups: Some(owned(&["coordination.k8s.io"])),
        resources: Some(owned(&["leases"])),
        resource_names: Some(owned(names)).filter(|names| !names.is_empty()),
        verbs: owned(verbs),
        ..PolicyRule::default()
    }
}
