//! A Lease shared with client-go: each honours the other, as in a migration.

use std::time::Instant;

use serde_json::{Value, json};

use super::lease_api::LeaseApi;
use super::*;

const NAME: &str = "baton-scheduler";

/// What client-go's `leaderelection` does in one round (`tryAcquireOrRenew`), in its own words.
struct ClientGo<'a> {
    api: &'a LeaseApi,
    identity: &'static str,
    lease_seconds: u64,
    observed: Option<(Value, Instant)>,
}

impl<'a> ClientGo<'a> {
    fn new(api: &'a LeaseApi, identity: &'static str, lease_seconds: u64) -> Self {
        Self { api, identity, lease_seconds, observed: None }
    }

    fn now() -> String {
        jiff::fmt::strtime::format("%Y-%m-%dT%H:%M:%S%.6fZ", jiff::Timestamp::now()).expect("a time")
    }

    /// True when it has the lease.
    fn round(&mut self) -> bool {
        let now = Self::now();
        let Some(lease) = self.api.lease(NAME) else {
            let spec = json!({"holderIdentity": self.identity, "leaseDurationSeconds": self.lease_seconds,
                              "acquireTime": now, "renewTime": now, "leaseTransitions": 0});
            self.api.edit(NAME, |lease| lease["spec"] = spec.clone());
            return true;
        };
        let spec = &lease["spec"];
        if self.observed.as_ref().is_none_or(|(seen, _)| seen != spec) {
            self.observed = Some((spec.clone(), Instant::now()));
        }
        let holder = spec["holderIdentity"].as_str().unwrap_or("");
        let (is_leader, since) = (holder == self.identity, self.observed.as_ref().expect("just set").1);
        let valid_for = Duration::from_secs(spec["leaseDurationSeconds"].as_u64().expect("client-go needs it"));
        if !holder.is_empty() && since.elapsed() < valid_for && !is_leader {
            return false;
        }
        let transitions = spec["leaseTransitions"].as_u64().expect("a number") + u64::from(!is_leader);
        let acquired = if is_leader { spec["acquireTime"].clone() } else { json!(now) };
        let (identity, seconds) = (self.identity, self.lease_seconds);
        self.api.edit(NAME, |lease| {
            // As its LeaseLock does: the spec is its own, the metadata stays.
            lease["spec"] = json!({"holderIdentity": identity, "leaseDurationSeconds": seconds,
                                   "acquireTime": acquired, "renewTime": now, "leaseTransitions": transitions});
        });
        true
    }

    fn release(&self) {
        let now = Self::now();
        self.api.edit(NAME, |lease| {
            let transitions = lease["spec"]["leaseTransitions"].clone();
            lease["spec"] = json!({"holderIdentity": "", "leaseDurationSeconds": 1, "acquireTime": now,
                                   "renewTime": now, "leaseTransitions": transitions});
        });
    }
}

async fn reply_to(store: &KubernetesStore, request: CampaignRequest) -> CampaignReply {
    store.campaign(&role(), request).await.expect("an answer").reply
}

#[tokio::test]
async fn a_lease_goes_from_client_go_to_baton_and_back() {
    let api = LeaseApi::start();
    let store = api.store();
    let mut theirs = ClientGo::new(&api, "controller_7", 15);
    assert!(theirs.round());
    let held = reply_to(&store, ask(1, 1)).await;
    assert!(matches!(&held, CampaignReply::Held { holder, .. } if &*holder.identity == "controller_7"), "{held:?}");
    theirs.release();
    let CampaignReply::Granted { token, .. } = reply_to(&store, ask(1, 1)).await else { panic!("not granted") };
    let ours = api.lease(NAME).unwrap();
    assert_eq!(ours["spec"]["holderIdentity"], "web-1");
    assert_eq!(ours["spec"]["leaseDurationSeconds"], 60);
    assert_eq!(ours["spec"]["leaseTransitions"], 1);
    assert_eq!(ours["spec"]["acquireTime"], ours["spec"]["renewTime"]);
    assert!(!theirs.round(), "it honours ours");
    let renewed = store.renew(&role(), renewal(1, 1, token)).await.expect("an answer").reply;
    assert!(matches!(renewed, RenewReply::Renewed { .. }));
    let later = api.lease(NAME).unwrap();
    assert_eq!(later["spec"]["acquireTime"], ours["spec"]["acquireTime"], "the same term");
    assert_ne!(later["spec"]["renewTime"], ours["spec"]["renewTime"]);
    store.release(&role(), giving_back(1, 1, token)).await.expect("an answer");
    let released = api.lease(NAME).unwrap();
    assert_eq!(
        (&released["spec"]["holderIdentity"], &released["spec"]["leaseDurationSeconds"]),
        (&json!(""), &json!(1))
    );
    assert_eq!(released["spec"]["leaseTransitions"], 1);
    assert!(theirs.round(), "a released one is free to it");
    assert_eq!(api.lease(NAME).unwrap()["spec"]["leaseTransitions"], 2);
    // It keeps annotations that it does not know; they are not taken for the present term's.
    let held = reply_to(&store, ask(1, 2)).await;
    assert!(matches!(&held, CampaignReply::Held { holder, .. } if &*holder.identity == "controller_7"), "{held:?}");
    let lost = store.renew(&role(), renewal(1, 1, token)).await.expect("an answer").reply;
    assert!(matches!(&lost, RenewReply::Lost { holder: Some(holder), .. } if &*holder.identity == "controller_7"));
    theirs.release();
    let CampaignReply::Granted { token: next, .. } = reply_to(&store, ask(2, 1)).await else { panic!("not granted") };
    assert!(next > token, "tokens rise over strangers' terms");
}

#[tokio::test]
async fn a_dead_client_go_is_waited_for_in_its_own_seconds_and_a_dead_baton_in_its() {
    let api = LeaseApi::start();
    let store = api.store();
    let mut theirs = ClientGo::new(&api, "controller_7", 1);
    assert!(theirs.round());
    let begun = Instant::now();
    let mut won = false;
    testkit::wait_until_async(BOUND, "its lease is over", async || {
        let request = CampaignRequest { lease_duration: ms(1_200), ..ask(1, 1) };
        won = matches!(reply_to(&store, request).await, CampaignReply::Granted { .. });
        won
    })
    .await;
    assert!(begun.elapsed() >= Duration::from_secs(1), "{:?}", begun.elapsed());
    let begun = Instant::now();
    assert!(!theirs.round());
    testkit::wait_until(BOUND, "client-go takes over", || theirs.round()).await;
    assert!(begun.elapsed() >= ms(1_200), "told in whole seconds, rounded up: {:?}", begun.elapsed());
}
