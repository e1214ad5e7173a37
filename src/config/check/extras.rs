//! `kubernetes:`

use std::path::PathBuf;

use super::Checker;
use crate::config::extras::{ExtrasConfig, LABEL_NAME_MAX, PodConfig, dotted, is_object_name, mirror_name};
use crate::config::model::{RoleConfig, StoreConfig};
use crate::config::position::Path;
use crate::config::raw::{RawKubernetes, RawRole, Scalar};
use crate::protocol::RoleName;

/// The variables that tell of the pod, and the fields of the downward API that they are set from.
const POD_VARIABLES: [(&str, &str); 3] =
    [("POD_NAME", "metadata.name"), ("POD_NAMESPACE", "metadata.namespace"), ("POD_UID", "metadata.uid")];

/// Where a kubelet looks for the termination message of a container that says nothing else.
const TERMINATION_MESSAGE: &str = "/dev/termination-log";

/// What the rest of the configuration says, as far as it is right.
pub(super) struct Beside<'c> {
    pub identity: Option<&'c str>,
    pub raw_roles: Option<&'c [Option<RawRole>]>,
    pub roles: &'c [RoleConfig],
    pub store: Option<&'c StoreConfig>,
}

impl Checker<'_> {
    /// What is switched on, and whether the rest of the configuration goes with it.
    pub(super) fn kubernetes(&mut self, raw: Option<&RawKubernetes>, beside: &Beside<'_>, root: &Path) -> ExtrasConfig {
        let Some(raw) = raw else { return ExtrasConfig::default() };
        let path = root.key("kubernetes");
        let mut flag = |key: &str, value: Option<&Scalar>| self.flag(value, &path.key(key)).unwrap_or(false);
        let mut extras = ExtrasConfig {
            pod_labels: flag("podLabels", raw.pod_labels.as_ref()),
            events: flag("events", raw.events.as_ref()),
            lease_mirror: flag("leaseMirror", raw.lease_mirror.as_ref()),
            fast_failover: None,
            pod: None,
        };
        let fast = flag("fastFailover", raw.fast_failover.as_ref());
        let message = self.message_path(raw.termination_message_path.as_ref(), &path.key("terminationMessagePath"));
        extras.fast_failover = message.filter(|_| fast);
        if extras.any() || fast {
            extras.pod = self.pod(&path);
        }
        if fast {
            self.departures(beside, extras.pod.as_ref(), root);
        }
        if extras.pod_labels {
            self.labels(beside, extras.pod.as_ref(), root);
        }
        if extras.lease_mirror {
            self.mirror(beside, extras.pod.as_ref(), &path.key("leaseMirror"));
        }
        extras
    }

    fn message_path(&mut self, given: Option<&Scalar>, path: &Path) -> Option<PathBuf> {
        let Some(given) = given else { return Some(PathBuf::from(TERMINATION_MESSAGE)) };
        let text = self.text(Some(given), path)?;
        if text.starts_with('/') {
            return Some(PathBuf::from(text));
        }
        let message =
            format!("is {text:?}; it must be the container's terminationMessagePath, such as {TERMINATION_MESSAGE}");
        self.problem(path, message);
        None
    }

    /// The others look for a leader's pod by the leader's name.
    fn departures(&mut self, beside: &Beside<'_>, pod: Option<&PodConfig>, root: &Path) {
        if let (Some(identity), Some(pod)) = (beside.identity, pod)
            && identity != pod.name
        {
            let message = format!(
                "is {identity:?}, but kubernetes.fastFailover needs the pod's name (POD_NAME), which is {:?}: remove \
                 `identity`, whose default it is",
                pod.name
            );
            self.problem(&root.key("identity"), message);
        }
    }

    /// The pod, as its variables tell it.
    fn pod(&mut self, path: &Path) -> Option<PodConfig> {
        let values = POD_VARIABLES.map(|(name, _)| self.environment.variable(name).filter(|value| !value.is_empty()));
        let wrong = |(variable, value): (&(&str, &str), &Option<String>)| {
            let (name, field) = variable;
            match value {
                None => Some(format!("{name} (fieldRef {field}), which is not set")),
                // Also what Kubernetes left unexpanded.
                Some(value) if !is_object_name(value) => {
                    Some(format!("{name} (fieldRef {field}), which holds something else"))
                }
                Some(_) => None,
            }
        };
        let wrong: Vec<String> = POD_VARIABLES.iter().zip(&values).filter_map(wrong).collect();
        if let ([], [Some(name), Some(namespace), Some(uid)]) = (wrong.as_slice(), values) {
            return Some(PodConfig { name, namespace, uid });
        }
        let message = format!(
            "needs to know its pod; set these variables from the downward API, as in `env: [{{name: POD_UID, \
             valueFrom: {{fieldRef: {{fieldPath: metadata.uid}}}}}}]`: {}",
            wrong.join("; ")
        );
        if self.environment.tolerates_absent_files() {
            self.warning(path, message);
        } else {
            self.problem(path, message);
        }
        None
    }

    fn labels(&mut self, beside: &Beside<'_>, pod: Option<&PodConfig>, root: &Path) {
        for (index, raw) in beside.raw_roles.unwrap_or_default().iter().enumerate() {
            let Some(Scalar::Text(text)) = raw.as_ref().and_then(|raw| raw.name.as_ref()) else { continue };
            let Ok(role) = RoleName::new(text) else { continue };
            let of_it = beside.roles.iter().filter(|config| config.name.role() == role);
            let length = of_it.map(|config| "role-".len() + dotted(&config.name).len()).max().unwrap_or(0);
            if length > LABEL_NAME_MAX {
                let message = format!(
                    "is too long for kubernetes.podLabels: the name of its label would have {length} characters, and \
                     Kubernetes takes {LABEL_NAME_MAX}; take {} away",
                    length - LABEL_NAME_MAX
                );
                self.problem(&root.key("roles").index(index).key("name"), message);
            }
        }
        if let (Some(identity), Some(pod)) = (beside.identity, pod)
            && identity != pod.name
        {
            let message = "is not the pod's name (POD_NAME): with kubernetes.podLabels, the label of a leader that is \
                           killed stays until its sidecar is back, for its successor does not know which pod it was";
            self.warning(&root.key("identity"), message.to_owned());
        }
    }

    fn mirror(&mut self, beside: &Beside<'_>, pod: Option<&PodConfig>, path: &Path) {
        let Some(store) = beside.store else { return };
        if let StoreConfig::Kubernetes(leases) = store {
            // Elsewhere nobody knows where the pod will be: its own namespace is what is meant when none is given.
            let elsewhere =
                leases.namespace.as_ref().is_some_and(|given| pod.is_none_or(|pod| pod.namespace != *given));
            if !elsewhere {
                let message = "is for leases in Redis; with store.kubernetes the Lease objects themselves show the \
                               holder, and a mirror would have their names: remove it";
                self.problem(path, message.to_owned());
                return;
            }
        }
        let names = beside.roles.iter().map(|role| mirror_name(store, &role.name));
        if names.into_iter().any(|name| !is_object_name(&name)) {
            let message = format!(
                "names its objects `<keyPrefix>-<role>`, and no object's name may begin with `{}`; use a keyPrefix of \
                 a-z, 0-9, `-` and `.`",
                store.prefix()
            );
            self.problem(path, message);
        }
    }
}
