//! What operators see: alerts with their unit tests and runbooks, and dashboards. Every expression is parsed by
//! `promtool`, every metric and label in it is looked up in what running sidecars tell, and every command in a runbook
//! is tried. That all of it tells the truth about real faults is shown by tests/observability_e2e.

mod alerts;
mod commands;
mod dashboards;
mod files;
mod live;
mod panels;
mod promql;
mod promtool;
mod rules;
mod runbooks;

use files::{names_in, path, text};

/// Fails when there are complaints.
fn assert_none(what: &str, complaints: &[String]) {
    assert!(complaints.is_empty(), "{what}:\n  {}", complaints.join("\n  "));
}
