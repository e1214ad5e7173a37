//! `jobs:`, all but what a run is.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::Checker;
use crate::config::model::{JobConfig, JobLimits, RoleConfig, StoreConfig};
use crate::config::position::Path;
use crate::config::raw::Scalar;
use crate::config::raw_jobs::{RawBackoff, RawJob};
use crate::protocol::jobs::{Backoff, CatchUp, Concurrency, HistoryLimits, JobName, JobPolicy, OnInterrupt};
use crate::schedule::{Schedule, ScheduleError};

/// More jobs than anybody has; each costs the leader a look at every slot.
const JOBS_MAX: usize = 10_000;
const YEAR_S: u32 = 365 * 24 * 3_600;
const BACKOFF_LIMIT: u32 = 6;
const BACKOFF_LIMIT_MAX: u32 = 100;
const BACKOFF_INITIAL: Duration = Duration::from_secs(10);
const BACKOFF_MAX: Duration = Duration::from_secs(360);
const BACKOFF_LONGEST: Duration = Duration::from_secs(24 * 3_600);
const SUCCEEDED_KEPT: u32 = 3;
const FAILED_KEPT: u32 = 1;
const KEPT_MAX: u32 = 1_000;

impl Checker<'_> {
    /// The jobs that are right, in the file's order. Refused where the store has no ledger.
    pub(super) fn jobs(
        &mut self,
        raw: Option<&[Option<RawJob>]>,
        roles: &[RoleConfig],
        store: Option<&StoreConfig>,
        root: &Path,
    ) -> Vec<JobConfig> {
        let path = root.key("jobs");
        let Some(raw) = raw.filter(|raw| !raw.is_empty()) else { return Vec::new() };
        if let Some(reason) = store.and_then(StoreConfig::without_jobs) {
            self.problem(&path, format!("cannot be had with this store: {reason}, or remove them"));
            return Vec::new();
        }
        if raw.len() > JOBS_MAX {
            self.problem(&path, format!("are {}; no more than {JOBS_MAX} are taken", raw.len()));
            return Vec::new();
        }
        // With a role missing from the list because something is wrong with it, nobody knows.
        let roles = Roles { known: roles, whole: !self.has_bad_within(&root.key("roles")) };
        let limits = store.and_then(StoreConfig::job_limits);
        let mut names = BTreeMap::new();
        let mut jobs = Vec::new();
        for (index, raw) in raw.iter().enumerate() {
            let Some(raw) = raw else { continue };
            let path = path.index(index);
            let name = self.own_job_name(raw.name.as_ref(), index, &mut names, &path.key("name"));
            let job = self.job(raw, name, &roles, &path);
            if let (Some(job), Some(limits)) = (&job, limits) {
                self.job_limits(job, limits, &path);
            }
            jobs.extend(job);
        }
        jobs
    }

    fn job(&mut self, raw: &RawJob, name: Option<JobName>, roles: &Roles<'_>, path: &Path) -> Option<JobConfig> {
        let role = self.job_role(raw.role.as_ref(), roles, &path.key("role"));
        let schedule = self.schedule(raw, path);
        let policy = self.policy(raw, role, path);
        let run = raw.run.as_ref().and_then(|run| self.run(run, role.map(|role| &role.timing), &path.key("run")));
        let role = role?.name.clone();
        Some(JobConfig { name: name?, role, schedule: Arc::new(schedule?), policy: policy?, run: run? })
    }

    /// What a store asks that does not take every job.
    fn job_limits(&mut self, job: &JobConfig, limits: JobLimits, path: &Path) {
        let interval = job.schedule.interval_min();
        if interval < limits.interval_min {
            let message = format!(
                "has slots {interval:?} apart; with this store it must be {:?} or more, because each is several \
                 writes to the API server's etcd: write `@every 10s` or longer, or name a Redis for them, jobsStore",
                limits.interval_min
            );
            self.problem(&path.key("schedule"), message);
        }
        let (history, most) = (job.policy.history, limits.history_max);
        for (key, kept, most) in [
            ("successfulJobsHistoryLimit", history.succeeded, most.succeeded),
            ("failedJobsHistoryLimit", history.failed, most.failed),
        ] {
            if kept > most {
                let message = format!(
                    "is {kept}; with this store it must be at most {most}, because a Lease object has no room for more"
                );
                self.problem(&path.key(key), message);
            }
        }
    }

    /// A name that no job before has.
    fn own_job_name(
        &mut self,
        given: Option<&Scalar>,
        index: usize,
        names: &mut BTreeMap<JobName, usize>,
        path: &Path,
    ) -> Option<JobName> {
        let name = self.job_name(given, path)?;
        let first = *names.entry(name.clone()).or_insert(index);
        if first != index {
            self.problem(path, format!("{name} is the name of jobs[{first}] too; each job needs its own"));
        }
        Some(name)
    }

    fn job_name(&mut self, given: Option<&Scalar>, path: &Path) -> Option<JobName> {
        let text = self.text(given, path)?;
        let name = JobName::new(text).ok();
        if name.is_none() {
            let shown = given.map(|given| self.shown(given, path)).unwrap_or_default();
            self.problem(
                path,
                format!(
                    "{shown} is not a job's name; use a DNS label: 1 to 52 of a-z, 0-9 and `-`, beginning and ending \
                     with a letter or digit"
                ),
            );
        }
        name
    }

    /// The role: as given, else the only one.
    fn job_role<'r>(&mut self, given: Option<&Scalar>, roles: &Roles<'r>, path: &Path) -> Option<&'r RoleConfig> {
        if self.is_bad(path) {
            return None;
        }
        let Some(given) = given else {
            if let [only] = roles.known {
                return Some(only);
            }
            if roles.whole {
                self.problem(path, format!("is missing, and there are several roles; add one of {}", roles.listed()));
            }
            return None;
        };
        let text = self.text(Some(given), path)?;
        let role = roles.known.iter().find(|role| role.name.as_str() == text);
        if role.is_none() && roles.whole {
            let shown = self.shown(given, path);
            self.problem(path, format!("{shown} is not one of the roles; they are {}", roles.listed()));
        }
        role
    }

    fn schedule(&mut self, raw: &RawJob, path: &Path) -> Option<Schedule> {
        let (path, zone_path) = (path.key("schedule"), path.key("timeZone"));
        let given = raw.schedule.as_ref()?;
        let zone = self.text(raw.time_zone.as_ref(), &zone_path);
        let text = self.text(Some(given), &path)?;
        match Schedule::parse(text, zone) {
            Ok(schedule) => {
                if zone.is_some() && schedule.interval().is_some() {
                    let message = "changes nothing: `@every` counts from 1970 in UTC; remove it, or write a cron \
                                   expression";
                    self.warning(&zone_path, message.to_owned());
                }
                return (!self.is_bad(&zone_path)).then_some(schedule);
            }
            Err(ScheduleError::UnknownZone { nearest }) => {
                // What is near to a variable's content tells much of it.
                let nearest = nearest.filter(|_| !self.sources.contains_key(&zone_path));
                let shown = raw.time_zone.as_ref().map(|zone| self.shown(zone, &zone_path)).unwrap_or_default();
                self.problem(&zone_path, format!("{shown} {}", ScheduleError::UnknownZone { nearest }));
                if let Err(error) = Schedule::parse(text, None) {
                    self.problem(&path, format!("{} {error}", self.shown(given, &path)));
                }
            }
            Err(error) => self.problem(&path, format!("{} {error}", self.shown(given, &path))),
        }
        None
    }

    fn policy(&mut self, raw: &RawJob, role: Option<&RoleConfig>, path: &Path) -> Option<JobPolicy> {
        let concurrencies =
            [("Allow", Concurrency::Allow), ("Forbid", Concurrency::Forbid), ("Replace", Concurrency::Replace)];
        let catch_ups = [("none", CatchUp::None), ("latest", CatchUp::Latest), ("all", CatchUp::All)];
        let interrupts = [("retry", OnInterrupt::Retry), ("fail", OnInterrupt::Fail)];
        let concurrency = self.word(raw.concurrency_policy.as_ref(), &path.key("concurrencyPolicy"), &concurrencies);
        let catch_up = self.word(raw.catch_up.as_ref(), &path.key("catchUp"), &catch_ups);
        let on_interrupt = self.word(raw.on_interrupt.as_ref(), &path.key("onInterrupt"), &interrupts);
        let suspend = self.flag(raw.suspend.as_ref(), &path.key("suspend"));
        let starting = path.key("startingDeadlineSeconds");
        let starting_deadline = self.seconds(raw.starting_deadline_seconds.as_ref(), &starting);
        if let (Some(deadline), Some(role)) = (starting_deadline, role)
            && deadline < role.timing.lease_duration()
        {
            let message = format!(
                "is less than the role's leaseDuration, {:?}: a slot that is due when a leader has just crashed is \
                 missed",
                role.timing.lease_duration()
            );
            self.warning(&starting, message);
        }
        let active = path.key("activeDeadlineSeconds");
        let active_deadline = self.seconds(raw.active_deadline_seconds.as_ref(), &active);
        let backoff = self.backoff(raw, path);
        let mut kept = |value: &Option<Scalar>, key: &str, default: u32| {
            let kept = self.count(value.as_ref(), &path.key(key), 0..=KEPT_MAX).unwrap_or(default);
            usize::try_from(kept).unwrap_or(usize::MAX)
        };
        let history = HistoryLimits {
            succeeded: kept(&raw.successful_jobs_history_limit, "successfulJobsHistoryLimit", SUCCEEDED_KEPT),
            failed: kept(&raw.failed_jobs_history_limit, "failedJobsHistoryLimit", FAILED_KEPT),
        };
        // A value that is refused leaves its default here; the file is refused all the same.
        Some(JobPolicy {
            concurrency: concurrency.unwrap_or(Concurrency::Allow),
            starting_deadline,
            catch_up: catch_up.unwrap_or(CatchUp::Latest),
            suspend: suspend.unwrap_or(false),
            backoff: backoff?,
            active_deadline,
            on_interrupt: on_interrupt.unwrap_or(OnInterrupt::Retry),
            history,
        })
    }

    fn seconds(&mut self, value: Option<&Scalar>, path: &Path) -> Option<Duration> {
        self.count(value, path, 1..=YEAR_S).map(|seconds| Duration::from_secs(u64::from(seconds)))
    }

    fn backoff(&mut self, raw: &RawJob, path: &Path) -> Option<Backoff> {
        let limit = self.count(raw.backoff_limit.as_ref(), &path.key("backoffLimit"), 0..=BACKOFF_LIMIT_MAX);
        let path = path.key("backoff");
        let none = RawBackoff::default();
        let raw = raw.backoff.as_ref().unwrap_or(&none);
        let (initial_path, max_path) = (path.key("initial"), path.key("max"));
        let initial = self.positive_duration(raw.initial.as_ref(), &initial_path);
        let max = self.positive_duration(raw.max.as_ref(), &max_path);
        if self.is_bad(&initial_path) || self.is_bad(&max_path) {
            return None;
        }
        let initial = initial.unwrap_or(BACKOFF_INITIAL.min(max.unwrap_or(BACKOFF_INITIAL)));
        let max = max.unwrap_or(BACKOFF_MAX.max(initial));
        if initial > BACKOFF_LONGEST {
            self.problem(&initial_path, format!("is {initial:?}; it must be at most 24h"));
        } else if !(initial..=BACKOFF_LONGEST).contains(&max) {
            self.problem(&max_path, format!("is {max:?}; it must be between initial, {initial:?}, and 24h"));
        }
        Some(Backoff { limit: limit.unwrap_or(BACKOFF_LIMIT), initial, max })
    }
}

/// The roles that are right, and whether these are all.
struct Roles<'r> {
    known: &'r [RoleConfig],
    whole: bool,
}

impl Roles<'_> {
    fn listed(&self) -> String {
        self.known.iter().map(|role| format!("`{}`", role.name)).collect::<Vec<_>>().join(", ")
    }
}
