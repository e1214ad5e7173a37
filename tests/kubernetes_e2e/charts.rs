//! What the charts render, given to a real API server: in a namespace in which only pods of the `restricted` level of
//! Pod Security may be, and with the rights that the chart makes.

use k8s_openapi::api::core::v1::{Namespace, Pod, ServiceAccount};
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::discovery::Scope;
use kube::{Api, Error};
use serde_json::{Value, json};
use testkit::apiserver::Cluster;
use testkit::helm::shop;
use testkit::helm::{Charts, done, names, object};
use testkit::sidecars::replica::{ROLE, Replica, Settings};
use testkit::wait::until;

use crate::group::{TIMINGS, settings};

/// A cluster whose namespace takes restricted pods only.
async fn restricted() -> Cluster {
    let cluster = Cluster::start().await;
    let namespaces: Api<Namespace> = Api::all(cluster.client());
    let labels = json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}});
    let patched = namespaces.patch(cluster.namespace(), &PatchParams::default(), &Patch::Merge(&labels)).await;
    patched.expect("the tests may label their namespace");
    cluster
}

/// The request to render a chart for the cluster's namespace.
pub fn render(cluster: &Cluster, charts: &Charts, chart: &str, values: &Value) -> Value {
    let mut request = charts.render(chart, values);
    request["namespace"] = json!(cluster.namespace());
    request
}

/// Server-side apply of one object, as `kubectl apply --server-side`, or only a try at it.
pub async fn apply(cluster: &Cluster, object: &Value, dry_run: bool) -> Result<(), Error> {
    let text = |key: &str| object[key].as_str().expect("every object has it");
    let (group, version) = text("apiVersion").split_once('/').unwrap_or(("", text("apiVersion")));
    let kind = GroupVersionKind::gvk(group, version, text("kind"));
    let (resource, abilities) = kube::discovery::pinned_kind(&cluster.client(), &kind).await?;
    let api: Api<DynamicObject> = match abilities.scope {
        Scope::Cluster => Api::all_with(cluster.client(), &resource),
        Scope::Namespaced => Api::namespaced_with(cluster.client(), cluster.namespace(), &resource),
    };
    let params = PatchParams { dry_run, ..PatchParams::apply("baton-tests") };
    let name = object["metadata"]["name"].as_str().expect("every object has a name");
    api.patch(name, &params, &Patch::Apply(object)).await.map(drop)
}

/// The pod that a Deployment's controller would make.
fn pod_of(deployment: &Value) -> Pod {
    let mut pod = deployment["spec"]["template"].clone();
    pod["metadata"]["generateName"] = json!(format!("{}-", deployment["metadata"]["name"].as_str().expect("a name")));
    serde_json::from_value(pod).expect("a pod")
}

/// Everything that was rendered is accepted, first as a try, and so are the pods that would come of it.
async fn accepted(cluster: &Cluster, objects: &[Value]) {
    let (pods, others): (Vec<&Value>, Vec<&Value>) = objects.iter().partition(|object| object["kind"] == "Pod");
    for dry_run in [true, false] {
        for object in &others {
            let applied = apply(cluster, object, dry_run).await;
            applied.unwrap_or_else(|why| panic!("{} {}: {why}", object["kind"], object["metadata"]["name"]));
        }
    }
    let of_deployments = others.iter().filter(|object| object["kind"] == "Deployment").map(|object| pod_of(object));
    let of_the_test = pods.into_iter().map(|pod| serde_json::from_value(pod.clone()).expect("a pod"));
    let all: Vec<Pod> = of_deployments.chain(of_the_test).collect();
    assert!(!all.is_empty());
    let api: Api<Pod> = Api::namespaced(cluster.client(), cluster.namespace());
    for pod in all {
        api.create(&PostParams::default(), &pod).await.expect("a restricted pod");
    }
}

fn values() -> Vec<(&'static str, Value)> {
    let monitoring = json!({
        "networkPolicy": {"enabled": true},
        "baton": {
            "networkPolicy": {"enabled": true, "metricsFrom": [{"namespaceSelector": {}}]},
            "config": {"kubernetes": {"podLabels": true, "events": true, "leaseMirror": true}},
            "leaderService": {"enabled": true, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]},
        },
    });
    let secret = json!({"baton": {"redis": {
        "existingSecret": "redis", "passwordKey": "password", "tls": {"existingSecret": "tls"},
    }}});
    vec![
        ("default", json!({})),
        ("container", json!({"baton": {"nativeSidecar": false, "waitForStore": true}})),
        ("secret", secret),
        ("kubernetes", json!({"baton": {"config": {"store": {"redis": null, "kubernetes": {}}}}})),
        ("all", monitoring),
    ]
}

#[tokio::test]
async fn the_demo_is_accepted_where_only_restricted_pods_may_be() {
    let cluster = restricted().await;
    let charts = Charts::copy();
    let values = values();
    let requests: Vec<Value> = values
        .iter()
        .map(|(name, values)| {
            let mut request = render(&cluster, &charts, "baton-demo", values);
            request["name"] = json!(name);
            request
        })
        .collect();
    for ((name, _), answer) in values.iter().zip(done(&requests)) {
        let objects = answer["objects"].as_array().expect("objects");
        accepted(&cluster, objects).await;
        println!("{name}: accepted: {}", names(objects));
    }
    // The server does look: the same pod with one thing missing.
    let answer = done(&[render(&cluster, &charts, "baton-demo", &json!({}))]).remove(0);
    let mut worker = object(answer["objects"].as_array().expect("objects"), "Deployment", "baton-demo").clone();
    worker["spec"]["template"]["spec"]["serviceAccountName"] = json!("default-baton-demo-baton");
    worker["spec"]["template"]["spec"]["initContainers"][0]["securityContext"]["seccompProfile"] = Value::Null;
    let pods: Api<Pod> = Api::namespaced(cluster.client(), cluster.namespace());
    let refused = pods.create(&PostParams::default(), &pod_of(&worker)).await.expect_err("not restricted").to_string();
    assert!(refused.contains("violates PodSecurity") && refused.contains("seccompProfile"), "{refused}");
}

#[tokio::test]
async fn a_users_own_chart_with_the_documented_lines_is_accepted() {
    let cluster = restricted().await;
    let charts = Charts::copy();
    let chart = shop::make(&charts);
    let mut request = render(&cluster, &charts, "shop", &shop::own_values());
    request["chart"] = json!(chart);
    request["name"] = json!("shop");
    let answer = done(&[request]).remove(0);
    let objects = answer["objects"].as_array().expect("objects");
    // What `helm create` makes for `helm test` is not ours, nor restricted.
    let installed: Vec<Value> =
        objects.iter().filter(|object| object["metadata"]["annotations"]["helm.sh/hook"].is_null()).cloned().collect();
    accepted(&cluster, &installed).await;
    println!("accepted: {}", names(&installed));
}

#[tokio::test]
async fn the_rights_that_the_chart_gives_its_service_account_are_enough_to_lead() {
    let cluster = restricted().await;
    let charts = Charts::copy();
    let values = json!({"baton": {"config": {"store": {"redis": null, "kubernetes": {"namePrefix": "shop"}}}}});
    let answer = done(&[render(&cluster, &charts, "baton-demo", &values)]).remove(0);
    let objects = answer["objects"].as_array().expect("objects");
    for object in objects.iter().filter(|object| object["kind"] != "Pod") {
        apply(&cluster, object, false).await.expect("accepted");
    }
    let worker = object(objects, "Deployment", "baton-demo");
    let account = worker["spec"]["template"]["spec"]["serviceAccountName"].as_str().expect("an account");
    let accounts: Api<ServiceAccount> = Api::namespaced(cluster.client(), cluster.namespace());
    let made = accounts.get(account).await.expect("the chart makes it");
    assert_eq!(made.automount_service_account_token, Some(false));
    let kubeconfig = cluster.kubeconfig_of(account).await;
    let store =
        format!("{{ kubernetes: {{ namespace: {}, namePrefix: shop, commandTimeout: 800ms }} }}", cluster.namespace());
    let settings = Settings { store: Some(store), ..settings(0, cluster.namespace(), &kubeconfig) };
    let replica = Replica::start(0, settings);
    until("it leads with the chart's Role", || replica.role_metric("baton_leader", &[]) > 0.0);
    // And renews, which is another verb than to create.
    until("it renews", || replica.role_metric("baton_renewals_total", &[("outcome", "ok")]) >= 2.0);
    let lease = cluster.leases().get(&format!("shop-{ROLE}")).await.expect("the Lease is there");
    let seconds = lease.spec.and_then(|spec| spec.lease_duration_seconds);
    assert_eq!(seconds.map(|seconds| u64::try_from(seconds).expect("positive") * 1_000), Some(TIMINGS.duration));
}
