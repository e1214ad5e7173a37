//! What is logged where nothing is wrong, and how often the same where something is.

use rustix::process::Signal;
use testkit::redis::RedisServer;
use testkit::resp::Reply;
use testkit::sidecars::replica::{Lease, ROLE, Replica, Settings};
use testkit::wait::until;

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

#[test]
fn renewals_that_are_refused_again_and_again_are_told_once_for_each_reason_and_then_counted() {
    let lease = Lease { duration: 20_000, renew: 600, margin: 400, validity: 500 };
    let redis = known_redis(lease);
    let replica = Replica::start(0, Settings::new(0, redis.url(), lease));
    until("it leads", || replica.ask(&format!("GET /leading/{ROLE}"), "").status == 200);
    let ok = Reply::Text("OK".to_owned());
    assert_eq!(redis.command(&["CONFIG", "SET", "requirepass", "correct-horse"]), ok);
    for kind in ["normal", "pubsub"] {
        redis.command(&["CLIENT", "KILL", "TYPE", kind]);
    }
    let failed = || replica.role_metric("baton_renewals_total", &[("outcome", "error")]);
    until("many renewals have failed", || failed() >= 12.0);
    assert_eq!(redis.command(&["CONFIG", "SET", "requirepass", ""]), ok);
    until("it is told that they are answered", || replica.has_logged(&["INFO", "renewals are answered again"]));
    let log = replica.log();
    let warned: Vec<String> =
        lines_at(&log, &["WARN"]).into_iter().filter(|line| line.contains("no usable answer")).collect();
    // That the connection was closed, and what the next one was refused for.
    assert!((1..=4).contains(&warned.len()), "{}: {warned:#?}", warned.len());
    assert!(warned.iter().any(|line| line.contains("NOAUTH")), "{warned:#?}");
    let told = log.lines().find(|line| line.contains("renewals are answered again")).expect("waited for");
    let failures = told.split("failures=").nth(1).and_then(|rest| rest.split_whitespace().next()?.parse::<u32>().ok());
    assert!(failures.is_some_and(|failures| failures >= 12), "{told}");
}
