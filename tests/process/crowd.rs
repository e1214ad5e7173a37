//! Thousands of roles in one sidecar.

use crate::http::ask;
use crate::replica::{Lease, Replica, Settings};
use crate::support::redis::RedisServer;
use crate::wait::until;

const ROLES: usize = 2_000;

#[test]
fn thousands_of_roles_start_without_redis_being_taken_for_silent() {
    let redis = RedisServer::start();
    // Long enough that nothing is renewed meanwhile.
    let lease = Lease { duration: 60_000, renew: 20_000, margin: 2_000, validity: 500 };
    let roles: String = (0..ROLES).map(|n| lease.role(&format!("role-{n}"), "")).collect();
    let store = format!("{{ redis: {{ url: \"{}\", commandTimeout: 1s }} }}", redis.url());
    let replica = Replica::start(0, Settings { store: Some(store), roles, ..Settings::new(0, redis.url(), lease) });
    until("the store has answered for every role", || ask(replica.telemetry(), "GET /readyz", "").status == 200);
    assert!(!replica.has_logged(&["stopped answering"]), "a burst was taken for silence");
    assert!(!replica.has_logged(&["no answer from the store"]), "a role's command waited for its whole timeout");
}
