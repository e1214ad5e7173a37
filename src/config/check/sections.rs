//! The small sections: identity, listeners, log.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use super::Checker;
use crate::config::model::{ApiConfig, LogConfig, LogFormat, LogLevel, Secret, TelemetryConfig};
use crate::config::position::Path;
use crate::config::raw::{RawApi, RawLog, RawTelemetry, Scalar};

/// The variable that names the pod, set by the downward API.
const POD_NAME: &str = "POD_NAME";
/// The longest name that Kubernetes gives to anything.
const IDENTITY_BYTES_MAX: usize = 253;
const API_PORT: u16 = 4040;
const TELEMETRY_PORT: u16 = 4041;

impl Checker<'_> {
    /// The identity: as given, else POD_NAME, else the hostname.
    pub(super) fn identity(&mut self, given: Option<&Scalar>, path: &Path) -> Option<Arc<str>> {
        if self.is_bad(path) {
            return None;
        }
        let name = match given {
            Some(_) => self.text(given, path)?.to_owned(),
            None => {
                let pod_name = self.environment.variable(POD_NAME).filter(|name| !name.trim().is_empty());
                let name = pod_name.or_else(|| self.environment.hostname().map(str::to_owned));
                let Some(name) = name else {
                    let message = "cannot be found out: neither POD_NAME nor a hostname is set; write `identity: …`";
                    self.problem(path, message.to_owned());
                    return None;
                };
                name
            }
        };
        let why = if name.contains("$(") {
            "holds an unexpanded `$(`; Kubernetes fills in `$(NAME)` only in a container's `env`, `command` and \
             `args`, so set POD_NAME from the downward API (fieldRef metadata.name) and write `${POD_NAME}` here"
        } else if name.chars().any(|c| c.is_control() || c.is_whitespace()) {
            "holds spaces or control characters; use a name such as the pod's"
        } else if name.len() > IDENTITY_BYTES_MAX {
            "is longer than 253 bytes; use a name such as the pod's"
        } else {
            return Some(Arc::from(name));
        };
        self.problem(path, why.to_owned());
        None
    }

    /// The app's listener.
    pub(super) fn api(&mut self, raw: Option<&RawApi>, path: &Path) -> Option<ApiConfig> {
        let default = SocketAddr::from((Ipv4Addr::LOCALHOST, API_PORT));
        let listen = self.listen(raw.and_then(|api| api.listen.as_ref()), &path.key("listen"), default);
        let token_path = path.key("tokenFile");
        let token_given = raw.and_then(|api| api.token_file.as_ref());
        let token = self.file(token_given, &token_path, bearer_token).map(Secret::File);
        let listen = listen?;
        if !listen.ip().to_canonical().is_loopback() && token_given.is_none() && !self.is_bad(&token_path) {
            self.problem(
                &path.key("listen"),
                format!(
                    "{listen} can be reached from outside this pod, so anybody could make a leader resign; write \
                     127.0.0.1:{}, or add `tokenFile`",
                    listen.port()
                ),
            );
        }
        Some(ApiConfig { listen, token })
    }

    /// The kubelet's listener.
    pub(super) fn telemetry(&mut self, raw: Option<&RawTelemetry>, path: &Path) -> Option<TelemetryConfig> {
        let default = SocketAddr::from((Ipv4Addr::UNSPECIFIED, TELEMETRY_PORT));
        let given = raw.and_then(|telemetry| telemetry.listen.as_ref());
        self.listen(given, &path.key("listen"), default).map(|listen| TelemetryConfig { listen })
    }

    /// Two listeners cannot share a port, unless on two addresses of which neither means all. Port 0 is a free one
    /// each.
    pub(super) fn distinct_listeners(&mut self, api: SocketAddr, telemetry: SocketAddr, path: &Path) {
        let overlap = api.ip() == telemetry.ip() || api.ip().is_unspecified() || telemetry.ip().is_unspecified();
        if api.port() != 0 && api.port() == telemetry.port() && overlap {
            let message = format!(
                "{telemetry} and api.listen {api} are the same port; give them two, as {API_PORT} and \
                                   {TELEMETRY_PORT}"
            );
            self.problem(path, message);
        }
    }

    /// `log:`
    pub(super) fn log(&mut self, raw: Option<&RawLog>, path: &Path) -> Option<LogConfig> {
        let levels = [
            ("error", LogLevel::Error),
            ("warn", LogLevel::Warn),
            ("info", LogLevel::Info),
            ("debug", LogLevel::Debug),
            ("trace", LogLevel::Trace),
        ];
        let formats = [("json", LogFormat::Json), ("text", LogFormat::Text)];
        let level = self.word(raw.and_then(|log| log.level.as_ref()), &path.key("level"), &levels);
        let format = self.word(raw.and_then(|log| log.format.as_ref()), &path.key("format"), &formats);
        Some(LogConfig { level: level.unwrap_or(LogLevel::Info), format: format.unwrap_or(LogFormat::Json) })
    }

    fn listen(&mut self, given: Option<&Scalar>, path: &Path, default: SocketAddr) -> Option<SocketAddr> {
        if self.is_bad(path) {
            return None;
        }
        if given.is_none() {
            return Some(default);
        }
        // An unquoted port is a number; it gets the hint about addresses, not the one about quotes.
        let address = match given {
            Some(Scalar::Number(port)) => format!(":{port}"),
            _ => self.text(given, path)?.to_owned(),
        };
        if let Ok(address) = address.parse() {
            return Some(address);
        }
        let hint = match address.rsplit_once(':') {
            Some(("", port)) if port.parse::<u16>().is_ok() => {
                format!("; for port {port} of the same pod write 127.0.0.1:{port}, for all addresses 0.0.0.0:{port}")
            }
            Some(("localhost", port)) => format!("; instead of a name write 127.0.0.1:{port}"),
            _ => format!("; write an IP address and a port, such as {default} or [::1]:{}", default.port()),
        };
        let shown = given.map(|given| self.shown(given, path)).unwrap_or_default();
        self.problem(path, format!("{shown} is not an address to listen on{hint}"));
        None
    }
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
