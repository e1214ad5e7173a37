//! Many roles in one sidecar: what each of them costs, and whether renewals come in time.
//!
//! When a lease was renewed, Redis itself tells: PEXPIRETIME is the moment of the last renewal and one lease. Looked at
//! more often than leases are renewed, it tells of every renewal, and costs Redis some milliseconds at each look.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};

use testkit::redis::RedisServer;

use crate::part::{Bench, Findings, Part};
use crate::plot::{Axis, Kind, Plot};
use crate::process::{cpu_s, status};
use crate::replica::{Replica, Spec};
use crate::report::Row;
use crate::stats::percentile;

pub const PART: Part = Part {
    name: "roles",
    title: "Many roles in one sidecar",
    about: "\
One sidecar that leads all its roles, with the default lease of 15 s, renewed every 5 s. A renewal is late by how much
longer than that after the one before it reaches Redis. The time until all roles are led has half a lease in it, for
which a replica listens before its first grant. Memory is the resident set at the end, and the most that it ever was,
the reading of the configuration included; a scrape of `/metrics` comes after that.

A sidecar takes 1,000 roles, shards counted; more are refused.",
    budget: Duration::from_secs(140),
    peers: &[],
    measure: |bench| Box::pin(measure(bench)),
};

/// To the most that a sidecar takes.
const SIZES: [usize; 2] = [100, 1_000];
const LEASE: Duration = Duration::from_secs(15);
const PERIOD: Duration = Duration::from_secs(5);
/// Shorter than a period, so that no renewal is missed.
const LOOK: Duration = Duration::from_secs(4);
const LOOKS: usize = 6;
/// All roles are ready, and then led, long before.
const BOUND: Duration = Duration::from_secs(50);
/// How many commands the measurement sends at once: a moment's work for Redis.
const BATCH: usize = 250;

/// What so many roles came to.
struct Found {
    roles: usize,
    ready_ms: f64,
    led_s: f64,
    cpu: f64,
    redis_cpu: f64,
    rss_mib: f64,
    peak_mib: f64,
    scraped_mib: f64,
    late_ms: Vec<f64>,
    renewals_per_read: f64,
    trouble: usize,
}

async fn measure(bench: &Bench) -> Findings {
    // The guard of a Redis that has just started is none of what is measured here.
    let uptime = || info(&bench.redis, "server", "uptime_in_seconds:");
    while uptime() <= LEASE.as_secs_f64() + 1.0 {
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let mut found = Vec::new();
    for roles in SIZES {
        found.push(of(bench, roles).await);
    }
    let mut findings = Findings::of(found.iter().flat_map(rows).collect());
    let growth = |pair: &[Found]| (pair[1].cpu / pair[0].cpu) / (pair[1].roles as f64 / pair[0].roles as f64);
    let measure = "growth of the processor time over that of the roles, steepest step";
    let steepest = found.windows(2).map(growth).fold(0.0, f64::max);
    findings.rows.push(Row::new(measure, steepest, "").at_most(1.0));
    findings.plots = vec![plot_of_cost(&found), plot_of_lateness(&found)];
    findings
}

async fn of(bench: &Bench, roles: usize) -> Found {
    let redis = &bench.redis;
    let prefix = format!("roles-{roles}");
    let spec = Spec { roles, ..Spec::redis("many", &redis.url(), &prefix, LEASE) };
    let mut leases = Leases::of(redis, &prefix, &spec.names());
    let begun = Instant::now();
    let replica = Replica::start(&spec);
    replica.ready(BOUND).await;
    let ready_ms = begun.elapsed().as_secs_f64() * 1_000.0;
    while !leases.look() {
        assert!(begun.elapsed() < BOUND, "not all roles are led within {BOUND:?}; it says: {}", replica.log());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let led_s = begun.elapsed().as_secs_f64();
    // Until the first renewals are over, which may come at other times than later ones.
    tokio::time::sleep(PERIOD * 2).await;
    leases.forget();
    leases.look();
    let load = || [cpu_s(replica.pid()), redis_cpu_s(redis), renewals(redis), reads(redis)];
    let (begun, before) = (Instant::now(), load());
    for _ in 0..bench.times(LOOKS) {
        tokio::time::sleep(LOOK).await;
        assert!(leases.look(), "a role was lost; it says: {}", replica.log());
    }
    let (after, span) = (load(), begun.elapsed().as_secs_f64());
    let spent = |at: usize| after[at] - before[at];
    let memory_mib = |field| status(replica.pid(), field) / 1024.0;
    let (rss_mib, peak_mib) = (memory_mib("VmRSS"), memory_mib("VmHWM"));
    replica.metric("baton_renewals_total", "").await;
    Found {
        roles,
        ready_ms,
        led_s,
        cpu: spent(0) / span * 100.0,
        redis_cpu: spent(1) / span * 100.0,
        rss_mib,
        peak_mib,
        scraped_mib: memory_mib("VmHWM"),
        late_ms: std::mem::take(&mut leases.late_ms),
        renewals_per_read: spent(2) / spent(3).max(1.0),
        trouble: replica.log().lines().filter(|line| line.contains("stopped answering")).count(),
    }
}

fn rows(found: &Found) -> Vec<Row> {
    let Found { roles, late_ms, .. } = found;
    let name = |what: &str| format!("{roles} roles: {what}");
    let row = |what: &str, value, unit| Row::new(name(what), value, unit);
    let late = row("renewals late, p99", percentile(late_ms, 0.99), "ms");
    let cpu = row("processor time", found.cpu, "% of a core");
    let scraped = row("most memory ever, after a scrape", found.scraped_mib, "MiB");
    let per_read = row("renewals for each read of Redis from its sockets", found.renewals_per_read, "");
    let trouble = row("times that Redis counted as not answering", found.trouble as f64, "").at_most(0.0);
    let of_most = *roles == SIZES[SIZES.len() - 1];
    vec![
        if of_most { cpu.at_most(3.0) } else { cpu },
        row("processor time of Redis", found.redis_cpu, "% of a core"),
        row("memory at rest", found.rss_mib, "MiB"),
        row("most memory ever", found.peak_mib, "MiB"),
        if of_most { scraped.at_most(24.0) } else { scraped },
        if of_most { late.at_most(5.0) } else { late },
        row("renewals late, longest", percentile(late_ms, 1.0), "ms"),
        per_read,
        row("start to `/readyz`", found.ready_ms, "ms"),
        row("start until all are led", found.led_s, "s"),
        trouble,
    ]
}

fn plot_of_cost(found: &[Found]) -> Plot {
    let line = |name: &str, what: fn(&Found) -> f64| {
        (name.to_owned(), found.iter().map(|found| (found.roles as f64, what(found))).collect())
    };
    let lines = vec![
        line("processor time, % of a core", |found| found.cpu),
        line("that of Redis, % of a core", |found| found.redis_cpu),
        line("most memory ever, MiB", |found| found.peak_mib),
    ];
    Plot {
        name: "cost",
        title: "What roles cost".to_owned(),
        x: Axis::linear("roles"),
        kind: Kind::Lines { y: Axis::linear("% of a core, MiB"), lines },
    }
}

fn plot_of_lateness(found: &[Found]) -> Plot {
    let line = |name: &str, p: f64| {
        let points = found.iter().map(|found| (found.roles as f64, percentile(&found.late_ms, p)));
        (name.to_owned(), points.collect())
    };
    let lines = vec![line("median", 0.5), line("p99", 0.99), line("longest", 1.0)];
    Plot {
        name: "lateness",
        title: "How late renewals are".to_owned(),
        x: Axis::log("roles"),
        kind: Kind::Lines { y: Axis::linear("ms"), lines },
    }
}

/// The leases of all roles, as Redis has them.
pub(super) struct Leases {
    redis: BufReader<TcpStream>,
    /// One text for each batch of commands, with their number.
    batches: Vec<(String, usize)>,
    /// When each was to end at the last look, in milliseconds of Redis' clock.
    ends: Vec<i64>,
    /// By how much each renewal that was seen came later than a period after the one before.
    pub(super) late_ms: Vec<f64>,
}

impl Leases {
    pub(super) fn of(redis: &RedisServer, prefix: &str, names: &[String]) -> Self {
        let command = |name: &String| {
            let key = format!("{prefix}:{{{name}}}:lease");
            format!("*2\r\n$11\r\nPEXPIRETIME\r\n${}\r\n{key}\r\n", key.len())
        };
        let batches = names.chunks(BATCH).map(|names| (names.iter().map(command).collect(), names.len())).collect();
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, redis.port())).expect("the measurement's Redis answers");
        Self { redis: BufReader::new(stream), batches, ends: Vec::new(), late_ms: Vec::new() }
    }

    /// Whether all of them stand. Notes the renewals since the last look.
    pub(super) fn look(&mut self) -> bool {
        let mut ends = Vec::with_capacity(self.ends.len());
        for (commands, count) in &self.batches {
            self.redis.get_mut().write_all(commands.as_bytes()).expect("the measurement's Redis reads");
            for _ in 0..*count {
                let mut line = String::new();
                self.redis.read_line(&mut line).expect("the measurement's Redis answers");
                let number = line.trim_end().strip_prefix(':').and_then(|number| number.parse::<i64>().ok());
                ends.push(number.unwrap_or_else(|| panic!("PEXPIRETIME answers {line:?}: it came with Redis 7.0")));
            }
        }
        let period_ms = PERIOD.as_secs_f64() * 1_000.0;
        let renewed = ends.iter().zip(&self.ends).filter(|(now, before)| now > before && **before > 0);
        self.late_ms.extend(renewed.map(|(now, before)| ((now - before) as f64 - period_ms).max(0.0)));
        self.ends = ends;
        self.ends.iter().all(|end| *end > 0)
    }

    /// The renewals until now do not count.
    pub(super) fn forget(&mut self) {
        self.ends.clear();
        self.late_ms.clear();
    }
}

/// A number of `INFO`.
fn info(redis: &RedisServer, section: &str, field: &str) -> f64 {
    let text = redis.command(&["INFO", section]).text();
    let value = text.lines().find_map(|line| line.strip_prefix(field));
    let number = value.map(|value| value.trim_start_matches("calls=").split(',').next().unwrap_or_default());
    number.and_then(|number| number.trim().parse().ok()).unwrap_or_default()
}

/// Processor time of its process, in seconds.
pub(super) fn redis_cpu_s(redis: &RedisServer) -> f64 {
    info(redis, "cpu", "used_cpu_sys:") + info(redis, "cpu", "used_cpu_user:")
}

fn reads(redis: &RedisServer) -> f64 {
    info(redis, "stats", "total_reads_processed:")
}

/// Nothing else runs scripts here while all roles are led.
fn renewals(redis: &RedisServer) -> f64 {
    info(redis, "commandstats", "cmdstat_evalsha:")
}
