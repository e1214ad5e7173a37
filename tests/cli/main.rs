//! The command line, as a person or a script meets it: the real binary, real processes, a real Redis.

mod bench;

mod audit;
mod dev;
mod exec;
mod jobs;
mod kubectl;
mod leases;
mod logs;
mod status;
mod usage;
