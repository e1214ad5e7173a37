//! docs/scale.md says first what to do, and hides no figure that the model does not explain.

use crate::assert_none;
use crate::tree::files;

const PAGE: &str = "docs/scale.md";
const SECTIONS: [&str; 6] = [
    "## How many pods, and what to do",
    "## Which limit comes first",
    "## How roles spread over a Cluster",
    "## And a Kubernetes API server",
    "## The model",
    "## Held against what was measured",
];
const SITES: [&str; 2] = ["one Redis", "Cluster of three"];
const SIZES: [&str; 3] = ["100", "1,000", "5,000"];
/// By how much a figure may be off the model without being marked, in percent.
const OFF_MAX: i64 = 20;

/// The cells of each line of a section's table.
fn lines<'a>(page: &'a str, section: &str) -> Vec<Vec<&'a str>> {
    let rest = page.split_once(section).map_or("", |(_, rest)| rest.split("\n## ").next().unwrap_or_default());
    let lines = rest.lines().filter(|line| line.starts_with("| ")).skip(1);
    lines.map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect()).collect()
}

/// By how many percent a figure is off, and whether that is marked; `1, 2 (+3 %)` or `1, 9 (**+800 %**)`.
fn off(cell: &str) -> Option<(i64, bool)> {
    let (_, inside) = cell.strip_suffix(')')?.rsplit_once('(')?;
    let plain = inside.trim_matches('*');
    Some((plain.strip_suffix(" %")?.parse().ok()?, plain != inside))
}

fn check(page: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    let places: Vec<Option<usize>> = SECTIONS.iter().map(|section| page.find(&format!("\n{section}\n"))).collect();
    if places.iter().any(Option::is_none) || !places.is_sorted() {
        complaints.push(format!("not the sections {SECTIONS:?} in this order"));
    }
    if !lines(page, SECTIONS[0]).iter().any(|line| line[0] == "1,000,000") {
        complaints.push("it does not say what to do for a million pods".to_owned());
    }
    let held = lines(page, SECTIONS[5]);
    for (site, size) in SITES.iter().flat_map(|site| SIZES.map(|size| (*site, size))) {
        let Some(line) = held.iter().find(|line| line[..2] == [site, size]) else {
            complaints.push(format!("{site}, {size} sidecars: not measured"));
            continue;
        };
        let figures: Vec<_> = line.iter().filter_map(|cell| off(cell)).collect();
        if figures.len() < 5 {
            complaints.push(format!("{site}, {size} sidecars: five figures, each with what it is off"));
        }
        if figures.iter().any(|(off, is_marked)| (off.abs() > OFF_MAX) != *is_marked) {
            complaints
                .push(format!("{site}, {size} sidecars: what is off by more than {OFF_MAX} % is marked, no other"));
        }
    }
    complaints
}

#[test]
fn the_page_of_sizes_says_what_to_do_and_what_its_model_is_off() {
    let page = files().into_iter().find(|file| file.path == PAGE).unwrap().text;
    assert_none(PAGE, check(&page));
}

#[test]
fn the_checker_of_the_page_of_sizes_complains_about_bad_examples() {
    let page = |pods: &str, last: &str| {
        let mut text = "# Sizes\n".to_owned();
        for section in SECTIONS {
            text += &format!("\n{section}\n\n| a | b |\n|---|---|\n");
            if section == SECTIONS[0] {
                text += &format!("| {pods} | x |\n");
            }
        }
        for (site, size) in SITES.iter().flat_map(|site| SIZES.map(|size| (*site, size))) {
            let fine = "| 1, 1 (+0 %) | 1, 1 (-3 %) | 1, 1 (+20 %) | 1, 1 (-20 %)";
            let last = if size == "5,000" { last } else { "1, 1 (+1 %)" };
            text += &format!("| {site} | {size} {fine} | {last} | 7 |\n");
        }
        check(&text).len()
    };
    assert_eq!(page("1,000,000", "1, 9 (**+800 %**)"), 0);
    assert_eq!(page("100", "1, 9 (**+800 %**)"), 1, "nothing for a million");
    assert_eq!(page("1,000,000", "1, 9 (+800 %)"), 2, "not marked");
    assert_eq!(page("1,000,000", "1, 1 (**+2 %**)"), 2, "marked for nothing");
    assert_eq!(page("1,000,000", "1, 1"), 2, "a figure without what it is off");
    assert_eq!(check("# Sizes\n").len(), 2 + 6, "nothing at all");
}
