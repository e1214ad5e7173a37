//! Jobs: how late a thousand of them start, and what a run costs Redis.
//!
//! The app is a server in this process. It notes when the head of a request has been read, and which slot that request
//! names (`Baton-Scheduled-Time`). All of this is one machine with one clock, so the difference is the lateness.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use testkit::redis::RedisServer;
use testkit::wait_until;
use tokio::net::TcpListener;
use tokio::task::AbortHandle;

use super::rest::calls;
use crate::part::{Bench, Findings, Part};
use crate::plot::{Axis, Kind, Plot};
use crate::process::cpu_s;
use crate::replica::{Group, Replica, Spec};
use crate::report::Row;
use crate::stats::{distribution, percentile};

pub const PART: Part = Part {
    name: "jobs",
    title: "Jobs",
    about: "\
A thousand jobs of one leader. Each run is a request to an app, which answers 200 at once. How late a run
starts is from the moment that its slot names until the app has read the head of the request: the claim in the ledger
comes before, and a connection of the run's own. *Spread*: each job has one slot in a minute, 16 or 17 of them in
each second, which is as fine as a schedule can be. *Together*: all thousand have the same slots, one every ten
seconds. The scripts are what Redis counts (`INFO commandstats`) less the renewals of the role, which the leader
counts: one writes the claim, one the end. The commands are those that these two execute.",
    budget: Duration::from_secs(160),
    peers: &[],
    measure: |bench| Box::pin(measure(bench)),
};

const JOBS: usize = 1_000;
const LEASE: Duration = Duration::from_secs(5);
/// No state takes longer to come about.
const BOUND: Duration = Duration::from_secs(40);
/// From the full second, at which runs start, to a moment at which none does.
const HALF: Duration = Duration::from_millis(500);

/// How the slots lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Spread,
    Together,
}

impl Shape {
    fn name(self) -> &'static str {
        match self {
            Self::Spread => "spread",
            Self::Together => "together",
        }
    }

    fn span(self) -> Duration {
        match self {
            Self::Spread => Duration::from_secs(60),
            Self::Together => Duration::from_secs(40),
        }
    }

    fn schedule(self, job: usize) -> String {
        match self {
            Self::Spread => format!("{} * * * * *", job % 60),
            Self::Together => "*/10 * * * * *".to_owned(),
        }
    }

    /// How many of so many jobs have a slot at this second.
    fn due(self, second: u64, jobs: usize) -> usize {
        match self {
            Self::Spread => (0..jobs).filter(|job| *job as u64 % 60 == second % 60).count(),
            Self::Together if second.is_multiple_of(10) => jobs,
            Self::Together => 0,
        }
    }
}

/// What one shape came to.
struct Outcome {
    shape: Shape,
    late_ms: Vec<f64>,
    scripts_per_run: f64,
    commands_per_run: f64,
    cpu_percent: f64,
}

async fn measure(bench: &Bench) -> Findings {
    let jobs = bench.times(JOBS);
    let mut outcomes = Vec::new();
    for shape in [Shape::Spread, Shape::Together] {
        outcomes.push(run(&bench.redis, shape, jobs, bench.span(shape.span())).await);
    }
    let rows = outcomes.iter().flat_map(|outcome| rows(outcome, jobs)).collect();
    let lines = outcomes.iter().map(|outcome| (outcome.shape.name().to_owned(), distribution(&outcome.late_ms)));
    let plot = Plot {
        name: "lateness",
        title: format!("{jobs} jobs: from the slot's time until the app has read the request"),
        x: Axis::log("milliseconds"),
        kind: Kind::Lines { y: Axis::linear("share of the runs"), lines: lines.collect() },
    };
    Findings { rows, plots: vec![plot], ..Findings::default() }
}

fn rows(outcome: &Outcome, jobs: usize) -> Vec<Row> {
    let Outcome { shape, late_ms, scripts_per_run, commands_per_run, cpu_percent } = outcome;
    let of = |what: &str| format!("{jobs} jobs, {}: {what}", shape.name());
    let p99 = Row::new(of("start lateness p99"), percentile(late_ms, 0.99), "ms");
    let scripts = Row::new(of("scripts per run"), *scripts_per_run, "");
    vec![
        Row::new(of(&format!("start lateness p50 of {}", late_ms.len())), percentile(late_ms, 0.5), "ms"),
        // A thousand at once are a queue, at whose end nobody starts in time.
        if *shape == Shape::Spread { p99.at_most(20.0).because(WHY_LATE) } else { p99 },
        Row::new(of("start lateness, longest"), percentile(late_ms, 1.0), "ms"),
        scripts.at_most(4.0),
        Row::new(of("commands of Redis in these"), *commands_per_run, ""),
        Row::new(of("processor time of the leader"), *cpu_percent, "% of a core"),
    ]
}

const WHY_LATE: &str = "Redis, the leader and the app share the machine's processors";

/// What has happened until now.
struct Counts {
    scripts: f64,
    commands: f64,
    runs: f64,
    cpu_s: f64,
}

async fn counts(redis: &RedisServer, leader: &Replica) -> Counts {
    // First what is quick, for the other side takes its time with the metrics of a thousand jobs.
    let calls = calls(redis);
    let renewals = leader.metric("baton_renewals_total", "").await;
    let runs = succeeded(leader).await;
    let of = |name: &str| calls.get(name).copied().unwrap_or_default();
    Counts {
        scripts: of("evalsha") + of("eval") - renewals,
        // Those of the scripts of ledgers. A renewal has TIME as well; its record is too rare to matter here.
        commands: of("hset") + of("hmget") + of("time") - renewals,
        runs,
        cpu_s: cpu_s(leader.pid()),
    }
}

async fn succeeded(leader: &Replica) -> f64 {
    leader.metric("baton_job_runs_total", "outcome=\"succeeded\"").await
}

async fn run(redis: &RedisServer, shape: Shape, jobs: usize, span: Duration) -> Outcome {
    let app = App::start().await;
    let prefix = format!("jobs-{}", shape.name());
    let more = (0..jobs).fold("jobs:\n".to_owned(), |more, job| {
        let (schedule, url) = (shape.schedule(job), format!("http://{}/{job}", app.address));
        format!("{more}  - {{ name: job-{job}, schedule: \"{schedule}\", run: {{ http: {{ url: \"{url}\" }} }} }}\n")
    });
    let group = Group::start(vec![Spec { more, ..Spec::redis("jobs-0", &redis.url(), &prefix, LEASE) }]);
    let leader = &group.replicas[group.settled().await];
    until_all_are_open(leader, jobs).await;

    // In the middle of a second nothing goes on; and a thousand at once are through long before the next come.
    let from = (since_epoch().as_secs() + 2).next_multiple_of(10) - 1;
    until(Duration::from_secs(from) + HALF).await;
    let before = counts(redis, leader).await;
    let to = from + span.as_secs().max(1);
    until(Duration::from_secs(to) + HALF).await;
    let expected: usize = (from + 1..=to).map(|second| shape.due(second, jobs)).sum();
    let late_ms = || app.late_ms(from + 1..=to);
    wait_until(BOUND, "the app has had every run", || late_ms().len() >= expected).await;
    let begun = Instant::now();
    while succeeded(leader).await < before.runs + expected as f64 {
        assert!(begun.elapsed() < BOUND, "not every run has ended: {}", leader.log());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let after = counts(redis, leader).await;
    let late_ms = late_ms();
    assert_eq!(late_ms.len(), expected, "a run for each slot, and one only");
    let runs = after.runs - before.runs;
    Outcome {
        shape,
        late_ms,
        scripts_per_run: (after.scripts - before.scripts) / runs,
        commands_per_run: (after.commands - before.commands) / runs,
        cpu_percent: (after.cpu_s - before.cpu_s) / span.as_secs_f64() * 100.0,
    }
}

/// Waits until the leader knows of each job when it is due next, so that it has its ledger.
async fn until_all_are_open(leader: &Replica, jobs: usize) {
    let begun = Instant::now();
    loop {
        let sum = leader.metric("baton_job_next_start_timestamp_seconds", "").await;
        // One that is not open counts 0, which is further from now than a minute for each job.
        if sum >= jobs as f64 * (since_epoch().as_secs_f64() - 60.0) {
            return;
        }
        assert!(begun.elapsed() < BOUND, "not every ledger is open: {}", leader.log());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

pub(super) fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("this is after 1970")
}

/// Waits until this moment, since 1970.
pub(super) async fn until(moment: Duration) {
    tokio::time::sleep(moment.saturating_sub(since_epoch())).await;
}

/// Slots, and how late the requests of their runs came.
type Arrivals = Arc<Mutex<Vec<(Duration, Duration)>>>;

/// The app. Its server ends when it is dropped.
pub(super) struct App {
    pub(super) address: SocketAddr,
    arrivals: Arrivals,
    server: AbortHandle,
}

impl App {
    pub(super) async fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let arrivals = Arrivals::default();
        let server = tokio::spawn(serve(listener, Arc::clone(&arrivals))).abort_handle();
        Self { address, arrivals, server }
    }

    /// Of the slots at these seconds.
    pub(super) fn late_ms(&self, seconds: std::ops::RangeInclusive<u64>) -> Vec<f64> {
        let arrivals = self.arrivals.lock().unwrap_or_else(PoisonError::into_inner);
        let of_these = arrivals.iter().filter(|(slot, _)| seconds.contains(&slot.as_secs()));
        of_these.map(|(_, late)| late.as_secs_f64() * 1_000.0).collect()
    }
}

impl Drop for App {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn serve(listener: TcpListener, arrivals: Arrivals) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let _ = stream.set_nodelay(true);
        let arrivals = Arc::clone(&arrivals);
        let service = service_fn(move |request: Request<Incoming>| {
            let slot = slot_of(&request);
            let late = since_epoch().saturating_sub(slot);
            arrivals.lock().unwrap_or_else(PoisonError::into_inner).push((slot, late));
            std::future::ready(Ok::<_, Infallible>(Response::new(Full::new(Bytes::new()))))
        });
        // An error is the client's.
        tokio::spawn(async move { http1::Builder::new().serve_connection(TokioIo::new(stream), service).await });
    }
}

/// Which slot a request is for.
fn slot_of(request: &Request<Incoming>) -> Duration {
    let header = request.headers().get("baton-scheduled-time").and_then(|value| value.to_str().ok());
    let moment = header.and_then(|text| text.parse::<jiff::Timestamp>().ok()).expect("a run names its slot");
    Duration::from_millis(u64::try_from(moment.as_millisecond()).expect("after 1970"))
}
