//! Dapr's published client takes locks from real sidecars on a real Redis.

use testkit::node;
use testkit::redis::RedisServer;

use crate::sidecar::{GUARD, LOCK_STORE, Sidecar, Store};

#[test]
#[ignore = "installs the client from npm's registry: make e2e"]
fn daprs_published_node_client_takes_is_refused_and_frees_locks() {
    let (scripts, folder) = node::installed("tests/e2e/dapr");
    let redis = RedisServer::start();
    let sidecars = Sidecar::several(2, &Store::of(&redis), GUARD);
    sidecars.iter().for_each(Sidecar::until_open);
    let errors = |sidecar: &Sidecar| sidecar.metric("baton_locks_acquisitions_total{outcome=\"error\"}");
    // Those of who asked whether it was open before it had a connection.
    let before: Vec<f64> = sidecars.iter().map(errors).collect();
    let client = scripts.join("client.mjs");
    let ports: Vec<String> = sidecars.iter().map(|sidecar| sidecar.api.port().to_string()).collect();
    let said = node::run(folder.path(), "node", &[client.to_str().unwrap(), LOCK_STORE, &ports[0], &ports[1]]);
    println!("{said}");
    sidecars[0].until_like("dapr%2Flockstore%2Forder%2F42", 0, 0);
    for (sidecar, before) in sidecars.iter().zip(before) {
        assert_eq!(errors(sidecar), before);
        assert!(
            sidecar.metric("baton_store_command_duration_seconds_count{command=\"lock_acquire\",outcome=\"ok\"}") > 0.0
        );
    }
}
