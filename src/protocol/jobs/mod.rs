//! Jobs: runs on a schedule, each slot once across the replicas, started by the leader of a role.
//!
//! * [`JobController`] is the leader's side of one job for one term.
//! * [`Ledger`] is what is known of a job's runs; it lasts longer than its leader.
//! * [`LedgerCell`] is the store's side of it: a register that a later term shuts to earlier ones.
//! * [`JobTaker`] is the leader's side of all jobs that were made at run time, for one role and one term.
//! * [`JobRegistry`] is the store's side of jobs that are made at run time.
//! * [`JobPolicy`] and [`Timetable`] are what the configuration asks for.

mod backfill;
mod controller;
mod ids;
mod ledger;
mod policy;
mod run;
mod taker;
mod wishes;

pub use super::reference::job_registry::{
    JobPut, JobPutReply, JobRegistry, JobSettle, JobSettleReply, JobTake, JobTakeReply, JobWish, JobWishReply,
    Settlement, StoredJob,
};
pub use super::reference::ledger::{LedgerCell, LedgerTerm, OpenReply, Revision, Stored, WriteReply, WriteRequest};
pub use backfill::{Backfill, BackfillRefusal, Backfills};
pub use controller::{JobAction, JobController, JobEvent, JobInput, JobProfile, JobRequestId, Moment};
pub use ids::{JobName, JobNameError, RunId, Slot, Wall};
pub use ledger::{Abridgement, Gap, GapReason, Leaps, Ledger, Suspension};
pub use policy::{
    ACTIVE_MAX, ASKED_MAX, BACKFILL_MAX, BackoffPolicy, CATCH_UP_MAX, CatchUp, Concurrency, DATA_BYTES_MAX,
    DATA_BYTES_SUM_MAX, HistoryLimits, JobPolicy, KEY_BYTES_MAX, KEY_SPAN, KEYS_MAX, ON_TIME, OnInterrupt, Timetable,
    is_late,
};
pub use run::{Ending, Phase, Run, RunAttempt, RunFailure};
pub use taker::{
    ClaimedJob, ClaimedPlan, JobTaker, Quit, RunRecord, RuntimePlan, RuntimeState, TakeAnswer, TakeId, TakerAction,
    TakerEvent, TakerInput,
};
pub use wishes::{AskRefusal, AskedKey, RunOrder, RunRefusal, RunRequest, RunWish};
