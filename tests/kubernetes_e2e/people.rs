//! People with kubectl, who write what no program would.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use kube::api::{DeleteParams, Patch, PatchParams};
use rustix::process::Signal;
use serde_json::json;
use testkit::apiserver::Cluster;
use testkit::wait::last_for;

use crate::group::{self, LEASE_NAME, TIMINGS};

#[tokio::test]
async fn who_takes_a_lease_by_hand_for_a_second_shortens_nobodys_promise() {
    let group = group::start(Cluster::start().await, 2).await;
    let first = group.leader();
    let leader = &group.replicas[first.who.replica];
    leader.signal(Signal::STOP);
    let edit = json!({"spec": {
        "holderIdentity": "somebody", "leaseDurationSeconds": 1, "renewTime": format!("{:.6}", Timestamp::now()),
    }});
    let edited_at = Instant::now();
    let leases = group.cluster.leases();
    leases.patch(LEASE_NAME, &PatchParams::default(), &Patch::Merge(&edit)).await.expect("the Lease is there");
    last_for(Duration::from_millis(1_500));
    // Its deadline has not come yet.
    leader.signal(Signal::CONT);
    let next = group.leader_after(&first);
    let waited = next.from.saturating_duration_since(edited_at);
    assert!(waited >= TIMINGS.duration(), "another led after {waited:?}");
    group.finish("a lease taken by hand", &format!("the next term after {} ms, ", waited.as_millis()));
}

#[tokio::test]
async fn a_lease_that_is_deleted_under_its_leader_is_put_back_with_its_token() {
    let group = group::start(Cluster::start().await, 3).await;
    let first = group.leader();
    let before = group.lease().await;
    group.cluster.leases().delete(LEASE_NAME, &DeleteParams::default()).await.expect("it is there");
    group.still_leads(&first, TIMINGS.duration());
    let after = group.lease().await;
    assert_ne!(before.metadata.uid, after.metadata.uid, "another object");
    let annotation = |lease: &k8s_openapi::api::coordination::v1::Lease| {
        lease.metadata.annotations.as_ref().and_then(|all| all.get("baton.dev/token").cloned())
    };
    assert_eq!(annotation(&after), Some(first.token.to_string()));
    assert_eq!(group.apps.terms().len(), 1);
    group.finish("a lease deleted under its leader", "");
}
