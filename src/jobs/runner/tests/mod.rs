//! Attempts under a real role, against a real little server and with real processes.

mod exec;
mod http;
mod server;
mod stage;
mod tenure;
mod tls;

pub use stage::assignment;
