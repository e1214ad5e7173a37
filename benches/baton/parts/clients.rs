//! Whether clients of one sidecar with as many roles as it takes delay its renewals.

use std::net::SocketAddr;
use std::process::ChildStderr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::roles::Leases;
use crate::client::Client;
use crate::part::{Bench, Findings, Part};
use crate::process::cpu_s;
use crate::raw::Http;
use crate::replica::{Replica, Spec};
use crate::report::Row;
use crate::stats::percentile;

pub const PART: Part = Part {
    name: "clients",
    title: "What clients cost the renewals",
    about: "\
One sidecar that leads 1,000 roles, as many as it takes, with the default lease of 15 s; 900 of them are measured, each
renewal against the one before it, as among many roles. First nobody asks, and then 16 streams of `/events` are open, on
which no role changes: each is told of each lead again when half of its promise is over, 6,400 times a second in all.
Then, all at once: these streams,
256 long polls, each of a role of its own, a scrape of `/metrics` and a `GET /roles` each second, two status pages with
their stream and their lists every three seconds, one app that asks `/leader` a hundred times a second, and somebody who
resigns the other 100 roles, twenty a second, so that there is something to tell. Then the same while nobody reads the
pipe that it logs to at level `trace`, some 300 lines a second. Load, Redis and Baton share the machine.",
    budget: Duration::from_secs(100),
    peers: &[],
    measure: |bench| Box::pin(measure(bench)),
};

const ROLES: usize = 1_000;
/// The roles that are resigned; the rest is measured.
const RESTLESS: usize = 100;
const STREAMS: usize = 16;
const POLLS: usize = 256;
const PAGES: usize = 2;
const LEASE: Duration = Duration::from_secs(15);
/// Shorter than a renewal period, so that no renewal is missed.
const LOOK: Duration = Duration::from_secs(4);
const LOOKS: usize = 4;
const BOUND: Duration = Duration::from_secs(40);

/// What one span of time came to.
struct Found {
    name: &'static str,
    cpu: f64,
    late_ms: Vec<f64>,
    slowest_ms: f64,
}

async fn measure(bench: &Bench) -> Findings {
    let prefix = "clients";
    let spec = Spec { roles: ROLES, log: "{ level: trace }", ..Spec::redis("many", &bench.redis.url(), prefix, LEASE) };
    let names = spec.names();
    let (restless, measured) = names.split_at(RESTLESS);
    let mut leases = Leases::of(&bench.redis, prefix, measured);
    let (replica, log) = Replica::start_piped(&spec);
    let log = Log::read(log);
    let begun = Instant::now();
    replica.ready(BOUND).await;
    while !leases.look() {
        assert!(begun.elapsed() < BOUND, "not all roles are led within {BOUND:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // Until the first renewals are over, which may come at other times than later ones.
    tokio::time::sleep(LEASE / 3).await;
    let mut found = vec![span(bench, "nobody asks", &replica, &mut leases, None).await];
    let streams = Load::of_streams(replica.api);
    tokio::time::sleep(Duration::from_secs(1)).await;
    found.push(span(bench, "with 16 streams", &replica, &mut leases, None).await);
    let more = (found[1].cpu / found[0].cpu - 1.0) * 100.0;
    let load = Load::of_all(replica.api, replica.telemetry, measured, restless);
    drop(streams);
    tokio::time::sleep(Duration::from_secs(1)).await;
    found.push(span(bench, "with clients", &replica, &mut leases, Some(&load)).await);
    log.stop();
    found.push(span(bench, "with clients, the log unread", &replica, &mut leases, Some(&load)).await);
    let mut findings = Findings::of(found.iter().flat_map(rows).collect());
    let measure = "processor time that 16 streams of `/events` add to that of the renewals";
    let because = "a promise that is told has to be told again before it is over, on each stream for each of 1,000 \
                   roles: 6,400 events a second, of some 1.5 µs each; where few roles are led, there is little to tell";
    findings.rows.push(Row::new(measure, more, "%").at_most(5.0).because(because));
    findings
}

async fn span(bench: &Bench, name: &'static str, replica: &Replica, leases: &mut Leases, load: Option<&Load>) -> Found {
    leases.forget();
    leases.look();
    if let Some(load) = load {
        load.slowest_us.store(0, Ordering::Relaxed);
    }
    let (begun, before) = (Instant::now(), cpu_s(replica.pid()));
    for _ in 0..bench.times(LOOKS) {
        tokio::time::sleep(LOOK).await;
        assert!(leases.look(), "a role was lost");
    }
    let cpu = (cpu_s(replica.pid()) - before) / begun.elapsed().as_secs_f64() * 100.0;
    let slowest_ms = load.map_or(0.0, |load| load.slowest_us.load(Ordering::Relaxed) as f64 / 1_000.0);
    Found { name, cpu, late_ms: std::mem::take(&mut leases.late_ms), slowest_ms }
}

fn rows(found: &Found) -> Vec<Row> {
    let row = |what: &str, value, unit| Row::new(format!("{}: {what}", found.name), value, unit);
    let mut rows = vec![
        row("processor time", found.cpu, "% of a core"),
        row("renewals late, p99", percentile(&found.late_ms, 0.99), "ms"),
        row("renewals late, longest", percentile(&found.late_ms, 1.0), "ms").at_most(50.0),
    ];
    if found.slowest_ms > 0.0 {
        rows.push(row("slowest answer of `/leader`", found.slowest_ms, "ms"));
    }
    rows
}

/// Who reads what is logged, for a while.
struct Log(std::sync::mpsc::Sender<()>);

impl Log {
    fn read(mut pipe: ChildStderr) -> Self {
        let (stop, stopped) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 65_536];
            while stopped.try_recv().is_err() && std::io::Read::read(&mut pipe, &mut buffer).is_ok_and(|read| read > 0)
            {
            }
            // Open, and not read, until the measurement is over.
            let _ = stopped.recv();
        });
        Self(stop)
    }

    fn stop(&self) {
        // It has ended only when the replica has.
        let _ = self.0.send(());
    }
}

/// See [`PART`]. On a thread of its own; ends when dropped.
struct Load {
    _stop: oneshot::Sender<()>,
    slowest_us: Arc<AtomicU64>,
}

impl Load {
    fn of_streams(api: SocketAddr) -> Self {
        Self::start(|tasks, _| (0..STREAMS).for_each(|_| drop(tasks.spawn(follow(api, "/events")))))
    }

    fn of_all(api: SocketAddr, telemetry: SocketAddr, measured: &[String], restless: &[String]) -> Self {
        Self::start(|tasks, slowest_us| {
            (0..STREAMS).for_each(|_| drop(tasks.spawn(follow(api, "/events"))));
            Self::besides(tasks, slowest_us, (api, telemetry), measured, restless);
        })
    }

    /// All that ask for something.
    fn besides(
        tasks: &mut JoinSet<()>,
        slowest_us: &Arc<AtomicU64>,
        (api, telemetry): (SocketAddr, SocketAddr),
        measured: &[String],
        restless: &[String],
    ) {
        (0..PAGES).for_each(|_| drop(tasks.spawn(follow(api, "/events?view=status"))));
        let every = |ms| Duration::from_millis(ms);
        for _ in 0..PAGES {
            tasks.spawn(ask(api, "GET", vec!["/jobs".to_owned()], every(3_000), None));
            tasks.spawn(ask(api, "GET", vec!["/locks".to_owned()], every(3_000), None));
        }
        for name in measured.iter().cycle().take(POLLS) {
            tasks.spawn(ask(api, "GET", vec![format!("/leader/{name}?wait=30s")], every(0), None));
        }
        tasks.spawn(ask(api, "GET", vec!["/roles".to_owned()], every(1_000), None));
        tasks.spawn(scrape(telemetry));
        let paths = restless.iter().map(|name| format!("/leader/{name}/resign")).collect();
        tasks.spawn(ask(api, "POST", paths, every(50), None));
        let poll = vec![format!("/leader/{}", measured[0])];
        tasks.spawn(ask(api, "GET", poll, every(10), Some(Arc::clone(slowest_us))));
    }

    fn start(spawn: impl FnOnce(&mut JoinSet<()>, &Arc<AtomicU64>)) -> Self {
        let (stop, stopped) = oneshot::channel::<()>();
        let slowest_us = Arc::new(AtomicU64::new(0));
        let mut tasks = JoinSet::new();
        let runtime = Builder::new_current_thread().enable_all().build().expect("the operating system gives a runtime");
        let entered = runtime.enter();
        spawn(&mut tasks, &slowest_us);
        drop(entered);
        std::thread::spawn(move || {
            runtime.block_on(async {
                // Both ends mean the same.
                let _ = stopped.await;
                drop(tasks);
            });
        });
        Self { _stop: stop, slowest_us }
    }
}

/// Reads a stream, and what it says is nobody's concern.
async fn follow(address: SocketAddr, path: &'static str) {
    let mut stream = Http::connect(address).await.expect("it listens");
    stream.open(path).await.expect("a stream");
    while stream.forget().await.is_ok() {}
}

/// Scrapes, as Prometheus does.
async fn scrape(address: SocketAddr) {
    let mut client = Client::connect(address).await.expect("it listens");
    loop {
        client.send("GET", "/metrics", "").await.expect("an answer");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// Asks for one path after the other, with a pause after each.
async fn ask(
    address: SocketAddr,
    method: &'static str,
    paths: Vec<String>,
    pause: Duration,
    slowest_us: Option<Arc<AtomicU64>>,
) {
    let mut client = Http::connect(address).await.expect("it listens");
    for path in paths.iter().cycle() {
        let asked = Instant::now();
        client.send(method, path, "").await.expect("an answer");
        if let Some(slowest_us) = &slowest_us {
            slowest_us.fetch_max(u64::try_from(asked.elapsed().as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
        }
        tokio::time::sleep(pause).await;
    }
}
