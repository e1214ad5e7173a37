//! The driver of one role: it does what the election asks for, and nothing else.

mod app_check;
mod driver;
mod handle;
mod pulse;
mod shards;
mod team;

pub use app_check::watch_app;
pub use driver::{RoleSpec, Surroundings, role};
pub use handle::{Answer, Command, CommandError, RoleHandle, Roles, Snapshot};
pub use pulse::Heartbeat;
pub use team::{Broken, Membership, Team};
