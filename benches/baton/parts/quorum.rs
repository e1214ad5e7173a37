//! Handovers on a quorum, many of each kind: with all members well, with one stopped, and with one that answers late.

use std::time::{Duration, Instant};

use testkit::proxy::Proxy;
use testkit::quorum::Members;

use crate::apps::{Apps, COOLDOWN};
use crate::part::{Bench, Findings, Part};
use crate::replica::{Group, Spec};
use crate::report::{Row, Table};
use crate::stats::percentile;

pub const PART: Part = Part {
    name: "quorum",
    title: "Handing over on a quorum",
    about: "\
From the moment before an app sends `POST /leader/{role}/resign` until the app beside another of three replicas has
read `leader: true` from a long poll, as above; no promise is outstanding. The replicas have a thousand roles with a
lease of 30 s, and each role is handed over once: its old leader is told to stay out for 30 s, so that its return is
not taken for a handover. Then the same with one member stopped (SIGSTOP: it keeps its connections and answers
nothing), and with one whose answers come 50 ms late. The members are servers on this machine, the last one behind a
proxy in the process of the benchmark. One Redis beside them, in the same way.",
    budget: Duration::from_secs(420),
    peers: &[],
    measure: |bench| Box::pin(measure(bench)),
};

/// As many as a sidecar takes.
const ROLES: usize = 1_000;
const LEASE: Duration = Duration::from_secs(30);
const LATE: Duration = Duration::from_millis(50);
const GOAL_MS: f64 = 8.0;
const WHY_SLOW: &str = "\
three sidecars, their servers and the apps share the machine's processors, and the thousand roles are renewed beside \
the handovers";

/// What is the matter with a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Member {
    Well,
    Stopped,
    Late,
}

impl Member {
    const ALL: [Self; 3] = [Self::Well, Self::Stopped, Self::Late];

    fn words(self) -> &'static str {
        match self {
            Self::Well => "",
            Self::Stopped => ", one stopped",
            Self::Late => ", one 50 ms late",
        }
    }
}

async fn measure(bench: &Bench) -> Findings {
    let roles = bench.times(ROLES);
    let mut all: Vec<(String, Vec<f64>)> = Vec::new();
    let single = Group::trio_with(roles, |n| Spec::redis(&format!("single-{n}"), &bench.redis.url(), "quorum", LEASE));
    all.push(("one Redis".to_owned(), hand_over_all(&single).await));
    drop(single);
    for count in [3, 5] {
        let members = Members::start(count);
        let (last, others) = members.servers.split_last().expect("there are some");
        let proxy = Proxy::start(last.port()).await;
        let mut urls: Vec<String> = others.iter().map(|server| server.url()).collect();
        urls.push(proxy.url());
        let list: Vec<String> = urls.iter().map(|url| format!("{{ url: \"{url}\" }}")).collect();
        let store = format!("{{ quorum: {{ members: [{}], keyPrefix: quorum }} }}", list.join(", "));
        let group = Group::trio_with(roles, |n| Spec {
            store: store.clone(),
            ..Spec::redis(&format!("quorum-{n}"), "", "", LEASE)
        });
        for member in Member::ALL {
            match member {
                Member::Well => {}
                Member::Stopped => last.pause(),
                Member::Late => {
                    last.resume();
                    proxy.answer_late(LATE);
                }
            }
            let begun = Instant::now();
            all.push((format!("{count} members{}", member.words()), hand_over_all(&group).await));
            // Until the old leaders of the first may lead again.
            tokio::time::sleep(COOLDOWN.saturating_sub(begun.elapsed()) + Duration::from_secs(1)).await;
        }
    }
    let rows = all.iter().filter(|(name, _)| name.contains("members")).map(|(name, took_ms)| {
        Row::new(format!("{name}: p99 of {} handovers", took_ms.len()), percentile(took_ms, 0.99), "ms")
            .at_most(GOAL_MS)
            .because(WHY_SLOW)
    });
    let line = |(name, took_ms): &(String, Vec<f64>)| {
        let shares = [0.5, 0.9, 0.99, 1.0].map(|share| format!("{:.2} ms", percentile(took_ms, share)));
        std::iter::once(name.clone()).chain(shares).collect()
    };
    let table = Table { columns: vec!["store", "p50", "p90", "p99", "longest"], lines: all.iter().map(line).collect() };
    Findings { rows: rows.collect(), tables: vec![table], ..Findings::default() }
}

/// Milliseconds of each role's handover.
async fn hand_over_all(group: &Group) -> Vec<f64> {
    let mut apps = Apps::start(group).await;
    let mut took_ms = Vec::new();
    for role in group.specs[0].names() {
        took_ms.push(apps.hand_over(&role).await.as_secs_f64() * 1_000.0);
    }
    took_ms
}
