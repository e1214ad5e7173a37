//! The alerts: their rule file, and its unit tests.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;
use tempfile::TempDir;

use crate::promql::words_of;
use crate::promtool::promtool;
use crate::rules::{FILE, Rule, names, rules};
use crate::{assert_none, live, names_in, path, text};

const CASES: &str = "tests/observability/rules";

/// What is promised, by name.
const PROMISED: [&str; 20] = [
    "BatonConfigReloadFailed",
    "BatonCredentialNotRenewed",
    "BatonFencingTokenRegressed",
    "BatonJobFailing",
    "BatonJobLedgerAhead",
    "BatonJobMissed",
    "BatonJobOverdue",
    "BatonJobRunEndless",
    "BatonJobsStoreUnreachable",
    "BatonLeaderFlapping",
    "BatonLeaseLost",
    "BatonLocksStoreUnreachable",
    "BatonMultipleLeaders",
    "BatonNoLeader",
    "BatonQuorumDegraded",
    "BatonRenewalErrors",
    "BatonRenewalMarginLow",
    "BatonSidecarDown",
    "BatonStoreGuarded",
    "BatonStoreUnreachable",
];

#[test]
fn the_promised_alerts_are_there_and_promtool_takes_them() {
    assert_eq!(names(), PROMISED);
    let (fine, said) = promtool(&path("."), &["check", "rules", "--lint-fatal", FILE]);
    assert!(fine && said.contains(&format!("{} rules found", rules().len())), "{said}");
}

#[test]
fn every_alert_tells_its_severity_what_it_is_and_where_to_read_on() {
    let mut complaints = Vec::new();
    for rule in rules() {
        let Rule { alert, expr, labels, annotations, .. } = &rule;
        if !matches!(labels.get("severity").map(String::as_str), Some("critical" | "warning")) || labels.len() != 1 {
            complaints.push(format!("{alert}: {labels:?}"));
        }
        if rule.pending.is_none() && rule.keep_firing_for.is_none() {
            complaints.push(format!("{alert}: it comes and goes with every evaluation"));
        }
        let keys: Vec<&str> = annotations.keys().map(String::as_str).collect();
        if keys != ["description", "runbook_url", "summary"] {
            complaints.push(format!("{alert}: {keys:?}"));
        }
        complaints.extend(live::complaints_about(alert, expr));
        // A label that the expression takes away is empty in the text.
        let kept: BTreeSet<String> = words_of(expr).grouping;
        let template = format!("{annotations:?}");
        for label in template.split("$labels.").skip(1) {
            let label = label.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap();
            // Without an aggregation all labels stay.
            let stays = kept.contains(label) || !expr.contains(" by (") || expr.trim_start().starts_with("up ");
            if !stays {
                complaints.push(format!("{alert}: its text has {label}, its expression has not"));
            }
        }
    }
    assert_none("alerts", &complaints);
}

#[test]
fn every_alert_has_cases_in_which_it_fires_and_cases_in_which_it_does_not() {
    assert_eq!(names_in(CASES, ".yaml"), PROMISED);
    for name in PROMISED {
        let file: Value = serde_yaml::from_str(&text(&format!("{CASES}/{name}.yaml"))).unwrap();
        let tests = file["tests"].as_array().unwrap().iter();
        let tests = tests.flat_map(|test| test["promql_expr_test"].as_array().into_iter().flatten());
        let (silent, firing): (Vec<&Value>, _) =
            tests.partition(|test| test["exp_samples"].as_array().unwrap().is_empty());
        assert!(silent.len() >= 2, "{name} has {} moments of silence", silent.len());
        let tells = |test: &&&Value| test["exp_samples"].to_string().contains(&format!("alertname=\\\"{name}\\\""));
        assert!(firing.iter().filter(tells).count() >= 1, "{name} never fires");
    }
}

/// The cases of these alerts, with these rules: what promtool says of each file that fails.
fn failures(alerts: &[&str], rules: &str) -> Vec<String> {
    let folder = TempDir::new().unwrap();
    let cases = folder.path().join(CASES);
    fs::create_dir_all(&cases).unwrap();
    fs::create_dir(folder.path().join("dashboards")).unwrap();
    fs::write(folder.path().join(FILE), rules).unwrap();
    let files: Vec<String> = alerts.iter().map(|name| format!("{name}.yaml")).collect();
    for file in &files {
        fs::copy(path(CASES).join(file), cases.join(file)).unwrap();
    }
    let words: Vec<&str> = ["test", "rules"].into_iter().chain(files.iter().map(String::as_str)).collect();
    let (_, said) = promtool(&cases, &words);
    let parts: Vec<&str> = said.split("Unit Testing:").skip(1).collect();
    assert_eq!(parts.len(), files.len(), "{said}");
    parts.into_iter().filter(|part| !part.contains("SUCCESS")).map(str::to_owned).collect()
}

#[test]
fn the_alerts_fire_when_they_should_and_only_then() {
    assert_none("promtool test rules", &failures(&PROMISED, &text(FILE)));
}

/// Whether an alert's cases fail when the rules are this one only, spoilt.
fn is_found(alert: &str, spoil: &dyn Fn(&mut Value)) -> bool {
    let mut file: Value = serde_yaml::from_str(&text(FILE)).unwrap();
    let rules = file["groups"][0]["rules"].as_array_mut().unwrap();
    rules.retain(|rule| rule["alert"] == alert);
    let good = rules.clone();
    rules.iter_mut().for_each(spoil);
    assert_ne!(*rules, good, "{alert} is not spoilt");
    !failures(&[alert], &file.to_string()).is_empty()
}

/// A test that cannot fail proves nothing: what is spoilt in one of these ways is found by the alert's own cases.
#[test]
fn the_cases_find_what_is_spoilt() {
    let mut complaints = Vec::new();
    for alert in PROMISED {
        if !is_found(alert, &|rule| rule["expr"] = "vector(1) > 2".into()) {
            complaints.push(format!("{alert} never fires"));
        }
        let hasty = |rule: &mut Value| {
            let rule = rule.as_object_mut().unwrap();
            rule.remove("for");
            rule.remove("keep_firing_for");
        };
        if !is_found(alert, &hasty) {
            complaints.push(format!("{alert} is told at once, or ends at once"));
        }
    }
    // Other apps, namespaces and roles; samples of who is gone; the first event; restarts.
    for (alert, from, to) in [
        ("BatonNoLeader", "namespace, job, role", "namespace, role"),
        ("BatonNoLeader", "namespace, job, role", "job, role"),
        ("BatonNoLeader", "namespace, job, role", "namespace, job"),
        ("BatonNoLeader", "max_over_time(baton_leader[1m])", "baton_leader"),
        ("BatonSidecarDown", "[2m]", "[1h]"),
        ("BatonSidecarDown", "and on (cluster, namespace, job)", "or on (cluster, namespace, job)"),
        ("BatonMultipleLeaders", "namespace, job, role", "job, role"),
        ("BatonMultipleLeaders", "namespace, job, role", "namespace, job"),
        ("BatonMultipleLeaders", "min_over_time(baton_leader[1m])", "baton_leader"),
        ("BatonMultipleLeaders", "and on (cluster, namespace, job, instance) up == 1", ""),
        ("BatonLeaseLost", "[10m]", "[1m]"),
        ("BatonLeaseLost", "increase(", "delta("),
        ("BatonLeaseLost", "reason) (", "role) ("),
        ("BatonFencingTokenRegressed", "namespace, job, role", "job, role"),
        ("BatonFencingTokenRegressed", "and on (cluster, namespace, job, instance) up == 1", ""),
        ("BatonLeaderFlapping", "max by", "sum by"),
        ("BatonRenewalErrors", "[3m]", "[15m]"),
        ("BatonRenewalMarginLow", "quantile_over_time(0.1, ", "min_over_time("),
        ("BatonRenewalMarginLow", "[10m]) > 0", "[10m]) >= 0"),
        ("BatonStoreUnreachable", "and on (cluster, namespace, job, instance) up == 1", ""),
        ("BatonLocksStoreUnreachable", "and on (cluster, namespace, job, instance) up == 1", ""),
        ("BatonJobsStoreUnreachable", "and on (cluster, namespace, job, instance) up == 1", ""),
        ("BatonQuorumDegraded", "and on (cluster, namespace, job, instance) up == 1", ""),
        ("BatonQuorumDegraded", "min by (cluster, namespace, job, member)", "max by (cluster, namespace, job, member)"),
        ("BatonQuorumDegraded", "- 1) / 2)", "+ 1) / 2)"),
        (
            "BatonStoreGuarded",
            "max_over_time(baton_transitions_total[1h] offset 10m)) > 0",
            "baton_transitions_total) >= 0",
        ),
        ("BatonStoreGuarded", "namespace, job, role)", "namespace, job, instance, role)"),
        ("BatonJobOverdue", "max by", "min by"),
        ("BatonJobOverdue", "(baton_job_suspended) == 1", "(baton_job_suspended) == 2"),
        ("BatonJobOverdue", "(baton_job_active_runs) > 0", "(baton_job_active_runs) > 9"),
        ("BatonJobFailing", "interrupted\"", "replaced\""),
        ("BatonJobFailing", "increase(", "("),
        ("BatonJobMissed", "increase(", "delta("),
        ("BatonConfigReloadFailed", "and on (cluster, namespace, job, instance) up == 1", ""),
        ("BatonCredentialNotRenewed", "outcome=\"ok\"", "outcome=\"none\""),
        ("BatonCredentialNotRenewed", "outcome=\"refused\"", "outcome=\"none\""),
        ("BatonCredentialNotRenewed", "[10m]", "[1m]"),
    ] {
        let spoil = |rule: &mut Value| {
            let expr = rule["expr"].as_str().unwrap().replace(from, to);
            rule["expr"] = expr.into();
        };
        if !is_found(alert, &spoil) {
            complaints.push(format!("{alert}: {to:?} instead of {from:?}"));
        }
    }
    assert_none("nobody minds", &complaints);
}
