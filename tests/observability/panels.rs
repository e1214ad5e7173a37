//! The dashboards, read.

#![allow(dead_code, reason = "each test binary uses a part of this")]

use serde_json::Value;

use crate::files::{names_in, text};

/// A dashboard as Grafana imports it.
pub struct Dashboard {
    pub file: String,
    pub model: Value,
}

/// One query of a panel, of an annotation, or of a variable's list of values.
pub struct Query {
    pub place: String,
    pub expr: String,
}

/// All of them.
pub fn dashboards() -> Vec<Dashboard> {
    let read = |name: String| {
        let file = format!("dashboards/{name}.json");
        let model = serde_json::from_str(&text(&file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        Dashboard { file, model }
    };
    names_in("dashboards", ".json").into_iter().map(read).collect()
}

fn list<'a>(value: &'a Value, pointer: &str) -> Vec<&'a Value> {
    value.pointer(pointer).and_then(Value::as_array).map(|list| list.iter().collect()).unwrap_or_default()
}

impl Dashboard {
    /// Its panels, without the titles of rows.
    pub fn panels(&self) -> Vec<&Value> {
        self.all_panels().into_iter().filter(|panel| panel["type"] != "row").collect()
    }

    /// Its panels, with the titles of rows.
    pub fn all_panels(&self) -> Vec<&Value> {
        list(&self.model, "/panels")
    }

    /// Its variables.
    pub fn variables(&self) -> Vec<&Value> {
        list(&self.model, "/templating/list")
    }

    /// Its annotations that ask Prometheus.
    pub fn annotations(&self) -> Vec<&Value> {
        list(&self.model, "/annotations/list").into_iter().filter(|it| it["expr"].is_string()).collect()
    }

    /// Where a panel is, for complaints.
    pub fn place(&self, panel: &Value) -> String {
        format!("{}: {}", self.file, panel["title"].as_str().unwrap_or("a panel without a title"))
    }

    /// What its panels and annotations ask.
    pub fn queries(&self) -> Vec<Query> {
        let mut found = Vec::new();
        for panel in self.panels() {
            for target in list(panel, "/targets") {
                let expr = target["expr"].as_str().unwrap_or_default().to_owned();
                found.push(Query { place: self.place(panel), expr });
            }
        }
        for annotation in self.annotations() {
            let place = format!("{}: annotation {}", self.file, annotation["name"]);
            found.push(Query { place, expr: annotation["expr"].as_str().unwrap().to_owned() });
        }
        found
    }
}

/// An expression as Grafana asks it with everything selected.
pub fn substituted(expr: &str) -> String {
    let pairs =
        [("$namespace", ".*"), ("$job_name", ".+"), ("$job", ".+"), ("$role", ".+"), ("$__rate_interval", "1m")];
    pairs.iter().fold(expr.to_owned(), |text, (variable, value)| text.replace(variable, value))
}
