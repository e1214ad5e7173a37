//! The promises, shown on real processes: `baton run` beside apps that read every answer, on a real Redis, with faults.

#[path = "../support/sidecars/apps.rs"]
mod apps;
mod caught;
#[path = "../support/sidecars/claims.rs"]
mod claims;
#[path = "../support/sidecars/clock.rs"]
mod clock;
mod clock_steps;
mod crashes;
mod departures;
mod group;
mod handover;
mod health;
#[path = "../support/sidecars/http.rs"]
mod http;
#[path = "../support/sidecars/jobs.rs"]
mod job_checker;
mod jobs;
mod kubernetes;
mod leases;
mod log_pipe;
mod networks;
mod own_stores;
mod proxies;
mod quorum;
mod redis_faults;
mod redis_words;
mod redis_wrong;
mod reload;
#[path = "../support/sidecars/replica.rs"]
mod replica;
mod shards;
#[path = "../support/mod.rs"]
mod support;
#[path = "../support/sidecars/wait.rs"]
mod wait;
