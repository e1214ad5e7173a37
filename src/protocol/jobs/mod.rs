//! Jobs: runs on a schedule, each slot once across the replicas, started by the leader of a role.
//!
//! * [`JobController`] is the leader's side of one job for one term.
//! * [`Ledger`] is what is known of a job's runs; it lasts longer than its leader.
//! * [`LedgerCell`] is the store's side of it: a register that a later term shuts to earlier ones.
//! * [`JobPolicy`] and [`Timetable`] are what the configuration asks for.

mod controller;
mod ids;
mod ledger;
mod policy;

pub use super::reference::ledger::{LedgerCell, OpenReply, Revision, Stored, WriteReply, WriteRequest};
pub use controller::{JobAction, JobController, JobEvent, JobInput, JobProfile, JobRequestId, Moment};
pub use ids::{JobName, JobNameError, RunId, Slot, Wall};
pub use ledger::{
    Ending, Gap, GapReason, Ledger, Phase, Run, RunAttempt, RunFailure, RunOrder, RunRefusal, RunWish, Suspension,
    TooManyAsked,
};
pub use policy::{
    ACTIVE_MAX, ASKED_MAX, BackoffPolicy, CATCH_UP_MAX, CatchUp, Concurrency, HistoryLimits, JobPolicy, ON_TIME,
    OnInterrupt, Timetable, is_late,
};
