//! What replicas cost Redis while nothing happens: commands and bytes, counted by Redis itself (INFO commandstats,
//! stats).
//!
//! With a short lease three groups, each on a Redis of its own: a leader alone; a leader with standbys that hear its
//! heartbeats; a leader with standbys that Redis does not let listen (an ACL user without any channel). How many of the
//! scripts were the leader's renewals, it tells itself in its metrics.
//!
//! With the default lease ten replicas, of one role and of many, beside ten of client-go's, whose API server counts.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hyper::Request;
use kube::config::Kubeconfig;
use testkit::apiserver::{self, server::ApiServer};
use testkit::peers::Missing;
use testkit::redis::RedisServer;

use crate::part::{Bench, Findings, Part};
use crate::peers::elector::{Contest, Electorate};
use crate::replica::{Group, Replica, Spec};
use crate::report::Row;

pub const PART: Part = Part {
    name: "rest",
    title: "At rest on Redis",
    about: "\
What Redis is asked while nothing happens, by its own count (`INFO commandstats`, and `stats` for the bytes). A leader
runs one script each renewal period, which tells the others, and these run none. The other commands are PINGs, which
notice a connection that is dead though nobody says so: of subscriptions on which nothing was heard for a while. The
first rows are with a lease of 2 s; the others with the usual timings on both sides, 15 s renewed every 5 s here, and
15 s, 10 s and 2 s with client-go, whose requests about Leases its API server counts (`apiserver_request_total`),
without those that it makes by itself. What keeps client-go's connection alive is not counted there.",
    budget: Duration::from_secs(105),
    peers: &["client-go", "apiserver"],
    measure: |bench| Box::pin(measure(bench)),
};

const LEASE: Duration = Duration::from_secs(2);
const RENEWALS_PER_LEASE: f64 = 3.0;
const LEASES: u32 = 9;
const STANDBYS: usize = 4;

const DEAF_PASSWORD: &str = "only-for-this-measurement";

/// With the default lease, beside client-go with its own.
const USUAL_LEASE: Duration = Duration::from_secs(15);
const RENEW_PERIOD: Duration = Duration::from_secs(5);
const USUAL_SPAN: Duration = Duration::from_secs(30);
const REPLICAS: usize = 10;
const ROLES: usize = 20;
/// How long the API server is looked at without candidates: it renews a Lease of its own every ten seconds.
const OWN_SPAN: Duration = Duration::from_secs(20);

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

    /// What has happened until now, told between two renewals.
    async fn counts(&self) -> Counts {
        loop {
            let before = self.renewals().await;
            let stats = self.redis.command(&["INFO", "commandstats"]).text();
            if (self.renewals().await - before).abs() < 0.5 {
                let (scripts, others) = scripts_and_others(&stats);
                return Counts { scripts, renewals: before, others };
            }
        }
    }

    async fn renewals(&self) -> f64 {
        self.leader.metric("baton_renewals_total", "").await
    }
}

/// The scripts in an `INFO commandstats`, and the other commands of clients.
fn scripts_and_others(commandstats: &str) -> (f64, f64) {
    // What scripts do themselves, and what this measurement asks.
    let inside = ["info", "time", "hgetall", "hget", "hmget", "hset", "exists", "pttl", "pexpire", "publish", "type"];
    let (mut scripts, mut others) = (0.0, 0.0);
    for (name, calls) in parsed(commandstats) {
        if name.starts_with("eval") {
            scripts += calls;
        } else if !inside.contains(&name.as_str()) {
            others += calls;
        }
    }
    (scripts, others)
}

/// The calls of each command until now, those that scripts make included.
pub(super) fn calls(redis: &RedisServer) -> BTreeMap<String, f64> {
    parsed(&redis.command(&["INFO", "commandstats"]).text())
}

fn parsed(commandstats: &str) -> BTreeMap<String, f64> {
    let line = |line: &str| {
        let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        Some((name.to_owned(), rest.split(',').next()?.parse().ok()?))
    };
    commandstats.lines().filter_map(line).collect()
}

/// Replicas with the default lease, each with all of some roles.
struct Installation {
    redis: RedisServer,
    replicas: Vec<Replica>,
}

/// What happened on the Redis of an installation until now.
struct Traffic {
    scripts: f64,
    others: f64,
    input: f64,
    output: f64,
    /// What the answers that told so take of the output that is told next.
    answers: f64,
}

impl Installation {
    /// Waits until every role has a leader.
    async fn start(roles: usize) -> Self {
        let redis = RedisServer::start();
        let spec = |n| Spec { roles, ..Spec::redis(&format!("replica-{n}"), &redis.url(), "rest", USUAL_LEASE) };
        let replicas: Vec<Replica> = (0..REPLICAS).map(|n| Replica::start(&spec(n))).collect();
        let begun = Instant::now();
        while leaders(&replicas).await < roles as f64 {
            assert!(begun.elapsed() < USUAL_LEASE * 4, "not every role has a leader: {}", replicas[0].log());
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        Self { redis, replicas }
    }

    fn traffic(&self) -> Traffic {
        // In this order, so that of two looks only the answers to the first one are counted in between.
        let stats = self.redis.command(&["INFO", "stats"]).text();
        let commandstats = self.redis.command(&["INFO", "commandstats"]).text();
        let (scripts, others) = scripts_and_others(&commandstats);
        let number = |name: &str| {
            let value = stats.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            value.and_then(|value| value.trim().parse().ok()).unwrap_or_else(|| panic!("no {name} in {stats}"))
        };
        let (input, output) = (number("total_net_input_bytes"), number("total_net_output_bytes"));
        Traffic { scripts, others, input, output, answers: (stats.len() + commandstats.len()) as f64 }
    }
}

async fn leaders(replicas: &[Replica]) -> f64 {
    let mut leaders = 0.0;
    for replica in replicas {
        leaders += replica.metric("baton_leader", "").await;
    }
    leaders
}

/// What an installation does each second at rest.
struct Rate {
    scripts: f64,
    others: f64,
    input: f64,
    output: f64,
}

/// Over a while. Returns what happened each second.
async fn rate(installation: &Installation, span: Duration) -> Rate {
    let (led, begun, before) = (leaders(&installation.replicas).await, Instant::now(), installation.traffic());
    tokio::time::sleep(span).await;
    let (took_s, after) = (begun.elapsed().as_secs_f64(), installation.traffic());
    assert!((leaders(&installation.replicas).await - led).abs() < 0.5, "no handover");
    let per_s = |before: f64, after: f64| (after - before) / took_s;
    Rate {
        scripts: per_s(before.scripts, after.scripts),
        others: per_s(before.others, after.others),
        input: per_s(before.input, after.input),
        output: per_s(before.output + before.answers, after.output),
    }
}

/// The API server, and client-go's candidates for one lead.
struct Kubernetes {
    /// Dropped before the server goes.
    _candidates: Electorate,
    client: kube::Client,
    /// Requests about Leases each second that the server makes by itself.
    own_per_s: f64,
    _server: ApiServer,
}

impl Kubernetes {
    async fn start(bench: &Bench, findings: &mut Findings) -> Option<Self> {
        let peer = findings.peer(bench.peer("client-go"))?.clone();
        findings.peer(bench.peer("apiserver"))?;
        let server = ApiServer::start();
        let kubeconfig = Kubeconfig::read_from(server.kubeconfig()).expect("the server writes a kubeconfig");
        let client = apiserver::client(kubeconfig).await;
        let own_per_s = per_s(&client, bench.span(OWN_SPAN)).await;
        let address = server.kubeconfig().display().to_string();
        let contest = Contest { peer, address, name: "rest".to_owned(), lease: USUAL_LEASE };
        match Electorate::start_many(contest, REPLICAS).await {
            Ok(candidates) => Some(Self { _candidates: candidates, client, own_per_s, _server: server }),
            Err(why) => {
                findings.missing.push(Missing { peer: "client-go", why });
                None
            }
        }
    }
}

/// Requests about Leases each second, over a while.
async fn per_s(client: &kube::Client, span: Duration) -> f64 {
    let (begun, before) = (Instant::now(), lease_requests(client).await);
    tokio::time::sleep(span).await;
    (lease_requests(client).await - before) / begun.elapsed().as_secs_f64()
}

/// Requests about Leases so far, as the API server counts them.
async fn lease_requests(client: &kube::Client) -> f64 {
    let request = Request::get("/metrics").body(Vec::new()).expect("a good request");
    let text = client.request_text(request).await.expect("the API server answers its administrator");
    let counted = |line: &&str| line.starts_with("apiserver_request_total{") && line.contains("resource=\"leases\"");
    text.lines().filter(counted).filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

async fn measure(bench: &Bench) -> Findings {
    let mut findings = Findings::default();
    let (short, usual) = tokio::join!(with_a_short_lease(), with_usual_timings(bench, &mut findings));
    findings.rows = short;
    findings.rows.extend(usual);
    findings
}

async fn with_a_short_lease() -> Vec<Row> {
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
    vec![
        // One renewal may fall on either side of the window's ends.
        Row::new(format!("leader: scripts in {periods} renewal periods"), spent(0, |c| c.scripts), "")
            .at_most(periods + 1.0),
        Row::new("leader: other commands per lease", spent(0, |c| c.others) / leases, ""),
        // It asks once in ten leases whatever it hears (R8).
        Row::new(format!("standby that hears heartbeats: scripts per lease ({of})"), standby(1), "")
            .at_most(1.0 / leases),
        Row::new(format!("standby that hears nothing: scripts per lease ({of})"), standby(2), "").at_most(1.3),
    ]
}

async fn with_usual_timings(bench: &Bench, findings: &mut Findings) -> Vec<Row> {
    let (one, many, kubernetes) =
        tokio::join!(Installation::start(1), Installation::start(ROLES), Kubernetes::start(bench, findings));
    // What a start brings with it is over after a lease.
    tokio::time::sleep(USUAL_LEASE).await;
    let span = bench.span(USUAL_SPAN);
    let theirs = async {
        match &kubernetes {
            Some(kubernetes) => Some(per_s(&kubernetes.client, span).await - kubernetes.own_per_s),
            None => None,
        }
    };
    let (of_one, of_many, theirs) = tokio::join!(rate(&one, span), rate(&many, span), theirs);
    let mut rows: Vec<Row> =
        [(1, &of_one), (ROLES, &of_many)].into_iter().flat_map(|(roles, rate)| each(roles, rate, span)).collect();
    if let Some(theirs) = theirs {
        rows.push(Row::new(format!("{REPLICAS} of client-go, one lead: requests"), theirs, "/s"));
        let ours = of_one.scripts + of_one.others;
        let measure = format!("{REPLICAS} replicas, one role: all of Baton's commands over client-go's requests");
        rows.push(Row::new(measure, ours / theirs, "").at_most(0.1));
    }
    rows
}

fn each(roles: usize, rate: &Rate, span: Duration) -> Vec<Row> {
    let of = format!("{REPLICAS} replicas, {roles} {}", if roles == 1 { "role" } else { "roles" });
    // One renewal of each role may fall on either side of the window's ends.
    let most = roles as f64 * (1.0 / RENEW_PERIOD.as_secs_f64() + 1.0 / span.as_secs_f64());
    vec![
        Row::new(format!("{of}: scripts"), rate.scripts, "/s").at_most(most),
        Row::new(format!("{of}: other commands"), rate.others, "/s"),
        Row::new(format!("{of}: to Redis"), rate.input, "B/s"),
        Row::new(format!("{of}: from Redis"), rate.output, "B/s"),
    ]
}
