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

/// No answer takes longer, long polls included.
const PATIENCE: Duration = Duration::from_secs(40);

pub struct Client {
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
        Ok(Self { sender, host: address.to_string() })
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

    /// Follows the replica by long polls until it says that it leads. Returns when that answer was read.
    pub async fn until_leading(&mut self, follows: tokio::sync::oneshot::Sender<()>) -> Result<Instant, String> {
        let mut follows = Some(follows);
        let mut path = "/leader".to_owned();
        loop {
            let answer = self.json("GET", &path, "").await?;
            let heard_at = Instant::now();
            if answer["leader"] == true {
                return Ok(heard_at);
            }
            path = format!("/leader?wait=30s&index={}", answer["index"]);
            if let Some(follows) = follows.take() {
                // Whoever started this may not care.
                let _ = follows.send(());
            }
        }
    }
}
