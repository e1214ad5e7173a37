//! Locks: taken and given back at once, each by itself and by many who want the same.
//!
//! The limit is Redis with the same two scripts and nothing before it: as many connections, each of which sends the
//! scripts that a sidecar would send, as src/store/redis/scripts/locks.rs makes them.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::Value;
use testkit::peers::{Missing, Peer};
use testkit::redis::RedisServer;

use super::rest::calls;
use crate::part::{Bench, Findings, Part};
use crate::peers::locker::{Kind, Locker, Outcome, Run};
use crate::plot::{self, Axis, Plot};
use crate::raw::{Http, Redis};
use crate::replica::{Group, Replica, Spec};
use crate::report::Row;
use crate::stats::median;

pub const PART: Part = Part {
    name: "locks",
    title: "Locks",
    about: "\
A cycle takes a lock and gives it back at once. *Uncontended*: one connection or thread, or 64, each with a lock of
its own. Baton is asked over HTTP through one sidecar; the limit is the same two scripts sent straight to the same
Redis (`EVALSHA`) over as many connections, one at a time on each. The peers are clients inside the process that wants
the lock, so that they have one exchange less; and each cycle of theirs does less: no token, no queue, no record of
the server's process. *Contended*: a hundred contenders, 25 in each of four processes, want one lock. Those who rest
are workers with something else to do; those who never rest ask again the moment they have given it back. Whoever
waits by looking again, as redis-py, redsync and rslock do, is then fast in one way only: who has just had the lock
takes it again before anybody looks. The contender with the fewest cycles, over the mean of all, and the longest wait
show it, and what Redis read from its clients (`total_reads_processed`) and ran for each cycle: two reads are those of
somebody who met nobody. Everybody takes turns on one Redis; the figures are medians of the rounds. *Fair* queues are
first come, first served.

A cycle of who does not queue is two exchanges between the one who has just had the lock and Redis, with scripts of a
few microseconds.",
    budget: Duration::from_secs(300),
    peers: &["redisson", "redis-py", "redsync", "rslock"],
    measure: |bench| Box::pin(measure(bench)),
};

const ROUNDS: usize = 3;
const UNCONTENDED: Duration = Duration::from_secs(2);
const CONTENDED: Duration = Duration::from_secs(3);
/// Between two turns of a contender that works besides.
const REST: Duration = Duration::from_millis(10);
const CONNECTIONS: [usize; 2] = [1, 64];
const PROCESSES: usize = 4;
const CONTENDERS_EACH: usize = 25;
/// Longer than anything here takes: nothing is renewed.
const LEASE: Duration = Duration::from_secs(30);
/// A Redis that has never seen a lock grants none for a while; nor does it to a sidecar that does not know it yet.
const OPEN_MAX: Duration = Duration::from_secs(60);

/// What is measured at a time.
#[derive(Clone, Copy, Debug)]
enum Scene {
    /// So many connections or threads, each with a lock of its own.
    Alone(usize),
    /// A hundred contenders, who rest for so long after each cycle.
    Crowd(Duration),
}

impl Scene {
    /// How many processes, and how many contenders each has.
    fn size(self) -> (usize, usize) {
        match self {
            Self::Alone(connections) => (1, connections),
            Self::Crowd(_) => (PROCESSES, CONTENDERS_EACH),
        }
    }
}

/// Who takes locks.
enum Taker {
    /// The two scripts.
    Raw(Scripts),
    /// Through sidecars.
    Baton(Vec<SocketAddr>),
    /// Several processes of a peer.
    Peer(Vec<Locker>),
}

/// What somebody came to in each round.
#[derive(Default)]
struct Figures {
    name: String,
    cycles_per_s: Vec<f64>,
    /// Of the contender with the fewest cycles, over the mean.
    fewest: Vec<f64>,
    longest_ms: f64,
    /// What Redis read from its clients and how many scripts it ran, over the cycles of all rounds.
    reads: f64,
    scripts: f64,
    cycles: f64,
}

async fn measure(bench: &Bench) -> Findings {
    let mut findings = Findings::default();
    let redis = SocketAddr::from((Ipv4Addr::LOCALHOST, bench.redis.port()));
    let specs = (0..PROCESSES).map(|n| Spec::redis(&format!("locks-{n}"), &bench.redis.url(), "locks", LEASE / 2));
    let group = Group::start(specs.collect());
    open(&group.replicas).await;
    let sidecars: Vec<SocketAddr> = group.replicas.iter().map(|replica| replica.api).collect();
    let scripts = Scripts::load(redis).await.expect("Redis takes the scripts");
    let mut takers = vec![("raw scripts", Taker::Raw(scripts)), ("Baton", Taker::Baton(sidecars))];
    for name in PART.peers {
        let Some(peer) = findings.peer(bench.peer(name)) else { continue };
        match lockers(peer, redis).await {
            Ok(lockers) => takers.push((peer.name, Taker::Peer(lockers))),
            Err(why) => findings.missing.push(Missing { peer: peer.name, why }),
        }
    }
    for connections in CONNECTIONS {
        let figures = take_turns(bench, &mut takers, &mut findings, Scene::Alone(connections)).await;
        tell_uncontended(connections, &figures, &mut findings);
    }
    for rest in [REST, Duration::ZERO] {
        let figures = take_turns(bench, &mut takers, &mut findings, Scene::Crowd(rest)).await;
        tell_contended(rest, &figures, &mut findings);
    }
    findings
}

/// Waits until every sidecar gives locks.
pub(super) async fn open(replicas: &[Replica]) {
    let begun = Instant::now();
    for replica in replicas {
        let mut client = replica.client().await;
        loop {
            let (status, _, body) = client.send("POST", "/locks/open", "{\"wait\":\"1s\"}").await.expect("an answer");
            if status == 201 {
                let grant: Value = serde_json::from_str(&body).expect("JSON");
                let path = format!("/locks/open/{}", grant["lock"].as_str().unwrap_or_default());
                client.send("DELETE", &path, "").await.expect("an answer");
                break;
            }
            assert!(begun.elapsed() < OPEN_MAX, "no lock within {OPEN_MAX:?}: {body}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

async fn lockers(peer: &Peer, redis: SocketAddr) -> Result<Vec<Locker>, String> {
    let address = redis.to_string();
    join_all((0..PROCESSES).map(|_| Locker::start(peer, &address))).await.into_iter().collect()
}

/// Everybody, some rounds.
async fn take_turns(
    bench: &Bench,
    takers: &mut Vec<(&'static str, Taker)>,
    findings: &mut Findings,
    scene: Scene,
) -> Vec<Figures> {
    let alone = matches!(scene, Scene::Alone(_));
    let span = bench.span(if alone { UNCONTENDED } else { CONTENDED });
    let mut all: Vec<Figures> = Vec::new();
    for round in (0..bench.times(ROUNDS)).take_while(|round| bench.has_time(*round)) {
        let mut broken = Vec::new();
        for (name, taker) in takers.iter_mut() {
            for kind in taker.kinds(name, scene) {
                let label = if kind == Kind::Fair { format!("{name}, fair") } else { (*name).to_owned() };
                // A lock of each run's own: nothing of an earlier one is in its way.
                let lock = format!("{}-{kind:?}-{}-{round}", name.replace(' ', "-"), all.len());
                let before = Counts::of(&bench.redis);
                match taker.run(kind, scene, span, &lock).await {
                    Ok(outcome) => note(&mut all, label, span, outcome, Counts::of(&bench.redis).since(&before)),
                    Err(why) => broken.push((*name, why)),
                }
            }
        }
        for (name, why) in broken {
            takers.retain(|(taker, _)| *taker != name);
            findings.missing.push(Missing { peer: name, why });
        }
    }
    all
}

/// What Redis has counted.
struct Counts {
    reads: f64,
    scripts: f64,
}

impl Counts {
    fn of(redis: &RedisServer) -> Self {
        let stats = redis.command(&["INFO", "stats"]).text();
        let reads = stats.lines().find_map(|line| line.strip_prefix("total_reads_processed:")?.trim().parse().ok());
        let calls = calls(redis);
        let scripts = ["eval", "evalsha"].iter().filter_map(|name| calls.get(*name)).sum();
        Self { reads: reads.expect("Redis counts what it reads"), scripts }
    }

    fn since(self, before: &Self) -> Self {
        Self { reads: self.reads - before.reads, scripts: self.scripts - before.scripts }
    }
}

fn note(all: &mut Vec<Figures>, name: String, span: Duration, outcome: Outcome, counts: Counts) {
    let cycles: f64 = outcome.cycles.iter().sum();
    let mean = cycles / outcome.cycles.len() as f64;
    let fewest = outcome.cycles.iter().copied().fold(f64::INFINITY, f64::min) / mean.max(f64::MIN_POSITIVE);
    let at = all.iter().position(|figures| figures.name == name).unwrap_or_else(|| {
        all.push(Figures { name, ..Figures::default() });
        all.len() - 1
    });
    all[at].cycles_per_s.push(cycles / span.as_secs_f64());
    all[at].fewest.push(fewest);
    all[at].longest_ms = all[at].longest_ms.max(outcome.longest_ms);
    all[at].reads += counts.reads;
    all[at].scripts += counts.scripts;
    all[at].cycles += cycles;
}

impl Taker {
    fn kinds(&self, name: &str, scene: Scene) -> Vec<Kind> {
        match self {
            _ if matches!(scene, Scene::Alone(_)) => vec![Kind::Own],
            // Scripts alone wait for nobody.
            Self::Raw(_) => vec![],
            Self::Baton(_) => vec![Kind::Shared, Kind::Fair],
            Self::Peer(_) if name == "redisson" => vec![Kind::Shared, Kind::Fair],
            Self::Peer(_) => vec![Kind::Shared],
        }
    }

    async fn run(&mut self, kind: Kind, scene: Scene, span: Duration, name: &str) -> Result<Outcome, String> {
        let (processes, contenders) = scene.size();
        let rest = if let Scene::Crowd(rest) = scene { rest } else { Duration::ZERO };
        let (run, end) = (Run { kind, contenders, span, rest }, Instant::now() + span);
        let outcomes = match self {
            Self::Raw(scripts) => join_all((0..contenders).map(|n| scripts.contend(format!("{name}-{n}"), end))).await,
            Self::Baton(sidecars) => {
                let contend = |n: usize| {
                    let name = if kind == Kind::Own { format!("{name}-{n}") } else { name.to_owned() };
                    contend(sidecars[n % processes], name, run, end)
                };
                join_all((0..processes * contenders).map(contend)).await
            }
            Self::Peer(lockers) => {
                join_all(lockers.iter_mut().take(processes).map(|locker| locker.run(&run, name))).await
            }
        };
        outcomes.into_iter().try_fold(Outcome::default(), |all, one| Ok(all.and(one?)))
    }
}

/// One contender, through a sidecar.
pub(super) async fn contend(sidecar: SocketAddr, name: String, run: Run, end: Instant) -> Result<Outcome, String> {
    let failed = |error: std::io::Error| format!("{sidecar}: {error}");
    let mut http = Http::connect(sidecar).await.map_err(failed)?;
    let fair = run.kind == Kind::Fair;
    let (path, body) = (format!("/locks/{name}"), format!("{{\"wait\":\"60s\",\"fair\":{fair}}}"));
    let (mut cycles, mut longest) = (0.0, Duration::ZERO);
    loop {
        let asked = Instant::now();
        if asked >= end {
            return Ok(Outcome { cycles: vec![cycles], longest_ms: longest.as_secs_f64() * 1_000.0 });
        }
        let (status, grant) = http.send("POST", &path, &body).await.map_err(failed)?;
        let got = Instant::now();
        let id = grant.split("\"lock\":\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default();
        if status != 201 {
            return Err(format!("{path}: {status} {grant}"));
        }
        let lock = format!("{path}/{id}");
        let (status, text) = http.send("DELETE", &lock, "").await.map_err(failed)?;
        if status != 204 {
            return Err(format!("{lock}: {status} {text}"));
        }
        cycles += f64::from(u8::from(got < end));
        longest = longest.max(got - asked);
        if !run.rest.is_zero() {
            tokio::time::sleep(run.rest).await;
        }
    }
}

/// The two scripts, as Redis knows them.
struct Scripts {
    redis: SocketAddr,
    acquire: String,
    release: String,
}

impl Scripts {
    async fn load(redis: SocketAddr) -> Result<Self, std::io::Error> {
        let mut connection = Redis::connect(redis).await?;
        let mut load = async |short: &str, part: &str| {
            let generation = include_str!("../../../src/store/redis/scripts/generation.lua");
            let head = include_str!("../../../src/store/redis/scripts/lock_head.lua");
            let common = include_str!("../../../src/store/redis/scripts/lock_common.lua");
            let text = format!("{generation}\n{head}\n{short}\n{common}\n{part}\n");
            let reply = connection.command(&["SCRIPT", "LOAD", &text]).await?;
            let text = String::from_utf8_lossy(reply);
            Ok::<_, std::io::Error>(text.lines().nth(1).unwrap_or_default().to_owned())
        };
        Ok(Self {
            redis,
            acquire: load(
                include_str!("../../../src/store/redis/scripts/lock_free.lua"),
                include_str!("../../../src/store/redis/scripts/lock_acquire.lua"),
            )
            .await?,
            release: load(
                include_str!("../../../src/store/redis/scripts/lock_only.lua"),
                include_str!("../../../src/store/redis/scripts/lock_release.lua"),
            )
            .await?,
        })
    }

    async fn contend(&self, name: String, end: Instant) -> Result<Outcome, String> {
        let failed = |error: std::io::Error| format!("the scripts: {error}");
        let mut redis = Redis::connect(self.redis).await.map_err(failed)?;
        let mut dice = fastrand::Rng::with_seed(name.len() as u64);
        let (session, own_keys) = (format!("{:032x}", dice.u128(..)), ["lock", "queue", "fair"]);
        let own_keys = own_keys.map(|what| format!("bench:{{locks}}:{what}:{name}"));
        let keys = ["bench:{locks}:store", "bench:{locks}:sessions", "bench:{locks}:floor"];
        let keys = [&["6"], &keys[..], &[&own_keys[0], &own_keys[1], &own_keys[2]]].concat();
        let lease_us = LEASE.as_micros().to_string();
        let (mut cycles, mut longest) = (0.0, Duration::ZERO);
        loop {
            let asked = Instant::now();
            if asked >= end {
                return Ok(Outcome { cycles: vec![cycles], longest_ms: longest.as_secs_f64() * 1_000.0 });
            }
            // 2^53 is far: the moment until which it may be executed.
            let head = ["9000000000000000", "bench:{locks}:wake:", &name];
            let id = format!("{:032x}", dice.u128(..));
            let owner = format!("{:032x}", dice.u128(..));
            // As long as the default guard.
            let who = [&session, &id, &owner, "bench-0"];
            let args = [&lease_us, "1", "0", "plain", &lease_us, "0", "", "0", "1", "0", "0"];
            let words = [&["EVALSHA", &self.acquire], &keys[..], &head, &who, &args].concat();
            let reply = redis.command(&words).await.map_err(failed)?;
            if !reply.windows(7).any(|part| part == b"granted") {
                return Err(format!("acquire answers {:?}", String::from_utf8_lossy(reply)));
            }
            let got = Instant::now();
            let words = [&["EVALSHA", &self.release], &keys[..], &head, &[&id, &session, "", ""]].concat();
            let reply = redis.command(&words).await.map_err(failed)?;
            if !reply.windows(8).any(|part| part == b"released") {
                return Err(format!("release answers {:?}", String::from_utf8_lossy(reply)));
            }
            cycles += f64::from(u8::from(got < end));
            longest = longest.max(got - asked);
        }
    }
}

fn tell_uncontended(connections: usize, all: &[Figures], findings: &mut Findings) {
    let by = if connections == 1 { "1 connection".to_owned() } else { format!("{connections} connections") };
    let of = |name: &str| all.iter().find(|figures| figures.name == name).map(|figures| &figures.cycles_per_s);
    if let (Some(baton), Some(raw)) = (of("Baton"), of("raw scripts")) {
        let ratio = median(&baton.iter().zip(raw).map(|(baton, raw)| baton / raw).collect::<Vec<_>>());
        let row = Row::new(format!("uncontended, {by}: Baton over the raw scripts"), ratio, "");
        findings.rows.push(if connections == 1 { row } else { row.at_least(0.5).because(WHY_SLOW) });
    }
    if let (Some(raw), Some(redsync)) = (of("raw scripts"), of("redsync")) {
        let ratio = median(&raw.iter().zip(redsync).map(|(raw, redsync)| raw / redsync).collect::<Vec<_>>());
        let row = Row::new(format!("uncontended, {by}: the raw scripts over redsync"), ratio, "");
        findings.rows.push(if connections == 1 { row } else { row.at_least(0.6).because(WHY_REDSYNC) });
    }
    for figures in all {
        let row = Row::new(format!("uncontended, {by}: {}", figures.name), median(&figures.cycles_per_s), "cycles/s");
        findings.rows.push(row);
    }
    findings.plots.push(Plot {
        name: if connections == 1 { "uncontended-1" } else { "uncontended-64" },
        title: format!("Locks taken and given back, uncontended, {by}"),
        x: Axis::linear("cycles per second"),
        kind: plot::Kind::Bars(bars(all)),
    });
}

const WHY_REDSYNC: &str = "\
redsync asks for SET NX PX and a compare-and-delete; each script here also asks for the record of the server, gives a \
token that rises, and looks for who waits";
const WHY_SLOW: &str =
    "Redis, the sidecar and the clients share the machine's processors, and the raw scripts have no sidecar";

fn bars(all: &[Figures]) -> Vec<(String, f64)> {
    all.iter().map(|figures| (figures.name.clone(), median(&figures.cycles_per_s))).collect()
}

fn tell_contended(rest: Duration, all: &[Figures], findings: &mut Findings) {
    let Some(baton) = all.iter().find(|figures| figures.name == "Baton") else { return };
    let by = if rest.is_zero() { "100 who never rest".to_owned() } else { format!("100 who rest for {rest:?}") };
    for figures in all {
        let who = format!("{by}, {}", figures.name);
        // A turn within a sidecar is for those who never rest.
        let has_goal = rest.is_zero() && figures.name == "Baton";
        let together = Row::new(format!("{who}: all together"), median(&figures.cycles_per_s), "cycles/s");
        findings.rows.push(if has_goal { together.at_least(7_000.0).because(WHY_TURNS) } else { together });
        if !figures.name.starts_with("Baton") {
            let pairs = baton.cycles_per_s.iter().zip(&figures.cycles_per_s);
            // Nobody who gets nothing done is infinitely slow.
            let ratio = median(&pairs.map(|(ours, theirs)| ours / theirs.max(0.1)).collect::<Vec<_>>());
            let row = Row::new(format!("{by}: Baton over {}", figures.name), ratio, "");
            // Who never rests is nobody's app: told, and no goal.
            let has_goal = !rest.is_zero() && ["redisson", "redis-py", "redsync"].contains(&figures.name.as_str());
            findings.rows.push(if has_goal { row.at_least(2.0).because(WHY_CONTENDED) } else { row });
        }
        let fewest = Row::new(format!("{who}: fewest cycles over the mean"), median(&figures.fewest), "");
        findings.rows.push(if has_goal { fewest.at_least(0.95) } else { fewest });
        findings.rows.push(Row::new(format!("{who}: longest wait"), figures.longest_ms, "ms"));
        let each = |count: f64| count / figures.cycles.max(1.0);
        findings.rows.push(Row::new(format!("{who}: Redis reads per cycle"), each(figures.reads), ""));
        let scripts = Row::new(format!("{who}: scripts per cycle"), each(figures.scripts), "");
        findings.rows.push(if has_goal { scripts.at_most(0.1) } else { scripts });
    }
    findings.plots.push(Plot {
        name: if rest.is_zero() { "contended" } else { "contended-rest" },
        title: format!("One lock, {by}, in four processes"),
        x: Axis::linear("cycles per second, all together"),
        kind: plot::Kind::Bars(bars(all)),
    });
}

const WHY_CONTENDED: &str = "\
who does not queue takes the lock again before anybody else looks: two exchanges with Redis, and none with anybody who \
waits, who starve: see their fewest cycles and longest wait. With Baton it goes to the next one, with a token, through \
two exchanges over HTTP";
const WHY_TURNS: &str = "\
each cycle is two exchanges over HTTP, and four sidecars and a hundred clients share the machine's processors";
