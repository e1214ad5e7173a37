//! The promises, shown on real processes: `baton run` beside apps that read every answer, on a real Redis, with faults.

mod apps;
mod claims;
mod crashes;
mod group;
mod http;
mod replica;
#[path = "../support/mod.rs"]
mod support;
mod wait;
