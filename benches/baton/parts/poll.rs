//! `GET /leader` against a bare hyper service that returns the same bytes.
//!
//! Both are processes with one thread for requests. They take turns, so that whatever else the machine does meets both;
//! what counts is the median of the rounds' ratios. Beside the throughput, the processor time of one request is
//! compared: it hardly depends on what else runs.

use std::time::Duration;

use hyper::header::{CACHE_CONTROL, CONTENT_TYPE};

use crate::bare::Bare;
use crate::load::{self, Round};
use crate::part::{Bench, Findings, Part};
use crate::replica::{Group, Spec};
use crate::report::Row;
use crate::stats::median;

pub const PART: Part = Part {
    name: "poll",
    title: "Asking who leads",
    about: "\
`GET /leader` is made to be asked often, before every step that needs the lead. It is compared with a bare hyper service
in a process of its own that returns the same bytes and headers and does nothing else. Both take turns under the same load;
the ratio is the median of the rounds.",
    budget: Duration::from_secs(75),
    peers: &[],
    measure: |bench| Box::pin(measure(bench)),
};

const ROUNDS: usize = 6;
const ROUND: Duration = Duration::from_secs(2);
const CONNECTIONS: [usize; 2] = [16, 256];

/// One round on one server.
struct Turn {
    round: Round,
    /// Processor time of the server for one request.
    cpu_us: f64,
}

async fn measure(bench: &Bench) -> Findings {
    let lease = Duration::from_secs(15);
    let spec = Spec { identity: "web-0".to_owned(), store: "{ memory: {} }".to_owned(), lease, answer_validity: None };
    let group = Group::start(vec![spec]);
    group.settled().await;
    let baton = &group.replicas[0];
    let (status, headers, body) = baton.client().await.send("GET", "/leader", "").await.expect("an answer");
    assert!(status == 200 && body.contains("\"leader\":true"), "{status}: {body}");
    let header = |name| headers.get(&name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    let bare = Bare::start(&header(CONTENT_TYPE), &header(CACHE_CONTROL), &body);
    if load::can_pin() {
        // The load generator has another core.
        load::pin(baton.pid(), 0);
        load::pin(bare.pid(), 0);
    }
    let mut rows = Vec::new();
    for connections in CONNECTIONS {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..bench.times(ROUNDS) {
            ours.push(turn(baton.pid(), baton.api, connections).await);
            theirs.push(turn(bare.pid(), bare.address(), connections).await);
        }
        rows.extend(compare(connections, &ours, &theirs));
    }
    let load = if load::has_wrk() { "wrk" } else { "the benchmark's own load generator" };
    Findings { with: vec![format!("polled by {load}")], ..Findings::of(rows) }
}

async fn turn(pid: u32, address: std::net::SocketAddr, connections: usize) -> Turn {
    let before = cpu_ns(pid);
    let round = load::poll(address, connections, ROUND).await;
    let requests = round.requests_per_s * ROUND.as_secs_f64();
    Turn { round, cpu_us: (cpu_ns(pid) - before) / 1_000.0 / requests }
}

/// Processor time of all threads of a process.
fn cpu_ns(pid: u32) -> f64 {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).expect("the process runs");
    let spent = |thread: std::fs::DirEntry| {
        let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<f64>().ok()
    };
    threads.filter_map(|thread| spent(thread.ok()?)).sum()
}

fn compare(connections: usize, ours: &[Turn], theirs: &[Turn]) -> Vec<Row> {
    let of = |turns: &[Turn], what: fn(&Turn) -> f64| median(&turns.iter().map(what).collect::<Vec<_>>());
    let ratio = |over: fn(&Turn, &Turn) -> f64| {
        median(&ours.iter().zip(theirs).map(|(ours, theirs)| over(ours, theirs)).collect::<Vec<_>>())
    };
    let by = format!("{connections} connections");
    vec![
        Row::new(
            format!("`GET /leader`, {by}: throughput, Baton over bare hyper"),
            ratio(|ours, theirs| ours.round.requests_per_s / theirs.round.requests_per_s),
            "",
        )
        .at_least(0.85),
        Row::new(
            format!("{by}: requests per second of processor time, Baton over bare hyper"),
            ratio(|ours, theirs| theirs.cpu_us / ours.cpu_us),
            "",
        ),
        Row::new(format!("{by}: Baton"), of(ours, |turn| turn.round.requests_per_s), "requests/s"),
        Row::new(format!("{by}: bare hyper"), of(theirs, |turn| turn.round.requests_per_s), "requests/s"),
        Row::new(format!("{by}: Baton, p99"), of(ours, |turn| turn.round.p99_ms), "ms"),
        Row::new(format!("{by}: bare hyper, p99"), of(theirs, |turn| turn.round.p99_ms), "ms"),
    ]
}
