//! The table of docs/peers-under-faults.md.

use std::collections::BTreeMap;
use std::time::Duration;

use testkit::page::{Page, table};

use crate::fault::Fault;
use crate::run::Struck;
use crate::system::System;

pub const PAGE: Page = Page { path: "docs/peers-under-faults.md", command: "make jepsen", write: "BATON_JEPSEN_WRITE" };

const COLUMNS: [&str; 8] =
    ["system", "fault", "times", "two holders", "lost, plain", "lost, fenced", "longest without a holder", "seed"];

/// Who struck what, as a table.
pub fn rows(all: &[(System, Vec<Struck>)]) -> String {
    let mut lines = Vec::new();
    for (system, struck) in all {
        let mut cells: BTreeMap<Fault, Vec<&Struck>> = BTreeMap::new();
        struck.iter().for_each(|one| cells.entry(one.fault).or_default().push(one));
        lines.extend(cells.iter().map(|(fault, cell)| row(*system, *fault, cell)));
    }
    table(&COLUMNS, lines.iter().map(String::as_str))
}

fn row(system: System, fault: Fault, cell: &[&Struck]) -> String {
    let in_hundred = |found: &dyn Fn(&&&Struck) -> bool| {
        let count = cell.iter().filter(found).count();
        ((count * 100) as f64 / cell.len() as f64).round().to_string()
    };
    let fenced = in_hundred(&|one| one.verdict.fenced_lost);
    let longest = cell.iter().map(|one| one.longest_without).max().unwrap_or(Duration::ZERO);
    let cells = [
        system.title().to_owned(),
        fault.title().to_owned(),
        cell.len().to_string(),
        in_hundred(&|one| one.verdict.two_holders),
        in_hundred(&|one| one.verdict.plain_lost),
        if system.has_token() { fenced } else { "no token".to_owned() },
        format!("{:.1} s", longest.as_secs_f64()),
        // Of the worst that was seen.
        cell.iter().max_by_key(|one| severity(one)).map_or(String::new(), |one| one.seed.to_string()),
    ];
    format!("| {} |", cells.join(" | "))
}

fn severity(one: &Struck) -> (bool, bool, bool, Duration) {
    let verdict = one.verdict;
    (verdict.two_holders, verdict.fenced_lost, verdict.plain_lost, one.longest_without)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::Verdict;

    #[test]
    fn a_row_counts_in_a_hundred_and_names_the_seed_of_the_worst() {
        let struck = |seed, two_holders, plain_lost, ms| Struck {
            fault: Fault::Pause,
            seed,
            verdict: Verdict { two_holders, plain_lost, fenced_lost: false },
            longest_without: Duration::from_millis(ms),
        };
        let all =
            [(System::Etcd, vec![struck(1, false, true, 2_500), struck(2, true, true, 10), struck(3, false, true, 9)])];
        let text = rows(&all);
        assert_eq!(text.lines().last(), Some("| etcd | holder paused | 3 | 33 | 100 | 0 | 2.5 s | 2 |"));
        let text = rows(&[(System::Redsync, all[0].1.clone())]);
        assert_eq!(text.lines().last(), Some("| redsync | holder paused | 3 | 33 | 100 | no token | 2.5 s | 2 |"));
    }
}
