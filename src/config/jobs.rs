//! `jobs:`, all but what a run is.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::runs::{self, RUN, RunConfig};
use super::section::{Group, Key, Or, Reader, Section, key, required};
use super::value::{Count, Flag, Form, LABEL, List, Span, Text, Words};
use crate::base::duration;
use crate::protocol::jobs::{BackoffPolicy, CatchUp, Concurrency, HistoryLimits, JobName, JobPolicy, OnInterrupt};
use crate::protocol::{RoleName, Timing};
use crate::schedule::{Schedule, ScheduleError, offset_of};

/// One of `jobs:`
#[derive(Clone, Debug, PartialEq)]
pub struct JobConfig {
    pub name: JobName,
    /// Whose leader starts it; one of `roles`.
    pub role: RoleName,
    pub schedule: Arc<Schedule>,
    pub policy: JobPolicy,
    /// How long a run may go on when the role is handed over.
    pub finish_within: Duration,
    pub run: RunConfig,
}

/// More jobs than anybody has; each costs the leader a look at every slot.
const JOBS_MAX: usize = 10_000;
/// A year.
const SECONDS: Count = Count(1, 365 * 24 * 3_600);
const KEPT: Count = Count(0, 1_000);
const BACKOFF_LONGEST: Duration = Duration::from_secs(24 * 3_600);
const JITTER_LONGEST: Duration = Duration::from_secs(24 * 3_600);

pub(super) const JOBS: Key<List<Group>> = key(
    "jobs",
    List { item: Group(&JOB), min: 0, max: JOBS_MAX },
    "Scheduled runs, each started once across the replicas, by the leader of a role.",
);

pub(super) const MAX_CONCURRENT_RUNS: Key<Count> = key(
    "maxConcurrentRuns",
    Count(1, 10_000),
    "How many attempts of jobs this replica makes at once, over all of them; others wait. Default: however many.",
);

const NAME: Key<Form<JobName>> = required(
    "name",
    Form { pattern: "^[a-z0-9]([-a-z0-9]{0,50}[a-z0-9])?$", parse: job_name },
    "Its name: a DNS label of at most 52 bytes.",
);
pub(super) const ROLE: Key<Text> =
    key("role", Text::like(LABEL), "The role whose leader starts it. Default: the only role, if there is one.");
pub(super) const FAN_OUT: Key<Or<Flag>> = key(
    "fanOut",
    Or(Flag, false),
    "Whether each shard of its role, which is split over shards, has a run of its own, by its own leader.",
);
pub(super) const SCHEDULE: Key<Text> = required(
    "schedule",
    Text::ANY,
    "When it is due: cron with five or six fields, `@daily` and the like, or `@every 90s`.",
);
pub(super) const TIME_ZONE: Key<Or<Text>> =
    key("timeZone", Or(Text::ANY, "UTC"), "The zone whose clocks the schedule is about, such as Europe/Berlin.");
const JITTER: Key<Span> = key(
    "jitter",
    Span::between(Duration::from_secs(1), JITTER_LONGEST),
    "Each slot is later by an offset of up to this, always the same for the job's name; less than the shortest time \
     between two slots. Default: none.",
);
const CONCURRENCY_POLICY: Key<Or<Words<Concurrency>>> = key(
    "concurrencyPolicy",
    Or(
        Words::of(&[("Allow", Concurrency::Allow), ("Forbid", Concurrency::Forbid), ("Replace", Concurrency::Replace)]),
        Concurrency::Allow,
    ),
    "What happens to a slot while a run is going on: `Allow` runs both, `Forbid` lets it wait, `Replace` cancels the \
     run.",
);
pub(super) const STARTING_DEADLINE: Key<Count> = key(
    "startingDeadlineSeconds",
    SECONDS,
    "How late a slot may still start, in seconds; later it is missed. Default: however late.",
);
const CATCH_UP: Key<Or<Words<CatchUp>>> = key(
    "catchUp",
    Or(Words::of(&[("none", CatchUp::None), ("latest", CatchUp::Latest), ("all", CatchUp::All)]), CatchUp::Latest),
    "What becomes of slots that passed while nobody could start them: none, the `latest` or `all` are started.",
);
pub(super) const SUSPEND: Key<Or<Flag>> =
    key("suspend", Or(Flag, false), "Whether slots are left out until the job is resumed.");
const BACKOFF_LIMIT: Key<Or<Count>> =
    key("backoffLimit", Or(Count(0, 100), 6), "How many attempts may follow the first.");
pub(super) const BACKOFF: Key<Group> = key("backoff", Group(&PAUSES), "The pauses before them.");
pub(super) const ACTIVE_DEADLINE: Key<Count> = key(
    "activeDeadlineSeconds",
    SECONDS,
    "How long a run may take in all, repeated attempts included, in seconds. Default: however long.",
);
pub(super) const ON_INTERRUPT: Key<Or<Words<OnInterrupt>>> = key(
    "onInterrupt",
    Or(Words::of(&[("retry", OnInterrupt::Retry), ("fail", OnInterrupt::Fail)]), OnInterrupt::Retry),
    "What a run is whose leader stopped leading: the next leader makes another attempt (`retry`), or it has failed.",
);
pub(super) const FINISH_WITHIN: Key<Span> = key(
    "finishWithin",
    Span::between(Duration::ZERO, Duration::from_secs(3_600)),
    "How long a run may go on when its leader resigns or is shut down; the role is handed over when it has ended. \
     Default: the role's `answerValidity` for a request, 0s for a program.",
);
pub(super) const SUCCEEDED_KEPT: Key<Or<Count>> =
    key("successfulJobsHistoryLimit", Or(KEPT, 3), "How many successful runs are remembered.");
pub(super) const FAILED_KEPT: Key<Or<Count>> =
    key("failedJobsHistoryLimit", Or(KEPT, 1), "How many failed runs are remembered.");

const JOB: Section = Section::new(
    "Job",
    "One job: what is run, when, and what becomes of its runs. Words and meanings are those of a Kubernetes CronJob.",
    &[
        &NAME,
        &ROLE,
        &FAN_OUT,
        &SCHEDULE,
        &TIME_ZONE,
        &JITTER,
        &CONCURRENCY_POLICY,
        &STARTING_DEADLINE,
        &CATCH_UP,
        &SUSPEND,
        &BACKOFF_LIMIT,
        &BACKOFF,
        &ACTIVE_DEADLINE,
        &ON_INTERRUPT,
        &FINISH_WITHIN,
        &SUCCEEDED_KEPT,
        &FAILED_KEPT,
        &RUN,
    ],
);

const INITIAL: Key<Or<Span>> =
    key("initial", Or(Span::up_to(BACKOFF_LONGEST), Duration::from_secs(10)), "The pause after the first failure.");
const MAX: Key<Span> =
    key("max", Span::up_to(BACKOFF_LONGEST), "The longest pause. Default: 6m, or `initial` when that is more.");
const MAX_USUAL: Duration = Duration::from_secs(360);

const PAUSES: Section =
    Section::new("Backoff", "The pauses between attempts: each is twice the one before.", &[&INITIAL, &MAX]);

/// Who runs a job.
pub(super) struct JobRoles {
    /// The leader of one role; of one that fans out, those of all shards.
    pub(super) roles: Vec<RoleName>,
    pub(super) fans_out: bool,
    /// All shards have the same.
    pub(super) timing: Timing,
}

/// The jobs that are right, with their places, in the file's order; of one that fans out, its parts. `roles_of` finds a
/// job's roles.
pub(super) fn read<'a>(
    top: &Reader<'a>,
    roles_of: impl Fn(&Reader<'a>) -> Option<JobRoles>,
) -> Vec<(Reader<'a>, JobConfig)> {
    let places = top.given(&JOBS).unwrap_or_default();
    let too_many = |count| {
        top.at(&JOBS).problem(format!("are {count}; no more than {JOBS_MAX} are taken, with each shard counted"));
        Vec::new()
    };
    if places.len() > JOBS_MAX {
        return too_many(places.len());
    }
    let mut names = BTreeMap::new();
    let mut jobs = Vec::new();
    for (index, s) in places.into_iter().enumerate() {
        let name = s.given(&NAME);
        if let Some(name) = &name {
            let first = *names.entry(name.clone()).or_insert(index);
            if first != index {
                s.at(&NAME).problem(format!("{name} is the name of jobs[{first}] too; each job needs its own"));
            }
        }
        jobs.extend(read_one(&s, name, roles_of(&s)).into_iter().map(|job| (s.clone(), job)));
    }
    if jobs.len() > JOBS_MAX { too_many(jobs.len()) } else { jobs }
}

fn read_one(s: &Reader<'_>, name: Option<JobName>, roles: Option<JobRoles>) -> Vec<JobConfig> {
    let timing = roles.as_ref().map(|roles| roles.timing);
    let schedule = schedule(s);
    let jitter = s.given(&JITTER);
    if let Some(schedule) = &schedule {
        bound(&s.at(&JITTER), jitter, schedule.interval_min());
    }
    let policy = policy(s, timing.as_ref(), s.get(&BACKOFF_LIMIT));
    let run = s.given(&RUN).and_then(|run| runs::read(&run, timing.as_ref()));
    let finish_within = s.given(&FINISH_WITHIN);
    let (Some(name), Some(roles), Some(schedule), Some(run)) = (name, roles, schedule, run) else { return Vec::new() };
    if runs::names_shard(&run) && roles.roles.iter().any(|role| role.shard_number().is_none()) {
        s.at(&RUN).problem("names `{{shard}}`, and its role is not split over shards; remove it");
    }
    let finish_within = finish_within.unwrap_or(match &run {
        RunConfig::Http(_) => usual_finish(timing.as_ref()),
        RunConfig::Exec(_) => Duration::ZERO,
    });
    let part = |role: RoleName| {
        let number = role.shard_number().filter(|_| roles.fans_out);
        let name = number.map_or_else(|| name.clone(), |number| name.on_shard(number));
        let offset = jitter.map_or(Duration::ZERO, |jitter| offset_of(name.as_str(), jitter));
        let schedule = Arc::new(schedule.clone().later_by(offset));
        JobConfig { name, role, schedule, policy: policy.clone(), finish_within, run: run.clone() }
    };
    roles.roles.iter().cloned().map(part).collect()
}

/// How long a request may go on unless it is said: for so long an answer to the app keeps the lease anyway.
pub(super) fn usual_finish(timing: Option<&Timing>) -> Duration {
    timing.map(Timing::answer_validity).unwrap_or_default()
}

fn job_name(text: &str) -> Result<JobName, String> {
    JobName::new(text).map_err(|_| {
        "is not a job's name; use a DNS label: 1 to 52 of a-z, 0-9 and `-`, beginning and ending with a letter or digit"
            .to_owned()
    })
}

pub(super) fn schedule(s: &Reader<'_>) -> Option<Schedule> {
    let (place, zone_place) = (s.at(&SCHEDULE), s.at(&TIME_ZONE));
    let (zone, text) = (s.given(&TIME_ZONE), s.given(&SCHEDULE)?);
    match Schedule::parse(&text, zone.as_deref()) {
        Ok(schedule) => {
            if zone.is_some() && schedule.interval().is_some() {
                zone_place.warning(
                    "changes nothing: `@every` counts from 1970 in UTC; remove it, or write a cron expression",
                );
            }
            return Some(schedule);
        }
        Err(ScheduleError::UnknownZone { nearest }) => {
            // What is near to a variable's content tells much of it.
            let nearest = nearest.filter(|_| !zone_place.is_from_environment());
            zone_place.problem(format!("{} {}", zone_place.shown(), ScheduleError::UnknownZone { nearest }));
            if let Err(error) = Schedule::parse(&text, None) {
                place.problem(format!("{} {error}", place.shown()));
            }
        }
        Err(error) => place.problem(format!("{} {error}", place.shown())),
    }
    None
}

/// `jitter:` moves no slot up to the next.
fn bound(place: &Reader<'_>, jitter: Option<Duration>, interval: Duration) {
    if let Some(jitter) = jitter.filter(|jitter| *jitter >= interval) {
        place.problem(format!(
            "is {jitter:?}; it must be less than {interval:?}, the shortest time between two slots of the schedule"
        ));
    }
}

/// `attempts`: how many may follow the first.
pub(super) fn policy(s: &Reader<'_>, timing: Option<&Timing>, attempts: u32) -> JobPolicy {
    let seconds = |key| s.given(key).map(|seconds: u32| Duration::from_secs(seconds.into()));
    let starting_deadline = seconds(&STARTING_DEADLINE);
    let lease = timing.map(Timing::lease_duration);
    if let Some(lease) = lease.filter(|lease| starting_deadline.is_some_and(|deadline| deadline < *lease)) {
        s.at(&STARTING_DEADLINE).warning(format!(
            "is less than the role's leaseDuration, {lease:?}: a slot that is due when a leader has just crashed is \
             missed"
        ));
    }
    let kept = |key| usize::try_from(s.get(key)).unwrap_or(usize::MAX);
    JobPolicy {
        concurrency: s.get(&CONCURRENCY_POLICY),
        starting_deadline,
        catch_up: s.get(&CATCH_UP),
        suspend: s.get(&SUSPEND),
        backoff: backoff(&s.at(&BACKOFF), attempts),
        active_deadline: seconds(&ACTIVE_DEADLINE),
        on_interrupt: s.get(&ON_INTERRUPT),
        history: HistoryLimits { succeeded: kept(&SUCCEEDED_KEPT), failed: kept(&FAILED_KEPT) },
    }
}

fn backoff(s: &Reader<'_>, limit: u32) -> BackoffPolicy {
    let max = s.given(&MAX);
    let initial = s.given(&INITIAL).unwrap_or_else(|| max.map_or(INITIAL.kind.1, |max| max.min(INITIAL.kind.1)));
    let max = max.unwrap_or(MAX_USUAL.max(initial));
    if max < initial && !s.at(&INITIAL).is_bad() {
        let most = duration::write(BACKOFF_LONGEST);
        s.at(&MAX).problem(format!("is {max:?}; it must be between initial, {initial:?}, and {most}"));
    }
    BackoffPolicy { limit, initial, max }
}
