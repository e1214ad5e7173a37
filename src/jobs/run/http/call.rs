//! One request and its answer. Whoever drops the future closes the connection.

use std::sync::OnceLock;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::header::LOCATION;
use hyper::{Request, Response, StatusCode};
use rustls::RootCertStore;
use secrecy::{ExposeSecret, SecretString};
use tokio::time::timeout;
use url::Url;

use super::super::Assignment;
use super::fault::Fault;
use super::request::request;
use crate::config::HttpRun;
use crate::http::client::{self, AnswerBody};
use crate::http::tls::secure;

/// How much of an answer is kept for the note; the rest is read and forgotten.
const TEXT_BYTES_MAX: usize = 4 << 10;
/// What an app may still say after its 202 before the connection is closed.
const ACCEPTED_BODY: Duration = Duration::from_secs(1);
/// Shorter words of a secret are part of many harmless texts.
const SECRET_WORD_MIN: usize = 8;

/// What the app said.
pub enum CallOutcome {
    /// 202, where that means so: it works on, and will say when it is done.
    Accepted {
        /// How long it may be silent meanwhile.
        silence_max: Duration,
    },
    /// A status that means success, and what its body says.
    Succeeded { text: Option<String> },
    /// Another status: which, and what its body says.
    Failed { why: String },
}

/// How far the exchange has come, for telling what took too long.
#[derive(Default)]
struct Reached {
    connected: OnceLock<()>,
    status: OnceLock<StatusCode>,
}

/// Asks, and waits for the answer for as long as the configuration says, its body included.
///
/// # Errors
/// There is no whole answer.
pub async fn call(http: &HttpRun, assignment: &Assignment, roots: fn() -> RootCertStore) -> Result<CallOutcome, Fault> {
    let (request, secrets) = request(http, assignment)?;
    let at = authority(&http.url);
    let reached = Reached::default();
    let outcome = timeout(http.timeout, exchange(http, request, &at, roots, &reached)).await;
    let after = http.timeout;
    if let (Some(&StatusCode::ACCEPTED), Some(silence_max)) = (reached.status.get(), http.heartbeat_timeout) {
        // What becomes of the rest of its answer says nothing.
        return Ok(CallOutcome::Accepted { silence_max });
    }
    match (outcome, reached.status.get()) {
        (Ok(Ok((head, text))), _) => Ok(judge(http, &head, text.map(|text| veiled(text, &secrets)))),
        (Ok(Err(fault)), _) => Err(fault),
        (Err(_), Some(status)) => Err(Fault::BodyTimeout { status: status.as_u16(), after }),
        (Err(_), None) if reached.connected.get().is_some() => Err(Fault::AnswerTimeout { at, after }),
        (Err(_), None) => Err(Fault::ConnectTimeout { at, after }),
    }
}

/// `host:port`, always with the port.
fn authority(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port_or_known_default().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// Sends the request on a connection of its own, and reads the answer to its end.
async fn exchange(
    http: &HttpRun,
    request: Request<Full<Bytes>>,
    at: &str,
    roots: fn() -> RootCertStore,
    reached: &Reached,
) -> Result<(Response<()>, Option<String>), Fault> {
    let broken = |error: hyper::Error| Fault::exchanging(at, error);
    let host = http.url.host_str().ok_or_else(|| Fault::Request { why: "the URL names no host".to_owned() })?;
    let port = http.url.port_or_known_default().unwrap_or(80);
    let stream = client::connect(host, port, http.timeout).await.map_err(|error| Fault::connecting(at, error))?;
    let answer = if http.url.scheme() == "https" {
        let stream = secure(stream, host, roots).await;
        let stream = stream.map_err(|error| Fault::Tls { at: at.to_owned(), why: error.to_string() })?;
        let _ = reached.connected.set(());
        client::send(stream, request).await
    } else {
        let _ = reached.connected.set(());
        client::send(stream, request).await
    };
    let (head, mut body) = answer.map_err(broken)?.into_parts();
    let _ = reached.status.set(head.status);
    let text = if head.status == StatusCode::ACCEPTED && http.heartbeat_timeout.is_some() {
        timeout(ACCEPTED_BODY, read(&mut body)).await.unwrap_or(Ok(None))
    } else {
        read(&mut body).await
    };
    Ok((Response::from_parts(head, ()), text.map_err(broken)?))
}

/// Reads a body to its end, and keeps its beginning if that is text.
async fn read(body: &mut AnswerBody) -> Result<Option<String>, hyper::Error> {
    let mut kept = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        let taken = data.len().min(TEXT_BYTES_MAX - kept.len());
        kept.extend_from_slice(&data[..taken]);
    }
    Ok(text(kept))
}

/// The bytes as text, if they are: the last character may be cut off by the bound.
fn text(bytes: Vec<u8>) -> Option<String> {
    let end = match std::str::from_utf8(&bytes) {
        Ok(text) => text.len(),
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        Err(_) => return None,
    };
    let text = String::from_utf8_lossy(&bytes[..end]).into_owned();
    Some(text).filter(|text| !text.trim().is_empty() && !text.contains('\0'))
}

/// What an answer means.
fn judge(http: &HttpRun, head: &Response<()>, text: Option<String>) -> CallOutcome {
    let status = head.status();
    if http.success.iter().any(|range| range.contains(&status.as_u16())) {
        return CallOutcome::Succeeded { text };
    }
    let mut why = format!("status {}", status.as_u16());
    if let Some(reason) = status.canonical_reason() {
        why = format!("{why} {reason}");
    }
    if status.is_redirection() {
        let target = head.headers().get(LOCATION).and_then(|target| target.to_str().ok());
        let target = target.and_then(|target| http.url.join(target).ok()).map(bare);
        let leads = target.map(|target| format!(": it leads to {target}, and redirects are not followed"));
        return CallOutcome::Failed { why: format!("{why}{}", leads.unwrap_or_default()) };
    }
    CallOutcome::Failed { why: text.map_or(why.clone(), |text| format!("{why}: {text}")) }
}

/// A URL without the parts that people put secrets into.
fn bare(mut url: Url) -> Url {
    url.set_query(None);
    url.set_fragment(None);
    // Fails where there can be none.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url
}

/// `text` without the secrets that were sent: an app may repeat what it was told.
fn veiled(text: String, secrets: &[SecretString]) -> String {
    let words = secrets.iter().flat_map(|secret| secret.expose_secret().split_whitespace());
    words.filter(|word| word.len() >= SECRET_WORD_MIN).fold(text, |text, word| text.replace(word, "***"))
}
