//! What requests for jobs are answered.

use std::time::Duration;

use hyper::StatusCode;
use hyper::header::{HeaderValue, LOCATION};
use jiff::Timestamp;
use serde::Serialize;

use super::super::service::{JobError, JobView};
use super::requests::Page;
use crate::http::{Content, Problem, ProblemKind, Response, answer, json};
use crate::protocol::jobs::{
    Backfill, Concurrency, Gap, Phase, Run, RunAttempt, RunId, RunWish, Slot, Timetable, Wall,
};

/// How soon to ask again when nothing better is known.
const RETRY_AFTER: Duration = Duration::from_secs(1);

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
    without_run: Vec<GapShape>,
    backfill: Option<BackfillShape>,
}

#[derive(Serialize)]
struct BackfillShape {
    from: Option<Timestamp>,
    to: Option<Timestamp>,
    slots: u64,
    last: Option<Timestamp>,
    done: Option<Timestamp>,
}

#[derive(Serialize)]
struct RunShape {
    run: String,
    scheduled: Option<Timestamp>,
    manual: bool,
    phase: &'static str,
    reason: Option<&'static str>,
    next_attempt: Option<Timestamp>,
    ordered: Option<&'static str>,
    started: Option<Timestamp>,
    ended: Option<Timestamp>,
    attempts: Vec<AttemptShape>,
}

#[derive(Serialize)]
struct AttemptShape {
    attempt: u32,
    token: u64,
    term: u64,
    identity: String,
    started: Option<Timestamp>,
    ended: Option<Timestamp>,
    outcome: Option<&'static str>,
    note: String,
}

#[derive(Serialize)]
struct GapShape {
    reason: &'static str,
    first: Option<Timestamp>,
    last: Option<Timestamp>,
    slots: u64,
}

#[derive(Serialize)]
struct RunsShape {
    runs: Vec<RunShape>,
    next: Option<String>,
}

#[derive(Serialize)]
struct AskedShape {
    run: String,
}

impl AttemptShape {
    fn new(attempt: &RunAttempt) -> Self {
        Self {
            attempt: attempt.number,
            token: attempt.token.get(),
            term: attempt.term.get(),
            identity: attempt.by.to_string(),
            started: time(attempt.claimed),
            ended: attempt.end.and_then(|(at, _)| time(at)),
            outcome: attempt.end.map(|(_, ending)| ending.as_str()),
            note: attempt.note.clone(),
        }
    }
}

impl RunShape {
    fn new(view: &JobView, slot: Slot, run: &Run) -> Self {
        let (reason, next_attempt) = match run.phase {
            Phase::Asked | Phase::Running | Phase::Succeeded => (None, None),
            Phase::Waiting { until } => (None, time(until)),
            Phase::Failed(failure) => (Some(failure.as_str()), None),
        };
        Self {
            run: RunId { job: view.config.name.clone(), slot }.to_string(),
            scheduled: time(slot.at()),
            manual: !matches!(slot, Slot::Scheduled(_)),
            phase: run.phase.as_str(),
            reason,
            next_attempt,
            ordered: run.wish().map(RunWish::as_str),
            started: run.began.and_then(time),
            ended: run.ended.and_then(time),
            attempts: run.attempts.iter().map(AttemptShape::new).collect(),
        }
    }
}

impl GapShape {
    fn new(gap: &Gap) -> Self {
        Self { reason: gap.reason.as_str(), first: time(gap.first), last: time(gap.last), slots: gap.count }
    }
}

impl BackfillShape {
    fn new(backfill: &Backfill) -> Self {
        let Backfill { from, to, last, done, slots, asked: _ } = *backfill;
        // Nothing is done before it has begun.
        let done = if done < from { None } else { time(done) };
        Self { from: time(from), to: time(to), slots, last: time(last), done }
    }
}

impl<'a> JobShape<'a> {
    fn new(view: &'a JobView) -> Self {
        let (config, ledger) = (&view.config, view.ledger.as_ref());
        let runs = || ledger.iter().flat_map(|ledger| &ledger.runs);
        let shape = |(slot, run): (&Slot, &Run)| RunShape::new(view, *slot, run);
        let over = runs().filter(|(_, run)| run.phase.is_over());
        Self {
            job: config.name.as_str(),
            role: config.role.as_str(),
            schedule: config.schedule.name(),
            concurrency_policy: match config.policy.concurrency {
                Concurrency::Allow => "Allow",
                Concurrency::Forbid => "Forbid",
                Concurrency::Replace => "Replace",
            },
            suspended: ledger.map_or(config.policy.suspend, |ledger| ledger.suspension.is_own()),
            paused: view.paused,
            leader: view.leads,
            holder: view.holder.as_deref(),
            next: view.next.and_then(time),
            last_success: ledger.and_then(|ledger| ledger.last_success).and_then(time),
            active: runs().filter(|(_, run)| !run.phase.is_over()).map(shape).collect(),
            last: over.max_by_key(|(slot, run)| (run.ended, slot.at())).map(shape),
            without_run: ledger.iter().flat_map(|ledger| ledger.gaps.iter().rev().map(GapShape::new)).collect(),
            backfill: ledger.and_then(|ledger| ledger.backfills.going_on()).map(BackfillShape::new),
        }
    }
}

/// A list of jobs that is written job by job: thousands at once would take longer than a renewal may wait.
#[derive(Default)]
pub(super) struct List(Vec<u8>);

impl List {
    /// The next job.
    pub(super) fn add(&mut self, view: &JobView) {
        self.push(&JobShape::new(view));
    }

    /// The next job, in whatever shape.
    pub(super) fn push(&mut self, job: &impl Serialize) {
        self.0.push(if self.0.is_empty() { b'[' } else { b',' });
        // Nothing of it is such that it could not be written.
        let _ = serde_json::to_writer(&mut self.0, job);
    }

    /// 200: every job.
    pub(super) fn end(mut self) -> Response {
        self.0.extend_from_slice(if self.0.is_empty() { b"[]" } else { b"]" });
        answer(StatusCode::OK, "application/json", Content::Whole(self.0.into()))
    }
}

/// 200: one job.
pub(super) fn one(view: &JobView) -> Response {
    json(StatusCode::OK, &JobShape::new(view))
}

/// 200: the runs that are remembered, newest first, a page at a time.
pub(super) fn runs(view: &JobView, page: &Page) -> Response {
    // Newest first, whatever asked for them; the id settles which of two of the same moment comes first.
    let key = |slot: Slot| (slot.at(), slot);
    let mut slots: Vec<(&Slot, &Run)> = view.ledger.iter().flat_map(|ledger| &ledger.runs).collect();
    slots.retain(|(slot, _)| page.before.is_none_or(|before| key(**slot) < key(before)));
    slots.sort_by_key(|(slot, _)| std::cmp::Reverse(key(**slot)));
    let more = slots.len() > page.limit;
    slots.truncate(page.limit);
    let next = slots.last().filter(|_| more).map(|(slot, _)| slot.to_string());
    let runs = slots.into_iter().map(|(slot, run)| RunShape::new(view, *slot, run)).collect();
    json(StatusCode::OK, &RunsShape { runs, next })
}

/// 202: a run will begin, or end.
pub(super) fn asked(run: &RunId) -> Response {
    let mut response = json(StatusCode::ACCEPTED, &AskedShape { run: run.to_string() });
    // Names of jobs are fit for headers.
    let job = run.job.as_str().replace('/', "%2F");
    if let Ok(location) = HeaderValue::try_from(format!("/jobs/{job}/runs")) {
        response.headers_mut().insert(LOCATION, location);
    }
    response
}

/// 202: the slots of a range will be run.
pub(super) fn backfill(backfill: &Backfill) -> Response {
    json(StatusCode::ACCEPTED, &BackfillShape::new(backfill))
}

/// Why nothing came of a request.
pub(super) fn refused(error: JobError) -> Problem {
    let detail = error.to_string();
    match error {
        JobError::UnknownJob { known, .. } => Problem::new(ProblemKind::UnknownJob, detail).with_known(known),
        JobError::UnknownRun { .. } => Problem::new(ProblemKind::UnknownRun, detail),
        JobError::RunEnded { .. } => Problem::new(ProblemKind::RunEnded, detail),
        JobError::NotFailed { .. } => Problem::new(ProblemKind::RunNotFailed, detail),
        JobError::NotRunning { .. } => Problem::new(ProblemKind::RunOver, detail),
        JobError::NoData { .. } | JobError::BadBackfill { .. } => Problem::new(ProblemKind::BadBody, detail),
        JobError::BackfillRefused { .. } => Problem::new(ProblemKind::BackfillRefused, detail),
        JobError::OtherData { .. } => Problem::new(ProblemKind::IdempotencyKeyReused, detail),
        JobError::TooManyAsked { .. } | JobError::TooMuchData { .. } => {
            Problem::new(ProblemKind::TooManyRuns, detail).with_retry_after(RETRY_AFTER)
        }
        JobError::Ledger(_) | JobError::Busy { .. } => {
            Problem::new(ProblemKind::StoreUnavailable, detail).with_retry_after(RETRY_AFTER)
        }
    }
}
