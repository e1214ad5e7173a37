//! The driver of one role: it does what the election asks for, and nothing else.

mod app_check;
mod driver;
mod handle;
pub mod http;
mod pulse;
mod shards;
mod status;
mod team;
mod words;

pub use app_check::watch_app;
pub use driver::{RoleSpec, Surroundings, role};
pub use handle::{Answer, Command, CommandError, RoleHandle, Roles, Work};
pub use pulse::Heartbeat;
pub use status::{CHANGES_MAX, Change, Snapshot, Status, any_changed};
pub use team::{Broken, Membership, Team};
