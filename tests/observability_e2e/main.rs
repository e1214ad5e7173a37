//! Alerts and dashboards on real servers: a real Prometheus scrapes real sidecars on a real Redis, faults happen by a
//! script, and what the panels' queries return is compared with what the apps beside the sidecars saw; a real
//! Alertmanager hands the alert of a real lost lease to a webhook. Not part of `cargo test`, because it needs Debian's
//! Alertmanager and some minutes: `make e2e`.

mod alerting;
#[path = "../observability/files.rs"]
mod files;
mod lapse;
#[path = "../observability/panels.rs"]
mod panels;
mod prometheus;
mod record;
mod rules;
mod server;
mod stage;
mod webhook;
