//! The calls of jobs that are made at run time.

use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use hyper::header::{HeaderValue, LINK, LOCATION};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use super::super::runtime::{RuntimeError, RuntimeJobs, RuntimeView};
use super::super::service::{JobError, JobService};
use super::{JobCalls, requests, responses};
use crate::config::ConfigProblem;
use crate::http::{
    Ask, Problem, ProblemKind, Response, bad_body, bad_parameter, bad_value, json as answer_json, no_content,
    read_encoded_query, shown,
};
use crate::protocol::jobs::{JobName, JobPutReply, RunId, RunRecord, RunRequest, RuntimeState, Slot, Wall};
use crate::store::StoreError;

/// How many jobs that were made at run time a page has unless it is asked for another number, and at the most.
const PAGE: usize = 100;
const PAGE_MAX: usize = 1_000;
/// How soon to ask again when nothing better is known.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// In the place of the values of headers, which may be secrets.
const HIDDEN: &str = "…";

/// Which of them are asked for: so many after this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) limit: usize,
    /// With a name, the jobs of the configuration are not asked for.
    pub(super) after: Option<JobName>,
}

impl Page {
    /// What `GET /jobs` asks for.
    pub(super) fn parse(query: &str) -> Result<Self, Problem> {
        let [limit, after] = read_encoded_query(query, ["limit", "after"])?;
        let limit = limit.map(|value| requests::page_limit(&value, PAGE_MAX)).transpose()?;
        let after = after.map(|value| {
            JobName::new(value.as_str()).map_err(|_| bad_value("after", &value, "the name of a job is wanted"))
        });
        Ok(Self { limit: limit.unwrap_or(PAGE), after: after.transpose()? })
    }

    /// The page after this one, whose last job this is.
    pub(super) fn next(&self, last: &JobName) -> Option<HeaderValue> {
        HeaderValue::try_from(format!("</jobs?limit={}&after={last}>; rel=\"next\"", self.limit)).ok()
    }
}

/// `PUT /jobs/{name}`
pub(super) async fn put(context: Arc<JobCalls>, ask: Ask) -> Result<Response, Problem> {
    let runtime = runtime(context.service()?)?;
    let overwrite = overwrite(&ask.query)?;
    let name = name(&ask)?;
    let (reply, job) = runtime.put(&name, &ask.body, overwrite).await.map_err(refused)?;
    let status = match reply {
        JobPutReply::Created(_) => StatusCode::CREATED,
        JobPutReply::Replaced(_) | JobPutReply::Unchanged(_) | JobPutReply::Exists(_) => StatusCode::OK,
    };
    let mut response = answer_json(status, &json!({"job": name.as_str(), "role": job.role.as_str()}));
    // Names of jobs are fit for headers.
    if let Ok(location) = HeaderValue::try_from(format!("/jobs/{name}")) {
        response.headers_mut().insert(LOCATION, location);
    }
    Ok(response)
}

/// `DELETE /jobs/{name}`
pub(super) async fn delete(context: Arc<JobCalls>, ask: Ask) -> Result<Response, Problem> {
    let runtime = runtime(context.service()?)?;
    requests::no_parameters(&ask.query)?;
    runtime.delete(&name(&ask)?).await.map_err(refused)?;
    Ok(no_content())
}

fn runtime(service: &JobService) -> Result<&RuntimeJobs, Problem> {
    let none = "jobs can be made at run time only where they are kept in Redis (or in memory): name one in jobsStore";
    service.runtime().map(Arc::as_ref).ok_or_else(|| Problem::new(ProblemKind::JobsDisabled, none))
}

/// Those that are made at run time, for a name that the configuration does not have. Any other error is answered.
pub(super) fn instead<'a>(service: &'a JobService, error: &JobError) -> Result<(&'a RuntimeJobs, JobName), Problem> {
    let found = if let JobError::UnknownJob { name, .. } = error {
        service.runtime().zip(JobName::new(name.as_str()).ok())
    } else {
        None
    };
    let found = found.map(|(runtime, name)| (runtime.as_ref(), name));
    found.ok_or_else(|| responses::refused(error.clone()))
}

/// Why nothing came of it there, either: a name that nobody knows is told with those that the configuration has.
pub(super) fn neither(error: JobError, made: RuntimeError) -> Problem {
    if matches!(made, RuntimeError::Unknown { .. }) { responses::refused(error) } else { refused(made) }
}

/// A run of such a job that is asked for is given what all of them are.
pub(super) fn plain(request: &RunRequest) -> Result<(), Problem> {
    match request {
        RunRequest { data: None, key: None } => Ok(()),
        RunRequest { .. } => Err(bad_body(
            "a job that was made at run time gives all its runs the same data, and a run of it that is asked for takes \
             neither data nor an Idempotency-Key",
        )),
    }
}

fn name(ask: &Ask) -> Result<JobName, Problem> {
    let name = requests::segment(ask.segment("name"))?;
    JobName::new(name.chars().take(80).collect::<String>()).map_err(|error| bad_parameter(error.to_string()))
}

fn overwrite(query: &str) -> Result<bool, Problem> {
    match query {
        "" | "overwrite=true" => Ok(true),
        "overwrite=false" => Ok(false),
        other => Err(bad_parameter(format!("{}: there is overwrite, true or false", shown(other)))),
    }
}

/// Why nothing came of a request.
pub(super) fn refused(error: RuntimeError) -> Problem {
    let detail = error.to_string();
    match error {
        RuntimeError::OfTheFile { .. } => Problem::new(ProblemKind::ConfiguredJob, detail),
        RuntimeError::Wrong(problems) => {
            let problem = |problem: &ConfigProblem| json!({"path": problem.path, "message": problem.message});
            let problems: Vec<Value> = problems.iter().map(problem).collect();
            Problem::new(ProblemKind::BadBody, detail).with("problems", problems.into())
        }
        RuntimeError::Exists { .. } => Problem::new(ProblemKind::JobExists, detail),
        RuntimeError::Unknown { .. } => Problem::new(ProblemKind::UnknownJob, detail),
        RuntimeError::Runs { .. } => Problem::new(ProblemKind::JobRuns, detail).with_retry_after(RETRY_AFTER),
        RuntimeError::Store(StoreError::Refused { ref reason }) if reason.contains("(OOM)") => {
            Problem::new(ProblemKind::StoreFull, detail)
        }
        RuntimeError::Store(_) | RuntimeError::Busy { .. } => {
            Problem::new(ProblemKind::StoreUnavailable, detail).with_retry_after(RETRY_AFTER)
        }
    }
}

/// A moment as people read it; none when no calendar has it.
fn time(at: Wall) -> Option<Timestamp> {
    Timestamp::from_millisecond(i64::try_from(at.as_millis()).ok()?).ok()
}

#[derive(Serialize)]
struct JobShape<'a> {
    job: &'a str,
    role: &'a str,
    schedule: String,
    concurrency_policy: &'static str,
    suspended: bool,
    paused: bool,
    leader: bool,
    holder: Option<&'a str>,
    next: Option<Timestamp>,
    last_success: Option<Timestamp>,
    active: Vec<RunShape>,
    last: Option<RunShape>,
    without_run: [(); 0],
    backfill: (),
    runtime: RuntimeShape,
}

/// What only those that are made at run time have.
#[derive(Serialize)]
struct RuntimeShape {
    runs: Option<u32>,
    spec: Value,
}

#[derive(Serialize)]
struct RunShape {
    run: String,
    scheduled: Option<Timestamp>,
    manual: bool,
    phase: &'static str,
    reason: Option<&'static str>,
    next_attempt: Option<Timestamp>,
    ordered: (),
    started: Option<Timestamp>,
    ended: Option<Timestamp>,
    attempts: [(); 0],
}

impl RunShape {
    fn new(view: &RuntimeView, at: Wall, is_slot: bool) -> Self {
        let is_slot = is_slot && at.as_millis().is_multiple_of(1_000);
        let slot = if is_slot { Slot::Scheduled(at) } else { Slot::Manual(at) };
        Self {
            run: RunId { job: view.name.clone(), slot }.to_string(),
            scheduled: time(at),
            manual: !is_slot,
            phase: "running",
            reason: None,
            next_attempt: None,
            ordered: (),
            started: None,
            ended: None,
            attempts: [],
        }
    }

    fn last(view: &RuntimeView, last: &RunRecord, is_slot: bool) -> Self {
        Self {
            phase: if last.failure.is_some() { "failed" } else { "succeeded" },
            reason: last.failure.map(|failure| failure.as_str()),
            ended: time(last.ended),
            ..Self::new(view, last.slot, is_slot)
        }
    }
}

/// The run that goes on, and the last one that ended.
fn shapes(view: &RuntimeView, is_slot: bool) -> [Option<RunShape>; 2] {
    let (job, state) = (&view.job, view.state.as_ref());
    let active = (job.attempt > 0).then(|| {
        let started = state.and_then(|state| state.began).and_then(time);
        let (phase, next_attempt) = if job.taken { ("running", None) } else { ("waiting", time(job.due)) };
        RunShape { phase, next_attempt, started, ..RunShape::new(view, job.slot, is_slot) }
    });
    let last = state.and_then(|state| state.last.as_ref());
    [active, last.map(|last| RunShape::last(view, last, is_slot))]
}

/// What was put, and its schedule.
fn spec(view: &RuntimeView) -> (Value, Option<String>) {
    let mut spec: Value = serde_json::from_slice(&view.job.spec).unwrap_or_default();
    let schedule = spec.get("schedule").and_then(Value::as_str).map(str::to_owned);
    hide(&mut spec);
    (spec, schedule)
}

/// 200: the runs that are remembered, newest first: there are never more than two.
pub(super) fn runs(view: &RuntimeView) -> Response {
    let runs: Vec<RunShape> = shapes(view, spec(view).1.is_some()).into_iter().flatten().collect();
    answer_json(StatusCode::OK, &json!({"runs": runs, "next": null}))
}

/// A job as it is told.
pub(super) fn shape(view: &RuntimeView) -> impl Serialize + '_ {
    let (job, state) = (&view.job, view.state.as_ref());
    let (spec, schedule) = spec(view);
    let [active, last] = shapes(view, schedule.is_some());
    let succeeded = state.and_then(|state| state.last.as_ref()).filter(|last| last.failure.is_none());
    let begun = job.attempt > 0;
    JobShape {
        job: view.name.as_str(),
        role: job.role.as_str(),
        schedule: schedule.unwrap_or_else(|| "once".to_owned()),
        concurrency_policy: "Forbid",
        suspended: job.suspended,
        paused: view.paused,
        leader: view.leads,
        holder: view.holder.as_deref(),
        next: if begun || job.suspended || view.paused { None } else { time(job.due) },
        last_success: succeeded.and_then(|last| time(last.ended)),
        active: active.into_iter().collect(),
        last,
        without_run: [],
        backfill: (),
        runtime: RuntimeShape { runs: state.map(|state: &RuntimeState| state.runs), spec },
    }
}

/// Nobody is shown what may be a secret.
fn hide(spec: &mut Value) {
    let headers = spec.pointer_mut("/run/http/headers").and_then(Value::as_array_mut);
    for value in headers.into_iter().flatten().filter_map(|header| header.get_mut("value")) {
        *value = HIDDEN.into();
    }
}

/// 200: one job.
pub(super) fn one(view: &RuntimeView) -> Response {
    answer_json(StatusCode::OK, &shape(view))
}

/// The header that leads to the next page.
pub(super) fn with_next(mut response: Response, next: Option<HeaderValue>) -> Response {
    if let Some(next) = next {
        response.headers_mut().insert(LINK, next);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_bounded_and_says_where_it_begins() {
        assert_eq!(Page::parse("").unwrap(), Page { limit: PAGE, after: None });
        let after = JobName::new("order-7").ok();
        let page = Page::parse("limit=2&after=order-7").unwrap();
        assert_eq!(page, Page { limit: 2, after: after.clone() });
        assert_eq!(page.next(&after.unwrap()).unwrap(), "</jobs?limit=2&after=order-7>; rel=\"next\"");
        for bad in ["limit=0", "limit=1001", "limit=x", "after=", "after=A", "after=a&after=b", "before=a"] {
            assert_eq!(Page::parse(bad).unwrap_err().kind(), ProblemKind::BadParameter, "{bad}");
        }
        for (query, wanted) in [("", Some(true)), ("overwrite=true", Some(true)), ("overwrite=false", Some(false))] {
            assert_eq!(overwrite(query).ok(), wanted);
        }
        assert_eq!(overwrite("overwrite=no").unwrap_err().kind(), ProblemKind::BadParameter);
    }

    #[test]
    fn values_of_headers_are_not_shown() {
        let mut spec = json!({"run": {"http": {"url": "x", "headers": [{"name": "A", "value": "s3cret"}]}}});
        hide(&mut spec);
        assert_eq!(spec["run"]["http"]["headers"][0], json!({"name": "A", "value": HIDDEN}));
    }
}
