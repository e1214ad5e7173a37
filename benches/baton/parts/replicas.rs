//! What a failover costs with 3, 30 and 300 candidates for one role: scripts, time, and Redis' processor time.

use std::time::Duration;

use futures_util::future::join_all;
use testkit::peers::Missing;

use crate::crew::{Crew, Failover};
use crate::part::{Bench, Findings, Part};
use crate::plot::{Axis, Kind, Plot};
use crate::process::cpu_s;
use crate::report::Row;
use crate::stats::{median, percentile};

pub const PART: Part = Part {
    name: "replicas",
    title: "Many replicas",
    about: "\
Candidates for one role, each with its own two connections to a Redis that they share, one for commands and one to
listen; the default lease. They are the inside of a sidecar, without its HTTP, all in one process: hundreds of them on
two processors, beside their Redis, hear a message one after the other, and not at once as on as many machines. So the
time at the largest number is mostly that of this machine. Of those who hear a release, chance lets five ask at
once, and the others hear who was granted before their turn comes. *Resign* is from the leader's resignation until
whoever waits beside the next one is woken; *crash* is from the end of the lease, by Redis' own count, of a leader whose
task and connections ended without a word. The scripts are all that Redis ran from then until every candidate knew the
next leader, and a fifth of a second longer. Redis' processor time is what it used meanwhile beyond what it uses at
rest; most of it is telling every candidate.",
    budget: Duration::from_secs(150),
    peers: &[],
    measure: |bench| Box::pin(measure(bench)),
};

const SIZES: [usize; 3] = [3, 30, 300];
const LEASE: Duration = Duration::from_secs(15);
const RESIGNATIONS: usize = 25;
const CRASHES: usize = 4;
/// How many listen is known everywhere after two renewals; these come every five seconds.
const REST: Duration = Duration::from_secs(11);
/// What a candidate takes of a process' open files, and what everything else takes.
const FILES_EACH: usize = 2;
const FILES_BESIDES: usize = 100;

/// What the failovers of one number of candidates came to.
struct Series {
    size: usize,
    resigned: Vec<Failover>,
    crashed: Vec<Failover>,
}

async fn measure(bench: &Bench) -> Findings {
    let mut findings = Findings::default();
    let files = open_files_max();
    let timing = baton::protocol::Timing::from_lease(LEASE).expect("the default lease");
    let mut crews = Vec::new();
    for size in SIZES {
        let needed = size * FILES_EACH + FILES_BESIDES;
        if files >= needed {
            crews.push((size, Crew::start(size, timing).await));
        } else {
            let why = format!("{size} candidates take {needed} open files, and this process may have {files}");
            findings.missing.push(Missing { peer: "some of the candidates", why });
        }
    }
    let before_s = cpu_s(std::process::id());
    let at_rest = join_all(crews.iter_mut().map(|(_, crew)| crew.rest(REST))).await;
    let own_share = (cpu_s(std::process::id()) - before_s) / REST.as_secs_f64();
    let candidates: usize = crews.iter().map(|(size, _)| size).sum();
    let mut all = Vec::new();
    for (size, crew) in &mut crews {
        let mut resigned = Vec::new();
        for _ in 0..bench.times(RESIGNATIONS) {
            resigned.push(crew.hand_over().await);
        }
        all.push(Series { size: *size, resigned, crashed: Vec::new() });
    }
    // All at once: who waits for a lease to end costs nothing.
    let crashing = crews.iter_mut().map(async |(_, crew)| {
        let mut crashed = Vec::new();
        for _ in (0..bench.times(CRASHES)).take_while(|round| bench.has_time(*round)) {
            crashed.push(crew.crash().await);
        }
        crashed
    });
    for (series, crashed) in all.iter_mut().zip(join_all(crashing).await) {
        series.crashed = crashed;
    }
    findings.rows = goals(&all);
    findings.rows.extend(all.iter().flat_map(figures));
    findings.rows.extend(resting(&all, &at_rest, candidates, own_share));
    findings.plots = plots(&all);
    findings
}

fn scripts(failovers: &[Failover]) -> f64 {
    failovers.iter().map(|failover| failover.scripts).sum::<f64>() / failovers.len() as f64
}

fn beyond_ms(failovers: &[Failover]) -> Vec<f64> {
    failovers.iter().map(|failover| failover.beyond.as_secs_f64() * 1_000.0).collect()
}

fn redis_cpu_ms(failovers: &[Failover]) -> f64 {
    median(&failovers.iter().map(|failover| failover.redis_cpu_ms).collect::<Vec<_>>())
}

/// A way for a leader to go, in words, and where its failovers are.
type Way = (&'static str, fn(&Series) -> &[Failover]);
const WAYS: [Way; 2] = [("resign", |series| &series.resigned), ("crash", |series| &series.crashed)];

fn goals(all: &[Series]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (way, failovers) in WAYS {
        let growth = all.windows(2).map(|pair| {
            let scripts = scripts(failovers(&pair[1])) / scripts(failovers(&pair[0]));
            scripts / (pair[1].size as f64 / pair[0].size as f64)
        });
        let growth = growth.fold(0.0, f64::max);
        let measure = format!("{way}: growth of the scripts over that of the candidates, steepest step");
        rows.push(Row::new(measure, growth, "").at_most(1.0).because(WHY_STEEP));
        let medians: Vec<f64> = all.iter().map(|series| median(&beyond_ms(failovers(series)))).collect();
        let spread = percentile(&medians, 1.0) - percentile(&medians, 0.0);
        let measure = format!("{way}: time to the next leader, longest median less shortest, {}", numbers(all));
        rows.push(Row::new(measure, spread, "ms").at_most(50.0));
    }
    rows
}

const WHY_STEEP: &str = "\
from the fewest candidates to the most, a hundred times as many, the scripts grow only a few times; a handful asks in \
each failover, so that one more in a mean of four decides about a step";

fn numbers(all: &[Series]) -> String {
    all.iter().map(|series| series.size.to_string()).collect::<Vec<_>>().join(", ") + " candidates"
}

fn figures(series: &Series) -> Vec<Row> {
    let mut rows = Vec::new();
    for (way, failovers) in WAYS {
        let (failovers, size) = (failovers(series), series.size);
        let of = format!("{size} candidates, {way}");
        let beyond_ms = beyond_ms(failovers);
        rows.push(Row::new(format!("{of}: scripts, mean of {}", failovers.len()), scripts(failovers), ""));
        rows.push(Row::new(format!("{of}: time to the next leader, p50"), median(&beyond_ms), "ms"));
        rows.push(Row::new(format!("{of}: longest"), percentile(&beyond_ms, 1.0), "ms"));
        rows.push(Row::new(format!("{of}: Redis' processor time, median"), redis_cpu_ms(failovers), "ms"));
    }
    rows
}

fn resting(all: &[Series], redis: &[f64], candidates: usize, own: f64) -> Vec<Row> {
    let mut rows: Vec<Row> = all
        .iter()
        .zip(redis)
        .map(|(Series { size, .. }, share)| {
            Row::new(format!("{size} candidates at rest: Redis, of a core"), share * 100.0, "%")
        })
        .collect();
    let measure = format!("{candidates} candidates at rest in one process: that process, of a core");
    rows.push(Row::new(measure, own * 100.0, "%"));
    rows
}

fn plots(all: &[Series]) -> Vec<Plot> {
    let line = |value: fn(&[Failover]) -> f64, (way, failovers): Way| {
        let points = all.iter().map(|series| (series.size as f64, value(failovers(series)))).collect();
        (way.to_owned(), points)
    };
    let plot = |name, title: &str, y: Axis, value| Plot {
        name,
        title: title.to_owned(),
        x: Axis::log("candidates"),
        kind: Kind::Lines { y, lines: WAYS.into_iter().map(|way| line(value, way)).collect() },
    };
    let time = |failovers: &[Failover]| median(&beyond_ms(failovers));
    vec![
        plot("scripts", "Scripts of a failover", Axis::log("scripts"), scripts),
        plot("time", "Time to the next leader", Axis::linear("milliseconds"), time),
        plot("redis", "Redis' processor time of a failover", Axis::log("milliseconds"), redis_cpu_ms),
    ]
}

/// How many files this process may have open, as many as its hard limit allows.
pub(super) fn open_files_max() -> usize {
    baton::base::process::raise_file_limit();
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX))
}
