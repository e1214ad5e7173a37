//! The rule file, read.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::text;

/// Where it is.
pub const FILE: &str = "dashboards/alerts.yaml";

/// One alerting rule.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    pub alert: String,
    pub expr: String,
    #[serde(rename = "for")]
    pub pending: Option<String>,
    pub keep_firing_for: Option<String>,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
}

/// All of them.
pub fn rules() -> Vec<Rule> {
    let mut file: Value = serde_yaml::from_str(&text(FILE)).unwrap();
    let groups = file["groups"].as_array_mut().unwrap();
    let rules = groups.iter_mut().map(|group| serde_json::from_value::<Vec<Rule>>(group["rules"].take()).unwrap());
    rules.flatten().collect()
}

/// Their names, each once.
pub fn names() -> Vec<String> {
    let mut names: Vec<String> = rules().into_iter().map(|rule| rule.alert).collect();
    names.sort();
    names.dedup();
    names
}
