//! The injector's policy on an API server: what it makes of pods is what the library chart would have made of them.

use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use testkit::apiserver::Cluster;
use testkit::helm::{Charts, done, object};
use testkit::{BOUND, wait_until_async};

use crate::charts::{apply, render};

/// The label that asks for it, and the name that both charts give their objects.
const LABEL: &str = "baton.dev/inject";
const NAME: &str = "shop-baton";

/// Values of the library chart, each with another sidecar, other volumes, or other annotations.
fn sidecars() -> Vec<Value> {
    let kubernetes = json!({"config": {"store": {"redis": null, "kubernetes": {}}, "kubernetes": {"podLabels": true}},
        "serviceAccount": {"name": "default"}});
    let login = json!({"redis": {"existingSecret": "login", "usernameKey": "user", "passwordKey": "password",
        "tls": {"existingSecret": "tls", "caKey": "ca", "certKey": "crt", "keyKey": "key"}},
        "config": {"store": {"redis": {"url": "rediss://redis:6379/0"}}}});
    let text = "it's \"a\" & b <c>\\n\n${d} é";
    let more = json!({"waitForStore": true, "mesh": {"kind": "istio"}, "env": [{"name": "TEXT", "value": text}],
        "resources": {"limits": {"cpu": 1, "memory": "64Mi"}}, "extraVolumes": [{"name": "scratch", "emptyDir": {}}],
        "extraVolumeMounts": [{"name": "scratch", "mountPath": "/scratch"}]});
    vec![json!({}), kubernetes, login, more]
}

/// Every pod that differs in what the policy touches, or must not: 48 of them.
fn shapes() -> Vec<Value> {
    let safe = json!({"allowPrivilegeEscalation": false, "runAsNonRoot": true, "runAsUser": 1,
        "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"}});
    let container = |name: &str| json!({"name": name, "image": "shop:1", "securityContext": safe});
    let mut proxy = container("proxy");
    proxy["restartPolicy"] = "Always".into();
    let mut all = Vec::new();
    for inits in
        [None, Some(json!([])), Some(json!([container("migrate")])), Some(json!([proxy, container("migrate")]))]
    {
        for volumes in [None, Some(json!([{"name": "data", "emptyDir": {}}]))] {
            for annotations in [None, Some(json!({"example.com/a": "d", "e": ""}))] {
                for (token, containers) in [
                    (None, json!([container("app")])),
                    (Some(false), json!([container("app"), container("helper")])),
                    (Some(true), json!([container("app")])),
                ] {
                    let name = format!("shop-{}", all.len());
                    let mut pod = json!({"metadata": {"name": name}, "spec": {"containers": containers}});
                    for (field, value) in [("initContainers", &inits), ("volumes", &volumes)] {
                        value.iter().for_each(|value| pod["spec"][field] = (*value).clone());
                    }
                    annotations.iter().for_each(|value| pod["metadata"]["annotations"] = value.clone());
                    token.iter().for_each(|value| pod["spec"]["automountServiceAccountToken"] = (*value).into());
                    all.push(pod);
                }
            }
        }
    }
    all
}

/// What the three lines of docs/install.md make of a pod: the parts of the demo's pod that are the library's.
fn with_lines(pod: &Value, library: &Value) -> Value {
    let mut pod = pod.clone();
    let ours = |name: &str| name.starts_with("baton") || name == "scratch";
    let first = library["spec"]["initContainers"][0].clone();
    let mut inits = vec![first];
    inits.extend(pod["spec"]["initContainers"].as_array().cloned().unwrap_or_default());
    pod["spec"]["initContainers"] = inits.into();
    let mut volumes = pod["spec"]["volumes"].as_array().cloned().unwrap_or_default();
    let all = library["spec"]["volumes"].as_array().expect("it has some").iter();
    volumes.extend(all.filter(|volume| ours(volume["name"].as_str().expect("a name"))).cloned());
    pod["spec"]["volumes"] = volumes.into();
    let mut annotations = pod["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
    let all = library["metadata"]["annotations"].as_object().expect("it has some").iter();
    // This one is the demo's own.
    annotations
        .extend(all.filter(|(key, _)| *key != "checksum/scripts").map(|(key, value)| (key.clone(), value.clone())));
    pod["metadata"]["annotations"] = annotations.into();
    pod
}

fn labelled(mut pod: Value) -> Pod {
    pod["metadata"]["labels"] = json!({LABEL: NAME});
    serde_json::from_value(pod).expect("a pod")
}

/// As the API server would store it, without what is of one request only.
async fn admitted(pods: &Api<Pod>, pod: &Pod) -> Value {
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let made = pods.create(&dry, pod).await.unwrap_or_else(|why| panic!("{}: {why}", json!(pod)));
    let mut spec = json!(made.spec);
    // The volume of the account's token has a name of its own each time, wherever it is.
    let token = made.spec.iter().flat_map(|spec| spec.volumes.iter().flatten()).map(|volume| volume.name.as_str());
    let token = token.into_iter().find(|name| name.starts_with("kube-api-access-")).map(str::to_owned);
    if let Some(token) = token {
        spec = serde_json::from_str(&spec.to_string().replace(&token, "kube-api-access")).expect("JSON");
    }
    // So has the order of volumes nothing to say: the account's token comes before or after.
    let name = |volume: &Value| volume["name"].as_str().unwrap_or_default().to_owned();
    spec["volumes"].as_array_mut().into_iter().for_each(|volumes| volumes.sort_by_key(name));
    json!({"spec": spec, "annotations": made.metadata.annotations, "labels": made.metadata.labels})
}

#[tokio::test]
async fn an_injected_pod_is_what_the_library_chart_would_have_made_of_it() {
    let cluster = Cluster::start_own().await;
    let namespaces: Api<Namespace> = Api::all(cluster.client());
    let level = json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}});
    let patched = namespaces.patch(cluster.namespace(), &PatchParams::default(), &Patch::Merge(&level)).await;
    patched.expect("the tests may label their namespace");
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    apply(&cluster, &account, false).await.expect("the controllers are not there to make it");
    let pods: Api<Pod> = Api::namespaced(cluster.client(), cluster.namespace());
    let charts = Charts::copy();
    for more in sidecars() {
        let mut values = json!({"inject": NAME, "baton": more});
        values["baton"]["fullnameOverride"] = NAME.into();
        let [injector, demo] = <[Value; 2]>::try_from(done(&[
            render(&cluster, &charts, "baton-injector", &values),
            render(&cluster, &charts, "baton-demo", &json!({"baton": values["baton"]})),
        ]))
        .expect("two");
        let objects = injector["objects"].as_array().expect("a list");
        for one in objects {
            apply(&cluster, one, false).await.unwrap_or_else(|why| panic!("{}: {why}\n{one}", one["kind"]));
        }
        let library =
            object(demo["objects"].as_array().expect("a list"), "Deployment", "baton-demo")["spec"]["template"].clone();
        // The server learns of a policy a moment after it was made, and of its change.
        let wanted = labelled(with_lines(&shapes()[0], &library));
        let wanted = admitted(&pods, &wanted).await;
        wait_until_async(BOUND, &format!("the policy is in force: {wanted}"), async || {
            admitted(&pods, &labelled(shapes()[0].clone())).await == wanted
        })
        .await;
        for shape in shapes() {
            let by_hand = labelled(with_lines(&shape, &library));
            let (injected, expected) =
                (admitted(&pods, &labelled(shape.clone())).await, admitted(&pods, &by_hand).await);
            assert_eq!(injected, expected, "{shape}");
            // What it was made of had the label, too, and was left as it was.
            assert_eq!(expected["spec"]["initContainers"][0]["name"], "baton");
            let names = expected["spec"]["initContainers"]
                .as_array()
                .into_iter()
                .flatten()
                .filter(|one| one["name"] == "baton");
            assert_eq!(names.count(), 1);
        }
        let plain: Pod = serde_json::from_value(shapes()[0].clone()).expect("a pod");
        assert!(admitted(&pods, &plain).await["spec"]["initContainers"].is_null(), "nobody asked");
    }
}
