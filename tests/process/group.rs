//! A Redis, some replicas on it, and the apps that watch whether the promises are kept.

use testkit::redis::RedisServer;
use testkit::sidecars::group;
pub use testkit::sidecars::group::ms_between;
pub use testkit::sidecars::replica::{LEASE_KEY, ROLE};
use testkit::sidecars::replica::{Lease, Settings};

/// Where its record is.
pub const RECORD_KEY: &str = "baton:{scheduler}:record";

/// What the replicas keep their leases in.
pub struct OnRedis {
    pub redis: RedisServer,
}

pub type Group = group::Group<OnRedis>;

/// Replicas named web-0, web-1, … on a Redis without persistence.
pub fn start(replicas: usize, lease: Lease) -> Group {
    start_on(RedisServer::start(), replicas, lease)
}

/// The same on this Redis.
pub fn start_on(redis: RedisServer, replicas: usize, lease: Lease) -> Group {
    let settings = (0..replicas).map(|number| Settings::new(number, redis.url(), lease)).collect();
    start_with(redis, settings)
}

/// Replicas with these settings, one for each.
pub fn start_with(redis: RedisServer, settings: Vec<Settings>) -> Group {
    let mut group = Group::new(OnRedis { redis }, settings.len());
    settings.into_iter().for_each(|settings| group.add(settings));
    group
}
