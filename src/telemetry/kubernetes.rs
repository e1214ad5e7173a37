//! What is written to the API server for people: counts, and one log line where something does not work.

use prometheus::IntCounterVec;
use tracing::{debug, info, warn};

use super::Telemetry;
use super::metrics::Builder;

/// What is written, as a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KubernetesKind {
    /// The label of a pod.
    Label,
    Event,
    /// A mirror of a role's lease.
    Lease,
}

impl KubernetesKind {
    /// The word in metrics and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Label => "label",
            Self::Event => "event",
            Self::Lease => "lease",
        }
    }
}

/// What became of a write, as a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KubernetesOutcome {
    /// It was done.
    Ok,
    /// Somebody else changed the object first: looked at again.
    Conflict,
    /// The server says no: rights, admission, an object that it does not take.
    Denied,
    /// No usable answer.
    Error,
}

impl KubernetesOutcome {
    const ALL: [Self; 4] = [Self::Ok, Self::Conflict, Self::Denied, Self::Error];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Conflict => "conflict",
            Self::Denied => "denied",
            Self::Error => "error",
        }
    }
}

/// Why an Event was not written, as a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KubernetesDrop {
    /// Too many were waiting.
    Overflow,
    /// It had waited for too long.
    Expired,
    /// The server does not take it.
    Refused,
}

impl KubernetesDrop {
    const ALL: [Self; 3] = [Self::Overflow, Self::Expired, Self::Refused];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Overflow => "overflow",
            Self::Expired => "expired",
            Self::Refused => "refused",
        }
    }
}

/// The families. Without a series until something is switched on.
pub(super) struct KubernetesFamilies {
    writes: IntCounterVec,
    events_dropped: IntCounterVec,
}

impl KubernetesFamilies {
    pub(super) fn new(build: &Builder) -> Self {
        Self {
            writes: build.counters(
                "baton_kubernetes_writes_total",
                &["kind", "outcome"],
                "Writes to the Kubernetes API server for people and Services by kind (label, event, lease) and \
                 outcome: ok, conflict (somebody changed the object first), denied (rights, admission), or error (no \
                 usable answer).",
            ),
            events_dropped: build.counters(
                "baton_kubernetes_events_dropped_total",
                &["reason"],
                "Kubernetes Events that were not written: overflow (too many waited), expired (one waited for too \
                 long), or refused (the server does not take it).",
            ),
        }
    }
}

impl Telemetry {
    /// Registers the series of what is switched on, at zero.
    pub fn add_kubernetes(&self, kind: KubernetesKind) {
        let families = self.metrics().of_kubernetes();
        for outcome in KubernetesOutcome::ALL {
            families.writes.with_label_values(&[kind.as_str(), outcome.as_str()]);
        }
        if kind == KubernetesKind::Event {
            for reason in KubernetesDrop::ALL {
                families.events_dropped.with_label_values(&[reason.as_str()]);
            }
        }
    }

    pub fn kubernetes_write(&self, kind: KubernetesKind, outcome: KubernetesOutcome) {
        self.metrics().of_kubernetes().writes.with_label_values(&[kind.as_str(), outcome.as_str()]).inc();
    }

    /// Counts Events that were not written.
    pub fn kubernetes_events_dropped(&self, reason: KubernetesDrop, count: u64) {
        debug!(reason = reason.as_str(), count, "events are not written to Kubernetes");
        self.metrics().of_kubernetes().events_dropped.with_label_values(&[reason.as_str()]).inc_by(count);
    }

    /// Says what is wrong with writing this; `news` unless it was said before. The text holds no secret.
    pub fn kubernetes_trouble(&self, kind: KubernetesKind, reason: &str, news: bool) {
        let kind = kind.as_str();
        if news {
            warn!(kind, %reason, "what Kubernetes shows may be old; the election goes on without it");
        } else {
            debug!(kind, %reason, "what Kubernetes shows may be old");
        }
    }

    /// Says that it works again.
    pub fn kubernetes_recovered(&self, kind: KubernetesKind) {
        info!(kind = kind.as_str(), "Kubernetes takes what is written again");
    }
}
