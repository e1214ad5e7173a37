//! SIGKILL of the leader until the next leader's first `leader: true`, less what was left of the lease.
//!
//! What was left is asked of Redis (PTTL) right after the kill, when nobody can renew any more. Several groups of three
//! replicas, each with a role of its own, are measured at once: a group that waits for a lease to end costs nothing.

use std::time::{Duration, Instant};

use futures_util::future::join_all;

use crate::replica::{Group, ROLE};
use crate::report::Row;
use crate::stats::percentile;
use crate::support::redis::RedisServer;
use crate::support::resp::{Connection, Reply};

/// One lease and how often its holder is killed.
struct Series {
    name: &'static str,
    lease: Duration,
    groups: usize,
    kills_per_group: usize,
}

const SERIES: [Series; 2] = [
    Series { name: "1 s", lease: Duration::from_secs(1), groups: 4, kills_per_group: 12 },
    Series { name: "15 s (the default)", lease: Duration::from_secs(15), groups: 12, kills_per_group: 1 },
];

pub async fn measure(redis: &RedisServer) -> Vec<Row> {
    let mut rows = Vec::new();
    for series in SERIES {
        let groups = (0..series.groups).map(|group| kill_again_and_again(redis, &series, group));
        let beyond_ms: Vec<f64> = join_all(groups).await.concat();
        let (name, kills) = (series.name, beyond_ms.len());
        let row = |which: String, p| {
            let measure = format!("lease {name}: SIGKILL to the next leader's answer, beyond the lease, {which}");
            Row::new(measure, percentile(&beyond_ms, p), "ms")
        };
        rows.push(row(format!("p50 of {kills}"), 0.5));
        rows.push(row("p99".to_owned(), 0.99).at_most(50.0));
    }
    rows
}

async fn kill_again_and_again(redis: &RedisServer, series: &Series, number: usize) -> Vec<f64> {
    let prefix = format!("crash{}-{number}", series.lease.as_secs());
    let mut group = Group::trio(&redis.url(), &prefix, series.lease, None);
    let mut connection = redis.connect().expect("Redis answers");
    // Another moment of the renewal period for each kill; the same ones in each run.
    let mut dice = fastrand::Rng::with_seed(number as u64);
    let mut beyond_ms = Vec::new();
    for _ in 0..series.kills_per_group {
        let leader = group.settled().await;
        tokio::time::sleep((series.lease / 3).mul_f64(dice.f64())).await;
        let watch = group.watch_others(leader).await;
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
