//! Every case is rendered, and what comes out is what it was (golden files), what Kubernetes takes, and a configuration
//! that the sidecar takes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde_json::{Value, json};
use testkit::helm::{done, names, object};

use crate::cases::{Case, SECRET_URL, cases};
use crate::stage::{charts, is_up_to_date, names_in};

/// A case with what it renders to: the text, and the objects.
pub type Rendered = (Case, String, Vec<Value>);

/// All of them.
pub fn rendered() -> &'static [Rendered] {
    static RENDERED: OnceLock<Vec<Rendered>> = OnceLock::new();
    RENDERED.get_or_init(|| {
        let (charts, cases) = (charts(), cases());
        let requests: Vec<Value> = cases.iter().map(|case| charts.render("baton-demo", &case.values)).collect();
        let read = |(case, answer): (Case, Value)| {
            let objects = answer["objects"].as_array().unwrap().clone();
            (case, answer["text"].as_str().unwrap().to_owned(), objects)
        };
        cases.into_iter().zip(done(&requests)).map(read).collect()
    })
}

/// A rendered text without the scripts, which are told by their checksums, and without white space at ends of lines.
fn golden(text: &str) -> String {
    let files = text.split("---\n# ").filter(|file| !file.is_empty() && !file.contains("templates/scripts.yaml"));
    let text: String = files.map(|file| format!("---\n# {file}")).collect();
    text.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

#[test]
fn every_case_renders_to_its_golden_file() {
    let rendered = rendered();
    for (case, text, _) in rendered {
        is_up_to_date(&format!("tests/charts/golden/{}.yaml", case.name), &golden(text));
    }
    let mut wanted: Vec<String> = rendered.iter().map(|(case, ..)| format!("{}.yaml", case.name)).collect();
    wanted.sort();
    assert_eq!(names_in("tests/charts/golden"), wanted, "a golden file without a case");
}

#[test]
fn helm_finds_nothing_to_complain_of_and_packs_the_charts() {
    let charts = charts();
    let to = charts.folder().join("packed");
    std::fs::create_dir(&to).unwrap();
    let of = |what: &str, chart: &str| json!({"do": what, "chart": charts.path(chart)});
    let package = |chart: &str| json!({"do": "package", "chart": charts.path(chart), "to": to});
    const CHARTS: [&str; 3] = ["baton", "baton-demo", "baton-injector"];
    let mut requests = [CHARTS.map(package), CHARTS.map(|chart| of("lint", chart))].concat();
    requests.extend(
        cases().iter().map(|case| json!({"do": "lint", "chart": charts.path("baton-demo"), "values": case.values})),
    );
    let answers = done(&requests);
    for (answer, chart) in answers.iter().zip(CHARTS) {
        let archive = format!("{chart}-{}.tgz", env!("CARGO_PKG_VERSION"));
        assert!(answer.as_str().unwrap().ends_with(&archive), "{answer}: the charts have the sidecar's version");
    }
    for (answer, request) in answers.iter().zip(&requests).skip(CHARTS.len()) {
        let findings = answer.as_array().unwrap();
        let bad: Vec<&Value> = findings.iter().filter(|finding| finding["error"] != "icon is recommended").collect();
        assert!(bad.is_empty(), "{request}: {bad:?}");
        assert!(!findings.is_empty(), "lint looks at nothing");
    }
    // What is packed renders as what is not.
    let packed = json!({"do": "render", "chart": answers[1], "name": "demo", "namespace": "shop"});
    let both = done(&[packed, charts.render("baton-demo", &json!({}))]);
    assert_eq!(both[0]["objects"], both[1]["objects"]);
}

#[test]
fn kubernetes_knows_every_field_of_every_object() {
    // What only the Prometheus operator knows; tests/charts/rules.rs looks at those.
    const WITHOUT_SCHEMA: [&str; 2] = ["PodMonitor", "PrometheusRule"];
    let mut objects: BTreeMap<String, Value> = BTreeMap::new();
    for (.., rendered) in rendered() {
        objects.extend(rendered.iter().map(|object| (object.to_string(), object.clone())));
    }
    let objects: Vec<&Value> = objects.values().collect();
    assert!(objects.len() > 40, "{}", objects.len());
    let versions = ["1.29", "1.33", "newest"];
    let request = |version: &str| json!({"do": "validate", "objects": objects, "version": version});
    let mut requests: Vec<Value> = versions.map(request).into();
    // A field that is not there, and one that is of another type: the schemas do look.
    let mut unknown = (*objects.iter().find(|object| object["kind"] == "Deployment").unwrap()).clone();
    unknown["spec"]["template"]["spec"]["containers"][0]["imagePolicy"] = json!("Always");
    let mut wrong = unknown.clone();
    wrong["spec"] = json!({"replicas": "three"});
    requests.extend([unknown, wrong].map(|bad| json!({"do": "validate", "objects": [bad], "version": "newest"})));
    let answers = testkit::helm::ask(&requests);
    // Policies came with 1.30, and with them the value that makes one.
    let in_1_29 = [&WITHOUT_SCHEMA[..], &["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"]].concat();
    assert_eq!(answers[0], Ok(json!(in_1_29)));
    for answer in &answers[1..3] {
        assert_eq!(answer, &Ok(json!(WITHOUT_SCHEMA)));
    }
    for (answer, word) in answers[3..].iter().zip(["imagePolicy", "replicas"]) {
        assert!(answer.as_ref().is_err_and(|why| why.contains(word)), "{answer:?}");
    }
}

/// What `baton check-config` says of a file.
fn check_config(folder: &Path, text: &str) -> (Option<i32>, String) {
    let file = folder.join("config.yaml");
    std::fs::write(&file, text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_baton"));
    command.arg("check-config").arg(&file).stdin(Stdio::null());
    let pod = [("POD_NAME", "web-0"), ("POD_NAMESPACE", "shop"), ("POD_UID", "1b3f-22"), ("POD_VERSION", "5f7c9")];
    let output = command
        .envs(pod)
        .env("ZONE", "a")
        .env("BATON_REDIS_URL", SECRET_URL)
        .env("BATON_LOCKS_REDIS_URL", SECRET_URL)
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    (output.status.code(), said)
}

#[test]
fn the_sidecar_takes_every_configuration() {
    let folder = tempfile::tempdir().unwrap();
    for (case, _, objects) in rendered() {
        let config = object(objects, "ConfigMap", "baton")["data"]["config.yaml"].as_str().unwrap();
        let (code, said) = check_config(folder.path(), config);
        assert_eq!(code, Some(0), "{}: {said}\n{config}", case.name);
        assert!(!said.contains("warning: ") || !said.contains("POD_"), "{said}");
    }
}

#[test]
fn a_change_of_roles_replaces_no_pod_and_any_other_change_does() {
    let charts = charts();
    let checksum = |answer: &Value| {
        let objects = answer["objects"].as_array().unwrap();
        let worker = object(objects, "Deployment", "baton-demo");
        worker["spec"]["template"]["metadata"]["annotations"]["checksum/baton-config"].as_str().unwrap().to_owned()
    };
    let roles = json!({"baton": {"config": {"roles": [{"name": "scheduler"}, {"name": "more"}]}}});
    let rigid = |values: &Value| crate::stage::with(values.clone(), "baton.reloadRoles", json!(false));
    let level = json!({"baton": {"config": {"log": {"level": "debug"}}}});
    let all = [json!({}), roles.clone(), level, rigid(&json!({})), rigid(&roles)];
    let requests: Vec<Value> = all.iter().map(|values| charts.render("baton-demo", values)).collect();
    let [plain, roles, level, rigid, rigid_roles] =
        <[String; 5]>::try_from(done(&requests).iter().map(checksum).collect::<Vec<_>>()).unwrap();
    assert_eq!(plain, roles);
    assert_ne!(plain, level);
    assert_ne!(rigid, rigid_roles);
}

#[test]
fn a_helm_on_the_path_renders_the_same() {
    let on_path = || {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path).map(|folder| folder.join("helm")).find(|helm| helm.is_file())
    };
    let Some(helm) = std::env::var_os("BATON_HELM").map(PathBuf::from).or_else(on_path) else {
        println!("notice: there is no helm on PATH, so only Helm's library has rendered the charts");
        return;
    };
    let charts = charts();
    let by_library = rendered();
    let requests: Vec<Value> = by_library
        .iter()
        .map(|(case, ..)| crate::stage::with(charts.render("baton-demo", &case.values), "with", json!(helm)))
        .collect();
    for ((case, _, expected), found) in by_library.iter().zip(done(&requests)) {
        let sorted = |objects: &[Value]| {
            let mut texts: Vec<String> = objects.iter().map(Value::to_string).collect();
            texts.sort();
            texts
        };
        let found = found["objects"].as_array().unwrap().clone();
        assert_eq!(sorted(expected), sorted(&found), "{}: {} and {}", case.name, names(expected), names(&found));
    }
}
