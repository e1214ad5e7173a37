//! A configuration that changes while a role is led, mounted as Kubernetes mounts a ConfigMap.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use crate::group::{Group, ROLE};
use crate::replica::{Lease, Replica};
use crate::wait::until;

/// Writes a version and swaps the link to it, as the kubelet does.
fn publish(root: &Path, version: &str, content: &str) {
    let folder = root.join(version);
    fs::create_dir(&folder).expect("a new version");
    fs::write(folder.join("config.yaml"), content).expect("its content");
    let fresh = root.join("..data_tmp");
    symlink(version, &fresh).expect("a link");
    fs::rename(&fresh, root.join("..data")).expect("swapped");
}

/// Replaces the plain configuration file by a mounted one with the same content.
fn mount(replica: &Replica) {
    let root = replica.config.parent().expect("it is in a folder");
    publish(root, "..version-1", &replica.config_with(&replica.settings.roles));
    let link = root.join("link");
    symlink("..data/config.yaml", &link).expect("a link");
    fs::rename(&link, &replica.config).expect("mounted");
}

fn reloads(replica: &Replica, outcome: &str) -> f64 {
    let value = replica.metric("baton_config_reloads_total", &[("outcome", outcome)]);
    value.expect("every series is there from the start")
}

/// Publishes a version to every replica and waits until each has dealt with it.
fn publish_to_all(group: &Group, version: &str, roles: &str, outcome: &str) {
    let before: Vec<f64> = group.replicas.iter().map(|replica| reloads(replica, outcome)).collect();
    for replica in &group.replicas {
        let root = replica.config.parent().expect("it is in a folder");
        publish(root, version, &replica.config_with(roles));
    }
    until("every replica has seen the change", || {
        group.replicas.iter().zip(&before).all(|(replica, before)| reloads(replica, outcome) == before + 1.0)
    });
}

fn leads(replica: &Replica, role: &str) -> bool {
    let answer = replica.ask(&format!("GET /leader/{role}"), "");
    answer.status == 200 && answer.body.contains(r#""leader":true"#)
}

#[test]
fn roles_come_and_go_while_another_roles_leader_keeps_its_token() {
    let group = Group::start(2, Lease::LONG);
    let first = group.leader();
    group.replicas.iter().for_each(mount);
    let scheduler = Lease::LONG.role(ROLE, "");
    let both = scheduler.clone() + &Lease::LONG.role("reports", "");

    publish_to_all(&group, "..version-2", &both, "ok");
    until("somebody leads the new role", || group.replicas.iter().any(|replica| leads(replica, "reports")));
    assert_eq!(group.replicas[0].ask("GET /leader", "").status, 400, "two roles and no default");

    publish_to_all(&group, "..version-3", "  - { name: Not A Label }\n", "refused");
    for replica in &group.replicas {
        assert!(replica.has_logged(&["WARN", "refused", "Not A Label"]), "the log says what is wrong");
    }
    until("the old roles stay", || group.replicas.iter().any(|replica| leads(replica, "reports")));

    publish_to_all(&group, "..version-4", &scheduler, "ok");
    until("the role is gone", || {
        group.replicas.iter().all(|replica| replica.ask("GET /leader/reports", "").status == 404)
    });
    let key = "baton:{reports}:lease";
    until("its lease was given back", || {
        group.redis.command(&["EXISTS", key]) == crate::support::resp::Reply::Number(0)
    });
    group.still_leads(&first, Duration::from_millis(100));
    assert_eq!(group.apps.terms().len(), 1, "the other role's leader changed: {:?}", group.apps.terms());
    group.finish("configuration reloaded three times", "");
}
