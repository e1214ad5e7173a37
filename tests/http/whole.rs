//! The real driver over the memory store behind both listeners: what the staged tests cannot show.

use std::sync::Arc;
use std::time::Duration;

use baton::base::process::{Entropy, StallWatch};
use baton::protocol::Timing;
use baton::role::{RoleContext, RoleSpec, role};
use baton::store::LeaseStore;
use baton::store::memory::MemoryStore;
use baton::telemetry::{Metrics, Telemetry};

use crate::client::{ask_until, ask_with};
use crate::stage::{Server, clock, name};

/// A replica of `scheduler` with a lease of 600 ms, on a store it may share.
fn replica(identity: &str, store: Arc<dyn LeaseStore>, metrics: &Arc<Metrics>) -> baton::role::RoleHandle {
    let mut entropy = Entropy::from_system();
    let spec = RoleSpec {
        name: name("scheduler"),
        identity: identity.into(),
        session: entropy.session(),
        attempts: Default::default(),
        timing: Timing::from_lease(Duration::from_millis(600)).unwrap(),
        guard: true,
        app_checked: false,
        shard_stagger: Duration::ZERO,
        role_stagger: Duration::ZERO,
        seed: entropy.seed(),
    };
    let context = RoleContext {
        store,
        clock: clock(),
        telemetry: Telemetry::new(Arc::clone(metrics)),
        stall: Arc::new(StallWatch::new(clock())),
    };
    metrics.add_role(&spec.name);
    let (handle, task) = role(spec, context);
    tokio::spawn(task);
    handle
}

#[tokio::test]
async fn a_resignation_over_http_makes_the_other_replica_lead_with_a_greater_token() {
    let metrics = Arc::new(Metrics::new(jiff::Timestamp::now()));
    let store: Arc<dyn LeaseStore> = Arc::new(MemoryStore::new(clock()));
    let mut servers = Vec::new();
    for identity in ["web-0", "web-1"] {
        let server = Server::start(&[]).await;
        let metrics =
            if identity == "web-0" { Arc::clone(&metrics) } else { Arc::new(Metrics::new(jiff::Timestamp::now())) };
        server.roles.replace(vec![replica(identity, Arc::clone(&store), &metrics)], None);
        servers.push(server);
        if identity == "web-0" {
            ask_until(servers[0].address, "GET /leading", |reply| reply.status == 200).await;
        }
    }
    let first = ask_until(servers[0].address, "GET /leader", |reply| reply.json()["leader"] == true).await.json();
    ask_until(servers[1].address, "GET /leader", |reply| reply.json()["holder"] == "web-0").await;
    let resigned = ask_with(
        servers[0].address,
        "POST /leader/scheduler/resign",
        &[("Content-Type", "application/json")],
        br#"{"cooldown":"1h"}"#,
    )
    .await;
    assert_eq!(resigned.status, 202, "{resigned:?}");
    let second = ask_until(servers[1].address, "GET /leader", |reply| reply.json()["leader"] == true).await.json();
    assert!(second["token"].as_u64() > first["token"].as_u64(), "{first} then {second}");
    ask_until(servers[0].address, "GET /", |reply| reply.json()["name"] == "web-1").await;
    let text = metrics.render(Vec::new(), true).unwrap();
    for (series, at_least) in [
        ("baton_transitions_total{role=\"scheduler\"} ", 2),
        ("baton_releases_total{reason=\"resigned\",role=\"scheduler\"} ", 1),
        ("baton_campaigns_total{outcome=\"granted\",role=\"scheduler\"} ", 1),
        ("baton_store_command_duration_seconds_count{command=\"campaign\",outcome=\"ok\"} ", 1),
        ("baton_store_command_duration_seconds_count{command=\"renew\",outcome=\"ok\"} ", 1),
        ("baton_store_command_duration_seconds_count{command=\"release\",outcome=\"ok\"} ", 1),
    ] {
        let count = text.lines().find_map(|line| line.strip_prefix(series)).unwrap_or_else(|| panic!("{series}"));
        assert!(count.parse::<u64>().unwrap() >= at_least, "{series}{count}");
    }
}
