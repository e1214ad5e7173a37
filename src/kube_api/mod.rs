//! The way to a Kubernetes API server: credentials, one client, and requests of which each is sent once.
//!
//! Shared by the store on Lease objects and by what is written for people; each has a [`Connector`] of its own, so that
//! neither waits for the other. What an answer means is theirs; what it says is put into words here.

mod words;

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::Request;
use hyper::header::RETRY_AFTER;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::response::Status;
use kube::{Client, Config};
use tokio::sync::OnceCell;

pub use words::{Resource, chain, missing_rule, said};

/// An object of ours is some thousand bytes, a pod some ten thousand; an error page is a few thousand.
const BODY_BYTES_MAX: usize = 4 << 20;

/// The annotation, and label, that marks a Lease object as a mirror: kept for people, and never a lease. The annotation
/// holds the token of the term that it shows.
pub const MIRROR: &str = "baton.dev/mirror";

/// Why a request did not do what it was to do.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Trouble {
    /// The server answers with a status that is no success.
    #[error("it answers {code}{}", said(status))]
    Status {
        /// The HTTP status.
        code: u16,
        /// What it says; made up from the body where that is none.
        status: Box<Status>,
        /// The header of that name, or what the status says.
        retry_after: Option<Duration>,
    },
    /// The credentials cannot be read; nothing was sent.
    #[error("the credentials cannot be read: {0}")]
    Credentials(String),
    /// The connection cannot be made, or broke: what was sent may have been done.
    #[error("{0}")]
    Broken(String),
}

impl Trouble {
    /// Of a request that got no answer.
    pub fn of(error: &kube::Error, endpoint: &str) -> Self {
        match error {
            kube::Error::Api(status) => Self::answered(status.code, status.clone(), None),
            kube::Error::Auth(error) => Self::Credentials(chain(error)),
            other => {
                let told = chain(other);
                let hint = words::hint(&told);
                Self::Broken(format!("{endpoint}: {told}{hint}"))
            }
        }
    }

    fn answered(code: u16, status: Box<Status>, header: Option<u64>) -> Self {
        let hinted = status.details.as_ref().map(|details| u64::from(details.retry_after_seconds));
        let seconds = header.or(hinted.filter(|seconds| *seconds > 0));
        Self::Status { code, status, retry_after: seconds.map(Duration::from_secs) }
    }
}

/// A client for one API server, made when it is first needed: a service account that is mounted late is no reason to
/// end.
#[derive(Debug)]
pub struct Connector {
    connection: OnceCell<Connection>,
    kubeconfig: Option<PathBuf>,
    connect_timeout: Duration,
}

/// See [`Connector`].
pub struct Connection {
    client: Client,
    endpoint: String,
    namespace: String,
}

/// Without the client, which may hold credentials.
impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

impl Connector {
    /// With the credentials of this pod's service account, or of this kubeconfig; without one, of the kubeconfig that
    /// `KUBECONFIG` or the home directory leads to.
    pub fn new(kubeconfig: Option<PathBuf>, connect_timeout: Duration) -> Self {
        Self { connection: OnceCell::new(), kubeconfig, connect_timeout }
    }

    /// The connection if it was made already.
    pub fn made(&self) -> Option<&Connection> {
        self.connection.get()
    }

    /// The connection, made now if it is the first time. Nothing is asked of the server.
    ///
    /// # Errors
    /// In words: there are no credentials, or they cannot be used.
    pub async fn connection(&self) -> Result<&Connection, String> {
        self.connection.get_or_try_init(|| self.make()).await
    }

    async fn make(&self) -> Result<Connection, String> {
        let mut config = self.config().await?;
        // Nobody here can wait for a client's own retries; and what is not answered in time has our bound.
        config.default_retry = false;
        config.connect_timeout = Some(self.connect_timeout);
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

impl Connection {
    /// kube's client, for what is more than one answer.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Host and port of the API server: for messages.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The namespace of the credentials: the pod's own, or that of the kubeconfig's context.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Sends a request, once, and waits for its answer without a bound: that is the caller's, who drops this when it
    /// takes too long. Its connection is closed then, and what was sent may still be done.
    ///
    /// # Errors
    /// [`Trouble`].
    pub async fn exchange(&self, request: Request<Vec<u8>>) -> Result<Bytes, Trouble> {
        let sent = self.client.send(request.map(Body::from)).await;
        let response = sent.map_err(|error| Trouble::of(&error, &self.endpoint))?;
        let code = response.status();
        let header = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let body = match Limited::new(response.into_body(), BODY_BYTES_MAX).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) => return Err(Trouble::Broken(format!("{}: the answer broke off: {error}", self.endpoint))),
        };
        if code.is_success() {
            return Ok(body);
        }
        let status: Status = serde_json::from_slice(&body)
            .unwrap_or_else(|_| Status { message: String::from_utf8_lossy(&body).into_owned(), ..Status::default() });
        Err(Trouble::answered(code.as_u16(), Box::new(status), header))
    }
}
