//! What an API service refuses, in words for who has to put it right.

use baton::base::clock::{BootClock, Clock};
use baton::protocol::Mono;
use baton::store::News;
use testkit::kubernetes::{Fault, write_kubeconfig};
use testkit::wait_until;

use super::*;

const NAME: &str = "baton-scheduler";

async fn refused(store: &KubernetesStore) -> String {
    store.campaign(&role(), unguarded(1, 1)).await.expect_err("it is refused").to_string()
}

#[tokio::test]
async fn a_verb_that_rbac_forbids_is_named_with_the_rule_that_is_missing() {
    let api = FakeApi::start();
    for verb in ["get", "create", "update"] {
        let store = leases_of(&api);
        if verb == "update" {
            api.forbid(&[]);
            assert!(store.campaign(&role(), unguarded(2, 1)).await.is_ok());
        }
        api.forbid(&[verb]);
        let told = match verb {
            "update" => store.renew(&role(), renewal(2, 1, Token::NONE)).await.err().map(|error| error.to_string()),
            _ => Some(refused(&store).await),
        };
        // The renewal is of another term, so that it is answered without a write: the campaign writes.
        let told = match told {
            Some(told) => told,
            None => store.campaign(&role(), unguarded(2, 1)).await.expect_err("forbidden").to_string(),
        };
        for word in ["the store refuses", verb, "namespace shop", NAME, "resources: [leases]", "(403)"] {
            assert!(told.contains(word), "{verb}: {word:?} is not in {told:?}");
        }
        assert_eq!(*store.health().borrow(), StoreHealth::Up, "it answers; what it forbids is told beside the role");
    }
}

#[tokio::test]
async fn a_forbidden_watch_is_told_beside_every_reason_and_replicas_look_by_themselves() {
    let api = FakeApi::start();
    let store = leases_of(&api);
    api.forbid(&["watch"]);
    let mut news = store.subscribe(&role(), None);
    wait_until(BOUND, "it is noted", || !store.notes().is_empty()).await;
    let note = store.notes().join("; ");
    assert!(note.contains("does not let us watch") && note.contains("verbs: [watch]"), "{note}");
    assert!(matches!(store.campaign(&role(), unguarded(1, 1)).await, Ok(stamped)
        if matches!(stamped.reply, CampaignReply::Granted { .. })));
    api.forbid(&[]);
    loop {
        // A grant may have been told before the watch was there.
        if within("the watch, once it may", news.recv()).await == Some(News::Gap) && store.notes().is_empty() {
            break;
        }
    }
}

#[tokio::test]
async fn credentials_that_are_not_accepted_are_named_and_not_repeated() {
    let api = FakeApi::start();
    let store = leases_of(&api);
    api.reject_credentials(true);
    let told = refused(&store).await;
    assert!(told.contains("does not accept these credentials (401"), "{told}");
    assert!(!told.contains("correct-horse"), "{told}");
    assert!(matches!(&*store.health().borrow(), StoreHealth::Down { reason } if reason.contains("401")));
    assert_eq!(api.last_token().as_deref(), Some("Bearer correct-horse"));
    api.reject_credentials(false);
    testkit::wait_until_async(BOUND, "they are taken", async || store.campaign(&role(), unguarded(1, 1)).await.is_ok())
        .await;
}

#[tokio::test]
async fn a_namespace_that_does_not_exist_is_named() {
    let api = FakeApi::start();
    let config = KubernetesConfig { namespace: Some("nowhere".to_owned()), ..leases_config() };
    let told = refused(&leases_at(api.kubeconfig(), &config)).await;
    assert!(told.contains("no namespace nowhere") && told.contains("store.kubernetes.namespace"), "{told}");
    // The same from the context of the kubeconfig.
    let dir = tempfile::tempdir().unwrap();
    let kubeconfig = dir.path().join("kubeconfig");
    write_kubeconfig(&kubeconfig, api.port(), "elsewhere");
    assert!(refused(&leases_at(kubeconfig, &leases_config())).await.contains("no namespace elsewhere"));
}

#[tokio::test]
async fn a_server_that_is_no_kubernetes_is_told() {
    let api = FakeApi::start();
    let dir = tempfile::tempdir().unwrap();
    let kubeconfig = dir.path().join("kubeconfig");
    write_kubeconfig(&kubeconfig, api.port(), "shop");
    let text = std::fs::read_to_string(&kubeconfig).unwrap();
    let port = api.port();
    let text = text.replace(&format!("127.0.0.1:{port}"), &format!("127.0.0.1:{port}/elsewhere"));
    std::fs::write(&kubeconfig, text).unwrap();
    let told = refused(&leases_at(kubeconfig, &leases_config())).await;
    assert!(told.contains("knows no Leases (404") && told.contains("Kubernetes API server"), "{told}");
}

#[tokio::test]
async fn what_it_does_not_take_and_what_ails_it_is_passed_on() {
    let api = FakeApi::start();
    for (code, words) in [
        (422, ["does not take baton-scheduler", "told to answer 422"]),
        (500, ["cannot be reached", "answers 500: told to answer 500"]),
        (503, ["cannot be reached", "answers 503"]),
        (418, ["answers 418", "does not understand"]),
    ] {
        api.fail(&["create"], Fault::Answer(code));
        let told = refused(&leases_of(&api)).await;
        assert!(words.iter().all(|word| told.contains(word)), "{code}: {told}");
        api.heal();
    }
}

#[tokio::test]
async fn the_first_leader_comes_without_the_right_to_watch_too() {
    let api = FakeApi::start();
    api.forbid(&["watch"]);
    let config = KubernetesConfig { command_timeout: ms(1_000), ..leases_config() };
    let lease_duration = ms(1_200);
    let store = KubernetesStore::with_kubeconfig(&config, api.kubeconfig(), lease_duration, 7);
    let _news = store.subscribe(&role(), None);
    let (clock, mut due) = (BootClock, Mono::from_nanos(0));
    testkit::wait_until_async(BOUND, "an absent Lease was looked at for long enough", async || {
        // As a candidate does: not before it was told to come back.
        if clock.now() < due {
            return false;
        }
        match store.campaign(&role(), CampaignRequest { lease_duration, ..ask(1, 1) }).await {
            Ok(stamped) => match stamped.reply {
                CampaignReply::Granted { .. } => return true,
                CampaignReply::Guarded { remaining, .. } => due = clock.now() + remaining,
                other => panic!("{other:?}"),
            },
            Err(error) => panic!("{error}"),
        }
        false
    })
    .await;
}

#[tokio::test]
async fn what_is_refused_for_one_role_is_asked_less_and_less_often() {
    let api = FakeApi::start();
    let store = leases_of(&api);
    let other = RoleName::new("other").expect("a DNS label");
    api.edit(NAME, |lease| lease["metadata"]["annotations"] = serde_json::json!({"baton.dev/token": "many"}));
    for _ in 0..10 {
        assert!(refused(&store).await.contains("baton.dev/session"));
    }
    assert_eq!(api.count("get", NAME), 1, "asked while it rests");
    assert!(store.campaign(&other, unguarded(1, 1)).await.is_ok(), "the server does its work");
    // Whoever watches is told at once when it is repaired.
    let mut news = store.subscribe(&role(), None);
    assert_eq!(within("the watch", news.recv()).await, Some(News::Gap));
    assert!(refused(&store).await.contains("baton.dev/session"));
    api.edit(NAME, |lease| drop(lease["metadata"].as_object_mut().unwrap().remove("annotations")));
    testkit::wait_until_async(BOUND, "it is repaired", async || store.campaign(&role(), unguarded(1, 1)).await.is_ok())
        .await;
}

#[tokio::test]
async fn no_time_to_wait_is_no_leave_to_hurry() {
    let api = FakeApi::start();
    let store = leases_of(&api);
    api.fail(&[], Fault::TooMany(0));
    for _ in 0..10 {
        assert!(refused(&store).await.contains("too many requests (429"));
    }
    assert_eq!(api.count("get", NAME), 1, "asked while it rests");
}
