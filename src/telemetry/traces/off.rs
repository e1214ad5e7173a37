//! What a build without the feature has of traces: nothing.

use std::time::Duration;

use crate::protocol::jobs::{Ending, RunId};
use crate::protocol::{Event, RoleName};
use crate::telemetry::{CommandOutcome, StoreCommand};

/// Exports nothing, and holds nothing.
#[derive(Clone, Debug, Default)]
pub struct Traces(());

impl Traces {
    /// Reads nothing: this build has no exporter.
    #[inline]
    pub fn from_env(_identity: &str) -> Self {
        Self(())
    }

    #[inline]
    pub fn command(&self, _command: StoreCommand, _role: &RoleName, _outcome: CommandOutcome, _took: Duration) {}

    #[inline]
    pub fn role(&self, _role: &RoleName, _event: &Event) {}

    #[inline]
    pub fn attempt(&self, _run: &RunId, _attempt: u32, _ending: Ending, _took: Duration) {}

    /// Nothing, at once.
    #[inline]
    pub async fn flush(&self) {}
}
