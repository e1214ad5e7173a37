//! The two listeners over real sockets.

mod answers;
mod client;
mod contract;
mod dapr;
mod dapr_jobs;
mod docs;
mod events;
mod floods;
mod fuzz;
mod job_runs;
mod jobs;
mod limits;
mod locks;
mod logs;
mod long_poll;
mod operator;
mod page;
mod runtime_jobs;
mod schema;
mod security;
mod stage;
mod telemetry;
mod whole;
