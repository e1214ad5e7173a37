//! Prometheus's own checker, as Debian has it.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;
use tempfile::TempDir;

/// Whether it is content, and what it says.
pub fn promtool(folder: &Path, words: &[&str]) -> (bool, String) {
    let mut command = Command::new("promtool");
    let output = command.args(words).current_dir(folder).stdin(Stdio::null()).output();
    let output = output.expect("promtool is installed (Debian: apt install prometheus)");
    (output.status.success(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

/// Parses every expression, each told by where it stands: as recording rules, for promtool has no other way without a
/// server.
pub fn complaints_about(expressions: &[(String, String)]) -> Vec<String> {
    let folder = TempDir::new().unwrap();
    let named = expressions.iter().enumerate();
    let rule = |number: usize, expr: &str| json!({"record": format!("checked:{number}"), "expr": expr});
    let rules: Vec<_> = named.map(|(number, (_, expression))| rule(number, expression)).collect();
    let file = json!({"groups": [{"name": "checked", "rules": rules}]});
    // JSON is YAML.
    std::fs::write(folder.path().join("rules.yaml"), file.to_string()).unwrap();
    let (fine, said) = promtool(folder.path(), &["check", "rules", "rules.yaml"]);
    if fine {
        assert!(said.contains(&format!("{} rules found", rules.len())), "{said}");
        return Vec::new();
    }
    let told = |(number, (place, expression)): (usize, &(String, String))| {
        let line = said.lines().find(|line| line.contains(&format!("\"checked:{number}\"")))?;
        Some(format!("{place}: {expression}: {line}"))
    };
    let found: Vec<String> = expressions.iter().enumerate().filter_map(told).collect();
    if found.is_empty() { vec![said] } else { found }
}

#[test]
fn a_bad_expression_is_found_among_good_ones() {
    let named = |expression: &str| ("here".to_owned(), expression.to_owned());
    assert_eq!(complaints_about(&[named("up == 1"), named("sum by (job) (up)")]), Vec::<String>::new());
    let found = complaints_about(&[named("up == 1"), named("sum by job (up)")]);
    assert!(found.len() == 1 && found[0].starts_with("here: sum by job"), "{found:?}");
}
