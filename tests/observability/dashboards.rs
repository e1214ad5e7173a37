//! The dashboards, by the rules that Grafana's own dashboard linter has, and some more.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::panels::{Dashboard, dashboards, substituted};
use crate::promql::{Selector, words_of};
use crate::{assert_none, live, promtool};

/// Complaints of every dashboard.
fn of_each(what: &str, complain: impl Fn(&Dashboard, &mut Vec<String>)) {
    let (dashboards, mut complaints) = (dashboards(), Vec::new());
    assert_eq!(dashboards.len(), 3);
    dashboards.iter().for_each(|dashboard| complain(dashboard, &mut complaints));
    assert_none(what, &complaints);
}

#[test]
fn every_expression_is_promql() {
    let all = dashboards().into_iter().flat_map(|dashboard| dashboard.queries());
    let all: Vec<(String, String)> = all.map(|query| (query.place, substituted(&query.expr))).collect();
    assert!(all.len() > 50, "{}", all.len());
    let left = all.iter().filter(|(_, expr)| expr.replace("\"$1\"", "").contains('$'));
    assert_none("variables without a value", &left.map(|(place, expr)| format!("{place}: {expr}")).collect::<Vec<_>>());
    assert_none("promtool", &promtool::complaints_about(&all));
}

#[test]
fn every_metric_and_label_is_one_that_sidecars_have() {
    of_each("metrics and labels", |dashboard, complaints| {
        for query in dashboard.queries() {
            complaints.extend(live::complaints_about(&query.place, &substituted(&query.expr)));
        }
        for variable in dashboard.variables() {
            // label_values(metric, label)
            let Some(query) = variable["definition"].as_str() else { continue };
            let (inner, label) =
                query.strip_prefix("label_values(").and_then(|it| it.strip_suffix(')')?.rsplit_once(", ")).unwrap();
            let place = format!("{}: ${}", dashboard.file, variable["name"].as_str().unwrap());
            complaints.extend(live::complaints_about(&place, &format!("sum by ({label}) ({})", substituted(inner))));
        }
    });
}

#[test]
fn every_dashboard_is_found_again_and_cannot_be_changed_in_place() {
    let mut uids = BTreeSet::new();
    of_each("dashboards", |dashboard, complaints| {
        let model = &dashboard.model;
        let name = dashboard.file.rsplit('/').next().unwrap().trim_end_matches(".json");
        for (key, wanted) in [("uid", format!("baton-{name}").into()), ("editable", false.into()), ("id", Value::Null)]
        {
            if model[key] != wanted {
                complaints.push(format!("{}: {key} is {}", dashboard.file, model[key]));
            }
        }
        if model["tags"] != serde_json::json!(["baton"]) || !model["title"].as_str().unwrap().starts_with("Baton / ") {
            complaints.push(format!("{}: its tags or its title", dashboard.file));
        }
    });
    for dashboard in dashboards() {
        assert!(uids.insert(dashboard.model["uid"].to_string()));
    }
}

#[test]
fn every_variable_asks_the_chosen_data_source_anew_and_may_be_all() {
    of_each("variables", |dashboard, complaints| {
        let variables = dashboard.variables();
        let names: Vec<&str> = variables.iter().map(|variable| variable["name"].as_str().unwrap()).collect();
        if names[..3] != ["datasource", "namespace", "job"] || variables[0]["query"] != "prometheus" {
            complaints.push(format!("{}: {names:?}", dashboard.file));
        }
        for variable in &variables[1..] {
            let name = &variable["name"];
            // Outside Kubernetes nothing has a namespace, and `.+` would leave nothing.
            let all = if name == "namespace" { ".*" } else { ".+" };
            let is_so = variable["allValue"] == all
                && variable["includeAll"] == true
                && variable["multi"] == true
                && variable["refresh"] == 2
                && variable["datasource"]["uid"] == "${datasource}"
                && variable["label"].as_str().is_some_and(|label| !label.is_empty());
            if !is_so {
                complaints.push(format!("{}: ${name}", dashboard.file));
            }
        }
        let asked: String = dashboard.queries().into_iter().map(|query| query.expr).collect();
        let unused = names[1..].iter().filter(|name| !asked.contains(&format!("=~\"${name}\"")));
        complaints.extend(unused.map(|name| format!("{}: nothing asks for ${name}", dashboard.file)));
    });
}

#[test]
fn every_panel_has_a_title_a_description_a_unit_and_a_place() {
    of_each("panels", |dashboard, complaints| {
        let (mut ids, mut titles, mut taken) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for panel in dashboard.all_panels() {
            let place = dashboard.place(panel);
            if !ids.insert(panel["id"].as_u64().unwrap()) || !titles.insert(panel["title"].to_string()) {
                complaints.push(format!("{place}: its number or its title is another's"));
            }
            let [x, y, w, h] = ["x", "y", "w", "h"].map(|key| panel["gridPos"][key].as_u64().unwrap());
            if x + w > 24 || w == 0 || h == 0 {
                complaints.push(format!("{place}: it is out of the grid"));
            }
            let cells = (x..x + w).flat_map(|column| (y..y + h).map(move |line| (column, line)));
            if cells.filter(|cell| !taken.insert(*cell)).count() > 0 {
                complaints.push(format!("{place}: it covers another"));
            }
        }
        for panel in dashboard.panels() {
            let place = dashboard.place(panel);
            if panel["description"].as_str().is_none_or(|text| text.len() < 10 || !text.ends_with('.')) {
                complaints.push(format!("{place}: no description"));
            }
            if panel["fieldConfig"]["defaults"]["unit"].as_str().is_none_or(str::is_empty) {
                complaints.push(format!("{place}: no unit"));
            }
            let targets = panel["targets"].as_array().unwrap();
            let all = targets.iter().chain([panel]);
            if targets.is_empty() || all.into_iter().any(|it| it["datasource"]["uid"] != "${datasource}") {
                complaints.push(format!("{place}: no query, or not to the chosen data source"));
            }
        }
    });
}

/// Whether a selector stands in a query that joins it, and so need not select.
fn is_joined(selector: &Selector) -> bool {
    selector.metric == "baton_build_info" && selector.matchers.is_empty()
}

#[test]
fn every_query_selects_by_the_variables_and_counts_over_an_interval_that_fits() {
    of_each("queries", |dashboard, complaints| {
        let filter = match dashboard.file.as_str() {
            "dashboards/overview.json" => "role",
            "dashboards/jobs.json" => "job_name",
            _ => "job",
        };
        for query in dashboard.queries() {
            let mut complain = |what: &str| complaints.push(format!("{}: {what}: {}", query.place, query.expr));
            let words = words_of(&query.expr);
            for selector in words.selectors.iter().filter(|selector| !is_joined(selector)) {
                let has = |name: &str| selector.matchers.contains(&format!("{name}=~\"${name}\""));
                let of_filter = live::families()[&selector.metric].contains(filter);
                if !has("namespace") || !has("job") || of_filter && !has(filter) {
                    complain("it does not select by the variables");
                }
                let is_counter =
                    ["_total", "_count", "_bucket", "_sum"].iter().any(|end| selector.metric.ends_with(end));
                let counts = matches!(selector.function.as_deref(), Some("rate" | "increase"));
                if is_counter != counts {
                    complain("a counter is asked for as it stands, or what is none is counted");
                }
            }
            let mut intervals = query.expr.split('[').skip(1).map(|rest| rest.split([']', ':']).next().unwrap());
            if !intervals.all(|interval| matches!(interval, "$__rate_interval" | "24h")) {
                complain("an interval of its own");
            }
        }
    });
}

#[test]
fn every_legend_and_table_names_labels_that_the_query_gives() {
    of_each("legends", |dashboard, complaints| {
        for panel in dashboard.panels() {
            let place = dashboard.place(panel);
            for target in panel["targets"].as_array().unwrap() {
                let expr = target["expr"].as_str().unwrap();
                let given = words_of(expr).grouping;
                let is_given =
                    |label: &str| given.contains(label) || label == "replica" && expr.contains("label_replace");
                let legend = target["legendFormat"].as_str().unwrap();
                let labels = legend.split("{{").skip(1).map(|rest| rest.split("}}").next().unwrap());
                complaints.extend(labels.filter(|label| !is_given(label)).map(|label| format!("{place}: {label}")));
                if legend.is_empty() != (panel["type"] == "table") {
                    complaints.push(format!("{place}: a legend, and none in a table"));
                }
                let columns = panel["transformations"][1]["options"]["renameByName"].as_object();
                let columns = columns.into_iter().flat_map(|names| names.keys());
                let strange = columns.filter(|name| !name.starts_with("Value") && !is_given(name));
                complaints.extend(strange.map(|name| format!("{place}: there is no column {name}")));
            }
        }
    });
}

/// Who has never seen Baton finds the answers in the first row, above everything else.
#[test]
fn the_first_row_of_the_overview_answers_the_five_questions() {
    let all = dashboards();
    let overview = all.iter().find(|dashboard| dashboard.file.ends_with("overview.json")).unwrap();
    let panels = overview.all_panels();
    let y = |panel: &Value| panel["gridPos"]["y"].as_u64().unwrap();
    let rows: Vec<u64> = panels.iter().filter(|panel| panel["type"] == "row").map(|row| y(row)).collect();
    let first: Vec<&Value> = panels.into_iter().filter(|panel| (rows[0] + 1..rows[1]).contains(&y(panel))).collect();
    for (question, metric) in [
        ("who leads", "baton_leader"),
        ("since when", "baton_leader_since_timestamp_seconds"),
        ("how often it changed", "baton_campaigns_total"),
        ("whether a lease was lost, and why", "baton_lost_leases_total"),
        ("whether the store is the reason", "baton_store_up"),
        ("what is left of the lease", "baton_lease_remaining_seconds"),
    ] {
        let answers = |panel: &&Value| {
            let targets = panel["targets"].as_array().into_iter().flatten();
            targets
                .flat_map(|target| words_of(target["expr"].as_str().unwrap()).selectors)
                .any(|it| it.metric == metric)
        };
        assert!(first.iter().any(answers), "{question}: no panel of the first row asks for {metric}");
    }
    // 31 lines of 30 pixels are a usual screen.
    assert!(rows[1] - rows[0] <= 24, "the first row is higher than a screen");
}
