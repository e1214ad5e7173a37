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

pub use events::{SystemEvent, Telemetry, Told};
pub use jobs::JobReading;
pub use kubernetes::{KubernetesDrop, KubernetesKind, KubernetesOutcome};
pub use labels::{CommandOutcome, Reading, ReloadOutcome, StoreCommand, TermReading};
pub use locks::{AcquireOutcome, LockEvent};
pub use metrics::Metrics;
pub use traces::Traces;
