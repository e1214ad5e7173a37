//! Replicas that die, stand still, or are told to go.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use testkit::redis::RedisServer;
use testkit::sidecars::replica::{Lease, Settings};
use testkit::wait::{SLACK, last_for, until};

use crate::group::{self, ROLE, ms_between};

#[test]
fn a_killed_leader_is_followed_by_another_with_a_greater_token() {
    let mut group = group::start(3, Lease::SHORT);
    let first = group.leader();
    let name = format!("web-{}", first.who.replica);
    for follower in (0..3).filter(|replica| *replica != first.who.replica) {
        let asked = group.answer_after(follower, first.from, "a follower knows the leader", |seen| {
            seen.told.holder.as_deref() == Some(&name) && seen.told.state == "standby"
        });
        assert!(asked.told.reason.is_some_and(|reason| reason.contains(&name)));
    }
    let killed_at = Instant::now();
    group.replicas[first.who.replica].kill();
    let next = group.leader_after(&first);
    assert_ne!(next.who.replica, first.who.replica);
    let took = next.from - killed_at;
    assert!(took < Lease::SHORT.duration() + SLACK, "it took {took:?}");
    group.start_again(first.who.replica);
    group.still_leads(&next, Duration::from_millis(100));
    let measured = format!("handover {} ms with a lease of 2,000 ms, ", took.as_millis());
    group.finish("kill -9", &measured);
}

#[test]
fn a_leader_paused_for_longer_than_its_lease_never_answers_with_its_old_token_again() {
    let group = group::start(3, Lease::SHORT);
    let first = group.leader();
    let paused = &group.replicas[first.who.replica];
    let paused_at = Instant::now();
    paused.signal(Signal::STOP);
    let next = group.leader_after(&first);
    assert_ne!(next.who.replica, first.who.replica);
    let resumed_at = Instant::now();
    paused.signal(Signal::CONT);
    group.answer_after(first.who.replica, resumed_at, "the first leader follows the new one", |seen| {
        seen.told.holder.as_deref() == Some(&format!("web-{}", next.who.replica))
    });
    group.still_leads(&next, Lease::SHORT.duration());
    let stale = group.apps.all_after(resumed_at).into_iter().find(|seen| seen.told.token == Some(first.token));
    assert!(stale.is_none(), "{stale:?}");
    let measured = format!("handover {} ms, ", ms_between(paused_at, next.from));
    group.finish("SIGSTOP for more than a lease", &measured);
}

#[test]
fn a_leader_paused_for_less_than_its_lease_keeps_role_and_token() {
    let group = group::start(3, Lease::LONG);
    let first = group.leader();
    let paused = &group.replicas[first.who.replica];
    paused.signal(Signal::STOP);
    last_for(Duration::from_millis(1_200));
    let resumed_at = Instant::now();
    paused.signal(Signal::CONT);
    let seen = group.answer_after(first.who.replica, resumed_at, "it answers", |seen| seen.told.leader);
    assert_eq!(seen.told.token, Some(first.token));
    group.still_leads(&first, Lease::LONG.duration());
    assert_eq!(group.apps.terms().len(), 1);
    let measured = format!("answers again after {} ms, ", ms_between(resumed_at, seen.read));
    group.finish("SIGSTOP for less than a lease", &measured);
}

#[test]
fn a_terminated_leader_says_no_at_once_and_is_followed_when_its_promises_have_run_out() {
    let mut group = group::start(3, Lease::SHORT);
    let first = group.leader();
    let told_at = Instant::now();
    group.replicas[first.who.replica].signal(Signal::TERM);
    let drains = group.answer_after(first.who.replica, told_at, "it drains", |seen| !seen.told.leader);
    assert_eq!(drains.told.state, "draining");
    let next = group.leader_after(&first);
    let first = group.apps.terms().into_iter().find(|term| term.token == first.token).expect("it was seen");
    assert!(next.from >= first.until, "a promise still stood for {:?}", first.until - next.from);
    assert_eq!(group.replicas[first.who.replica].wait_end().code(), Some(0));
    let after = group.apps.all_after(drains.asked);
    assert!(after.iter().all(|seen| seen.who != first.who || !seen.told.leader), "it led again after it had drained");
    let said_no = ms_between(told_at, drains.read);
    let waited = ms_between(first.until, next.from);
    let measured = format!("leader:false after {said_no} ms, successor {waited} ms after the last promise, ");
    group.finish("SIGTERM", &measured);
}

/// Promises so long that nothing else explains an early handover.
const LONG_PROMISES: Lease = Lease { validity: 3_000, ..Lease::LONG };

#[test]
fn an_app_that_says_drained_ends_the_wait_for_its_promises() {
    let mut group = group::start(3, LONG_PROMISES);
    let first = group.leader();
    let told_at = Instant::now();
    let old = &group.replicas[first.who.replica];
    old.signal(Signal::TERM);
    group.answer_after(first.who.replica, told_at, "it drains", |seen| seen.told.state == "draining");
    let promised_until = group.apps.terms().last().expect("it led").until;
    let drained_at = Instant::now();
    group.apps.has_drained(first.who);
    let answer = old.ask(&format!("POST /leader/{ROLE}/drained"), "");
    assert_eq!(answer.status, 202, "{}", answer.body);
    let next = group.leader_after(&first);
    assert!(next.from < promised_until, "the promises were waited for");
    assert_eq!(group.replicas[first.who.replica].wait_end().code(), Some(0));
    let spared = ms_between(next.from, promised_until);
    let measured = format!("handover {} ms, {spared} ms spared, ", ms_between(drained_at, next.from));
    group.finish("SIGTERM with /drained", &measured);
}

#[test]
fn a_second_signal_ends_a_leader_at_once_and_leaves_its_lease_to_run_out() {
    let mut group = group::start(3, LONG_PROMISES);
    let first = group.leader();
    let told_at = Instant::now();
    group.replicas[first.who.replica].signal(Signal::TERM);
    group.answer_after(first.who.replica, told_at, "it drains", |seen| seen.told.state == "draining");
    group.replicas[first.who.replica].signal(Signal::TERM);
    let status = group.replicas[first.who.replica].wait_end();
    let ended_at = Instant::now();
    assert_eq!(status.code(), Some(0));
    let promised_until = group.apps.terms().last().expect("it led").until;
    assert!(ended_at < promised_until, "it waited for its promises");
    assert!(group.replicas[first.who.replica].has_logged(&["the lease is left to run out"]));
    let next = group.leader_after(&first);
    assert!(next.from >= promised_until);
    let measured = format!("ended {} ms after the first signal, ", ms_between(told_at, ended_at));
    group.finish("SIGTERM twice", &measured);
}

#[test]
fn a_leader_terminated_without_redis_ends_well_and_not_before_its_promises() {
    let mut group = group::start(1, LONG_PROMISES);
    let first = group.leader();
    group.redis.kill();
    let told_at = Instant::now();
    group.replicas[0].signal(Signal::TERM);
    let status = group.replicas[0].wait_end();
    let ended_at = Instant::now();
    assert_eq!(status.code(), Some(0));
    let promised_until = group.apps.terms()[0].until;
    // Nobody else can tell an app so: as long as a promise stands, the sidecar answers.
    assert!(ended_at >= promised_until, "it left {:?} early", promised_until - ended_at);
    assert_eq!(group.apps.terms().len(), 1, "{first:?}");
    let measured = format!("ended {} ms after the signal, ", ms_between(told_at, ended_at));
    group.finish("SIGTERM without Redis", &measured);
}

#[test]
fn two_replicas_with_one_identity_share_no_lease_and_are_warned() {
    let redis = RedisServer::start();
    let twin = |number| Settings { identity: "twin".to_owned(), ..Settings::new(number, redis.url(), Lease::LONG) };
    let settings = vec![twin(0), twin(1)];
    let mut group = group::start_with(redis, settings);
    let first = group.leader();
    let other = 1 - first.who.replica;
    until("the follower is warned", || {
        group.replicas[other].has_logged(&["WARN", "another process campaigns under this replica's identity"])
    });
    assert_eq!(group.replicas[other].role_metric("baton_identity_clashes_total", &[]), 1.0);
    group.still_leads(&first, Lease::LONG.duration());
    assert_eq!(group.apps.terms().len(), 1, "the other took the lease for its own");
    group.replicas[first.who.replica].kill();
    let next = group.leader_after(&first);
    assert_eq!(next.who.replica, other);
    group.finish("one identity twice", "");
}
