//! `values.yaml` as people read it: its comments, its defaults, and the table of them in the README.

use std::fs;

use serde_json::Value;
use testkit::root;

use crate::schema::{resolve, schema};
use crate::stage::{at, is_up_to_date};

const CHARTS: [&str; 3] = ["baton", "baton-demo", "baton-injector"];

/// A value with the comment above it.
pub struct Documented {
    pub path: String,
    pub text: String,
    pub default: Value,
}

fn file(chart: &str) -> (String, Value) {
    let text = fs::read_to_string(root().join("charts").join(chart).join("values.yaml")).unwrap();
    let values = serde_yaml::from_str(&text).unwrap();
    (text, values)
}

/// The values whose comment begins with `# --`, in their order.
pub fn documented(chart: &str) -> Vec<Documented> {
    let (text, values) = file(chart);
    let mut found = Vec::new();
    let mut parents: Vec<(usize, &str)> = Vec::new();
    let mut comment = None;
    for line in text.lines() {
        let (indent, line) = (line.len() - line.trim_start().len(), line.trim_start());
        if let Some(text) = line.strip_prefix("# -- ") {
            comment = Some(text.to_owned());
        } else if let Some((key, _)) = line.split_once(':').filter(|_| !line.starts_with(['#', '-'])) {
            parents.retain(|(depth, _)| *depth < indent);
            parents.push((indent, key));
            let path = parents.iter().map(|(_, key)| *key).collect::<Vec<_>>().join(".");
            if let Some(text) = comment.take() {
                let default = at(&values, &path).clone();
                found.push(Documented { path, text, default });
            }
        }
    }
    assert!(comment.is_none(), "a comment of {chart} is above nothing");
    found
}

/// The paths of values that hold no further ones.
fn leaves(values: &Value, path: &str, found: &mut Vec<String>) {
    match values {
        Value::Object(inner) if !inner.is_empty() => {
            for (key, value) in inner {
                let below = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                leaves(value, &below, found);
            }
        }
        _ => found.push(path.to_owned()),
    }
}

/// A cell of a table in Markdown.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn kind(chart: &str, path: &str) -> String {
    let (schema, path) = match path.strip_prefix("baton.") {
        Some(below) if chart != "baton" => (schema("baton"), below),
        _ => (schema(chart), path),
    };
    let found = resolve(&schema, path).unwrap_or_else(|| panic!("{path} of {chart} has no schema"));
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    match (&found["type"], &found["enum"]) {
        (Value::String(kind), _) => kind.clone(),
        (Value::Array(kinds), _) => kinds.iter().map(word).collect::<Vec<_>>().join(" or "),
        (_, Value::Array(_)) => "string".to_owned(),
        _ => panic!("the schema of {path} says no type"),
    }
}

fn table(chart: &str) -> String {
    let mut table = "| key | type | default | what it is |\n|---|---|---|---|\n".to_owned();
    for value in documented(chart) {
        let (kind, default) = (kind(chart, &value.path), serde_json::to_string(&value.default).unwrap());
        table += &format!("| `{}` | {} | `{}` | {} |\n", value.path, cell(&kind), cell(&default), cell(&value.text));
    }
    table
}

#[test]
fn every_value_is_documented_and_has_a_schema() {
    for chart in CHARTS {
        let documented = documented(chart);
        let mut all = Vec::new();
        leaves(&file(chart).1, "", &mut all);
        assert!(all.len() > 3, "{all:?}");
        for leaf in all {
            let is_told = |value: &Documented| leaf == value.path || leaf.starts_with(&format!("{}.", value.path));
            assert!(documented.iter().any(is_told), "{leaf} of {chart} has no comment that begins with `# --`");
            kind(
                chart,
                &leaf.replace(".requests.cpu", "").replace(".requests.memory", "").replace(".limits.memory", ""),
            );
        }
    }
}

#[test]
fn the_tables_of_the_readmes_are_those_of_the_values() {
    const BEGIN: &str = "<!-- The table is generated from values.yaml: `make charts` -->\n";
    for chart in CHARTS {
        let path = format!("charts/{chart}/README.md");
        let text = fs::read_to_string(root().join(&path)).unwrap();
        let (before, rest) = text.split_once(BEGIN).expect("the README has a place for the table");
        let after = rest.trim_start_matches('\n').lines().skip_while(|line| line.starts_with('|'));
        let after: String = after.map(|line| format!("{line}\n")).collect();
        is_up_to_date(&path, &format!("{before}{BEGIN}\n{}{after}", table(chart)));
    }
}
