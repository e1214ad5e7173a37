//! What operators see: alerts with their unit tests and runbooks, and dashboards. Every expression is parsed by
//! `promtool`, every metric and label in it is looked up in what running sidecars tell, and every command in a runbook is
//! tried. That all of it tells the truth about real faults is shown by tests/observability_e2e.

mod alerts;
#[path = "../support/sidecars/claims.rs"]
mod claims;
mod commands;
mod dashboards;
#[path = "../support/sidecars/http.rs"]
mod http;
mod live;
mod panels;
mod promql;
mod promtool;
#[path = "../support/sidecars/replica.rs"]
mod replica;
mod rules;
mod runbooks;
#[path = "../support/mod.rs"]
mod support;
#[path = "../support/sidecars/wait.rs"]
mod wait;

use std::path::PathBuf;

/// A file of the repository.
fn path(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Its text.
fn text(file: &str) -> String {
    std::fs::read_to_string(path(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// The names of a folder's files that end so, sorted, without that end.
fn names_in(folder: &str, end: &str) -> Vec<String> {
    let entries = std::fs::read_dir(path(folder)).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.filter_map(|name| name.strip_suffix(end).map(str::to_owned)).collect();
    names.sort();
    names
}

/// Fails when there are complaints.
fn assert_none(what: &str, complaints: &[String]) {
    assert!(complaints.is_empty(), "{what}:\n  {}", complaints.join("\n  "));
}
