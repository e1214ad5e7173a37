//! The table on the protocol's page, rule by rule: every file, script and test that it names is there.

use std::collections::BTreeSet;

use crate::assert_none;
use crate::tree::{files, rust_files};

const PAGE: &str = "src/protocol/mod.rs";
const SCRIPTS: &str = "src/store/redis/scripts/";

/// The cells of the table's rows, without its head.
fn rows(page: &str) -> Vec<Vec<String>> {
    let cells = |row: &str| row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
    let rows = page.lines().filter_map(|line| line.strip_prefix("//! ").filter(|row| row.starts_with('|')));
    rows.skip(2).map(cells).collect()
}

fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// Complaints about the table on a page. `exists`: whether there is such a file; `is_test`: such a function.
fn check(page: &str, exists: &dyn Fn(&str) -> bool, is_test: &dyn Fn(&str) -> bool) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut rules = BTreeSet::new();
    for row in rows(page) {
        let [rule, file, script, test] = row.as_slice() else {
            complaints.push(format!("{row:?}: a row has four cells"));
            continue;
        };
        rules.insert(rule.split(' ').next().unwrap_or_default().to_owned());
        let paths = quoted(file).map(|name| format!("src/protocol/{name}"));
        let paths = paths.chain(quoted(script).map(|name| format!("{SCRIPTS}{name}")));
        complaints.extend(paths.filter(|path| !exists(path)).map(|path| format!("{rule}: there is no {path}")));
        complaints.extend(quoted(test).filter(|name| !is_test(name)).map(|name| format!("{rule}: no test {name}")));
        if quoted(file).next().is_none() || quoted(test).next().is_none() {
            complaints.push(format!("{rule}: a row names a file and a test"));
        }
    }
    let missing = (1..=8).map(|number| format!("R{number}")).filter(|rule| !rules.contains(rule));
    complaints.extend(missing.map(|rule| format!("{rule} is not in the table")));
    complaints
}

#[test]
fn the_table_of_the_rules_names_files_scripts_and_tests_that_are_there() {
    let paths: BTreeSet<String> = files().into_iter().map(|file| file.path).collect();
    let code: Vec<String> = rust_files("").into_iter().map(|file| file.text).collect();
    let page = rust_files(PAGE).remove(0).text;
    let is_test = |name: &str| code.iter().any(|text| text.contains(&format!("fn {name}(")));
    assert_none(PAGE, check(&page, &|path| paths.contains(path), &is_test));
}

#[test]
fn the_checker_of_the_table_complains_about_bad_examples() {
    let page = |row: &str| {
        let rules: String = (1..=8).map(|number| format!("//! | R{number} | `a.rs` | | `t` |\n")).collect();
        format!("//! A page.\n//!\n//! | rule | file | script | test |\n//! |---|---|---|---|\n{rules}//! {row}\n")
    };
    let exists = |path: &str| ["src/protocol/a.rs", "src/store/redis/scripts/a.lua"].contains(&path);
    let complaints = |row: &str| check(&page(row), &exists, &|name| name == "t").len();
    assert_eq!(complaints("| R1 more | `a.rs` | `a.lua` | `t` |"), 0);
    assert_eq!(complaints("| R1 | `b.rs` | `b.lua` | `u` |"), 3);
    assert_eq!(complaints("| R1 | | | |"), 1);
    assert_eq!(complaints("| R1 | `a.rs` | `t` |"), 1);
    assert_eq!(check("//! No table.\n", &exists, &|_| true).len(), 8);
}
