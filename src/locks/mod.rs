//! Locks for the app: short mutual exclusion asked for by name over HTTP.
//!
//! * [`LockDesk`] carries the app's requests to a [`crate::store::LockStore`] and waits for it. What a request means is
//!   decided by the store's side ([`crate::protocol::LockSpace`]); here is what it takes to be patient, and to leave
//!   nothing behind when a client, an answer or the process goes away.
//! * [`routes`] are its HTTP side, mounted on the app's listener; [`dapr_routes`] are another.
//!
//! | file | what |
//! |---|---|
//! | `service` | the desk, what all requests share, its shutdown |
//! | `acquire` | one request for a lock, until it is granted, refused or abandoned |
//! | `waiters` | who waits, who is woken, and to whom a lock may be handed over |
//! | `handover` | a lock that goes from one request of this sidecar to the next |
//! | `held` | the locks that were granted here |
//! | `release` | extend, release and cancel, with their retries |
//! | `hold` | a lock that lasts as long as a connection |
//! | `http` | routes, what they read, what they answer; the same locks in Dapr's words, if the configuration asks for it |
//!
//! A request to the store is never dropped half-way: each runs in a task of its own, so that a client that goes away
//! leaves neither a ticket nor a lock behind, whatever was on its way.

mod acquire;
mod handover;
mod held;
mod hold;
mod http;
mod owner;
mod release;
mod service;
#[cfg(test)]
mod tests;
mod waiters;

use crate::protocol::LockName;

pub use acquire::{Claim, Want};
pub use hold::{Hold, HoldState};
pub use http::{WAIT_MAX, dapr_routes, routes};
pub use release::ByOwner;
pub use service::{Extended, Granted, LockDesk, LockSettings, Refusal, Used};

/// Whether a lock is of one name, and one holder's alone: such a lock can be handed over from request to request.
fn is_exclusive(names: &[LockName], permits: u32) -> bool {
    names.len() == 1 && permits == 1
}
