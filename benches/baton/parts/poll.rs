//! `GET /leader` against a bare hyper service, and Go's net/http, that return the same bytes.
//!
//! All are processes with one thread for requests. They take turns, so that whatever else the machine does meets both;
//! what counts is the median of the rounds' ratios. Beside the throughput, the processor time of one request is
//! compared: it hardly depends on what else runs.

use std::net::SocketAddr;
use std::time::Duration;

use hyper::header::{CACHE_CONTROL, CONTENT_TYPE};

use crate::bare::Bare;
use crate::load::{self, Round};
use crate::part::{Bench, Findings, Part};
use crate::plot::{Axis, Kind, Plot};
use crate::process::{cpu_s, preempted};
use crate::replica::{Group, Spec};
use crate::report::Row;
use crate::stats::median;

pub const PART: Part = Part {
    name: "poll",
    title: "Asking who leads",
    about: "\
`GET /leader` is made to be asked often, before every step that needs the lead. It is compared with a bare hyper
service and with Go's net/http, each in a process of its own, on one thread as Baton's, that returns the same bytes
and headers and does nothing else. The hyper service is built for speed alone, with link-time optimisation; Baton's
release is built for size where it may be. All take turns under the same load, on one core, with the load on another
where there are two; the ratios are medians of the rounds.

Where Baton's processor time went in a profile (`perf record`, 11,000 samples on 256 connections, the release with its
symbols, on a quiet machine):

| share | what |
|---|---|
| 73 % | the kernel: receiving, sending, waking up |
| 11 % | hyper and its parsers, which both have |
| 3 % | tokio |
| 5 % | memory and the C library |
| 8 % | Baton's own: a connection's turns and notes for its bounds of time, headers, promise, clock (1 %), text |

Both ask the kernel for the same: one `recv` and one `send` for an answer, and one `epoll_wait` for some sixteen. With
`opt-level = 3` for Baton's own crate an answer takes 7 to 9 % less processor time, and the program is 2.2 MiB larger.",
    budget: Duration::from_secs(90),
    peers: &["hyper", "net-http"],
    measure: |bench| Box::pin(measure(bench)),
};

/// Many short ones: a median of few hangs upon the moments in which something else wanted the processor.
const ROUNDS: usize = 12;
const ROUND: Duration = Duration::from_secs(1);
const CONNECTIONS: [usize; 2] = [16, 256];

/// One round on one server.
struct Turn {
    round: Round,
    /// Processor time of the server for one request.
    cpu_us: f64,
    /// How often a second something else got the server's core while the server had work.
    preempted_per_s: f64,
}

async fn measure(bench: &Bench) -> Findings {
    let lease = Duration::from_secs(15);
    let spec = Spec { store: "{ memory: {} }".to_owned(), ..Spec::redis("web-0", "", "poll", lease) };
    let group = Group::start(vec![spec]);
    group.settled().await;
    let baton = &group.replicas[0];
    let (status, headers, body) = baton.client().await.send("GET", "/leader", "").await.expect("an answer");
    assert!(status == 200 && body.contains("\"leader\":true"), "{status}: {body}");
    let header = |name| headers.get(&name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    let answer = [header(CONTENT_TYPE), header(CACHE_CONTROL), body];
    let mut findings = Findings::default();
    let mut yardsticks = Vec::new();
    for (name, peer) in [("bare hyper", "hyper"), ("Go net/http", "net-http")] {
        if let Some(peer) = findings.peer(bench.peer(peer)) {
            yardsticks.push((name, Bare::of(&peer.folder.join("run"), &answer)));
        }
    }
    let mut servers = vec![Server { name: "Baton", pid: baton.pid(), address: baton.api, turns: Vec::new() }];
    servers.extend(yardsticks.iter().map(|(name, bare)| Server {
        name,
        pid: bare.pid(),
        address: bare.address(),
        turns: Vec::new(),
    }));
    if load::can_pin() {
        // The load generator has another core.
        servers.iter().for_each(|server| load::pin(server.pid, 0));
    }
    for connections in CONNECTIONS {
        servers.iter_mut().for_each(|server| server.turns.clear());
        for _ in (0..bench.times(ROUNDS)).take_while(|round| bench.has_time(*round)) {
            for server in &mut servers {
                server.turns.push(turn(server.pid, server.address, connections).await);
            }
        }
        findings.rows.extend(compare(connections, &servers));
        findings.plots.push(plot(connections, &servers));
    }
    findings.with.push(if load::has_wrk() {
        "Load by wrk".to_owned()
    } else {
        "Load by the benchmark itself".to_owned()
    });
    findings
}

/// Who is polled.
struct Server {
    name: &'static str,
    pid: u32,
    address: SocketAddr,
    turns: Vec<Turn>,
}

impl Server {
    fn median(&self, what: fn(&Turn) -> f64) -> f64 {
        median(&self.turns.iter().map(what).collect::<Vec<_>>())
    }

    /// The median over the rounds of this one's figure over another's in the same round.
    fn over(&self, other: &Self, what: fn(&Turn) -> f64) -> f64 {
        median(&self.turns.iter().zip(&other.turns).map(|(own, other)| what(own) / what(other)).collect::<Vec<_>>())
    }
}

async fn turn(pid: u32, address: SocketAddr, connections: usize) -> Turn {
    let before = (cpu_s(pid), preempted(pid));
    let round = load::poll(address, connections, ROUND).await;
    let (cpu_s, preempted) = (cpu_s(pid) - before.0, preempted(pid) - before.1);
    let requests = round.requests_per_s * ROUND.as_secs_f64();
    Turn { round, cpu_us: cpu_s * 1e6 / requests, preempted_per_s: preempted / ROUND.as_secs_f64() }
}

fn compare(connections: usize, servers: &[Server]) -> Vec<Row> {
    let (rate, p99) = (|turn: &Turn| turn.round.requests_per_s, |turn: &Turn| turn.round.p99_ms);
    let by = format!("{connections} connections");
    let (baton, yardsticks) = servers.split_first().expect("Baton is the first");
    let mut rows = Vec::new();
    for yardstick in yardsticks {
        let name = yardstick.name;
        let throughput = Row::new(format!("{by}: throughput, Baton over {name}"), baton.over(yardstick, rate), "");
        if name == "bare hyper" {
            rows.push(throughput.at_least(0.85).because(WHY_SLOWER));
            let p99 = Row::new(format!("{by}: p99, Baton over {name}"), baton.over(yardstick, p99), "");
            rows.push(p99.at_most(1.3).because(WHY_SLOWER));
        } else {
            rows.push(throughput.at_least(1.7).because(WHY_NEAR_GO));
        }
        let cpu = yardstick.over(baton, |turn| turn.cpu_us);
        rows.push(Row::new(format!("{by}: requests per second of processor time, Baton over {name}"), cpu, ""));
    }
    for server in servers {
        let name = server.name;
        rows.push(Row::new(format!("{by}: {name}"), server.median(rate), "requests/s"));
        rows.push(Row::new(format!("{by}: {name}, p99"), server.median(p99), "ms"));
        let cpu_us = server.median(|turn| turn.cpu_us);
        rows.push(Row::new(format!("{by}: {name}, processor time of a request"), cpu_us, "µs"));
        let preempted = server.median(|turn| turn.preempted_per_s);
        rows.push(Row::new(format!("{by}: {name}, times that something else got its core"), preempted, "/s"));
    }
    rows
}

const WHY_SLOWER: &str = "\
hyper's code in Baton is built for size, and a tenth of the processor time is Baton's own (table above): the notes by \
which each connection is kept within bounds of time, the checks of headers, the promise and its clock";

const WHY_NEAR_GO: &str =
    "the kernel takes three quarters of either's time; bare hyper, just above, is hardly further ahead";

fn plot(connections: usize, servers: &[Server]) -> Plot {
    let rate = |server: &Server| (server.name.to_owned(), server.median(|turn| turn.round.requests_per_s));
    Plot {
        name: if connections == CONNECTIONS[0] { "few" } else { "many" },
        title: format!("GET /leader on {connections} connections"),
        x: Axis::linear("requests per second"),
        kind: Kind::Bars(servers.iter().map(rate).collect()),
    }
}
