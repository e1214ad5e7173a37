//! `kubernetes:`, checked: what Baton writes to the API server for people and Services, none of which decides who
//! leads; and what it may conclude from what the API server knows of a leader's end.

use std::path::PathBuf;

use crate::protocol::RoleName;

use super::model::StoreConfig;

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
    /// `metadata.name`
    pub name: String,
    /// `metadata.namespace`
    pub namespace: String,
    /// `metadata.uid`
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

/// The name of the Lease object that mirrors a role.
pub fn mirror_name(store: &StoreConfig, role: &RoleName) -> String {
    format!("{}-{}", store.prefix(), dotted(role))
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

#[cfg(test)]
mod tests {
    use super::*;

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
