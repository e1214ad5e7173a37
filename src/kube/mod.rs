//! One client for a Kubernetes API server: credentials, requests of which each is sent once, and what became of them.
//!
//! What a status code means, which right is missing, and how long the server asks to wait is judged in [`errors`],
//! once; a request ends in its answer or in a [`Failure`]. Watches begin with what there is, and end ([`Watch`]).
//!
//! Shared by the store on Lease objects, the writers for people and fail-over; each has a [`KubeClient`] of its own, so
//! that none waits for another. How often something is asked again is theirs. Nothing of the crate kube leaves this
//! folder.

mod client;
mod errors;
mod watch;

pub use client::{KubeClient, Patch};
pub use errors::{Denial, Failure};
pub use watch::{Change, Named, Reopening, Watch};

/// The annotation, and label, that marks a Lease object as a mirror: kept for people, and never a lease. The annotation
/// holds the token of the term that it shows.
pub const MIRROR: &str = "baton.dev/mirror";

/// A kind of objects, as RBAC rules and people name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resource {
    /// Empty for the core.
    group: &'static str,
    plural: &'static str,
    kind: &'static str,
    /// Whether rules for it name single objects. Pods have no names that last.
    named_in_rules: bool,
}

impl Resource {
    pub const LEASES: Self =
        Self { group: "coordination.k8s.io", plural: "leases", kind: "Lease", named_in_rules: true };
    pub const PODS: Self = Self { group: "", plural: "pods", kind: "Pod", named_in_rules: false };
    pub const EVENTS: Self = Self { group: "events.k8s.io", plural: "events", kind: "Event", named_in_rules: false };

    fn path(self, namespace: &str) -> String {
        let Self { group, plural, .. } = self;
        let root = if group.is_empty() { "/api/v1".to_owned() } else { format!("/apis/{group}/v1") };
        format!("{root}/namespaces/{namespace}/{plural}")
    }
}

impl std::fmt::Display for Resource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let dot = if self.group.is_empty() { "" } else { "." };
        write!(f, "{}{dot}{}", self.plural, self.group)
    }
}

/// An object, or the place of one that is to be made. The namespace is the client's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object<'a> {
    pub resource: Resource,
    pub name: &'a str,
}

/// What is done to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Get,
    Create,
    Update,
    Patch,
    Delete,
    Watch,
}

impl Verb {
    /// The word in RBAC rules.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::Watch => "watch",
        }
    }
}
