//! How a job is to be run: Kubernetes' words, with its meanings.
//!
//! Lateness is decided here. A slot may start as late as [`JobPolicy::lateness_max`] says, and is missed after that;
//! one that starts is counted as late when [`is_late`] says so. Whatever asks measures by the leader's clock of the
//! day, from the slot's moment on.

use std::fmt;
use std::time::Duration;

use super::ids::Wall;

/// When a job is due.
pub trait Timetable: fmt::Debug + Send + Sync {
    /// The first slot after this moment, on a whole second; none when there will be no more.
    fn next_after(&self, after: Wall) -> Option<Wall>;

    /// A text that changes when the slots do: the schedule and its time zone.
    fn name(&self) -> String;
}

/// What is asked of a job's runs. Checked by the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobPolicy {
    /// What happens to a slot while a run is going on.
    pub concurrency: Concurrency,
    /// How late a slot may still start; none: however late.
    pub starting_deadline: Option<Duration>,
    /// What becomes of slots that passed while nobody could start them.
    pub catch_up: CatchUp,
    /// Slots are not started until the job is resumed.
    pub suspend: bool,
    /// Failed attempts, and when they are repeated.
    pub backoff: BackoffPolicy,
    /// How long a run may take in all, repeated attempts included.
    pub active_deadline: Option<Duration>,
    /// What a run is whose leader stopped leading.
    pub on_interrupt: OnInterrupt,
    /// How much is remembered.
    pub history: HistoryLimits,
}

impl JobPolicy {
    /// How late a slot may start; none: however late.
    pub(super) fn lateness_max(&self) -> Option<Duration> {
        match self.catch_up {
            CatchUp::None => Some(self.starting_deadline.map_or(ON_TIME, |deadline| deadline.min(ON_TIME))),
            CatchUp::Latest | CatchUp::All => self.starting_deadline,
        }
    }
}

/// `concurrencyPolicy`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Concurrency {
    /// Runs overlap.
    Allow,
    /// A slot waits for the run that is going on, for as long as it may still start; a later slot takes its place.
    Forbid,
    /// The run that is going on is cancelled.
    Replace,
}

/// `catchUp`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CatchUp {
    /// A slot that could not be started within [`ON_TIME`] is missed.
    None,
    /// The last one is started, as Kubernetes does.
    Latest,
    /// Each is started, at most the last [`CATCH_UP_MAX`].
    All,
}

/// `onInterrupt`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnInterrupt {
    /// The next leader makes another attempt, which counts towards `backoffLimit`.
    Retry,
    /// The run has failed.
    Fail,
}

/// `backoffLimit` and `backoff`: the attempt after the n-th failure comes after `initial × 2^(n−1)`, at most `max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackoffPolicy {
    /// How many attempts may follow the first.
    pub limit: u32,
    /// The pause after the first failure.
    pub initial: Duration,
    /// The longest pause.
    pub max: Duration,
}

impl BackoffPolicy {
    /// The pause after so many failed attempts.
    pub fn after(&self, failures: u32) -> Duration {
        let doubled = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
        self.initial.saturating_mul(doubled).min(self.max)
    }
}

/// `successfulJobsHistoryLimit` and `failedJobsHistoryLimit`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryLimits {
    /// How many successful runs are remembered.
    pub succeeded: usize,
    /// How many that failed; and how many stretches of slots that had no run.
    pub failed: usize,
}

/// How late a slot may be started where nothing is caught up.
pub const ON_TIME: Duration = Duration::from_secs(10);
/// The most slots that are caught up after an outage.
pub const CATCH_UP_MAX: usize = 100;
/// The most runs of one job at a time.
pub const ACTIVE_MAX: usize = 100;
/// The most runs that may have been asked for and not begun.
pub const ASKED_MAX: usize = 10;
/// The most slots of a backfill.
pub const BACKFILL_MAX: usize = 1_000;
/// The longest data that a run is given, in bytes; and the most that those of a job are given together, of which a
/// ledger has all.
pub const DATA_BYTES_MAX: usize = 4 << 10;
pub const DATA_BYTES_SUM_MAX: usize = 64 << 10;
/// The longest key of a request for a run, in bytes; how many of a job are remembered, and for how long.
pub const KEY_BYTES_MAX: usize = 128;
pub const KEYS_MAX: usize = 100;
pub const KEY_SPAN: Duration = Duration::from_secs(24 * 3_600);
/// A slot that starts later than this is counted as late.
const LATE: Duration = Duration::from_secs(1);

/// Whether a slot that starts so long after its moment is counted as late.
pub fn is_late(by: Duration) -> bool {
    by > LATE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_a_second_is_late() {
        let is_late = |ms| is_late(Duration::from_millis(ms));
        assert_eq!([is_late(0), is_late(1_000), is_late(1_001)], [false, false, true]);
    }

    #[test]
    fn pauses_double_up_to_the_longest() {
        let backoff = BackoffPolicy { limit: 6, initial: Duration::from_secs(10), max: Duration::from_secs(360) };
        let pauses: Vec<u64> = (1..=8).map(|failures| backoff.after(failures).as_secs()).collect();
        assert_eq!(pauses, [10, 20, 40, 80, 160, 320, 360, 360]);
        assert_eq!(backoff.after(u32::MAX), backoff.max);
    }
}
