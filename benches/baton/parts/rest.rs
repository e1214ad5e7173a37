//! What replicas cost Redis while nothing happens: scripts, counted by Redis itself (INFO commandstats).
//!
//! Three groups, each on a Redis of its own: a leader alone; a leader with standbys that hear its heartbeats; a leader
//! with standbys that Redis does not let listen (an ACL user without any channel). How many of the scripts were the
//! leader's renewals, it tells itself in its metrics.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::part::{Bench, Findings, Part};
use crate::replica::{Group, Replica, Spec};
use crate::report::Row;
use crate::support::redis::RedisServer;

pub const PART: Part = Part {
    name: "rest",
    title: "At rest on Redis",
    about: "\
Scripts while nothing happens, counted by Redis (`INFO commandstats`). The other commands of a leader are PINGs, which
notice dead connections.",
    budget: Duration::from_secs(75),
    peers: &[],
    measure: |bench| Box::pin(measure(bench)),
};

const LEASE: Duration = Duration::from_secs(2);
const RENEWALS_PER_LEASE: f64 = 3.0;
const LEASES: u32 = 9;
const STANDBYS: usize = 4;

const DEAF_PASSWORD: &str = "only-for-this-measurement";

/// One Redis and who works on it.
struct Scene {
    redis: RedisServer,
    leader: Replica,
    standbys: Vec<Replica>,
}

/// What happened on one Redis.
struct Counts {
    scripts: f64,
    renewals: f64,
    others: f64,
}

impl Scene {
    /// The leader first: which replica leads is no matter of chance here.
    async fn start(standbys: usize, deaf: bool) -> Self {
        let redis = RedisServer::start();
        let acl = ["ACL", "SETUSER", "deaf", "on", &format!(">{DEAF_PASSWORD}"), "~*", "resetchannels", "+@all"];
        redis.command(&acl);
        let url = redis.url();
        let standby_url = if deaf { url.replace("//", &format!("//deaf:{DEAF_PASSWORD}@")) } else { url.clone() };
        let mut group = Group::start(vec![Spec::redis("leader", &url, "rest", LEASE)]);
        group.settled().await;
        for n in 0..standbys {
            let spec = Spec::redis(&format!("standby-{n}"), &standby_url, "rest", LEASE);
            group.replicas.push(Replica::start(&spec));
            group.specs.push(spec);
        }
        group.settled().await;
        let standbys = group.replicas.split_off(1);
        let leader = group.replicas.remove(0);
        Self { redis, leader, standbys }
    }

    /// What has happened until now.
    async fn counts(&self) -> Counts {
        let calls = calls(&self.redis);
        let is_script = |name: &str| name.starts_with("eval");
        let inside =
            ["info", "time", "hgetall", "hget", "hmget", "hset", "exists", "pttl", "pexpire", "publish", "type"];
        let mut counts =
            Counts { scripts: 0.0, renewals: self.leader.metric("baton_renewals_total", "").await, others: 0.0 };
        for (name, calls) in calls {
            if is_script(&name) {
                counts.scripts += calls;
            } else if !inside.contains(&name.as_str()) {
                counts.others += calls;
            }
        }
        counts
    }
}

/// The calls of each command, those that scripts make included.
pub(super) fn calls(redis: &RedisServer) -> BTreeMap<String, f64> {
    let text = redis.command(&["INFO", "commandstats"]).text();
    let line = |line: &str| {
        let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        Some((name.to_owned(), rest.split(',').next()?.parse().ok()?))
    };
    text.lines().filter_map(line).collect()
}

async fn measure(_: &Bench) -> Findings {
    let (alone, hearing, deaf) =
        tokio::join!(Scene::start(0, false), Scene::start(STANDBYS, false), Scene::start(STANDBYS, true));
    // What a start brings with it is over after two leases.
    tokio::time::sleep(LEASE * 2).await;
    let before = [alone.counts().await, hearing.counts().await, deaf.counts().await];
    tokio::time::sleep(LEASE * LEASES).await;
    let after = [alone.counts().await, hearing.counts().await, deaf.counts().await];
    assert!(alone.standbys.is_empty() && hearing.leader.leads().await && deaf.leader.leads().await, "no handover");
    let spent = |n: usize, what: fn(&Counts) -> f64| what(&after[n]) - what(&before[n]);
    let leases = f64::from(LEASES);
    let standby = |n| (spent(n, |c| c.scripts) - spent(n, |c| c.renewals)) / STANDBYS as f64 / leases;
    let periods = leases * RENEWALS_PER_LEASE;
    let of = format!("{STANDBYS} replicas, {LEASES} leases");
    Findings::of(vec![
        // One renewal may fall on either side of the window's ends.
        Row::new(format!("leader: scripts in {periods} renewal periods"), spent(0, |c| c.scripts), "")
            .at_most(periods + 1.0),
        Row::new("leader: other commands per lease", spent(0, |c| c.others) / leases, ""),
        Row::new(format!("standby that hears heartbeats: scripts per lease ({of})"), standby(1), "").at_most(0.0),
        Row::new(format!("standby that hears nothing: scripts per lease ({of})"), standby(2), "").at_most(1.3),
    ])
}
