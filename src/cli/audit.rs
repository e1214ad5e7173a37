//! `baton audit`: what a store can and cannot promise, as a graded report.

use std::time::{Duration, SystemTime};

use baton::clock::wall_time;
use baton::config::{Config, Environment, KubernetesConfig, StoreConfig};
use baton::process::Exit;
use baton::protocol::RoleName;
use baton::store::StoreError;
use baton::store::kubernetes::{self, KubernetesStore};
use baton::store::redis::{self, AuditReport, Finding, Severity};
use clap::Args;

use super::output::{complain, say};
use super::{Code, ConfigFile, Format, block_on, load};

/// Tell what this store can and cannot promise
///
/// Looks at the Redis that the configuration names: version, role, persistence,
/// eviction, replicas and acknowledgements, clock, latency, and the rights of its user,
/// which are tried out on keys of its own that are removed again. Each finding is
/// graded (ok, note, unknown, warning, problem), with what it costs and what would
/// help. Where leases are in Kubernetes, it looks at the API server: version, RBAC, and
/// the Lease of every role.
///
/// Ends with 0, with 1 when there is a problem, with 69 when the store cannot be talked
/// to.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
#[command(after_help = "Examples:\n  baton audit --config config.yaml\n  \
    baton audit --config config.yaml -o json | jq '.findings[] | select(.severity == \"problem\")'")]
pub struct AuditArgs {
    #[command(flatten)]
    file: ConfigFile,
    /// How to print it
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Format::Table)]
    output: Format,
}

/// How long an API server may take for each answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Looks, and reports.
pub fn audit(args: &AuditArgs) -> Code {
    let loaded = match load(&args.file.config, &Environment::process()) {
        Ok(loaded) => loaded,
        Err(code) => return code,
    };
    if matches!(loaded.config.store, StoreConfig::Memory) {
        let file = args.file.config.display();
        complain(format_args!("{file}: store: there is no Redis or Kubernetes in it to look at"));
        return Exit::Usage.into();
    }
    block_on(async {
        match look(&loaded.config).await {
            Ok((what, report)) => print(what, &report, args.output),
            Err(error) => {
                complain(format_args!("baton audit: {error}"));
                Exit::Unavailable.into()
            }
        }
    })
}

/// What was looked at, and what was found.
async fn look(config: &Config) -> Result<(&'static str, AuditReport), StoreError> {
    match &config.store {
        StoreConfig::Redis(config) => {
            let report = redis::audit(config, &|| SystemTime::from(wall_time())).await?;
            Ok(("Redis", report))
        }
        StoreConfig::Kubernetes(leases) => {
            let roles: Vec<RoleName> = config.roles.iter().map(|role| role.name.clone()).collect();
            // No lease waits for it, so a slow answer is an answer; and nothing is listened to, so the seed is nothing.
            let command_timeout = leases.command_timeout.max(PATIENCE);
            let patient = KubernetesConfig { command_timeout, ..leases.clone() };
            let store = KubernetesStore::new(&patient, command_timeout, 0);
            Ok(("API server", kubernetes::audit(&store, &roles, leases.guard).await?))
        }
        StoreConfig::Memory => Err(StoreError::Refused { reason: "the memory store is no server".to_owned() }),
    }
}

fn print(what: &str, report: &AuditReport, format: Format) -> Code {
    match format {
        Format::Json => match serde_json::to_string_pretty(report) {
            Ok(text) => say(text),
            Err(error) => {
                complain(format_args!("the report cannot be written as JSON: {error}"));
                return Exit::Bug.into();
            }
        },
        Format::Table => say(text(what, report)),
    };
    if report.worst() == Severity::Problem { Code::NO } else { Exit::Well.into() }
}

fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Ok => "ok",
        Severity::Note => "note",
        Severity::Unknown => "unknown",
        Severity::Warning => "warning",
        Severity::Problem => "PROBLEM",
    }
}

fn text(what: &str, report: &AuditReport) -> String {
    let mut lines = vec![format!("The {what} at {}", report.endpoint), String::new()];
    lines.extend(report.findings.iter().flat_map(paragraph));
    let count = |severity| report.findings.iter().filter(|finding| finding.severity == severity).count();
    lines.push(String::new());
    lines.push(format!(
        "problems: {}, warnings: {}, unknown: {}, notes: {}",
        count(Severity::Problem),
        count(Severity::Warning),
        count(Severity::Unknown),
        count(Severity::Note)
    ));
    lines.join("\n")
}

/// What was found, what it costs, and what helps, each on its line.
fn paragraph(finding: &Finding) -> Vec<String> {
    let mut lines = vec![format!("{:<9}{}", word(finding.severity), finding.what)];
    if !finding.cost.is_empty() {
        lines.push(format!("{:9}{}", "", finding.cost));
    }
    if !finding.remedy.is_empty() {
        lines.push(format!("{:9}help: {}", "", finding.remedy));
    }
    lines
}
