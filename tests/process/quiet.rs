//! What is logged where nothing is wrong.

use rustix::process::Signal;
use testkit::redis::RedisServer;
use testkit::sidecars::replica::{Lease, ROLE, Replica, Settings};
use testkit::sidecars::wait::until;

use crate::group;

/// The lines of these levels.
fn lines_at(log: &str, levels: &[&str]) -> Vec<String> {
    let is_at = |line: &&str| line.split_whitespace().any(|word| levels.contains(&word));
    log.lines().filter(is_at).map(str::to_owned).collect()
}

fn end(replica: &mut Replica) {
    replica.signal(Signal::TERM);
    assert!(replica.wait_end().success());
}

/// A Redis where somebody led and gave the role back: a young one is shut for a lease, which is worth a warning.
fn known_redis(lease: Lease) -> RedisServer {
    let redis = RedisServer::start();
    let mut first = Replica::start(9, Settings::new(9, redis.url(), lease));
    until("somebody has led", || first.ask(&format!("GET /leading/{ROLE}"), "").status == 200);
    end(&mut first);
    redis
}

#[test]
fn a_healthy_start_a_handover_and_an_end_log_no_warning_and_no_wrong_reason() {
    let lease = Lease::LONGER;
    let mut group = group::start_on(known_redis(lease), 3, lease);
    let first = group.leader();
    let old = first.who.replica;
    // Of those that hear the release, one has just started.
    let late = (old + 1) % 3;
    end(&mut group.replicas[late]);
    group.start_again(late);
    until("the late one knows who leads", || group.replicas[late].has_logged(&["another replica leads"]));
    let answer = group.replicas[old].ask(&format!("POST /leader/{ROLE}/resign"), r#"{"cooldown":"1s"}"#);
    assert_eq!(answer.status, 202, "{}", answer.body);
    let next = group.leader_after(&first).who.replica;
    for follower in (0..3).filter(|number| *number != next) {
        end(&mut group.replicas[follower]);
        let log = group.replicas[follower].log();
        assert!(log.contains("shutting down: this replica leads nothing"), "{log}");
        assert!(!log.contains("handing over what this replica leads"), "{log}");
    }
    end(&mut group.replicas[next]);
    assert!(group.replicas[next].has_logged(&["handing over what this replica leads", "roles=\"scheduler\""]));
    for replica in &group.replicas {
        let log = replica.log();
        assert_eq!(lines_at(&log, &["WARN", "ERROR"]), Vec::<String>::new(), "{log}");
        assert!(!log.contains("watching for a lease"), "the release was heard: {log}");
    }
    group.finish("a healthy group", "");
}
