//! What is wrong with a configuration, told so that it can be put right.

use std::fmt;
use std::path::{Path, PathBuf};

/// One thing that is wrong, or, among warnings, doubtful. Holds no secret and no value of an environment variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The way to the value, such as `roles[1].leaseDuration`; empty for the file as a whole.
    pub path: String,
    /// The line, from one. None when it has no place in the file.
    pub line: Option<usize>,
    /// The column, from one, in characters.
    pub column: Option<usize>,
    /// What is wrong and what would be right.
    pub message: String,
}

impl Problem {
    /// A problem of the whole file.
    pub(super) fn of_file(message: String) -> Self {
        Self { path: String::new(), line: None, column: None, message }
    }

    /// The problem on one line, as compilers write it: `config.yaml:12:5: roles[0].leaseDuration: …`.
    pub fn in_file(&self, file: &str) -> String {
        let mut line = file.to_owned();
        for number in [self.line, self.column].into_iter().flatten() {
            line.push_str(&format!(":{number}"));
        }
        if !self.path.is_empty() {
            line.push_str(&format!(": {}", self.path));
        }
        format!("{line}: {}", self.message)
    }
}

/// A configuration that is refused, with every reason. Displayed one problem a line, then their number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    pub(super) file: String,
    pub(super) problems: Vec<Problem>,
    pub(super) files: Vec<PathBuf>,
}

impl ConfigError {
    /// Every problem, in the order of the file; at least one.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// The name of the file the problems are about.
    pub fn file(&self) -> &str {
        &self.file
    }

    pub(super) fn single(file: &Path, problem: Problem) -> Self {
        Self { file: file.display().to_string(), problems: vec![problem], files: Vec::new() }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for problem in &self.problems {
            writeln!(f, "{}", problem.in_file(&self.file))?;
        }
        let count = self.problems.len();
        write!(f, "{count} problem{} in {}", if count == 1 { "" } else { "s" }, self.file)
    }
}

impl std::error::Error for ConfigError {}
