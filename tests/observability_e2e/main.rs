//! Alerts and dashboards on real servers: a real Prometheus scrapes real sidecars on a real Redis, faults happen by a
//! script, and what the panels' queries return is compared with what the apps beside the sidecars saw; a real
//! Alertmanager hands the alert of a real lost lease to a webhook. Not part of `cargo test`, because it needs Debian's
//! Alertmanager and some minutes: `make e2e`.

mod alerting;
#[path = "../support/sidecars/apps.rs"]
mod apps;
#[path = "../support/sidecars/claims.rs"]
mod claims;
#[path = "../observability/files.rs"]
mod files;
#[path = "../support/sidecars/http.rs"]
mod http;
mod lapse;
#[path = "../observability/panels.rs"]
mod panels;
mod prometheus;
mod record;
#[path = "../support/sidecars/replica.rs"]
mod replica;
mod rules;
mod server;
mod stage;
#[path = "../support/mod.rs"]
mod support;
#[path = "../support/sidecars/wait.rs"]
mod wait;
mod webhook;
