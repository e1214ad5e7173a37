//! What a Redis, or the masters of a cluster, tell of themselves: differences between two moments.

use std::time::{Duration, Instant};

use testkit::cluster::Cluster;
use testkit::redis::RedisServer;
use testkit::wait_until;

/// More than any state here has connections. Redis takes so many if its process may open as many files.
const CLIENTS_MAX: &str = "19000";
const BOUND: Duration = Duration::from_secs(30);
/// How often a window is looked at. What a connection's buffers take grows with a request and is given back some
/// seconds later, so that memory at one moment of a renewal period says nothing of the others.
pub const LOOKS: usize = 5;

/// Where sidecars keep what they keep: one Redis, or masters of a cluster without replicas.
pub struct Site {
    pub nodes: Vec<RedisServer>,
    pub url: String,
}

impl Site {
    pub fn one() -> Self {
        let redis = RedisServer::start_with(&["--maxclients", CLIENTS_MAX]);
        Self { url: redis.url(), nodes: vec![redis] }
    }

    /// Three masters, each with a third of the slots.
    pub async fn three() -> Self {
        // As a Cluster has it by default.
        let cluster = Cluster::start_masters(&["--maxclients", CLIENTS_MAX, "--cluster-node-timeout", "15000"]).await;
        Self { url: cluster.url(), nodes: cluster.nodes }
    }

    /// Waits until its servers have run for longer than this: the guard of a Redis that has just started is none of
    /// what is measured here.
    pub async fn until_older_than(&self, span: Duration) {
        let is_older = |node| number(&info(node), "uptime_in_seconds") > span.as_secs_f64() + 1.0;
        wait_until(BOUND, "its servers have run for a while", || self.nodes.iter().all(is_older)).await;
    }

    pub fn read(&self) -> Vec<Reading> {
        self.nodes.iter().map(Reading::of).collect()
    }

    /// How many connections there are besides this measurement's.
    pub fn connections(&self) -> f64 {
        self.read().iter().map(|reading| reading.connections).sum()
    }
}

fn info(redis: &RedisServer) -> String {
    redis.command(&["INFO", "all"]).text()
}

fn number(info: &str, name: &str) -> f64 {
    let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.and_then(|value| value.trim().parse().ok()).unwrap_or_else(|| panic!("INFO tells no {name}: {info}"))
}

/// What a server had done until one moment.
pub struct Reading {
    at: Instant,
    /// Of its main thread.
    cpu_us: f64,
    scripts: f64,
    input_b: f64,
    output_b: f64,
    /// What telling this took of the output that is told next.
    answer_b: f64,
    memory_b: f64,
    rss_b: f64,
    connections: f64,
}

impl Reading {
    pub fn of(redis: &RedisServer) -> Self {
        let info = info(redis);
        let scripts = info.lines().filter_map(|line| line.strip_prefix("cmdstat_evalsha:calls=")?.split(',').next());
        let cpu_s = number(&info, "used_cpu_user_main_thread") + number(&info, "used_cpu_sys_main_thread");
        Self {
            at: Instant::now(),
            cpu_us: cpu_s * 1e6,
            scripts: scripts.filter_map(|calls| calls.parse::<f64>().ok()).sum(),
            input_b: number(&info, "total_net_input_bytes"),
            output_b: number(&info, "total_net_output_bytes"),
            answer_b: info.len() as f64,
            memory_b: number(&info, "used_memory"),
            rss_b: number(&info, "used_memory_rss"),
            connections: number(&info, "connected_clients") - 1.0,
        }
    }
}

impl Reading {
    /// Without this measurement's own.
    pub fn connections(&self) -> f64 {
        self.connections
    }
}

/// What happened each second between two moments, and what there was. Of one server, or a sum.
#[derive(Clone, Copy, Debug, Default)]
pub struct Window {
    pub cpu_us: f64,
    pub scripts: f64,
    pub input_b: f64,
    pub output_b: f64,
    pub memory_b: f64,
    pub rss_b: f64,
    pub connections: f64,
}

impl Window {
    pub fn between(before: &Reading, after: &Reading) -> Self {
        let took_s = (after.at - before.at).as_secs_f64();
        Self {
            cpu_us: (after.cpu_us - before.cpu_us) / took_s,
            scripts: (after.scripts - before.scripts) / took_s,
            input_b: (after.input_b - before.input_b) / took_s,
            output_b: (after.output_b - before.output_b - before.answer_b) / took_s,
            memory_b: after.memory_b,
            rss_b: after.rss_b,
            connections: after.connections,
        }
    }

    /// In so many seconds.
    pub fn times(self, seconds: f64) -> Self {
        Self {
            cpu_us: self.cpu_us * seconds,
            scripts: self.scripts * seconds,
            input_b: self.input_b * seconds,
            output_b: self.output_b * seconds,
            ..self
        }
    }

    pub fn sum(nodes: &[Self]) -> Self {
        Self::each(|of| nodes.iter().map(of).sum())
    }

    pub fn mean(windows: &[Self]) -> Self {
        Self::each(|of| windows.iter().map(of).sum::<f64>() / windows.len() as f64)
    }

    fn each(sum: impl Fn(fn(&Self) -> f64) -> f64) -> Self {
        Self {
            cpu_us: sum(|w| w.cpu_us),
            scripts: sum(|w| w.scripts),
            input_b: sum(|w| w.input_b),
            output_b: sum(|w| w.output_b),
            memory_b: sum(|w| w.memory_b),
            rss_b: sum(|w| w.rss_b),
            connections: sum(|w| w.connections),
        }
    }
}

/// Microseconds of the main threads since that moment.
pub fn cpu_us_since(before: &[Reading], site: &Site) -> f64 {
    site.read().iter().zip(before).map(|(after, before)| after.cpu_us - before.cpu_us).sum()
}

/// So many windows one after the other, at all sites at once: of each site, all its nodes together, of each window.
pub async fn windows(sites: &[&Site], count: usize, span: Duration) -> Vec<Vec<Window>> {
    let mut looks: Vec<Vec<Window>> = sites.iter().map(|_| Vec::new()).collect();
    let mut before: Vec<Vec<Reading>> = sites.iter().map(|site| site.read()).collect();
    for _ in 0..count * LOOKS {
        tokio::time::sleep(span / LOOKS as u32).await;
        for ((site, looks), before) in sites.iter().zip(&mut looks).zip(&mut before) {
            let after = site.read();
            let nodes: Vec<Window> = before.iter().zip(&after).map(|(b, a)| Window::between(b, a)).collect();
            looks.push(Window::sum(&nodes));
            *before = after;
        }
    }
    looks.iter().map(|looks| looks.chunks(LOOKS).map(Window::mean).collect()).collect()
}
