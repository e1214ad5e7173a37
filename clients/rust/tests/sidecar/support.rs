//! The real sidecars, as processes, and what tests ask of them beside the client.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use baton_sidecar::{Baton, Lead, Scope};
use serde_json::Value;
use tokio::time::{sleep, timeout};

/// Longer than anything takes that a test waits for.
pub const PATIENCE: Duration = Duration::from_secs(15);

/// Less than is left of a promise when the next one is asked for.
pub const AT_ONCE: Duration = Duration::from_secs(3);

/// Two replicas over one store in memory. Killed when dropped.
pub struct Dev {
    child: Child,
    port: u16,
}

impl Dev {
    /// With a lease so long that nobody leads in the place of another because it has run out. What is promised at once
    /// is good for 5 s, and asked for every third of that: what takes less than [`AT_ONCE`] has not waited for its end.
    pub async fn start() -> Self {
        Self::start_with("10m").await
    }

    /// Its sidecars answer.
    pub async fn start_with(lease: &str) -> Self {
        let dev = Self::start_at(free_ports(), lease);
        for replica in 0..2 {
            until("its sidecars answer", || dev.call(replica, "GET", "/status", "").is_some()).await;
        }
        dev
    }

    pub fn start_at(port: u16, lease: &str) -> Self {
        let program = std::env::var_os("BATON_BIN").expect("BATON_BIN names the program baton, which tests need");
        let mut command = Command::new(program);
        command.args(["dev", "--replicas", "2", "--lease", lease, "--port", &port.to_string()]);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("BATON_BIN can be run");
        Self { child, port }
    }

    pub fn baton(&self, replica: u16) -> Baton {
        Baton::new().url(url(self.port + replica))
    }

    /// The status and what came with it; none if there is no answer.
    pub fn call(&self, replica: u16, method: &str, path: &str, body: &str) -> Option<(u16, Value)> {
        let address = ("127.0.0.1", self.port + replica);
        let mut stream = TcpStream::connect(address).ok()?;
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: close\r\nContent-Type: application/json\r\n",
            address.1
        );
        write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        let status = head.split(' ').nth(1)?.parse().ok()?;
        Some((status, serde_json::from_str(body).unwrap_or_default()))
    }

    /// The replica that leads, and its lead.
    pub async fn lead(&self, scope: Scope) -> (u16, Lead) {
        let [first, second] = [self.baton(0), self.baton(1)];
        within("one of the replicas leads", async {
            tokio::select! {
                lead = first.leading("scheduler").scope(scope) => (0, lead.unwrap()),
                lead = second.leading("scheduler").scope(scope) => (1, lead.unwrap()),
            }
        })
        .await
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn url(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}

/// The first of two ports that are free, as are those 100 above, where the telemetry is.
pub fn free_ports() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let begin = 20_000 + u16::try_from(std::process::id() % 50).unwrap() * 200;
    let all = std::iter::repeat_with(|| begin + NEXT.fetch_add(2, Ordering::Relaxed) % 100);
    let free = |port: &u16| [0, 1, 100, 101].iter().all(|more| TcpListener::bind(("127.0.0.1", port + more)).is_ok());
    all.take(50).find(free).expect("some ports are free")
}

/// # Panics
/// When it is not reached in time, naming `what`.
pub async fn until(what: &str, mut reached: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !reached() {
        assert!(begun.elapsed() < PATIENCE, "waited too long: {what}");
        sleep(Duration::from_millis(5)).await;
    }
}

/// # Panics
/// When it does not come in time, naming `what`.
pub async fn within<T>(what: &str, awaited: impl IntoFuture<Output = T>) -> T {
    timeout(PATIENCE, awaited.into_future()).await.unwrap_or_else(|_| panic!("waited too long: {what}"))
}
