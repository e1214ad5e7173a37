//! A checker that cannot fail proves nothing: here two replicas do lead at once, because each has a Redis of its own.

use crate::group::{Group, ROLE};
use crate::replica::{Lease, Settings};
use crate::support::redis::RedisServer;
use crate::wait::until;

#[test]
fn two_replicas_on_two_redises_are_caught_as_two_leaders() {
    let (redis, other) = (RedisServer::start(), RedisServer::start());
    let settings = |number: usize, redis_url| {
        let identity = format!("web-{number}");
        Settings { identity, redis_url, roles: Lease::SHORT.role(ROLE, "") }
    };
    let settings = vec![settings(0, redis.url()), settings(1, other.url())];
    let group = Group::start_with(redis, settings);
    until("the checker sees two leaders", || group.apps.breaches().iter().any(|found| found.starts_with("P1")));
}
