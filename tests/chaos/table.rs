//! What was measured, per store and fault, as a table for docs/guarantees.md. A column is measured as a whole; the
//! others stay as they are, each with the seed and the time that it was measured with.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use crate::fault::Fault;
use crate::run::Measured;
use crate::stage::Kind;

const BEGIN: &str = "<!-- chaos:begin -->";
const END: &str = "<!-- chaos:end -->";
/// The row that tells how a column was measured.
const HOW: &str = "*seed, for how long*";
/// In a cell that was not measured.
const NONE: &str = "–";

/// Cells by the titles of their row and column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table(BTreeMap<(String, String), String>);

fn cell(measured: &Measured) -> String {
    let verdict = &measured.verdict;
    let (windows, regressions) = (verdict.windows.len(), verdict.regressions.len());
    let counts = format!("{windows}/{regressions}");
    let counts = if windows + regressions > 0 { format!("**{counts}**") } else { counts };
    let share = format!("{:.2}", verdict.led_share);
    let leaderless = verdict.leaderless_max.as_secs_f64();
    format!("{}: {counts}, {leaderless:.1} s ({})", measured.faults, share.trim_start_matches('0'))
}

/// How many faults, and how many windows with two leaders, a cell tells of.
fn counts(cell: &str) -> Option<(usize, usize)> {
    let (faults, rest) = cell.split_once(": ")?;
    let (windows, _) = rest.trim_start_matches('*').split_once('/')?;
    Some((faults.parse().ok()?, windows.parse().ok()?))
}

fn words(line: &str) -> Vec<&str> {
    line.trim_matches('|').split(" | ").map(str::trim).collect()
}

impl Table {
    /// Of what was measured with this seed in so much time for all of it together.
    pub fn of(all: &[Measured], seed: u64, span: Duration) -> Self {
        let mut cells = BTreeMap::new();
        for measured in all {
            let column = measured.plan.kind.title().to_owned();
            cells.insert((measured.plan.fault.title().to_owned(), column.clone()), cell(measured));
            cells.insert((HOW.to_owned(), column), format!("{seed}, {} s", span.as_secs()));
        }
        Self(cells)
    }

    /// The one on the page.
    pub fn on(page: &str) -> Self {
        let (_, text, _) = split(page);
        let mut lines = text.lines().filter(|line| line.starts_with("| "));
        let columns = words(lines.next().expect("it has a head"));
        let row = |line| {
            let cells = words(line);
            let row = cells[0].to_owned();
            let cells = columns.iter().zip(cells).skip(1).filter(|(_, cell)| *cell != NONE);
            cells.map(move |(column, cell)| ((row.clone(), (*column).to_owned()), cell.to_owned())).collect::<Vec<_>>()
        };
        Self(lines.flat_map(row).collect())
    }

    /// Puts these columns of another in the place of its own.
    pub fn take_columns(&mut self, fresh: Self, kinds: &[Kind]) {
        let is_fresh = |column: &str| kinds.iter().any(|kind| kind.title() == column);
        self.0.retain(|(_, column), _| !is_fresh(column));
        self.0.extend(fresh.0.into_iter().filter(|((_, column), _)| is_fresh(column)));
    }

    /// A row for each fault, a column for each store, and the sum in words.
    pub fn text(&self) -> String {
        let titles: Vec<&str> = Kind::ALL.iter().map(|kind| kind.title()).collect();
        let mut text = format!("| fault | {} |\n|---|{}\n", titles.join(" | "), "---|".repeat(titles.len()));
        for row in Fault::ALL.iter().map(|fault| fault.title()).chain([HOW]) {
            let cells = titles.iter().map(|column| self.cell(row, column).unwrap_or(NONE)).collect::<Vec<_>>();
            let _ = writeln!(text, "| {row} | {} |", cells.join(" | "));
        }
        text + "\n" + &self.summary() + "\n"
    }

    fn cell(&self, row: &str, column: &str) -> Option<&str> {
        self.0.get(&(row.to_owned(), column.to_owned())).map(String::as_str)
    }

    fn summary(&self) -> String {
        let (mut faults, mut promised, mut known) = (0, 0, 0);
        for kind in Kind::ALL {
            for fault in Fault::ALL {
                let told = self.cell(fault.title(), kind.title()).and_then(counts).unwrap_or_default();
                faults += told.0;
                *(if kind.is_safe(fault) { &mut promised } else { &mut known }) += told.1;
            }
        }
        format!("{faults} faults. Windows with two leaders: {promised} where P1 is promised, {known} where it is not.")
    }
}

/// The page with this between the marks.
pub fn with_table(page: &str, table: &Table) -> String {
    let (before, _, after) = split(page);
    format!("{before}{BEGIN}\n{}{END}{after}", table.text())
}

fn split(page: &str) -> (&str, &str, &str) {
    let (before, rest) = page.split_once(BEGIN).expect("the page has a mark where the table begins");
    let (text, after) = rest.split_once(END).expect("the page has a mark where the table ends");
    (before, text, after)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLUSTER: &str = "Cluster, `acks: 1`";

    fn made(rows: &[(&str, &str, &str)]) -> Table {
        let cell = |(row, column, text): &(&str, &str, &str)| (((*row).into(), (*column).into()), (*text).into());
        Table(rows.iter().map(cell).collect())
    }

    #[test]
    fn the_page_has_the_table_as_it_is_written() {
        let page = include_str!("../../docs/guarantees.md");
        assert_eq!(with_table(page, &Table::on(page)), page);
    }

    #[test]
    fn a_column_that_was_measured_replaces_its_own_and_no_other() {
        let old = [("mixed", CLUSTER, "12: 0/0, 1.0 s (.90)"), ("split", CLUSTER, "9: 0/0, 1.0 s (.90)")];
        let other = ("mixed", "quorum of five", "1: **2/0**, 1.0 s (.90)");
        let fresh = ("mixed", CLUSTER, "12: **1/0**, 2.0 s (.80)");
        let mut table = made(&[old[0], old[1], other]);
        table.take_columns(made(&[fresh, ("mixed", "quorum of five", "not wanted")]), &[Kind::Cluster]);
        assert_eq!(table, made(&[fresh, other]));
        assert!(table.summary().starts_with("13 faults. Windows with two leaders: 3 where P1 is promised, 0 "));
    }
}
