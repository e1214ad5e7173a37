//! An app that answers by a script, and sees its clients go.

use std::net::Ipv4Addr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::stage::until;
use crate::config::{HttpRun, RunConfig};

/// What the app does with a request once it has read it.
#[derive(Clone)]
pub enum Do {
    /// Writes this.
    Say(String),
    /// Writes so many bytes.
    Flood(usize),
    /// Waits until there is such a file.
    Await(PathBuf),
    /// Waits until the client closes the connection.
    Hold,
}

/// An answer with a body, and nothing else.
pub fn answer(head: &str, body: &str) -> Vec<Do> {
    vec![Do::Say(format!("HTTP/1.1 {head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()))]
}

#[derive(Default)]
struct Seen {
    requests: Vec<String>,
    /// How many clients closed their connection while they were held.
    gone: usize,
}

/// See the module. Ends with its test.
pub struct Server {
    pub port: u16,
    seen: Arc<Mutex<Seen>>,
    _tasks: JoinSet<()>,
}

impl Server {
    pub async fn start(script: Vec<Do>) -> Self {
        Self::serve(script, None).await
    }

    pub async fn start_tls(script: Vec<Do>, config: ServerConfig) -> Self {
        Self::serve(script, Some(TlsAcceptor::from(Arc::new(config)))).await
    }

    async fn serve(script: Vec<Do>, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::<Mutex<Seen>>::default();
        let notes = Arc::clone(&seen);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut clients = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (script, notes, tls) = (script.clone(), Arc::clone(&notes), tls.clone());
                clients.spawn(async move {
                    match tls {
                        None => serve(stream, &script, &notes).await,
                        // A client that does not trust us says so by going away.
                        Some(tls) => match tls.accept(stream).await {
                            Ok(stream) => serve(stream, &script, &notes).await,
                            Err(_) => notes.lock().unwrap().gone += 1,
                        },
                    }
                });
            }
        });
        Self { port, seen, _tasks: tasks }
    }

    /// A POST to this app.
    pub fn run(&self) -> HttpRun {
        post(&format!("http://127.0.0.1:{}/jobs/nightly?x=1", self.port))
    }

    pub async fn is_asked(&self) {
        until("the app is asked", || !self.requests().is_empty()).await;
    }

    pub fn requests(&self) -> Vec<String> {
        self.seen.lock().unwrap().requests.clone()
    }

    /// Waits until it has seen a client go.
    pub async fn sees_it_go(&self) {
        until("the app sees its client go", || self.seen.lock().unwrap().gone > 0).await;
    }
}

async fn serve(mut stream: impl AsyncRead + AsyncWrite + Unpin, script: &[Do], seen: &Mutex<Seen>) {
    let mut read = Vec::new();
    while !is_whole(&read) {
        if stream.read_buf(&mut read).await.unwrap_or(0) == 0 {
            return;
        }
    }
    seen.lock().unwrap().requests.push(String::from_utf8(read).unwrap());
    for act in script {
        match act {
            Do::Say(text) => drop(stream.write_all(text.as_bytes()).await),
            Do::Flood(bytes) => drop(stream.write_all(&vec![b'x'; *bytes]).await),
            Do::Await(file) => until("the gate opens", || file.exists()).await,
            Do::Hold => {
                while stream.read_buf(&mut Vec::with_capacity(64)).await.unwrap_or(0) > 0 {}
                seen.lock().unwrap().gone += 1;
            }
        }
    }
    let _ = stream.shutdown().await;
}

/// Whether a request's body is as long as its head says.
fn is_whole(read: &[u8]) -> bool {
    let text = String::from_utf8_lossy(read);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    body.len() >= length.map_or(0, |length| length.parse().unwrap())
}

/// A POST without headers or a body.
pub fn post(url: &str) -> HttpRun {
    HttpRun {
        method: "POST".to_owned(),
        url: url.parse().unwrap(),
        headers: Vec::new(),
        body: None,
        timeout: Duration::from_secs(15),
        success: vec![RangeInclusive::new(200, 299)],
        heartbeat_timeout: Some(Duration::from_secs(15)),
    }
}

impl From<HttpRun> for RunConfig {
    fn from(run: HttpRun) -> Self {
        Self::Http(run)
    }
}
