//! SIGKILL of the leader's app, which keeps a connection to its sidecar, until the next leader's app is told that it
//! leads. Each app is a process that waits for the lead on such a connection itself.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use testkit::sidecars::held_app::HeldApp;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

use crate::part::{Bench, Findings, Part};
use crate::plot::{Axis, Kind, Plot};
use crate::replica::{Group, ROLE};
use crate::report::Row;
use crate::stats::{distribution, percentile};

pub const PART: Part = Part {
    name: "app-crash",
    title: "After an app's end",
    about: "\
From SIGKILL of the leader's app, whose sidecar lives on, until the app beside another replica reads `leader: true`.
Each app keeps a connection to its sidecar (`/leader/{role}/hold?wait=1h`), which ends with it. With `scope=process` the
role is handed over at once, otherwise when the last promise has run out, here of 1 s. Leases are 3 s. No peer's elector
runs beside its app: there the process that leads is the one that is killed, as under *After a crash*.",
    budget: Duration::from_secs(120),
    peers: &[],
    measure: |bench| Box::pin(measure(bench)),
};

const LEASE: Duration = Duration::from_secs(3);
const VALIDITY: Duration = Duration::from_secs(1);
/// A replica whose app has died stays out for a renewal period: there is another in its place, so that two can take the
/// lead each time.
const PAUSE: Duration = Duration::from_millis(1_100);
const GROUPS: usize = 3;
const PATIENCE: Duration = Duration::from_secs(30);

async fn measure(bench: &Bench) -> Findings {
    let mut findings = Findings::default();
    let at_once = over_and_over(bench, "process", 40).await;
    let waiting = over_and_over(bench, "pod", 6).await;
    let row = |which: &str, ms| Row::new(format!("Baton: SIGKILL of the app to the next leader's, {which}"), ms, "ms");
    findings.rows = vec![
        row(&format!("`scope=process`, p50 of {}", at_once.len()), percentile(&at_once, 0.5)),
        row("`scope=process`, p99", percentile(&at_once, 0.99)).at_most(15.0).because(WHY_SLOW),
        row("`scope=process`, longest", percentile(&at_once, 1.0)),
        row(&format!("a promise of 1 s, p50 of {}", waiting.len()), percentile(&waiting, 0.5)),
        row("a promise of 1 s, longest", percentile(&waiting, 1.0)).at_most(1_015.0).because(WHY_SLOW),
    ];
    findings.plots = vec![Plot {
        name: "next",
        title: "From the end of the leader's app to the next leader's".to_owned(),
        x: Axis::log("milliseconds"),
        kind: Kind::Lines {
            y: Axis::linear("share of the ends"),
            lines: vec![
                ("scope=process".to_owned(), distribution(&at_once)),
                ("a promise of 1 s".to_owned(), distribution(&waiting)),
            ],
        },
    }];
    findings
}

const WHY_SLOW: &str = "nine sidecars and their apps share the machine's processors";

async fn over_and_over(bench: &Bench, scope: &'static str, kills: usize) -> Vec<f64> {
    join_all((0..GROUPS).map(|group| kill_again_and_again(bench, scope, group, kills))).await.concat()
}

async fn kill_again_and_again(bench: &Bench, scope: &'static str, number: usize, kills: usize) -> Vec<f64> {
    let group = Group::trio(&bench.redis.url(), &format!("app-crash-{scope}-{number}"), LEASE, Some(VALIDITY));
    group.settled().await;
    let (tell, mut told) = mpsc::unbounded_channel();
    let start = |at: usize| app(at, group.replicas[at].api, scope, tell.clone());
    let mut apps: Vec<HeldApp> = (0..group.replicas.len()).map(start).collect();
    let (mut leader, _) = next(&mut told).await;
    let mut dice = fastrand::Rng::with_seed(number as u64);
    let mut took_ms = Vec::new();
    for _ in (0..bench.times(kills)).take_while(|round| bench.has_time(*round)) {
        tokio::time::sleep(PAUSE + (LEASE / 3).mul_f64(dice.f64())).await;
        let killed_at = Instant::now();
        drop(apps[leader].kill());
        let (led_by, led_at) = next(&mut told).await;
        took_ms.push(led_at.duration_since(killed_at).as_secs_f64() * 1_000.0);
        apps[leader] = start(leader);
        leader = led_by;
    }
    took_ms
}

async fn next(told: &mut UnboundedReceiver<(usize, Instant)>) -> (usize, Instant) {
    let next = tokio::time::timeout(PATIENCE, told.recv()).await;
    next.unwrap_or_else(|_| panic!("nobody leads within {PATIENCE:?}")).expect("somebody tells")
}

/// An app that waits for the lead. Says when it first reads that it leads.
fn app(at: usize, api: SocketAddr, scope: &str, tell: UnboundedSender<(usize, Instant)>) -> HeldApp {
    let mut tell = Some(tell);
    HeldApp::start(api, ROLE, &format!("?wait=1h&scope={scope}"), move |when, told| {
        assert!(told["leader"].is_boolean(), "the sidecar refuses: {told}");
        if told["leader"] == true
            && let Some(tell) = tell.take()
        {
            // Nobody listens any more when all is measured.
            let _ = tell.send((at, when));
        }
    })
}
