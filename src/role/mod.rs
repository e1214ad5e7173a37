//! The driver of one role: it does what the election asks for, and nothing else.

mod handle;

pub use handle::{Answer, Command, CommandError, RoleHandle, Roles, Snapshot};
