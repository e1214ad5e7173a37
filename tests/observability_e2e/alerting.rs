//! A lease that is lost for real reaches somebody, and nothing else does.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::sidecars::replica::{Lease, ROLE};
use testkit::wait::{holds_for, until};

use crate::files::{path, text};
use crate::prometheus::{APP, NAMESPACE};
use crate::rules::{divided, rules};
use crate::server::Server;
use crate::stage::Stage;
use crate::webhook::Webhook;

/// Alertmanager with the documented configuration, its receiver being `webhook`, and no wait for more alerts.
fn alertmanager(webhook: &Webhook) -> Server {
    let page = text("docs/monitoring.md");
    let documented = page.split("```yaml alertmanager\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let url = format!("http://{}/", webhook.address);
    let mut config = documented.to_owned();
    for (documented, here) in [("http://127.0.0.1:8080/alerts", url.as_str()), ("group_wait: 30s", "group_wait: 0s")] {
        assert!(config.contains(documented), "{documented}");
        config = config.replace(documented, here);
    }
    let server = Server::start("prometheus-alertmanager", &[("alertmanager.yml", &config)], |address| {
        vec![
            "--config.file=alertmanager.yml".to_owned(),
            "--storage.path=data".to_owned(),
            format!("--web.listen-address={address}"),
            // It has no others to talk to.
            "--cluster.listen-address=".to_owned(),
        ]
    });
    let words = ["check-config", "alertmanager.yml"];
    let said = Command::new("amtool").args(words).current_dir(server.folder.path()).output();
    let said = said.expect("amtool comes with Alertmanager");
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stdout));
    server
}

/// Pauses a leader for longer than its lease, waits for the alert, and then for `quiet` that nothing else comes.
fn a_lost_lease_is_told(rules: &str, quiet: Duration) {
    let webhook = Webhook::start();
    let alertmanager = alertmanager(&webhook);
    let stage = Stage::start(Lease::LONG, "", rules, Some(&alertmanager));
    assert_eq!(webhook.alerts(), Vec::<Value>::new(), "all is well");
    let (lost, _) = stage.pause_the_leader();
    let resumed = Instant::now();
    until("an alert arrives", || !webhook.alerts().is_empty());
    let arrived = resumed.elapsed();
    let alert = webhook.alerts().remove(0);
    let pod = format!("web-{}", lost.who.replica);
    let wanted = json!({
        "alertname": "BatonLeaseLost", "severity": "warning", "namespace": NAMESPACE, "job": APP, "role": ROLE,
        "reason": "expired", "pod": pod, "instance": format!("{pod}:4041"),
    });
    assert_eq!((&alert["status"], &alert["labels"]), (&json!("firing"), &wanted), "{alert}");
    let annotations = &alert["annotations"];
    assert_eq!(annotations["summary"], format!("{ROLE} was lost by its leader: expired."));
    let description = format!(
        "{pod} of {APP} in {NAMESPACE} lost the role {ROLE} against its will (expired). Nobody led until another \
         replica took over."
    );
    assert_eq!(annotations["description"], description);
    assert!(path(annotations["runbook_url"].as_str().unwrap()).is_file(), "{annotations}");

    holds_for(quiet, "no other alert arrives", || {
        webhook.alerts().iter().all(|alert| alert["labels"]["alertname"] == "BatonLeaseLost")
    });
    // Nor would anything have, but for Alertmanager.
    let firing = stage.prometheus.query("count by (alertname) (max_over_time(ALERTS{alertstate=\"firing\"}[1h]))");
    assert_eq!(firing.len(), 1, "{firing:?}");
    println!("BatonLeaseLost arrived {} ms after the leader had noticed; nothing else came", arrived.as_millis());
    stage.finish();
}

#[test]
fn the_alert_of_a_lost_lease_arrives_at_a_webhook() {
    a_lost_lease_is_told(&rules(), Duration::from_secs(5));
}

/// With every duration divided by six: what would follow within some minutes follows within some seconds.
#[test]
fn nothing_else_is_told_in_the_minutes_after() {
    a_lost_lease_is_told(&divided(6), Duration::from_secs(45));
}
