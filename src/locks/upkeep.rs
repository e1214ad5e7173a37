//! What is on its way to the store and must not be dropped half-way, and the end of it all.

use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How many tasks besides those of who waits and holds may be busy before cancellations are left out.
const SPARE_TASKS_MAX: usize = 1_000;
/// How long the end of the process waits for what is on its way to the store.
const PATIENCE: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub(super) struct Upkeep {
    in_flight: TaskTracker,
    in_flight_max: usize,
    stopping: CancellationToken,
    /// Where tasks run: what is given back when a request is dropped may be dropped anywhere.
    runtime: Handle,
}

impl Upkeep {
    /// In the runtime that this is called in.
    pub(super) fn new(waiters_max: usize) -> Self {
        Self {
            in_flight: TaskTracker::new(),
            in_flight_max: waiters_max.saturating_add(SPARE_TASKS_MAX),
            stopping: CancellationToken::new(),
            runtime: Handle::current(),
        }
    }

    /// Runs something in a task of its own. Dropping the handle does not stop it.
    pub(super) fn spawn<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
        self.in_flight.spawn_on(work, &self.runtime)
    }

    /// Whether there is so much to clean up that more would only be a burden: while the store is away for long, every
    /// request leaves something behind.
    pub(super) fn is_swamped(&self) -> bool {
        self.in_flight.len() > self.in_flight_max
    }

    /// Nothing new is taken on.
    pub(super) fn stop(&self) {
        self.stopping.cancel();
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.is_cancelled()
    }

    /// Completes once nothing new is taken on.
    pub(super) async fn stopping(&self) {
        self.stopping.cancelled().await;
    }

    /// Waits, for a few seconds at the most, until nothing is in flight. What is left after that ends by its lease.
    pub(super) async fn ended(&self) {
        self.in_flight.close();
        let _ = tokio::time::timeout(PATIENCE, self.in_flight.wait()).await;
    }
}
