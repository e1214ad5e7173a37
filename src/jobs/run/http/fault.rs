//! Why there is no answer.

use std::io;
use std::time::Duration;

use crate::http::client::ConnectError;

/// See the module. `at` is `host:port`; no text holds a secret, or the URL, which may.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The configuration's header cannot be sent: its file is gone, or holds what no header may.
    #[error("the header {name} cannot be sent: {why}")]
    Header { name: String, why: String },
    /// The request cannot be made of what is configured.
    #[error("the request cannot be made: {why}")]
    Request { why: String },
    /// No address.
    #[error("{host} cannot be resolved: {error}")]
    Resolve { host: String, error: io::Error },
    /// There is nobody.
    #[error("nothing listens at {at}: the connection was refused")]
    Refused { at: String },
    /// No connection for another reason.
    #[error("no connection to {at}: {error}")]
    Connect { at: String, error: io::Error },
    /// No trust.
    #[error("no TLS with {at}: {why}")]
    Tls { at: String, why: String },
    /// The connection was lost.
    #[error("{at} closed the connection before its answer was whole")]
    Closed { at: String },
    /// Something else than HTTP.
    #[error("{at} answers no HTTP/1.1: {error}")]
    NotHttp { at: String, error: hyper::Error },
    /// The exchange failed otherwise.
    #[error("the exchange with {at} failed: {why}")]
    Exchange { at: String, why: String },
    /// Too late, before there was a connection.
    #[error("no connection to {at} within {after:?}")]
    ConnectTimeout { at: String, after: Duration },
    /// Too late, before there was an answer.
    #[error("no answer from {at} within {after:?}")]
    AnswerTimeout { at: String, after: Duration },
    /// Too late, before the answer was whole.
    #[error("status {status}, but the answer was not whole within {after:?}")]
    BodyTimeout { status: u16, after: Duration },
}

impl Fault {
    /// Why there is no connection.
    pub fn connecting(at: &str, error: ConnectError) -> Self {
        let at = at.to_owned();
        match error {
            ConnectError::Resolve { host, error } => Self::Resolve { host, error },
            ConnectError::NoAddress { .. } => Self::Request { why: error.to_string() },
            ConnectError::Refused(error) if error.kind() == io::ErrorKind::ConnectionRefused => Self::Refused { at },
            ConnectError::Refused(error) => Self::Connect { at, error },
            ConnectError::Timeout { after } => Self::ConnectTimeout { at, after },
        }
    }

    /// Why an exchange broke off.
    pub fn exchanging(at: &str, error: hyper::Error) -> Self {
        let at = at.to_owned();
        if error.is_parse() {
            return Self::NotHttp { at, error };
        }
        let cause = std::error::Error::source(&error).and_then(|cause| cause.downcast_ref::<io::Error>());
        let lost = |cause: &io::Error| {
            matches!(
                cause.kind(),
                io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::UnexpectedEof
            )
        };
        if error.is_incomplete_message() || error.is_closed() || error.is_canceled() || cause.is_some_and(lost) {
            return Self::Closed { at };
        }
        let why = cause.map_or_else(|| error.to_string(), ToString::to_string);
        Self::Exchange { at, why }
    }
}
