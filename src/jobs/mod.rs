//! Jobs: runs on a schedule, each slot once across the replicas, started by the leader of a role.
//!
//! * [`JobDesk`] runs the jobs of this replica, one task each. What a job does next is decided by its
//!   [`crate::protocol::jobs::JobController`], for as long as this replica leads the job's role.
//! * [`routes`] are its HTTP side, mounted on the app's listener.
//!
//! | file | what |
//! |---|---|
//! | `desk` | the jobs, as the configuration has them, and what may be asked of them |
//! | `task` | the task of one job: carries requests to the ledger, starts attempts |
//! | `runner` | one attempt: a request to the app, or a program |
//! | `codec` | a ledger as text in the store |
//! | `http`, `words`, `shapes` | routes, what they read, what they answer |

mod codec;
mod desk;
mod http;
pub mod runner;
mod shapes;
mod task;
mod words;

pub use codec::CodecError;
pub use desk::{JobDesk, JobView, Refusal};
pub use http::routes;
