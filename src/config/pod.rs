//! `kubernetes:`, what Baton writes to the API server for people and Services, none of which decides who leads; and
//! what it may conclude from what the API server knows of a leader's end.

use std::path::PathBuf;

use super::section::{Group, Key, Or, Reader, Section, key};
use super::value::{Flag, Text};
use crate::protocol::RoleName;

/// What labels, annotations and fields of Baton begin with.
pub const DOMAIN: &str = "baton.dev";
/// Kubernetes takes no longer name of a label, after the slash.
pub(super) const LABEL_NAME_MAX: usize = 63;

/// `kubernetes:`; everything is off unless it is switched on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtrasConfig {
    /// The leader's pod has the label of [`role_label`].
    pub pod_labels: bool,
    /// Events on the pod tell who was elected, lost a role or handed it over, and what was guarded.
    pub events: bool,
    /// A Lease object for each role shows people who leads.
    pub lease_mirror: bool,
    /// The end of a leader's process that a kubelet has seen ends its lease, too. Where this process leaves its
    /// termination message for that.
    pub fast_failover: Option<PathBuf>,
    /// The pod. There whenever something is on, but for `check-config` on another machine.
    pub pod: Option<PodConfig>,
}

impl ExtrasConfig {
    /// Whether anything is written to the API server.
    pub fn any(&self) -> bool {
        self.pod_labels || self.events || self.lease_mirror
    }
}

/// This pod, as the downward API tells it: from POD_NAME, POD_NAMESPACE and POD_UID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodConfig {
    pub name: String,
    pub namespace: String,
    pub uid: String,
}

/// A role's name as Kubernetes takes it in names and labels: `scheduler`, and `scheduler.0` for the shard
/// `scheduler/0`. No two roles have the same, since a role's own name has no dot.
pub fn dotted(role: &RoleName) -> String {
    role.as_str().replace('/', ".")
}

/// The key of a role's label on its leader's pod, and of the annotation with the token beside it.
pub fn role_label(role: &RoleName) -> String {
    format!("{DOMAIN}/role-{}", dotted(role))
}

/// Whether Kubernetes takes this as the name of an object: a DNS subdomain (RFC 1123).
pub fn is_object_name(name: &str) -> bool {
    let label = |label: &str| {
        let word = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        let ends = [label.bytes().next(), label.bytes().next_back()];
        ends.into_iter().all(|b| b.is_some_and(word)) && label.bytes().all(|b| word(b) || b == b'-')
    };
    name.len() <= 253 && name.split('.').all(label)
}

/// The variables that tell of the pod, and the fields of the downward API that they are set from.
const POD_VARIABLES: [(&str, &str); 3] =
    [("POD_NAME", "metadata.name"), ("POD_NAMESPACE", "metadata.namespace"), ("POD_UID", "metadata.uid")];

pub(super) const KUBERNETES: Key<Group> = key(
    "kubernetes",
    Group(&SECTION),
    "What the API server is told about who leads: for people and Services, never for the election itself.",
);
const POD_LABELS: Key<Or<Flag>> =
    key("podLabels", Or(Flag, false), "Label the leader's pod with `baton.dev/role-<name>: leader`.");
const EVENTS: Key<Or<Flag>> =
    key("events", Or(Flag, false), "Tell of elections, losses, handovers and guards by Events on the pod.");
pub(super) const LEASE_MIRROR: Key<Or<Flag>> =
    key("leaseMirror", Or(Flag, false), "Show each role's leader in a Lease object, for `kubectl get leases`.");
const FAST_FAILOVER: Key<Or<Flag>> = key(
    "fastFailover",
    Or(Flag, false),
    "Let a role's next leader begin before the lease is over, where the kubelet has seen the last one end.",
);
// Where a kubelet looks for that of a container that says nothing else.
const TERMINATION_MESSAGE_PATH: Key<Or<Text>> = key(
    "terminationMessagePath",
    Or(Text::ANY, "/dev/termination-log"),
    "The container's `terminationMessagePath`, for `fastFailover`.",
);

const SECTION: Section = Section::new(
    "Kubernetes",
    "Kubernetes extras.",
    &[&POD_LABELS, &EVENTS, &LEASE_MIRROR, &FAST_FAILOVER, &TERMINATION_MESSAGE_PATH],
);

/// What is switched on.
pub(super) fn read(top: &Reader<'_>) -> ExtrasConfig {
    let s = top.at(&KUBERNETES);
    let message = s.get(&TERMINATION_MESSAGE_PATH);
    if !message.starts_with('/') {
        s.at(&TERMINATION_MESSAGE_PATH).problem(format!(
            "is {message:?}; it must be the container's terminationMessagePath, such as {}",
            TERMINATION_MESSAGE_PATH.kind.1
        ));
    }
    let mut extras = ExtrasConfig {
        pod_labels: s.get(&POD_LABELS),
        events: s.get(&EVENTS),
        lease_mirror: s.get(&LEASE_MIRROR),
        fast_failover: s.get(&FAST_FAILOVER).then(|| PathBuf::from(message)),
        pod: None,
    };
    if extras.any() || extras.fast_failover.is_some() {
        extras.pod = pod(&s);
    }
    extras
}

/// The pod, as its variables tell it.
fn pod(s: &Reader<'_>) -> Option<PodConfig> {
    let environment = s.environment();
    let values = POD_VARIABLES.map(|(name, _)| environment.variable(name).filter(|value| !value.is_empty()));
    let wrong = |((name, field), value): (&(&str, &str), &Option<String>)| match value {
        None => Some(format!("{name} (fieldRef {field}), which is not set")),
        // Also what Kubernetes left unexpanded.
        Some(value) if !is_object_name(value) => Some(format!("{name} (fieldRef {field}), which holds something else")),
        Some(_) => None,
    };
    let wrong: Vec<String> = POD_VARIABLES.iter().zip(&values).filter_map(wrong).collect();
    if let ([], [Some(name), Some(namespace), Some(uid)]) = (wrong.as_slice(), values) {
        return Some(PodConfig { name, namespace, uid });
    }
    let message = format!(
        "needs to know its pod; set these variables from the downward API, as in `env: [{{name: POD_UID, valueFrom: \
         {{fieldRef: {{fieldPath: metadata.uid}}}}}}]`: {}",
        wrong.join("; ")
    );
    if environment.tolerates_absent_files() {
        s.warning(message);
    } else {
        s.problem(message);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{StoreConfig, mirror_name};

    #[test]
    fn roles_and_shards_have_labels_that_kubernetes_takes() {
        let role = RoleName::new("scheduler").unwrap();
        assert_eq!(role_label(&role), "baton.dev/role-scheduler");
        assert_eq!(role_label(&role.shard(12)), "baton.dev/role-scheduler.12");
        assert_eq!(mirror_name(&StoreConfig::Memory, &role.shard(0)), "baton-scheduler.0");
    }

    #[test]
    fn names_of_objects_are_dns_subdomains() {
        for good in ["web-0", "a", "a.b-c.0", &"a".repeat(253)] {
            assert!(is_object_name(good), "{good}");
        }
        for bad in ["", "-a", "a-", "a..b", "a.-b", "A", "a_b", "a:b", "a/b", "../a", &"a".repeat(254)] {
            assert!(!is_object_name(bad), "{bad}");
        }
    }
}
