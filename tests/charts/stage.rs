//! What the tests here have in common: copies of the charts, values by path, and generated files.

use std::fs;

use serde_json::{Map, Value};
use testkit::helm::Charts;
use testkit::root;

/// Copies of the charts with short alerts and a short dashboard, so that golden files need not hold the real ones.
pub fn charts() -> Charts {
    let rule = "{ alert: BatonA, expr: vector(1), annotations: {\n        runbook_url: docs/runbooks/BatonA.md } }";
    let alerts = &format!("groups:\n  - name: baton\n    rules:\n      - {rule}\n");
    Charts::copy_with(&[("files/alerts.yaml", alerts), ("files/dashboards/overview.json", "{\"title\": \"Baton\"}\n")])
}

/// `values` with this value at a path such as `image.tag`.
pub fn with(mut values: Value, path: &str, value: Value) -> Value {
    let mut place = &mut values;
    for key in path.split('.') {
        if !place.is_object() {
            *place = Value::Object(Map::new());
        }
        place = &mut place[key];
    }
    *place = value;
    values
}

/// The value at a path.
pub fn at<'a>(values: &'a Value, path: &str) -> &'a Value {
    path.split('.').fold(values, |value, key| &value[key])
}

/// One mapping over another, as Helm does it: mappings are merged, anything else is replaced.
pub fn over(base: &Value, patch: &Value) -> Value {
    match (base, patch) {
        (Value::Object(base), Value::Object(patch)) => {
            let mut merged = base.clone();
            for (key, value) in patch {
                let value = base.get(key).map_or_else(|| value.clone(), |below| over(below, value));
                merged.insert(key.clone(), value);
            }
            Value::Object(merged)
        }
        (_, patch) => patch.clone(),
    }
}

/// A file of the repository is what it should be; `BATON_CHARTS_WRITE` makes it so.
pub fn is_up_to_date(path: &str, wanted: &str) {
    let file = root().join(path);
    let found = fs::read_to_string(&file).unwrap_or_default();
    if std::env::var_os("BATON_CHARTS_WRITE").is_some() {
        if found != wanted {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, wanted).unwrap();
            println!("written: {path}");
        }
        return;
    }
    let mut lines = (1..).zip(found.lines().zip(wanted.lines()));
    let differs = lines.find(|(_, (found, wanted))| found != wanted);
    let where_it_differs = differs.map_or_else(
        || format!("{} lines instead of {}", found.lines().count(), wanted.lines().count()),
        |(number, (found, wanted))| format!("line {number} is\n  {found}\ninstead of\n  {wanted}"),
    );
    assert!(
        found == wanted,
        "{path} is not up to date (`make charts` writes it, then look at the change): {where_it_differs}"
    );
}

/// The folder that the repository's files of one kind are in, with their names, sorted.
pub fn names_in(path: &str) -> Vec<String> {
    let entries = fs::read_dir(root().join(path)).into_iter().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
