//! A client for one replica: one connection, one request at a time.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{CONTENT_TYPE, HOST, HeaderMap};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::sync::oneshot;

use crate::raw;

/// No answer takes longer, long polls included.
const PATIENCE: Duration = Duration::from_secs(40);

/// How long an app that asks again and again rests between its questions.
pub const ASKING_PAUSE: Duration = Duration::from_millis(1);

/// How an app learns that its replica leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// `GET /leader?wait=…&index=…`.
    LongPoll,
    /// `GET /events`.
    Events,
    /// `GET /leader`, again and again.
    Asking,
}

pub struct Client {
    address: SocketAddr,
    sender: SendRequest<Full<Bytes>>,
    host: String,
}

impl Client {
    /// Connects.
    pub async fn connect(address: SocketAddr) -> Result<Self, String> {
        let stream = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
        tokio::spawn(connection);
        Ok(Self { address, sender, host: address.to_string() })
    }

    /// The status, headers and body of an answer.
    pub async fn send(&mut self, method: &str, path: &str, body: &str) -> Result<(u16, HeaderMap, String), String> {
        let request = Request::builder().method(method).uri(path).header(HOST, &self.host);
        let request = request.header(CONTENT_TYPE, "application/json").body(Full::new(Bytes::from(body.to_owned())));
        let request = request.map_err(|error| error.to_string())?;
        let exchange = async {
            let answer = self.sender.send_request(request).await.map_err(|error| error.to_string())?;
            let (head, body) = answer.into_parts();
            let body = body.collect().await.map_err(|error| error.to_string())?.to_bytes();
            Ok((head.status.as_u16(), head.headers, String::from_utf8_lossy(&body).into_owned()))
        };
        tokio::time::timeout(PATIENCE, exchange).await.map_err(|_| format!("{path}: no answer within {PATIENCE:?}"))?
    }

    /// A JSON answer.
    pub async fn json(&mut self, method: &str, path: &str, body: &str) -> Result<Value, String> {
        let (_, _, text) = self.send(method, path, body).await?;
        serde_json::from_str(&text).map_err(|error| format!("{path}: {error} in {text:?}"))
    }

    /// Follows the replica until it says that it leads. Returns when that answer was read.
    pub async fn until_leading(&mut self, way: Way, follows: oneshot::Sender<()>) -> Result<Instant, String> {
        match way {
            Way::LongPoll => self.ask_until_leading(follows, true).await,
            Way::Asking => self.ask_until_leading(follows, false).await,
            Way::Events => self.stream_until_leading(follows).await.map_err(|error| error.to_string()),
        }
    }

    async fn ask_until_leading(&mut self, follows: oneshot::Sender<()>, waits: bool) -> Result<Instant, String> {
        let mut follows = Some(follows);
        let mut path = "/leader".to_owned();
        loop {
            let answer = self.json("GET", &path, "").await?;
            let heard_at = Instant::now();
            if answer["leader"] == true {
                return Ok(heard_at);
            }
            if waits {
                path = format!("/leader?wait=30s&index={}", answer["index"]);
            } else {
                tokio::time::sleep(ASKING_PAUSE).await;
            }
            if let Some(follows) = follows.take() {
                // Whoever started this may not care.
                let _ = follows.send(());
            }
        }
    }

    async fn stream_until_leading(&mut self, follows: oneshot::Sender<()>) -> std::io::Result<Instant> {
        let mut stream = raw::Http::connect(self.address).await?;
        stream.open("/events").await?;
        // How things stand comes at once.
        stream.until("\"leader\":false").await?;
        // Whoever started this may not care.
        let _ = follows.send(());
        stream.until("\"leader\":true").await?;
        Ok(Instant::now())
    }
}
