//! The parts of docs/compatibility.md that `make compat` writes, held against what is seen.

use std::fs;
use std::path::PathBuf;

use crate::root;

/// Writes the parts instead of holding them against the page.
const WRITE: &str = "BATON_COMPAT_WRITE";

fn page() -> PathBuf {
    root().join("docs/compatibility.md")
}

/// What is between the marks of this name, and where.
fn section<'t>(text: &'t str, name: &str) -> (usize, &'t str, usize) {
    let (begin, end) = (format!("<!-- {name}: written by `make compat` -->\n"), format!("<!-- end of {name} -->"));
    let from = text.find(&begin).unwrap_or_else(|| panic!("docs/compatibility.md has no {begin}")) + begin.len();
    let to = from + text[from..].find(&end).unwrap_or_else(|| panic!("docs/compatibility.md has no {end}"));
    (from, &text[from..to], to)
}

/// The part of this name is this text, or becomes it.
///
/// # Panics
/// When it is another and is not to be written, or when there is no such part.
pub fn hold_or_write(name: &str, wanted: &str) {
    let text = fs::read_to_string(page()).expect("the page is there");
    let (from, present, to) = section(&text, name);
    if std::env::var_os(WRITE).is_some() {
        fs::write(page(), format!("{}{wanted}{}", &text[..from], &text[to..])).expect("the page can be written");
    } else {
        assert_eq!(present, wanted, "docs/compatibility.md: {name}");
    }
}

/// The same for some rows, by their first cells, of the table of this name under these columns; the other rows stay.
/// Rows are in alphabetical order.
///
/// # Panics
/// As [`hold_or_write`].
pub fn hold_or_write_rows(name: &str, columns: &[&str], rows: &[Vec<String>]) {
    let text = fs::read_to_string(page()).expect("the page is there");
    let is_ours = |line: &str| rows.iter().any(|row| line.starts_with(&format!("| {} |", row[0])));
    let others = section(&text, name).1.lines().skip(2).filter(|line| !is_ours(line)).map(str::to_owned);
    let ours = rows.iter().map(|row| format!("| {} |", row.join(" | ")));
    let mut lines: Vec<String> = others.chain(ours).collect();
    lines.sort();
    hold_or_write(name, &table(columns, lines.iter().map(String::as_str)));
}

/// A table with these columns and lines.
pub fn table<'l>(columns: &[&str], lines: impl Iterator<Item = &'l str>) -> String {
    let head = format!("| {} |\n|{}\n", columns.join(" | "), "---|".repeat(columns.len()));
    lines.fold(head, |all, line| all + line + "\n")
}
