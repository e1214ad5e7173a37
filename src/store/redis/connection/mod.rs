//! The connections to Redis: which of them a command uses, where each leads, and how it is kept open.
//!
//! ```text
//!   CommandRoutes ──> Connection, one for each slot ──> Link, one client of fred
//!                      └── supervisor: opens the next, where Nodes or Sentinels say, and checks its Info
//! ```

mod addresses;
mod cluster;
mod errors;
mod evidence;
mod identity;
mod info;
mod link;
mod routes;
mod sentinels;
mod settings;
mod supervisor;

pub use errors::SetupError;
pub use settings::check_files;

pub(super) use cluster::{NodeAddress, Target};
pub(super) use errors::{CommandFailure, NO_WAIT};
pub(super) use info::{Info, Untold, VERSION_MIN, Version};
pub(super) use link::Link;
pub(super) use routes::CommandRoutes;
pub(super) use settings::{Settings, Timeouts};
pub(super) use supervisor::fetch_info;
