//! What happens to locks: one event in, one log line and one count out. A lock's id is what it is released by, so it is
//! in no line; names are in no label, for there is no end of them.

use std::time::Duration;

use prometheus::{Histogram, IntCounter, IntCounterVec, IntGauge};
use tracing::{debug, warn};

use super::Telemetry;
use super::events::ms;
use super::metrics::Builder;
use crate::protocol::{LockHolder, LockName, Token};

/// Upper bounds in seconds, from a free lock on a local Redis to the longest wait.
const WAIT_BUCKETS: [f64; 14] =
    [0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 3_600.0];

/// How a request for a lock ended, as a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AcquireOutcome {
    /// It was granted.
    Granted,
    /// Others have it, and the request did not wait.
    Held,
    /// Others had it for as long as the request waited, or the client was gone first.
    Timeout,
    /// The store may have forgotten locks (R5).
    Guarded,
    /// No usable answer from the store, too many waiters, or the process ends.
    Error,
}

impl AcquireOutcome {
    /// Every outcome, for registering series at zero.
    pub const ALL: [Self; 5] = [Self::Granted, Self::Held, Self::Timeout, Self::Guarded, Self::Error];

    /// The word in metrics and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Granted => "granted",
            Self::Held => "held",
            Self::Timeout => "timeout",
            Self::Guarded => "guarded",
            Self::Error => "error",
        }
    }
}

/// What happens to the locks of this sidecar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockEvent {
    /// A request for a lock has ended; `waited` is how long it took.
    Asked { name: LockName, outcome: AcquireOutcome, waited: Duration },
    /// A lock, or one of several holds of it, was given back.
    Released { name: LockName },
    /// An extension found that a lock of this sidecar was gone, or came too late.
    Lost { name: LockName, token: Token },
    /// The store had lost a lock, and it is put back with the same token (R4).
    Restored { name: LockName, token: Token },
    /// An operator has ended a lock through this replica; `holder` had it, through whatever sidecar.
    Unlocked { name: LockName, token: Token, holder: Option<LockHolder> },
}

/// The families of locks.
pub(super) struct LockFamilies {
    held: IntGauge,
    waiting: IntGauge,
    acquisitions: IntCounterVec,
    wait: Histogram,
    lost: IntCounter,
    releases: IntCounter,
    restored: IntCounter,
    unlocks: IntCounter,
}

impl LockFamilies {
    pub(super) fn new(build: &Builder) -> Self {
        let acquisitions = build.counters(
            "baton_locks_acquisitions_total",
            &["outcome"],
            "Requests for locks by outcome: granted, held by others, timeout (held for the whole wait, or the client \
             was gone), guarded (the store may have forgotten locks), or error.",
        );
        for outcome in AcquireOutcome::ALL {
            acquisitions.with_label_values(&[outcome.as_str()]);
        }
        Self {
            held: build.gauge("baton_locks_held", "Locks granted through this replica that still stand."),
            waiting: build.gauge("baton_locks_waiting", "Requests of this replica's app that wait for a lock."),
            acquisitions,
            wait: build.histogram(
                "baton_locks_wait_seconds",
                &WAIT_BUCKETS,
                "Time from a request for a lock to its grant.",
            ),
            lost: build.counter(
                "baton_locks_lost_total",
                "Locks of this replica that an extension found gone, or that could not be extended in time.",
            ),
            releases: build.counter("baton_locks_releases_total", "Locks, or holds of them, that were given back."),
            restored: build.counter(
                "baton_locks_restored_total",
                "Locks of this replica that the store had lost and that were put back with the same token.",
            ),
            unlocks: build.counter("baton_locks_unlocks_total", "Locks that an operator ended through this replica."),
        }
    }

    fn count(&self, event: &LockEvent) {
        match event {
            LockEvent::Asked { outcome, waited, .. } => {
                self.acquisitions.with_label_values(&[outcome.as_str()]).inc();
                if *outcome == AcquireOutcome::Granted {
                    self.wait.observe(waited.as_secs_f64());
                }
            }
            LockEvent::Released { .. } => self.releases.inc(),
            LockEvent::Lost { .. } => self.lost.inc(),
            LockEvent::Restored { .. } => self.restored.inc(),
            LockEvent::Unlocked { .. } => self.unlocks.inc(),
        }
    }
}

impl Telemetry {
    /// Logs and counts what happened to a lock.
    pub fn record_lock(&self, event: &LockEvent) {
        self.metrics().of_locks().count(event);
        match event {
            LockEvent::Asked { name, outcome, waited } => {
                debug!(lock = %name, outcome = outcome.as_str(), duration_ms = ms(*waited), "asked for a lock");
            }
            LockEvent::Released { name } => debug!(lock = %name, "a lock is given back"),
            LockEvent::Lost { name, token } => warn!(lock = %name, %token, "a lock is lost"),
            LockEvent::Restored { name, token } => {
                warn!(lock = %name, %token, "the store had lost a lock; it is put back");
            }
            LockEvent::Unlocked { name, token, holder } => {
                let identity = holder.as_ref().map(|holder| &*holder.identity);
                warn!(lock = %name, %token, holder = identity, "an operator has unlocked a lock");
            }
        }
    }

    /// How many locks that were granted through this replica stand.
    pub fn locks_held(&self, count: usize) {
        self.metrics().of_locks().held.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// How many requests wait for a lock.
    pub fn locks_waiting(&self, count: usize) {
        self.metrics().of_locks().waiting.set(i64::try_from(count).unwrap_or(i64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;

    use super::*;
    use crate::config::{LogConfig, LogFormat, LogLevel};
    use crate::telemetry::Metrics;
    use crate::telemetry::logging::caught::logged;

    #[test]
    fn a_lost_lock_makes_one_line_and_one_count() {
        let telemetry = Telemetry::new(Arc::new(Metrics::new(Timestamp::UNIX_EPOCH)));
        let name = LockName::new("orders").unwrap();
        let event = LockEvent::Lost { name, token: Token::new(7).unwrap() };
        let config = LogConfig { level: LogLevel::Info, format: LogFormat::Json };
        let text = logged(config, || telemetry.record_lock(&event));
        let line: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        assert_eq!((&line["level"], &line["lock"], text.lines().count()), (&"WARN".into(), &"orders".into(), 1));
        let metrics = telemetry.metrics().render(Vec::new(), true).unwrap();
        assert!(metrics.contains("baton_locks_lost_total 1") && metrics.contains("baton_locks_restored_total 0"));
    }
}
