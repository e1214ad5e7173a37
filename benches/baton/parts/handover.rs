//! A resignation with no promise outstanding, until the next leader's app can read `leader: true`.
//!
//! The clock starts when the app's `POST …/resign` is about to be sent, and stops when the answer beside another
//! replica has been read: two HTTP exchanges are part of it. Answers are good for 20 ms here, and every promise has run
//! out before the next resignation. A peer's clock starts when its leader is about to be told to resign, and stops when
//! another's word that it leads has been read.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use testkit::apiserver::server::ApiServer;
use testkit::peers::Missing;

use crate::client::Way;
use crate::part::{Bench, Findings, Part};
use crate::peers::elector::{Contest, Electorate};
use crate::peers::server::Server;
use crate::plot::{Axis, Kind, Plot};
use crate::replica::{Group, ROLE};
use crate::report::Row;
use crate::stats::{distribution, median, percentile};

pub const PART: Part = Part {
    name: "handover",
    title: "Handing over",
    about: "\
From the moment before an app sends `POST /leader/{role}/resign` until the app beside another replica has read
`leader: true`: from a long poll, from the event stream, or by asking again a millisecond after each answer. No
promise is outstanding. Three candidates, each a process, here and with the peers, of whom the leader is told to give
up its lead, until another says that it leads. Redisson has no elections; its lock without a lease, which it renews by
itself, is what people use. client-go has its usual timings (15 s, 10 s, 2 s) and releases on exit
(`ReleaseOnCancel`); its candidates look every two seconds or so. Curator's is a `LeaderLatch`.

Where the processor time of a handover of Baton's goes, by `perf sched` (the middle half of 230, on a machine that was
busy with other things; 2.35 ms from end to end, in which several of these ran at once on two processors):

| who | time |
|---|---|
| the old leader, asked over HTTP | 0.72 ms |
| Redis: a release, two campaigns, and telling everybody of each | 0.57 ms |
| the new leader | 0.40 ms |
| the other candidate, which asks in vain | 0.37 ms |
| the apps and the clock, which are the benchmark | 0.33 ms |

In one of the middle, by system calls: 0.38 ms from the app's request to the release, 0.26 ms in Redis, 0.18 ms from
hearing of it to the campaign, 0.2 ms in Redis, 0.1 ms to the app; the rest was waiting for a processor. In each of the
slow ones that were traced one of these processes had waited 3.8 to 6.3 ms for a processor behind somebody else: the
kernel's tick is 4 ms here.",
    budget: Duration::from_secs(270),
    peers: &["redisson", "etcd", "curator", "client-go", "apiserver"],
    measure: |bench| Box::pin(measure(bench)),
};

/// All take turns this often.
const ROUNDS: usize = 10;
/// In each turn: by long polls, the same by each other way, and by each peer that is pushed.
const LONG_POLLS: usize = 100;
const OTHER_WAYS: usize = 25;
const PEERS: usize = 30;
/// The elections of client-go that are measured at once, for they do nothing but wait, and how often in each turn.
const SLOW_GROUPS: usize = 4;
const SLOW: usize = 2;
const LEASE: Duration = Duration::from_secs(3);
pub(super) const ANSWER_VALIDITY: Duration = Duration::from_millis(20);
/// How long the old leader stays out. Longer than any handover, and over before the next.
const COOLDOWN: Duration = Duration::from_millis(50);
const PAUSE: Duration = Duration::from_millis(10);
/// Handovers of a peer that do not count: a JVM compiles what runs often.
const WARM_UP: usize = 20;

const WAYS: [(Way, &str); 3] =
    [(Way::LongPoll, "Baton, long poll"), (Way::Events, "Baton, event stream"), (Way::Asking, "Baton, asking each ms")];

/// A peer's elections, and how long each handover took.
struct Rival {
    name: &'static str,
    electorates: Vec<Electorate>,
    /// In each turn and election.
    times: usize,
    took_ms: Vec<f64>,
}

/// The servers, which live as long as the peers.
#[derive(Default)]
struct Servers {
    own: Vec<Server>,
    kubernetes: Option<ApiServer>,
}

async fn measure(bench: &Bench) -> Findings {
    let mut findings = Findings::default();
    let group = Group::trio(&bench.redis.url(), "handover", LEASE, Some(ANSWER_VALIDITY));
    let mut servers = Servers::default();
    let mut rivals = rivals(bench, &mut findings, &mut servers).await;
    let mut ours = WAYS.map(|_| Vec::new());
    for _ in (0..bench.times(ROUNDS)).take_while(|round| bench.has_time(*round)) {
        for ((way, _), took_ms) in WAYS.into_iter().zip(&mut ours) {
            let times = if way == Way::LongPoll { LONG_POLLS } else { OTHER_WAYS };
            for _ in 0..bench.times(times) {
                took_ms.push(hand_over(&group, way, COOLDOWN).await.as_secs_f64() * 1_000.0);
            }
        }
        let mut going_on = Vec::new();
        for mut rival in rivals {
            match rival.turn(bench).await {
                Ok(()) => going_on.push(rival),
                Err(why) => findings.missing.push(Missing { peer: rival.name, why }),
            }
        }
        rivals = going_on;
    }
    findings.rows = rows(&ours, &rivals);
    findings.plots = vec![plot(&ours, &rivals)];
    findings
}

/// One handover, as an app beside the next leader sees it. The leader before stays out for `cooldown`.
async fn hand_over(group: &Group, way: Way, cooldown: Duration) -> Duration {
    let leader = group.settled().await;
    let mut client = group.replicas[leader].client().await;
    let mut watch = group.watch_others(leader, way).await;
    tokio::time::sleep(cooldown + PAUSE).await;
    let body = format!("{{\"cooldown\":\"{}ms\"}}", cooldown.as_millis());
    let resigned_at = Instant::now();
    let resigned = client.send("POST", &format!("/leader/{ROLE}/resign"), &body).await.map(|(status, ..)| status);
    assert_eq!(resigned, Ok(202), "the leader resigns when asked");
    // It may be the next again, if the others have got in each other's way for so long. Its app need not ask before.
    watch.also(leader, client, way, cooldown / 2);
    let (_, leads_at) = watch.next_leader().await;
    leads_at - resigned_at
}

async fn rivals(bench: &Bench, findings: &mut Findings, servers: &mut Servers) -> Vec<Rival> {
    let mut rivals = Vec::new();
    for (name, groups, times) in
        [("redisson", 1, PEERS), ("etcd", 1, PEERS), ("curator", 1, PEERS), ("client-go", SLOW_GROUPS, SLOW)]
    {
        let Some(peer) = findings.peer(bench.peer(name)) else { continue };
        let started = async {
            let address = servers.address(bench, findings, name)?;
            let contest = |group| Contest {
                peer: peer.clone(),
                address: address.clone(),
                name: format!("handover-{group}"),
                lease: LEASE,
            };
            let electorates = join_all((0..groups).map(|group| Electorate::start(contest(group)))).await;
            let electorates = electorates.into_iter().collect::<Result<Vec<_>, _>>()?;
            let mut rival = Rival { name: peer.name, electorates, times, took_ms: Vec::new() };
            if groups == 1 {
                for _ in 0..bench.times(WARM_UP) {
                    rival.electorates[0].hand_over().await?;
                }
            }
            Ok::<_, String>(rival)
        };
        match started.await {
            Ok(rival) => rivals.push(rival),
            Err(why) => findings.missing.push(Missing { peer: peer.name, why }),
        }
    }
    rivals
}

impl Servers {
    /// Where a peer finds its store; starts the store when it is not Redis.
    fn address(&mut self, bench: &Bench, findings: &mut Findings, peer: &str) -> Result<String, String> {
        match peer {
            "redisson" => Ok(format!("127.0.0.1:{}", bench.redis.port())),
            "client-go" => {
                findings.peer(bench.peer("apiserver")).ok_or("it has no API server")?;
                let server = self.kubernetes.insert(ApiServer::start());
                Ok(server.kubeconfig().display().to_string())
            }
            _ => {
                let server = Server::start(bench.peer(peer).as_ref().map_err(|missing| missing.why.clone())?)?;
                let address = server.address.to_string();
                self.own.push(server);
                Ok(address)
            }
        }
    }
}

impl Rival {
    async fn turn(&mut self, bench: &Bench) -> Result<(), String> {
        let times = bench.times(self.times);
        let one = async |electorate: &mut Electorate| {
            let mut took_ms = Vec::new();
            for _ in 0..times {
                tokio::time::sleep(COOLDOWN + PAUSE).await;
                took_ms.push(electorate.hand_over().await?.as_secs_f64() * 1_000.0);
            }
            Ok::<_, String>(took_ms)
        };
        for took_ms in join_all(self.electorates.iter_mut().map(one)).await {
            self.took_ms.extend(took_ms?);
        }
        Ok(())
    }
}

fn rows(ours: &[Vec<f64>; 3], rivals: &[Rival]) -> Vec<Row> {
    let mut rows = Vec::new();
    for ((way, name), took_ms) in WAYS.into_iter().zip(ours) {
        let p50 = Row::new(format!("{name}: p50 of {}", took_ms.len()), percentile(took_ms, 0.5), "ms");
        let p99 = Row::new(format!("{name}: p99"), percentile(took_ms, 0.99), "ms");
        rows.extend(match way {
            Way::LongPoll => [p50.at_most(1.4).because(WHY_SLOW), p99.at_most(4.0).because(WHY_SLOW)],
            Way::Events | Way::Asking => [p50, p99],
        });
        rows.push(Row::new(format!("{name}: longest"), percentile(took_ms, 1.0), "ms"));
    }
    let baton = median(&ours[0]);
    for Rival { name, took_ms, .. } in rivals {
        rows.push(Row::new(format!("{name}: p50 of {}", took_ms.len()), percentile(took_ms, 0.5), "ms"));
        rows.push(Row::new(format!("{name}: p99"), percentile(took_ms, 0.99), "ms"));
        let ratio = Row::new(format!("{name}'s median over Baton's"), median(took_ms) / baton, "");
        rows.push(match *name {
            "client-go" => ratio.at_least(300.0),
            "redisson" => ratio.at_least(1.0).because(WHY_SLOW),
            _ => ratio,
        });
    }
    rows
}

const WHY_SLOW: &str = "\
a millisecond is the exchanges, one after the other, and the slowest are those in which one of the processes waited \
for a processor for as long as a tick of the kernel's or more (profile above)";

fn plot(ours: &[Vec<f64>; 3], rivals: &[Rival]) -> Plot {
    let ours = WAYS.iter().zip(ours).map(|((_, name), took_ms)| ((*name).to_owned(), distribution(took_ms)));
    let theirs = rivals.iter().map(|rival| (rival.name.to_owned(), distribution(&rival.took_ms)));
    Plot {
        name: "times",
        title: "From the leader's resignation to the next leader's word".to_owned(),
        x: Axis::log("milliseconds"),
        kind: Kind::Lines { y: Axis::linear("share of the handovers"), lines: ours.chain(theirs).collect() },
    }
}
