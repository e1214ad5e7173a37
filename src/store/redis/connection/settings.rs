//! From the configuration to a client of fred. Everything that may change while Baton runs (passwords, certificates) is
//! read anew for every connection.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fred::clients::Client;
use fred::types::RespVersion;
use fred::types::config::{
    Config, ConnectionConfig, PerformanceConfig, Server, ServerConfig, TcpConfig, TlsConfig as FredTls, TlsConnector,
    UnresponsiveConfig,
};
use rustls::client::WebPkiServerVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use secrecy::{ExposeSecret, SecretString};
use socket2_fred::TcpKeepalive;

use super::addresses::{PassedOver, look_up};
use super::cluster::{NodeAddress, Nodes};
use super::errors::SetupError;
use super::identity::AnyHost;
use super::sentinels::Sentinels;
use crate::base::Backoff;
use crate::config::{Guard, RedisConfig, Secret, TlsConfig};
use crate::http::tls::system_roots;
use crate::store::redis::credentials::{CredentialSource, Issued};
use crate::store::redis::namespace::Namespace;
use crate::store::{ShortestLease, StoreError};

/// How many messages may wait for the subscriber's task before it must assume a gap. fred reserves that many places in
/// each of its eight channels, so this is memory.
const MESSAGES_MAX: usize = 256;
/// No sooner than this is a connection taken for dead, however short the lease.
const UNRESPONSIVE_MIN: Duration = Duration::from_millis(100);
/// The longest silence, however long the leases are: two fifths of the default one.
const SILENCE_MAX: Duration = Duration::from_secs(6);
/// The first pause between two attempts to connect.
const PAUSE_MIN: Duration = Duration::from_millis(25);
/// No pause is longer, however long the leases.
pub(super) const PAUSE_MAX: Duration = Duration::from_secs(1);
/// The connections of slots that are of no more use are looked for once in so many of the shortest lease.
const IDLE_LEASES: u32 = 4;

/// A TLS handshake takes several round trips and may take longer than a command.
const CONNECT_TIMEOUT_MIN: Duration = Duration::from_millis(500);
/// The kernel counts the idle time of a connection in seconds, and refuses zero.
const KERNEL_SECOND: Duration = Duration::from_secs(1);

/// What it takes to open a connection.
pub struct Settings {
    /// The URL without TLS in its scheme: fred would then read the system's certificates, and fail without any.
    url: SecretString,
    tls: Option<TlsConfig>,
    username: Option<Secret>,
    password: Option<Secret>,
    /// Where credentials come from that change while Baton runs.
    pub credentials: Option<Arc<CredentialSource>>,
    /// When a command counts as unanswered.
    pub command_timeout: Duration,
    /// What connections are judged by.
    pub timeouts: Timeouts,
    /// Under which names this store keeps what it keeps.
    pub namespace: Namespace,
    /// Where the connection goes, for people: host and port, nothing secret.
    pub endpoint: String,
    /// How much of R5 is in force: whether a server that may have forgotten a lease grants nobody new.
    pub guard: Guard,
    /// How many replicas must acknowledge (R6).
    pub acks: u32,
    /// The only server, unless others say where it is.
    pub server: Option<NodeAddress>,
    /// Which addresses of its name were of no use.
    pub passed_over: PassedOver,
    /// The nodes of the cluster, if it is one.
    pub nodes: Option<Nodes>,
    /// The Sentinels that are asked for the master, if there are any.
    pub sentinels: Option<Sentinels>,
    /// A server has said that it has no RESP3: from then on RESP2 is spoken, which all have.
    pub no_resp3: Arc<AtomicBool>,
}

/// How long connections may do what, as the shortest lease is at that moment. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Timeouts {
    lease_min: ShortestLease,
    /// For how long a server may be silent because it was asked to wait.
    wait: Duration,
}

impl Timeouts {
    /// How long a connection may be silent, with something to answer, until it is taken for dead.
    pub fn unresponsive(&self) -> Duration {
        (self.lease_min.get() / 4).max(UNRESPONSIVE_MIN).max(self.wait)
    }

    /// After how long without a message the subscription asks for a sign of life: longer than a third of the shortest
    /// lease, so that the leader's heartbeats are sign enough, and shorter than half.
    pub fn silence_max(&self) -> Duration {
        (self.lease_min.get() * 2 / 5).clamp(UNRESPONSIVE_MIN, SILENCE_MAX)
    }

    /// How long a connection is kept before missing acknowledgements have the master looked up again: soon enough for a
    /// lease, and not at every attempt where there never are enough replicas.
    pub fn second_look(&self) -> Duration {
        self.lease_min.get() / 16
    }

    /// The pauses between two connections.
    pub fn backoff(seed: u64) -> Backoff {
        Backoff::new(seed, PAUSE_MIN)
    }

    /// The longest of them: a Redis that comes back is found well before the shortest lease has
    /// run out.
    pub fn pause_max(&self) -> Duration {
        (self.lease_min.get() / 8).min(PAUSE_MAX)
    }

    /// How long a connection is kept open that nobody uses.
    pub fn idle_max(&self) -> Duration {
        self.lease_min.get() * IDLE_LEASES
    }
}

impl Settings {
    /// Checks the URL and the TLS files, and begins to fetch credentials that change: must be called inside a tokio
    /// runtime.
    pub fn new(config: &RedisConfig, lease_min: ShortestLease, seed: u64) -> Result<Self, SetupError> {
        let (url, uses_tls) = without_tls(config.url.expose_secret())?;
        let parsed = Config::from_url(&url).map_err(|error| SetupError::Url { reason: error.details().to_owned() })?;
        let tls = uses_tls.then(|| config.tls.clone());
        // WAIT is silent for as long as it is told to be.
        let wait = if config.replication.acks > 0 { config.replication.timeout * 2 } else { Duration::ZERO };
        if let Some(tls) = &tls {
            connector(tls, &[]).map_err(|reason| SetupError::Tls { reason })?;
        }
        Ok(Self {
            namespace: Namespace { prefix: config.key_prefix.clone(), database: parsed.database.unwrap_or(0) },
            endpoint: endpoint(&parsed.server),
            guard: config.guard_in_force(),
            acks: config.replication.acks,
            server: match &parsed.server {
                ServerConfig::Centralized { .. } => hosts(&parsed.server).pop(),
                ServerConfig::Clustered { .. } | ServerConfig::Sentinel { .. } => None,
            },
            passed_over: PassedOver::default(),
            nodes: matches!(parsed.server, ServerConfig::Clustered { .. }).then(|| Nodes::new(hosts(&parsed.server))),
            sentinels: Sentinels::of(&parsed.server, hosts(&parsed.server)),
            url: SecretString::from(url),
            tls,
            no_resp3: Arc::default(),
            username: config.username.clone(),
            password: config.password.clone(),
            credentials: CredentialSource::of(config, parsed.username, seed).map(Arc::new),
            command_timeout: config.command_timeout,
            timeouts: Timeouts { lease_min, wait },
        })
    }

    /// Whether RESP3 is spoken: until a server has none.
    pub fn has_resp3(&self) -> bool {
        !self.no_resp3.load(Ordering::Relaxed)
    }

    /// Whether connections are encrypted.
    pub fn uses_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// A client for one of the Sentinels, with the credentials for them.
    pub fn sentinel_client(&self, NodeAddress { host, port }: &NodeAddress) -> Result<Client, StoreError> {
        let refused = |reason: String| StoreError::Refused { reason };
        let mut config = Config::from_url(self.url.expose_secret()).map_err(|e| refused(e.details().to_owned()))?;
        let own = ServerConfig::Centralized { server: Server::new(host.as_str(), *port) };
        if let ServerConfig::Sentinel { username, password, .. } = std::mem::replace(&mut config.server, own) {
            (config.username, config.password, config.database) = (username, password, None);
        }
        self.client_of(config, &[])
    }

    /// A client with today's credentials and certificates, not connected yet.
    ///
    /// It has no policy to reconnect: one client is one connection. What is in flight or queued when it breaks is
    /// answered with an error and can never run later, on another connection, when nobody waits for it any more.
    ///
    /// `server`: where it leads, and whose address that is; none where the Sentinels are asked. `issued`: the
    /// credential, where those change.
    pub fn client(
        &self,
        server: Option<(&NodeAddress, SocketAddr)>,
        issued: Option<&Issued>,
    ) -> Result<Client, StoreError> {
        let refused = |reason: String| StoreError::Refused { reason };
        let mut config = Config::from_url(self.url.expose_secret()).map_err(|e| refused(e.details().to_owned()))?;
        let mut names = Vec::new();
        if let Some((node, address)) = server {
            names = self.names_of(node);
            let name = names.first().map(|name| (*name).to_owned());
            let server = Server::new_with_tls(address.ip().to_string(), address.port(), name);
            config.server = ServerConfig::Centralized { server };
        }
        if let Some(Issued { credential, .. }) = issued {
            config.username = config.username.or_else(|| credential.user.clone());
            config.password = Some(credential.secret.expose_secret().to_owned());
        } else {
            let read = |secret: &Option<Secret>, key: &str| match secret.as_ref().map(Secret::read).transpose() {
                Ok(text) => Ok(text.map(|text| text.expose_secret().to_owned())),
                Err(error) => Err(refused(format!("{key} cannot be read: {error}"))),
            };
            config.username = config.username.or(read(&self.username, "usernameFile")?);
            config.password = config.password.or(read(&self.password, "passwordFile")?);
        }
        if config.username.is_some() && config.password.is_none() {
            // fred only says who it is when there is a password; a user with `nopass` takes any.
            config.password = Some(String::new());
        }
        self.client_of(config, names.get(1..).unwrap_or_default())
    }

    /// The addresses of a server as its name has them now.
    pub async fn addresses_of(&self, node: &NodeAddress) -> Result<Vec<SocketAddr>, StoreError> {
        look_up(node, &self.passed_over, self.connect_timeout()).await
    }

    /// How long a connection may take to be there.
    pub fn connect_timeout(&self) -> Duration {
        self.command_timeout.max(CONNECT_TIMEOUT_MIN)
    }

    /// Whose certificate a node may show, the one that it is asked for first: a name where there is one, for servers
    /// with several certificates.
    fn names_of<'a>(&'a self, node: &'a NodeAddress) -> Vec<&'a str> {
        let of_url = self.nodes.as_ref().map_or_else(Vec::new, |nodes| nodes.hosts_besides(node));
        let mut names: Vec<&str> = std::iter::once(node.name()).chain(of_url).collect();
        names.sort_by_key(|name| name.parse::<IpAddr>().is_ok());
        names
    }

    /// With everything that has nothing to do with where it leads, and as whom. `names`: whose certificate may be shown
    /// besides that of the server's host.
    fn client_of(&self, mut config: Config, names: &[&str]) -> Result<Client, StoreError> {
        config.version = if self.has_resp3() { RespVersion::RESP3 } else { RespVersion::RESP2 };
        // Where every connection begins. Some services refuse SELECT, whatever it asks for.
        config.database = config.database.filter(|database| *database != 0);
        config.fail_fast = true;
        if let Some(tls) = &self.tls {
            let connector =
                connector(tls, names).map_err(|reason| StoreError::Refused { reason: format!("TLS: {reason}") })?;
            config.tls = Some(FredTls::from(connector));
        }
        let performance = PerformanceConfig {
            default_command_timeout: self.command_timeout,
            broadcast_channel_capacity: MESSAGES_MAX,
            ..PerformanceConfig::default()
        };
        Ok(Client::new(config, Some(performance), Some(self.connection()), None))
    }

    fn connection(&self) -> ConnectionConfig {
        let kernel_span = self.timeouts.unresponsive().max(KERNEL_SECOND);
        ConnectionConfig {
            connection_timeout: self.connect_timeout(),
            internal_command_timeout: self.connect_timeout(),
            // A second attempt of fred's own would run a script twice.
            max_command_attempts: 1,
            reconnect_errors: Vec::new(),
            // It would look at its clock four times a second, all day long; the link knows when it waits for an answer.
            unresponsive: UnresponsiveConfig { max_timeout: None, ..UnresponsiveConfig::default() },
            tcp: TcpConfig {
                nodelay: Some(true),
                // An idle connection through a network that went away is noticed by the kernel, at no cost to Redis.
                keepalive: Some(
                    TcpKeepalive::new().with_time(kernel_span).with_interval(KERNEL_SECOND).with_retries(3),
                ),
                user_timeout: Some(kernel_span),
                ..TcpConfig::default()
            },
            ..ConnectionConfig::default()
        }
    }
}

/// Whether the TLS files are usable and fit each other, where all of them are there: a configuration may be meant for
/// another machine.
///
/// # Errors
/// [`SetupError::Tls`] with the file and what is wrong with it.
pub fn check_files(config: &RedisConfig) -> Result<(), SetupError> {
    let TlsConfig { ca_file, client } = &config.tls;
    let mut files = ca_file.iter().chain(client.iter().flat_map(|(certificate, key)| [certificate, key])).peekable();
    if files.peek().is_none() || files.any(|file| !file.exists()) {
        return Ok(());
    }
    connector(&config.tls, &[]).map(drop).map_err(|reason| SetupError::Tls { reason })
}

/// The URL with `rediss…` (or `valkeys…`) made `redis…`, and whether it was that.
fn without_tls(url: &str) -> Result<(String, bool), SetupError> {
    const SCHEMES: [&str; 6] =
        ["redis", "rediss", "redis-sentinel", "rediss-sentinel", "redis-cluster", "rediss-cluster"];
    let as_redis = url.strip_prefix("valkey").map(|rest| format!("redis{rest}"));
    let url = as_redis.as_deref().unwrap_or(url);
    let wrong = || SetupError::Url {
        reason: format!(
            "it must begin with one of {}, as in redis://redis:6379/0",
            SCHEMES.map(|s| format!("{s}:")).join(", ")
        ),
    };
    let (scheme, rest) = url.split_once("://").ok_or_else(wrong)?;
    if !SCHEMES.contains(&scheme) {
        return Err(wrong());
    }
    match scheme.strip_prefix("rediss") {
        Some(suffix) => Ok((format!("redis{suffix}://{rest}"), true)),
        None => Ok((url.to_owned(), false)),
    }
}

fn hosts(server: &ServerConfig) -> Vec<NodeAddress> {
    server.hosts().iter().map(|server| NodeAddress { host: server.host.to_string(), port: server.port }).collect()
}

fn endpoint(server: &ServerConfig) -> String {
    let hosts: Vec<String> = hosts(server).iter().map(|node| format!("{}:{}", node.host, node.port)).collect();
    hosts.join(", ")
}

/// A connector that trusts the given authorities, or the system's, and shows the client's certificate if there is one.
/// `names`: whose certificate the server may show besides its host's.
fn connector(tls: &TlsConfig, names: &[&str]) -> Result<TlsConnector, String> {
    let at = |path: &Path, error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let roots = Arc::new(roots(tls.ca_file.as_deref())?);
    let verifier = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider))
        .build()
        .map_err(|error| error.to_string())?;
    // What is no name for a certificate can be on none.
    let others = names.iter().filter_map(|name| ServerName::try_from((*name).to_owned()).ok()).collect();
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyHost { verifier, others }));
    let config = match &tls.client {
        None => builder.with_no_client_auth(),
        Some((cert_file, key_file)) => {
            let certificates = certificates(cert_file)?;
            let key = PrivateKeyDer::from_pem_file(key_file)
                .map_err(|error| at(key_file, &format!("{error}: keyFile wants a private key in PEM")))?;
            builder.with_client_auth_cert(certificates, key).map_err(|error| {
                if matches!(error, rustls::Error::InconsistentKeys(_)) {
                    let cert_file = cert_file.display();
                    let what = format!("it is not the key of {cert_file}: keyFile and certFile belong together");
                    at(key_file, &what)
                } else {
                    at(cert_file, &error)
                }
            })?
        }
    };
    Ok(TlsConnector::from(config))
}

fn roots(ca_file: Option<&Path>) -> Result<RootCertStore, String> {
    let Some(path) = ca_file else {
        let store = system_roots();
        let none = || "the system has no certificate authorities: set caFile".to_owned();
        return if store.is_empty() { Err(none()) } else { Ok(store) };
    };
    let mut store = RootCertStore::empty();
    for certificate in certificates(path)? {
        store.add(certificate).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(store)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match read {
        Ok(certificates) if certificates.is_empty() => {
            Err(format!("{}: no certificate in it: caFile and certFile want some in PEM", path.display()))
        }
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(format!("{}: {error}", path.display())),
    }
}
