//! Requests to the sidecar, over connections that whoever sends them keeps.

use std::env;
use std::future::poll_fn;
use std::io;
use std::path::PathBuf;
use std::pin::{Pin, pin};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use http::header::{AUTHORIZATION, HOST, HeaderMap, HeaderValue};
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use tokio::net::TcpStream;

use crate::error::{Error, Holder};

const URL: &str = "http://127.0.0.1:4040";
/// More than any answer, or any line of one, has.
const BYTES_MAX: usize = 64 * 1024;
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Text as a segment of a path, or a value of a query.
pub fn encoded(text: &str) -> String {
    utf8_percent_encode(text, UNRESERVED).to_string()
}

/// As the sidecar reads durations, in whole milliseconds.
pub fn duration(span: Duration) -> String {
    format!("{}ms", span.as_millis())
}

/// Where the sidecar is, and what it wants to see.
#[derive(Debug)]
pub struct Sidecar {
    url: Uri,
    token_file: Option<PathBuf>,
}

/// An answer that is there as a whole.
#[derive(Debug)]
pub struct Reply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Sidecar {
    /// What is not given is looked for in the environment.
    pub fn new(url: Option<&str>, token_file: Option<PathBuf>) -> Result<Self, Error> {
        let text = url.map(str::to_owned).or_else(|| env::var("BATON_URL").ok()).unwrap_or_else(|| URL.to_owned());
        let url = text.parse().ok().filter(|url: &Uri| url.scheme_str() == Some("http") && url.query().is_none());
        let url = url.ok_or(Error::BadUrl(text))?;
        let token_file = token_file.or_else(|| env::var_os("BATON_TOKEN_FILE").map(PathBuf::from));
        Ok(Self { url, token_file })
    }

    async fn connect(&self) -> Result<Connection, Error> {
        let host = self.url.host().unwrap_or_default();
        // An address of IPv6 has brackets in URLs only.
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let stream = TcpStream::connect((host, self.url.port_u16().unwrap_or(80))).await.map_err(no_answer)?;
        stream.set_nodelay(true).map_err(no_answer)?;
        let (sender, driver) = http1::handshake(TokioIo::new(stream)).await.map_err(no_answer)?;
        Ok(Connection { sender, driver: Some(driver) })
    }

    async fn request(&self, method: Method, path: &str) -> Result<Request<Empty<Bytes>>, Error> {
        let authority = self.url.authority().map_or("", |authority| authority.as_str());
        let path = format!("{}{path}", self.url.path().trim_end_matches('/'));
        let mut request = Request::builder().method(method).uri(path).header(HOST, authority);
        if let Some(file) = &self.token_file {
            let failed = |source| Error::TokenFile { path: file.clone(), source };
            let token = tokio::fs::read_to_string(file).await.map_err(failed)?;
            let mut value = HeaderValue::try_from(format!("Bearer {}", token.trim()))
                .map_err(|error| failed(io::Error::new(io::ErrorKind::InvalidData, error)))?;
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        request.body(Empty::new()).map_err(no_answer)
    }

    /// Asks over the connection that is kept, or a new one, which is kept then. It is only kept if it can be used
    /// again.
    pub async fn call(&self, kept: &mut Option<Connection>, method: Method, path: &str) -> Result<Reply, Error> {
        let request = self.request(method, path).await?;
        // Whoever gives up in the middle, by dropping this, has dropped the connection as well.
        let ready = match kept.take() {
            Some(connection) => connection.ready().await,
            None => None,
        };
        let mut connection = match ready {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        let response = connection.send(request).await?;
        let reply = connection.whole(response).await?;
        *kept = Some(connection);
        Ok(reply)
    }

    /// A connection by which something is held. Everything but an answer with 200 is an error.
    pub async fn hold(&self, path: &str) -> Result<Lines, Error> {
        let request = self.request(Method::GET, path).await?;
        let mut connection = self.connect().await?;
        let response = connection.send(request).await?;
        if response.status() != StatusCode::OK {
            let reply = connection.whole(response).await?;
            return Err(refused(reply.status, &reply.body));
        }
        Ok(Lines { connection, body: response.into_body(), read: BytesMut::new() })
    }
}

pub fn no_answer(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::NoAnswer(error.into())
}

fn refused(status: StatusCode, body: &[u8]) -> Error {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Problem {
        r#type: String,
        detail: String,
        holder: Option<Holder>,
        retry_after_ms: Option<u64>,
    }
    let problem: Problem = serde_json::from_slice(body).unwrap_or_default();
    if problem.r#type == "urn:baton:problem:lock-held" {
        let retry_after = problem.retry_after_ms.map(Duration::from_millis);
        return Error::Held { holder: problem.holder, retry_after };
    }
    Error::Refused { status: status.as_u16(), kind: problem.r#type, detail: problem.detail }
}

/// Dropping it closes it, at once: that is why nobody else drives it.
#[derive(Debug)]
pub struct Connection {
    sender: http1::SendRequest<Empty<Bytes>>,
    /// None: it has ended.
    driver: Option<http1::Connection<TokioIo<TcpStream>, Empty<Bytes>>>,
}

impl Connection {
    /// None: it has ended since the last answer.
    async fn ready(mut self) -> Option<Self> {
        drive(&mut self.driver, self.sender.ready()).await.ok()?;
        Some(self)
    }

    async fn send(&mut self, request: Request<Empty<Bytes>>) -> Result<Response<Incoming>, Error> {
        let Self { sender, driver } = self;
        drive(driver, sender.send_request(request)).await.map_err(no_answer)
    }

    async fn whole(&mut self, response: Response<Incoming>) -> Result<Reply, Error> {
        let (head, body) = response.into_parts();
        let body = drive(&mut self.driver, Limited::new(body, BYTES_MAX).collect()).await.map_err(no_answer)?;
        Ok(Reply { status: head.status, headers: head.headers, body: body.to_bytes() })
    }
}

/// Reads and writes the connection while something is waited for that comes by it.
async fn drive<T>(
    driver: &mut Option<http1::Connection<TokioIo<TcpStream>, Empty<Bytes>>>,
    awaited: impl Future<Output = T>,
) -> T {
    let mut awaited = pin!(awaited);
    poll_fn(|context| {
        // How it ends, whoever waits is told by what it waits for.
        if driver.as_mut().is_some_and(|driver| Pin::new(driver).poll(context).is_ready()) {
            *driver = None;
        }
        awaited.as_mut().poll(context)
    })
    .await
}

/// An answer that goes on, a line at a time.
#[derive(Debug)]
pub struct Lines {
    connection: Connection,
    body: Incoming,
    read: BytesMut,
}

impl Lines {
    /// The next line, without its end; none when the connection has ended.
    pub async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line = self.read.split_to(end).freeze();
                self.read.advance(1);
                return Some(line);
            }
            if self.read.len() > BYTES_MAX {
                return None;
            }
            let frame = drive(&mut self.connection.driver, self.body.frame()).await?.ok()?;
            if let Some(data) = frame.data_ref() {
                self.read.extend_from_slice(data);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_written_as_one_segment() {
        assert_eq!(encoded("scheduler/3"), "scheduler%2F3");
        assert_eq!(encoded("a b?c&d=é-._~"), "a%20b%3Fc%26d%3D%C3%A9-._~");
    }

    #[test]
    fn durations_are_in_milliseconds() {
        assert_eq!(duration(Duration::from_secs(90)), "90000ms");
        assert_eq!(duration(Duration::from_micros(1_999)), "1ms");
    }

    #[test]
    fn only_plain_http_leads_to_a_sidecar() {
        for good in ["http://127.0.0.1:4040", "http://[::1]:4040/", "http://localhost/baton"] {
            assert!(Sidecar::new(Some(good), None).is_ok(), "{good}");
        }
        for bad in ["", "127.0.0.1:4040", "https://127.0.0.1:4040", "http://", "/leader", "http://a/?b"] {
            assert!(matches!(Sidecar::new(Some(bad), None), Err(Error::BadUrl(text)) if text == bad), "{bad}");
        }
    }

    #[test]
    fn a_refusal_says_what_the_sidecar_said() {
        let body = br#"{"type":"urn:baton:problem:unknown-role","title":"t","status":404,"detail":"no role"}"#;
        let Error::Refused { status, kind, detail } = refused(StatusCode::NOT_FOUND, body) else { panic!() };
        assert_eq!((status, &*kind, &*detail), (404, "urn:baton:problem:unknown-role", "no role"));
        let body = br#"{"type":"urn:baton:problem:lock-held","holder":{"owner":"w","token":7},"retry_after_ms":40}"#;
        let Error::Held { holder, retry_after } = refused(StatusCode::CONFLICT, body) else { panic!() };
        assert_eq!(retry_after, Some(Duration::from_millis(40)));
        assert_eq!(holder.map(|holder| (holder.owner, holder.token)), Some((Some("w".to_owned()), Some(7))));
        let Error::Refused { status, .. } = refused(StatusCode::BAD_GATEWAY, b"<html>") else { panic!() };
        assert_eq!(status, 502);
    }
}
