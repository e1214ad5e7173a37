//! Generates load: with wrk where there is one, else by itself.

use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::stats::percentile;

/// What one round of polling came to.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    pub requests_per_s: f64,
    pub p99_ms: f64,
}

/// Whether wrk is on the PATH.
pub fn has_wrk() -> bool {
    // It prints its version and ends with 1.
    Command::new("wrk").arg("--version").output().is_ok()
}

/// Whether a process can be kept on one core.
pub fn can_pin() -> bool {
    std::thread::available_parallelism().is_ok_and(|cores| cores.get() > 1)
        && Command::new("taskset").arg("--version").output().is_ok()
}

/// Keeps all threads of a process on one core: a server that wanders between cores measures the scheduler.
pub fn pin(pid: u32, core: usize) {
    let pinned = Command::new("taskset").args(["-a", "-c", "-p", &core.to_string(), &pid.to_string()]).output();
    assert!(pinned.is_ok_and(|out| out.status.success()), "taskset refuses {pid}");
}

/// Polls `GET /leader` on so many connections for as long, each asking again as soon as it is answered.
pub async fn poll(address: SocketAddr, connections: usize, span: Duration) -> Round {
    if has_wrk() { wrk(address, connections, span) } else { own(address, connections, span).await }
}

fn wrk(address: SocketAddr, connections: usize, span: Duration) -> Round {
    let (connections, span) = (format!("-c{connections}"), format!("-d{}s", span.as_secs().max(1)));
    let url = format!("http://{address}/leader");
    let mut command = if can_pin() { Command::new("taskset") } else { Command::new("wrk") };
    if can_pin() {
        command.args(["-c", "1", "wrk"]);
    }
    let output = command.args(["-t1", &connections, &span, "--latency", &url]).output().expect("wrk runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let after = |label: &str| {
        let line = text.lines().find_map(|line| line.trim().strip_prefix(label));
        line.unwrap_or_else(|| panic!("wrk says no {label}: {text}")).trim().to_owned()
    };
    assert!(!text.contains("Non-2xx") && !text.contains("Socket errors"), "not every answer was good: {text}");
    let p99 = after("99%");
    let digits = p99.trim_end_matches(char::is_alphabetic);
    let unit_ms = match &p99[digits.len()..] {
        "us" => 0.001,
        "ms" => 1.0,
        _ => 1_000.0,
    };
    let number = |text: &str| text.parse::<f64>().unwrap_or_else(|_| panic!("wrk says {text:?}"));
    Round { requests_per_s: number(&after("Requests/sec:")), p99_ms: number(digits) * unit_ms }
}

async fn own(address: SocketAddr, connections: usize, span: Duration) -> Round {
    let (mut tasks, begun) = (JoinSet::new(), Instant::now());
    for _ in 0..connections {
        tasks.spawn(async move { ask_until(address, begun + span).await.expect("a connection breaks") });
    }
    let latencies: Vec<f64> = tasks.join_all().await.concat();
    Round {
        requests_per_s: latencies.len() as f64 / begun.elapsed().as_secs_f64(),
        p99_ms: percentile(&latencies, 0.99),
    }
}

async fn ask_until(address: SocketAddr, end: Instant) -> std::io::Result<Vec<f64>> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let request = format!("GET /leader HTTP/1.1\r\nHost: {address}\r\n\r\n");
    let (mut latencies, mut buffer) = (Vec::new(), vec![0; 4096]);
    while Instant::now() < end {
        let asked = Instant::now();
        stream.write_all(request.as_bytes()).await?;
        let mut filled = 0;
        // The answer is one JSON object, and nothing else in it ends so.
        while !buffer[..filled].ends_with(b"}") {
            match stream.read(&mut buffer[filled..]).await? {
                0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
                read => filled += read,
            }
        }
        assert!(buffer.starts_with(b"HTTP/1.1 200"), "not every answer was good");
        latencies.push(asked.elapsed().as_secs_f64() * 1_000.0);
    }
    Ok(latencies)
}
