//! Baton (draft map)
pub mod api;
pub mod clock;
pub mod config;
pub mod http;
pub mod protocol;
pub mod role;
pub mod store;
pub mod telemetry;
pub mod telemetry_http;
