//! What is wrong with a configuration, told so that it can be put right.

use std::fmt;
use std::path::{Path, PathBuf};

/// One thing that is wrong, or, among warnings, doubtful. Holds no secret and no value of an environment variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigProblem {
    /// The way to the value, such as `roles[1].leaseDuration`; empty for the file as a whole.
    pub path: String,
    /// The line, from one. None when it has no place in the file.
    pub line: Option<usize>,
    /// The column, from one, in characters.
    pub column: Option<usize>,
    /// What is wrong and what would be right.
    pub message: String,
}

impl ConfigProblem {
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
    problems: Vec<ConfigProblem>,
    /// How many more there were.
    left_out: usize,
    /// The secret and certificate files that the refused configuration names.
    pub(super) files: Vec<PathBuf>,
}

/// More problems than anybody reads; a file with more of them is no configuration at all.
const PROBLEMS_MAX: usize = 100;

impl ConfigError {
    pub(super) fn new(file: String, mut problems: Vec<ConfigProblem>, files: Vec<PathBuf>) -> Self {
        let left_out = problems.len().saturating_sub(PROBLEMS_MAX);
        problems.truncate(PROBLEMS_MAX);
        Self { file, problems, left_out, files }
    }

    /// The problems in the order of the file: at least one, and all of them up to a hundred.
    pub fn problems(&self) -> &[ConfigProblem] {
        &self.problems
    }

    /// The name of the file the problems are about.
    pub fn file(&self) -> &str {
        &self.file
    }

    pub(super) fn single(file: &Path, problem: ConfigProblem) -> Self {
        Self::new(file.display().to_string(), vec![problem], Vec::new())
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for problem in &self.problems {
            writeln!(f, "{}", problem.in_file(&self.file))?;
        }
        if self.left_out > 0 {
            writeln!(f, "{}: … and {} more", self.file, self.left_out)?;
        }
        let count = self.problems.len() + self.left_out;
        write!(f, "{count} problem{} in {}", if count == 1 { "" } else { "s" }, self.file)
    }
}

impl std::error::Error for ConfigError {}
