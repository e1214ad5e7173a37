//! Jobs: runs on a schedule, each slot once across the replicas, started by the leader of a role.

pub mod runner;
