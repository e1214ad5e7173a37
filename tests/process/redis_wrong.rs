//! A Redis that cannot be used, from the start or later: what is wrong is named, and nothing is lost or overwritten.

use std::time::Instant;

use testkit::redis::{Data, RedisServer};
use testkit::resp::Reply;
use testkit::sidecars::replica::{Lease, Settings};
use testkit::wait::until;

use crate::group::{self, Group, LEASE_KEY, RECORD_KEY};

/// One replica that is pointed at this URL.
fn alone(redis: RedisServer, redis_url: String) -> Group {
    group::start_with(redis, vec![Settings::new(0, redis_url, Lease::SHORT)])
}

/// Waits until the only replica says so to its app, with these words, and in its log.
fn says(group: &Group, state: &str, words: &[&str]) {
    let moment = Instant::now();
    group.answer_after(0, moment, &format!("{state}, because of {words:?}"), |seen| {
        let reason = seen.told.reason.as_deref().unwrap_or("");
        assert!(!seen.told.leader, "{seen:?}");
        seen.told.state == state && words.iter().all(|word| reason.contains(word))
    });
    until("the log says so, too", || group.replicas[0].has_logged(&[&["WARN"], words].concat()));
}

#[test]
fn a_replica_starts_without_redis_and_leads_when_it_comes() {
    let mut redis = RedisServer::start();
    redis.stop(Data::Lost);
    let url = redis.url();
    let mut group = alone(redis, url);
    says(&group, "unreachable", &["cannot be reached"]);
    assert_eq!(group.replicas[0].metric("baton_store_up", &[]), Some(0.0));
    group.redis.start_again();
    group.leader();
    assert_eq!(group.replicas[0].metric("baton_store_up", &[]), Some(1.0));
    group.finish("Redis down at the start", "");
}

#[test]
fn a_wrong_password_is_named_and_not_repeated() {
    let redis = RedisServer::start_with(&["--requirepass", "correct-horse"]);
    let url = redis.url().replace("redis://", "redis://:battery-staple@");
    let group = alone(redis, url);
    says(&group, "unreachable", &["wrong user or password"]);
    assert!(!group.replicas[0].log().contains("battery-staple"), "a password in the log");
    assert_eq!(group.redis.command(&["CONFIG", "SET", "requirepass", "battery-staple"]), Reply::Text("OK".to_owned()));
    group.leader();
    group.finish("wrong password", "");
}

#[test]
fn a_missing_password_is_named() {
    let redis = RedisServer::start_with(&["--requirepass", "correct-horse"]);
    let url = redis.url();
    let group = alone(redis, url);
    says(&group, "unreachable", &["asks for a password"]);
    group.finish("no password", "");
}

#[test]
fn a_database_that_does_not_exist_is_named() {
    let redis = RedisServer::start();
    let url = redis.url().replace("/0", "/99");
    let group = alone(redis, url);
    says(&group, "unreachable", &["no such database"]);
    group.finish("wrong database", "");
}

#[test]
fn a_read_only_replica_is_named_and_used_once_it_is_promoted() {
    let master = RedisServer::start();
    let redis = RedisServer::start_with(&["--replicaof", &format!("127.0.0.1 {}", master.port())]);
    let url = redis.url();
    let group = alone(redis, url);
    says(&group, "unreachable", &["read-only replica"]);
    assert_eq!(group.redis.command(&["REPLICAOF", "NO", "ONE"]), Reply::Text("OK".to_owned()));
    group.leader();
    group.finish("read-only replica", "");
}

#[test]
fn a_master_that_becomes_a_replica_under_a_leader_is_named() {
    let other = RedisServer::start();
    let group = group::start(1, Lease::SHORT);
    group.leader();
    group.redis.command(&["REPLICAOF", "127.0.0.1", &other.port().to_string()]);
    until("the leader says that it is a read-only replica", || {
        let seen = group.apps.last(0).expect("it led");
        seen.told.state == "unreachable" && seen.told.reason.is_some_and(|reason| reason.contains("read-only replica"))
    });
    group.redis.command(&["REPLICAOF", "NO", "ONE"]);
    let moment = Instant::now();
    group.answer_after(0, moment, "it leads again", |seen| seen.told.leader);
    group.finish("demoted under a leader", "");
}

#[test]
fn a_redis_that_may_evict_leases_is_named_in_the_log_and_beside_every_reason() {
    let redis = RedisServer::start_with(&["--maxmemory-policy", "allkeys-lru"]);
    let url = redis.url();
    let group = alone(redis, url);
    says(&group, "guarded", &["maxmemory-policy is allkeys-lru"]);
    group.leader();
    group.finish("allkeys-lru", "");
}

#[test]
fn garbage_in_a_key_is_named_and_left_as_it_is() {
    for key in [LEASE_KEY, RECORD_KEY] {
        let redis = RedisServer::start();
        redis.command(&["SET", key, "somebody else's"]);
        let url = redis.url();
        let mut group = alone(redis, url);
        says(&group, "unreachable", &[key, "not Baton's"]);
        assert_eq!(group.redis.command(&["GET", key]), Reply::Text("somebody else's".to_owned()));
        assert!(group.replicas[0].is_running());
        group.redis.command(&["DEL", key]);
        group.leader();
        group.finish(&format!("garbage in {key}"), "");
    }
}

#[test]
fn garbage_that_appears_under_a_leader_ends_its_term_and_is_left_as_it_is() {
    let mut group = group::start(2, Lease::SHORT);
    let first = group.leader();
    let moment = Instant::now();
    group.redis.command(&["SET", LEASE_KEY, "somebody else's"]);
    let seen = group.answer_after(first.who.replica, moment, "it stops leading and names the key", |seen| {
        seen.told.reason.as_deref().is_some_and(|reason| reason.contains(LEASE_KEY))
    });
    assert!(!seen.told.leader);
    assert_eq!(group.redis.command(&["GET", LEASE_KEY]), Reply::Text("somebody else's".to_owned()));
    assert!(group.replicas.iter_mut().all(|replica| replica.is_running()));
    group.redis.command(&["DEL", LEASE_KEY]);
    group.leader_after(&first);
    group.finish("garbage under a leader", "");
}
