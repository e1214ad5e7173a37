//! The steps inside, without any I/O: how far they are from mattering. Measured by criterion, which keeps its samples
//! in `target/criterion` and says on the terminal what has changed since the last time.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use baton::base::clock::{BootClock, Clock, SharedClock, wall_time};
use baton::config::{Environment, check_text};
use baton::protocol::{
    Action, Announcement, AnnouncementKind, CampaignReply, Election, Event, Holder, Input, Mono, Profile, RenewReply,
    RenewalOutcome, RoleName, Rules, SessionId, Stamped, StoreTime, Timing, Token,
};
use baton::role::{Heartbeat, RoleHandle, Snapshot};
use baton::telemetry::{Metrics, Telemetry};
use criterion::Criterion;

use crate::part::{Bench, Findings, Part, root};
use crate::report::Row;

pub const PART: Part = Part {
    name: "micro",
    title: "Inside",
    about: "\
One step each, without any input or output: medians by criterion.",
    budget: Duration::from_secs(30),
    peers: &[],
    measure: |bench| Box::pin(measure(bench)),
};

const LEASE: Duration = Duration::from_secs(15);
const SEVERAL_ROLES: &str = include_str!("../../../config/several-roles.yaml");

async fn measure(bench: &Bench) -> Findings {
    let mut steps = Steps::begin(bench);
    steps.measure("renewal", "election: a renewal, from its moment to its answer", renewal());
    steps.measure("heartbeat", "election: a standby hears a heartbeat", heartbeat());
    steps.measure("answer", "an answer of the leader, promise recorded", answer(|role| drop(black_box(role.answer()))));
    let text = |role: &RoleHandle| drop(black_box(serde_json::to_vec(&role.answer())));
    steps.measure("answer-text", "the same, written as JSON", answer(text));
    steps.measure("metrics-renewal", "metrics: a renewal is counted", counted());
    steps.measure("metrics-scrape", "metrics: a scrape of three roles is written", scraped());
    steps.measure("config", "a configuration of three roles is read and checked", configured());
    Findings::of(steps.rows)
}

struct Steps {
    criterion: Criterion,
    rows: Vec<Row>,
}

impl Steps {
    fn begin(bench: &Bench) -> Self {
        let criterion = Criterion::default()
            .without_plots()
            .warm_up_time(bench.span(Duration::from_secs(1)))
            .measurement_time(bench.span(Duration::from_secs(2)))
            .output_directory(&root().join("target/criterion"));
        Self { criterion, rows: Vec::new() }
    }

    /// `id`: its folder among criterion's.
    fn measure(&mut self, id: &str, what: &str, mut step: impl FnMut()) {
        self.criterion.bench_function(id, |bencher| bencher.iter(&mut step));
        let file = root().join("target/criterion").join(id).join("new/estimates.json");
        let text = std::fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let estimates: serde_json::Value = serde_json::from_slice(&text).expect("criterion writes JSON");
        let ns = estimates["median"]["point_estimate"].as_f64().expect("criterion estimates the median");
        self.rows.push(if ns < 10_000.0 { Row::new(what, ns, "ns") } else { Row::new(what, ns / 1_000.0, "µs") });
    }
}

fn profile() -> Profile {
    Profile {
        session: SessionId::from_u128(1),
        attempts: Default::default(),
        identity: Arc::from("web-0"),
        timing: Timing::from_lease(LEASE).expect("the default lease"),
        guard: true,
        app_checked: false,
        rules: Rules::REDIS,
        role_stagger: Duration::ZERO,
        seed: 1,
    }
}

fn stamped<T>(reply: T, now: Mono) -> Stamped<T> {
    Stamped { reply, store_time: StoreTime(now.as_nanos() / 1_000) }
}

fn token() -> Token {
    Token::new(1_763_680_000_123_456).expect("below the limit")
}

/// An election that leads at `now`.
fn leading(now: Mono) -> Election {
    let mut election = Election::new(profile(), now);
    // A candidate waits a few random milliseconds before it looks.
    let now = now + Duration::from_millis(100);
    election.handle_timeout(now);
    while let Some(action) = election.poll_action() {
        if let Action::Campaign { id, .. } = action {
            let reply = Ok(stamped(CampaignReply::Granted { token: token(), count: 1 }, now));
            election.handle_input(now, Input::Campaigned { id, reply });
        }
    }
    assert!(election.leadership().leads(now), "granted");
    election
}

fn renewal() -> impl FnMut() {
    let mut now = BootClock.now();
    let (mut election, mut count) = (leading(now), 1);
    move || {
        now = now + LEASE / 3;
        election.handle_timeout(now);
        while let Some(action) = election.poll_action() {
            if let Action::Renew { id, .. } = action {
                count += 1;
                let reply = RenewReply::Renewed { count, reasserted: false, audience: 2 };
                election.handle_input(now, Input::Renewed { id, reply: Ok(stamped(reply, now)) });
            }
        }
        black_box(election.poll_timeout());
        debug_assert!(election.leadership().leads(now));
    }
}

fn heartbeat() -> impl FnMut() {
    let mut now = BootClock.now();
    let (mut election, mut count) = (Election::new(profile(), now), 1);
    let holder = Holder { session: SessionId::from_u128(2), identity: Arc::from("web-1") };
    move || {
        now = now + LEASE / 3;
        count += 1;
        let kind = AnnouncementKind::Heartbeat;
        let heard = Announcement { kind, token: token(), count, holder: holder.clone(), audience: 2 };
        election.handle_input(now, Input::Heard(heard));
        while let Some(action) = election.poll_action() {
            black_box(action);
        }
        black_box(election.poll_timeout());
    }
}

fn answer(ask: impl Fn(&RoleHandle)) -> impl FnMut() {
    let clock: SharedClock = Arc::new(BootClock);
    let now = clock.now();
    let election = leading(now);
    let snapshot = Snapshot { index: 17, ..Snapshot::first(election.view(now), wall_time()) };
    let (changes, seen) = tokio::sync::watch::channel(Arc::new(snapshot));
    let (commands, inbox) = tokio::sync::mpsc::channel(1);
    let role = RoleHandle::new(
        RoleName::new("scheduler").expect("a DNS label"),
        Arc::from("web-0"),
        clock,
        Arc::clone(election.leadership()),
        seen,
        commands,
        Arc::new(Heartbeat::new(now, LEASE)),
    );
    // The other ends live as long as the role does.
    let others = (changes, inbox, election);
    move || {
        let _ = &others;
        ask(&role);
    }
}

/// The counters of three roles, as a scrape finds them.
fn metrics() -> (Arc<Metrics>, Vec<RoleName>) {
    let metrics = Arc::new(Metrics::new(wall_time()));
    let roles = ["scheduler", "outbox", "nightly-report"].map(|name| RoleName::new(name).expect("a DNS label"));
    roles.iter().for_each(|role| metrics.add_role(role));
    (metrics, roles.into())
}

fn counted() -> impl FnMut() {
    let (metrics, roles) = metrics();
    let telemetry = Telemetry::new(metrics);
    let took = Duration::from_micros(300);
    let event = Event::Renewed { outcome: RenewalOutcome::Ok, took, token: token(), failure: None };
    move || {
        black_box(telemetry.record(&roles[0], &event, LEASE));
    }
}

fn scraped() -> impl FnMut() {
    let (metrics, _) = metrics();
    move || drop(black_box(metrics.render(Vec::new(), true).expect("they can be written")))
}

fn configured() -> impl FnMut() {
    let environment = Environment::new(|_| None, Some("web-0".to_owned()));
    move || drop(black_box(check_text(SEVERAL_ROLES, "several-roles.yaml", &environment).expect("a good sample")))
}
