//! The small sections: `identity:`, `version:`, the two listeners, `log:`.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::sync::Arc;

use serde_json::Value;

use super::secret::Secret;
use super::section::{Definitions, Group, Key, Kind, Or, Preset, Reader, Section, Shape, key};
use super::tree::Node;
use super::value::{File, Text, Words, text_like};

/// `api:`
#[derive(Clone, Debug)]
pub struct ApiConfig {
    pub listen: SocketAddr,
    pub token: Option<Secret>,
}

/// `telemetry:`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TelemetryConfig {
    pub listen: SocketAddr,
}

/// `log:`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogConfig {
    pub level: LogLevel,
    pub format: LogFormat,
}

/// `log.level:`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

/// `log.format:`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    Json,
    Text,
}

pub(super) const IDENTITY: Key<Text> =
    key("identity", Text::ANY, "This replica's name for people. Default: the variable POD_NAME, else the hostname.");
/// The variable that names the pod, set by the downward API.
const POD_NAME: &str = "POD_NAME";
pub(super) const VERSION: Key<Text> = key(
    "version",
    Text::ANY,
    "Which version of the app this replica runs, for `prefer: newest`: any text that the replicas of one version have \
     in common. Default: the variable POD_VERSION.",
);
const POD_VERSION: &str = "POD_VERSION";

/// The longest name that Kubernetes gives to anything.
const IDENTITY_BYTES_MAX: usize = 253;

pub(super) const API: Key<Group> = key("api", Group(&API_SECTION), "The app's side: who leads, resign, drained.");
const API_SECTION: Section = Section::new("Api", "The app's side.", &[&API_LISTEN, &TOKEN_FILE]);
const API_DEFAULT: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 4040));
const API_LISTEN: Key<Or<Listen>> = key(
    "listen",
    Or(Listen(API_DEFAULT), API_DEFAULT),
    "IP address and port to listen on. An address that is not loopback needs `tokenFile`.",
);
const TOKEN_FILE: Key<File> =
    key("tokenFile", File(bearer_token), "A file with the bearer token that every request must carry.");

pub(super) const TELEMETRY: Key<Group> =
    key("telemetry", Group(&TELEMETRY_SECTION), "The kubelet's and Prometheus's side: metrics and probes. Read-only.");
const TELEMETRY_SECTION: Section =
    Section::new("Telemetry", "The kubelet's and Prometheus's side.", &[&TELEMETRY_LISTEN]);
const TELEMETRY_DEFAULT: SocketAddr = SocketAddr::V6(SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, 4041, 0, 0));
const TELEMETRY_LISTEN: Key<Or<Listen>> = key(
    "listen",
    Or(Listen(TELEMETRY_DEFAULT), TELEMETRY_DEFAULT),
    "IP address and port to listen on; `[::]` is for both families.",
);

pub(super) const LOG: Key<Group> = key("log", Group(&LOG_SECTION), "How to log.");
const LOG_SECTION: Section = Section::new("Log", "How to log.", &[&LEVEL, &FORMAT]);
const LEVEL: Key<Or<Words<LogLevel>>> = key(
    "level",
    Or(
        Words::of(&[
            ("error", LogLevel::Error),
            ("warn", LogLevel::Warn),
            ("info", LogLevel::Info),
            ("debug", LogLevel::Debug),
            ("trace", LogLevel::Trace),
        ]),
        LogLevel::Info,
    ),
    "The least important level that is logged.",
);
const FORMAT: Key<Or<Words<LogFormat>>> = key(
    "format",
    Or(Words::of(&[("json", LogFormat::Json), ("text", LogFormat::Text)]), LogFormat::Json),
    "`json` for machines, `text` for people.",
);

/// An address and a port to listen on; the one inside is an example.
pub(super) struct Listen(SocketAddr);

impl Shape for Listen {
    fn schema(&self, _: &mut Definitions) -> Value {
        text_like(r"^([0-9.]+|\[[0-9a-fA-F:.]+\]):[0-9]{1,5}$")
    }
}

impl Kind for Listen {
    type Value<'a> = SocketAddr;

    fn read<'a>(&self, at: &Reader<'a>) -> Option<SocketAddr> {
        // An unquoted port is a number; it gets the hint about addresses, not the one about quotes.
        let address = match at.node {
            Some(Node::Number(port)) => format!(":{port}"),
            _ => at.text()?.to_owned(),
        };
        if let Ok(address) = address.parse() {
            return Some(address);
        }
        let hint = match address.rsplit_once(':') {
            Some(("", port)) if port.parse::<u16>().is_ok() => {
                format!("; for port {port} of the same pod write 127.0.0.1:{port}, for all addresses [::]:{port}")
            }
            Some(("localhost", port)) => format!("; instead of a name write 127.0.0.1:{port}"),
            _ => format!("; write an IP address and a port, such as {} or [::1]:{}", self.0, self.0.port()),
        };
        at.problem(format!("{} is not an address to listen on{hint}", at.shown()));
        None
    }
}

impl Preset for Listen {
    type Default = SocketAddr;

    fn written(&self, default: SocketAddr) -> Value {
        default.to_string().into()
    }
}

/// The identity: as given, else POD_NAME, else the hostname.
pub(super) fn identity(top: &Reader<'_>) -> Option<Arc<str>> {
    let (place, environment) = (top.at(&IDENTITY), top.environment());
    let name = if top.has(&IDENTITY) {
        top.given(&IDENTITY)?
    } else {
        let pod_name = environment.variable(POD_NAME).filter(|name| !name.trim().is_empty());
        let Some(name) = pod_name.or_else(|| environment.hostname().map(str::to_owned)) else {
            place.problem("cannot be found out: neither POD_NAME nor a hostname is set; write `identity: …`");
            return None;
        };
        name
    };
    let why = if name.contains("$(") {
        "holds an unexpanded `$(`; Kubernetes fills in `$(NAME)` only in a container's `env`, `command` and `args`, so \
         set POD_NAME from the downward API (fieldRef metadata.name) and write `${POD_NAME}` here"
    } else if name.chars().any(|c| c.is_control() || c.is_whitespace()) {
        "holds spaces or control characters; use a name such as the pod's"
    } else if name.len() > IDENTITY_BYTES_MAX {
        "is longer than 253 bytes; use a name such as the pod's"
    } else {
        return Some(Arc::from(name));
    };
    place.problem(why);
    None
}

/// The version: as given, else POD_VERSION.
pub(super) fn version(top: &Reader<'_>) -> Option<String> {
    let place = top.at(&VERSION);
    let version = if top.has(&VERSION) {
        top.given(&VERSION)?
    } else {
        top.environment().variable(POD_VERSION).filter(|version| !version.trim().is_empty())?
    };
    if version.contains("$(") {
        // Else all versions would be one.
        place.problem(
            "holds an unexpanded `$(`; Kubernetes fills in `$(NAME)` only with variables that stand before it in the \
             same container's `env`",
        );
        return None;
    }
    Some(version)
}

/// The two listeners, which cannot share a port, unless on two addresses of which neither means all. Port 0 is a free
/// one each.
pub(super) fn read(top: &Reader<'_>) -> (ApiConfig, TelemetryConfig) {
    let (app, kubelet) = (top.at(&API), top.at(&TELEMETRY));
    let (api, telemetry) = (app.get(&API_LISTEN), kubelet.get(&TELEMETRY_LISTEN));
    let token = app.given(&TOKEN_FILE).map(Secret::File);
    if !api.ip().to_canonical().is_loopback() && !app.has(&TOKEN_FILE) {
        app.at(&API_LISTEN).problem(format!(
            "{api} can be reached from outside this pod, so anybody could make a leader resign; write 127.0.0.1:{}, or \
             add `tokenFile`",
            api.port()
        ));
    }
    let overlap = api.ip() == telemetry.ip() || api.ip().is_unspecified() || telemetry.ip().is_unspecified();
    if api.port() != 0 && api.port() == telemetry.port() && overlap {
        let [one, two] = [API_DEFAULT, TELEMETRY_DEFAULT].map(|default| default.port());
        let message = format!("{telemetry} and api.listen {api} are the same port; give them two, as {one} and {two}");
        kubelet.at(&TELEMETRY_LISTEN).problem(message);
    }
    (ApiConfig { listen: api, token }, TelemetryConfig { listen: telemetry })
}

/// `log:`
pub(super) fn log(top: &Reader<'_>) -> LogConfig {
    let s = top.at(&LOG);
    LogConfig { level: s.get(&LEVEL), format: s.get(&FORMAT) }
}

/// Judges a bearer token: it must fit into a header.
fn bearer_token(content: &str) -> Result<(), &'static str> {
    if content.is_empty() {
        Err("is empty; it must hold the token")
    } else if !content.bytes().all(|b| b.is_ascii_graphic()) {
        Err("holds a token that no header can carry; use visible ASCII characters without spaces, in one line")
    } else {
        Ok(())
    }
}
