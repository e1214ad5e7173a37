//! What an operator sees: metrics, log lines, and the events that make both.
//!
//! * [`Metrics`]: every series of the contract, in a registry of its own, at zero from the start.
//! * [`Telemetry`]: one event in, one log line and one count out, so that they never disagree.
//! * [`Traces`]: spans for a collector, in builds with the feature `otel`.
//! * [`logging`]: lines as JSON or text, to standard error.
//!
//! Whether this replica leads is never stored here: those gauges are computed from a [`Reading`] when they are scraped,
//! so a stalled task never shows a stale leadership.

mod events;
mod help;
mod jobs;
mod kubernetes;
mod labels;
mod locks;
mod log_queue;
pub mod logging;
mod metrics;
mod process;
mod roles;
mod traces;

use std::sync::Arc;

use tokio::sync::broadcast;

pub use events::{ConfigReload, RoleEvent, SystemEvent};
pub use jobs::JobReading;
pub use kubernetes::{KubernetesDrop, KubernetesKind, KubernetesOutcome};
pub use labels::{CommandOutcome, CredentialOutcome, Reading, ReloadOutcome, StoreCommand, TermReading};
pub use locks::{AcquireOutcome, LockEvent};
pub use metrics::Metrics;
pub use traces::Traces;

/// How many events a listener may be behind before the oldest are lost to it.
const EVENTS_BUFFER: usize = 256;

/// Records events. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Telemetry {
    metrics: Arc<Metrics>,
    listeners: broadcast::Sender<Arc<RoleEvent>>,
    traces: Traces,
}

impl Telemetry {
    /// Counts in `metrics`, logs through `tracing`.
    pub fn new(metrics: Arc<Metrics>) -> Self {
        Self { metrics, listeners: broadcast::Sender::new(EVENTS_BUFFER), traces: Traces::default() }
    }

    /// The same, exporting spans.
    pub fn with_traces(self, traces: Traces) -> Self {
        Self { traces, ..self }
    }

    /// Hears what happens to roles from now on. Who does not keep up loses the oldest, and is told how many.
    pub fn listen(&self) -> broadcast::Receiver<Arc<RoleEvent>> {
        self.listeners.subscribe()
    }

    /// Where it counts.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// Where its spans go.
    pub fn traces(&self) -> &Traces {
        &self.traces
    }
}
