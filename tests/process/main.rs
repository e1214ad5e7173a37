//! The promises, shown on real processes: `baton run` beside apps that read every answer, on a real Redis, with faults.

mod caught;
mod clock_steps;
mod crashes;
mod dapr_jobs;
mod departures;
mod failovers;
mod finish;
mod group;
mod handover;
mod health;
mod jobs;
mod kubernetes;
mod leases;
mod log_pipe;
mod networks;
mod own_stores;
mod proxies;
mod quiet;
mod quorum;
mod redis_faults;
mod redis_words;
mod redis_wrong;
mod reload;
mod runtime_faults;
mod runtime_jobs;
mod shards;
