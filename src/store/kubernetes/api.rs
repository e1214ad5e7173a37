//! Requests to the API server: each bounded, none repeated; and whether it does its work.

use parking_lot::Mutex;
use std::path::PathBuf;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use tokio::sync::watch;

use super::rest::Rest;
use super::{SERVER_REST, SILENCE_REST};
use crate::base::clock::{BootClock, Clock};
use crate::kube::{Failure, KubeClient, Object, Resource, Verb, Watch};
use crate::protocol::Mono;
use crate::store::{ShortestLease, StoreError, StoreHealth, push_change};

/// How long a watch lasts before it is opened anew: the server's own bound is a little more.
const WATCH_SECONDS: u32 = 280;

/// See the module.
pub(super) struct LeaseApi {
    client: KubeClient,
    timeout: Duration,
    health: watch::Sender<StoreHealth>,
    /// Candidates and watches give the server rest when it asks for that, and when it does not do its work. Leaders
    /// have a deadline, and a rest of their own.
    rest: Mutex<Rest>,
    lease_min: ShortestLease,
}

const fn lease(name: &str) -> Object<'_> {
    Object { resource: Resource::LEASES, name }
}

impl LeaseApi {
    /// `seed` spreads the replicas' rests.
    pub fn new(
        kubeconfig: Option<PathBuf>,
        namespace: Option<String>,
        timeout: Duration,
        lease_min: ShortestLease,
        seed: u64,
    ) -> Self {
        let (health, _) = watch::channel(StoreHealth::Down { reason: "not connected yet".to_owned() });
        let client = KubeClient::new(kubeconfig, namespace, timeout);
        Self { client, timeout, health, rest: Mutex::new(Rest::new(seed)), lease_min }
    }

    pub fn health(&self) -> watch::Receiver<StoreHealth> {
        self.health.subscribe()
    }

    /// When a request that begins now counts as unanswered.
    pub fn deadline(&self) -> Mono {
        self.client.deadline()
    }

    /// Where it is, once that is known: for messages.
    pub fn endpoint(&self) -> &str {
        self.client.endpoint()
    }

    /// For how long the server is to be left alone by whoever can wait, and why.
    pub fn resting(&self) -> Option<(Duration, StoreError)> {
        self.rest.lock().left(BootClock.now())
    }

    /// The same for who can wait, and would ask now.
    pub fn admit(&self) -> Option<(Duration, StoreError)> {
        self.rest.lock().admit(BootClock.now(), self.timeout * 2)
    }

    /// Reads the object; none when there is none.
    pub async fn get(&self, name: &str, deadline: Mono) -> Result<Option<Lease>, Failure> {
        self.ask(deadline, self.client.get(lease(name))).await
    }

    /// Makes it, unless it is there.
    pub async fn create(&self, name: &str, new: &Lease, deadline: Mono) -> Result<Lease, Failure> {
        self.ask(deadline, self.client.create(lease(name), new)).await
    }

    /// Replaces it, if it still has the version that `new` has.
    pub async fn update(&self, name: &str, new: &Lease, deadline: Mono) -> Result<Lease, Failure> {
        self.ask(deadline, self.client.replace(lease(name), new)).await
    }

    /// Deletes it, if it still is this object in this version.
    pub async fn delete(&self, name: &str, seen: &Lease, deadline: Mono) -> Result<(), Failure> {
        let (uid, version) = (seen.metadata.uid.clone(), seen.metadata.resource_version.clone());
        self.ask(deadline, self.client.delete(lease(name), uid, version)).await
    }

    /// Opens a watch on this one object, which begins with what it is now.
    pub async fn watch(&self, name: &str) -> Result<Watch<Lease>, Failure> {
        self.ask(self.deadline(), self.client.watch(lease(name), WATCH_SECONDS)).await
    }

    /// The server's version.
    pub async fn version(&self) -> Result<String, Failure> {
        self.ask(self.deadline(), self.client.version()).await
    }

    /// Asks whether RBAC lets us do this to the object.
    pub async fn may(&self, verb: Verb, name: &str) -> Result<bool, Failure> {
        self.ask(self.deadline(), self.client.may(verb, lease(name))).await
    }

    /// Waits for an answer until `deadline`, and notes health and rest as it tells.
    async fn ask<T>(&self, deadline: Mono, request: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        let outcome = self.client.by(deadline, request).await;
        // What it has against one role is told beside the role.
        let trouble = outcome.as_ref().err().filter(|failure| failure.is_outage());
        let trouble = trouble.map(|failure| (StoreError::from(failure.clone()), failure.retry_after()));
        let health =
            trouble.as_ref().map_or(StoreHealth::Up, |(error, _)| StoreHealth::Down { reason: error.to_string() });
        match trouble {
            None => self.rest.lock().end(),
            Some((error, asked)) => {
                let part = if matches!(error, StoreError::Unknown { .. }) { SILENCE_REST } else { SERVER_REST };
                self.rest.lock().begin(BootClock.now(), error, asked, self.lease_min.get() / part);
            }
        }
        push_change(&self.health, health);
        outcome
    }
}
