//! Baton (draft map)
#![warn(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::await_holding_lock
)]

pub mod api;
pub mod app;
pub mod clock;
pub mod config;
pub mod http;
pub mod process;
pub mod protocol;
pub mod role;
pub mod shutdown;
pub mod store;
pub mod telemetry;
pub mod telemetry_http;
