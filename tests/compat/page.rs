//! docs/compatibility.md: its tables are written by `make compat`, and held against what is seen.

use testkit::page::{COMPATIBILITY, table};
use testkit::services::SERVICES;

use crate::cells::{COLUMNS, DOES_NOT_ELECT, Row};

fn columns<'c>(first: &'c str, last: &[&'c str]) -> Vec<&'c str> {
    [&[first, "speaks"], &COLUMNS[..], last].concat()
}

fn marks(row: &Row) -> impl Iterator<Item = String> {
    let marks = row.cells.iter().map(|(_, why)| if why.is_none() { "yes" } else { "**no**" });
    std::iter::once(row.speaks).chain(marks).map(str::to_owned)
}

/// The row of this server: put where it belongs, or held against what is there.
pub fn note_server(row: &Row) {
    let name = row.audit.lines().find_map(|line| line.split("ok ").nth(1).filter(|what| what.contains("edis")));
    let name = name.unwrap_or_else(|| panic!("no name in {}", row.audit)).trim().to_owned();
    let cells = std::iter::once(name).chain(marks(row)).collect();
    COMPATIBILITY.hold_or_write_rows("servers", &columns("server", &[]), &[cells]);
}

/// The rows of all services. What is missing is in its last cell.
pub fn hold(rows: &[Row]) {
    let lines = rows.iter().zip(SERVICES).map(|(row, service)| {
        // What follows from that is not said again.
        let why = row.cells.iter().filter_map(|(_, why)| why.as_deref()).find(|why| *why != DOES_NOT_ELECT);
        let why = why.map_or_else(String::new, |why| format!("*{why}.* "));
        let marks = marks(row).collect::<Vec<_>>().join(" | ");
        format!("| {} | {marks} | {why}{} ({}) |", row.name, service.note, service.source)
    });
    let lines: Vec<String> = lines.collect();
    let columns = columns("service", &["why not, and what a run cannot show"]);
    COMPATIBILITY.hold_or_write("services", &table(&columns, lines.iter().map(String::as_str)));
}
