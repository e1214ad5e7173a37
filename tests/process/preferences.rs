//! A role that goes to who is preferred, on real sidecars and a real Redis: how often it moves in a rollout.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use testkit::redis::RedisServer;
use testkit::resp::Reply;
use testkit::sidecars::claims::Term;
use testkit::sidecars::replica::{Lease, Settings};
use testkit::wait::until;

use crate::group::{self, Group, OnRedis, ROLE, ms_between};

const LEASE: Lease = Lease::LONG;
/// Longer than a newcomer needs to find the others, or an old one to end.
const AFTER: Duration = Duration::from_secs(3);

/// Of web-`number`, with these keys of its role, at this version.
fn settings(number: usize, redis: &RedisServer, keys: &str, version: &str) -> Settings {
    let after = format!(", preferAfter: {}ms{keys}", AFTER.as_millis());
    let more = format!("version: {version}\n");
    Settings { roles: LEASE.role(ROLE, &after), more, ..Settings::new(number, redis.url(), LEASE) }
}

/// Ends a replica as the kubelet does; its app drains at once.
fn end(group: &mut Group, replica: usize) {
    let leads = group.apps.leader().is_some_and(|term| term.who == group.replicas[replica].who());
    group.replicas[replica].signal(Signal::TERM);
    group.apps.has_drained(group.replicas[replica].who());
    if leads {
        let drained = format!("POST /leader/{ROLE}/drained");
        until("the leader drains, and hears that its app has", || {
            group.replicas[replica].ask(&drained, "").status == 202
        });
    }
    assert!(group.replicas[replica].wait_end().success());
}

/// How often a replica was told who else there is.
fn told(group: &Group, replica: usize) -> f64 {
    let labels = [("command", "presence"), ("outcome", "ok")];
    let count = group.replicas[replica].metric("baton_store_command_duration_seconds_count", &labels);
    count.expect("a series")
}

/// Waits until these replicas, which are all that run, know of each other: all of them are in the store, and then each
/// has asked twice more, of which the first question may have been on its way.
fn find_each_other(group: &Group, running: &[usize]) {
    let fields = running.len() as i64 + 1;
    until("all have said that they are there", || {
        group.redis.command(&["HLEN", "baton:{scheduler}:presence"]) == Reply::Number(fields)
    });
    for replica in running {
        let before = told(group, *replica);
        until("it has asked who is there", || told(group, *replica) >= before + 2.0);
    }
}

/// How long nobody led between one term and the next.
fn vacancies(terms: &[Term]) -> Vec<u128> {
    terms.windows(2).map(|two| ms_between(two[0].until, two[1].from)).collect()
}

#[test]
fn a_rollout_that_starts_new_ones_first_costs_one_handover() {
    const REPLICAS: usize = 3;
    let redis = RedisServer::start();
    let all = (0..2 * REPLICAS)
        .map(|number| settings(number, &redis, ", prefer: newest", if number < REPLICAS { "b2" } else { "a7" }))
        .collect::<Vec<_>>();
    let mut group = Group::new(OnRedis { redis }, 2 * REPLICAS);
    let mut all = all.into_iter();
    all.by_ref().take(REPLICAS).for_each(|settings| group.add(settings));
    let first = group.leader();
    let mut running: Vec<usize> = (0..REPLICAS).collect();
    find_each_other(&group, &running);
    // The leader goes second, when one new replica is there, and not yet for long enough to be handed the lead.
    let mut order: Vec<usize> = (0..REPLICAS).collect();
    order.swap(1, first.who.replica);
    for (old, settings) in order.into_iter().zip(all) {
        running.push(group.replicas.len());
        group.add(settings);
        find_each_other(&group, &running);
        end(&mut group, old);
        running.retain(|replica| *replica != old);
    }
    let last = group.leader_after(&first);
    group.still_leads(&last, 2 * AFTER);
    let terms = group.apps.terms();
    assert_eq!(terms.len(), 2, "{terms:?}");
    assert!(terms[1].who.replica >= REPLICAS);
    let measured = format!("nobody led for {:?} ms, ", vacancies(&terms));
    group.finish("a rollout", &measured);
}

#[test]
fn a_restart_in_place_costs_two_handovers_where_one_place_is_preferred() {
    let redis = RedisServer::start();
    let all = (0..3)
        .map(|number| settings(number, &redis, &format!(", priority: {}", if number == 1 { 7 } else { 0 }), "v1"))
        .collect();
    let mut group = group::start_with(redis, all);
    let begins = group.leader_that("the preferred one leads", |term| term.who.replica == 1);
    for replica in [2, 1, 0] {
        end(&mut group, replica);
        group.start_again(replica);
        find_each_other(&group, &[0, 1, 2]);
    }
    let last = group.leader_that("it leads again", |term| term.who.replica == 1 && term.token > begins.token);
    group.still_leads(&last, 2 * AFTER);
    let terms: Vec<Term> = group.apps.terms().into_iter().filter(|term| term.token >= begins.token).collect();
    assert_eq!(terms.len(), 3, "{terms:?}");
    let measured = format!("nobody led for {:?} ms, ", vacancies(&terms));
    group.finish("a restart in place", &measured);
}

#[test]
fn a_priority_that_is_changed_in_the_file_moves_the_lead_and_nothing_else() {
    let redis = RedisServer::start();
    let all = (0..2).map(|number| settings(number, &redis, ", priority: 1", "v1")).collect();
    let mut group = group::start_with(redis, all);
    let first = group.leader();
    let (old, heir) = (first.who.replica, 1 - first.who.replica);
    let roles = |keys: &str| LEASE.role(ROLE, &format!(", preferAfter: {}ms{keys}", AFTER.as_millis()));
    let config = group.replicas[old].config_with(&roles(", priority: 0"));
    std::fs::write(&group.replicas[old].config, config).expect("written");
    let second = group.leader_after(&first);
    assert_eq!(second.who.replica, heir);
    assert_eq!(group.apps.terms().len(), 2, "it was handed over, and not given up to be asked for again");
    // Without preferences nobody stays behind, and nothing moves.
    for replica in [old, heir] {
        let config = group.replicas[replica].config_with(&LEASE.role(ROLE, ""));
        std::fs::write(&group.replicas[replica].config, config).expect("written");
    }
    group.still_leads(&second, 2 * AFTER);
    let from = Instant::now();
    end(&mut group, heir);
    let third = group.leader_after(&second);
    group.finish("a changed priority", &format!("{} ms from the end to the next, ", ms_between(from, third.from)));
}
