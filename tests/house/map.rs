//! The map on the page of lib.rs: every module is on it once, on the floor that the imports are held to, and what it
//! says to look at first is there.

use std::collections::BTreeSet;

use crate::assert_none;
use crate::floors::floor;
use crate::source::facts;
use crate::tree::{TextFile, rust_files};

/// A row: the floor, the modules that it links to, and the paths to look at first.
type Row = (u8, Vec<String>, Vec<String>);

fn rows(page: &str) -> Vec<Row> {
    let rows =
        page.lines().filter_map(|line| line.strip_prefix("//! | ")).map(|row| row.split(" | ").collect::<Vec<_>>());
    let between = |cell: &str, from: &str, to: &str| -> Vec<String> {
        cell.split(from).skip(1).filter_map(|rest| rest.split(to).next()).map(str::to_owned).collect()
    };
    let read = |cells: Vec<&str>| {
        let floor = cells[0].trim().parse().ok()?;
        let first = cells.get(2).map(|cell| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect());
        Some((floor, between(cells.get(1)?, "[`", "`]"), first.unwrap_or_default()))
    };
    rows.filter_map(read).collect()
}

/// Complaints about a page. `defines`: whether a module's files define something of this name.
fn check(page: &str, floor: &dyn Fn(&str) -> Option<u8>, defines: &dyn Fn(&str, &str) -> bool) -> Vec<String> {
    let rows = rows(page);
    let modules: BTreeSet<String> = facts(page, &[]).mod_files.into_iter().map(|module| module.join("::")).collect();
    let mut complaints = Vec::new();
    for module in &modules {
        let on: Vec<u8> =
            rows.iter().flat_map(|(on, names, _)| names.iter().filter(|n| *n == module).map(|_| *on)).collect();
        if on.len() != 1 || floor(module) != Some(on[0]) {
            complaints.push(format!(
                "{module} is on the floors {on:?} of the map, and on {:?} of the imports",
                floor(module)
            ));
        }
    }
    let linked = rows.iter().flat_map(|(_, names, _)| names).filter(|name| !modules.contains(*name));
    complaints.extend(linked.map(|name| format!("{name} is on the map and no module")));
    for path in rows.iter().flat_map(|(.., first)| first) {
        let segments: Vec<&str> = path.split("::").collect();
        if !defines(segments[0], segments[segments.len() - 1]) {
            complaints.push(format!("there is no {path}"));
        }
    }
    complaints
}

#[test]
fn the_map_of_modules_is_true() {
    let files = rust_files("src/");
    let of = |file: &TextFile, module: &str| {
        file.path == format!("src/{module}.rs") || file.path.starts_with(&format!("src/{module}/"))
    };
    let defines = |module: &str, name: &str| {
        let words = ["fn", "struct", "enum", "trait"].map(|word| format!("{word} {name}"));
        files.iter().any(|file| of(file, module) && words.iter().any(|word| file.text.contains(word.as_str())))
    };
    let page = &files.iter().find(|file| file.path == "src/lib.rs").unwrap().text;
    assert!(rows(page).len() > 5, "{:?}", rows(page));
    assert_none("src/lib.rs", check(page, &floor, &defines));
}

#[test]
fn the_checker_of_the_map_complains_about_bad_examples() {
    let floor = |module: &str| ["a", "b"].iter().position(|name| *name == module).map(|at| at as u8);
    let complaints = |rows: &str, modules: &str| {
        let page = format!("//! | floor | what | first |\n//! |---|---|---|\n{rows}{modules}");
        check(&page, &floor, &|module, name| (module, name) == ("a", "f")).len()
    };
    let whole = "//! | 0 | [`a`]: it | `a::f` |\n//! | 1 | [`b`] | |\n";
    assert_eq!(complaints(whole, "pub mod a;\npub mod b;"), 0);
    assert_eq!(complaints(whole, "pub mod a;\npub mod b;\nmod c;"), 1, "a module that is not on it");
    assert_eq!(complaints(whole, "pub mod a;"), 1, "a module that is gone");
    assert_eq!(complaints("//! | 1 | [`a`], [`b`] | |\n", "mod a;\nmod b;"), 1, "another floor");
    assert_eq!(complaints("//! | 0 | [`a`], [`a`] | `a::g` |\n", "mod a;"), 2, "twice, and nothing to look at");
}
