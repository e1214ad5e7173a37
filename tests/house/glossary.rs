//! The glossary: few terms, in order, each with a type that is where the glossary says.

use crate::assert_none;
use crate::tree::{TextFile, files};

const PAGE: &str = "docs/glossary.md";
const TERMS_MAX: usize = 40;

/// A row: the term, the name of its type, and the file that the type is in.
fn rows(page: &str) -> Vec<(String, Option<(String, String)>)> {
    let read = |row: &str| {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let link = cells.last()?.strip_prefix("[`")?.strip_suffix(')')?.split_once("`](../");
        Some((cells[0].to_owned(), link.map(|(name, path)| (name.to_owned(), path.to_owned()))))
    };
    let rows = page.lines().filter(|line| line.starts_with("| ")).skip(1);
    rows.map(|row| read(row).unwrap_or_else(|| (row.to_owned(), None))).collect()
}

fn check(page: &str, files: &[TextFile]) -> Vec<String> {
    let rows = rows(page);
    let mut complaints = Vec::new();
    if rows.len() > TERMS_MAX {
        complaints.push(format!("{} terms are more than anybody learns", rows.len()));
    }
    let disorder = rows.windows(2).filter(|two| two[0].0 >= two[1].0);
    complaints.extend(disorder.map(|two| format!("{} comes after {}", two[0].0, two[1].0)));
    for (term, link) in &rows {
        let Some((name, path)) = link else {
            complaints.push(format!("{term} has no type"));
            continue;
        };
        let file = files.iter().find(|file| file.path == *path);
        let is_name = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
        let defines = |line: &str| {
            ["struct ", "enum ", "trait ", "type "].iter().any(|word| {
                let rest = line.split_once(word).and_then(|(_, rest)| rest.strip_prefix(name.as_str()));
                rest.is_some_and(is_name)
            })
        };
        if !file.is_some_and(|file| file.text.lines().any(defines)) {
            complaints.push(format!("{term}: {path} defines no {name}"));
        }
    }
    complaints
}

#[test]
fn every_term_of_the_glossary_has_its_type() {
    let files = files();
    let page = &files.iter().find(|file| file.path == PAGE).unwrap().text;
    assert!(rows(page).len() > 20, "the table is read");
    assert_none(PAGE, check(page, &files));
}

#[test]
fn the_checker_of_the_glossary_complains_about_bad_examples() {
    let file = TextFile { path: "src/a.rs".to_owned(), text: "pub struct Lease;\npub enum RoleName {}\n".to_owned() };
    let files = [file];
    let complaints = |rows: &str| check(&format!("| term | what | where |\n|---|---|---|\n{rows}"), &files).len();
    let lease = "| lease | held | [`Lease`](../src/a.rs) |\n";
    assert_eq!(complaints(&format!("{lease}| role | led | [`RoleName`](../src/a.rs) |\n")), 0);
    assert_eq!(complaints("| role | led | [`Role`](../src/a.rs) |\n"), 1, "only a part of a name");
    assert_eq!(complaints("| role | led | [`RoleName`](../src/b.rs) |\n"), 1, "another file");
    assert_eq!(complaints("| role | led | |\n"), 1, "no type");
    assert_eq!(complaints(&format!("| role | led | [`RoleName`](../src/a.rs) |\n{lease}")), 1, "no order");
    let many: String = (0..=TERMS_MAX).map(|n| lease.replace("lease", &format!("l{n:02}"))).collect();
    assert_eq!(complaints(&many), 1, "too many");
}
