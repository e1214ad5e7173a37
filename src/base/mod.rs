//! What every room needs: time, pauses, words said once, and what belongs to the process itself.

pub mod backoff;
mod child;
pub mod clock;
pub mod complaint;
pub mod duration;
pub mod mailbox;
pub mod process;
pub mod signals;

pub use backoff::Backoff;
pub use child::{Child, kill_groups};
pub use complaint::{Complaint, Turn};
