//! What was measured, per store and fault, as a table for docs/guarantees.md.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::fault::Fault;
use crate::run::Measured;
use crate::stage::Kind;

const BEGIN: &str = "<!-- chaos:begin -->";
const END: &str = "<!-- chaos:end -->";

fn cell(measured: &Measured) -> String {
    let verdict = &measured.verdict;
    let (windows, regressions) = (verdict.windows.len(), verdict.regressions.len());
    let counts = format!("{windows}/{regressions}");
    let counts = if windows + regressions > 0 { format!("**{counts}**") } else { counts };
    let share = format!("{:.2}", verdict.led_share);
    let leaderless = verdict.leaderless_max.as_secs_f64();
    format!("{}: {counts}, {leaderless:.1} s ({})", measured.faults, share.trim_start_matches('0'))
}

/// The table: a row for each fault, a column for each store.
pub fn table(all: &[Measured]) -> String {
    let by_plan: BTreeMap<(usize, usize), &Measured> =
        all.iter().map(|measured| (place(measured.plan.kind, measured.plan.fault), measured)).collect();
    let titles: Vec<&str> = Kind::ALL.iter().map(|kind| kind.title()).collect();
    let mut text = format!("| fault | {} |\n|---|{}\n", titles.join(" | "), "---|".repeat(titles.len()));
    for fault in Fault::ALL {
        let cells =
            Kind::ALL.map(|kind| by_plan.get(&place(kind, fault)).map_or("–".to_owned(), |found| cell(found)));
        let _ = writeln!(text, "| {} | {} |", fault.title(), cells.join(" | "));
    }
    text
}

fn place(kind: Kind, fault: Fault) -> (usize, usize) {
    let at = |found: Option<usize>| found.expect("it is one of all");
    (at(Fault::ALL.iter().position(|it| *it == fault)), at(Kind::ALL.iter().position(|it| *it == kind)))
}

/// The sum of everything, in words.
pub fn summary(all: &[Measured], seed: u64) -> String {
    let sum = |count: &dyn Fn(&Measured) -> usize| all.iter().map(count).sum::<usize>();
    let (safe, known): (Vec<&Measured>, Vec<&Measured>) =
        all.iter().partition(|measured| measured.plan.kind.is_safe(measured.plan.fault));
    let windows = |some: &[&Measured]| some.iter().map(|m| m.verdict.windows.len()).sum::<usize>();
    format!(
        "{} faults, {} terms and {} answers, seed {seed}. Windows with two leaders: {} where P1 is promised, {} where \
         it is not.",
        sum(&|m| m.faults),
        sum(&|m| m.verdict.terms),
        sum(&|m| m.answers),
        windows(&safe),
        windows(&known),
    )
}

/// The page with this between the marks.
pub fn with_table(page: &str, text: &str) -> String {
    let (before, rest) = page.split_once(BEGIN).expect("the page has a mark where the table begins");
    let (_, after) = rest.split_once(END).expect("the page has a mark where the table ends");
    format!("{before}{BEGIN}\n{text}{END}{after}")
}
