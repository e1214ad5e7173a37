//! Attempts under a real role, against a real little server and with real processes.

mod exec;
mod http;
mod server;
mod stage;
mod terms;
mod tls;

pub use stage::assignment;
