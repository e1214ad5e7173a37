//! Lines for people and programs: results to standard output, everything else to standard error.
//!
//! Not by `println!`, which panics when nobody reads any more, as in `baton status | head -1`.

use std::fmt::Display;
use std::io::{Write, stderr, stdout};

/// Writes a line of the result. False when nobody reads standard output any more.
pub fn say(line: impl Display) -> bool {
    let mut out = stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).is_ok()
}

/// Writes a diagnostic line. Where nobody reads standard error, there is nobody to tell.
pub fn complain(line: impl Display) {
    let _ = writeln!(stderr().lock(), "{line}");
}

/// Rows below each other in columns as wide as their widest cell; the last column is as wide as it likes.
pub fn columns(rows: &[Vec<String>]) -> Vec<String> {
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let line = |row: &Vec<String>| {
        let cells = row.iter().enumerate().map(|(i, cell)| format!("{cell:<wide$}", wide = width(i).unwrap_or(0)));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let rows = [row(["ROLE", "STATE", "WHY"]), row(["a", "leading", ""]), row(["länger", "x", "because"])];
        assert_eq!(columns(&rows), ["ROLE    STATE    WHY", "a       leading", "länger  x        because"]);
    }
}
