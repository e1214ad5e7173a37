//! Locks on real processes: `baton run`, asked over plain sockets, with faults.

mod calls;
mod dapr;
mod docs;
mod faults;
mod http;
mod oversell;
mod sidecar;
#[path = "../support/mod.rs"]
mod support;
#[path = "../support/sidecars/wait.rs"]
mod wait;
