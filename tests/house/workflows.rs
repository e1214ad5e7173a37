//! The workflows in `.github/`, which nothing here runs: what can be known of them from reading.

use std::fs;

use serde_json::Value;

use crate::assert_none;
use crate::tree::root;

/// What the repository has for a `run:` to call.
fn exists(word: &str) -> bool {
    let makefile = fs::read_to_string(root().join("Makefile")).unwrap();
    match word.strip_prefix("make ") {
        Some(target) => makefile.lines().any(|line| line.starts_with(&format!("{target}:"))),
        None => root().join(word).is_file(),
    }
}

fn check_step(at: &str, text: &str, step: &Value) -> Vec<String> {
    let mut complaints = Vec::new();
    if let Some(action) = step["uses"].as_str() {
        let (_, commit) = action.split_once('@').unwrap_or((action, ""));
        let is_pinned = commit.len() == 40 && commit.chars().all(|c| c.is_ascii_hexdigit() && !c.is_uppercase());
        // The version is a comment, for people.
        if !is_pinned || !text.lines().any(|line| line.contains(&format!("{action} # v"))) {
            complaints.push(format!("{at}: {action} is not pinned to a commit, with its version beside it"));
        }
        if action.contains("checkout") && step["with"]["persist-credentials"] != false {
            complaints.push(format!("{at}: the checkout leaves the token in the clone"));
        }
    }
    if let Some(run) = step["run"].as_str() {
        // What others may choose (names of branches, titles) would be part of the script.
        if run.contains("${{") {
            complaints.push(format!("{at}: an expression inside a script; hand it over in env"));
        }
        let ours = run.lines().map(str::trim).filter(|line| line.starts_with(".ci/") || line.starts_with("make "));
        complaints.extend(ours.filter(|line| !exists(line)).map(|line| format!("{at}: there is no `{line}`")));
    }
    complaints
}

fn check(name: &str, text: &str) -> Vec<String> {
    let workflow: Value = serde_yaml::from_str(text).unwrap();
    let mut complaints = Vec::new();
    if workflow["permissions"] != serde_json::json!({"contents": "read"}) {
        complaints.push(format!("{name}: jobs may do more than read, unless they say so themselves"));
    }
    if text.contains("pull_request_target") {
        complaints.push(format!("{name}: strangers' changes would run with our secrets"));
    }
    for (job, content) in workflow["jobs"].as_object().unwrap() {
        let at = format!("{name}: {job}");
        if !content["timeout-minutes"].is_number() {
            complaints.push(format!("{at}: may run for six hours"));
        }
        for step in content["steps"].as_array().unwrap() {
            complaints.extend(check_step(&at, text, step));
        }
    }
    complaints
}

#[test]
fn workflows_are_pinned_bounded_and_call_what_is_there() {
    let mut complaints = Vec::new();
    let mut seen = 0;
    for entry in fs::read_dir(root().join(".github/workflows")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        complaints.extend(check(&name, &fs::read_to_string(&path).unwrap()));
        seen += 1;
    }
    assert!(seen >= 3);
    assert_none("workflows", complaints);
}

#[test]
fn the_checker_of_workflows_complains_about_bad_examples() {
    let good = "permissions: { contents: read }\njobs:\n  a:\n    timeout-minutes: 5\n    steps:\n      \
                - uses: actions/checkout@08c6903cd8c0fde910a37f88322edcfb5dd907a8 # v5.0.0\n        \
                with: { persist-credentials: false }\n      - run: make test\n";
    assert_eq!(check("good", good), Vec::<String>::new());
    for (from, to) in [
        ("contents: read", "contents: write"),
        ("timeout-minutes: 5", "if: true"),
        ("08c6903cd8c0fde910a37f88322edcfb5dd907a8", "v5"),
        (" # v5.0.0", ""),
        ("persist-credentials: false", "fetch-depth: 0"),
        ("make test", "make tea"),
        ("make test", "echo ${{ github.head_ref }}"),
    ] {
        assert_eq!(check("bad", &good.replace(from, to)).len(), 1, "{to}");
    }
}
