//! A client that believes nothing: it speaks HTTP/1.1 over a plain socket and insists on well-formed answers.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

/// Longer than anything here takes, so that a hang is a failure with a name.
pub const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Clone, Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Reply {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(given, _)| given.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }

    /// The end of the problem's `type`; fails unless this is a whole problem+json answer.
    pub fn problem(&self) -> String {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let json = self.json();
        assert_eq!(json["status"], self.status, "{json}");
        assert!(json["title"].is_string() && json["detail"].is_string(), "{json}");
        json["type"].as_str().unwrap().strip_prefix("urn:baton:problem:").unwrap().to_owned()
    }
}

/// One connection.
pub struct Client {
    stream: TcpStream,
    unread: Vec<u8>,
    address: SocketAddr,
}

impl Client {
    pub async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, unread: Vec::new(), address }
    }

    /// From this address of the machine: on loopback any of 127.0.0.0/8.
    pub async fn connect_from(from: Ipv4Addr, address: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((from, 0).into()).unwrap();
        let stream = socket.connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, unread: Vec::new(), address }
    }

    /// Sends bytes as they are. A server that has hung up is no failure of the sender.
    pub async fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes).await;
    }

    /// Sends as much as goes; false once the server has hung up. Waits while the server does not read.
    pub async fn try_send(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).await.is_ok()
    }

    /// Whether something comes that was not read yet, waiting for it this long.
    pub async fn is_readable_within(&mut self, span: Duration) -> bool {
        let mut buffer = [0; 4096];
        match tokio::time::timeout(span, self.stream.read(&mut buffer)).await {
            Ok(Ok(read)) => {
                assert!(read > 0, "closed without a word");
                self.unread.extend_from_slice(&buffer[..read]);
                true
            }
            Ok(Err(_)) | Err(_) => false,
        }
    }

    pub fn head(&self, line: &str, headers: &[(&str, &str)]) -> String {
        let mut head = format!("{line} HTTP/1.1\r\n");
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            head += &format!("Host: {}\r\n", self.address);
        }
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        head + "\r\n"
    }

    /// `line`: method and target.
    pub async fn ask_with(&mut self, line: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        let length = body.len().to_string();
        let mut headers = headers.to_vec();
        let framed = headers.iter().any(|(name, _)| {
            name.eq_ignore_ascii_case("content-length") || name.eq_ignore_ascii_case("transfer-encoding")
        });
        if !body.is_empty() && !framed {
            headers.push(("Content-Length", &length));
        }
        let head = self.head(line, &headers);
        self.send(&[head.as_bytes(), body].concat()).await;
        self.reply(line.starts_with("HEAD ")).await
    }

    pub async fn ask(&mut self, line: &str) -> Reply {
        self.ask_with(line, &[], b"").await
    }

    /// Asks for something, whatever the answer is; false once the server has hung up.
    pub async fn is_answered(&mut self, line: &str) -> bool {
        self.unread.clear();
        let head = self.head(line, &[]);
        self.try_send(head.as_bytes()).await && self.fill().await
    }

    /// The next whole reply. `headless`: it answers HEAD, so that no body follows.
    pub async fn reply(&mut self, headless: bool) -> Reply {
        let mut reply = self.reply_head().await;
        if headless || matches!(reply.status, 204 | 304) {
            return reply;
        }
        if reply.header("transfer-encoding").is_some() {
            while let Some(chunk) = self.chunk().await {
                reply.body.extend(chunk);
            }
            return reply;
        }
        let length = reply.header("content-length").unwrap_or_else(|| panic!("no length in {reply:?}"));
        let length: usize = length.parse().unwrap();
        reply.body = self.take(length).await;
        reply
    }

    /// Status line and headers; a stream's body follows by [`Self::chunk`].
    pub async fn reply_head(&mut self) -> Reply {
        let mut lines = Vec::new();
        loop {
            let line = self.line().await.unwrap_or_else(|| panic!("closed within a head: {lines:?}"));
            if line.is_empty() {
                break;
            }
            lines.push(line);
        }
        let status_line = lines.first().unwrap_or_else(|| panic!("an empty head")).clone();
        let status = status_line.strip_prefix("HTTP/1.1 ").or_else(|| status_line.strip_prefix("HTTP/1.0 "));
        let status = status.unwrap_or_else(|| panic!("{status_line:?}")).get(..3).unwrap().parse().unwrap();
        let headers = lines[1..].iter().map(|line| {
            let (name, value) = line.split_once(':').unwrap_or_else(|| panic!("{line:?} is not a header"));
            (name.to_ascii_lowercase(), value.trim().to_owned())
        });
        Reply { status, headers: headers.collect(), body: Vec::new() }
    }

    /// The next chunk of a chunked body; none at its end.
    pub async fn chunk(&mut self) -> Option<Vec<u8>> {
        let size = self.line().await?;
        let size = usize::from_str_radix(&size, 16).unwrap_or_else(|_| panic!("{size:?} is not a chunk size"));
        let chunk = self.take(size).await;
        assert_eq!(self.line().await.as_deref(), Some(""), "a chunk ends with a line break");
        (size > 0).then_some(chunk)
    }

    /// Whether the server closes without another byte.
    pub async fn is_closed(&mut self) -> bool {
        self.unread.is_empty() && !self.fill().await
    }

    async fn take(&mut self, length: usize) -> Vec<u8> {
        while self.unread.len() < length {
            assert!(self.fill().await, "closed {} bytes short", length - self.unread.len());
        }
        self.unread.drain(..length).collect()
    }

    async fn line(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.unread.windows(2).position(|pair| pair == b"\r\n") {
                let line = self.unread.drain(..end + 2).collect::<Vec<u8>>();
                return Some(String::from_utf8(line[..end].to_vec()).unwrap());
            }
            if !self.fill().await {
                assert!(self.unread.is_empty(), "closed within a line: {:?}", self.unread);
                return None;
            }
        }
    }

    async fn fill(&mut self) -> bool {
        let mut buffer = [0; 16 * 1024];
        let read = tokio::time::timeout(PATIENCE, self.stream.read(&mut buffer)).await;
        let read = read.unwrap_or_else(|_| panic!("nothing came for {PATIENCE:?}")).unwrap_or(0);
        self.unread.extend_from_slice(&buffer[..read]);
        read > 0
    }
}

/// One request on a connection of its own.
pub async fn ask(address: SocketAddr, line: &str) -> Reply {
    Client::connect(address).await.ask(line).await
}

/// One request with headers and a body on a connection of its own.
pub async fn ask_with(address: SocketAddr, line: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
    Client::connect(address).await.ask_with(line, headers, body).await
}

/// Asks again until the reply is as wanted.
pub async fn ask_until(address: SocketAddr, line: &str, wanted: impl Fn(&Reply) -> bool) -> Reply {
    let found = testkit::found_within(PATIENCE, async || Some(ask(address, line).await).filter(&wanted)).await;
    found.unwrap_or_else(|| panic!("{line} never answered as wanted"))
}
