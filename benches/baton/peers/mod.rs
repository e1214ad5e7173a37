//! What people would use instead: the programs of `benches/peers`, and how they are driven.

pub mod elector;
pub mod locker;
mod process;
pub mod server;
