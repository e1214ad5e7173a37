//! A checker that cannot fail proves nothing: here two replicas do lead at once, because each has a Redis of its own.

use testkit::redis::RedisServer;
use testkit::sidecars::replica::{Lease, Settings};
use testkit::wait::until;

use crate::group;

#[test]
fn two_replicas_on_two_redises_are_caught_as_two_leaders() {
    let (redis, other) = (RedisServer::start(), RedisServer::start());
    let settings = vec![Settings::new(0, redis.url(), Lease::SHORT), Settings::new(1, other.url(), Lease::SHORT)];
    let group = group::start_with(redis, settings);
    until("the checker sees two leaders", || group.apps.breaches().iter().any(|found| found.starts_with("P1")));
}
