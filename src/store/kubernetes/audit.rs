//! `baton audit` where leases are Lease objects: whether the API server is reached, what its RBAC lets Baton do, and
//! what is in the objects. It asks for reviews and reads; it writes nothing.

use super::{KubernetesStore, ledgers};
use crate::config::Guard;
use crate::kube::{Denial, Failure, Verb};
use crate::protocol::RoleName;
use crate::protocol::jobs::JobName;
use crate::protocol::lease_object::Tenure;
use crate::store::StoreError;
use crate::store::redis::{AuditReport, Finding, Severity};

/// What each verb is for, and how bad it is to be without.
type Needs = [(Verb, Severity, &'static str)];

const OF_ROLES: &Needs = &[
    (Verb::Get, Severity::Problem, "no role can be led"),
    (Verb::Create, Severity::Problem, "no role can be led for the first time, and a deleted Lease is not put back"),
    (Verb::Update, Severity::Problem, "no role can be led"),
    (Verb::Watch, Severity::Warning, "a release is noticed by looking, within a lease, not at once"),
    (Verb::Delete, Severity::Note, "`baton purge` cannot delete the Lease of a role that is gone"),
];

const OF_LEDGERS: &Needs = &[
    (Verb::Get, Severity::Problem, "the job does not run"),
    (Verb::Create, Severity::Problem, "the job does not run"),
    (Verb::Update, Severity::Problem, "the job does not run"),
    (Verb::Delete, Severity::Note, "`baton purge --job` cannot delete the Lease of a job that is gone"),
];

const OF_PAUSE: &Needs = &[
    (Verb::Get, Severity::Problem, "jobs run though all of them are suspended"),
    (Verb::Create, Severity::Warning, "all jobs together cannot be suspended"),
    (Verb::Update, Severity::Warning, "all jobs together cannot be suspended"),
];

const OF_WISHES: &Needs = &[
    (Verb::Get, Severity::Problem, "what is asked of a job is answered with an error"),
    (Verb::Create, Severity::Problem, "what is asked of a job is answered with an error"),
    (Verb::Update, Severity::Problem, "what is asked of a job is answered with an error"),
    (Verb::Watch, Severity::Warning, "what is asked of a job is found when its leader next writes in its ledger"),
];

/// Looks at the API server with the eyes of `roles` and `jobs`.
///
/// # Errors
/// When there is no talking to it: not reached, or not let in.
pub async fn audit(
    store: &KubernetesStore,
    roles: &[RoleName],
    jobs: &[JobName],
    guard: Guard,
) -> Result<AuditReport, StoreError> {
    let version = store.api.version().await?;
    let mut findings = vec![finding(Severity::Ok, format!("Kubernetes {version}"), "", "")];
    for role in roles {
        rights(store, &store.lease(role).name, OF_ROLES, &mut findings).await?;
        findings.push(object(store, role).await?);
    }
    for job in jobs {
        let name = ledgers::name(&store.prefix, job);
        rights(store, &name, OF_LEDGERS, &mut findings).await?;
        findings.push(ledger(store, &name).await?);
    }
    if !jobs.is_empty() {
        rights(store, &ledgers::name(&store.prefix, &JobName::every()), OF_PAUSE, &mut findings).await?;
        rights(store, &ledgers::wishes_name(&store.prefix), OF_WISHES, &mut findings).await?;
    }
    if guard == Guard::Off {
        let cost = "a Lease that is deleted under its leader may be led by two at once";
        findings.push(finding(Severity::Warning, "guard is off".to_owned(), cost, "set guard: strict"));
    }
    let cost = "after a Lease was deleted, tokens rise only if the replicas' times of day agree to within a lease";
    findings.push(finding(Severity::Note, "tokens are made from the replicas' clocks".to_owned(), cost, ""));
    Ok(AuditReport { endpoint: store.api.endpoint().to_owned(), findings })
}

async fn rights(
    store: &KubernetesStore,
    name: &str,
    needs: &Needs,
    findings: &mut Vec<Finding>,
) -> Result<(), StoreError> {
    let mut allowed = Vec::new();
    for &(verb, severity, cost) in needs {
        match store.api.may(verb, name).await {
            Ok(true) => allowed.push(verb.as_str()),
            Ok(false) => {
                let what = format!("RBAC forbids to {} the Lease {name}", verb.as_str());
                let rule =
                    "a Role in its namespace with apiGroups: [coordination.k8s.io], resources: [leases], verbs: ";
                findings.push(finding(severity, what, cost, &format!("grant {rule}[{}]", verb.as_str())));
            }
            // Whether reviews may be asked for is itself a right, though everybody has it as a rule.
            Err(failure) if is_refused(&failure) => {
                let what = format!("whether it may {} the Lease {name} cannot be asked: {failure}", verb.as_str());
                findings.push(finding(Severity::Unknown, what, "", ""));
            }
            Err(failure) => return Err(failure.into()),
        }
    }
    if !allowed.is_empty() {
        let what = format!("RBAC allows to {} the Lease {name}", allowed.join(", "));
        findings.push(finding(Severity::Ok, what, "", ""));
    }
    Ok(())
}

async fn object(store: &KubernetesStore, role: &RoleName) -> Result<Finding, StoreError> {
    let lease = store.lease(role);
    let name = &lease.name;
    match super::look(&store.api, &*lease).await {
        Ok(()) => {}
        Err(failure) if is_refused(&failure) => {
            return Ok(finding(Severity::Unknown, format!("the Lease {name} cannot be read: {failure}"), "", ""));
        }
        Err(failure) => return Err(failure.into()),
    }
    let view = match lease.view() {
        Ok(view) => view,
        Err(garbage) => {
            let help = "repair its annotations, or delete it while nobody leads";
            return Ok(finding(Severity::Problem, garbage.to_string(), "the role cannot be led", help));
        }
    };
    Ok(match view.observation.record().map(|record| (record, record.tenure())) {
        None => finding(
            Severity::Note,
            format!("the Lease {name} does not exist yet"),
            "the first leader waits for one lease before it makes it",
            "",
        ),
        Some((record, Tenure::Ours(_))) => {
            finding(Severity::Ok, format!("the Lease {name} was last held by {}", record.identity), "", "")
        }
        Some((record, Tenure::Foreign(_))) => finding(
            Severity::Note,
            format!("the Lease {name} is held by {}, which is no Baton", record.identity),
            "Baton waits until that one releases it, or is silent for its lease",
            "",
        ),
        Some((_, Tenure::Released { .. })) => finding(Severity::Ok, format!("the Lease {name} is free"), "", ""),
        Some((_, Tenure::Vacant)) => finding(
            Severity::Note,
            format!("the Lease {name} names nobody, and nobody released it"),
            "the next leader waits for one lease",
            "",
        ),
    })
}

async fn ledger(store: &KubernetesStore, name: &str) -> Result<Finding, StoreError> {
    let seen = match store.api.get(name, store.api.deadline()).await {
        Ok(seen) => seen,
        Err(failure) if is_refused(&failure) => {
            return Ok(finding(Severity::Unknown, format!("the Lease {name} cannot be read: {failure}"), "", ""));
        }
        Err(failure) => return Err(failure.into()),
    };
    let Some(seen) = seen else {
        let what = format!("the Lease {name} does not exist yet");
        return Ok(finding(Severity::Note, what, "the first leader makes it", ""));
    };
    Ok(match ledgers::read(&seen) {
        Ok(cell) => {
            let bytes = cell.read().map_or(0, |stored| stored.body.len());
            let (most, help) = (ledgers::BODY_BYTES_MAX, "lower the job's history limits");
            let what = format!("the Lease {name} has a ledger of {bytes} bytes, of at most {most}");
            // A run that goes on needs room, too.
            if bytes * 4 > most * 3 {
                finding(Severity::Warning, what, "one that is longer leaves out old notes, attempts and runs", help)
            } else {
                finding(Severity::Ok, what, "", "")
            }
        }
        Err(why) => {
            let help = "repair its annotations, or delete it: its runs are forgotten then";
            finding(Severity::Problem, format!("the Lease {name} cannot be used: {why}"), "the job does not run", help)
        }
    })
}

/// Whether the server knows who asks, and has something against this one request.
const fn is_refused(failure: &Failure) -> bool {
    matches!(failure, Failure::Denied { why, .. } if !matches!(why, Denial::Unsent | Denial::Unauthorized))
}

fn finding(severity: Severity, what: String, cost: &str, remedy: &str) -> Finding {
    Finding { severity, what, cost: cost.to_owned(), remedy: remedy.to_owned() }
}
