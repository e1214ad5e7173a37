//! The clock of Redis is stepped while somebody leads.

use testkit::redis::RedisServer;
use testkit::resp::Reply;
use testkit::sidecars::clock;
use testkit::sidecars::replica::Lease;
use testkit::wait::until;

use crate::group::{self, LEASE_KEY};

fn store_seconds(redis: &RedisServer) -> i64 {
    let Reply::List(parts) = redis.command(&["TIME"]) else { panic!("TIME answers a list") };
    parts[0].clone().text().parse().expect("seconds")
}

#[test]
fn a_stepped_redis_clock_makes_no_second_leader_and_is_reported() {
    let Some((redis, control)) = clock::redis() else { return };
    let group = group::start_on(redis, 3, Lease::LONG);
    let mut term = group.leader();
    for (offset, by_s) in [(30, 30), (-30, -60), (0, 30), (-3_600, -3_600), (86_400, 90_000)] {
        let steps = |replica: usize| group.replicas[replica].role_metric("baton_store_clock_steps_total", &[]);
        let (holder, before) = (term.who.replica, steps(term.who.replica));
        let clock_before = store_seconds(&group.redis);
        control.set(offset);
        let stepped = store_seconds(&group.redis) - clock_before;
        assert!((stepped - by_s).abs() <= 2, "libfaketime stepped by {stepped} s, not {by_s}");
        until("the leader reports the step", || steps(holder) > before);
        let line = format!("by_ms={}", if by_s < 0 { "-" } else { "" });
        assert!(group.replicas[holder].has_logged(&["WARN", "the store's clock moved", &line]));
        // Long enough for a lease that the step spared or ended to matter.
        group.still_leads(&term, Lease::LONG.duration() * 6 / 5);
        until("the lease is in Redis", || group.redis.command(&["EXISTS", LEASE_KEY]) == Reply::Number(1));
        term = group.leader();
    }
    group.finish("Redis's clock stepped five times", "");
}
