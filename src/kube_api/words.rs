//! What an API server says, in words for the person who has to do something about it.

use kube::core::response::Status;

/// A resource as RBAC rules name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resource {
    /// Its API group; empty for the core.
    pub group: &'static str,
    /// Its plural name.
    pub plural: &'static str,
}

impl Resource {
    /// Lease objects.
    pub const LEASES: Self = Self { group: "coordination.k8s.io", plural: "leases" };
    /// Pods.
    pub const PODS: Self = Self { group: "", plural: "pods" };
    /// Events.
    pub const EVENTS: Self = Self { group: "events.k8s.io", plural: "events" };
}

impl std::fmt::Display for Resource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let dot = if self.group.is_empty() { "" } else { "." };
        write!(f, "{}{dot}{}", self.plural, self.group)
    }
}

/// What a 403 means: which rule is missing. `only`: the object's name, where a rule may name it.
pub fn missing_rule(verb: &str, resource: Resource, namespace: &str, name: &str, only: Option<&str>) -> String {
    let only = only.map(|name| format!(", resourceNames: [{name}]")).unwrap_or_default();
    let group = if resource.group.is_empty() { "\"\"" } else { resource.group };
    let space = if name.is_empty() { "" } else { " " };
    format!(
        "it forbids to {verb} {resource}{space}{name} in namespace {namespace} (403): grant its service account a Role \
         there with apiGroups: [{group}], resources: [{}], verbs: [{verb}]{only}",
        resource.plural
    )
}

/// What the server said, short enough for a log line, after a colon; empty when it said nothing.
pub fn said(status: &Status) -> String {
    const CHARS_MAX: usize = 300;
    let message = status.message.trim();
    if message.is_empty() {
        return String::new();
    }
    let shown: String = message.chars().take(CHARS_MAX).flat_map(char::escape_debug).collect();
    format!(": {shown}")
}

/// What may help where a connection cannot be made.
pub(super) fn hint(told: &str) -> &'static str {
    if told.contains("certificate") {
        "; check the cluster's certificate authority, and that the address is the API server's"
    } else {
        ""
    }
}

/// An error with its causes, each once.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut told = error.to_string();
    let mut cause = error.source();
    while let Some(deeper) = cause {
        let text = deeper.to_string();
        if !told.contains(&text) {
            told.push_str(": ");
            told.push_str(&text);
        }
        cause = deeper.source();
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_rule_is_told_as_it_would_be_written() {
        let words = missing_rule("patch", Resource::PODS, "shop", "web-0", None);
        assert_eq!(
            words,
            "it forbids to patch pods web-0 in namespace shop (403): grant its service account a Role there with \
             apiGroups: [\"\"], resources: [pods], verbs: [patch]"
        );
        let words = missing_rule("update", Resource::LEASES, "shop", "baton-a", Some("baton-a"));
        assert!(words.contains("leases.coordination.k8s.io baton-a"), "{words}");
        assert!(words.ends_with("resources: [leases], verbs: [update], resourceNames: [baton-a]"), "{words}");
    }
}
