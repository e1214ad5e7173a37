//! Packages from npm's registry, for tests that try other people's clients.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// Runs a command in a folder; what it wrote.
///
/// # Panics
/// When it fails, with all that it wrote.
pub fn run(folder: &Path, program: &str, arguments: &[&str]) -> String {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder).stdin(Stdio::null());
    let output = command.output().unwrap_or_else(|error| panic!("{program}: {error}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {}\n{text}{errors}", output.status);
    text
}

/// A folder of the repository with a `package-lock.json`, and one where what that names is installed: nothing else, and
/// each by its hash. No code of a package runs while it is installed.
///
/// # Panics
/// When it cannot be had.
pub fn installed(scripts: &str) -> (PathBuf, TempDir) {
    let scripts = crate::root().join(scripts);
    let folder = TempDir::new().expect("a temporary directory");
    for file in ["package.json", "package-lock.json"] {
        std::fs::copy(scripts.join(file), folder.path().join(file)).expect("it can be copied");
    }
    run(folder.path(), "npm", &["ci", "--ignore-scripts", "--no-audit", "--no-fund"]);
    (scripts, folder)
}
