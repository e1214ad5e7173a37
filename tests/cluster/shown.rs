//! What Kubernetes shows of a leader: label, Service, Events and a mirror.

use serde_json::Value;
use testkit::wait::until_within;

use crate::node;
use crate::release::{PATIENCE, Release, Store, text};

const ALL: [&str; 10] = [
    "--set",
    "baton.config.kubernetes.podLabels=true",
    "--set",
    "baton.config.kubernetes.events=true",
    "--set",
    "baton.config.kubernetes.leaseMirror=true",
    "--set",
    "baton.leaderService.enabled=true",
    "--set-json",
    r#"baton.leaderService.ports=[{"name":"telemetry","port":80,"targetPort":"baton-telemetry"}]"#,
];

#[test]
fn label_service_events_and_mirror_follow_the_leader() {
    let _shared = node::shared();
    let release = Release::install("shown", Store::Redis, &ALL);
    let leader = release.leader();
    until_shown(&release, &leader);
    // By a handover, and by a death.
    release.kubectl(&["delete", "pod", &leader, "--wait=false"]);
    until_within(PATIENCE, "another leads", || release.leader() != leader);
    let second = release.leader();
    until_shown(&release, &second);
    node::signal("KILL", &release.processes(&second, "baton"));
    until_within(PATIENCE, "another leads", || release.leader() != second);
    let third = release.leader();
    until_shown(&release, &third);
    let events = release.get(&["events.events.k8s.io"])["items"].take();
    let told = |reason: &str, pod: &str| {
        events.as_array().is_some_and(|events| {
            events.iter().any(|event| event["reason"] == reason && event["regarding"]["name"] == pod)
        })
    };
    assert!(told("Elected", &leader) && told("HandedOver", &leader), "{events}");
    assert!(told("Elected", &second) && told("Elected", &third), "{events}");
    assert_eq!(node::refusals(&release.namespace), Vec::<String>::new());
}

/// The leader's pod alone has the label, the Service leads to it, and the mirror names it.
fn until_shown(release: &Release, leader: &str) {
    until_within(PATIENCE, &format!("{leader} alone is labelled"), || {
        let labelled = release.get(&["pods", "--selector", "baton.dev/role-scheduler=leader"]);
        names(&labelled["items"]) == [leader]
    });
    until_within(PATIENCE, "the mirror names it", || {
        release.get(&["lease", "baton-scheduler"])["spec"]["holderIdentity"] == leader
    });
    let address = text(&release.get(&["service", "demo-baton-demo-baton-leader"])["spec"]["clusterIP"]);
    let script =
        format!("import urllib.request; urllib.request.urlopen('http://{address}/leading/scheduler', timeout=2)");
    until_within(PATIENCE, "the Service leads to it", || {
        release.try_kubectl(&["exec", leader, "--container", "worker", "--", "python3", "-c", &script]).is_ok()
    });
}

fn names(items: &Value) -> Vec<String> {
    items.as_array().into_iter().flatten().map(|pod| text(&pod["metadata"]["name"])).collect()
}
