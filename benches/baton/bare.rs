//! The yardsticks: an HTTP/1 server and nothing else, with the answer that it is given: hyper's, or a peer's. A process
//! of its own, as Baton is, on one thread, as Baton's listener is.

use std::convert::Infallible;
use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

/// The first argument of a process that shall be this.
pub const ARGUMENT: &str = "--serve-bare";

/// The running yardstick; killed when dropped.
pub struct Bare {
    child: Child,
    address: SocketAddr,
}

impl Bare {
    /// hyper, which answers every request with the body behind these two headers.
    pub fn hyper(answer: &[String; 3]) -> Self {
        let own = std::env::current_exe().expect("a running program has a path");
        Self::start(Command::new(own).arg(ARGUMENT).args(answer))
    }

    /// The same by a peer's program.
    pub fn of(program: &Path, answer: &[String; 3]) -> Self {
        Self::start(Command::new(program).args(answer))
    }

    fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the yardstick starts");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("piped above");
        BufReader::new(stdout).read_line(&mut line).expect("the yardstick says its address");
        Self { child, address: line.trim().parse().expect("an address") }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the child process does, until its parent is gone.
pub fn serve(args: &[String]) {
    let [content_type, cache_control, body] = args else { panic!("three arguments: {args:?}") };
    let header = |text: &str| HeaderValue::from_str(text).expect("a header's value");
    let answer = Answer { headers: [header(content_type), header(cache_control)], body: Bytes::from(body.clone()) };
    std::thread::spawn(|| {
        // Ends when the parent does, however it ends.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(accept(answer));
}

#[derive(Clone)]
struct Answer {
    headers: [HeaderValue; 2],
    body: Bytes,
}

async fn accept(answer: Answer) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
    println!("{}", listener.local_addr().expect("it is bound"));
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let _ = stream.set_nodelay(true);
        let answer = answer.clone();
        let service = service_fn(move |_: Request<Incoming>| {
            let mut response = Response::new(Full::new(answer.body.clone()));
            response.headers_mut().insert(CONTENT_TYPE, answer.headers[0].clone());
            response.headers_mut().insert(CACHE_CONTROL, answer.headers[1].clone());
            std::future::ready(Ok::<_, Infallible>(response))
        });
        // An error is the client's.
        tokio::spawn(async move { http1::Builder::new().serve_connection(TokioIo::new(stream), service).await });
    }
}
