//! What is sent.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{
    CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING, USER_AGENT,
};
use hyper::{Method, Request};
use secrecy::{ExposeSecret, SecretString};
use url::{Position, Url};

use super::super::Assignment;
use super::super::template::{fill, rfc3339};
use super::fault::Fault;
use crate::config::HttpRun;
use crate::http::client;

/// The request of an attempt, and the secrets in it. Those of the configuration's files are read here.
///
/// # Errors
/// [`Fault::Header`], [`Fault::Request`]
pub fn request(http: &HttpRun, assignment: &Assignment) -> Result<(Request<Full<Bytes>>, Vec<SecretString>), Fault> {
    let bad = |why: String| Fault::Request { why };
    let templated = http.body.as_ref().map(|template| fill(template, assignment));
    // Without a template, what the run was given is the body.
    let body = templated.or_else(|| assignment.data.as_deref().filter(|_| http.sends_body()).map(str::to_owned));
    let (mut headers, secrets) = configured(http)?;
    default(&mut headers, HOST, host(&http.url))?;
    default(&mut headers, USER_AGENT, client::USER_AGENT.to_owned())?;
    if let Some(body) = &body {
        default(&mut headers, CONTENT_TYPE, content_type(body).to_owned())?;
    }
    let run = assignment.run.to_string();
    for (name, value) in [
        ("baton-run-id", run.clone()),
        ("baton-scheduled-time", rfc3339(assignment.scheduled)),
        ("baton-attempt", assignment.attempt.to_string()),
        ("baton-fencing-token", assignment.token.to_string()),
        ("idempotency-key", run),
    ] {
        headers.insert(HeaderName::from_static(name), value_of(name, value)?);
    }
    if let Some(shard) = assignment.shard {
        headers.insert(HeaderName::from_static("baton-shard"), HeaderValue::from(shard));
    }
    // How the body is framed, and for how long the connection lasts, is ours to say.
    headers.remove(TRANSFER_ENCODING);
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(body.as_ref().map_or(0, String::len)));
    if body.is_none() && matches!(http.method.as_str(), "GET" | "HEAD" | "OPTIONS" | "DELETE") {
        headers.remove(CONTENT_LENGTH);
    }
    let method = Method::from_bytes(http.method.as_bytes()).map_err(|error| bad(error.to_string()))?;
    let target = &http.url[Position::BeforePath..Position::AfterQuery];
    let mut request = Request::builder()
        .method(method)
        .uri(target)
        .body(Full::new(Bytes::from(body.unwrap_or_default())))
        .map_err(|error| bad(error.to_string()))?;
    *request.headers_mut() = headers;
    Ok((request, secrets))
}

/// The headers of the configuration.
fn configured(http: &HttpRun) -> Result<(HeaderMap, Vec<SecretString>), Fault> {
    let mut headers = HeaderMap::new();
    let mut secrets = Vec::new();
    for (name, secret) in &http.headers {
        let fault = |why: String| Fault::Header { name: name.clone(), why };
        let text = secret.read().map_err(|error| fault(error.to_string()))?;
        let key = HeaderName::try_from(name).map_err(|error| fault(error.to_string()))?;
        let mut value = HeaderValue::try_from(text.expose_secret())
            .map_err(|_| fault("its value holds something that no header can carry".to_owned()))?;
        value.set_sensitive(true);
        headers.append(key, value);
        secrets.push(text);
    }
    Ok((headers, secrets))
}

fn default(headers: &mut HeaderMap, name: HeaderName, value: String) -> Result<(), Fault> {
    if !headers.contains_key(&name) {
        let value = value_of(name.as_str(), value)?;
        headers.insert(name, value);
    }
    Ok(())
}

fn value_of(name: &str, value: String) -> Result<HeaderValue, Fault> {
    HeaderValue::try_from(value).map_err(|error| Fault::Header { name: name.to_owned(), why: error.to_string() })
}

/// `host:port`, without a port that the scheme implies.
fn host(url: &Url) -> String {
    url[Position::BeforeHost..Position::AfterPort].to_owned()
}

/// What a body is, unless the configuration says.
fn content_type(body: &str) -> &'static str {
    match serde_json::from_str::<serde::de::IgnoredAny>(body) {
        Ok(_) => "application/json",
        Err(_) => "text/plain; charset=utf-8",
    }
}
