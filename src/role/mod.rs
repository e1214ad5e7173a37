//! The driver of one role: it does what the election asks for, and nothing else.

mod app_check;
mod driver;
mod handle;
pub mod http;
mod shards;
mod status;
mod team;
mod work;

pub use app_check::watch_app;
pub use driver::{RoleSpec, Surroundings, role};
pub use handle::{Answer, Command, CommandError, Heartbeat, RoleHandle, Roles};
pub use status::{CHANGES_MAX, Change, Snapshot, Status, any_changed};
pub use team::{Broken, Membership, Team};
pub use work::{WorkGuard, WorkTerm};
