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
        None => root().join(word.split(' ').next().unwrap_or_default()).is_file(),
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

/// Whether a job comes after all of ci, directly or by those that it needs.
fn is_after_ci(jobs: &Value, job: &str) -> bool {
    let needs = &jobs[job]["needs"];
    let needed = needs.as_str().into_iter().chain(needs.as_array().into_iter().flatten().filter_map(Value::as_str));
    let is_ci = |name: &str| jobs[name]["uses"] == "./.github/workflows/ci.yml";
    needed.into_iter().any(|name| is_ci(name) || is_after_ci(jobs, name))
}

/// Complaints about a job that may write: it does so for tags only, and, where tags start it, after ci.
fn check_rights(at: &str, workflow: &Value, job: &str) -> Vec<String> {
    let content = &workflow["jobs"][job];
    let may_write = content["permissions"].as_object().is_some_and(|rights| rights.values().any(|r| r == "write"));
    let by_tags = !workflow["on"]["push"]["tags"].is_null();
    if !may_write {
        Vec::new()
    } else if by_tags && !is_after_ci(&workflow["jobs"], job) {
        vec![format!("{at}: publishes what ci has not passed")]
    } else if !by_tags && content["if"] != "github.ref_type == 'tag'" {
        vec![format!("{at}: may write for what is no tag")]
    } else {
        Vec::new()
    }
}

/// Complaints about a job that is another workflow.
fn check_called(at: &str, path: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join(path)).unwrap_or_default();
    let called: Value = serde_yaml::from_str(&text).unwrap();
    let is_callable = called["on"].as_object().is_some_and(|on| on.contains_key("workflow_call"));
    (!is_callable).then(|| format!("{at}: {path} cannot be called")).into_iter().collect()
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
    // Named, it is given `pipefail`; by default it is not.
    if workflow["defaults"]["run"]["shell"] != "bash" {
        complaints.push(format!("{name}: what fails in front of a pipe goes unseen"));
    }
    for (job, content) in workflow["jobs"].as_object().unwrap() {
        let at = format!("{name}: {job}");
        complaints.extend(check_rights(&at, &workflow, job));
        if let Some(path) = content["uses"].as_str() {
            complaints.extend(check_called(&at, path));
            continue;
        }
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
    assert!(seen >= 4);
    assert_none("workflows", complaints);
}

#[test]
fn the_checker_of_workflows_complains_about_bad_examples() {
    let good = "permissions: { contents: read }\ndefaults: { run: { shell: bash } }\njobs:\n  a:\n    \
                timeout-minutes: 5\n    steps:\n      \
                - uses: actions/checkout@08c6903cd8c0fde910a37f88322edcfb5dd907a8 # v5.0.0\n        \
                with: { persist-credentials: false }\n      - run: make test\n";
    assert_eq!(check("good", good), Vec::<String>::new());
    for (from, to) in [
        ("contents: read", "contents: write"),
        ("shell: bash", "shell: sh"),
        ("timeout-minutes: 5", "if: true"),
        ("timeout-minutes: 5", "permissions: { packages: write }\n    timeout-minutes: 5"),
        ("08c6903cd8c0fde910a37f88322edcfb5dd907a8", "v5"),
        (" # v5.0.0", ""),
        ("persist-credentials: false", "fetch-depth: 0"),
        ("make test", "make tea"),
        ("make test", ".ci/tea \"$POT\""),
        ("make test", "echo ${{ github.head_ref }}"),
    ] {
        assert_eq!(check("bad", &good.replace(from, to)).len(), 1, "{to}");
    }
}

#[test]
fn the_checker_of_workflows_complains_about_what_is_published_too_early() {
    let good = "on: { push: { tags: [\"v*\"] } }\npermissions: { contents: read }\n\
                defaults: { run: { shell: bash } }\njobs:\n  a:\n    uses: ./.github/workflows/ci.yml\n  \
                b:\n    needs: [a]\n    uses: ./.github/workflows/image.yml\n  \
                c:\n    needs: b\n    permissions: { packages: write }\n    uses: ./.github/workflows/chart.yml\n";
    assert_eq!(check("good", good), Vec::<String>::new());
    for (from, to) in [
        ("needs: [a]", "needs: []"),
        ("needs: b", "if: true"),
        ("uses: ./.github/workflows/ci.yml", "uses: ./.github/workflows/image.yml"),
        ("chart.yml", "release.yml"),
        ("chart.yml", "tea.yml"),
        ("tags: [\"v*\"]", "branches: [main]"),
    ] {
        assert_eq!(check("bad", &good.replace(from, to)).len(), 1, "{to}");
    }
}

/// What is pinned grows old: somebody has to look after it.
#[test]
fn each_kind_of_pin_is_looked_after() {
    let text = fs::read_to_string(root().join(".github/dependabot.yml")).unwrap();
    let config: Value = serde_yaml::from_str(&text).unwrap();
    let updates = config["updates"].as_array().unwrap();
    let kinds: Vec<&str> = updates.iter().filter_map(|update| update["package-ecosystem"].as_str()).collect();
    assert_eq!(kinds, ["cargo", "github-actions", "docker", "pip"]);
    for update in updates {
        let folder = update["directory"].as_str().unwrap().trim_start_matches('/');
        assert!(root().join(folder).is_dir(), "{folder}");
    }
}
