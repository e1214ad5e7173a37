//! From a file to a [`Config`]: every section read, everything compared, every problem at once.

use std::io::Read;
use std::path::{Path, PathBuf};

use super::redis::Kept;
use super::section::{Checks, Reader, Section, schema_of};
use super::tree::{self, Positions};
use super::{
    Config, ConfigError, ConfigProblem, Environment, agree, dapr_jobs, jobs, listeners, locks, pod, roles, store, watch,
};

/// A larger file is not a configuration.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The file as a whole.
const FILE: Section = Section::new(
    "Baton configuration",
    "The configuration of Baton.",
    &[
        &listeners::IDENTITY,
        &listeners::VERSION,
        &listeners::API,
        &listeners::TELEMETRY,
        &store::STORE,
        &roles::ROLES,
        &agree::DEFAULT_ROLE,
        &pod::KUBERNETES,
        &locks::LOCKS,
        &jobs::JOBS,
        &jobs::MAX_CONCURRENT_RUNS,
        &store::JOBS_STORE,
        &dapr_jobs::JOBS_DAPR,
        &listeners::LOG,
    ],
);

/// A configuration that passed every check.
#[derive(Clone, Debug)]
pub struct Loaded {
    pub config: Config,
    /// What is doubtful about it: to be logged, not to be refused.
    pub warnings: Vec<ConfigProblem>,
    /// The secret and certificate files that it names.
    pub files: Vec<PathBuf>,
    /// Those of `files` whose content changed since the configuration was last loaded. Empty on the first load.
    pub rotated: Vec<PathBuf>,
    /// The hash of the file's bytes, so that the watcher knows what was loaded.
    pub(super) content: Option<u64>,
}

impl Config {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// Every problem, or that the file cannot be read.
    pub fn load(path: &Path, environment: &Environment) -> Result<Loaded, ConfigError> {
        let bytes = read(path).map_err(|problem| ConfigError::single(path, problem))?;
        check_bytes(&bytes, path, environment)
    }
}

/// The JSON Schema (draft 2020-12) of the file, indented. It is for editors and for charts; what a pattern cannot say
/// (timings against each other, files, URLs) it leaves to the check.
pub fn schema() -> String {
    format!("{:#}", schema_of(&FILE))
}

/// Checks a configuration text; `file` is its name in messages. Reads no file but the secrets and certificates it
/// names.
///
/// # Errors
/// Every problem of the text.
pub fn check_text(text: &str, file: &str, environment: &Environment) -> Result<Loaded, ConfigError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let refused = |problems, files| ConfigError::new(file.to_owned(), problems, files);
    let mut node = tree::parse(text).map_err(|problem| refused(vec![problem], Vec::new()))?;
    let checks = Checks::new(Positions::of(text), environment);
    checks.expand(&mut node, &tree::Path::default());
    let config = config(&checks.top(&node, &FILE));
    let mut found = checks.into_found();
    // Stable, so that problems of one place stay in the order in which they were found.
    let place = |problem: &ConfigProblem| (problem.line, problem.column);
    found.problems.sort_by_key(place);
    found.warnings.sort_by_key(place);
    found.files.sort();
    found.files.dedup();
    match config {
        Some(config) if found.problems.is_empty() => {
            let (warnings, files) = (found.warnings, found.files);
            Ok(Loaded { config, warnings, files, rotated: Vec::new(), content: None })
        }
        _ => {
            debug_assert!(!found.problems.is_empty(), "a configuration was refused without a reason");
            Err(refused(found.problems, found.files))
        }
    }
}

/// The configuration, as far as it can be told; refused values have their defaults in it.
fn config(top: &Reader<'_>) -> Option<Config> {
    let identity = listeners::identity(top);
    let (api, telemetry) = listeners::read(top);
    let version = listeners::version(top);
    let roles = roles::read(top, version.as_deref());
    let default_role = agree::default_role(top, &roles);
    let store = store::read(top, agree::renew_period(&roles));
    let kubernetes = pod::read(top);
    let locks = locks::read(top);
    let own = top.given(&store::JOBS_STORE);
    let jobs_store = own.and_then(|own| store::read_own(&own, Kept::Ledgers, None));
    agree::roles_and_timeouts(top, &roles);
    if let Some(store) = &store {
        agree::roles_and_store(top, store);
        agree::locks_and_store(top, store);
    }
    agree::pod(top, &kubernetes, identity.as_deref(), &roles, store.as_ref());
    let ledgers = agree::ledgers(top, jobs_store.as_ref(), store.as_ref());
    let jobs = agree::jobs(top, &roles, ledgers);
    let jobs_dapr = agree::dapr_jobs(top, &roles, ledgers);
    let log = listeners::log(top);
    Some(Config {
        identity: identity?,
        api,
        telemetry,
        store: store?,
        roles,
        default_role,
        kubernetes,
        locks,
        jobs,
        max_concurrent_runs: top.given(&jobs::MAX_CONCURRENT_RUNS).and_then(|most| usize::try_from(most).ok()),
        jobs_store,
        jobs_dapr,
        log,
    })
}

pub(super) fn check_bytes(bytes: &[u8], path: &Path, environment: &Environment) -> Result<Loaded, ConfigError> {
    match std::str::from_utf8(bytes) {
        Ok(text) => {
            let loaded = check_text(text, &path.display().to_string(), environment)?;
            Ok(Loaded { content: Some(watch::hash_of(bytes)), ..loaded })
        }
        Err(error) => {
            let line = bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count() + 1;
            let problem = ConfigProblem::of_file("is not UTF-8 here; save the file as UTF-8".to_owned());
            Err(ConfigError::single(path, ConfigProblem { line: Some(line), ..problem }))
        }
    }
}

/// The content of a configuration file.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, ConfigProblem> {
    let cannot = |error: std::io::Error| ConfigProblem::of_file(format!("the file cannot be read: {error}"));
    // A named pipe would be waited for, and a device never ends.
    let about = std::fs::metadata(path).map_err(cannot)?;
    if !about.is_file() {
        return Err(ConfigProblem::of_file("is not a regular file; name the configuration file itself".to_owned()));
    }
    // Room for one byte more, so that one read has it all and the next finds its end: this is done every two seconds.
    let mut bytes = Vec::with_capacity(usize::try_from(about.len().min(FILE_BYTES_MAX)).unwrap_or_default() + 1);
    let file = std::fs::File::open(path).map_err(cannot)?;
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(cannot)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(ConfigProblem::of_file("the file is larger than 1 MiB, which no configuration is".to_owned()));
    }
    Ok(bytes)
}
