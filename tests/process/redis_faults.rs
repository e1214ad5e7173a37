//! Redis restarts, disappears, hangs, forgets, or is meddled with while somebody leads.

use std::time::{Duration, Instant};

use testkit::redis::{Data, RedisServer};
use testkit::resp::Reply;
use testkit::sidecars::claims::Term;
use testkit::sidecars::replica::Lease;
use testkit::wait::{SLACK, last_for, until, until_some};

use crate::group::{self, Group, LEASE_KEY, ms_between};

fn renewals(group: &Group, term: &Term, outcome: &str) -> f64 {
    group.replicas[term.who.replica].role_metric("baton_renewals_total", &[("outcome", outcome)])
}

#[test]
fn a_redis_that_restarts_empty_within_the_lease_costs_neither_the_leader_nor_its_token() {
    let mut group = group::start(3, Lease::LONG);
    let first = group.leader();
    let restarted_at = Instant::now();
    group.redis.restart(Data::Lost);
    until("the lease is put back", || renewals(&group, &first, "reasserted") >= 1.0);
    let back_at = Instant::now();
    group.still_leads(&first, Lease::LONG.duration() * 3 / 2);
    assert_eq!(group.redis.command(&["HGET", LEASE_KEY, "token"]), Reply::Text(first.token.to_string()));
    assert_eq!(group.apps.terms().len(), 1, "P5: {:?}", group.apps.terms());
    let measured = format!("the lease is back after {} ms, ", ms_between(restarted_at, back_at));
    group.finish("Redis restarted without its data", &measured);
}

#[test]
fn a_redis_that_restarts_with_its_data_costs_neither_the_leader_nor_its_token() {
    let redis = RedisServer::start_with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let mut group = group::start_on(redis, 3, Lease::LONG);
    let first = group.leader();
    until("it has renewed", || renewals(&group, &first, "ok") >= 1.0);
    group.redis.kill();
    group.redis.start_again();
    assert_eq!(group.redis.command(&["HGET", LEASE_KEY, "token"]), Reply::Text(first.token.to_string()));
    let renewed = renewals(&group, &first, "ok");
    until("it renews again", || renewals(&group, &first, "ok") > renewed);
    group.still_leads(&first, Lease::LONG.duration() * 3 / 2);
    assert_eq!(renewals(&group, &first, "reasserted"), 0.0, "nothing was lost");
    assert_eq!(group.apps.terms().len(), 1, "P5: {:?}", group.apps.terms());
    group.finish("Redis restarted with its data", "");
}

#[test]
fn without_redis_the_leader_stops_by_its_deadline_and_says_why_and_the_next_token_is_greater() {
    let mut group = group::start(3, Lease::SHORT);
    let first = group.leader();
    let killed_at = Instant::now();
    group.redis.stop(Data::Lost);
    let unreachable = group.answer_after(first.who.replica, killed_at, "it says that the store is gone", |seen| {
        seen.told.state == "unreachable"
    });
    assert!(!unreachable.told.leader && unreachable.told.holder.is_none(), "{unreachable:?}");
    assert!(unreachable.told.reason.is_some_and(|reason| reason.contains("reached")), "it says why");
    let term_span = Duration::from_millis(Lease::SHORT.duration - Lease::SHORT.margin);
    let late = group.apps.all_after(killed_at + term_span).into_iter().find(|seen| seen.told.leader);
    assert!(late.is_none(), "past its deadline: {late:?}");
    until("the outage has lasted two leases", || killed_at.elapsed() > Lease::SHORT.duration() * 2);
    group.redis.start_again();
    let back_at = Instant::now();
    let next = group.leader_after(&first);
    let took = next.from.saturating_duration_since(back_at);
    assert!(took < Lease::SHORT.duration() * 2 + Duration::from_secs(1) + SLACK, "it took {took:?}");
    group.still_leads(&next, Duration::from_millis(100));
    let measured = format!("a leader {} ms after Redis came back empty, ", took.as_millis());
    group.finish("Redis down for two leases", &measured);
}

#[test]
fn a_redis_that_hangs_for_longer_than_a_lease_makes_no_second_leader() {
    let group = group::start(3, Lease::SHORT);
    let first = group.leader();
    let paused_at = Instant::now();
    group.redis.pause();
    group.answer_after(first.who.replica, paused_at, "it stops leading", |seen| seen.told.state == "unreachable");
    until("Redis has hung for a lease and a half", || paused_at.elapsed() > Lease::SHORT.duration() * 3 / 2);
    let resumed_at = Instant::now();
    group.redis.resume();
    let next = group.leader_that("somebody leads again", |term| term.from > resumed_at);
    assert!(next.token > first.token, "a term past its deadline is over for good");
    group.still_leads(&next, Lease::SHORT.duration());
    let measured = format!("a leader {} ms after it went on, ", ms_between(resumed_at, next.from));
    group.finish("SIGSTOP of Redis", &measured);
}

/// Sends a command on a connection of its own: some of them end the connections that are there.
fn meddle(redis: &RedisServer, words: &[&str]) -> Reply {
    redis.connect().and_then(|mut connection| connection.command(words)).expect("Redis answers")
}

#[test]
fn meddling_with_redis_during_leadership_makes_no_second_leader() {
    let redis = RedisServer::start_with(&["--enable-debug-command", "yes"]);
    let group = group::start_on(redis, 3, Lease::LONG);
    let mut kept = Vec::new();
    let meddling: [&[&str]; 8] = [
        &["FLUSHALL"],
        &["DEL", LEASE_KEY],
        &["DEBUG", "SLEEP", "0.9"],
        &["CLIENT", "KILL", "TYPE", "normal"],
        &["CLIENT", "KILL", "TYPE", "pubsub"],
        &["SCRIPT", "FLUSH"],
        &["CONFIG", "SET", "timeout", "1"],
        &["FLUSHALL", "SYNC"],
    ];
    for words in meddling {
        let before = group.leader();
        let reply = meddle(&group.redis, words);
        assert!(!matches!(reply, Reply::Error(_)), "{words:?}: {reply:?}");
        let moment = Instant::now() + Duration::from_millis(Lease::LONG.renew * 3 / 2);
        let after = until_some("somebody leads", || {
            let settled = (0..3).find_map(|replica| group.apps.last_after(replica, moment).filter(|s| s.told.leader));
            settled.and_then(|_| group.apps.leader())
        });
        until("the lease is in Redis", || meddle(&group.redis, &["EXISTS", LEASE_KEY]) == Reply::Number(1));
        kept.push(format!("{} {}", words.join(" "), if after.token == before.token { "kept" } else { "changed" }));
    }
    let lost = kept.iter().filter(|line| line.ends_with("changed")).count();
    assert_eq!(lost, 0, "nothing here takes longer than a lease: {kept:?}");
    group.finish("meddling", &format!("the leader of {} commands stayed, ", kept.len()));
}

#[test]
fn a_redis_that_goes_on_and_off_makes_no_second_leader() {
    let group = group::start(3, Lease::SHORT);
    let first = group.leader();
    for pause_ms in [300, 900, 1_300, 500, 1_500] {
        group.redis.pause();
        last_for(Duration::from_millis(pause_ms));
        group.redis.resume();
        last_for(Duration::from_millis(200));
    }
    let moment = Instant::now();
    let last = group.leader_that("somebody leads", |term| term.until > moment);
    assert!(last.token >= first.token);
    group.finish("Redis hangs again and again", "");
}
