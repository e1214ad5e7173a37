//! Pods, as far as they are of interest here: the labels that say which roles they lead, and the annotations of the
//! same keys with the token of the term.
//!
//! Everything is asked for by patches, so that one right is enough: an empty one changes nothing and is answered with
//! the pod.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use super::desk::{Ask, Desk, Refusal, STEPS};
use crate::kube_api::Resource;
use crate::telemetry::KubernetesKind;

/// What every label of ours begins with.
pub(super) const LABEL_PREFIX: &str = "baton.dev/role-";
/// The only value that it has.
pub(super) const LEADER: &str = "leader";

const MERGE: &str = "application/merge-patch+json";

/// What there is of ours on a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sight {
    pub uid: String,
    pub version: String,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Object {
    metadata: Metadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    #[serde(default)]
    uid: String,
    #[serde(default)]
    resource_version: String,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
}

impl Sight {
    fn read(body: &[u8]) -> Result<Self, serde_json::Error> {
        let Object { metadata } = serde_json::from_slice(body)?;
        let ours = |all: Option<BTreeMap<String, String>>| {
            all.into_iter().flatten().filter(|(key, _)| key.starts_with(LABEL_PREFIX)).collect()
        };
        let Metadata { uid, resource_version: version, labels, annotations } = metadata;
        Ok(Self { uid, version, labels: ours(labels), annotations: ours(annotations) })
    }
}

/// Says what a pod has. `name` is a name that Kubernetes takes.
pub(super) async fn look(desk: &Desk, name: &str) -> Result<Sight, Refusal> {
    patch(desk, name, MERGE, &json!({}), true).await
}

/// Changes labels and annotations of the pod as it was seen, and says what it has then; none removes one.
pub(super) async fn change(
    desk: &Desk,
    name: &str,
    seen: &Sight,
    labels: &BTreeMap<&str, Option<&str>>,
    annotations: &BTreeMap<&str, Option<String>>,
) -> Result<Sight, Refusal> {
    let metadata = json!({
        "uid": seen.uid, "resourceVersion": seen.version, "labels": labels, "annotations": annotations,
    });
    patch(desk, name, MERGE, &json!({ "metadata": metadata }), false).await
}

/// Removes these labels, each only while the token beside it is this one: of an earlier term than the caller's.
pub(super) async fn remove(desk: &Desk, name: &str, labels: &BTreeMap<&str, &str>) -> Result<Sight, Refusal> {
    // What stands for a slash in a JSON pointer.
    let escaped = |key: &str| key.replace('~', "~0").replace('/', "~1");
    let tests = labels.iter().map(
        |(key, token)| json!({"op": "test", "path": format!("/metadata/annotations/{}", escaped(key)), "value": token}),
    );
    let removals =
        labels.keys().map(|key| json!({"op": "remove", "path": format!("/metadata/labels/{}", escaped(key))}));
    let steps: Vec<Value> = tests.chain(removals).collect();
    patch(desk, name, STEPS, &json!(steps), false).await
}

async fn patch(desk: &Desk, name: &str, kind: &'static str, body: &Value, only_looks: bool) -> Result<Sight, Refusal> {
    let answer = desk.ask(Ask {
        kind: KubernetesKind::Label,
        verb: "patch",
        resource: Resource::PODS,
        name: "",
        method: "PATCH",
        below: format!("/{name}"),
        body: Some((kind, body.to_string().into_bytes())),
        only_looks,
    });
    Sight::read(&answer.await?).map_err(|error| {
        let reason = format!("the API server answers what is no pod: {error}");
        desk.trouble((KubernetesKind::Label, "read", name.to_owned()), reason);
        Refusal::Open { rest: None }
    })
}
