//! What the documentation names exists, and what exists is documented.

use std::collections::BTreeSet;
use std::time::Duration;

use baton::http::ProblemKind;

use crate::stage::{Cue, Staged, leader_fixture};
use crate::telemetry::Watched;

const METRICS: &str = include_str!("../../docs/metrics.md");
const HTTP_API: &str = include_str!("../../docs/http-api.md");

/// The first column of a page's tables, without its quotes.
fn first_column(page: &str) -> BTreeSet<String> {
    let cells = page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    cells.map(str::to_owned).collect()
}

#[tokio::test]
async fn every_metric_is_documented_with_its_labels_and_every_documented_one_exists() {
    let role = Staged::new("scheduler", Duration::from_secs(3), Cue::Silence);
    let text = Watched::start(&[&role]).metrics().await;
    let mut exposed = BTreeSet::new();
    for family in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (family, kind) = family.split_once(' ').unwrap();
        let suffix = if kind == "histogram" { "_count" } else { "" };
        let sample = text.lines().find(|line| {
            line.strip_prefix(family)
                .and_then(|rest| rest.strip_prefix(suffix))
                .is_some_and(|rest| rest.starts_with(['{', ' ']))
        });
        let labels = sample.unwrap().split_once('{').map_or(String::new(), |(_, labels)| {
            let names = labels.split('}').next().unwrap().split(',').map(|label| label.split('=').next().unwrap());
            let mut names: Vec<_> = names.collect();
            names.sort_unstable();
            format!("{{{}}}", names.join(","))
        });
        exposed.insert(format!("{family}{labels}"));
    }
    assert_eq!(first_column(METRICS), exposed);
}

#[tokio::test]
async fn every_call_and_every_problem_is_documented() {
    let documented = first_column(HTTP_API);
    let (_role, server) = leader_fixture().await;
    for (path, allow) in &server.routes {
        assert!(documented.contains(&format!("{allow} {path}")), "{allow} {path} is not in {documented:?}");
    }
    for kind in ProblemKind::ALL {
        let row = format!("| `{}` | {} |", kind.uri(), kind.status().as_u16());
        assert!(HTTP_API.contains(&row), "{row}");
    }
}

#[test]
fn wherever_a_token_is_explained_its_limit_is_said() {
    for page in [METRICS, HTTP_API, include_str!("../../src/api/openapi.yaml")] {
        let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(page.contains("refuses smaller tokens"));
    }
}
