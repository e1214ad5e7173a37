//! What a store must do: for each kind of thing that it keeps, what one atomic step does to it. The memory store runs
//! this, the simulation runs it, the Kubernetes store lets it decide, and the Lua scripts of the Redis store are held
//! against it by random operations.
//!
//! * `lease`: a role's lease and its record, on one server; `guard` is the part of R5 that all records share.
//! * `quorum_member`: the same on one of several independent servers.
//! * [`lease_object`]: what one compare-and-set on a Lease object of Kubernetes does.
//! * `locks`: all locks of one store; `lock_cell` is one name.
//! * `ledger`: what is known of a job's runs.
//! * `job_registry`: jobs that are made at run time, each with its runs.
//! * `presence`: who takes part in the shards of a role.

pub(super) mod guard;
pub(super) mod job_registry;
pub(super) mod lease;
pub mod lease_object;
pub(super) mod ledger;
mod lock_cell;
pub(super) mod locks;
pub(super) mod presence;
pub(super) mod quorum_member;

pub use lease::{LeaseCell, Outcome, Server, TokensExhausted};
