//! The admission policies that the documents tell people to make: what they keep from whom.

use std::path::Path;

use k8s_openapi::api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding};
use k8s_openapi::api::coordination::v1::Lease as LeaseObject;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::config::Kubeconfig;
use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::apiserver::{Cluster, client, lease_rule};
use testkit::helm::{Charts, done, names, object};
use testkit::redis::RedisServer;
use testkit::sidecars::replica::{Lease, Replica, Settings};
use testkit::{BOUND, wait_until_async};

use crate::charts::{apply, render};
use crate::group::{self, LEASE_NAME};

/// Makes what this page says, for a namespace and an account of the cluster's.
async fn make_documented(page: &str, cluster: &Cluster, account: &str) {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(page)).expect("a page");
    let blocks = text.split("```yaml").skip(1).filter_map(|rest| rest.split("```").next());
    let block = blocks.into_iter().find(|block| block.contains("kind: ValidatingAdmissionPolicy\n"));
    let block = block.expect("the page has a policy").split_once('\n').expect("more than a line").1;
    let block = block.replace("serviceaccount:shop:web", &format!("serviceaccount:{}:{account}", cluster.namespace()));
    let block = block.replace("name: shop }", &format!("name: {} }}", cluster.namespace()));
    let documents: Vec<Value> = block.split("\n---\n").map(|one| serde_yaml::from_str(one).expect("YAML")).collect();
    let [policy, binding] = <[Value; 2]>::try_from(documents).expect("a policy and its binding");
    let with = PostParams::default();
    let policy: ValidatingAdmissionPolicy = serde_json::from_value(policy).expect("a policy");
    Api::all(cluster.client()).create(&with, &policy).await.expect("it is taken");
    let binding: ValidatingAdmissionPolicyBinding = serde_json::from_value(binding).expect("a binding");
    Api::all(cluster.client()).create(&with, &binding).await.expect("it is taken");
}

/// Whether the policy refuses this; every other refusal is a mistake of the test.
fn refused<T: std::fmt::Debug>(done: Result<T, kube::Error>) -> bool {
    match done {
        Ok(_) => false,
        Err(kube::Error::Api(status)) if status.message.contains("ValidatingAdmissionPolicy") => true,
        other => panic!("refused by something else: {other:?}"),
    }
}

#[tokio::test]
async fn leases_of_baton_are_written_by_its_account_alone_under_the_documented_policy() {
    let mut group = group::prepare(Cluster::start_own().await, 2).await;
    let others =
        group.cluster.account("others", vec![lease_rule(&["get", "create", "update", "patch", "delete"], &[])]);
    let others = client(Kubeconfig::read_from(others.await).expect("a kubeconfig")).await;
    let leases: Api<LeaseObject> = Api::namespaced(others, group.cluster.namespace());
    make_documented("kubernetes.md", &group.cluster, "sidecar").await;
    let (with, dry) = (PostParams::default(), PostParams { dry_run: true, ..PostParams::default() });
    let object = |value: Value| serde_json::from_value::<LeaseObject>(value).expect("a Lease");
    let ours = object(json!({"metadata": {"name": LEASE_NAME}, "spec": {"holderIdentity": "me"}}));
    // The server learns of a policy a moment after it was made.
    wait_until_async(BOUND, "the policy is in force", async || refused(leases.create(&dry, &ours).await)).await;

    group::start_all(&mut group);
    let first = group.leader();
    let edit = |value: Value| Patch::Merge(value);
    let patch = PatchParams::default();
    for change in [
        json!({"spec": {"holderIdentity": "me"}}),
        json!({"metadata": {"annotations": {"baton.dev/token": "1"}}}),
        json!({"metadata": {"labels": {"team": "a"}}}),
    ] {
        assert!(refused(leases.patch(LEASE_NAME, &patch, &edit(change.clone())).await), "{change}");
    }
    assert!(refused(leases.delete(LEASE_NAME, &DeleteParams::default()).await));
    let label = edit(json!({"metadata": {"labels": {"team": "a"}}}));
    assert!(refused(group.cluster.leases().patch(LEASE_NAME, &patch, &label).await), "an administrator, too");
    let annotated = json!({"metadata": {"name": "elsewhere", "annotations": {"baton.dev/mirror": "7"}}, "spec": {}});
    assert!(refused(leases.create(&with, &object(annotated)).await));
    // What is none of Baton's business.
    let other = object(json!({"metadata": {"name": "controller"}, "spec": {"holderIdentity": "me"}}));
    leases.create(&with, &other).await.expect("it is theirs");
    leases.delete("controller", &DeleteParams::default()).await.expect("it is theirs");

    group.replicas[first.who.replica].signal(Signal::TERM);
    let next = group.leader_after(&first);
    group.still_leads(&next, std::time::Duration::from_secs(2));
    group.finish("an admission policy for Leases", "");
}

/// `web-0`, a pod of this account.
async fn make_pod(cluster: &Cluster, account: &str) -> Pod {
    let pods: Api<Pod> = Api::namespaced(cluster.client(), cluster.namespace());
    let pod = json!({"metadata": {"name": "web-0", "labels": {"app": "web"}}, "spec": {
        "serviceAccountName": account, "containers": [{"name": "app", "image": "shop:1"}],
    }});
    pods.create(&PostParams::default(), &serde_json::from_value(pod).expect("a pod")).await.expect("a pod")
}

/// Waits until a policy is in force: who has this kubeconfig then changes nothing of `web-0` but what is of roles.
async fn changes_roles_only(cluster: &Cluster, kubeconfig: &Path) {
    let theirs = client(Kubeconfig::read_from(kubeconfig).expect("a kubeconfig")).await;
    let theirs: Api<Pod> = Api::namespaced(theirs, cluster.namespace());
    let patch = PatchParams::default();
    let done = async |change: Value| theirs.patch("web-0", &patch, &Patch::Strategic(change)).await;
    // Until then it changes the image, to another each time: a patch that changes nothing is none.
    let mut number = 0;
    wait_until_async(BOUND, "the policy is in force", async || {
        number += 1;
        let image = format!("other:{number}");
        refused(done(json!({"spec": {"containers": [{"name": "app", "image": image}]}})).await)
    })
    .await;
    for change in [
        json!({"spec": {"activeDeadlineSeconds": 1}}),
        json!({"metadata": {"labels": {"app": null}}}),
        json!({"metadata": {"labels": {"app": "other"}}}),
        json!({"metadata": {"annotations": {"sidecar.example/inject": "yes"}}}),
        json!({"metadata": {"finalizers": ["example.com/kept"]}}),
        json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "b"}]}}),
    ] {
        assert!(refused(done(change.clone()).await), "{change}");
    }
    for change in [
        json!({}),
        json!({"metadata": {"labels": {"baton.dev/role-scheduler": "leader"},
                            "annotations": {"baton.dev/role-scheduler": "7"}}}),
        json!({"metadata": {"labels": {"baton.dev/role-scheduler": null},
                            "annotations": {"baton.dev/role-scheduler": null}}}),
    ] {
        assert!(!refused(done(change.clone()).await), "{change}");
    }
}

#[tokio::test]
async fn the_right_to_patch_pods_is_one_to_label_them_under_the_documented_policy() {
    let cluster = Cluster::start_own().await;
    let pods_rule = PolicyRule {
        api_groups: Some(vec![String::new()]),
        resources: Some(vec!["pods".to_owned()]),
        verbs: vec!["patch".to_owned()],
        ..PolicyRule::default()
    };
    let kubeconfig = cluster.account("web", vec![pods_rule]).await;
    make_pod(&cluster, "web").await;
    make_documented("kubernetes-integration.md", &cluster, "web").await;
    changes_roles_only(&cluster, &kubeconfig).await;
}

#[tokio::test]
async fn under_the_charts_policy_its_account_labels_the_leader_and_changes_nothing_else_of_a_pod() {
    let cluster = Cluster::start_own().await;
    let values = json!({"baton": {"config": {"kubernetes": {"podLabels": true}}, "rbac": {"admissionPolicy": true}}});
    let answer = done(&[render(&cluster, &Charts::copy(), "baton-demo", &values)]).remove(0);
    let objects = answer["objects"].as_array().expect("objects");
    let account = object(objects, "ServiceAccount", "baton")["metadata"]["name"].as_str().expect("a name");
    let is_of_rights = |object: &&Value| {
        let kind = object["kind"].as_str().expect("a kind");
        kind == "ServiceAccount" || kind.starts_with("Role") || kind.starts_with("ValidatingAdmissionPolicy")
    };
    let of_rights: Vec<&Value> = objects.iter().filter(is_of_rights).collect();
    assert_eq!(of_rights.len(), 5, "{}", names(objects));
    for object in of_rights {
        apply(&cluster, object, false).await.expect("it is taken");
    }
    let pod = make_pod(&cluster, account).await;
    let kubeconfig = cluster.kubeconfig_of(account).await;
    changes_roles_only(&cluster, &kubeconfig).await;

    let redis = RedisServer::start();
    let settings = Settings::new(0, redis.url(), Lease::SHORT);
    let uid = pod.metadata.uid.expect("the server gives one");
    let _replica = Replica::start(0, settings.telling(&["podLabels"], kubeconfig, cluster.namespace(), &uid));
    let pods: Api<Pod> = Api::namespaced(cluster.client(), cluster.namespace());
    wait_until_async(BOUND, "the sidecar labels its pod", async || {
        let labels = pods.get("web-0").await.expect("the pod is there").metadata.labels.unwrap_or_default();
        labels.get("baton.dev/role-scheduler").is_some_and(|value| value == "leader")
    })
    .await;
}
