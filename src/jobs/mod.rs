//! Jobs: runs on a schedule, each slot once across the replicas, started by the leader of a role.
//!
//! * [`JobService`] runs the jobs of this replica, one task each. What a job does next is decided by its
//!   [`crate::protocol::jobs::JobController`], for as long as this replica leads the job's role.
//! * [`routes`] are its HTTP side, mounted on the app's listener; [`dapr_routes`] the same for apps that know Dapr's.
//!
//! | file | what |
//! |---|---|
//! | `service` | the jobs, as the configuration has them, and what may be asked of them |
//! | `task` | the task of one job: carries requests to the ledger, starts attempts |
//! | `places` | how many attempts go on at once |
//! | `run` | one attempt: a request to the app, or a program |
//! | `ledger_store` | the store of ledgers: what is stored, and why it cannot be had |
//! | `runtime/` | jobs that are made at run time: what may be asked of them, and who runs them |
//! | `registry_store` | the store of those |
//! | `http` | routes, what they read, what they answer |

mod http;
mod ledger_store;
mod places;
mod registry_store;
pub mod run;
mod runtime;
mod service;
mod task;

pub use http::{dapr_routes, routes};
pub use ledger_store::LedgerError;
pub use service::{JobError, JobService, JobView};
