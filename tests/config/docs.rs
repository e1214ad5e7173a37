//! The documentation names every key, and its examples work.

use baton::config::{AbsentFiles, check_text, schema};
use baton::protocol::jobs::{Timetable, Wall};
use baton::schedule::Schedule;

use crate::support::environment;

fn page(name: &str) -> String {
    std::fs::read_to_string(format!("{}/docs/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// The paths of all keys of the schema, such as `roles[].appCheck.period`.
fn paths(root: &serde_json::Value, object: &serde_json::Value, prefix: &str, found: &mut Vec<String>) {
    for (key, property) in object["properties"].as_object().into_iter().flatten() {
        let follow = |schema: &serde_json::Value| {
            let pointer = schema["$ref"].as_str().and_then(|reference| reference.strip_prefix('#')).map(str::to_owned);
            pointer.and_then(|pointer| root.pointer(&pointer).cloned())
        };
        let path = format!("{prefix}{key}");
        if let Some(inner) = follow(property) {
            paths(root, &inner, &format!("{path}."), found);
        } else if let Some(inner) = follow(&property["items"]) {
            paths(root, &inner, &format!("{path}[]."), found);
        }
        found.push(path);
    }
}

#[test]
fn every_key_is_documented_under_its_path() {
    let (page, schema) = (page("configuration.md"), serde_json::from_str(&schema()).unwrap());
    let mut found = Vec::new();
    paths(&schema, &schema, "", &mut found);
    assert!(found.len() > 45 && found.contains(&"roles[].appCheck.httpGet.port".to_owned()), "{found:?}");
    let missing: Vec<_> = found.into_iter().filter(|path| !page.contains(&format!("`{path}`"))).collect();
    assert!(missing.is_empty(), "docs/configuration.md does not mention {missing:?}");
}

#[test]
fn every_example_passes_the_check_unless_it_says_that_it_is_a_fragment() {
    for (name, whole_min) in [("configuration.md", 2), ("jobs.md", 1)] {
        let page = page(name);
        let (mut whole, mut fragments) = (0, 0);
        for block in page.split("\n```yaml").skip(1) {
            let (info, rest) = block.split_once('\n').unwrap();
            let (text, _) = rest.split_once("\n```").expect("a code block is not closed");
            if info.trim() == "fragment" {
                fragments += 1;
                continue;
            }
            whole += 1;
            let variables = environment(&[("POD_NAME", "web-0"), ("REDIS_PASSWORD", "p")]);
            if let Err(error) = check_text(text, name, &variables.absent_files(AbsentFiles::Warn)) {
                panic!("{error}\nin the example:\n{text}");
            }
        }
        assert!(whole >= whole_min, "{name}: {whole} whole examples and {fragments} fragments");
    }
}

#[test]
fn the_table_of_a_change_of_clocks_is_what_schedules_do() {
    let page = page("jobs.md");
    let rows = page.lines().skip_while(|line| !line.starts_with("| schedule in Europe/Berlin")).skip(2);
    let mut checked = 0;
    for row in rows.take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let schedule = Schedule::parse(cells[1].trim_matches('`'), Some("Europe/Berlin")).unwrap();
        // From 00:00 UTC of either Sunday on.
        for (cell, midnight_s) in [(cells[2], 1_774_742_400_u64), (cells[3], 1_792_886_400)] {
            let mut last = Wall::from_millis(midnight_s * 1_000 - 1);
            for time in cell.split(", ").filter(|time| *time != "…") {
                let minutes = time[..2].parse::<u64>().unwrap() * 60 + time[3..5].parse::<u64>().unwrap();
                let expected = Wall::from_millis((midnight_s + minutes * 60) * 1_000);
                assert_eq!(schedule.next_after(last), Some(expected), "{row}: {time}");
                last = expected;
                checked += 1;
            }
        }
    }
    assert!(checked > 20, "{checked} moments");
}
