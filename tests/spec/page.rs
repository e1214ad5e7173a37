//! The tables of docs/guarantees.md that `make spec` writes.

use std::time::Duration;

use testkit::page::{Page, table};

use crate::model::{Model, Module, Removal};

const PAGE: Page = Page { path: "docs/guarantees.md", command: "make spec", write: "BATON_SPEC_WRITE" };

/// In how many seconds is the machine's matter: the page tells it, and is not held against it.
pub fn model_line(module: &Module, model: &Model, states: u64, depth: u64, took: Duration) -> String {
    let promises = model.promises(module).join(", ");
    format!("| {} | {} | {promises} | {states} | {depth} | {} |", module.name, model.title, took.as_secs())
}

pub fn removal_line(module: &Module, row: &Removal, steps: usize) -> String {
    let rules = row.off.iter().map(|rule| format!("`{rule}`")).collect::<Vec<_>>().join(" and ");
    let rules = if rules.is_empty() { "nothing: every rule is on".to_owned() } else { rules };
    format!("| {} | {rules} | {} | {steps} | {} |", module.name, row.breaks, row.story)
}

fn lines(lines: &[String]) -> impl Iterator<Item = &str> {
    lines.iter().map(String::as_str)
}

pub fn hold_models(rows: &[String]) {
    let columns = ["module", "within", "promises", "states", "depth", "seconds"];
    PAGE.write_only("models", &table(&columns, lines(rows)));
}

pub fn hold_removals(rows: &[String]) {
    let columns = ["module", "without", "breaks", "steps", "how"];
    PAGE.hold_or_write("removals", &table(&columns, lines(rows)));
}
