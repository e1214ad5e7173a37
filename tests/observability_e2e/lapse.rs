//! Some minutes of faults by a script, and then the dashboards' own queries: do they return what happened?

use std::collections::BTreeSet;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use testkit::sidecars::replica::{Lease, ROLE};
use testkit::wait::{last_for, until};

use crate::panels::{Dashboard, dashboards, substituted};
use crate::prometheus::{Prometheus, Series, now_s};
use crate::record::{Dark, Held, Notes, leaders, terms};
use crate::rules::divided;
use crate::stage::Stage;

/// How much faster time passes in the rules.
const FACTOR: u64 = 12;
/// How far a query may lag behind what happened: two scrapes, a scrape's timeout, and a busy machine.
const LAG_S: f64 = 3.5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Resign,
    Kill,
    Pause,
    RedisGone,
    Flush,
}

const FAULTS: [Fault; 5] = [Fault::Resign, Fault::Kill, Fault::Pause, Fault::RedisGone, Fault::Flush];

fn from_environment(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

/// Every fault, in an order that the seed decides, `rounds` times.
fn script() -> Vec<Fault> {
    let (rounds, seed) = (from_environment("BATON_LAPSE_ROUNDS", 2), from_environment("BATON_LAPSE_SEED", 1));
    let mut dice = fastrand::Rng::with_seed(seed);
    let round = |_| {
        let mut faults = FAULTS;
        dice.shuffle(&mut faults);
        faults
    };
    let script: Vec<Fault> = (0..rounds).flat_map(round).collect();
    println!("seed {seed}: {script:?}");
    script
}

impl Stage {
    fn inflict(&mut self, fault: Fault, notes: &mut Notes) {
        let term = self.leader_after(None);
        let leader = term.who.replica;
        match fault {
            Fault::Resign => {
                assert_eq!(self.replicas[leader].ask(&format!("POST /leader/{ROLE}/resign"), "").status, 202);
                notes.resigned += 1;
                self.leader_after(Some(term));
            }
            Fault::Kill => {
                self.replicas[leader].signal(Signal::KILL);
                self.replicas[leader].kill();
                notes.killed += 1;
                self.leader_after(Some(term));
                self.replicas[leader].start_again();
                self.apps.ask_at(&self.replicas[leader]);
                self.prometheus.targets(&self.replicas);
            }
            Fault::Pause => {
                self.pause_the_leader();
                notes.lost += 1;
            }
            Fault::RedisGone => {
                let from_s = now_s();
                self.redis.kill();
                until("Prometheus knows", || self.prometheus.query("baton_store_up == 0").len() == self.replicas.len());
                let noticed_s = now_s();
                until("nobody leads", || self.apps.leads().is_none());
                // As long as the alerts take that this calls for.
                last_for(Duration::from_secs(120 / FACTOR + 4));
                let to_s = now_s();
                self.redis.start_again();
                self.leader_after(Some(term));
                notes.dark.push(Dark { from_s, noticed_s, to_s, over_s: now_s() });
                notes.lost += 1;
            }
            Fault::Flush => {
                let restored = || self.prometheus.number("sum(baton_renewals_total{outcome=\"reasserted\"})");
                let before = restored();
                self.redis.command(&["FLUSHALL"]);
                until("the lease is put back", || restored() > before);
                notes.flushed += 1;
            }
        }
        self.until_all_are_scraped();
        last_for(Duration::from_secs(4));
    }
}

/// The queries of a panel of the overview, over the whole time where they count over an interval.
fn panel(title: &str) -> Vec<String> {
    panel_of("overview", title)
}

/// The same of any dashboard.
fn panel_of(dashboard: &str, title: &str) -> Vec<String> {
    let all = dashboards();
    let is_named = |it: &&Dashboard| it.file == format!("dashboards/{dashboard}.json");
    let overview = all.iter().find(is_named).expect("it is there");
    let is_it = |panel: &&&Value| panel["title"] == title;
    let panels = overview.panels();
    let panel = panels.iter().find(is_it).unwrap_or_else(|| panic!("there is no panel {title:?}"));
    let targets = panel["targets"].as_array().unwrap().iter();
    targets.map(|target| substituted(&target["expr"].as_str().unwrap().replace("$__rate_interval", "24h"))).collect()
}

fn sum(series: &[Series]) -> f64 {
    series.iter().map(Series::last).sum()
}

/// The first row's figures of this moment and of the last 24 hours.
fn check_figures(prometheus: &Prometheus, notes: &Notes, seen: &[Held], begun_s: f64) {
    let last = seen.last().expect("somebody leads");
    let now = panel("Who leads now, and since when");
    let [since, token, left] = [0, 1, 2].map(|n| prometheus.query(&now[n]));
    for rows in [&since, &token, &left] {
        assert_eq!(rows.len(), 1, "{rows:?}");
        assert_eq!((rows[0].label("role"), rows[0].label("replica")), (ROLE, last.pod.as_str()));
    }
    let off_s = since[0].last() / 1_000.0 - last.from_s;
    assert!(off_s.abs() < 1.5, "since: {off_s} s off");
    assert_eq!(token[0].last() as u64, last.token);
    assert!(left[0].last() > 0.0 && left[0].last() < Lease::LONGER.duration().as_secs_f64());
    assert_eq!(sum(&prometheus.query(&panel("Roles without a leader now")[0])), 0.0);

    let changes = prometheus.query(&panel("Changes of leader, last 24 h")[0]);
    let begun = seen.iter().filter(|held| held.from_s > begun_s).count();
    assert_eq!(sum(&changes), begun as f64, "{changes:?}: {seen:#?}");
    let lost = prometheus.query(&panel("Leases lost, last 24 h, and why")[0]);
    assert_eq!(sum(&lost), notes.lost as f64, "{lost:?}");
    assert!(lost.iter().all(|row| row.label("reason") == "expired"), "{lost:?}");
    let failed = prometheus.query(&panel("Store: failed commands, last 24 h")[0]);
    assert_eq!(sum(&failed) > 0.0, !notes.dark.is_empty(), "{failed:?}");

    let ends = panel("How terms end");
    let resigned: Vec<Series> =
        prometheus.query(&ends[0]).into_iter().filter(|row| row.label("reason") == "resigned").collect();
    assert_eq!(
        (sum(&resigned).round() as usize, sum(&prometheus.query(&ends[1])).round() as usize),
        (notes.resigned, notes.lost)
    );
    let renewals = prometheus.query(&panel("Renewals by outcome")[0]);
    let reasserted = renewals.iter().find(|row| row.label("outcome") == "reasserted").map_or(0.0, Series::last);
    assert!((reasserted * 86_400.0).round() >= notes.flushed as f64, "{renewals:?}");
    let guards = prometheus.query(&panel("Guards: the store may have forgotten")[0]);
    assert_eq!(sum(&guards).round() > 0.0, !notes.dark.is_empty(), "{guards:?}");
    println!(
        "{begun} terms, {} leases lost, {} resigned, {} killed, {} put back, Redis gone {} times: the panels agree",
        notes.lost,
        notes.resigned,
        notes.killed,
        notes.flushed,
        notes.dark.len()
    );
}

/// The timeline of who leads, at every half second.
fn check_timeline(prometheus: &Prometheus, seen: &[Held], from_s: f64, to_s: f64) {
    let series = prometheus.range(&panel("Who leads, replica by replica")[0], from_s, to_s);
    let (mut steady_moments, mut at_s) = (0, from_s);
    while at_s <= to_s {
        let value_at = |row: &Series| row.values.iter().find(|(t, _)| (t - at_s).abs() < 0.1).map(|(_, value)| *value);
        let shown: BTreeSet<&str> =
            series.iter().filter(|row| value_at(row) == Some(1.0)).map(|row| row.label("replica")).collect();
        let (led, steady) = leaders(seen, at_s - LAG_S, at_s + 0.5);
        assert!(shown.is_subset(&led), "at {at_s}: {shown:?} is shown, {led:?} led");
        if steady {
            assert_eq!(shown, led, "at {at_s}");
            steady_moments += 1;
        }
        at_s += 0.5;
    }
    assert!(steady_moments > 40, "{steady_moments} steady moments");
    // Tokens only rise.
    let tokens = prometheus.range(&panel("Fencing token")[0], from_s, to_s);
    assert_eq!(tokens.len(), 1);
    assert!(tokens[0].values.is_sorted_by(|a, b| a.1 <= b.1), "{tokens:?}");
}

/// The timeline of the store.
fn check_store(prometheus: &Prometheus, notes: &Notes, from_s: f64, to_s: f64) {
    for row in prometheus.range(&panel("Was it the store? Does it answer?")[0], from_s, to_s) {
        for (at_s, value) in &row.values {
            let dark = notes.dark.iter().any(|dark| (dark.noticed_s + 1.0..dark.to_s).contains(at_s));
            let near = notes.dark.iter().any(|dark| (dark.from_s..dark.over_s + LAG_S).contains(at_s));
            if dark || !near {
                assert_eq!(*value, f64::from(u8::from(!dark)), "{} at {at_s}: {notes:?}", row.label("replica"));
            }
        }
    }
}

/// That an expression is PromQL does not mean that it can be evaluated: labels may match many to many. Every query of
/// every dashboard is asked over the whole time, and shows something at some moment, but for what did not happen.
fn check_every_query(prometheus: &Prometheus, from_s: f64, to_s: f64) {
    let queries: Vec<_> = dashboards().iter().flat_map(Dashboard::queries).collect();
    let is_empty = |expr: &str| prometheus.range(&substituted(expr), from_s, to_s).is_empty();
    let empty: Vec<&str> =
        queries.iter().filter(|query| is_empty(&query.expr)).map(|query| query.place.as_str()).collect();
    // Nothing of it failed here, and this stage has neither own stores nor a quorum.
    let quiet = [
        "dashboards/jobs.json: Does their own store answer?",
        "dashboards/jobs.json: annotation \"Run failed\"",
        "dashboards/locks.json: Does their own store answer?",
        "dashboards/locks.json: annotation \"Lock lost\"",
        "dashboards/overview.json: Members of a quorum that answer",
    ];
    assert_eq!(empty, quiet);
    println!("{} queries asked", queries.len());
}

/// A program that does nothing, every few seconds, beside whoever leads.
/// Every slot is made up for, however many of them nobody led in: one that is missed is a reason for an alert.
const JOBS: &str =
    "jobs:\n  - { name: tick, schedule: '@every 5s', catchUp: all, run: { exec: { command: ['true'] } } }\n";

fn check_jobs(prometheus: &Prometheus, notes: &Notes, runs: usize) {
    let now = panel_of("jobs", "Jobs now");
    let [last, next] = [0, 1].map(|n| {
        let rows = prometheus.query(&now[n]);
        assert!(rows.len() == 1 && rows[0].label("job_name") == "tick", "{rows:?}");
        rows[0].last() / 1_000.0 - now_s()
    });
    assert!((-15.0..=0.0).contains(&last) && (-3.0..=6.0).contains(&next), "{last} s, {next} s from now");
    let ended = prometheus.query(&panel_of("jobs", "Runs by outcome")[0]);
    let is_ticks = |row: &&Series| (row.label("job_name"), row.label("outcome")) == ("tick", "succeeded");
    let succeeded = ended.iter().find(is_ticks).map_or(0.0, Series::last);
    // What was counted between the last scrape and a kill is lost, and one run may end as we look.
    let off = (succeeded - runs as f64).abs();
    assert!(off < notes.killed as f64 + 1.5, "{succeeded} runs by the panel, {runs} by the logs");
    println!("{runs} runs of a job by the logs, {} by the panel", succeeded.round());
}

/// Takes some locks: three that are free, and two of them again for somebody else.
fn take_locks(stage: &Stage) {
    for (name, owner, status) in [("a", "x", 201), ("b", "x", 201), ("c", "x", 201), ("a", "y", 409), ("b", "y", 409)] {
        let body = format!("{{\"owner\":\"{owner}\",\"lease\":\"1h\"}}");
        let answer = stage.replicas[0].ask(&format!("POST /locks/{name}"), &body);
        assert_eq!(answer.status, status, "{}", answer.body);
    }
    let held = panel_of("locks", "Held now");
    until("the locks are seen", || sum(&stage.prometheus.query(&held[0])) == 3.0);
}

fn check_locks(prometheus: &Prometheus) {
    let requests = prometheus.query(&panel_of("locks", "Requests, last 24 h")[0]);
    let of = |outcome: &str| requests.iter().find(|row| row.label("outcome") == outcome).map_or(0.0, Series::last);
    assert_eq!((of("granted"), of("held"), of("error")), (3.0, 2.0, 0.0), "{requests:?}");
}

/// The alerts that fired: those that this calls for, and none that it does not.
fn check_alerts(prometheus: &Prometheus) {
    let fired = prometheus.query("count by (alertname) (max_over_time(ALERTS{alertstate=\"firing\"}[1h]))");
    let fired: BTreeSet<&str> = fired.iter().map(|row| row.label("alertname")).collect();
    println!("fired: {fired:?}");
    for name in ["BatonLeaseLost", "BatonNoLeader", "BatonStoreUnreachable", "BatonStoreGuarded"] {
        assert!(fired.contains(name), "{name} did not fire");
    }
    // In this time, which passes faster, the leader may well be said to change often.
    let others: Vec<&&str> = fired
        .iter()
        .filter(|name| {
            !["BatonLeaseLost", "BatonNoLeader", "BatonStoreUnreachable", "BatonStoreGuarded", "BatonLeaderFlapping"]
                .contains(name)
        })
        .collect();
    assert!(others.is_empty(), "{others:?}");
}

#[test]
fn the_panels_return_what_happened() {
    let mut stage = Stage::start(Lease::LONGER, JOBS, &divided(FACTOR), None);
    let (begun_s, mut notes) = (now_s(), Notes::default());
    // The guard's alert asks whether somebody led some time ago.
    let logged = |stage: &Stage| -> usize {
        stage.replicas.iter().map(|replica| replica.log().matches("a run succeeded").count()).sum()
    };
    let runs_before = logged(&stage);
    last_for(Duration::from_secs(600 / FACTOR));
    take_locks(&stage);
    for fault in script() {
        stage.inflict(fault, &mut notes);
    }
    let (to_s, seen) = (now_s(), terms(&stage.apps));
    check_figures(&stage.prometheus, &notes, &seen, begun_s);
    check_timeline(&stage.prometheus, &seen, begun_s, to_s - 1.0);
    check_store(&stage.prometheus, &notes, begun_s, to_s);
    check_jobs(&stage.prometheus, &notes, logged(&stage) - runs_before);
    check_locks(&stage.prometheus);
    check_every_query(&stage.prometheus, begun_s, to_s);
    check_alerts(&stage.prometheus);
    stage.finish();
}
