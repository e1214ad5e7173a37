//! A configuration that changes while a role is led, mounted as Kubernetes mounts a ConfigMap.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;
use testkit::redis::RedisServer;
use testkit::resp::Reply;
use testkit::sidecars::replica::{Lease, Replica, Settings};
use testkit::wait::{until, until_within};

use crate::group::{self, Group, LEASE_KEY, ROLE};

/// For drains that last longer than it takes to see two changes of a configuration.
const PATIENT: Lease = Lease { duration: 12_000, renew: 3_000, margin: 300, validity: 8_000 };

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
    let group = group::start(2, Lease::LONG);
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
    until("its lease was given back", || group.redis.command(&["EXISTS", key]) == Reply::Number(0));
    group.still_leads(&first, Duration::from_millis(100));
    assert_eq!(group.apps.terms().len(), 1, "the other role's leader changed: {:?}", group.apps.terms());
    group.finish("configuration reloaded three times", "");
}

/// Two replicas with roles of these entries, of which the first leads: its campaign for a role that was given back is
/// granted at once, so that it is the first of its process.
fn pair(roles: &str) -> Group {
    let mut group = group::start(2, Lease::SHORT);
    group.leader();
    for replica in &mut group.replicas {
        replica.signal(Signal::TERM);
        replica.wait_end();
        replica.settings.roles = roles.to_owned();
    }
    group.start_again(0);
    let first = group.leader();
    assert_eq!(first.who.replica, 0);
    group.start_again(1);
    group
}

/// A version of the configuration for this replica alone.
fn publish_to(replica: &Replica, version: &str, roles: &str) {
    publish(replica.config.parent().expect("it is in a folder"), version, &replica.config_with(roles));
}

fn state(replica: &Replica, role: &str) -> (u16, String) {
    let answer = replica.ask(&format!("GET /leader/{role}"), "");
    let body: serde_json::Value = serde_json::from_str(&answer.body).expect("JSON");
    (answer.status, body["state"].as_str().unwrap_or_default().to_owned())
}

#[test]
fn a_role_that_is_removed_and_added_again_while_its_promises_stand_has_one_leader() {
    let other = Lease::LONG.role("other", "");
    let both = PATIENT.role(ROLE, "") + &other;
    let group = pair(&both);
    let first = group.leader();
    let replica = &group.replicas[0];
    mount(replica);
    until("the other role has a leader, too", || group.replicas.iter().any(|replica| leads(replica, "other")));
    publish_to(replica, "..version-2", &other);
    until("the role is gone", || state(replica, ROLE).0 == 404);
    publish_to(replica, "..version-3", &both);
    until("the role is there again", || state(replica, ROLE).0 == 200);
    let next = group.leader_after(&first);
    until("the change is in force", || reloads(replica, "ok") == 2.0);
    // Whatever was promised by then has run out.
    group.still_leads(&next, PATIENT.duration());
    group.finish("a role was removed and added again", "");
}

/// A replica that leads two roles, the first of which has promised for a while, and a version of its configuration in
/// which that role is another, or is not.
fn changed(role: Option<&str>) -> (RedisServer, Replica) {
    let redis = RedisServer::start();
    let other = Lease::LONG.role("other", "");
    let roles = PATIENT.role(ROLE, "") + &other;
    let replica = Replica::start(0, Settings { roles, ..Settings::new(0, redis.url(), PATIENT) });
    mount(&replica);
    until("it leads both", || leads(&replica, "other") && leads(&replica, ROLE));
    publish_to(&replica, "..version-2", &(role.unwrap_or_default().to_owned() + &other));
    (redis, replica)
}

/// Sends the second signal, and checks that it was one: nobody waited for the promises, so the lease is left.
fn ends_at_the_second_signal(redis: &RedisServer, mut replica: Replica) {
    replica.signal(Signal::TERM);
    assert!(replica.wait_end().success());
    assert!(replica.has_logged(&["a second signal"]));
    assert_eq!(redis.command(&["EXISTS", LEASE_KEY]), Reply::Number(1), "the promises were waited for");
}

#[test]
fn signals_are_heard_while_a_reload_waits_for_a_drain() {
    let (redis, replica) = changed(Some(&Lease { margin: 400, ..PATIENT }.role(ROLE, "")));
    until("the changed role drains", || state(&replica, ROLE).1 == "draining");
    replica.signal(Signal::TERM);
    until("the signal is heard", || replica.has_logged(&["shutting down"]));
    assert_eq!(state(&replica, ROLE).1, "draining", "the signal had to wait");
    ends_at_the_second_signal(&redis, replica);
}

#[test]
fn a_second_signal_ends_a_role_that_a_reload_has_removed() {
    let (redis, replica) = changed(None);
    until("the role is gone", || state(&replica, ROLE).0 == 404);
    replica.signal(Signal::TERM);
    until("the signal is heard", || replica.has_logged(&["shutting down"]));
    ends_at_the_second_signal(&redis, replica);
}

#[test]
fn a_dead_connection_is_found_in_the_time_of_a_role_that_a_reload_has_added() {
    let redis = RedisServer::start();
    let slow = Lease { duration: 30_000, renew: 10_000, margin: 1_000, validity: 500 };
    let replica = Replica::start(0, Settings::new(0, redis.url(), slow));
    mount(&replica);
    publish_to(&replica, "..version-2", &(slow.role(ROLE, "") + &Lease::SHORT.role("fast", "")));
    until("it leads the fast role", || leads(&replica, "fast"));
    let ended = || replica.log().matches("the subscription ended").count();
    let before = ended();
    redis.pause();
    // The subscription is asked for a sign of life after two fifths of the shortest lease: 0.8 s, and not 6.
    until_within(Duration::from_secs(4), "somebody asks whether Redis is there", || ended() > before);
}
