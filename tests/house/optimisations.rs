//! What is done for speed alone names the goal that it serves, where it is, and what it costs in lines.

use crate::assert_none;
use crate::tree::{files, root};

const PAGE: &str = "docs/performance.md";
const HEADING: &str = "## What is done for it";

/// The cells of the table's rows.
fn rows(page: &str) -> Vec<Vec<&str>> {
    let section = page.split_once(HEADING).map_or("", |(_, rest)| rest.split("\n## ").next().unwrap_or_default());
    let rows = section.lines().filter(|line| line.starts_with("| ")).skip(1);
    rows.map(|row| row.trim_matches('|').split(" | ").map(str::trim).collect()).collect()
}

fn check(page: &str, exists: &dyn Fn(&str) -> bool) -> Vec<String> {
    let mut complaints = Vec::new();
    for row in rows(page) {
        let [goal, done, places, lines] = row.as_slice() else {
            complaints.push(format!("{row:?}: a row has four cells"));
            continue;
        };
        if goal.is_empty() || done.is_empty() || lines.parse::<u32>().is_err() {
            complaints.push(format!("{goal}: a goal, what is done, and a number of lines"));
        }
        let mut named = places.split('`').skip(1).step_by(2).peekable();
        if named.peek().is_none() {
            complaints.push(format!("{goal}: where is it done?"));
        }
        complaints.extend(named.filter(|path| !exists(path)).map(|path| format!("{goal}: there is no {path}")));
    }
    complaints
}

#[test]
fn an_optimisation_names_its_goal_its_place_and_its_lines() {
    let page = files().into_iter().find(|file| file.path == PAGE).unwrap().text;
    assert!(rows(&page).len() > 3, "the table is read");
    assert_none(PAGE, check(&page, &|path| root().join("src").join(path).exists() || root().join(path).exists()));
}

#[test]
fn the_checker_of_optimisations_complains_about_bad_examples() {
    let complaints = |rows: &str| {
        let page =
            format!("# Speed\n\n{HEADING}\n\n| goal | done | where | lines |\n|---|---|---|---|\n{rows}\n## More\n");
        check(&page, &|path| path == "a.rs").len()
    };
    assert_eq!(complaints("| fast | kept | `a.rs` | 10 |"), 0);
    assert_eq!(complaints("| fast | kept | `b.rs` | 10 |"), 1, "a file that is gone");
    assert_eq!(complaints("| fast | kept | | 10 |"), 1, "nowhere");
    assert_eq!(complaints("|  | kept | `a.rs` | many |"), 1, "no goal, no lines");
    assert_eq!(complaints("| fast | kept | `a.rs` |"), 1);
}
