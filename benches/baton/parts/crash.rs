//! SIGKILL of the leader until the next leader's first `leader: true`, less what was left of the lease.
//!
//! What was left is asked of Redis (PTTL) right after the kill, when nobody can renew any more. Several groups of three
//! replicas, each with a role of its own, are measured at once: a group that waits for a lease to end costs nothing.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use testkit::apiserver::server::ApiServer;
use testkit::peers::{Missing, Peer};
use testkit::resp::{Connection, Reply};

use crate::client::Way;
use crate::part::{Bench, Findings, Part};
use crate::peers::elector::{Contest, Crash, Electorate};
use crate::peers::server::Server;
use crate::plot::{Axis, Kind, Plot};
use crate::replica::{Group, ROLE};
use crate::report::Row;
use crate::stats::{distribution, percentile};

pub const PART: Part = Part {
    name: "crash",
    title: "After a crash",
    about: "\
From SIGKILL of the leader until a long poll beside another replica says `leader: true`, less what was left of the
lease at the kill by Redis' own count: what Baton adds to the lease. The candidates heard the leader's heartbeats
here; one that cannot listen adds up to 20 ms on purpose, so as not to look just before each renewal. The peers are
killed in the same way. Their stores tell what is left of a lease with less care: etcd in whole seconds, rounded down,
so that up to a second of its figure is the lease's; ZooKeeper not at all, so that its figure is all of the time.
Leases are 3 s, but client-go's, which has its usual timings.",
    budget: Duration::from_secs(250),
    peers: &["redisson", "etcd", "curator", "client-go", "apiserver"],
    measure: |bench| Box::pin(measure(bench)),
};

/// One lease and how often its holder is killed.
struct Series {
    name: &'static str,
    lease: Duration,
    groups: usize,
    kills_per_group: usize,
}

/// Three hundred in all.
const SERIES: [Series; 3] = [
    Series { name: "1 s", lease: Duration::from_secs(1), groups: 5, kills_per_group: 40 },
    Series { name: "5 s", lease: Duration::from_secs(5), groups: 10, kills_per_group: 8 },
    Series { name: "15 s (the default)", lease: Duration::from_secs(15), groups: 10, kills_per_group: 2 },
];

/// The peers, each with its number of elections at once.
const PEERS: [(&str, usize); 4] = [("redisson", 3), ("etcd", 4), ("curator", 3), ("client-go", 5)];
/// How often the leader of each election of a peer is killed.
const PEER_ROUNDS: usize = 4;
const PEER_LEASE: Duration = Duration::from_secs(3);
/// client-go's own; only what is left of it depends on it here.
const CLIENT_GO_LEASE: Duration = Duration::from_secs(15);

async fn measure(bench: &Bench) -> Findings {
    let mut findings = Findings::default();
    let mut rows = Vec::new();
    let mut lines = Vec::new();
    for series in SERIES {
        let groups = (0..series.groups).map(|group| kill_again_and_again(bench, &series, group));
        let beyond_ms = join_all(groups).await.concat();
        let name = format!("Baton, lease {}", series.name);
        rows.push(row(&name, &format!("p50 of {}", beyond_ms.len()), percentile(&beyond_ms, 0.5)));
        rows.push(row(&name, "p99", percentile(&beyond_ms, 0.99)).at_most(15.0).because(WHY_SLOW));
        rows.push(row(&name, "longest", percentile(&beyond_ms, 1.0)));
        lines.push((name, distribution(&beyond_ms)));
    }
    for (name, told, beyond_ms) in peers(bench, &mut findings).await {
        let name = if told { name.to_owned() } else { format!("{name}, all of the time") };
        rows.push(row(&name, &format!("p50 of {}", beyond_ms.len()), percentile(&beyond_ms, 0.5)));
        rows.push(row(&name, "longest", percentile(&beyond_ms, 1.0)));
        lines.push((name, distribution(&beyond_ms)));
    }
    findings.rows = rows;
    findings.plots = vec![Plot {
        name: "beyond",
        title: "From the leader's end to the next leader, beyond the lease".to_owned(),
        x: Axis::log("milliseconds"),
        kind: Kind::Lines { y: Axis::linear("share of the crashes"), lines },
    }];
    findings
}

const WHY_SLOW: &str = "some thirty sidecars and their clients share the machine's processors";

fn row(who: &str, which: &str, ms: f64) -> Row {
    Row::new(format!("{who}: SIGKILL to the next leader, beyond the lease, {which}"), ms, "ms")
}

async fn kill_again_and_again(bench: &Bench, series: &Series, number: usize) -> Vec<f64> {
    let redis = &bench.redis;
    let prefix = format!("crash{}-{number}", series.lease.as_secs());
    let mut group = Group::trio(&redis.url(), &prefix, series.lease, None);
    let mut connection = redis.connect().expect("Redis answers");
    // Another moment of the renewal period for each kill; the same ones in each run.
    let mut dice = fastrand::Rng::with_seed(number as u64);
    let mut beyond_ms = Vec::new();
    for _ in (0..bench.times(series.kills_per_group)).take_while(|round| bench.has_time(*round)) {
        let leader = group.settled().await;
        tokio::time::sleep((series.lease / 3).mul_f64(dice.f64())).await;
        let watch = group.watch_others(leader, Way::LongPoll).await;
        let (killed_at, left) = kill(&mut group, leader, &mut connection, &prefix);
        let (_, leads_at) = watch.next_leader().await;
        let took = leads_at - killed_at;
        beyond_ms.push((took.as_secs_f64() - left.as_secs_f64()) * 1_000.0);
        group.restart(leader);
    }
    beyond_ms
}

/// Kills the leader. Returns a moment and what was left of the lease then.
fn kill(group: &mut Group, leader: usize, connection: &mut Connection, prefix: &str) -> (Instant, Duration) {
    group.replicas[leader].kill();
    let killed_at = Instant::now();
    let key = format!("{prefix}:{{{ROLE}}}:lease");
    let left = connection.command(&["PTTL", &key]).map(Reply::number).expect("Redis answers");
    let left = u64::try_from(left).unwrap_or_else(|_| panic!("{key} has no time to live: {left}"));
    (killed_at, Duration::from_millis(left))
}

/// Each peer, whether its store tells what is left of a lease, and what came after it. One after the other, for a JVM
/// that starts takes processors from those that are measured; besides client-go, which mostly waits.
async fn peers(bench: &Bench, findings: &mut Findings) -> Vec<(&'static str, bool, Vec<f64>)> {
    let mut kubernetes = None;
    let (mut in_turn, mut besides) = (Vec::new(), Vec::new());
    for (name, groups) in PEERS {
        let Some(peer) = findings.peer(bench.peer(name)).cloned() else { continue };
        let address = match name {
            "redisson" => format!("127.0.0.1:{}", bench.redis.port()),
            "client-go" => {
                let Some(_) = findings.peer(bench.peer("apiserver")) else { continue };
                kubernetes.insert(ApiServer::start()).kubeconfig().display().to_string()
            }
            _ => String::new(),
        };
        let list = if name == "client-go" { &mut besides } else { &mut in_turn };
        list.push(async move {
            let crashes = crash_again_and_again(bench, &peer, address, groups).await;
            (peer.name, crashes)
        });
    }
    let one_by_one = async {
        let mut all = Vec::new();
        for peer in in_turn {
            all.push(peer.await);
        }
        all
    };
    let (in_turn, besides) = tokio::join!(one_by_one, join_all(besides));
    let mut figures = Vec::new();
    for (name, crashes) in in_turn.into_iter().chain(besides) {
        match crashes {
            Ok(crashes) => {
                let told = crashes.iter().all(|crash| crash.left.is_some());
                let beyond_ms = |crash: &Crash| {
                    let left = crash.left.filter(|_| told).unwrap_or_default();
                    (crash.took.as_secs_f64() - left.as_secs_f64()) * 1_000.0
                };
                figures.push((name, told, crashes.iter().map(beyond_ms).collect()));
            }
            Err(why) => findings.missing.push(Missing { peer: name, why }),
        }
    }
    figures
}

/// An address that is empty is that of a server of the peer's own.
async fn crash_again_and_again(
    bench: &Bench,
    peer: &Peer,
    address: String,
    groups: usize,
) -> Result<Vec<Crash>, String> {
    let server = if address.is_empty() { Some(Server::start(peer)?) } else { None };
    let address = server.as_ref().map_or(address, |server| server.address.to_string());
    let lease = if peer.name == "client-go" { CLIENT_GO_LEASE } else { PEER_LEASE };
    let contest =
        |group| Contest { peer: peer.clone(), address: address.clone(), name: format!("crash-{group}"), lease };
    let mut electorates = Vec::new();
    for group in 0..groups {
        electorates.push(Electorate::start(contest(group)).await?);
    }
    let mut dice = fastrand::Rng::with_seed(groups as u64);
    let mut crashes = Vec::new();
    for _ in (0..bench.times(PEER_ROUNDS)).take_while(|round| bench.has_time(*round)) {
        let moments: Vec<f64> = electorates.iter().map(|_| dice.f64()).collect();
        let killed = electorates.iter_mut().zip(moments).map(async |(electorate, moment)| {
            tokio::time::sleep((PEER_LEASE / 3).mul_f64(moment)).await;
            electorate.crash().await
        });
        for crash in join_all(killed).await {
            crashes.push(crash?);
        }
        // Only now: a JVM that starts takes processors from those that are measured.
        for electorate in &mut electorates {
            electorate.fill_up().await?;
        }
    }
    Ok(crashes)
}
