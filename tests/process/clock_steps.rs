//! The clock of Redis is stepped while somebody leads.

use tempfile::TempDir;

use crate::group::{Group, LEASE_KEY};
use crate::replica::Lease;
use crate::support::clock::{library, redis_with_clock, set_clock};
use crate::support::redis::RedisServer;
use crate::support::resp::Reply;
use crate::wait::until;

fn store_seconds(redis: &RedisServer) -> i64 {
    let Reply::List(parts) = redis.command(&["TIME"]) else { panic!("TIME answers a list") };
    parts[0].clone().text().parse().expect("seconds")
}

#[test]
fn a_stepped_redis_clock_makes_no_second_leader_and_is_reported() {
    let Some(library) = library() else {
        println!("left out: there is no libfaketime here (Debian: apt-get install libfaketime)");
        return;
    };
    let folder = TempDir::new().expect("a temporary directory");
    let control = folder.path().join("clock");
    set_clock(&control, "+0");
    let group = Group::start_on(redis_with_clock(library, &control), 3, Lease::LONG);
    let mut term = group.leader();
    for (offset, by_s) in [("+30", 30), ("-30", -60), ("+0", 30), ("-3600", -3_600), ("+86400", 90_000)] {
        let steps = |replica: usize| group.replicas[replica].role_metric("baton_store_clock_steps_total", &[]);
        let (holder, before) = (term.who.replica, steps(term.who.replica));
        let clock_before = store_seconds(&group.redis);
        set_clock(&control, offset);
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
