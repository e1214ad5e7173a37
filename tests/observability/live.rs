//! What running sidecars tell in `/metrics`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use testkit::ports::free_port;
use testkit::redis::RedisServer;
use testkit::sidecars::http::ask;
use testkit::sidecars::replica::{Lease, Replica, Settings};
use testkit::wait::until_some;

use crate::promql::words_of;

/// The labels of a target, which Prometheus adds to every series: by itself, or as the Prometheus operator tells it to.
pub const TARGET_LABELS: [&str; 6] = ["cluster", "namespace", "job", "pod", "container", "instance"];

/// Each series' name, with the labels that it has.
type Families = BTreeMap<String, BTreeSet<String>>;

fn scrape(replica: &Replica) -> Families {
    let mut families = Families::new();
    for line in ask(replica.telemetry(), "GET /metrics", "").body.lines().filter(|line| !line.starts_with('#')) {
        let (series, _) = line.rsplit_once(' ').unwrap();
        // A series is an expression.
        let selector = words_of(series).selectors.remove(0);
        families.entry(selector.metric).or_default().extend(selector.labels);
    }
    families
}

/// All that a sidecar with roles, shards, jobs and locks has on Redis, the latter two each on a store of their own, one
/// on a quorum, and one with credentials that end.
pub fn families() -> &'static Families {
    static FAMILIES: OnceLock<Families> = OnceLock::new();
    FAMILIES.get_or_init(|| {
        let redis = RedisServer::start();
        let mut settings = Settings::new(0, redis.url(), Lease::SHORT);
        settings.roles += &Lease::SHORT.role("parts", ", shards: 2");
        settings.roles +=
            "jobs:\n  - { name: tick, role: scheduler, schedule: '@every 1h', run: { exec: { command: ['true'] } } }\n";
        let own = format!("{{ redis: {{ url: '{}' }} }}", redis.url());
        settings.roles += &format!("locks: {{ lease: 30s, store: {own} }}\njobsStore: {own}\n");
        settings.roles += "defaultRole: scheduler\n";
        let replica = Replica::start(0, settings);
        let mut families = scrape(&replica);
        // Nobody listens there; which members do not answer is told, too.
        let nowhere: Vec<String> = (0..3).map(|_| format!("redis://127.0.0.1:{}/0", free_port())).collect();
        let quorum = Replica::start(1, Settings::on_quorum(1, &nowhere, Lease::SHORT));
        let members = || scrape(&quorum).remove("baton_store_member_up");
        families.insert("baton_store_member_up".to_owned(), until_some("members are told of", members));
        // Nor there, but a credential for it is had.
        let redis_more = ", auth: { command: { argv: [echo, a-token] } }".to_owned();
        let lets_in = Settings { redis_more, ..Settings::new(2, nowhere[0].clone(), Lease::SHORT) };
        let lets_in = Replica::start(2, lets_in);
        for name in ["baton_credential_renewals_total", "baton_credential_expiry_timestamp_seconds"] {
            let told = || scrape(&lets_in).remove(name);
            families.insert(name.to_owned(), until_some("credentials are told of", told));
        }
        families.insert("up".to_owned(), BTreeSet::new());
        families
    })
}

/// What is wrong with the metrics and labels of an expression.
pub fn complaints_about(place: &str, expression: &str) -> Vec<String> {
    let (families, words) = (families(), words_of(expression));
    let mut complaints = Vec::new();
    // Labels that the expression makes itself.
    let mut known: BTreeSet<&str> = TARGET_LABELS.into();
    known.extend(expression.contains("label_replace").then_some("replica"));
    for selector in &words.selectors {
        let Some(labels) = families.get(&selector.metric) else {
            complaints.push(format!("{place}: no sidecar has {}: {expression}", selector.metric));
            continue;
        };
        let strange =
            selector.labels.iter().filter(|label| !labels.contains(*label) && !TARGET_LABELS.contains(&label.as_str()));
        complaints.extend(strange.map(|label| format!("{place}: {} has no label {label}", selector.metric)));
        known.extend(labels.iter().map(String::as_str));
    }
    let strange = words.grouping.iter().filter(|label| !known.contains(label.as_str()));
    complaints.extend(strange.map(|label| format!("{place}: nothing has the label {label}: {expression}")));
    if words.selectors.is_empty() {
        complaints.push(format!("{place}: it asks for nothing: {expression}"));
    }
    complaints
}

#[test]
fn no_label_of_ours_is_one_that_prometheus_renames() {
    for (name, labels) in families() {
        for label in TARGET_LABELS {
            assert!(!labels.contains(label), "{name}: Prometheus would call its {label} exported_{label}");
        }
    }
}

#[test]
fn a_metric_or_label_that_is_not_there_is_found() {
    let count = |expression: &str| complaints_about("here", expression).len();
    assert_eq!(count("sum by (job, role) (baton_leader{namespace=\"a\", role=\"b\"})"), 0);
    assert_eq!(
        count("histogram_quantile(0.5, sum by (le, role) (rate(baton_renewal_duration_seconds_bucket[5m])))"),
        0
    );
    assert_eq!(count("baton_leaders"), 1);
    assert_eq!(count("baton_leader{rôle=\"a\"}".replace('ô', "u").as_str()), 1);
    assert_eq!(count("sum by (reason) (baton_leader)"), 1);
    assert_eq!(count("vector(1)"), 1);
}
