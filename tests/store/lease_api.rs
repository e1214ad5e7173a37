//! The API service behind a Kubernetes store: the fake one, or with `BATON_TEST_APISERVER=real` a real API server, as
//! `make e2e` has it. What tests do to an object behind the store's back goes to either.

use std::path::PathBuf;
use std::thread;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};
use testkit::apiserver::{Cluster, lease_rule};
use testkit::kubernetes::FakeApi;
use tokio::runtime::{Builder, Runtime};

use super::{KubernetesStore, leases_at, leases_config, leases_of};

/// See the module.
pub enum LeaseApi {
    Fake(FakeApi),
    Real(Box<RealApi>),
}

/// A namespace on an API server, for callers that do not wait.
pub struct RealApi {
    cluster: Option<Cluster>,
    kubeconfig: PathBuf,
    leases: Api<Lease>,
    runtime: Option<Runtime>,
}

impl LeaseApi {
    /// Starts one without any object.
    pub fn start() -> Self {
        match std::env::var("BATON_TEST_APISERVER").as_deref() {
            Err(_) => Self::Fake(FakeApi::start()),
            Ok("real") => Self::Real(Box::new(RealApi::start())),
            Ok(other) => panic!("BATON_TEST_APISERVER={other}: only \"real\" is known"),
        }
    }

    /// A store on it, which knows nothing.
    pub fn store(&self) -> KubernetesStore {
        match self {
            Self::Fake(api) => leases_of(api),
            Self::Real(api) => leases_at(api.kubeconfig.clone(), &leases_config()),
        }
    }

    /// The object now.
    pub fn lease(&self, name: &str) -> Option<Value> {
        match self {
            Self::Fake(api) => api.lease(name),
            Self::Real(api) => api.read(name).map(|lease| serde_json::to_value(lease).expect("JSON")),
        }
    }

    /// Makes or changes an object, as another client does, or a person.
    pub fn edit(&self, name: &str, edit: impl Fn(&mut Value)) {
        match self {
            Self::Fake(api) => api.edit(name, edit),
            Self::Real(api) => api.edit(name, edit),
        }
    }

    /// Deletes an object behind everybody's back; whether there was one.
    pub fn delete(&self, name: &str) -> bool {
        match self {
            Self::Fake(api) => api.delete(name),
            Self::Real(api) => api.run(api.leases.delete(name, &DeleteParams::default())).is_ok(),
        }
    }
}

impl RealApi {
    fn start() -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let verbs = ["get", "create", "update", "watch", "delete"];
        let (cluster, kubeconfig) = elsewhere(&runtime, async {
            let cluster = Cluster::start().await;
            let kubeconfig = cluster.account("store", vec![lease_rule(&verbs, &[])]).await;
            (cluster, kubeconfig)
        });
        let leases = cluster.leases();
        Self { cluster: Some(cluster), kubeconfig, leases, runtime: Some(runtime) }
    }

    fn run<T: Send>(&self, work: impl Future<Output = T> + Send) -> T {
        elsewhere(self.runtime.as_ref().expect("it is there until the end"), work)
    }

    fn read(&self, name: &str) -> Option<Lease> {
        self.run(self.leases.get_opt(name)).expect("the API server answers")
    }

    fn edit(&self, name: &str, edit: impl Fn(&mut Value)) {
        let fresh = || json!({"metadata": {"name": name}, "spec": {}});
        loop {
            let there = self.read(name);
            let mut object = there.as_ref().map_or_else(fresh, |lease| serde_json::to_value(lease).expect("JSON"));
            edit(&mut object);
            let lease: Lease = serde_json::from_value(object).expect("a Lease");
            let with = PostParams::default();
            let written = match there {
                Some(_) => self.run(self.leases.replace(name, &with, &lease)),
                None => self.run(self.leases.create(&with, &lease)),
            };
            match written {
                Ok(_) => return,
                // Somebody else was first: once more, on what there is now.
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Err(error) => panic!("{name} cannot be edited: {error}"),
            }
        }
    }
}

impl Drop for RealApi {
    fn drop(&mut self) {
        drop(self.cluster.take());
        if let Some(runtime) = self.runtime.take() {
            // The caller may be inside another runtime, where this one may not wait for its end.
            runtime.shutdown_background();
        }
    }
}

/// Runs work on a runtime of its own, also for callers that are inside another.
fn elsewhere<T: Send>(runtime: &Runtime, work: impl Future<Output = T> + Send) -> T {
    thread::scope(|scope| scope.spawn(|| runtime.block_on(work)).join()).unwrap_or_else(|panic| {
        std::panic::resume_unwind(panic);
    })
}
