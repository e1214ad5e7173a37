//! The runbooks: each alert has one, each is an alert's, and what they let people type works.

use testkit::redis::RedisServer;

use crate::rules::{names, rules};
use crate::{assert_none, commands, live, names_in, promtool, text};

const PAGES: &str = "docs/runbooks";

/// The lines of the fenced blocks of one language.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let opening = format!("```{language}\n");
    let blocks = page.split(&opening).skip(1).map(|rest| rest.split("```").next().unwrap());
    blocks.flat_map(str::lines).map(str::to_owned).collect()
}

#[test]
fn every_alert_has_its_page_and_every_page_its_alert() {
    assert_eq!(names_in(PAGES, ".md"), names());
    let index = text("docs/monitoring.md");
    for rule in rules() {
        assert_eq!(rule.annotations["runbook_url"], format!("{PAGES}/{}.md", rule.alert));
        let link = format!("[{0}](runbooks/{0}.md)", rule.alert);
        let row = index.lines().find(|line| line.contains(&link)).unwrap_or_else(|| panic!("no {link}"));
        assert!(row.contains(&rule.labels["severity"]), "docs/monitoring.md: {row}");
    }
}

#[test]
fn every_page_says_what_it_means_what_it_costs_how_to_look_and_what_to_do() {
    for name in names() {
        let page = text(&format!("{PAGES}/{name}.md"));
        let headings: Vec<&str> = page.lines().filter(|line| line.starts_with('#')).collect();
        let wanted = [&format!("# {name}"), "## Meaning", "## Impact", "## Diagnosis", "## Mitigation"];
        assert_eq!(headings, wanted, "{name}");
        for part in page.split("\n## ").skip(1) {
            assert!(part.len() > 40, "{name}: {part}");
        }
        let (commands, queries) = (blocks(&page, "sh"), blocks(&page, "promql"));
        assert!(!commands.is_empty() && !queries.is_empty(), "{name}: nothing to type");
        let languages = page.lines().filter(|line| line.starts_with("```") && line.len() > 3);
        assert!(languages.clone().all(|line| matches!(line, "```sh" | "```promql")), "{name}");
    }
}

#[test]
fn every_query_is_promql_about_metrics_and_labels_that_sidecars_have() {
    let of = |name: String| {
        let page = text(&format!("{PAGES}/{name}.md"));
        blocks(&page, "promql").into_iter().map(move |query| (name.clone(), query))
    };
    let queries: Vec<(String, String)> = names().into_iter().flat_map(of).collect();
    assert!(queries.len() > 30);
    assert_none("promtool", &promtool::complaints_about(&queries));
    let complaints: Vec<String> =
        queries.iter().flat_map(|(place, query)| live::complaints_about(place, query)).collect();
    assert_none("metrics and labels", &complaints);
}

#[test]
fn prometheus_takes_the_documented_configuration() {
    let folder = tempfile::TempDir::new().unwrap();
    let documented = blocks(&text("docs/monitoring.md"), "yaml prometheus").join("\n");
    let mut config: serde_json::Value = serde_yaml::from_str(&documented).unwrap();
    // Debian's Prometheus is built without Kubernetes, so only how the pods are found is left out.
    let job = config["scrape_configs"][0].as_object_mut().unwrap();
    assert_eq!(job.remove("kubernetes_sd_configs").unwrap()[0]["role"], "pod");
    job.insert("static_configs".to_owned(), serde_json::json!([{"targets": ["10.0.0.10:4041"]}]));
    std::fs::write(folder.path().join("prometheus.yml"), config.to_string()).unwrap();
    std::fs::copy(crate::path(crate::rules::FILE), folder.path().join("alerts.yaml")).unwrap();
    let (fine, said) = promtool::promtool(folder.path(), &["check", "config", "prometheus.yml"]);
    assert!(fine && said.contains("1 rule files found"), "{said}");
}

#[test]
fn every_command_works_or_is_at_least_one() {
    let redis = RedisServer::start();
    let mut lines: Vec<(String, String)> = Vec::new();
    for name in names() {
        let page = text(&format!("{PAGES}/{name}.md"));
        let new = blocks(&page, "sh").into_iter().map(|line| (line, name.clone()));
        lines.extend(new);
    }
    assert!(lines.len() > 30);
    // Many pages have the same ones.
    lines.sort();
    lines.dedup_by(|a, b| a.0 == b.0);
    let check =
        |(line, name): &(String, String)| Some(format!("{name}: {line}: {}", commands::check(line, &redis).err()?));
    assert_none("commands", &lines.iter().filter_map(check).collect::<Vec<_>>());
}
