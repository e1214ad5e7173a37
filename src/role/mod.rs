//! The task of one role: it does what the election asks for, and nothing else.

mod app_check;
mod handle;
mod hold;
pub mod http;
mod shards;
mod status;
mod task;
mod team;
mod work;

pub use app_check::watch_app;
pub use handle::{Answer, Command, CommandError, Heartbeat, RoleHandle, Roles, Work};
pub use hold::AppHold;
pub use status::{CHANGES_MAX, Snapshot, StateChange, Status, any_changed};
pub use task::{RoleContext, RoleSpec, role};
pub use team::{Broken, Membership, Team};
pub use work::{WorkGuard, WorkTerm};
