//! A client for the sidecar's HTTP side: one request a connection, and the stream of events.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use http_body_util::{BodyExt, Full, Limited};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue, LINK, USER_AGENT};
use hyper::{Method, Request, Response, StatusCode};
use serde::Deserialize;
use tokio::time::timeout;

use baton::base::process::Exit;
use baton::http::client::{self, AnswerBody};

use super::Code;

/// The variable that names the sidecar where `--api` does not.
pub const API_VARIABLE: &str = "BATON_API";
/// Where a sidecar listens unless it is told otherwise.
pub const API_DEFAULT: &str = "127.0.0.1:4040";
/// A sidecar on this machine answers in a millisecond.
const PATIENCE: Duration = Duration::from_secs(5);
/// No answer is longer.
const BODY_BYTES_MAX: usize = 8 << 20;

/// Which sidecar, and what it asks for.
#[derive(Clone, Debug, Args)]
pub struct ApiArgs {
    /// The sidecar's `api.listen` [default: $BATON_API, else 127.0.0.1:4040]
    #[arg(long, value_name = "HOST:PORT")]
    pub api: Option<String>,
    /// The file with the bearer token, where `api.tokenFile` is set
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
}

impl ApiArgs {
    /// The address: from the flag, the environment, or the default.
    pub fn address(&self) -> String {
        let given = self.api.clone().or_else(|| std::env::var(API_VARIABLE).ok().filter(|text| !text.is_empty()));
        given.unwrap_or_else(|| API_DEFAULT.to_owned())
    }

    /// A client for [`Self::address`].
    pub fn open(&self) -> Result<Api, ClientError> {
        self.at(&self.address())
    }

    /// A client with the same token for another address.
    pub fn at(&self, address: &str) -> Result<Api, ClientError> {
        Ok(Api { authority: authority(address)?, bearer: self.token_file.as_deref().map(bearer).transpose()? })
    }
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Exit code 64.
    #[error("{given:?} is not an address: write HOST:PORT, such as {API_DEFAULT}")]
    Address { given: String },
    /// Exit code 64.
    #[error("the token file {}: {why}", path.display())]
    TokenFile { path: PathBuf, why: String },
    /// Exit code 69.
    #[error("no sidecar answers at {address}: {why}")]
    NoAnswer { address: String, why: String },
    /// Exit code 64.
    #[error("the sidecar at {address} wants a bearer token: name its file by --token-file")]
    Unauthorized { address: String },
    /// Exit code 69: something else listens there.
    #[error("what answers at {address} is not a Baton sidecar: {why}")]
    Foreign { address: String, why: String },
}

impl ClientError {
    /// The exit code that belongs to it.
    pub fn code(&self) -> Code {
        match self {
            Self::Address { .. } | Self::TokenFile { .. } | Self::Unauthorized { .. } => Exit::Usage.into(),
            Self::NoAnswer { .. } | Self::Foreign { .. } => Exit::Unavailable.into(),
        }
    }
}

/// One role, as the sidecar answers it, as far as it is told.
#[derive(Clone, Debug, Deserialize)]
pub struct RoleAnswer {
    pub role: String,
    pub identity: String,
}

/// An error, as the sidecar answers it.
#[derive(Debug, Deserialize)]
struct ProblemAnswer {
    detail: Option<String>,
    title: Option<String>,
}

/// A whole answer.
pub struct Reply {
    address: String,
    pub status: StatusCode,
    pub body: Bytes,
    /// Where the next page is.
    pub next: Option<String>,
}

impl Reply {
    /// The body as JSON.
    pub fn json<T: for<'de> Deserialize<'de>>(&self) -> Result<T, ClientError> {
        serde_json::from_slice(&self.body)
            .map_err(|error| ClientError::Foreign { address: self.address.clone(), why: error.to_string() })
    }

    /// What a problem says in words.
    pub fn problem(&self) -> String {
        let problem: Option<ProblemAnswer> = serde_json::from_slice(&self.body).ok();
        problem.and_then(|problem| problem.detail.or(problem.title)).unwrap_or_else(|| self.status.to_string())
    }
}

/// A sidecar. Shows no token: it has no `Debug`.
pub struct Api {
    authority: String,
    bearer: Option<HeaderValue>,
}

impl Api {
    pub async fn get(&self, path: &str) -> Result<Reply, ClientError> {
        self.ask(Method::GET, path, &[], String::new()).await
    }

    /// Tells. An empty body is none.
    pub async fn post(&self, path: &str, body: String) -> Result<Reply, ClientError> {
        self.ask(Method::POST, path, &[], body).await
    }

    /// Asks with these headers besides the usual.
    pub async fn ask(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: String,
    ) -> Result<Reply, ClientError> {
        let exchange = async {
            let response = self.send(method, path, headers, body).await?;
            let status = response.status();
            let next = response.headers().get(LINK).and_then(next_page);
            let body = Limited::new(response.into_body(), BODY_BYTES_MAX).collect().await;
            let body = body.map_err(|error| self.silent(error))?.to_bytes();
            Ok(Reply { address: self.authority.clone(), status, body, next })
        };
        timeout(PATIENCE, exchange).await.unwrap_or_else(|_| Err(self.silent(format!("nothing within {PATIENCE:?}"))))
    }

    /// `GET /events` with this query, line by line.
    pub async fn events(&self, query: &str) -> Result<Lines, ClientError> {
        let path = format!("/events?{query}");
        let response = timeout(PATIENCE, self.send(Method::GET, &path, &[], String::new()))
            .await
            .unwrap_or_else(|_| Err(self.silent(format!("nothing within {PATIENCE:?}"))))?;
        if response.status() != StatusCode::OK {
            return Err(self.foreign(format!("GET /events is answered with {}", response.status())));
        }
        Ok(Lines { address: self.authority.clone(), body: response.into_body(), read: Vec::new() })
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: String,
    ) -> Result<Response<AnswerBody>, ClientError> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, &self.authority)
            .header(ACCEPT, "application/json, text/event-stream")
            .header(USER_AGENT, client::USER_AGENT);
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(bearer) = &self.bearer {
            request = request.header(AUTHORIZATION, bearer);
        }
        let no_address = || ClientError::Address { given: self.authority.clone() };
        let request = request.body(Full::new(Bytes::from(body))).map_err(|_| no_address())?;
        let (host, port) = self.authority.rsplit_once(':').ok_or_else(no_address)?;
        let port = port.parse().map_err(|_| no_address())?;
        let stream = client::connect(host, port, PATIENCE).await.map_err(|error| self.silent(error))?;
        let response = client::send(stream, request).await.map_err(|error| self.silent(error))?;
        if response.status() == StatusCode::UNAUTHORIZED {
            return Err(ClientError::Unauthorized { address: self.authority.clone() });
        }
        Ok(response)
    }

    fn silent(&self, why: impl ToString) -> ClientError {
        ClientError::NoAnswer { address: self.authority.clone(), why: why.to_string() }
    }

    /// Something answered, but not as a sidecar does.
    pub fn foreign(&self, why: String) -> ClientError {
        ClientError::Foreign { address: self.authority.clone(), why }
    }
}

/// The lines of an answer that does not end.
pub struct Lines {
    address: String,
    body: AnswerBody,
    read: Vec<u8>,
}

impl Lines {
    /// The next line, without its line break.
    ///
    /// # Errors
    /// The stream ended: the sidecar has.
    pub async fn next(&mut self) -> Result<String, ClientError> {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.read.drain(..=end).collect();
                return Ok(String::from_utf8_lossy(&line).trim_end().to_owned());
            }
            let ended = |why: String| ClientError::NoAnswer { address: self.address.clone(), why };
            match self.body.frame().await {
                Some(Ok(frame)) => self.read.extend(frame.into_data().unwrap_or_default()),
                Some(Err(error)) => return Err(ended(error.to_string())),
                None => return Err(ended("it has ended".to_owned())),
            }
        }
    }
}

/// A name as one segment of a path.
pub fn segment(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    name.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

/// The path in `Link: <PATH>; rel="next"`.
fn next_page(link: &HeaderValue) -> Option<String> {
    let (path, rest) = link.to_str().ok()?.strip_prefix('<')?.split_once('>')?;
    rest.contains("rel=\"next\"").then(|| path.to_owned())
}

/// `HOST:PORT`, from what people write: with or without `http://` before it or a slash behind it.
fn authority(given: &str) -> Result<String, ClientError> {
    let bare = given.strip_prefix("http://").unwrap_or(given).trim_end_matches('/');
    let parts = bare.rsplit_once(':').filter(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
    let clean = bare.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/' && byte != b'@');
    match parts {
        Some(_) if clean => Ok(bare.to_owned()),
        _ => Err(ClientError::Address { given: given.to_owned() }),
    }
}

fn bearer(path: &Path) -> Result<HeaderValue, ClientError> {
    let wrong = |why: String| ClientError::TokenFile { path: path.to_owned(), why };
    let token = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let mut value = HeaderValue::try_from(format!("Bearer {}", token.trim_end_matches(['\r', '\n'])))
        .map_err(|_| wrong("it holds something that no header can carry".to_owned()))?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_segment_and_a_link_leads_to_the_next_page() {
        assert_eq!(segment("totals/0 \u{e9}"), "totals%2F0%20%C3%A9");
        let next = |link: &'static str| next_page(&HeaderValue::from_static(link));
        assert_eq!(next("</jobs?limit=2&after=a>; rel=\"next\"").as_deref(), Some("/jobs?limit=2&after=a"));
        assert_eq!((next("</jobs>; rel=\"prev\""), next("jobs")), (None, None));
    }

    #[test]
    fn an_address_is_a_host_and_a_port() {
        for (given, wanted) in [
            ("127.0.0.1:4040", "127.0.0.1:4040"),
            ("http://localhost:4040/", "localhost:4040"),
            ("[::1]:4040", "[::1]:4040"),
        ] {
            assert_eq!(authority(given).unwrap(), wanted);
        }
        for bad in
            ["", "localhost", ":4040", "localhost:x", "localhost:70000", "a b:1", "u@h:1", "h/x:1", "https://h:1"]
        {
            assert!(authority(bad).is_err(), "{bad}");
        }
    }
}
