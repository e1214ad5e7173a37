//! Real Helm (its library, in a Python that `.ci/python charts` installs) and the schemas of Kubernetes: see `helm.py`.

pub mod shop;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::programs::python_with;
use crate::root;

/// The Python that has it all, installed if it is not there.
///
/// # Panics
/// When it cannot be had, saying why.
fn python() -> &'static Path {
    static PYTHON: OnceLock<PathBuf> = OnceLock::new();
    PYTHON.get_or_init(|| python_with("charts"))
}

/// Does what each request asks, in order, and hands back what came of each: `Err` has Helm's words.
pub fn ask(requests: &[Value]) -> Vec<Result<Value, String>> {
    let script = root().join("tests/testkit/src/helm/helm.py");
    let mut command = Command::new(python());
    command.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("Python starts");
    let text = serde_json::to_vec(requests).expect("JSON");
    child.stdin.take().expect("piped").write_all(&text).expect("it reads all before it writes");
    let output = child.wait_with_output().expect("our own child");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "helm.py: {errors}");
    let answers: Vec<Value> = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(answers.len(), requests.len());
    let read = |mut answer: Value| match answer["error"].as_str() {
        Some(why) => Err(why.to_owned()),
        None => Ok(answer["ok"].take()),
    };
    answers.into_iter().map(read).collect()
}

/// The same for requests that cannot fail.
///
/// # Panics
/// With the words of the first that did.
pub fn done(requests: &[Value]) -> Vec<Value> {
    let answers = ask(requests).into_iter().zip(requests);
    answers.map(|(answer, request)| answer.unwrap_or_else(|why| panic!("{request}: {why}"))).collect()
}

/// Copies of the charts in a folder of their own, with the demo's dependency fetched by Helm. Gone when dropped.
pub struct Charts {
    folder: TempDir,
}

impl Charts {
    /// See the type.
    pub fn copy() -> Self {
        Self::copy_with(&[])
    }

    /// The same with these files instead of all that the library has in `files`: their paths in its folder, and what
    /// is in them.
    pub fn copy_with(files: &[(&str, &str)]) -> Self {
        let folder = TempDir::new().expect("a temporary directory");
        for name in ["baton", "baton-demo", "baton-injector"] {
            copy(&root().join("charts").join(name), &folder.path().join(name));
        }
        let charts = Self { folder };
        if !files.is_empty() {
            fs::remove_dir_all(charts.path("baton").join("files")).expect("it has some");
        }
        for (path, text) in files {
            let file = charts.path("baton").join(path);
            fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
            fs::write(file, text).expect("a file");
        }
        done(&["baton-demo", "baton-injector"].map(|chart| json!({"do": "depend", "chart": charts.path(chart)})));
        charts
    }

    /// Where the folder is that the charts are in.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Where a chart is.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The request to render a chart as the release `demo` in the namespace `shop`.
    pub fn render(&self, chart: &str, values: &Value) -> Value {
        json!({"do": "render", "chart": self.path(chart), "name": "demo", "namespace": "shop", "values": values})
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        // What a user's own `helm dependency build` has left there is not the chart's.
        if path.is_dir() && entry.file_name() != "charts" {
            copy(&path, &target);
        } else if path.is_file() && entry.file_name() != "Chart.lock" {
            fs::copy(&path, &target).expect("a copy");
        }
    }
}

/// The object of a kind whose name ends like this.
///
/// # Panics
/// When there is none.
pub fn object<'a>(objects: &'a [Value], kind: &str, ending: &str) -> &'a Value {
    let is_it = |object: &&Value| {
        object["kind"] == kind && object["metadata"]["name"].as_str().is_some_and(|name| name.ends_with(ending))
    };
    objects.iter().find(is_it).unwrap_or_else(|| panic!("no {kind} …{ending} among {}", names(objects)))
}

/// Kinds and names, for messages.
pub fn names(objects: &[Value]) -> String {
    let name = |object: &Value| format!("{} {}", object["kind"], object["metadata"]["name"]).replace('"', "");
    objects.iter().map(name).collect::<Vec<_>>().join(", ")
}
