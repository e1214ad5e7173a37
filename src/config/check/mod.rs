//! From raw input to a [`Config`]: every check, every problem at once.
//!
//! A value that is refused is recorded and left out, and whatever would be judged by it is not judged: one mistake
//! makes one problem.

mod extras;
mod jobs;
mod kubernetes;
mod locks;
mod quorum;
mod roles;
mod runs;
mod scalar;
mod sections;
mod store;
pub(super) mod url;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use self::store::Kept;
use super::environment::Environment;
use super::model::Config;
use super::node::Node;
use super::position::{Path, Positions};
use super::problem::{ConfigError, Problem};
use super::raw::RawConfig;
use super::structure::Structure;
use super::{Loaded, schema, yaml};

/// Checks a configuration text. Reads no file but the secrets and certificates that the text names.
///
/// # Errors
/// Every problem of the text.
pub(super) fn check_text(text: &str, file: &str, environment: &Environment) -> Result<Loaded, ConfigError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut node = match yaml::parse(text) {
        Ok(node) => node,
        Err(error) => {
            let (line, column) = (error.at.map(|at| at.line), error.at.map(|at| at.column));
            let problem = Problem { path: String::new(), line, column, message: error.message };
            return Err(ConfigError::new(file.to_owned(), vec![problem], Vec::new()));
        }
    };
    let mut checker = Checker::new(Positions::of(text), environment);
    checker.report_duplicates();
    checker.expand(&mut node, &Path::default());
    let schema = schema::document();
    let config = match Structure::new(&schema).sound(&mut checker, &node).map(serde_json::from_value::<RawConfig>) {
        Some(Ok(raw)) => config(&mut checker, &raw),
        // The structure check lets through only what the raw types take; should it not, the file is refused, not the
        // process.
        Some(Err(error)) => {
            checker.problem(&Path::default(), format!("does not fit the schema: {error}"));
            None
        }
        None => None,
    };
    checker.finish(config, file)
}

/// The checked configuration, as far as nothing in it is wrong.
fn config(checker: &mut Checker<'_>, raw: &RawConfig) -> Option<Config> {
    let root = Path::default();
    let identity = checker.identity(raw.identity.as_ref(), &root.key("identity"));
    let api = checker.api(raw.api.as_ref(), &root.key("api"));
    let telemetry = checker.telemetry(raw.telemetry.as_ref(), &root.key("telemetry"));
    if let (Some(api), Some(telemetry)) = (&api, &telemetry) {
        checker.distinct_listeners(api.listen, telemetry.listen, &root.key("telemetry").key("listen"));
    }
    let roles = checker.roles(raw.roles.as_deref(), &root.key("roles"));
    let default_role = checker.default_role(raw.default_role.as_ref(), &roles, &root);
    let store = checker.store(raw.store.as_ref(), &roles, &root.key("store"));
    checker.shards(raw.roles.as_deref(), store.as_ref(), &root.key("roles"));
    let beside = extras::Beside {
        identity: identity.as_deref(),
        raw_roles: raw.roles.as_deref(),
        roles: &roles,
        store: store.as_ref(),
    };
    let kubernetes = checker.kubernetes(raw.kubernetes.as_ref(), &beside, &root);
    let locks = checker.locks(raw.locks.as_ref(), store.as_ref(), &root.key("locks"));
    let own_path = root.key("jobsStore");
    let own = raw.jobs_store.as_ref();
    let jobs_store = own.and_then(|own| checker.own_store(own, Kept::Ledgers, &own_path));
    let ledgers = jobs_store.as_ref().or(store.as_ref()).filter(|_| !checker.has_bad_within(&own_path));
    let jobs = checker.jobs(raw.jobs.as_deref(), &roles, ledgers, &root);
    let log = checker.log(raw.log.as_ref(), &root.key("log"));
    Some(Config {
        identity: identity?,
        api: api?,
        telemetry: telemetry?,
        store: store?,
        roles,
        default_role,
        kubernetes,
        locks: locks?,
        jobs,
        jobs_store,
        log: log?,
    })
}

/// What the checks share: the surroundings, and what was found so far.
pub(super) struct Checker<'e> {
    environment: &'e Environment,
    positions: Positions,
    /// The values that hold something from the environment, with their text as the file has it.
    sources: BTreeMap<Path, String>,
    /// What has a problem already.
    bad: BTreeSet<Path>,
    problems: Vec<Problem>,
    warnings: Vec<Problem>,
    /// The secret and certificate files that the configuration names.
    files: Vec<PathBuf>,
}

impl<'e> Checker<'e> {
    fn new(positions: Positions, environment: &'e Environment) -> Self {
        Self {
            environment,
            positions,
            sources: BTreeMap::new(),
            bad: BTreeSet::new(),
            problems: Vec::new(),
            warnings: Vec::new(),
            files: Vec::new(),
        }
    }

    /// Reports a problem of the value at `path`. The message must hold no secret.
    pub(super) fn problem(&mut self, path: &Path, message: String) {
        let problem = self.located(path, message);
        self.problems.push(problem);
        self.bad.insert(path.clone());
    }

    /// Reports a doubt: the configuration is good all the same.
    fn warning(&mut self, path: &Path, message: String) {
        let warning = self.located(path, message);
        self.warnings.push(warning);
    }

    /// Whether a problem of exactly this value was reported.
    pub(super) fn is_bad(&self, path: &Path) -> bool {
        self.bad.contains(path)
    }

    /// Whether a problem was reported of this value or of one inside it.
    fn has_bad_within(&self, path: &Path) -> bool {
        self.bad.iter().any(|bad| bad.is_within(path))
    }

    fn located(&self, path: &Path, message: String) -> Problem {
        let at = self.positions.find(path);
        Problem { path: path.to_string(), line: at.map(|at| at.line), column: at.map(|at| at.column), message }
    }

    fn report_duplicates(&mut self) {
        for duplicate in std::mem::take(&mut self.positions.duplicates) {
            self.problems.push(Problem {
                path: duplicate.path.to_string(),
                line: Some(duplicate.again.line),
                column: Some(duplicate.again.column),
                message: format!("is given twice, first on line {}; keep one", duplicate.first.line),
            });
            self.bad.insert(duplicate.path);
        }
    }

    /// Expands every text in place. One that cannot be expanded is reported.
    fn expand(&mut self, node: &mut Node, path: &Path) {
        match node {
            Node::Text(text) => match self.environment.expand(text) {
                Ok(expanded) => {
                    let source = std::mem::replace(text, expanded.text);
                    if expanded.from_environment {
                        self.sources.insert(path.clone(), source);
                    }
                }
                Err(message) => self.problem(path, message),
            },
            Node::List(items) => {
                for (index, item) in items.iter_mut().enumerate() {
                    self.expand(item, &path.index(index));
                }
            }
            Node::Map(entries) => {
                for (key, value) in entries {
                    self.expand(value, &path.key(key));
                }
            }
            Node::Null | Node::Bool(_) | Node::Number(_) | Node::Tagged => {}
        }
    }

    fn finish(mut self, config: Option<Config>, file: &str) -> Result<Loaded, ConfigError> {
        // Stable, so that problems of one place stay in the order in which they were found.
        self.problems.sort_by_key(place);
        self.warnings.sort_by_key(place);
        self.files.sort();
        self.files.dedup();
        match config {
            Some(config) if self.problems.is_empty() => {
                Ok(Loaded { config, warnings: self.warnings, files: self.files, rotated: Vec::new(), content: None })
            }
            _ => {
                debug_assert!(!self.problems.is_empty(), "a configuration was refused without a reason");
                Err(ConfigError::new(file.to_owned(), self.problems, self.files))
            }
        }
    }
}

/// Where a problem is: what it is told in the order of.
fn place(problem: &Problem) -> (Option<usize>, Option<usize>) {
    (problem.line, problem.column)
}
