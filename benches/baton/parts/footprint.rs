//! What a replica costs the machine: the file, memory, threads, processor time at rest, and its start.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use testkit::redis::RedisServer;

use crate::part::{Bench, Findings, Part, root};
use crate::process::{cpu_s, status};
use crate::replica::{Group, Replica, Spec, binary};
use crate::report::Row;
use crate::stats::{median, percentile};

pub const PART: Part = Part {
    name: "footprint",
    title: "On the machine",
    about: "\
One role, the default lease, a Redis. The program is built as for the image: linked to the C library of this machine,
which should be that of Debian 12, the image's base. The start is from starting the process until the first answer has
been read.
Others publish: of Dapr's sidecar [a binary of 58 MB and 4 MB of memory][dapr-early] in an early README, and [23 MB of
memory and 0.48 of a core][dapr] with version 1.0 at a thousand requests a second from app to app, which is other work
than Baton's. The leader-elector of Kubernetes' contributors publishes no such figures; Docker Hub tells of
[59.6 MB for a copy of its image 0.5][elector]. None of these was measured here.

What wakes a replica at rest, by strace and by the kernel's count of context switches:

| cause | leader, a second | standby, a second |
|---|---|---|
| the watch for standstills | 1.0 | 1.0 |
| the look at the configuration, on a thread of its own | 0.5 | 0.5 |
| a renewal, with its answer, its timer's steps and its own message; or another's message | 0.8 | 0.2 |
| other steps of tokio's timers | 0.6 | 0.6 |

What is resident, by /proc/PID/smaps: the program's code and constants, of which the kernel maps all that it has read
around what was used; the C library; and some MB of the process' own. The sidecars of a node share the first two, so
what a node pays for each is its proportional share (PSS), here with ten of them.

[dapr-early]: https://github.com/dapr/dapr/blob/003e842c0efe935b9185c819ee3e4f2d1799dbff/README.md
[dapr]: https://docs.dapr.io/operations/performance-and-scalability/perf-service-invocation/
[elector]: https://hub.docker.com/r/gocloudio/leader-elector",
    budget: Duration::from_secs(45),
    peers: &[],
    measure: |bench| Box::pin(measure(bench)),
};

/// By leaving it out, and with `nm` in a release that kept its symbols.
const WHY_LARGE: &str = "\
kube's client is 2.1 MiB of it, measured by leaving it out (a second HTTP client, and YAML, JSONPath and regular \
expressions for kubeconfigs and credential plugins); of the rest 1.5 MiB is Baton's own code, 0.9 MiB what it has of \
the standard library, fred, tokio and rustls are 0.25 MiB each, the time zones 0.2 MiB";
/// By /proc/PID/task/*/status and strace.
const WHY_AWAKE: &str = "some three wake-ups a second, each with cold caches; the table above tells their causes";

const MIB: f64 = 1024.0 * 1024.0;
const STARTS: usize = 30;
const SIDECARS: usize = 10;
/// With the default lease, so that this is what an installation costs.
const LEASE: Duration = Duration::from_secs(15);
const REST: Duration = Duration::from_secs(20);
const START_BOUND: Duration = Duration::from_secs(10);

async fn measure(bench: &Bench) -> Findings {
    let redis = &bench.redis;
    let binary = std::fs::metadata(binary()).expect("cargo built it").len();
    let image = (binary + licences()) as f64;
    let starts_ms: Vec<f64> = (0..STARTS).map(|_| start_ms(redis)).collect();
    let spec = |n: usize| Spec::redis(&format!("rest-{n}"), &redis.url(), "footprint", LEASE);
    let group = Group::start(vec![spec(0), spec(1)]);
    let leader = group.settled().await;
    let pids = [group.replicas[leader].pid(), group.replicas[1 - leader].pid()];
    let before = pids.map(cpu_s);
    tokio::time::sleep(REST).await;
    let cpu = |at: usize| (cpu_s(pids[at]) - before[at]) / REST.as_secs_f64() * 100.0;
    let rss = |at: usize| status(pids[at], "VmRSS") / 1024.0;
    let at_rest = [(cpu(0), rss(0)), (cpu(1), rss(1))];
    let more = Group::start((2..SIDECARS).map(spec).collect());
    let all = || group.replicas.iter().chain(&more.replicas);
    for replica in all() {
        replica.ready(START_BOUND).await;
    }
    tokio::time::sleep(LEASE / 3).await;
    let each_mib = all().map(|replica| pss_kib(replica.pid())).sum::<f64>() / SIDECARS as f64 / 1024.0;
    Findings::of(vec![
        Row::new("release binary", binary as f64 / MIB, "MiB").at_most(12.0).because(WHY_LARGE),
        Row::new("what the image adds to its base: binary and licences", image / MIB, "MiB"),
        Row::new(format!("{SIDECARS} sidecars on a node: memory as it pays for each (PSS)"), each_mib, "MiB")
            .at_most(5.0),
        Row::new("resident memory at rest, leader", at_rest[0].1, "MiB"),
        Row::new("resident memory at rest, standby", at_rest[1].1, "MiB"),
        Row::new("threads", status(pids[0], "Threads"), ""),
        Row::new(format!("processor time at rest, leader, over {REST:?}"), at_rest[0].0, "% of a core")
            .at_most(0.3)
            .because(WHY_AWAKE),
        Row::new(format!("processor time at rest, standby, over {REST:?}"), at_rest[1].0, "% of a core")
            .at_most(0.3)
            .because(WHY_AWAKE),
        Row::new(format!("start to the first 200 on `/leader`, median of {STARTS}"), median(&starts_ms), "ms"),
        Row::new("start to the first 200, longest", percentile(&starts_ms, 1.0), "ms").at_most(30.0),
    ])
}

/// The size of the licences beside the program: "LICENSE", and those of what is linked, "THIRD-PARTY-LICENSES".
fn licences() -> u64 {
    let own = std::fs::metadata(root().join("LICENSE")).expect("the repository has one").len();
    let linked = Command::new(root().join(".ci/licences")).output().expect("the licences of what is linked");
    assert!(linked.status.success(), "{}", String::from_utf8_lossy(&linked.stderr));
    own + linked.stdout.len() as u64
}

/// What the process has for itself, and its share of what several map.
fn pss_kib(pid: u32) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let value = text.lines().find_map(|line| line.strip_prefix("Pss:"));
    value.and_then(|value| value.split_whitespace().next()?.parse().ok()).unwrap_or_default()
}

/// From starting the process until its first answer has been read.
fn start_ms(redis: &RedisServer) -> f64 {
    let begun = Instant::now();
    let replica = Replica::start(&Spec::redis("start", &redis.url(), "start", LEASE));
    while !answers(replica.api) {
        assert!(begun.elapsed() < START_BOUND, "no answer within {START_BOUND:?}: {}", replica.log());
        std::thread::sleep(Duration::from_micros(200));
    }
    begun.elapsed().as_secs_f64() * 1_000.0
}

fn answers(address: SocketAddr) -> bool {
    let ask = || -> std::io::Result<[u8; 12]> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(START_BOUND))?;
        stream.write_all(format!("GET /leader HTTP/1.1\r\nHost: {address}\r\n\r\n").as_bytes())?;
        let mut head = [0; 12];
        stream.read_exact(&mut head)?;
        Ok(head)
    };
    ask().is_ok_and(|head| head == *b"HTTP/1.1 200")
}
