//! Pods, as far as they are of interest here: the labels that say which roles they lead, and the annotations of the
//! same keys with the token of the term.
//!
//! Everything is asked for by patches, so that one right is enough: an empty one changes nothing and is answered with
//! the pod.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::kube::{Failure, Object, Patch, Resource, Verb};
use crate::pod::client::PodClient;
use crate::telemetry::KubernetesKind;

/// What every label of ours begins with.
pub(super) const LABEL_PREFIX: &str = "baton.dev/role-";
/// The only value that it has.
pub(super) const LEADER: &str = "leader";

/// What there is of ours on a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Labelled {
    pub uid: String,
    pub version: String,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Pod {
    metadata: ObjectMeta,
}

impl From<Pod> for Labelled {
    fn from(pod: Pod) -> Self {
        let ours = |all: Option<BTreeMap<String, String>>| {
            all.into_iter().flatten().filter(|(key, _)| key.starts_with(LABEL_PREFIX)).collect()
        };
        let ObjectMeta { uid, resource_version, labels, annotations, .. } = pod.metadata;
        Self {
            uid: uid.unwrap_or_default(),
            version: resource_version.unwrap_or_default(),
            labels: ours(labels),
            annotations: ours(annotations),
        }
    }
}

/// Says what a pod has. `name` is a name that Kubernetes takes.
pub(super) async fn look(client: &PodClient, name: &str) -> Result<Labelled, Failure> {
    patch(client, name, Patch::Merge(json!({})), false).await
}

/// Changes labels and annotations of the pod as it was seen, and says what it has then; none removes one.
pub(super) async fn change(
    client: &PodClient,
    name: &str,
    seen: &Labelled,
    labels: &BTreeMap<&str, Option<&str>>,
    annotations: &BTreeMap<&str, Option<String>>,
) -> Result<Labelled, Failure> {
    let metadata = json!({
        "uid": seen.uid, "resourceVersion": seen.version, "labels": labels, "annotations": annotations,
    });
    patch(client, name, Patch::Merge(json!({ "metadata": metadata })), true).await
}

/// Removes these labels, each only while the token beside it is this one: of an earlier term than the caller's.
pub(super) async fn remove(client: &PodClient, name: &str, labels: &BTreeMap<&str, &str>) -> Result<Labelled, Failure> {
    // What stands for a slash in a JSON pointer.
    let escaped = |key: &str| key.replace('~', "~0").replace('/', "~1");
    let tests = labels.iter().map(
        |(key, token)| json!({"op": "test", "path": format!("/metadata/annotations/{}", escaped(key)), "value": token}),
    );
    let removals =
        labels.keys().map(|key| json!({"op": "remove", "path": format!("/metadata/labels/{}", escaped(key))}));
    let steps: Vec<Value> = tests.chain(removals).collect();
    patch(client, name, Patch::Steps(steps), true).await
}

async fn patch(client: &PodClient, name: &str, patch: Patch, writes: bool) -> Result<Labelled, Failure> {
    let object = Object { resource: Resource::PODS, name };
    let subject = (KubernetesKind::Label, Verb::Patch.as_str(), name.to_owned());
    let pod: Pod = client.ask(subject, writes, client.api().patch(object, &patch)).await?;
    Ok(pod.into())
}
