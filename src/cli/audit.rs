//! `baton audit`: what a store can and cannot promise, as a graded report.

use std::time::{Duration, SystemTime};

use baton::clock::wall_time;
use baton::config::{Environment, KubernetesConfig, RoleConfig, StoreConfig};
use baton::process::Exit;
use baton::protocol::RoleName;
use baton::store::StoreError;
use baton::store::kubernetes::{self, KubernetesStore};
use baton::store::redis::{self, AuditReport, Finding, QuorumReport, Severity};
use clap::Args;
use serde::Serialize;

use super::output::{complain, say};
use super::{Code, ConfigFile, Format, block_on, load};

/// Tell what this store can and cannot promise
///
/// Looks at the Redis that the configuration names: version, role, persistence,
/// eviction, replicas and acknowledgements, clock, latency, and the rights of its user,
/// which are tried out on keys of its own that are removed again. Each finding is
/// graded (ok, note, unknown, warning, problem), with what it costs and what would
/// help. Of a quorum it looks at every member, and at what they are together. Where
/// leases are in Kubernetes, it looks at the API server: version, RBAC, and the Lease of
/// every role.
///
/// Ends with 0, with 1 when there is a problem, with 69 when the store, or every member
/// of the quorum, cannot be talked to.
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
    let clock = || SystemTime::from(wall_time());
    let config = &loaded.config;
    block_on(async {
        match &config.store {
            StoreConfig::Redis(redis) => tell("Redis", redis::audit(redis, &clock).await, args.output),
            StoreConfig::Quorum(quorum) => {
                let report = redis::audit_quorum(&quorum.members, quorum.seats(), &clock).await;
                let code = print(&report, report.worst(), quorum_text, args.output);
                if report.answered == 0 { Exit::Unavailable.into() } else { code }
            }
            StoreConfig::Kubernetes(leases) => {
                tell("API server", audit_kubernetes(leases, &config.roles).await, args.output)
            }
            StoreConfig::Memory => {
                let file = args.file.config.display();
                complain(format_args!("{file}: store: there is no Redis or Kubernetes in it to look at"));
                Exit::Usage.into()
            }
        }
    })
}

async fn audit_kubernetes(leases: &KubernetesConfig, roles: &[RoleConfig]) -> Result<AuditReport, StoreError> {
    let roles: Vec<RoleName> = roles.iter().map(|role| role.name.clone()).collect();
    // No lease waits for it, so a slow answer is an answer; and nothing is listened to, so the seed is nothing.
    let command_timeout = leases.command_timeout.max(PATIENCE);
    let patient = KubernetesConfig { command_timeout, ..leases.clone() };
    let store = KubernetesStore::new(&patient, command_timeout, 0);
    kubernetes::audit(&store, &roles, leases.guard).await
}

/// Prints what was found where there was one server to look at.
fn tell(what: &str, report: Result<AuditReport, StoreError>, format: Format) -> Code {
    match report {
        Ok(report) => print(&report, report.worst(), |report| text(what, report), format),
        Err(error) => {
            complain(format_args!("baton audit: {error}"));
            Exit::Unavailable.into()
        }
    }
}

fn print<R: Serialize>(report: &R, worst: Severity, text: impl FnOnce(&R) -> String, format: Format) -> Code {
    match format {
        Format::Json => match serde_json::to_string_pretty(report) {
            Ok(text) => say(text),
            Err(error) => {
                complain(format_args!("the report cannot be written as JSON: {error}"));
                return Exit::Bug.into();
            }
        },
        Format::Table => say(text(report)),
    };
    if worst == Severity::Problem { Code::NO } else { Exit::Well.into() }
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
    let mut lines = chapter(what, report);
    lines.push(summary(report.findings.iter()));
    lines.join("\n")
}

/// The members one after another, then what they are together.
fn quorum_text(report: &QuorumReport) -> String {
    let mut lines: Vec<String> = report.members.iter().flat_map(|member| chapter("Redis", member)).collect();
    lines.extend(["The members together".to_owned(), String::new()]);
    lines.extend(report.findings.iter().flat_map(paragraph));
    lines.push(String::new());
    lines.push(summary(report.members.iter().flat_map(|member| &member.findings).chain(&report.findings)));
    lines.join("\n")
}

fn chapter(what: &str, report: &AuditReport) -> Vec<String> {
    let mut lines = vec![format!("The {what} at {}", report.endpoint), String::new()];
    lines.extend(report.findings.iter().flat_map(paragraph));
    lines.push(String::new());
    lines
}

fn summary<'f>(findings: impl Iterator<Item = &'f Finding> + Clone) -> String {
    let count = |severity| findings.clone().filter(|finding| finding.severity == severity).count();
    format!(
        "problems: {}, warnings: {}, unknown: {}, notes: {}",
        count(Severity::Problem),
        count(Severity::Warning),
        count(Severity::Unknown),
        count(Severity::Note)
    )
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
