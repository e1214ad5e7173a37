//! Copies: a chart has what is in it, so alerts and dashboards are in `charts/baton/files` once more.

use std::fs;

use testkit::root;

use crate::stage::{is_up_to_date, names_in};

#[test]
fn the_alerts_and_dashboards_of_the_chart_are_the_projects() {
    let mut sources = vec![("dashboards/alerts.yaml".to_owned(), "charts/baton/files/alerts.yaml".to_owned())];
    let dashboards = names_in("dashboards").into_iter().filter(|name| name.ends_with(".json"));
    sources
        .extend(dashboards.map(|name| (format!("dashboards/{name}"), format!("charts/baton/files/dashboards/{name}"))));
    for (source, copy) in &sources {
        // Where there is no source, there is no copy either.
        match fs::read_to_string(root().join(source)) {
            Ok(text) => is_up_to_date(copy, &text),
            Err(_) => assert!(!root().join(copy).exists(), "{copy} has no source: {source}"),
        }
    }
    for name in names_in("charts/baton/files/dashboards") {
        assert!(root().join("dashboards").join(&name).exists(), "{name} is in the chart only");
    }
}
