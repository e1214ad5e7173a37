//! Dapr's Jobs API (`v1.0-alpha1`, and `v1.0` as its later releases call it), so that an app written for it works
//! unchanged. What is made here is a job that is made at run time, in other words: [`words`] translates them. Its runs
//! are requests to `POST /job/<name>` of the app beside whichever sidecar leads the role.

mod words;

use std::sync::Arc;

use hyper::StatusCode;

use super::super::runtime::{RuntimeError, RuntimeJobs};
use super::super::service::JobService;
use super::super::task::wall_now;
use crate::config::DaprJobsConfig;
use crate::http::{Ask, DaprFault, Response, Routes, decode_segment, json, no_content};
use crate::protocol::jobs::{JobName, JobPutReply};

/// What every call may use.
#[derive(Debug)]
pub struct DaprJobs {
    service: Arc<JobService>,
    config: DaprJobsConfig,
}

/// Dapr's calls, answered by this service; what is made is as this configuration says.
pub fn routes(service: Arc<JobService>, config: DaprJobsConfig) -> Routes<DaprJobs> {
    type Here = Arc<DaprJobs>;
    let mut routes = Routes::new(DaprJobs { service, config });
    for path in ["/v1.0-alpha1/jobs/{name}", "/v1.0/jobs/{name}"] {
        routes = routes
            .get(path, |here: Here, ask: Ask| async move { DaprFault::told(look(&here, &ask).await) })
            .post_json(path, |here: Here, ask: Ask| async move { DaprFault::told(schedule(&here, &ask).await) })
            .delete(path, |here: Here, ask: Ask| async move { DaprFault::told(delete(&here, &ask).await) });
    }
    routes
}

const SCHEDULE: &str = "DAPR_SCHEDULER_SCHEDULE_JOB";
const GET: &str = "DAPR_SCHEDULER_GET_JOB";
const DELETE: &str = "DAPR_SCHEDULER_DELETE_JOB";

impl DaprJobs {
    fn runtime(&self, code: &'static str) -> Result<&RuntimeJobs, DaprFault> {
        let none = || DaprFault::internal(code, "the store of this replica keeps no jobs that are made at run time");
        self.service.runtime().map(Arc::as_ref).ok_or_else(none)
    }
}

/// The name in the path, and what the job is called here.
fn name(ask: &Ask) -> Result<(String, JobName), DaprFault> {
    let bad = |why: String| DaprFault::bad("DAPR_SCHEDULER_JOB_NAME", why);
    let name = decode_segment(ask.segment("name")).map_err(|why| bad(format!("the job name: {why}")))?;
    let name = name.trim().to_owned();
    if name.is_empty() {
        return Err(DaprFault::bad("DAPR_SCHEDULER_JOB_NAME_EMPTY", "Name is empty"));
    }
    let job = words::job_name(&name).map_err(bad)?;
    Ok((name, job))
}

/// `POST`
async fn schedule(context: &DaprJobs, ask: &Ask) -> Result<Response, DaprFault> {
    let runtime = context.runtime(SCHEDULE)?;
    let (name, job) = name(ask)?;
    let body: words::Body = DaprFault::read(&ask.body)?;
    let overwrite = body.overwrite();
    let made = words::runtime_job(body, &name, &context.config, wall_now())?;
    let put = runtime.put(&job, made.to_string().as_bytes(), overwrite).await;
    match put.map_err(|error| refused(SCHEDULE, "schedule", &error))?.0 {
        // The same again is another of that name, too.
        JobPutReply::Unchanged(_) | JobPutReply::Exists(_) if !overwrite => {
            Err(refused(SCHEDULE, "schedule", &RuntimeError::Exists { job }))
        }
        JobPutReply::Created(_) | JobPutReply::Replaced(_) | JobPutReply::Unchanged(_) | JobPutReply::Exists(_) => {
            Ok(no_content())
        }
    }
}

/// `GET`
async fn look(context: &DaprJobs, ask: &Ask) -> Result<Response, DaprFault> {
    let runtime = context.runtime(GET)?;
    let (name, job) = name(ask)?;
    let view = runtime.view(&job).await.map_err(|error| refused(GET, "get", &error))?;
    let put = serde_json::from_slice(&view.job.spec).unwrap_or_default();
    Ok(json(StatusCode::OK, &words::dapr_job(&name, &put)))
}

/// `DELETE`: a job that is not there is deleted, as with Dapr.
async fn delete(context: &DaprJobs, ask: &Ask) -> Result<Response, DaprFault> {
    let runtime = context.runtime(DELETE)?;
    let (_, job) = name(ask)?;
    match runtime.delete(&job).await {
        Ok(()) | Err(RuntimeError::Unknown { .. }) => Ok(no_content()),
        Err(error) => Err(refused(DELETE, "delete", &error)),
    }
}

fn refused(code: &'static str, doing: &str, error: &RuntimeError) -> DaprFault {
    let (status, why) = match error {
        RuntimeError::Wrong(problems) => (StatusCode::BAD_REQUEST, words::told(problems)),
        RuntimeError::OfTheFile { .. } | RuntimeError::Exists { .. } => (StatusCode::CONFLICT, error.to_string()),
        RuntimeError::Unknown { .. }
        | RuntimeError::Runs { .. }
        | RuntimeError::Busy { .. }
        | RuntimeError::Store(_) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    };
    DaprFault { status, code, message: format!("failed to {doing} job due to: {why}") }
}
