//! The leader's network to Redis breaks, in each of the ways in which networks do; the others' is fine.

use std::time::{Duration, Instant};

use crate::group::ms_between;
use crate::proxies::behind_proxies;
use crate::replica::Lease;
use crate::support::proxy::Network;
use crate::support::redis::{Data, RedisServer};
use crate::wait::until;

fn cut_off_leader(network: Network) {
    let (group, proxies) = behind_proxies(RedisServer::start(), 3, Lease::SHORT);
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

#[test]
fn a_redis_that_forgets_a_leader_it_cannot_hear_grants_nobody_else_the_role_while_that_leader_stands() {
    let (mut group, proxies) = behind_proxies(RedisServer::start(), 3, Lease::LONG);
    let first = group.leader();
    let fresh = (first.who.replica + 1) % 3;
    proxies.each[first.who.replica].set(Network::Cut);
    group.redis.restart(Data::Lost);
    let forgotten_at = Instant::now();
    // One that has never heard of the term: all it knows is what Redis tells, and that is nothing.
    group.replicas[fresh].kill();
    group.start_again(fresh);
    group.answer_after(fresh, forgotten_at, "it is held off", |seen| seen.told.state == "guarded");
    let next = group.leader_after(&first);
    let first = group.apps.terms().into_iter().find(|term| term.token == first.token).expect("it was seen");
    assert!(first.until > forgotten_at, "the leader stood when its lease was forgotten");
    assert!(next.from >= first.until, "two leaders for {:?}", first.until - next.from);
    let (stood, gap) = (ms_between(forgotten_at, first.until), ms_between(first.until, next.from));
    group.finish("cut off, and forgotten", &format!("the first stood for {stood} ms, the next came {gap} ms later, "));
}
