//! A collector: it takes what is posted to it, and keeps it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::Value;

/// A request.
#[derive(Clone, Debug)]
pub struct Posted {
    /// The first line and the headers, in lower case.
    pub head: String,
    pub body: Vec<u8>,
}

/// A span, with the attributes of what it is of.
#[derive(Clone, Debug)]
pub struct Span {
    pub name: String,
    span: Value,
    resource: Value,
}

/// See the module. Its threads end with the test's process.
pub struct Collector {
    address: SocketAddr,
    posted: Arc<Mutex<Vec<Posted>>>,
}

impl Collector {
    /// One that answers every request with 200.
    pub fn start() -> Self {
        Self::answering("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}")
    }

    /// One that takes every request and never answers.
    pub fn silent() -> Self {
        Self::answering("")
    }

    fn answering(answer: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("its own address");
        let posted = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&posted);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let kept = Arc::clone(&kept);
                thread::spawn(move || serve(stream, answer, &kept));
            }
        });
        Self { address, posted }
    }

    /// What `OTEL_EXPORTER_OTLP_ENDPOINT` is to be.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What has come so far.
    pub fn posted(&self) -> Vec<Posted> {
        self.posted.lock().expect("no thread of it panics").clone()
    }

    /// The spans that have come so far as JSON.
    ///
    /// # Panics
    /// When something else has come.
    pub fn spans(&self) -> Vec<Span> {
        let mut spans = Vec::new();
        for posted in self.posted() {
            assert!(posted.head.starts_with("post /v1/traces http/1.1\r\n"), "{}", posted.head);
            let request: Value = serde_json::from_slice(&posted.body).expect("JSON");
            for of_one in list(&request, "resourceSpans") {
                let found = list(of_one, "scopeSpans").iter().flat_map(|scope| list(scope, "spans"));
                spans.extend(found.map(|span| Span {
                    name: span["name"].as_str().expect("a name").to_owned(),
                    span: span.clone(),
                    resource: of_one["resource"].clone(),
                }));
            }
        }
        spans
    }

    /// The spans of this name.
    pub fn named(&self, name: &str) -> Vec<Span> {
        self.spans().into_iter().filter(|span| span.name == name).collect()
    }
}

impl Span {
    /// An attribute of it, as text.
    pub fn get(&self, key: &str) -> Option<String> {
        attribute(&self.span, key)
    }

    /// An attribute of what it is of, as text.
    pub fn of(&self, key: &str) -> Option<String> {
        attribute(&self.resource, key)
    }

    /// Whether it says that something failed.
    pub fn failed(&self) -> bool {
        self.span["status"]["code"] == 2
    }

    /// When it began and when it ended, in nanoseconds since 1970.
    pub fn times(&self) -> (u64, u64) {
        let nanos = |key: &str| self.span[key].as_str().and_then(|text| text.parse().ok()).expect("nanoseconds");
        (nanos("startTimeUnixNano"), nanos("endTimeUnixNano"))
    }
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().unwrap_or_else(|| panic!("no list {key} in {value}"))
}

fn attribute(value: &Value, key: &str) -> Option<String> {
    let found = list(value, "attributes").iter().find(|attribute| attribute["key"] == key)?;
    let value = &found["value"];
    // Integers are strings in the JSON of protobuf.
    value["stringValue"].as_str().or_else(|| value["intValue"].as_str()).map(str::to_owned)
}

/// Takes the requests of one connection until it is closed.
fn serve(stream: TcpStream, answer: &str, kept: &Mutex<Vec<Posted>>) {
    let mut reader = BufReader::new(stream);
    while let Some(posted) = read(&mut reader) {
        kept.lock().expect("no thread of it panics").push(posted);
        // A sidecar that has gone meanwhile needs no answer.
        let _ = reader.get_mut().write_all(answer.as_bytes());
    }
}

/// The next request, if there is a whole one.
fn read(reader: &mut BufReader<TcpStream>) -> Option<Posted> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let head = head.to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "))?;
    let mut body = vec![0; length.parse().ok()?];
    reader.read_exact(&mut body).ok()?;
    Some(Posted { head, body })
}
