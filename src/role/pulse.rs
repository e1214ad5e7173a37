//! The life sign of a role's task, for `/livez` and `/readyz`: written by the task, read from any thread.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::protocol::Mono;

/// See the module.
#[derive(Debug)]
pub struct Heartbeat {
    last: AtomicU64,
    within: Duration,
    knows_state: AtomicBool,
}

impl Heartbeat {
    /// Just born. A sign is good for `within`.
    pub fn new(now: Mono, within: Duration) -> Self {
        Self { last: AtomicU64::new(now.as_nanos()), within, knows_state: AtomicBool::new(false) }
    }

    /// The task has gone round.
    pub fn beat(&self, now: Mono) {
        self.last.store(now.as_nanos(), Ordering::Relaxed);
    }

    /// The store has told how the role stands. Once known, it stays so: readiness does not come and go with the store.
    pub fn knows_state(&self, knows: bool) {
        if knows {
            self.knows_state.store(true, Ordering::Relaxed);
        }
    }

    /// When the task last went round, how long that is good for, and whether it ever knew how the role stands.
    pub fn read(&self) -> (Mono, Duration, bool) {
        let last = Mono::from_nanos(self.last.load(Ordering::Relaxed));
        (last, self.within, self.knows_state.load(Ordering::Relaxed))
    }
}
