//! The promises, shown on real processes: `baton run` beside apps that read every answer, on a real Redis, with faults.

mod apps;
mod caught;
mod chaos;
mod claims;
mod clock_steps;
mod crashes;
mod group;
mod handover;
mod health;
mod http;
mod leases;
mod networks;
mod proxies;
mod redis_faults;
mod redis_wrong;
mod reload;
mod replica;
#[path = "../support/mod.rs"]
mod support;
mod wait;
