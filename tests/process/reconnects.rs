//! Many sidecars at once, whose connections all end in one moment, in front of a service that lets only so many come
//! back in a second.

use std::time::{Duration, Instant};

use testkit::redis::RedisServer;
use testkit::resp::Reply;
use testkit::sidecars::replica::{Lease, Settings};
use testkit::wait::{last_for, until, until_within};

use crate::group::{self, ms_between};
use crate::proxies::Proxies;

const SIDECARS: usize = 16;
/// So that all of their connections, two each, can be back within eight seconds: what is left of a lease at the least.
const PER_SECOND: usize = 4;
/// As by default.
const LEASE: Lease = Lease { duration: 15_000, renew: 5_000, margin: 1_000, validity: 2_000 };

#[test]
fn a_leader_keeps_its_role_when_all_reconnect_to_a_service_that_lets_few_in() {
    let redis = RedisServer::start();
    let proxies = Proxies::start(1, redis.port());
    let proxy = &proxies.each[0];
    let settings = (0..SIDECARS).map(|number| Settings::new(number, proxy.url(), LEASE)).collect();
    let group = group::start_with(redis, settings);
    let first = group.leader();
    let leader = &group.replicas[first.who.replica];
    let renewed = || leader.role_metric("baton_renewals_total", &[("outcome", "ok")]);
    let listening = || match group.redis.command(&["PUBSUB", "NUMSUB", "baton:{scheduler}:news"]) {
        Reply::List(told) => usize::try_from(told[1].clone().number()).expect("a number of connections"),
        other => panic!("no list: {other:?}"),
    };
    let up = || group.replicas.iter().filter(|replica| replica.metric("baton_store_up", &[]) == Some(1.0)).count();
    until("all are there", || listening() == SIDECARS && up() == SIDECARS);
    let before = renewed();
    until("it has just renewed", || renewed() > before);

    let (before, struck_at) = (renewed(), Instant::now());
    proxy.serve_per_second(PER_SECOND);
    proxy.hang_up();
    let mut attempts = Vec::new();
    for _ in 0..8 {
        let so_far = proxy.accepted();
        last_for(Duration::from_millis(500));
        attempts.push(proxy.accepted() - so_far);
    }
    assert!(up() < SIDECARS, "all of them are back already: that was no test");
    // First those for commands alone; then each about once a second.
    let few = attempts[0] <= 6 * SIDECARS && attempts[1..].iter().all(|attempts| *attempts <= 2 * SIDECARS);
    assert!(few, "attempts in each half second: {attempts:?}");
    until_within(LEASE.duration() - struck_at.elapsed(), "it is renewed again", || renewed() > before);
    let renewed_at = Instant::now();
    until("all listen again", || listening() == SIDECARS && up() == SIDECARS);
    let back_at = Instant::now();
    group.still_leads(&first, Duration::from_millis(100));
    assert_eq!(group.apps.terms().len(), 1, "{:?}", group.apps.terms());
    let measured = format!(
        "attempts in each half second {attempts:?}, renewed after {} ms, all back after {} ms, ",
        ms_between(struck_at, renewed_at),
        ms_between(struck_at, back_at)
    );
    group.finish("few may come back at once", &measured);
}
