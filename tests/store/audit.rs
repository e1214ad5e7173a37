//! `baton audit` finds what it shall find, and says "unknown" of what it cannot see.

use std::time::SystemTime;

use baton::config::StoreUse;
use baton::store::redis::{AuditReport, Severity, audit};
use testkit::profile::{Profile, Profiled};
use testkit::redis::RedisServer;
use testkit::resp::Reply;
use testkit::services;

use super::refusals::{LEAST_RIGHTS, as_user, rights_for};
use super::*;

/// What is kept in a Redis that no other is beside.
const ALL: [StoreUse; 3] = [StoreUse::Leases, StoreUse::Locks, StoreUse::Jobs];

pub async fn report(config: &RedisConfig) -> AuditReport {
    // The test's own clock is what the server's is compared with.
    audit(config, &ALL, &|| SystemTime::now()).await.expect("it answers")
}

/// The severity of the finding with these words.
pub fn severity(report: &AuditReport, words: &str) -> Severity {
    let found = report.findings.iter().find(|finding| finding.what.contains(words));
    found.unwrap_or_else(|| panic!("nothing about {words:?} in {report:#?}")).severity
}

#[tokio::test]
async fn what_a_server_lacks_that_baton_can_do_without_is_a_note() {
    let redis = RedisServer::start_with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let profile = Profile { has_resp3: false, refused: &["SELECT"], refused_in_scripts: &["INFO"], ..Profile::NONE };
    let proxy = Profiled::start(redis.port(), profile).await;
    let report = report(&config(&proxy.url())).await;
    assert_eq!(report.worst(), Severity::Note, "{report:#?}");
    assert_eq!(severity(&report, "may not ask for INFO"), Severity::Note);
    assert_eq!(severity(&report, "no RESP3"), Severity::Note);
    assert_eq!(severity(&report, "may do all"), Severity::Ok);
    assert_eq!(redis.command(&["DBSIZE"]), Reply::Number(0));
}

#[tokio::test]
async fn a_sound_redis_has_no_warning_and_is_left_as_it_was() {
    let redis = RedisServer::start_with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let report = report(&config(&redis.url())).await;
    assert_eq!(report.worst(), Severity::Ok, "{report:#?}");
    assert_eq!(severity(&report, "synced always"), Severity::Ok);
    assert_eq!(severity(&report, "may do all"), Severity::Ok);
    assert_eq!(redis.command(&["DBSIZE"]), Reply::Number(0));
}

#[tokio::test]
async fn what_a_redis_can_lose_is_told_with_its_price() {
    let redis = RedisServer::start_with(&["--maxmemory", "100mb", "--maxmemory-policy", "volatile-lru"]);
    let without_guard = RedisConfig { guard: Guard::Off, ..config(&redis.url()) };
    let report = report(&without_guard).await;
    assert_eq!(severity(&report, "no append-only file"), Severity::Problem, "the guard is off");
    assert_eq!(severity(&report, "volatile-lru"), Severity::Warning);
    for finding in &report.findings {
        let told = finding.severity < Severity::Warning || !(finding.cost.is_empty() || finding.remedy.is_empty());
        assert!(told, "{finding:?}");
    }
}

#[tokio::test]
async fn replicas_and_acknowledgements_must_match() {
    let master = RedisServer::start();
    let needs_one = RedisConfig {
        replication: Replication { acks: 1, mode: AckMode::Wait, timeout: ms(100) },
        ..config(&master.url())
    };
    assert_eq!(severity(&report(&needs_one).await, "0 replicas"), Severity::Problem);
    let replica = RedisServer::start_with(&["--replicaof", "127.0.0.1", &master.port().to_string()]);
    testkit::wait_until(BOUND, "the replica is connected", || {
        master.command(&["INFO", "replication"]).text().contains("connected_slaves:1")
    })
    .await;
    assert_eq!(severity(&report(&needs_one).await, "1 replicas"), Severity::Ok);
    assert_eq!(severity(&report(&config(&master.url())).await, "1 replicas"), Severity::Warning);
    let of_replica = report(&config(&replica.url())).await;
    assert_eq!(severity(&of_replica, "it is a replica"), Severity::Problem);
    assert_eq!(severity(&of_replica, "READONLY"), Severity::Problem, "the scripts cannot write there");
}

#[tokio::test]
async fn the_master_and_those_that_acknowledge_must_be_a_majority_of_the_servers() {
    let master = RedisServer::start();
    let port = master.port().to_string();
    let mut replicas = Vec::new();
    // What is warned of, for one, two and three acknowledgements; `None` is more than there are.
    let (bad, good, too_many) = (Some(Severity::Warning), Some(Severity::Ok), None);
    for (count, expected) in [
        (1_u32, [good, too_many, too_many]),
        (2, [good, good, too_many]),
        (3, [bad, good, good]),
        (4, [bad, good, good]),
        (5, [bad, bad, good]),
    ] {
        replicas.push(RedisServer::start_with(&["--repl-diskless-sync-delay", "0", "--replicaof", "127.0.0.1", &port]));
        let connected = format!("connected_slaves:{count}");
        testkit::wait_until(BOUND, &connected, || master.command(&["INFO", "replication"]).text().contains(&connected))
            .await;
        for (acks, expected) in (1..).zip(expected) {
            let replication = Replication { acks, mode: AckMode::Wait, timeout: ms(100) };
            let seen = report(&RedisConfig { replication, ..config(&master.url()) }).await;
            let what = format!("{count} replicas are connected, {acks} must acknowledge");
            assert_eq!(severity(&seen, &what), expected.unwrap_or(Severity::Problem), "{what}");
            let remedy = &seen.findings.iter().find(|finding| finding.what == what).expect("found above").remedy;
            let needed = format!("replication.acks: {}, ", count.div_ceil(2));
            assert_eq!(remedy.starts_with(&needed), expected == bad, "{what}: {remedy}");
        }
    }
}

#[tokio::test]
async fn acknowledgements_are_advised_where_they_can_be_had_only() {
    let master = RedisServer::start();
    let port = master.port().to_string();
    let _replica = RedisServer::start_with(&["--repl-diskless-sync-delay", "0", "--replicaof", "127.0.0.1", &port]);
    let connected = "connected_slaves:1";
    testkit::wait_until(BOUND, connected, || master.command(&["INFO", "replication"]).text().contains(connected)).await;
    for (profile, is_advised) in [(Profile::NONE, true), (services::named("Redis Cloud").profile, false)] {
        let service = Profiled::start(master.port(), profile).await;
        let seen = report(&config(&service.url())).await;
        let finding = seen.findings.iter().find(|finding| finding.what.ends_with("0 must acknowledge"));
        let remedy = &finding.expect("it is looked at").remedy;
        assert_eq!(remedy.contains("replication.acks: 1"), is_advised, "{remedy}");
    }
    // And where nothing can be had, that is said at once.
    let service = Profiled::start(master.port(), services::named("ElastiCache Serverless").profile).await;
    let replication = Replication { acks: 1, mode: AckMode::Wait, timeout: ms(100) };
    let seen = report(&RedisConfig { replication, ..config(&service.url()) }).await;
    assert_eq!(severity(&seen, "it has no WAIT"), Severity::Problem);
    assert_eq!(severity(&seen, "may not ask for the time"), Severity::Problem);
}

#[tokio::test]
async fn what_is_forbidden_to_see_is_unknown_and_what_is_needed_is_a_problem() {
    let redis = RedisServer::start_with(&["--appendonly", "yes"]);
    rights_for(&redis, "sidecar", LEAST_RIGHTS);
    let seen = report(&as_user(&redis, "sidecar")).await;
    assert_eq!(severity(&seen, "how often it is synced"), Severity::Unknown);
    assert_eq!(severity(&seen, "min-replicas-to-write"), Severity::Unknown);
    assert_eq!(severity(&seen, "may do all"), Severity::Ok, "with the least rights");
    rights_for(&redis, "deaf", &LEAST_RIGHTS.replace("&baton:*", ""));
    assert_eq!(severity(&report(&as_user(&redis, "deaf")).await, "channels"), Severity::Problem);
}

#[tokio::test]
async fn a_right_that_only_locks_need_is_a_warning_and_named() {
    let redis = RedisServer::start_with(&["--appendonly", "yes"]);
    for right in [
        "get",
        "set",
        "hgetall",
        "hlen",
        "hdel",
        "zadd",
        "zcard",
        "zrange",
        "zrank",
        "zrem",
        "zremrangebyscore",
        "zscore",
        "scan",
    ] {
        let costs = if right == "scan" { "all works but the list of all locks" } else { "locks do not" };
        let rest = LEAST_RIGHTS.split_whitespace().filter(|word| *word != format!("+{right}")).collect::<Vec<_>>();
        let user = format!("without-{right}");
        rights_for(&redis, &user, &rest.join(" "));
        let seen = report(&as_user(&redis, &user)).await;
        let of_locks = seen.findings.iter().filter(|finding| finding.cost.contains(costs));
        let of_locks: Vec<_> = of_locks.map(|finding| (finding.severity, finding.what.as_str())).collect();
        assert!(
            matches!(of_locks[..], [(Severity::Warning, what)] if what.contains(&format!("add +{right} "))),
            "{right}: {of_locks:?} in {seen:#?}"
        );
        assert_eq!(seen.findings.iter().filter(|finding| finding.what.contains("add +")).count(), 1, "{seen:#?}");
    }
    assert_eq!(redis.command(&["KEYS", "*"]), Reply::List(Vec::new()), "nothing is left");
}

#[tokio::test]
async fn a_redis_that_is_not_there_has_no_report() {
    let mut redis = RedisServer::start();
    redis.kill();
    let error = audit(&config(&redis.url()), &ALL, &|| SystemTime::now()).await.expect_err("nobody answers");
    assert!(matches!(error, StoreError::Unreachable { .. }), "{error:?}");
}

#[tokio::test]
async fn a_clock_that_is_off_is_told() {
    let redis = RedisServer::start();
    let behind = || SystemTime::now() - Duration::from_secs(100);
    let report = audit(&config(&redis.url()), &ALL, &behind).await.expect("it answers");
    let finding = report.findings.iter().find(|finding| finding.what.contains("clock is")).expect("a finding");
    let off: i64 = finding.what.split_whitespace().find_map(|word| word.parse().ok()).expect("a number");
    assert!(finding.severity == Severity::Note && (95_000..105_000).contains(&off), "{finding:?}");
}
