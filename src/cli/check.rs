//! `baton check-config`: what `baton run` would say of a file, without running.

use std::path::PathBuf;

use baton::base::process::Exit;
use baton::config::{AbsentFiles, Config, Environment, StoreConfig, StoreUse};
use baton::store::redis;
use clap::Args;

use super::output::{complain, say};
use super::{Code, load};

/// Check a configuration file: every problem at once, with its line
///
/// Prints one problem a line as `FILE:LINE:COLUMN: path: what is wrong and what would
/// be right` on standard error, and ends with 64; or one line that begins with `FILE:
/// ok`, and ends with 0. Warnings go to standard error, too.
///
/// Variables are read from the environment, as `run` does. Secret and certificate files
/// that are absent are only warned of: the file may be meant for another machine. Certificate
/// files that are there must be usable, and fit each other.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
#[command(
    after_help = "Examples:\n  baton check-config config.yaml\n  REDIS_HOST=redis baton check-config config.yaml"
)]
pub struct CheckArgs {
    /// The configuration file
    #[arg(value_name = "FILE", default_value = "/etc/baton/config.yaml")]
    file: PathBuf,
}

/// Checks, and says so.
pub fn check_config(args: &CheckArgs) -> Code {
    let environment = Environment::process().absent_files(AbsentFiles::Warn);
    let loaded = match load(&args.file, &environment) {
        Ok(loaded) => loaded,
        Err(code) => return code,
    };
    let file = args.file.display().to_string();
    for warning in &loaded.warnings {
        complain(format_args!("warning: {}", warning.in_file(&file)));
    }
    let unusable = |(of, store): (StoreUse, &StoreConfig)| match store {
        StoreConfig::Redis(redis) => Some(redis::check_files(redis).err()?.in_section(of.redis_key(), "url")),
        StoreConfig::Quorum(_) | StoreConfig::Kubernetes(_) | StoreConfig::Memory => None,
    };
    let unusable: Vec<_> = loaded.config.stores().filter_map(unusable).collect();
    for error in &unusable {
        complain(format_args!("{file}: {error}"));
    }
    if !unusable.is_empty() {
        return Exit::Usage.into();
    }
    say(format_args!("{file}: ok: {}", summary(&loaded.config)));
    Exit::Well.into()
}

/// The configuration in one line, without anything secret.
fn summary(config: &Config) -> String {
    let kind = |store: &StoreConfig| match store {
        StoreConfig::Redis(_) => "redis",
        StoreConfig::Quorum(_) => "quorum",
        StoreConfig::Kubernetes(_) => "kubernetes",
        StoreConfig::Memory => "memory",
    };
    let stores = config.stores().map(|(of, store)| match of {
        StoreUse::Leases => format!("store {}", kind(store)),
        StoreUse::Locks => format!("locks in {} of their own", kind(store)),
        StoreUse::Jobs => format!("jobs in {} of their own", kind(store)),
    });
    let stores = stores.collect::<Vec<_>>().join(", ");
    let roles: Vec<&str> = config.roles().iter().map(|role| role.name.as_str()).collect();
    let count = roles.len();
    format!(
        "identity {}, {stores}, {count} role{} ({})",
        config.identity(),
        if count == 1 { "" } else { "s" },
        roles.join(", ")
    )
}
