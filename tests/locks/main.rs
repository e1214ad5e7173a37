//! Locks on real processes: `baton run`, asked over plain sockets, with faults.
//!
//! `make test` takes a minute; what takes longer is ignored there. `make chaos` runs the soak, for ten minutes or
//! `BATON_SOAK_SECONDS` (with `BATON_SOAK_RATE` requests a second for `BATON_SOAK_NAMES` names), outages of Redis for
//! three minutes or `BATON_OUTAGES_SECONDS`, and the long oversell run, of 100,000 increments or
//! `BATON_OVERSELL_INCREMENTS`. `make e2e` takes locks with Dapr's published client.

mod calls;
mod clock_steps;
mod dapr;
mod docs;
mod faults;
mod http;
mod outages;
mod oversell;
mod sidecar;
mod soak;
