//! The configuration file: read, checked, watched.
//!
//! ```text
//! file ──yaml──▶ Node ──environment──▶ Node ──structure──▶ Raw… ──check──▶ Config
//!   └──position──▶ lines and columns for every problem ──────────┘
//! ```
//!
//! * [`load`](Config::load) reads a file, [`check_text`] a text. Both return a [`Loaded`], or a [`ConfigError`] with
//!   every problem at once.
//! * [`Config`] and what is in it can only come from there, so the rest of the program never meets an impossible value.
//! * [`Watcher`] tells when the file, or a secret it names, has changed; [`Config::restart_needed`] and
//!   [`Config::live_changes`] tell what a change means.
//! * [`schema()`] is the JSON Schema for editors.

mod check;
mod environment;
mod extras;
mod model;
mod node;
mod position;
mod problem;
mod raw;
mod raw_jobs;
mod reload;
mod schema;
#[cfg(test)]
mod schema_tests;
mod structure;
mod watch;
mod yaml;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use check::url::server_of;
pub use environment::{AbsentFiles, Environment};
pub use extras::{DOMAIN, ExtrasConfig, PodConfig, dotted, is_object_name, mirror_name, role_label};
pub use model::{
    AckMode, ApiConfig, AppCheck, Config, ExecRun, Guard, HttpRun, JobConfig, KubernetesConfig, LocksConfig, LogConfig,
    LogFormat, LogLevel, QuorumConfig, RedisConfig, Replication, Required, RoleConfig, RunConfig, Secret, StoreConfig,
    StoreUse, TelemetryConfig, TlsConfig,
};
pub use problem::{ConfigError, Problem};
pub use reload::LiveChanges;
pub use schema::schema;
pub use watch::{Changes, Reload, Watcher};

use crate::base::duration;

/// A larger file is not a configuration.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// A configuration that passed every check.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// What is doubtful about it: to be logged, not to be refused.
    pub warnings: Vec<Problem>,
    /// The secret and certificate files that it names.
    pub files: Vec<PathBuf>,
    /// Those of `files` whose content changed since the configuration was last loaded. Empty on the first load.
    pub rotated: Vec<PathBuf>,
    /// The hash of the file's bytes, so that the watcher knows what was loaded.
    content: Option<u64>,
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

/// Checks a configuration text; `file` is its name in messages. Reads no file but the secrets and certificates it
/// names.
///
/// # Errors
/// Every problem of the text.
pub fn check_text(text: &str, file: &str, environment: &Environment) -> Result<Loaded, ConfigError> {
    check::check_text(text, file, environment)
}

/// Reads a duration as the file writes it: `500ms`, `15s`, `1.5s`, `1h30m`. For flags that mean the same.
///
/// # Errors
/// What is wrong with the text, and what would be right.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    duration::parse(text).map_err(|error| format!("{text:?} {error}"))
}

fn check_bytes(bytes: &[u8], path: &Path, environment: &Environment) -> Result<Loaded, ConfigError> {
    match std::str::from_utf8(bytes) {
        Ok(text) => {
            let loaded = check_text(text, &path.display().to_string(), environment)?;
            Ok(Loaded { content: Some(watch::hash_of(bytes)), ..loaded })
        }
        Err(error) => {
            let line = bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count() + 1;
            let message = "is not UTF-8 here; save the file as UTF-8".to_owned();
            let problem = Problem { path: String::new(), line: Some(line), column: None, message };
            Err(ConfigError::single(path, problem))
        }
    }
}

/// The content of a configuration file.
fn read(path: &Path) -> Result<Vec<u8>, Problem> {
    let cannot = |error: std::io::Error| Problem::of_file(format!("the file cannot be read: {error}"));
    // A named pipe would be waited for, and a device never ends.
    let about = std::fs::metadata(path).map_err(cannot)?;
    if !about.is_file() {
        return Err(Problem::of_file("is not a regular file; name the configuration file itself".to_owned()));
    }
    // Room for one byte more, so that one read has it all and the next finds its end: this is done every two seconds.
    let mut bytes = Vec::with_capacity(usize::try_from(about.len().min(FILE_BYTES_MAX)).unwrap_or_default() + 1);
    let file = std::fs::File::open(path).map_err(cannot)?;
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(cannot)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(Problem::of_file("the file is larger than 1 MiB, which no configuration is".to_owned()));
    }
    Ok(bytes)
}
