//! Jobs that are made at run time: how late they start, and what a hundred thousand of them cost while they wait.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use testkit::redis::RedisServer;
use testkit::wait_until;

use super::jobs::{App, since_epoch, until};
use super::roles::redis_cpu_s;
use crate::part::{Bench, Findings, Part};
use crate::plot::{Axis, Kind, Plot};
use crate::process::{cpu_s, status};
use crate::raw::Http;
use crate::replica::{Group, Replica, Spec};
use crate::report::Row;
use crate::stats::{distribution, percentile};

pub const PART: Part = Part {
    name: "oneshots",
    title: "Jobs made at run time",
    about: "\
Jobs that run once (`PUT /jobs/{name}` with `at`), evenly over a minute, over a second, and 200 a second while 100,000
are stored, whose moments are hours away. One sidecar, one Redis, and an app that answers 200 at once. How late a job
starts is from its moment until the app has read the head of the request, as above. Memory is the resident set: before
anything is stored, when the first one is due, half-way and at the end. Redis's time is all that its process takes,
the renewals of the role included.",
    budget: Duration::from_secs(280),
    peers: &[],
    measure: |bench| Box::pin(measure(bench)),
};

const FEW: usize = 1_000;
const MANY: usize = 100_000;
const DUE_PER_S: usize = 200;
const LEASE: Duration = Duration::from_secs(5);
/// Over which those are due that are few, and of those that are many the first.
const SPANS: [(&str, Duration); 2] = [("a minute", Duration::from_secs(60)), ("a second", Duration::from_secs(1))];
const SPAN: Duration = Duration::from_secs(60);
/// How far away the moments of those are that only wait.
const FAR: Duration = Duration::from_secs(36_000);
const CONNECTIONS: usize = 8;
/// No job is later.
const BOUND: Duration = Duration::from_secs(30);

const WHY_LATE: &str = "Redis, the leader and the app share the machine's processors";

async fn measure(bench: &Bench) -> Findings {
    let redis = RedisServer::start();
    let group = Group::start(vec![Spec::redis("oneshots-0", &redis.url(), "oneshots", LEASE)]);
    let stage = Stage { redis, app: App::start().await, leader: &group.replicas[group.settled().await] };
    let (mut rows, mut lines) = (Vec::new(), Vec::new());
    let few = bench.times(FEW);
    for ((name, span), goal) in SPANS.into_iter().zip([20.0, 60.0]) {
        let Found { late_ms, .. } = stage.run(name, few, bench.span(span)).await;
        let of = |what: &str| format!("{few} due in {name}: {what}");
        rows.push(Row::new(of("late p50"), percentile(&late_ms, 0.5), "ms"));
        rows.push(Row::new(of("late p99"), percentile(&late_ms, 0.99), "ms").at_most(goal).because(WHY_LATE));
        rows.push(Row::new(of("longest"), percentile(&late_ms, 1.0), "ms"));
        lines.push((format!("{few} in {name}"), distribution(&late_ms)));
    }
    let many = bench.times(MANY);
    let (empty_mib, begun) = (stage.resident_mib(), Instant::now());
    let far = since_epoch() + FAR;
    stage.put_all("far", (0..many).map(|at| far + Duration::from_millis(at as u64)).collect()).await;
    let stored_per_s = many as f64 / begun.elapsed().as_secs_f64();
    let span = bench.span(SPAN);
    let found = stage.run("many", (span.as_secs_f64() * DUE_PER_S as f64) as usize, span).await;
    let of = |what: &str| format!("{many} stored, {DUE_PER_S} due a second: {what}");
    let [begin_mib, half_mib, end_mib] = found.resident_mib;
    rows.extend([
        Row::new(format!("stored on {CONNECTIONS} connections"), stored_per_s, "jobs/s"),
        Row::new(of("late p50"), percentile(&found.late_ms, 0.5), "ms"),
        Row::new(of("late p99"), percentile(&found.late_ms, 0.99), "ms").at_most(50.0).because(WHY_LATE),
        Row::new(of("longest"), percentile(&found.late_ms, 1.0), "ms"),
        Row::new(of("Redis"), found.redis_percent, "% of a core").at_most(10.0),
        Row::new(of("the sidecar"), found.leader_percent, "% of a core"),
        Row::new("memory of the sidecar with nothing stored", empty_mib, "MiB"),
        Row::new(of("memory of the sidecar when the first is due"), begin_mib, "MiB"),
        Row::new(of("memory of the sidecar at the end"), end_mib, "MiB"),
        Row::new(of("the same over that half-way"), end_mib / half_mib, "").at_most(1.05),
    ]);
    lines.push((format!("{DUE_PER_S} a second, {many} stored"), distribution(&found.late_ms)));
    let plot = Plot {
        name: "lateness",
        title: "Jobs made at run time: from their moment until the app has read the request".to_owned(),
        x: Axis::log("milliseconds"),
        kind: Kind::Lines { y: Axis::linear("share of the runs"), lines },
    };
    Findings { rows, plots: vec![plot], ..Findings::default() }
}

struct Stage<'a> {
    redis: RedisServer,
    app: App,
    leader: &'a Replica,
}

/// What so many jobs over a span came to.
struct Found {
    late_ms: Vec<f64>,
    /// When the first one is due, half-way and at the end.
    resident_mib: [f64; 3],
    redis_percent: f64,
    leader_percent: f64,
}

impl Stage<'_> {
    /// So many jobs, due evenly over the span, which begins once all are stored.
    async fn run(&self, name: &str, jobs: usize, span: Duration) -> Found {
        // Longer than it takes to store them.
        let from = Duration::from_secs((since_epoch() + Duration::from_millis(2_000 + jobs as u64 * 2)).as_secs());
        let each = span / u32::try_from(jobs).expect("few");
        let name = name.replace(' ', "-");
        self.put_all(&name, (0..jobs).map(|at| from + each * u32::try_from(at).expect("few")).collect()).await;
        assert!(since_epoch() < from, "storing {jobs} took longer than {:?}", Duration::from_millis(jobs as u64 * 2));
        until(from).await;
        let load = || (redis_cpu_s(&self.redis), cpu_s(self.leader.pid()));
        let (begin_mib, before) = (self.resident_mib(), load());
        until(from + span / 2).await;
        let half_mib = self.resident_mib();
        until(from + span).await;
        let after = load();
        let late_ms = || self.app.late_ms(from.as_secs()..=(from + span).as_secs());
        wait_until(BOUND, "the app has had every run", || late_ms().len() >= jobs).await;
        let late_ms = late_ms();
        assert_eq!(late_ms.len(), jobs, "each runs, and once");
        let percent = |before: f64, after: f64| (after - before) / span.as_secs_f64() * 100.0;
        Found {
            late_ms,
            resident_mib: [begin_mib, half_mib, self.resident_mib()],
            redis_percent: percent(before.0, after.0),
            leader_percent: percent(before.1, after.1),
        }
    }

    fn resident_mib(&self) -> f64 {
        status(self.leader.pid(), "VmRSS") / 1024.0
    }

    /// A job for each of these moments, since 1970.
    async fn put_all(&self, name: &str, moments: Vec<Duration>) {
        let chunks = moments.chunks(moments.len().div_ceil(CONNECTIONS)).enumerate();
        join_all(chunks.map(|(at, chunk)| put(self.leader.api, format!("{name}-{at}"), chunk, self.app.address))).await;
    }
}

async fn put(sidecar: SocketAddr, name: String, moments: &[Duration], app: SocketAddr) {
    let mut http = Http::connect(sidecar).await.expect("it listens");
    for (number, moment) in moments.iter().enumerate() {
        let millis = i64::try_from(moment.as_millis()).expect("soon");
        let at = jiff::Timestamp::from_millisecond(millis).expect("soon");
        let body = format!("{{\"at\":\"{at}\",\"run\":{{\"http\":{{\"url\":\"http://{app}/\"}}}}}}");
        let answer = http.send("PUT", &format!("/jobs/{name}-{number}"), &body).await;
        let (status, text) = answer.expect("an answer");
        assert_eq!(status, 201, "{text}");
    }
}
