//! The parts of pages in docs/ that a command writes, held against what is seen.

use std::fs;
use std::path::PathBuf;

use crate::root;

/// A page with parts that a command writes, each between marks that tell its name.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    /// From the project's root.
    pub path: &'static str,
    /// As people type it.
    pub command: &'static str,
    /// The variable under which the parts are written instead of being held against what is seen.
    pub write: &'static str,
}

/// What Baton does on other servers.
pub const COMPATIBILITY: Page =
    Page { path: "docs/compatibility.md", command: "make compat", write: "BATON_COMPAT_WRITE" };

impl Page {
    fn file(&self) -> PathBuf {
        root().join(self.path)
    }

    fn text(&self) -> String {
        fs::read_to_string(self.file()).unwrap_or_else(|e| panic!("{}: {e}", self.path))
    }

    /// What is between the marks of this name, and where.
    fn section<'t>(&self, text: &'t str, name: &str) -> (usize, &'t str, usize) {
        let (begin, end) =
            (format!("<!-- {name}: written by `{}` -->\n", self.command), format!("<!-- end of {name} -->"));
        let from = text.find(&begin).unwrap_or_else(|| panic!("{} has no {begin}", self.path)) + begin.len();
        let to = from + text[from..].find(&end).unwrap_or_else(|| panic!("{} has no {end}", self.path));
        (from, &text[from..to], to)
    }

    /// The part of this name is this text, or becomes it.
    ///
    /// # Panics
    /// When it is another and is not to be written, or when there is no such part.
    pub fn hold_or_write(&self, name: &str, wanted: &str) {
        let text = self.text();
        if !self.write_only(name, wanted) {
            assert_eq!(self.section(&text, name).1, wanted, "{}: {name}", self.path);
        }
    }

    /// The part of this name becomes this text, where parts are written: true then. It tells what differs from run to
    /// run, and is not held against anything else.
    ///
    /// # Panics
    /// When there is no such part.
    pub fn write_only(&self, name: &str, wanted: &str) -> bool {
        let text = self.text();
        let (from, _, to) = self.section(&text, name);
        let is_written = std::env::var_os(self.write).is_some();
        if is_written {
            fs::write(self.file(), format!("{}{wanted}{}", &text[..from], &text[to..]))
                .expect("the page can be written");
        }
        is_written
    }

    /// The same as [`Self::hold_or_write`] for some rows, by their first cells, of the table of this name under these
    /// columns; the other rows stay. Rows are in alphabetical order.
    ///
    /// # Panics
    /// As it does.
    pub fn hold_or_write_rows(&self, name: &str, columns: &[&str], rows: &[Vec<String>]) {
        let text = self.text();
        let is_ours = |line: &str| rows.iter().any(|row| line.starts_with(&format!("| {} |", row[0])));
        let others = self.section(&text, name).1.lines().skip(2).filter(|line| !is_ours(line)).map(str::to_owned);
        let ours = rows.iter().map(|row| format!("| {} |", row.join(" | ")));
        let mut lines: Vec<String> = others.chain(ours).collect();
        lines.sort();
        self.hold_or_write(name, &table(columns, lines.iter().map(String::as_str)));
    }
}

/// A table with these columns and lines.
pub fn table<'l>(columns: &[&str], lines: impl Iterator<Item = &'l str>) -> String {
    let head = format!("| {} |\n|{}\n", columns.join(" | "), "---|".repeat(columns.len()));
    lines.fold(head, |all, line| all + line + "\n")
}
