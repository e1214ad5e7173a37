//! Locks for the app: short mutual exclusion asked for by name over HTTP. What a request means is decided by the store
//! ([`crate::protocol::LockSpace`]); here is what it takes to be patient, and to leave nothing behind when a client, an
//! answer or the process goes away. So whatever must not be dropped half-way runs in a task of its own (`upkeep`).
//!
//! * `POST /locks/a`: `http/requests` reads what is wanted; `acquire` asks the store for it, and again until it is
//!   granted, refused, or nobody is there any more. Between two tries the request sleeps in `waiters`. What is granted
//!   is noted in `held`, for as long as it may be acted upon.
//! * `PUT /locks/a/ID`: `extend` tells the store all that `held` knows, so that a lock that was lost is put back (R4).
//! * `DELETE /locks/a/ID`: `release` forgets the hold first, so that nothing puts it back, and releases it until there
//!   is an answer. If somebody waits here for the same lock, and it is this sidecar's turn, `turns` passes it on
//!   instead.
//! * A request that ends without a lock is cancelled by `release`: its ticket goes, and what it was granted unseen.
//! * `GET /locks/a/hold`: `hold` acquires, renews and, when the connection closes, releases.
//! * On a wake from the store: `listener` rings the waiter's bell, and `acquire` asks again. A ticket that nobody knows
//!   of is cancelled, so that the next is woken. The same task gives signs of life while anybody waits.
//! * `GET /locks?all=true` and `DELETE /locks/a`: `operator` looks at the store's names, and ends a lock by its token.
//!   The sidecar that has it hears of that, and forgets it.
//! * At the end: `acquire` refuses who comes and who waits, `hold` tells its clients to hang up, and `upkeep` waits for
//!   what is on its way to the store.
//!
//! [`dapr_routes`] are the same locks in Dapr's words (`http/dapr`), for an owner as in `owner`.

mod acquire;
mod extend;
mod held;
mod hold;
mod http;
mod listener;
mod operator;
mod owner;
mod release;
#[cfg(feature = "shuttle")]
#[cfg(test)]
mod schedules;
mod service;
#[cfg(test)]
mod tests;
mod turns;
mod upkeep;
mod waiters;

pub use acquire::{Claim, Want};
pub use hold::{Hold, HoldState};
pub use http::{dapr_routes, routes};
pub use operator::LockPage;
pub use service::{Extended, Granted, LockService, LockSettings, Refusal, Used};
