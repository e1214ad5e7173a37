//! The jobs of a running sidecar, as rows.

use hyper::StatusCode;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use super::roles::{moment, or_dash};
use crate::cli::client::{Api, ClientError, Reply};

/// One job, as far as it is shown.
#[derive(Debug, Deserialize)]
struct JobAnswer {
    job: String,
    role: String,
    suspended: bool,
    /// An earlier release does not know of it.
    #[serde(default)]
    paused: bool,
    next: Option<Timestamp>,
    last_success: Option<Timestamp>,
    active: Vec<RunAnswer>,
    last: Option<RunAnswer>,
}

/// One run, as far as it is shown.
#[derive(Debug, Deserialize)]
struct RunAnswer {
    phase: String,
    reason: Option<String>,
}

/// Asks for all jobs. None where there can be none: the store has no ledgers, or the sidecar is of an earlier release.
pub(super) async fn ask(api: &Api) -> Result<Option<Reply>, ClientError> {
    let reply = api.get("/jobs").await?;
    match reply.status {
        StatusCode::OK => Ok(Some(reply)),
        StatusCode::NOT_IMPLEMENTED | StatusCode::NOT_FOUND => Ok(None),
        status => Err(api.foreign(format!("GET /jobs is answered with {status}"))),
    }
}

/// The table; no row without jobs.
pub(super) fn rows(reply: &Reply) -> Result<Vec<Vec<String>>, ClientError> {
    Ok(table(&reply.json::<Vec<JobAnswer>>()?))
}

/// The same of jobs as they were told.
pub(in crate::cli) fn rows_of(jobs: &[Value]) -> Result<Vec<Vec<String>>, serde_json::Error> {
    let jobs: Result<Vec<JobAnswer>, _> = jobs.iter().map(JobAnswer::deserialize).collect();
    jobs.map(|jobs| table(&jobs))
}

fn table(jobs: &[JobAnswer]) -> Vec<Vec<String>> {
    let header = ["JOB", "ROLE", "NEXT", "LAST SUCCESS", "LAST RUN", "ACTIVE"].map(str::to_owned).to_vec();
    let rows: Vec<Vec<String>> = jobs.iter().map(row).collect();
    if rows.is_empty() { rows } else { std::iter::once(header).chain(rows).collect() }
}

fn row(job: &JobAnswer) -> Vec<String> {
    let time = |at: Option<Timestamp>| or_dash(at.map(moment).as_deref());
    let last = job.last.as_ref().map_or_else(|| "-".to_owned(), |run| run.reason.clone().unwrap_or(run.phase.clone()));
    vec![
        job.job.clone(),
        job.role.clone(),
        match (job.suspended, job.paused) {
            (true, _) => "suspended".to_owned(),
            (false, true) => "all suspended".to_owned(),
            (false, false) => time(job.next),
        },
        time(job.last_success),
        last,
        job.active.len().to_string(),
    ]
}
