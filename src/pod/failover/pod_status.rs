//! A pod, as far as it tells who has ended in it. The whole object, which has some hundred kinds of fields, would be a
//! tenth of the program.

use serde::Deserialize;

use crate::kube::Named;

/// See the module. An object without one of the parts has none, as one that says null.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Pod {
    pub metadata: Metadata,
    pub spec: Option<Spec>,
    pub status: Option<Status>,
}

impl Named for Pod {
    fn name(&self) -> Option<&str> {
        self.metadata.name.as_deref()
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Metadata {
    pub name: Option<String>,
    pub uid: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Spec {
    pub containers: Option<Vec<Container>>,
    pub init_containers: Option<Vec<Container>>,
    pub ephemeral_containers: Option<Vec<Container>>,
    pub host_network: Option<bool>,
    #[serde(rename = "hostPID")]
    pub host_pid: Option<bool>,
    pub share_process_namespace: Option<bool>,
}

/// Of any of the three kinds.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Container {
    pub name: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Status {
    pub phase: Option<String>,
    pub container_statuses: Option<Vec<ContainerStatus>>,
    pub init_container_statuses: Option<Vec<ContainerStatus>>,
    pub ephemeral_container_statuses: Option<Vec<ContainerStatus>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ContainerStatus {
    pub name: String,
    pub state: Option<State>,
    /// Of the instance before.
    pub last_state: Option<State>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct State {
    pub terminated: Option<Terminated>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Terminated {
    pub reason: Option<String>,
    pub exit_code: Option<i32>,
    /// What the process left as its termination message.
    pub message: Option<String>,
}
