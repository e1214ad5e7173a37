//! The leader's network to Redis breaks, in each of the ways in which networks do; the others' is fine.

use std::time::{Duration, Instant};

use testkit::proxy::Network;
use testkit::redis::{Data, RedisServer};
use testkit::sidecars::claims::Term;
use testkit::sidecars::replica::Lease;
use testkit::wait::{until, until_some};

use crate::group::{Group, ms_between};
use crate::proxies::{Proxies, behind_proxies};

fn cut_off_leader(network: Network) {
    let (group, proxies) = behind_proxies(RedisServer::start(), 3, Lease::SHORT, "");
    let first = group.leader();
    // Redis then knows the script of renewals, so that one without an answer is not without effect.
    until("it has renewed", || {
        group.replicas[first.who.replica].role_metric("baton_renewals_total", &[("outcome", "ok")]) >= 1.0
    });
    let (cut_off, since) = (first.who.replica, Instant::now());
    proxies.each[cut_off].set(network);
    let gone = group.answer_after(cut_off, since, "it says that it cannot reach the store", |seen| {
        seen.told.state == "unreachable" && seen.told.reason.is_some()
    });
    assert!(gone.told.holder.is_none(), "a stale name: {gone:?}");
    let next = group.leader_after(&first);
    assert_ne!(next.who.replica, cut_off);
    let healed_at = Instant::now();
    proxies.each[cut_off].set(Network::Good);
    let name = format!("web-{}", next.who.replica);
    group.answer_after(cut_off, healed_at, "it follows the new leader", |seen| {
        seen.told.holder.as_deref() == Some(&name)
    });
    group.still_leads(&next, Duration::from_millis(100));
    assert_eq!(group.apps.terms().len(), 2);
    let measured = format!("handover {} ms, ", ms_between(since, next.from));
    group.finish(&format!("the leader's network: {network:?}"), &measured);
}

#[test]
fn a_leader_whose_connections_are_cut_is_followed_by_another() {
    cut_off_leader(Network::Cut);
}

#[test]
fn a_leader_in_a_black_hole_is_followed_by_another() {
    cut_off_leader(Network::Stalled);
}

/// Its renewals arrive, so its lease stays in Redis until it has given up sending them.
#[test]
fn a_leader_that_gets_no_answers_is_followed_by_another() {
    cut_off_leader(Network::AnswersLost);
}

/// Cuts the leader off, makes Redis forget it, and starts a replica that has never heard of its term: all it knows is
/// what Redis tells, and that is nothing. Returns the two terms.
fn forget_a_leader_that_stands(redis_more: &str) -> (Group, Proxies, [Term; 2]) {
    let (mut group, proxies) = behind_proxies(RedisServer::start(), 3, Lease::LONG, redis_more);
    let first = group.leader();
    let fresh = (first.who.replica + 1) % 3;
    proxies.each[first.who.replica].set(Network::Cut);
    group.redis.restart(Data::Lost);
    let forgotten_at = Instant::now();
    group.replicas[fresh].kill();
    group.start_again(fresh);
    // By name, since its app may see two leaders.
    let next = until_some("a later term begins", || group.apps.terms().into_iter().find(|t| t.token > first.token));
    until("the first term is over", || group.apps.last(first.who.replica).is_some_and(|seen| !seen.told.leader));
    let first = group.apps.terms().into_iter().find(|term| term.token == first.token).expect("it was seen");
    assert!(first.until > forgotten_at, "the leader stood when its lease was forgotten");
    (group, proxies, [first, next])
}

#[test]
fn a_redis_that_forgets_a_leader_it_cannot_hear_grants_nobody_else_the_role_while_that_leader_stands() {
    let (group, _proxies, [first, next]) = forget_a_leader_that_stands("");
    assert!(next.from >= first.until, "two leaders for {:?}", first.until - next.from);
    let gap = ms_between(first.until, next.from);
    group.finish("cut off, and forgotten", &format!("the next came {gap} ms after the first one's last promise, "));
}

/// What `guard: off` costs, and that the scenario above would show it.
#[test]
fn without_the_guard_the_same_redis_makes_two_leaders() {
    let (group, _proxies, [first, next]) = forget_a_leader_that_stands(", guard: off");
    assert!(next.from < first.until, "{first:?} {next:?}");
    assert!(group.apps.breaches().iter().any(|found| found.starts_with("P1")), "the checker saw nothing");
}
