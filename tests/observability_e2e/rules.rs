//! The rules of the project, as they are, or so that time passes faster in them.

use crate::files::text;

/// The rule file.
pub fn rules() -> String {
    text("dashboards/alerts.yaml")
}

/// The same with every duration divided: `for`, `keep_firing_for`, and how far queries look back.
pub fn divided(by: u64) -> String {
    let rules = rules();
    let mut out = String::new();
    for line in rules.lines() {
        let key = ["for: ", "keep_firing_for: "].iter().find(|key| line.trim_start().starts_with(**key));
        if let Some(key) = key {
            let (before, value) = line.split_once(key).expect("it begins with it");
            out += &format!("{before}{key}{}\n", divide(value, by));
            continue;
        }
        let mut rest = line;
        while let Some(at) = ["[", "offset "].iter().filter_map(|start| Some(rest.find(start)? + start.len())).min() {
            let end = rest[at..].find([']', ')', ' ']).map_or(rest.len(), |end| at + end);
            out += &rest[..at];
            // Comments have brackets, too.
            out +=
                &if line.trim_start().starts_with('#') { rest[at..end].to_owned() } else { divide(&rest[at..end], by) };
            rest = &rest[end..];
        }
        out += rest;
        out.push('\n');
    }
    out
}

fn divide(duration: &str, by: u64) -> String {
    let (number, unit) = duration.split_at(duration.len() - 1);
    let unit_ms = match unit {
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => panic!("{duration} is no duration"),
    };
    let number: u64 = number.parse().unwrap_or_else(|_| panic!("{duration} is no duration"));
    format!("{}ms", number * unit_ms / by)
}

#[test]
fn every_duration_is_divided_and_nothing_else_is_changed() {
    let (whole, fast) = (rules(), divided(6));
    assert_eq!(whole.lines().count(), fast.lines().count());
    let durations = ["[1m]", "[1h]", "[6h]", "offset 10m", "for: 1m", "keep_firing_for: 20m"];
    for (was, is) in durations.iter().zip(["[10000ms]", "[600000ms]", "[3600000ms]", "offset 100000ms", "for: 10000ms"])
    {
        assert!(whole.contains(was) && !fast.contains(&format!("{was}\n")) && fast.contains(is), "{was} to {is}");
    }
    let differs = |(was, is): &(&str, &str)| was != is;
    let changed: Vec<(&str, &str)> = whole.lines().zip(fast.lines()).filter(differs).collect();
    assert!(
        changed.len() > 20 && changed.iter().all(|(was, _)| was.contains("for: ") || was.contains('[')),
        "{changed:?}"
    );
}
