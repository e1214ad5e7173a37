//! Baton (draft map)
pub mod clock;
pub mod config;
pub mod http;
pub mod protocol;
pub mod role;
pub mod store;
