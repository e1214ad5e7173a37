//! Jobs: runs on a schedule, each slot once across the replicas, started by the leader of a role.

mod names;
mod policy;

pub use names::{JobName, JobNameError, RunId, Slot, Wall};
pub use policy::{
    ACTIVE_MAX, ASKED_MAX, Backoff, CATCH_UP_MAX, CatchUp, Concurrency, HistoryLimits, JobPolicy, LATE, ON_TIME,
    OnInterrupt, Timetable,
};
