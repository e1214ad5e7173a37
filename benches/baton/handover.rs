//! A resignation with no promise outstanding, until the next leader's first `leader: true`.
//!
//! The clock starts when the app's `POST …/resign` is about to be sent, and stops when the answer to a long poll on
//! another replica has been read: two HTTP exchanges are part of it. Answers are good for 20 ms here, and every promise
//! has run out before the next resignation.

use std::time::{Duration, Instant};

use crate::replica::{Group, ROLE};
use crate::report::Row;
use crate::stats::percentile;
use crate::support::redis::RedisServer;

const HANDOVERS: usize = 320;
const LEASE: Duration = Duration::from_secs(3);
const ANSWER_VALIDITY: Duration = Duration::from_millis(20);
/// How long the old leader stays out. Longer than any handover, and over before the next.
const COOLDOWN: Duration = Duration::from_millis(50);
const PAUSE: Duration = Duration::from_millis(75);

pub async fn measure(redis: &RedisServer) -> Vec<Row> {
    let group = Group::trio(&redis.url(), "handover", LEASE, Some(ANSWER_VALIDITY));
    let mut took_ms = Vec::new();
    for _ in 0..HANDOVERS {
        took_ms.push(hand_over(&group).await.as_secs_f64() * 1_000.0);
    }
    let row =
        |name: &str, p| Row::new(format!("resign to the next leader's answer, {name}"), percentile(&took_ms, p), "ms");
    vec![row(&format!("p50 of {HANDOVERS}, 3 replicas"), 0.5), row("p99", 0.99).at_most(5.0), row("longest", 1.0)]
}

async fn hand_over(group: &Group) -> Duration {
    let leader = group.settled().await;
    let mut client = group.replicas[leader].client().await;
    let watch = group.watch_others(leader).await;
    tokio::time::sleep(PAUSE).await;
    let body = format!("{{\"cooldown\":\"{}ms\"}}", COOLDOWN.as_millis());
    let resigned_at = Instant::now();
    let resign = tokio::spawn(async move {
        let path = format!("/leader/{ROLE}/resign");
        client.send("POST", &path, &body).await.map(|(status, ..)| status)
    });
    let (_, leads_at) = watch.next_leader().await;
    assert_eq!(resign.await.expect("no panic"), Ok(202), "the leader resigns when asked");
    leads_at - resigned_at
}
