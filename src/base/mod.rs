//! What every room needs: time, pauses, words said once, subscriptions that lose what is not heard in time, locks that
//! several share, and what belongs to the process itself.

pub mod backoff;
mod child;
pub mod clock;
pub mod complaint;
pub mod duration;
pub mod process;
pub mod signals;
pub mod subscription;
pub mod sync;

pub use backoff::Backoff;
pub use child::{Child, kill_groups};
pub use complaint::{Complaint, RepeatedFailure, Turn};
pub use subscription::Subscription;
