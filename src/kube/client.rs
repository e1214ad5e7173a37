//! The client: credentials, found when they are first needed, and one request for each thing that can be asked.

use std::path::PathBuf;
use std::time::Duration;

use futures_util::StreamExt;
use http_body_util::{BodyExt, Limited};
use hyper::Request;
use hyper::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec};
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::Request as Requests;
use kube::core::params::{DeleteParams, GetParams, PostParams, Preconditions, WatchParams};
use kube::core::request::Error as RequestError;
use kube::core::response::Status;
use kube::{Client, Config};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::OnceCell;

use super::errors::{Asked, Failure, chain};
use super::{Named, Object, Resource, Verb, Watch};
use crate::base::clock::{BootClock, Clock};
use crate::protocol::Mono;

/// An object of ours is some thousand bytes, a pod some ten thousand; an error page is a few thousand.
const BODY_BYTES_MAX: usize = 4 << 20;

/// Of pods nothing but their metadata is patched, nor of interest then.
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

/// How an object is to be changed.
pub enum Patch {
    /// RFC 7386.
    Merge(Value),
    /// RFC 6902; one whose tests fail is a [`Failure::Conflict`].
    Steps(Vec<Value>),
}

/// A client for one namespace of one API server. It connects when it is first needed: a service account that is mounted
/// late is no reason to end.
///
/// A request has no bound in itself: [`Self::by`] gives it one.
#[derive(Debug)]
pub struct KubeClient {
    connection: OnceCell<Connection>,
    kubeconfig: Option<PathBuf>,
    namespace: Option<String>,
    timeout: Duration,
}

struct Connection {
    client: Client,
    /// Host and port of the API server: for messages.
    endpoint: String,
    namespace: String,
}

/// Without the client, which may hold credentials.
impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

impl KubeClient {
    /// With the credentials of this pod's service account, or of this kubeconfig; without one, of the kubeconfig that
    /// `KUBECONFIG` or the home directory leads to. Without a `namespace`, in that of the credentials: the pod's own,
    /// or that of the kubeconfig's context. `timeout`: how long a connection may take, and a request.
    pub fn new(kubeconfig: Option<PathBuf>, namespace: Option<String>, timeout: Duration) -> Self {
        Self { connection: OnceCell::new(), kubeconfig, namespace, timeout }
    }

    /// Where it is, once that is known: for messages.
    pub fn endpoint(&self) -> &str {
        self.connection.get().map_or("the API server", |connection| &connection.endpoint)
    }

    /// When a request that begins now counts as unanswered.
    pub fn deadline(&self) -> Mono {
        BootClock.now() + self.timeout
    }

    /// Waits for a request until `deadline`. Then it is dropped: its connection is closed, and what was sent may still
    /// be done.
    ///
    /// # Errors
    /// [`Failure`], as of every request.
    pub async fn by<T>(&self, deadline: Mono, request: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        let answered = tokio::time::timeout(deadline.since(BootClock.now()), request).await;
        answered.unwrap_or_else(|_| Err(Failure::too_late(self.endpoint(), self.timeout)))
    }

    /// Reads an object; none when there is none.
    pub async fn get<T: DeserializeOwned>(&self, object: Object<'_>) -> Result<Option<T>, Failure> {
        match self.ask(object, Verb::Get, |all| all.get(object.name, &GetParams::default())).await {
            Ok(present) => Ok(Some(present)),
            Err(Failure::Missing) => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Makes it, unless it is there.
    pub async fn create<T: Serialize + DeserializeOwned>(&self, object: Object<'_>, new: &T) -> Result<T, Failure> {
        self.ask(object, Verb::Create, |all| all.create(&PostParams::default(), json(new)?)).await
    }

    /// Replaces it, if it still has the version that `new` has.
    pub async fn replace<T: Serialize + DeserializeOwned>(&self, object: Object<'_>, new: &T) -> Result<T, Failure> {
        self.ask(object, Verb::Update, |all| all.replace(object.name, &PostParams::default(), json(new)?)).await
    }

    /// Changes it, and reads its metadata.
    pub async fn patch<T: DeserializeOwned>(&self, object: Object<'_>, patch: &Patch) -> Result<T, Failure> {
        let (kind, body) = match patch {
            Patch::Merge(body) => ("application/merge-patch+json", json(body)),
            Patch::Steps(steps) => ("application/json-patch+json", json(steps)),
        };
        let patched = self.ask(object, Verb::Patch, |all| {
            let request = Request::patch(format!("{}/{}", all.url_path, object.name));
            let request = request.header(ACCEPT, METADATA).header(CONTENT_TYPE, kind);
            request.body(body?).map_err(RequestError::BuildRequest)
        });
        match (patched.await, patch) {
            // What a test in it that failed is answered with.
            (Err(Failure::Denied { code: 422, .. }), Patch::Steps(_)) => Err(Failure::Conflict),
            (patched, _) => patched,
        }
    }

    /// Deletes it, if it still is this object in this version.
    pub async fn delete(
        &self,
        object: Object<'_>,
        uid: Option<String>,
        resource_version: Option<String>,
    ) -> Result<(), Failure> {
        let preconditions = Some(Preconditions { resource_version, uid });
        let params = DeleteParams { preconditions, ..DeleteParams::default() };
        let deleted: Value = self.ask(object, Verb::Delete, |all| all.delete(object.name, &params)).await?;
        drop(deleted);
        Ok(())
    }

    /// Opens a watch on this one object, which begins with what it is now and lasts for so many seconds.
    pub async fn watch<T>(&self, object: Object<'_>, seconds: u32) -> Result<Watch<T>, Failure>
    where
        T: Named + Clone + DeserializeOwned + Send + 'static,
    {
        let params = WatchParams {
            field_selector: Some(format!("metadata.name={}", object.name)),
            timeout: Some(seconds),
            bookmarks: false,
            ..WatchParams::default()
        };
        let (connection, asked, request) = self.prepare(object, Verb::Watch, |all| all.watch(&params, "")).await?;
        let opened = connection.client.request_events::<T>(request).await;
        let events = opened.map_err(|error| asked.failed(&error))?;
        Ok(Watch::new(events.boxed(), object.name, seconds))
    }

    pub async fn version(&self) -> Result<String, Failure> {
        let what = Object { resource: Resource::LEASES, name: "version" };
        let request = |_| Request::get("/version").body(Vec::new()).map_err(RequestError::BuildRequest);
        let answer: Value = self.ask(what, Verb::Get, request).await?;
        Ok(answer.get("gitVersion").and_then(Value::as_str).unwrap_or("of an unknown version").to_owned())
    }

    /// Asks whether RBAC lets us do this to the object.
    pub async fn may(&self, verb: Verb, object: Object<'_>) -> Result<bool, Failure> {
        let connection = self.connection().await?;
        let attributes = ResourceAttributes {
            group: Some(object.resource.group.to_owned()),
            resource: Some(object.resource.plural.to_owned()),
            verb: Some(verb.as_str().to_owned()),
            namespace: Some(self.namespace(connection).to_owned()),
            // Nothing that does not exist yet can be named by a rule.
            name: (verb != Verb::Create).then(|| object.name.to_owned()),
            ..ResourceAttributes::default()
        };
        let review = SelfSubjectAccessReview {
            spec: SelfSubjectAccessReviewSpec { resource_attributes: Some(attributes), ..Default::default() },
            ..SelfSubjectAccessReview::default()
        };
        let reviewed = self.ask(object, verb, |_| {
            let reviews = Requests::new("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews");
            reviews.create(&PostParams::default(), json(&review)?)
        });
        let reviewed: SelfSubjectAccessReview = reviewed.await?;
        Ok(reviewed.status.is_some_and(|status| status.allowed))
    }

    /// Sends a request, once, and reads its answer.
    async fn ask<T: DeserializeOwned>(
        &self,
        object: Object<'_>,
        verb: Verb,
        request: impl FnOnce(Requests) -> Result<Request<Vec<u8>>, RequestError>,
    ) -> Result<T, Failure> {
        let (connection, asked, request) = self.prepare(object, verb, request).await?;
        let sent = connection.client.send(request.map(Body::from)).await;
        let response = sent.map_err(|error| asked.failed(&error))?;
        let code = response.status();
        let header = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let body = Limited::new(response.into_body(), BODY_BYTES_MAX).collect().await;
        let body = body.map_err(|error| asked.unusable(&format!("'s answer broke off: {error}")))?.to_bytes();
        if code.is_success() {
            return serde_json::from_slice(&body)
                .map_err(|error| asked.unusable(&format!(" answers what is no {}: {error}", object.resource.kind)));
        }
        let status: Status = serde_json::from_slice(&body)
            .unwrap_or_else(|_| Status { message: String::from_utf8_lossy(&body).into_owned(), ..Status::default() });
        Err(asked.judge(code.as_u16(), &status, header))
    }

    async fn prepare<'a>(
        &'a self,
        object: Object<'a>,
        verb: Verb,
        request: impl FnOnce(Requests) -> Result<Request<Vec<u8>>, RequestError>,
    ) -> Result<(&'a Connection, Asked<'a>, Request<Vec<u8>>), Failure> {
        let connection = self.connection().await?;
        let namespace = self.namespace(connection);
        let request = request(Requests::new(object.resource.path(namespace)))
            .map_err(|error| Failure::unsent(format!("the request cannot be made: {error}")))?;
        Ok((connection, Asked { endpoint: &connection.endpoint, namespace, object, verb }, request))
    }

    /// Where the objects are.
    fn namespace<'a>(&'a self, connection: &'a Connection) -> &'a str {
        self.namespace.as_deref().unwrap_or(&connection.namespace)
    }

    /// The connection, made now if it is the first time. Nothing is asked of the server.
    async fn connection(&self) -> Result<&Connection, Failure> {
        self.connection.get_or_try_init(|| self.connect()).await.map_err(Failure::unsent)
    }

    async fn connect(&self) -> Result<Connection, String> {
        let mut config = self.config().await?;
        // Nobody here can wait for a client's own retries; and what is not answered in time has our bound.
        config.default_retry = false;
        config.connect_timeout = Some(self.timeout);
        let endpoint = config.cluster_url.authority().map_or("?", |authority| authority.as_str());
        // Without what may stand before the host.
        let endpoint = endpoint.rsplit('@').next().unwrap_or("?").to_owned();
        let namespace = config.default_namespace.trim().to_owned();
        let client = Client::try_from(config)
            .map_err(|error| format!("the client for {endpoint} cannot be made: {}", chain(&error)))?;
        Ok(Connection { client, endpoint, namespace })
    }

    /// The pod's service account, else the kubeconfig: a pod that has both is in its own cluster.
    async fn config(&self) -> Result<Config, String> {
        let options = KubeConfigOptions::default();
        if let Some(path) = &self.kubeconfig {
            let read = Kubeconfig::read_from(path).map_err(|error| chain(&error))?;
            let config = Config::from_custom_kubeconfig(read, &options).await;
            return config.map_err(|error| format!("{}: {}", path.display(), chain(&error)));
        }
        let incluster = match Config::incluster() {
            Ok(config) => return Ok(config),
            Err(error) => chain(&error),
        };
        Config::from_kubeconfig(&options).await.map_err(|error| {
            format!(
                "there are no credentials: neither a pod's service account ({incluster}) nor a kubeconfig ({}); in a \
                 pod, check automountServiceAccountToken",
                chain(&error)
            )
        })
    }
}

fn json(value: &impl Serialize) -> Result<Vec<u8>, RequestError> {
    serde_json::to_vec(value).map_err(RequestError::SerializeBody)
}
