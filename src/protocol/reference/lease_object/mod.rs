//! What one compare-and-set on a Lease object does: the store's side of the protocol where the store is a Kubernetes
//! API server, which keeps versioned objects and runs no scripts.
//!
//! There is no server clock and no TTL. A lease is over when the same record has been seen for its whole lease
//! duration, on the observer's own clock ([`Observation`]), as client-go does it: nobody's time of day is believed. So
//! a decision has two parts. First what was seen decides whether to write ([`campaign`], [`renew`], [`release`] return
//! a [`Step`]), then the write on just the version that was seen decides whether it counts: whoever changed the object
//! meanwhile makes it fail, and the decision is made anew.
//!
//! ```text
//!            ┌────────── conflict: look again ──────────┐
//!            ▼                                          │
//!   seen (record, since when) ── decide ──► write on that version ──► done: the reply counts
//!                                  └──────► reply, nothing written
//! ```
//!
//! *Absence* is an observation like any other, but no write on a version protects it: an object that was made and
//! deleted again between two looks leaves no trace. So absence is only believed while it is looked at often
//! ([`Observation::LOOKS_PER_LEASE`]). And a create whose answer never came may still arrive later; until an update of
//! this replica succeeded, what it finds of its own is [doubted](Observation::unanswered).

mod decide;
mod observation;
mod record;

pub use decide::{Step, campaign, release, renew};
pub use observation::{Caution, Observation, Seen, Source};
pub use record::{FOREIGN, LeaseRecord, Mark, Tenure, news};

#[cfg(test)]
mod tests;
