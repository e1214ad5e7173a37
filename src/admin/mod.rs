//! The kubelet's and Prometheus's listener, on a thread and a runtime of its own: however busy or stuck the rest of the
//! process is, it answers, and says so. Nothing here changes anything, and no answer here is a promise.
//!
//! | path | answer |
//! |---|---|
//! | `/metrics` | Prometheus' text format |
//! | `/livez` | 200 while every role's task makes progress, else 503 with the stuck ones |
//! | `/readyz` | 200 once the store was reached and every role knows its state, else 503 with the reasons |
//! | `/leading`, `/leading/{role}` | 200 while this replica leads at that moment, else 503 |

mod routes;

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::base::clock::SharedClock;
use crate::http::{Limits, ListenerThread};
use crate::protocol::{Mono, RoleName};
use crate::role::Roles;
use crate::store::StoreHealth;
use crate::telemetry::Metrics;

/// The life sign of one role's task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Liveness {
    pub role: RoleName,
    /// When its task last went round.
    pub last: Mono,
    /// How long it may go without; longer means that it is stuck.
    pub within: Duration,
    /// Whether it has found out, once at least, how the role stands.
    pub knows_state: bool,
}

/// Where the life signs come from. Called on the listener's own thread, so it must not wait for a role's task.
pub trait Progress: Send + Sync + 'static {
    /// One for each role that runs.
    fn liveness(&self) -> Vec<Liveness>;
}

impl<F: Fn() -> Vec<Liveness> + Send + Sync + 'static> Progress for F {
    fn liveness(&self) -> Vec<Liveness> {
        self()
    }
}

/// What the listener tells of.
pub struct Sources {
    pub metrics: Arc<Metrics>,
    pub roles: Roles,
    /// Whether the store answers.
    pub store: watch::Receiver<StoreHealth>,
    /// Whether the roles' tasks live.
    pub progress: Arc<dyn Progress>,
    /// Judges the life signs, and times connections.
    pub clock: SharedClock,
    /// What clients may cost; [`default_limits`] unless there is a reason.
    pub limits: Limits,
}

/// Few clients come here, and they come back at the interval of a scrape. Any pod may come: what one of them opens
/// keeps nobody else out, and no flood the kubelet's probes, whose failure would end the pod.
pub fn default_limits() -> Limits {
    Limits { connections: 128, per_peer: 32, spare: 16, idle: Duration::from_secs(150), ..Limits::default() }
}

/// Serves `listener` on a new thread.
///
/// # Errors
/// When the thread, its runtime or the listener cannot be set up.
pub fn spawn(listener: TcpListener, sources: Sources) -> io::Result<ListenerThread> {
    ListenerThread::spawn("telemetry", listener, |listener, stopped| routes::serve(listener, sources, stopped))
}
