//! Requests to the API server: each bounded, none repeated, each answer judged.

use parking_lot::{Mutex, MutexGuard};
use std::path::PathBuf;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use hyper::Request;
use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
use k8s_openapi::api::coordination::v1::Lease;
use kube::core::params::{DeleteParams, GetParams, PostParams, Preconditions, WatchParams};
use kube::core::{Request as Requests, Resource, WatchEvent};
use tokio::sync::watch;

use super::errors::{self, Failure, Target, Verb};
use super::rest::Rest;
use super::{SERVER_REST, SILENCE_REST, audit};
use crate::base::clock::{BootClock, Clock};
use crate::kube_api::{Connection, Connector, Trouble};
use crate::protocol::Mono;
use crate::store::{ShortestLease, StoreError, StoreHealth};

/// How long a watch lasts before it is opened anew: the server's own bound is a little more.
const WATCH_SECONDS: u32 = 280;

/// See the module.
pub(super) struct Api {
    connector: Connector,
    namespace: Option<String>,
    timeout: Duration,
    health: watch::Sender<StoreHealth>,
    /// Candidates and watches give the server rest when it asks for that, and when it does not do its work. Leaders
    /// have a deadline, and a rest of their own.
    rest: Mutex<Rest>,
    lease_min: ShortestLease,
}

/// The events of one object.
pub(super) type Events = BoxStream<'static, Result<WatchEvent<Lease>, kube::Error>>;

impl Api {
    /// `seed` spreads the replicas' rests.
    pub fn new(
        kubeconfig: Option<PathBuf>,
        namespace: Option<String>,
        timeout: Duration,
        lease_min: ShortestLease,
        seed: u64,
    ) -> Self {
        let (health, _) = watch::channel(StoreHealth::Down { reason: "not connected yet".to_owned() });
        let connector = Connector::new(kubeconfig, timeout);
        Self { connector, namespace, timeout, health, rest: Mutex::new(Rest::new(seed)), lease_min }
    }

    pub fn health(&self) -> watch::Receiver<StoreHealth> {
        self.health.subscribe()
    }

    /// How long one request may take.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Where it is, once that is known: for messages.
    pub fn endpoint(&self) -> &str {
        self.connector.made().map_or("the API server", Connection::endpoint)
    }

    /// For how long the server is to be left alone by whoever can wait, and why.
    pub fn resting(&self) -> Option<(Duration, StoreError)> {
        self.rest().left(BootClock.now())
    }

    /// The same for who can wait, and would ask now.
    pub fn admit(&self) -> Option<(Duration, StoreError)> {
        self.rest().admit(BootClock.now(), self.timeout * 2)
    }

    fn rest(&self) -> MutexGuard<'_, Rest> {
        // Every step leaves it whole, also one that another thread panicked behind.
        self.rest.lock()
    }

    /// Reads the object; none when there is none.
    pub async fn get(&self, name: &str, deadline: Mono) -> Result<Option<Lease>, Failure> {
        let request = self.requests().await?.get(name, &GetParams::default());
        match self.ask(Verb::Get, name, request, deadline).await {
            Ok(lease) => Ok(Some(lease)),
            Err(Failure::Missing) => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Makes it, unless it is there.
    pub async fn create(&self, name: &str, lease: &Lease, deadline: Mono) -> Result<Lease, Failure> {
        let request = self.requests().await?.create(&PostParams::default(), json(lease)?);
        self.ask(Verb::Create, name, request, deadline).await
    }

    /// Replaces it, if it still has the version that `lease` has.
    pub async fn update(&self, name: &str, lease: &Lease, deadline: Mono) -> Result<Lease, Failure> {
        let request = self.requests().await?.replace(name, &PostParams::default(), json(lease)?);
        self.ask(Verb::Update, name, request, deadline).await
    }

    /// Deletes it, if it still is this object in this version.
    pub async fn delete(&self, name: &str, lease: &Lease, deadline: Mono) -> Result<(), Failure> {
        let preconditions = Preconditions {
            resource_version: lease.metadata.resource_version.clone(),
            uid: lease.metadata.uid.clone(),
        };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        let request = self.requests().await?.delete(name, &params);
        self.ask::<serde_json::Value>(Verb::Delete, name, request, deadline).await.map(drop)
    }

    /// Opens a watch on this one object, which begins with what it is now.
    pub async fn watch(&self, name: &str) -> Result<Events, Failure> {
        let deadline = BootClock.now() + self.timeout;
        let params = WatchParams {
            field_selector: Some(format!("metadata.name={name}")),
            timeout: Some(WATCH_SECONDS),
            bookmarks: false,
            ..WatchParams::default()
        };
        let request = self.requests().await?.watch(&params, "");
        let connection = self.connection().await?;
        let target = self.target(Verb::Watch, name, connection);
        let opened = connection.client().request_events::<Lease>(request.map_err(|error| impossible(&error))?);
        let events = match tokio::time::timeout(deadline.since(BootClock.now()), opened).await {
            Ok(Ok(events)) => Ok(events.boxed()),
            Ok(Err(error)) => Err(errors::of(Trouble::of(&error, connection.endpoint()), target)),
            Err(_) => Err(self.unanswered()),
        };
        self.note(events)
    }

    /// The server's version.
    pub async fn version(&self, deadline: Mono) -> Result<String, Failure> {
        let request = Request::get("/version").body(Vec::new()).map_err(kube::core::request::Error::BuildRequest);
        let answer: serde_json::Value = self.ask(Verb::Get, "version", request, deadline).await?;
        Ok(answer.get("gitVersion").and_then(serde_json::Value::as_str).unwrap_or("of an unknown version").to_owned())
    }

    /// Asks whether RBAC lets us do this to the object.
    pub async fn may(&self, verb: Verb, name: &str, deadline: Mono) -> Result<bool, Failure> {
        let review = audit::review(verb, self.namespace(self.connection().await?), name);
        let body = serde_json::to_vec(&review).map_err(|error| impossible(&error))?;
        let reviews = Requests::new(SelfSubjectAccessReview::url_path(&(), None));
        let request = reviews.create(&PostParams::default(), body);
        let answer: SelfSubjectAccessReview = self.ask(verb, name, request, deadline).await?;
        Ok(audit::allows(answer.status.as_ref()))
    }

    /// Sends a request, and waits for its answer until `deadline`.
    async fn ask<T: serde::de::DeserializeOwned>(
        &self,
        verb: Verb,
        name: &str,
        request: Result<Request<Vec<u8>>, kube::core::request::Error>,
        deadline: Mono,
    ) -> Result<T, Failure> {
        let connection = self.connection().await?;
        let request = request.map_err(|error| impossible(&error))?;
        let target = self.target(verb, name, connection);
        // Dropped when it takes too long: its connection is closed then, and what was sent may still be done.
        let answered = tokio::time::timeout(deadline.since(BootClock.now()), exchange(connection, request, target));
        self.note(answered.await.unwrap_or_else(|_| Err(self.unanswered())))
    }

    /// Health and rest, as the outcome tells.
    fn note<T>(&self, outcome: Result<T, Failure>) -> Result<T, Failure> {
        let trouble = match &outcome {
            Ok(_) | Err(Failure::Missing | Failure::Conflict) => None,
            // It answers, and what it has against this role is told beside the role.
            Err(Failure::Denied { error: StoreError::Refused { .. }, retry_after: None }) => None,
            Err(Failure::Unauthorized { reason }) => Some((StoreError::Refused { reason: reason.clone() }, None)),
            Err(Failure::Denied { error, retry_after } | Failure::Open { error, retry_after }) => {
                Some((error.clone(), *retry_after))
            }
        };
        let health =
            trouble.as_ref().map_or(StoreHealth::Up, |(error, _)| StoreHealth::Down { reason: error.to_string() });
        match trouble {
            None => self.rest().end(),
            Some((error, asked)) => {
                let part = if matches!(error, StoreError::Unknown { .. }) { SILENCE_REST } else { SERVER_REST };
                self.rest().begin(BootClock.now(), error, asked, self.lease_min.get() / part);
            }
        }
        self.health.send_if_modified(|present| {
            let changed = *present != health;
            present.clone_from(&health);
            changed
        });
        outcome
    }

    fn unanswered(&self) -> Failure {
        Failure::Open { error: StoreError::Unknown { after: self.timeout }, retry_after: None }
    }

    async fn requests(&self) -> Result<Requests, Failure> {
        Ok(Requests::new(Lease::url_path(&(), Some(self.namespace(self.connection().await?)))))
    }

    fn target<'a>(&'a self, verb: Verb, name: &'a str, connection: &'a Connection) -> Target<'a> {
        Target { endpoint: connection.endpoint(), namespace: self.namespace(connection), name, verb }
    }

    async fn connection(&self) -> Result<&Connection, Failure> {
        match self.connector.connection().await {
            Ok(connection) => Ok(connection),
            Err(reason) => {
                let error = StoreError::Unreachable { reason };
                self.note(Err(Failure::Denied { error, retry_after: None }))
            }
        }
    }

    /// Where the objects are.
    fn namespace<'a>(&'a self, connection: &'a Connection) -> &'a str {
        self.namespace.as_deref().unwrap_or(connection.namespace())
    }
}

/// One request, one answer.
async fn exchange<T: serde::de::DeserializeOwned>(
    connection: &Connection,
    request: Request<Vec<u8>>,
    target: Target<'_>,
) -> Result<T, Failure> {
    let body = connection.exchange(request).await.map_err(|trouble| errors::of(trouble, target))?;
    serde_json::from_slice(&body).map_err(|error| {
        let reason = format!("{} answers what is no Lease: {error}", connection.endpoint());
        Failure::Open { error: StoreError::Unreachable { reason }, retry_after: None }
    })
}

fn json(lease: &Lease) -> Result<Vec<u8>, Failure> {
    serde_json::to_vec(lease).map_err(|error| impossible(&error))
}

/// A request that cannot even be written: nothing was sent.
fn impossible(error: &dyn std::error::Error) -> Failure {
    let reason = format!("the request cannot be made: {error}");
    Failure::Denied { error: StoreError::Refused { reason }, retry_after: None }
}
