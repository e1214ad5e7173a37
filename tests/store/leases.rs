//! The Kubernetes store on an API service whose network, load and memory fail.

use std::path::PathBuf;

use baton::protocol::{AnnouncementKind, GuardCause};
use baton::store::{News, Purge};
use testkit::kubernetes::{Fault, write_kubeconfig};
use testkit::wait_until;

use super::*;

const NAME: &str = "baton-scheduler";

/// A store that gives a request up after a second, for leases of 4 s.
fn impatient_leases(api: &FakeApi) -> KubernetesStore {
    let config = KubernetesConfig { command_timeout: ms(1_000), ..leases_config() };
    KubernetesStore::with_kubeconfig(&config, api.kubeconfig(), ms(4_000), 7)
}

/// What a campaign is told, as soon as failures before it are slept off.
async fn told(store: &KubernetesStore, request: CampaignRequest) -> CampaignReply {
    let mut reply = None;
    testkit::wait_until_async(BOUND, "an answer", async || {
        reply = store.campaign(&role(), request.clone()).await.ok().map(|stamped| stamped.reply);
        reply.is_some()
    })
    .await;
    reply.expect("waited for")
}

async fn won(store: &KubernetesStore, request: CampaignRequest) -> (Token, u64) {
    match told(store, request).await {
        CampaignReply::Granted { token, count } => (token, count),
        other => panic!("not granted: {other:?}"),
    }
}

/// Likewise.
async fn renewed(store: &KubernetesStore, token: Token) -> RenewReply {
    let mut reply = None;
    testkit::wait_until_async(BOUND, "an answer", async || {
        reply = store.renew(&role(), renewal(1, 1, token)).await.ok().map(|stamped| stamped.reply);
        reply.is_some()
    })
    .await;
    reply.expect("waited for")
}

/// A role that was led and released: free for whoever asks.
async fn freed(store: &KubernetesStore) -> Token {
    let (token, _) = won(store, unguarded(9, 1)).await;
    let reply = store.release(&role(), giving_back(9, 1, token)).await.expect("an answer").reply;
    assert_eq!(reply, ReleaseReply::Released);
    token
}

#[tokio::test]
async fn a_leader_writes_once_per_renewal_and_a_standby_asks_nothing() {
    let api = FakeApi::start();
    let (leader, standby) = (leases_of(&api), leases_of(&api));
    let (token, _) = won(&leader, unguarded(1, 1)).await;
    let mut news = standby.subscribe(&role(), None);
    assert_eq!(within("the watch", news.recv()).await, Some(News::Gap));
    let (gets, updates) = (api.count("get", NAME), api.count("update", NAME));
    for count in 0..10_u64 {
        assert!(matches!(renewed(&leader, token).await, RenewReply::Renewed { reasserted: false, .. }));
        let Some(News::Said(said)) = within("a heartbeat", news.recv()).await else { panic!("a gap") };
        assert_eq!((said.kind, said.token), (AnnouncementKind::Heartbeat, token), "{count}");
        let reply = standby.campaign(&role(), ask(2, count)).await.expect("an answer").reply;
        assert!(matches!(reply, CampaignReply::Held { token: t, .. } if t == token), "{reply:?}");
    }
    assert_eq!((api.count("get", NAME) - gets, api.count("update", NAME) - updates), (0, 10));
}

#[tokio::test]
async fn a_grant_whose_reply_is_lost_is_found_again_under_the_same_attempt() {
    let api = FakeApi::start();
    let (store, impatient) = (leases_of(&api), impatient_leases(&api));
    let before = freed(&store).await;
    for fault in [Fault::SilentAfter, Fault::CutAfter, Fault::Answer(500)] {
        api.fail_times(&["update"], 1, fault.clone());
        match fault {
            Fault::SilentAfter => {
                let lost = impatient.campaign(&role(), ask(1, 1)).await;
                assert_eq!(lost, Err(StoreError::Unknown { after: ms(1_000) }));
            }
            _ => {
                let lost = store.campaign(&role(), ask(1, 1)).await;
                assert!(is_unreachable(&lost), "{lost:?}");
            }
        }
        api.heal();
        let (token, _) = won(&store, ask(1, 1)).await;
        assert!(token > before);
        assert_eq!(won(&store, ask(1, 1)).await.0, token, "one attempt, one token");
    }
}

#[tokio::test]
async fn what_a_create_without_an_answer_left_is_no_term_before_it_was_watched_for_a_lease() {
    let api = FakeApi::start();
    let store = leases_of(&api);
    api.fail_times(&["create"], 1, Fault::CutAfter);
    let lease_duration = ms(400);
    let lost = store.campaign(&role(), CampaignRequest { lease_duration, ..unguarded(1, 1) }).await;
    assert!(is_unreachable(&lost), "{lost:?}");
    let left = api.lease(NAME).expect("it was made all the same");
    let left: u64 = left["metadata"]["annotations"]["baton.dev/token"].as_str().unwrap().parse().unwrap();
    let request = CampaignRequest { lease_duration, ..ask(1, 1) };
    let reply = told(&store, request.clone()).await;
    assert!(matches!(reply, CampaignReply::Guarded { cause: GuardCause::Regression, .. }), "{reply:?}");
    let mut next = None;
    testkit::wait_until_async(BOUND, "the lease has been watched", async || {
        let reply = store.campaign(&role(), request.clone()).await.expect("an answer").reply;
        next = if let CampaignReply::Granted { token, .. } = reply { Some(token) } else { None };
        next.is_some()
    })
    .await;
    assert!(next.expect("waited for").get() > left, "another term");
}

#[tokio::test]
async fn a_conflict_is_looked_at_and_decided_anew() {
    let api = FakeApi::start();
    let (store, other) = (leases_of(&api), leases_of(&api));
    let (token, _) = won(&store, unguarded(1, 1)).await;
    // A label that somebody adds is none of ours, and stays.
    api.edit(NAME, |lease| lease["metadata"]["labels"] = serde_json::json!({"team": "a"}));
    assert!(matches!(renewed(&store, token).await, RenewReply::Renewed { reasserted: false, .. }));
    assert_eq!(api.lease(NAME).unwrap()["metadata"]["labels"]["team"], "a");
    // Another's release and grant in between are seen before anything is written over them.
    other.release(&role(), giving_back(1, 1, token)).await.expect("an answer");
    let (next, _) = won(&other, ask(2, 1)).await;
    let lost = renewed(&store, token).await;
    assert!(matches!(&lost, RenewReply::Lost { token: t, holder: Some(h) } if *t == next && &*h.identity == "web-2"));
    api.fail(&["update"], Fault::Answer(409));
    let given_up = store.campaign(&role(), unguarded(2, 1)).await;
    let told = given_up.expect_err("conflicts without end").to_string();
    assert!(told.contains("was changed 8 times under this request"), "{told}");
}

#[tokio::test]
async fn an_object_deleted_under_its_leader_is_put_back_and_nobody_else_is_let_in_meanwhile() {
    let api = FakeApi::start();
    let (leader, other) = (leases_of(&api), leases_of(&api));
    let (token, _) = won(&leader, unguarded(1, 1)).await;
    let mut news = other.subscribe(&role(), None);
    assert_eq!(within("the watch", news.recv()).await, Some(News::Gap));
    assert!(api.delete(NAME));
    assert_eq!(within("the deletion", news.recv()).await, Some(News::Gap), "no release: only something to look at");
    let reply = other.campaign(&role(), ask(2, 1)).await.expect("an answer").reply;
    assert!(matches!(reply, CampaignReply::Guarded { cause: GuardCause::Empty, .. }), "{reply:?}");
    assert!(matches!(renewed(&leader, token).await, RenewReply::Renewed { reasserted: true, .. }));
    let back = within("the heartbeat", news.recv()).await;
    assert!(matches!(&back, Some(News::Said(said)) if said.token == token), "{back:?}");
    assert_eq!(api.lease(NAME).unwrap()["metadata"]["annotations"]["baton.dev/token"], token.to_string());
}

#[tokio::test]
async fn every_new_watch_begins_with_a_gap_and_misses_nothing() {
    let api = FakeApi::start();
    let (leader, standby) = (leases_of(&api), leases_of(&api));
    let (token, _) = won(&leader, unguarded(1, 1)).await;
    let mut news = standby.subscribe(&role(), None);
    assert_eq!(within("the watch", news.recv()).await, Some(News::Gap));
    for gone in [false, true, false] {
        let watches = api.count("watch", NAME);
        api.fail(&["watch"], Fault::Answer(503));
        api.end_watches(gone);
        wait_until(BOUND, "the watch is asked for again", || api.count("watch", NAME) > watches).await;
        // What happens while nobody watches.
        assert!(matches!(renewed(&leader, token).await, RenewReply::Renewed { .. }));
        api.heal();
        let first = within("the next watch", news.recv()).await;
        let second = within("what happened", news.recv()).await;
        let mut told = [first, second];
        told.sort_by_key(|news| matches!(news, Some(News::Gap)));
        assert!(matches!(&told[0], Some(News::Said(said)) if said.token == token), "{told:?}");
        assert_eq!(told[1], Some(News::Gap));
    }
    let released = leader.release(&role(), giving_back(1, 1, token)).await.expect("an answer").reply;
    assert_eq!(released, ReleaseReply::Released);
    let said = within("the release", news.recv()).await;
    assert!(matches!(&said, Some(News::Said(said)) if said.kind == AnnouncementKind::Release), "{said:?}");
}

#[tokio::test]
async fn a_watch_that_nobody_needs_ends() {
    let api = FakeApi::start();
    let store = leases_of(&api);
    let mut news = store.subscribe(&role(), None);
    assert_eq!(within("the watch", news.recv()).await, Some(News::Gap));
    drop(news);
    freed(&store).await;
    let watches = api.count("watch", NAME);
    api.end_watches(false);
    let mut again = store.subscribe(&role(), None);
    assert_eq!(within("another watch", again.recv()).await, Some(News::Gap));
    assert_eq!(api.count("watch", NAME), watches + 1);
}

#[tokio::test]
async fn a_silent_service_leaves_requests_unknown_and_the_health_says_so_until_it_answers() {
    let api = FakeApi::start();
    let store = impatient_leases(&api);
    let mut health = store.health();
    let (token, _) = won(&store, unguarded(1, 1)).await;
    assert_eq!(*health.borrow_and_update(), StoreHealth::Up);
    api.fail(&[], Fault::Silent);
    let lost = store.renew(&role(), renewal(1, 1, token)).await;
    assert_eq!(lost, Err(StoreError::Unknown { after: ms(1_000) }));
    assert!(matches!(&*health.borrow_and_update(), StoreHealth::Down { reason } if reason.contains("1s")));
    api.heal();
    assert!(matches!(renewed(&store, token).await, RenewReply::Renewed { reasserted: false, .. }));
    assert_eq!(*health.borrow_and_update(), StoreHealth::Up);
}

#[tokio::test]
async fn a_service_that_asks_to_wait_is_not_asked_by_candidates_but_by_its_leader() {
    let api = FakeApi::start();
    let store = leases_of(&api);
    let (token, _) = won(&store, unguarded(1, 1)).await;
    api.fail_times(&["get"], 1, Fault::TooMany(20));
    let refused = store.campaign(&role(), ask(2, 1)).await.expect_err("too many").to_string();
    assert!(refused.contains("too many requests (429, asks to wait 20 s)"), "{refused}");
    let gets = api.count("get", NAME);
    let resting = store.campaign(&role(), ask(2, 1)).await.expect_err("still resting").to_string();
    assert_eq!(resting, refused);
    assert_eq!(api.count("get", NAME), gets);
    assert!(matches!(renewed(&store, token).await, RenewReply::Renewed { .. }));
    let held = store.campaign(&role(), ask(2, 1)).await.expect("it answers again").reply;
    assert!(matches!(held, CampaignReply::Held { .. }), "{held:?}");
}

#[tokio::test]
async fn a_damaged_annotation_is_named_and_left_as_it_is() {
    let api = FakeApi::start();
    let store = leases_of(&api);
    let (token, _) = won(&store, unguarded(1, 1)).await;
    api.edit(NAME, |lease| lease["metadata"]["annotations"]["baton.dev/token"] = "many".into());
    let damaged = api.lease(NAME);
    let is_named = |error: StoreError| {
        assert!(matches!(&error, StoreError::Garbage { key, why }
            if key == "the Lease baton-scheduler" && why.contains("baton.dev/token")));
    };
    is_named(store.renew(&role(), renewal(1, 1, token)).await.expect_err("garbage"));
    is_named(store.campaign(&role(), unguarded(2, 1)).await.expect_err("garbage"));
    is_named(store.release(&role(), giving_back(1, 1, token)).await.expect_err("garbage"));
    is_named(store.purge(&role()).await.expect_err("garbage"));
    assert_eq!(api.lease(NAME), damaged);
    api.edit(NAME, |lease| lease["metadata"]["annotations"]["baton.dev/token"] = token.to_string().into());
    assert!(matches!(renewed(&store, token).await, RenewReply::Renewed { .. }), "repaired");
}

#[tokio::test]
async fn a_role_is_purged_unless_somebody_has_it() {
    let api = FakeApi::start();
    let store = leases_of(&api);
    assert_eq!(store.purge(&role()).await, Ok(Purge::Absent));
    let (token, _) = won(&store, unguarded(1, 1)).await;
    assert_eq!(store.purge(&role()).await, Ok(Purge::InUse));
    store.release(&role(), giving_back(1, 1, token)).await.expect("an answer");
    assert_eq!(store.purge(&role()).await, Ok(Purge::Purged));
    assert_eq!(api.lease(NAME), None);
    // A term whose holder died long ago.
    won(&store, unguarded(1, 2)).await;
    let old = "2020-01-01T00:00:00.000000Z";
    api.edit(NAME, |lease| {
        lease["spec"]["renewTime"] = old.into();
        lease["metadata"]["annotations"]["baton.dev/renew-time"] = old.into();
    });
    assert_eq!(store.purge(&role()).await, Ok(Purge::Purged));
    // Somebody else's, of that name.
    api.edit(NAME, |lease| lease["spec"] = serde_json::json!({"holderIdentity": ""}));
    assert!(matches!(store.purge(&role()).await, Err(StoreError::Garbage { .. })));
    assert!(api.lease(NAME).is_some());
}

#[tokio::test]
async fn a_mirror_of_that_name_is_no_lease_and_is_left_as_it_is() {
    let api = FakeApi::start();
    api.edit(NAME, |lease| {
        lease["metadata"]["annotations"] = serde_json::json!({"baton.dev/mirror": "7"});
        lease["spec"] = serde_json::json!({"holderIdentity": "", "leaseDurationSeconds": 1});
    });
    let (store, mirror) = (leases_of(&api), api.lease(NAME));
    let is_named = |error: StoreError| {
        assert!(matches!(&error, StoreError::Garbage { why, .. } if why.contains("a mirror")), "{error}");
    };
    is_named(store.campaign(&role(), unguarded(1, 1)).await.expect_err("no lease"));
    is_named(store.purge(&role()).await.expect_err("no lease"));
    assert_eq!(api.lease(NAME), mirror);
}

#[tokio::test]
async fn a_service_at_another_address_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let kubeconfig: PathBuf = dir.path().join("kubeconfig");
    let nobody = testkit::ports::free_port();
    write_kubeconfig(&kubeconfig, nobody, "shop");
    let store = leases_at(kubeconfig, &leases_config());
    let told = store.campaign(&role(), unguarded(1, 1)).await.expect_err("nobody listens").to_string();
    assert!(told.contains(&format!("127.0.0.1:{nobody}")) && told.contains("refused"), "{told}");
    assert!(!told.contains("correct-horse"));
    let store = leases_at(dir.path().join("absent"), &leases_config());
    let told = store.campaign(&role(), unguarded(1, 1)).await.expect_err("no kubeconfig").to_string();
    assert!(told.contains("absent"), "{told}");
}
