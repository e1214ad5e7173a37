//! docs/compatibility.md: its tables are written by `make compat`, and held against what is seen.

use std::fs;
use std::path::PathBuf;

use testkit::root;

use crate::cells::{COLUMNS, Row};
use crate::services::SERVICES;

/// Writes the tables instead of holding them against the page.
const WRITE: &str = "BATON_COMPAT_WRITE";

const SERVERS: &str = "servers";
const CLAIMS: &str = "services";

fn page() -> PathBuf {
    root().join("docs/compatibility.md")
}

/// With these columns before and behind those that were tried.
fn table(rows: impl Iterator<Item = String>, first: &str, last: &[&str]) -> String {
    let columns = [&[first], &COLUMNS[..], last].concat();
    let head = format!("| {} |\n|{}\n", columns.join(" | "), "---|".repeat(columns.len()));
    head + &rows.collect::<String>()
}

fn marks(row: &Row) -> String {
    row.cells.iter().map(|(_, why)| if why.is_none() { "yes" } else { "**no**" }).collect::<Vec<_>>().join(" | ")
}

/// What is between the marks of this name.
fn section<'t>(text: &'t str, name: &str) -> (usize, &'t str, usize) {
    let (begin, end) = (format!("<!-- {name}: written by `make compat` -->\n"), format!("<!-- end of {name} -->"));
    let from = text.find(&begin).unwrap_or_else(|| panic!("docs/compatibility.md has no {begin}")) + begin.len();
    let to = from + text[from..].find(&end).unwrap_or_else(|| panic!("docs/compatibility.md has no {end}"));
    (from, &text[from..to], to)
}

fn hold_or_write(name: &str, wanted: &str) {
    let text = fs::read_to_string(page()).expect("the page is there");
    let (from, present, to) = section(&text, name);
    if std::env::var_os(WRITE).is_some() {
        fs::write(page(), format!("{}{wanted}{}", &text[..from], &text[to..])).expect("the page can be written");
    } else {
        assert_eq!(present, wanted, "docs/compatibility.md: {name}");
    }
}

/// The row of this server: put where it belongs, or held against what is there.
pub fn note_server(row: &Row) {
    let name = row.audit.lines().find_map(|line| line.split("ok ").nth(1).filter(|what| what.contains("edis")));
    let name = name.unwrap_or_else(|| panic!("no name in {}", row.audit)).trim();
    let line = format!("| {name} | {} |\n", marks(row));
    let text = fs::read_to_string(page()).expect("the page is there");
    let present = section(&text, SERVERS).1;
    let others = present.lines().skip(2).filter(|other| !other.starts_with(&format!("| {name} |")));
    let mut lines: Vec<String> = others.map(|other| format!("{other}\n")).chain([line]).collect();
    lines.sort();
    hold_or_write(SERVERS, &table(lines.into_iter(), "server", &[]));
}

/// The rows of all services. What is missing is in its last cell.
pub fn hold(rows: &[Row]) {
    let line = |(row, service): (&Row, &crate::services::Service)| {
        // What follows from that is not said again.
        let why = row.cells.iter().filter_map(|(_, why)| why.as_deref()).find(|why| *why != "it does not elect");
        let why = why.map_or_else(String::new, |why| format!("*{why}.* "));
        format!("| {} | {} | {why}{} ({}) |\n", row.name, marks(row), service.note, service.source)
    };
    hold_or_write(
        CLAIMS,
        &table(rows.iter().zip(SERVICES).map(line), "service", &["why not, and what a run cannot show"]),
    );
}
