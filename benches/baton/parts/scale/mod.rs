//! How far one Redis goes, and a cluster of three: what everything costs it, by differences between states; a model of
//! that, held against what is measured at three sizes; and docs/scale.md, which says what follows.

mod awake;
pub(super) mod meter;
mod model;
mod page;

use std::time::{Duration, Instant};

use testkit::peers::Missing;

use self::awake::Awake;
use self::meter::{Reading, Site, Window, cpu_us_since, windows};
use self::model::{APP, Cost, Costs, LEASE, Load, PERIOD, Point, StateSizes, States};
use super::replicas::open_files_max;
use super::scripts::{Evidence, Stage};
use crate::crowd::{Crowd, START_TOGETHER};
use crate::part::{Bench, Findings, Part};
use crate::process::cpu_s;
use crate::raw::Redis;
use crate::replica::{Group, ROLE, Spec};
use crate::report::Row;
use crate::stats::median;

pub const PART: Part = Part {
    name: "scale",
    title: "How far one Redis goes",
    about: "\
What a sidecar, a role, a heartbeat, a lock and a job cost a Redis, and what a hundred, a thousand and five thousand
sidecars come to, on one Redis and on a Cluster of three masters: the figures, and what follows from them, are in
[scale.md](scale.md), which this part writes. The sidecars are the inside of real ones, store, connections,
subscriptions and election, all in one process and without their HTTP; they are held against three real ones first. What
they cost is what the server counts of its main thread, its memory and its bytes.",
    budget: Duration::from_secs(900),
    peers: &[],
    measure: |bench| Box::pin(measure(bench)),
};

const SIZES: [usize; 3] = [100, 1_000, 5_000];
/// Of which all connections are closed at once. With more of them this machine's processors, which the sidecars share,
/// would be what takes longest.
const CUT_OFF: usize = 1_000;
/// Of the states that coefficients are differences between.
const CONNECTED: usize = 4_000;
const ALONE: usize = 1_000;
const CROWDED: usize = 2_000;
const CROWDED_APP: usize = 10;
const ALONE_IN_CLUSTER: usize = 600;
/// Buffers of connections are made smaller in steps of a second, and what a start brings with it is over.
const SETTLING: Duration = Duration::from_secs(16);
/// Each role is renewed once in a window.
const WINDOWS: usize = 4;
/// So many of them have to be without a connection that broke, or a renewal that was late.
const UNDISTURBED_MIN: usize = 3;
const POINT_WINDOWS: usize = 4;
const ROUNDS: usize = 5;
/// What a sidecar takes of this process' open files at most, and what everything else takes.
const FILES_EACH: usize = 3;
const FILES_BESIDES: usize = 300;
/// No state takes longer to come about.
const BOUND: Duration = Duration::from_secs(90);

/// Everything that was found.
struct Found {
    /// One for each window.
    samples: Vec<Costs>,
    points: Vec<Point>,
    cut: Vec<Cut>,
    beside: Beside,
}

/// All connections were closed at once.
struct Cut {
    sidecars: usize,
    /// Until as many are there again.
    back_s: f64,
    cpu_us: f64,
    /// How many sidecars led before, and how many of them went on under the same token.
    terms: usize,
    kept: usize,
}

/// What three real sidecars and three of these ask, each second: scripts, and bytes either way.
struct Beside {
    real: Window,
    here: Window,
}

async fn measure(bench: &Bench) -> Findings {
    let mut findings = Findings::default();
    let _awake = Awake::all_cores();
    let beside = beside(bench).await;
    let known = operations(bench).await;
    let samples = states(bench, &known).await;
    let (mut points, mut cut) = (Vec::new(), Vec::new());
    for name in [page::ONE, page::CLUSTER] {
        let site = if name == page::ONE { Site::one() } else { Site::three().await };
        site.until_older_than(LEASE).await;
        let mut crowd = Crowd::new(site.url.clone(), LEASE, APP);
        for size in SIZES.map(|size| bench.times(size)) {
            if let Some(missing) = too_many(size) {
                findings.missing.push(missing);
                continue;
            }
            points.push(point(bench, name, &site, &mut crowd, size).await);
            if name == page::ONE && size == bench.times(CUT_OFF) {
                cut.push(cut_off(&site, &crowd).await);
            }
        }
    }
    let mut found = Found { samples, points, cut, beside };
    for samples in &mut found.samples {
        samples[Cost::Return] =
            median(&found.cut.iter().map(|cut| cut.cpu_us / cut.sidecars as f64).collect::<Vec<_>>());
    }
    findings.rows = rows(&found);
    findings.page = Some(("scale.md", page::text(&found)));
    findings
}

/// Why so many cannot be had, where they cannot.
fn too_many(size: usize) -> Option<Missing> {
    let (needed, files) = (size * FILES_EACH + FILES_BESIDES, open_files_max());
    let why = || format!("{size} sidecars take {needed} open files, and this process may have {files}");
    (files < needed).then(|| Missing { peer: "some of the sidecars", why: why() })
}

/// Whether what this process does instead of sidecars is what sidecars do.
async fn beside(bench: &Bench) -> Beside {
    let (real, here) = (Site::one(), Site::one());
    real.until_older_than(LEASE).await;
    here.until_older_than(LEASE).await;
    let identity = |n: usize| format!("app-00000-7d4b9c6f5-{n:05}");
    // As its roles are named here, its role has five letters.
    let specs = (0..APP).map(|n| Spec::redis(&identity(n), &real.url, "baton", LEASE)).collect();
    let group = Group::start(specs);
    let mut crowd = Crowd::new(here.url.clone(), LEASE, APP);
    crowd.grow(APP).await;
    group.settled().await;
    crowd.settled().await;
    tokio::time::sleep(SETTLING).await;
    let found = windows(&[&real, &here], bench.times(POINT_WINDOWS), PERIOD).await;
    assert_eq!(ROLE.len(), "app-0".len());
    let mut means = found.iter().map(|windows| Window::mean(windows));
    let (Some(real), Some(here)) = (means.next(), means.next()) else { unreachable!("two sites") };
    Beside { real, here }
}

/// What is asked one by one: the times that [`Stage`] has a Redis spend on each, its sockets included.
async fn operations(bench: &Bench) -> Vec<Costs> {
    let mut stage = Stage::set(Evidence::AskedInside).await;
    let mut samples = Vec::new();
    for round in 0..bench.times(ROUNDS) {
        let attempt = round as u64 + 2;
        let mut costs = Costs::default();
        let look = stage.metered("campaign, held", attempt).await;
        (costs[Cost::Look], costs[Cost::LookIn], costs[Cost::LookOut]) = (look.cpu_us, look.input_b, look.output_b);
        stage.metered("release", attempt).await;
        costs[Cost::Grant] = stage.metered("campaign, free", attempt).await.cpu_us;
        let acquire = stage.metered("lock: acquire", attempt).await.cpu_us;
        costs[Cost::LockCycle] = acquire + stage.metered("lock: release", attempt).await.cpu_us;
        costs[Cost::Run] = 2.0 * stage.metered("ledger: write", attempt).await.cpu_us;
        samples.push(costs);
    }
    samples
}

/// The states, and what they come to in each window beside what is `known`. Those with sidecars come one after the
/// other, each without the others, as a point is.
async fn states(bench: &Bench, known: &[Costs]) -> Vec<Costs> {
    let (alone_to, crowded_to) = (bench.times(ALONE), bench.times(CROWDED));
    let in_cluster = bench.times(ALONE_IN_CLUSTER);
    let [empty, connected, empty_cluster] = at_rest(bench.times(CONNECTED)).await;
    let alone = settled(Site::one(), 1, alone_to).await;
    let crowded = settled(Site::one(), CROWDED_APP, crowded_to).await;
    let cluster = Site::three().await;
    let nodes = cluster.nodes.len() as f64;
    let alone_cluster = settled(cluster, 1, in_cluster).await;
    let sidecars = StateSizes {
        alone: alone_to as f64,
        crowded: crowded_to as f64,
        crowded_roles: crowded_to.div_ceil(CROWDED_APP) as f64,
        nodes,
    };
    let connections =
        [&empty, &connected, &empty_cluster, &alone, &crowded, &alone_cluster].map(|state| state.connections);
    let states = (0..WINDOWS).map(|window| States {
        empty: empty.windows[window],
        connected: connected.windows[window],
        empty_cluster: empty_cluster.windows[window],
        alone: alone.windows[window],
        crowded: crowded.windows[window],
        alone_cluster: alone_cluster.windows[window],
        sidecars,
    });
    let undisturbed: Vec<States> = states.filter(|states| states.are_undisturbed(&connections)).collect();
    println!("  {} of {WINDOWS} windows undisturbed", undisturbed.len());
    assert!(undisturbed.len() >= UNDISTURBED_MIN, "this machine is too busy: connections break, renewals are late");
    undisturbed.iter().zip(known.iter().cycle()).map(|(states, known)| states.costs(known)).collect()
}

/// One state: its windows, and how many connections there were behind them.
struct State {
    windows: Vec<Window>,
    connections: f64,
}

/// Of each of these sites.
async fn watched<const N: usize>(sites: [&Site; N]) -> [State; N] {
    let mut found = windows(&sites, WINDOWS, PERIOD).await.into_iter();
    sites.map(|site| State { windows: found.next().unwrap_or_default(), connections: site.connections() })
}

/// Nobody, connections of which nothing comes, and nobody on a cluster.
async fn at_rest(connected_to: usize) -> [State; 3] {
    let (empty, connected, empty_cluster) = (Site::one(), Site::one(), Site::three().await);
    let sites = [&empty, &connected, &empty_cluster];
    for site in sites {
        site.until_older_than(LEASE).await;
        bring_scripts(site).await;
    }
    let _connections = connect(&connected, connected_to).await;
    tokio::time::sleep(SETTLING).await;
    watched(sites).await
}

/// So many sidecars, in apps of so many.
async fn settled(site: Site, app: usize, size: usize) -> State {
    site.until_older_than(LEASE).await;
    let mut crowd = Crowd::new(site.url.clone(), LEASE, app);
    crowd.grow(size).await;
    crowd.settled().await;
    tokio::time::sleep(SETTLING).await;
    let [state] = watched([&site]).await;
    state
}

/// Some sidecars that come, lead, and go again: the scripts that they have brought stay, and take memory.
async fn bring_scripts(site: &Site) {
    let mut crowd = Crowd::new(site.url.clone(), LEASE, 1);
    crowd.grow(START_TOGETHER).await;
    crowd.settled().await;
}

/// Connections that have asked who answers, as a sidecar's do, and nothing since: as those of a standby do. Those of a
/// sidecar that hears nothing at all would send a PING now and then.
async fn connect(site: &Site, count: usize) -> Vec<Redis> {
    let mut connections = Vec::new();
    for _ in 0..count {
        let address = ([127, 0, 0, 1], site.nodes[0].port()).into();
        let mut connection = Redis::connect(address).await.expect("the measurement's Redis answers");
        connection.command(&["INFO"]).await.expect("an answer");
        connections.push(connection);
    }
    connections
}

async fn point(bench: &Bench, name: &'static str, site: &Site, crowd: &mut Crowd, size: usize) -> Point {
    let begun = Instant::now();
    crowd.grow(size).await;
    crowd.settled().await;
    let started_s = begun.elapsed().as_secs_f64();
    tokio::time::sleep(SETTLING).await;
    let (begun, before_s) = (Instant::now(), cpu_s(std::process::id()));
    let found = windows(&[site], bench.times(POINT_WINDOWS), PERIOD).await;
    let driver_cores = (cpu_s(std::process::id()) - before_s) / begun.elapsed().as_secs_f64();
    println!("  {name}, {size} sidecars: started in {started_s:.1} s, their process takes {driver_cores:.2} cores");
    let busiest = site.read().iter().map(Reading::connections).fold(0.0, f64::max);
    let measured = found.into_iter().flatten().collect();
    let load = Load { pods: size as f64, app: APP as f64, nodes: site.nodes.len() as f64, looks: 0.0 };
    Point { site: name, load, measured, busiest, driver_cores }
}

/// Has every connection closed at once, waits until as many are there again, and then until whoever has lost its role
/// by that has noticed.
async fn cut_off(site: &Site, crowd: &Crowd) -> Cut {
    let redis = &site.nodes[0];
    let (before, connections, terms) = (site.read(), site.connections(), crowd.terms());
    let begun = Instant::now();
    for kind in ["pubsub", "normal"] {
        redis.command(&["CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes"]);
    }
    while site.connections() < connections {
        assert!(begun.elapsed() < BOUND, "not all are back within {BOUND:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let back_s = begun.elapsed().as_secs_f64();
    let cpu_us = cpu_us_since(&before, site);
    tokio::time::sleep(LEASE).await;
    crowd.settled().await;
    let kept = terms.iter().zip(crowd.terms()).filter(|(before, after)| before.is_some() && **before == *after).count();
    Cut { sidecars: crowd.len(), back_s, cpu_us, terms: terms.iter().flatten().count(), kept }
}

fn rows(found: &Found) -> Vec<Row> {
    let costs = Costs::median(&found.samples);
    let Beside { real, here } = &found.beside;
    let off: usize = found.points.iter().map(|point| point.off(&costs)).sum();
    let mut rows = vec![
        Row::new("figures of the points that are off the model by more than 20 %", off as f64, "").at_most(0.0),
        Row::new("a real sidecar's scripts over those of one here", real.scripts / here.scripts, ""),
        Row::new("a real sidecar's bytes to Redis over those of one here", real.input_b / here.input_b, ""),
        Row::new("a real sidecar's bytes from Redis over those of one here", real.output_b / here.output_b, ""),
    ];
    for Point { site, load, measured, busiest, driver_cores } in &found.points {
        let of = |what: &str| format!("{site}, {} sidecars: {what}", load.pods);
        let middle = |of: fn(&Window) -> f64| median(&measured.iter().map(of).collect::<Vec<_>>());
        let per_s = middle(|w| w.scripts) / load.renewals();
        rows.push(Row::new(of("time of Redis's threads"), middle(|w| w.cpu_us) / 1e4, "% of a core"));
        rows.push(Row::new(of("scripts over renewals that are due"), per_s, ""));
        rows.push(Row::new(of("processor time of the sidecars' process"), driver_cores * 100.0, "% of a core"));
        if load.nodes > 1.0 {
            let share = busiest / (middle(|w| w.connections) / load.nodes);
            let row = Row::new(of("connections of the busiest node over its share"), share, "");
            rows.push(if load.pods >= 1_000.0 { row.at_most(1.2) } else { row });
        }
    }
    for Cut { sidecars, back_s, terms, kept, .. } in &found.cut {
        let of = |what: &str| format!("{sidecars} sidecars cut off at once: {what}");
        rows.push(Row::new(of("all connected again after"), *back_s, "s"));
        rows.push(Row::new(of("terms that went on"), *kept as f64 / *terms as f64 * 100.0, "%"));
    }
    rows
}
