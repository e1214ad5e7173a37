//! `baton audit`: what a store can and cannot promise, as a graded report.

use std::time::{Duration, SystemTime};

use baton::base::clock::wall_time;
use baton::base::process::Exit;
use baton::config::{Config, Environment, KubernetesConfig, StoreConfig, StoreUse};
use baton::protocol::RoleName;
use baton::protocol::jobs::JobName;
use baton::store::StoreError;
use baton::store::kubernetes::{self, KubernetesStore};
use baton::store::redis::{self, AuditReport, Finding, QuorumReport, Severity};
use clap::Args;
use serde_json::Value;

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
/// every role and every job. A Redis that locks or jobs have for themselves is looked at
/// as well.
///
/// Ends with 0, with 1 when there is a problem, with 69 when a store, or every member of
/// the quorum, cannot be talked to.
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
    let config = match load(&args.file.config, &Environment::process()) {
        Ok(loaded) => loaded.config,
        Err(code) => return code,
    };
    if config.stores().all(|(_, store)| matches!(store, StoreConfig::Memory)) {
        let file = args.file.config.display();
        complain(format_args!("{file}: store: there is no Redis or Kubernetes in it to look at"));
        return Exit::Usage.into();
    }
    block_on(async {
        let (mut found, mut all_answered) = (Vec::new(), true);
        for (of, store) in config.stores() {
            match look(&config, of, store).await {
                Ok(report) => found.extend(report.map(|report| (of, report))),
                Err(error) => {
                    all_answered = false;
                    complain(format_args!("baton audit: {}{error}", of_whom(of)));
                }
            }
        }
        all_answered &= found.iter().all(|(_, report)| report.answered());
        let code = if found.is_empty() { Exit::Unavailable.into() } else { print(&found, args.output) };
        if all_answered { code } else { Exit::Unavailable.into() }
    })
}

/// What was found about a store.
enum Report {
    /// What it is, and what was found.
    One(&'static str, AuditReport),
    Quorum(QuorumReport),
}

impl Report {
    fn answered(&self) -> bool {
        match self {
            Self::One(..) => true,
            Self::Quorum(report) => report.answered > 0,
        }
    }

    fn findings(&self) -> Vec<&Finding> {
        match self {
            Self::One(_, report) => report.findings.iter().collect(),
            Self::Quorum(report) => {
                report.members.iter().flat_map(|member| &member.findings).chain(&report.findings).collect()
            }
        }
    }

    /// Of a quorum the members one after another, then what they are together.
    fn lines(&self) -> Vec<String> {
        match self {
            Self::One(what, report) => chapter(what, report),
            Self::Quorum(report) => {
                let mut lines: Vec<String> = report.members.iter().flat_map(|one| chapter("Redis", one)).collect();
                lines.extend(["The members together".to_owned(), String::new()]);
                lines.extend(report.findings.iter().flat_map(paragraph));
                lines.push(String::new());
                lines
            }
        }
    }

    fn json(&self) -> serde_json::Result<Value> {
        match self {
            Self::One(_, report) => serde_json::to_value(report),
            Self::Quorum(report) => serde_json::to_value(report),
        }
    }
}

fn of_whom(of: StoreUse) -> &'static str {
    match of {
        StoreUse::Leases => "",
        StoreUse::Locks => "locks.store: ",
        StoreUse::Jobs => "jobsStore: ",
    }
}

/// Looks at one store; none where there is nothing to look at.
async fn look(config: &Config, of: StoreUse, store: &StoreConfig) -> Result<Option<Report>, StoreError> {
    let clock = || SystemTime::from(wall_time());
    Ok(match store {
        StoreConfig::Redis(redis) => {
            let (what, uses) = match of {
                StoreUse::Leases => {
                    let here = |of: &StoreUse| config.own_store(*of).is_none();
                    let all = [StoreUse::Leases, StoreUse::Locks, StoreUse::Jobs];
                    ("Redis", all.into_iter().filter(here).collect())
                }
                StoreUse::Locks => ("Redis of the locks (locks.store)", vec![of]),
                StoreUse::Jobs => ("Redis of the jobs (jobsStore)", vec![of]),
            };
            Some(Report::One(what, redis::audit(redis, &uses, &clock).await?))
        }
        StoreConfig::Quorum(quorum) => {
            Some(Report::Quorum(redis::audit_quorum(&quorum.members, quorum.seats(), &clock).await))
        }
        StoreConfig::Kubernetes(leases) => Some(Report::One("API server", audit_kubernetes(leases, config).await?)),
        StoreConfig::Memory => None,
    })
}

async fn audit_kubernetes(leases: &KubernetesConfig, config: &Config) -> Result<AuditReport, StoreError> {
    let roles: Vec<RoleName> = config.roles().iter().map(|role| role.name.clone()).collect();
    let here = config.own_store(StoreUse::Jobs).is_none();
    let jobs: Vec<JobName> = config.jobs().iter().filter(|_| here).map(|job| job.name.clone()).collect();
    // No lease waits for it, so a slow answer is an answer; and nothing is listened to, so the seed is nothing.
    let command_timeout = leases.command_timeout.max(PATIENCE);
    let patient = KubernetesConfig { command_timeout, ..leases.clone() };
    let store = KubernetesStore::new(&patient, command_timeout, 0);
    kubernetes::audit(&store, &roles, &jobs, leases.guard).await
}

/// As JSON: the report of the store itself, and those of the others below their keys in it.
fn print(found: &[(StoreUse, Report)], format: Format) -> Code {
    let findings: Vec<&Finding> = found.iter().flat_map(|(_, report)| report.findings()).collect();
    match format {
        Format::Json => match json(found) {
            Ok(text) => say(text),
            Err(error) => {
                complain(format_args!("the report cannot be written as JSON: {error}"));
                return Exit::Bug.into();
            }
        },
        Format::Table => {
            let mut lines: Vec<String> = found.iter().flat_map(|(_, report)| report.lines()).collect();
            lines.push(summary(&findings));
            say(lines.join("\n"))
        }
    };
    let is_bad = findings.iter().any(|finding| finding.severity == Severity::Problem);
    if is_bad { Code::NO } else { Exit::Well.into() }
}

fn json(found: &[(StoreUse, Report)]) -> serde_json::Result<String> {
    let mut whole = Value::Object(serde_json::Map::new());
    for (of, report) in found {
        match of {
            StoreUse::Leases => whole = report.json()?,
            StoreUse::Locks => whole["locksStore"] = report.json()?,
            StoreUse::Jobs => whole["jobsStore"] = report.json()?,
        }
    }
    serde_json::to_string_pretty(&whole)
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

fn chapter(what: &str, report: &AuditReport) -> Vec<String> {
    let mut lines = vec![format!("The {what} at {}", report.endpoint), String::new()];
    lines.extend(report.findings.iter().flat_map(paragraph));
    lines.push(String::new());
    lines
}

fn summary(findings: &[&Finding]) -> String {
    let count = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
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
