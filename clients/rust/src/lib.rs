//! The client of Baton, the leader-election sidecar: a [lead](Lead), a [lock](Lock), and a [job's handler](Job).
//!
//! ```no_run
//! # async fn report(token: u64) {}
//! # async fn example() -> Result<(), baton_sidecar::Error> {
//! let lead = baton_sidecar::Baton::new().leading("scheduler").await?;
//! while let Ok(token) = lead.token() { report(token).await }
//! lead.leave().await;
//! # Ok(())
//! # }
//! ```
//!
//! What the sidecar promises is counted from before it was asked, by `CLOCK_BOOTTIME`, which goes on while the machine
//! sleeps; on other systems than Linux and Android by `CLOCK_MONOTONIC`, which on some of them does not. Nothing
//! prevents that a process is paused between a check and a write: the token is for that, where what is written to
//! refuses smaller ones.
//!
//! | file | |
//! |---|---|
//! | `client.rs` | where everything begins |
//! | `lead.rs`, `lock.rs` | what the sidecar is asked for, and what its answers mean |
//! | `held.rs` | the task that keeps a lead or a lock |
//! | `promise.rs` | whether it still stands |
//! | `job.rs` | the handler of a job's requests |
//! | `http.rs`, `clock.rs`, `error.rs` | what they all need |

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod client;
mod clock;
mod error;
mod held;
mod http;
mod job;
mod lead;
mod lock;
mod promise;

pub use client::Baton;
#[doc(hidden)]
pub use clock::now;
pub use error::{Error, Holder, Lost};
pub use job::{Job, Run};
pub use lead::{Lead, Leading, Scope};
pub use lock::{Lock, Locking};
