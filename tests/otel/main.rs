//! Spans of a real sidecar at a collector that the test is. Only in a build with the feature `otel`: `make e2e`.

mod app;
mod collector;

use std::net::TcpListener;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use testkit::place::Place;
use testkit::sidecars::replica::{Lease, ROLE, Replica, Settings};
use testkit::wait::{until, until_some};

use crate::app::App;
use crate::collector::{Collector, Span};

const JOB: &str =
    "jobs:\n  - { name: tick, role: scheduler, schedule: '@every 1s', run: { exec: { command: ['true'] } } }\n";
/// So often that a test need not wait.
const SOON: (&str, &str) = ("OTEL_BSP_SCHEDULE_DELAY", "100");
/// Less than the SDK would wait for its collector by itself (5 s).
const END_MAX: Duration = Duration::from_millis(4_500);
const JSON: (&str, &str) = ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json");

/// A sidecar on a store of its own, which exports to this endpoint.
fn sidecar(endpoint: &str, env: &[(&str, &str)]) -> Replica {
    sidecar_of(Lease::SHORT.role(ROLE, ""), endpoint, env)
}

fn sidecar_of(roles: String, endpoint: &str, env: &[(&str, &str)]) -> Replica {
    let mut settings = Settings::on_store(1, "{ memory: {} }".to_owned(), Place::here(), Lease::SHORT);
    settings.roles = roles;
    settings.more = JOB.to_owned();
    settings.env = [&[("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)], env]
        .concat()
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    Replica::start(1, settings)
}

/// The token, once it leads.
fn token(replica: &Replica) -> u64 {
    until_some("the sidecar leads", || {
        let answer: Value = serde_json::from_str(&replica.ask("GET /leader", "").body).expect("JSON");
        answer["token"].as_u64()
    })
}

/// The only span of the name that fits, once it is there.
fn one(collector: &Collector, name: &str, fits: impl Fn(&Span) -> bool) -> Span {
    let found = until_some(name, || {
        let found: Vec<Span> = collector.named(name).into_iter().filter(&fits).collect();
        (!found.is_empty()).then_some(found)
    });
    assert_eq!(found.len(), 1, "{found:?}");
    found.into_iter().next().expect("one")
}

fn end(replica: &mut Replica) {
    replica.signal(Signal::TERM);
    let status = replica.wait_end();
    assert_eq!(status.code(), Some(0), "{}", replica.log());
}

fn warnings(replica: &Replica) -> usize {
    replica.log().lines().filter(|line| line.contains("the collector does not take spans")).count()
}

#[test]
fn commands_a_term_and_a_job_arrive_with_their_names_and_attributes() {
    let collector = Collector::start();
    let attributes = ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test,service.instance.id=of-the-env");
    let mut replica = sidecar(&collector.endpoint(), &[SOON, JSON, attributes]);
    let first = token(&replica);
    until("commands and a job are told of", || {
        let ok = |span: &Span| span.get("baton.outcome").as_deref() == Some("ok");
        let told = |name| collector.named(name).iter().any(ok);
        told("campaign") && told("renew") && !collector.named("job").is_empty()
    });
    assert!(collector.named("term").is_empty(), "a term that goes on has no span");
    let job = collector.named("job").remove(0);
    assert_eq!(job.get("baton.job").as_deref(), Some("tick"));
    assert!(job.get("baton.run_id").is_some_and(|run| run.starts_with("tick")), "{job:?}");
    assert_eq!(
        (job.get("baton.attempt").as_deref(), job.get("baton.outcome").as_deref()),
        (Some("1"), Some("succeeded"))
    );

    assert_eq!(replica.ask("POST /leader/scheduler/resign", "{\"cooldown\":\"1s\"}").status, 202);
    let of_first = |span: &Span| span.get("baton.token") == Some(first.to_string());
    let term = one(&collector, "term", of_first);
    assert_eq!(
        (term.get("baton.role").as_deref(), term.get("baton.reason").as_deref()),
        (Some(ROLE), Some("resigned"))
    );
    // It has renewed meanwhile, from its first renewal on.
    let (began, ended) = term.times();
    let first_renewal = collector.named("renew").iter().map(Span::times).min().expect("it was told of");
    assert!(!term.failed() && began < first_renewal.0 && first_renewal.1 < ended, "{term:?}, {first_renewal:?}");
    let release = one(&collector, "release", |_| true);
    assert_eq!((release.get("baton.role").as_deref(), release.failed()), (Some(ROLE), false));

    // Its own name, and what the environment says, which comes first.
    assert_eq!(term.of("service.name").as_deref(), Some("baton"));
    assert_eq!(term.of("service.version").as_deref(), Some(env!("CARGO_PKG_VERSION")));
    assert_eq!(term.of("deployment.environment.name").as_deref(), Some("test"));
    assert_eq!(term.of("service.instance.id").as_deref(), Some("of-the-env"));

    let second = token(&replica);
    assert!(second > first);
    end(&mut replica);
    let last = one(&collector, "term", |span| span.get("baton.token") == Some(second.to_string()));
    assert_eq!(last.get("baton.reason").as_deref(), Some("shutdown"));
    one(&collector, "term", of_first);
    assert_eq!(warnings(&replica), 0, "{}", replica.log());
}

#[test]
fn a_lost_lease_has_one_span_that_says_so_although_it_is_given_back_afterwards() {
    let (collector, app) = (Collector::start(), App::start());
    let check =
        format!(", appCheck: {{ httpGet: {{ port: {}, path: / }}, period: 200ms, failureThreshold: 1 }}", app.port());
    let mut replica = sidecar_of(Lease::SHORT.role(ROLE, &check), &collector.endpoint(), &[SOON, JSON]);
    token(&replica);
    app.fall_ill();
    until("the lease is given back", || !collector.named("release").is_empty());
    end(&mut replica);
    let term = one(&collector, "term", |_| true);
    assert_eq!((term.get("baton.reason").as_deref(), term.failed()), (Some("unhealthy"), true));
}

#[test]
fn what_is_queued_at_the_end_arrives_before_the_process_has_ended() {
    let collector = Collector::start();
    // It would export in ten minutes.
    let mut replica =
        sidecar(&collector.endpoint(), &[("OTEL_BSP_SCHEDULE_DELAY", "600000"), ("OTEL_SERVICE_NAME", "shop-baton")]);
    token(&replica);
    assert!(collector.posted().is_empty());
    end(&mut replica);
    let posted = collector.posted();
    assert_eq!(posted.len(), 1);
    assert!(posted[0].head.contains("content-type: application/x-protobuf\r\n"), "{}", posted[0].head);
    for words in ["campaign", "release", "term", "shutdown", "shop-baton", "service.instance.id", "web-1"] {
        let is_in = posted[0].body.windows(words.len()).any(|window| window == words.as_bytes());
        assert!(is_in, "{words} is missing");
    }
}

#[test]
fn a_collector_that_is_down_costs_one_warning_and_nothing_else() {
    // A port that was free a moment ago, and that nobody listens at.
    let gone = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port");
    let mut replica = sidecar(&format!("http://user:secret@{gone}"), &[SOON]);
    let first = token(&replica);
    until("it has renewed for longer than a lease", || {
        replica.role_metric("baton_renewals_total", &[("outcome", "ok")]) >= 6.0
    });
    assert_eq!(token(&replica), first, "it leads on");
    assert_eq!(warnings(&replica), 1, "{}", replica.log());
    end(&mut replica);
    assert_eq!(warnings(&replica), 1, "{}", replica.log());
    assert!(!replica.log().contains("secret"), "{}", replica.log());
}

#[test]
fn a_collector_that_never_answers_delays_neither_a_release_nor_the_end() {
    let collector = Collector::silent();
    let mut replica = sidecar(&collector.endpoint(), &[SOON]);
    token(&replica);
    until("it exports", || !collector.posted().is_empty());
    let asked = Instant::now();
    replica.signal(Signal::TERM);
    until("the lease is given back", || replica.has_logged(&["the lease is given back"]));
    assert_eq!(replica.wait_end().code(), Some(0), "{}", replica.log());
    // The promises given, half a second; the last spans, one. An export would be given up after ten.
    assert!(asked.elapsed() < END_MAX, "{:?}", asked.elapsed());
}

#[test]
fn a_second_signal_does_not_wait_for_a_collector_that_never_answers() {
    let collector = Collector::silent();
    // Its promises last longer than it takes to ask a second time.
    let lease = Lease { duration: 40_000, renew: 12_000, margin: 800, validity: 12_000 };
    let mut replica = sidecar_of(lease.role(ROLE, ""), &collector.endpoint(), &[SOON]);
    token(&replica);
    until("it exports", || !collector.posted().is_empty());
    replica.signal(Signal::TERM);
    until("it drains", || replica.has_logged(&["handing over"]));
    let asked = Instant::now();
    replica.signal(Signal::TERM);
    assert_eq!(replica.wait_end().code(), Some(0), "{}", replica.log());
    assert!(asked.elapsed() < END_MAX, "{:?}", asked.elapsed());
    assert!(replica.has_logged(&["ending at once"]), "{}", replica.log());
}

#[test]
fn an_endpoint_that_cannot_be_used_is_told_of_without_its_text() {
    let mut replica = sidecar("https://user:secret@collector:4318", &[SOON]);
    token(&replica);
    assert!(replica.has_logged(&["no spans are exported", "OTEL_EXPORTER_OTLP_ENDPOINT"]), "{}", replica.log());
    end(&mut replica);
    assert!(!replica.log().contains("secret"), "{}", replica.log());
}
