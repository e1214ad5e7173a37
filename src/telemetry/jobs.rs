//! What happens to jobs: one event in, one log line and one count out.
//!
//! Jobs are in labels, for the configuration lists them; runs are not. The moments are the leader's: another replica
//! shows 0 for what only a leader knows, so queries take the greatest over all replicas.

use std::time::Duration;

use prometheus::{HistogramVec, IntCounterVec, IntGauge, IntGaugeVec};
use tracing::{debug, info, warn};

use super::Telemetry;
use super::events::ms;
use super::metrics::Builder;
use crate::protocol::RoleName;
use crate::protocol::jobs::{Ending, GapReason, JobEvent, JobName, RunFailure, RunId, Slot, TakerEvent, Wall, is_late};

/// Upper bounds in seconds, from a request to the app to an hour of work.
const DURATION_BUCKETS: [f64; 12] = [0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 1_800.0, 3_600.0];

/// In the place of a name, for all jobs that were made at run time together: how many those are, nobody bounds.
const RUNTIME: &str = "(runtime)";
const AHEAD: &str =
    "By how much what was decided of the job's slots is ahead of this leader's clock: nothing is due before that.";
const OLDEST: &str =
    "For how long the oldest run of the job has gone on that this leader knows of; 0 when there is none.";
const LOST: &str = "Times that a leader found the job's ledger with another leader: one of a later term, or of another \
                    role. It looks again every minute while it leads.";

/// What becomes of a slot that is started; that of the others is the word of their [`GapReason`].
const STARTED: &str = "started";
const LATE: &str = "late";

/// What a leader knows of a job beside what has just happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobReading {
    /// When a run last succeeded.
    pub last_success: Option<Wall>,
    /// The next slot.
    pub next: Option<Wall>,
    /// How many runs go on.
    pub active: usize,
    /// Whether the job is suspended.
    pub suspended: bool,
    /// By how much the ledger is ahead of this replica's clock.
    pub ahead: Duration,
    /// For how long the oldest run has gone on.
    pub oldest: Option<Duration>,
}

/// The families of jobs.
pub(super) struct JobFamilies {
    last_success: IntGaugeVec,
    last_start: IntGaugeVec,
    next_start: IntGaugeVec,
    active: IntGaugeVec,
    suspended: IntGaugeVec,
    ahead: IntGaugeVec,
    oldest: IntGaugeVec,
    duration: HistogramVec,
    attempts: IntCounterVec,
    runs: IntCounterVec,
    slots: IntCounterVec,
    restored: IntCounterVec,
    lost: IntCounterVec,
    paused: IntGauge,
}

impl JobFamilies {
    pub(super) fn new(build: &Builder) -> Self {
        // Not `job`: Prometheus has that label itself, and would rename this one.
        let (job, outcome) = (&["job_name"], &["job_name", "outcome"]);
        Self {
            last_success: build.gauges(
                "baton_job_last_success_timestamp_seconds",
                job,
                "When a run of the job last succeeded, as far as this replica has seen; 0 when it has not.",
            ),
            last_start: build.gauges(
                "baton_job_last_start_timestamp_seconds",
                job,
                "When this replica last started an attempt of the job; 0 when it has not.",
            ),
            next_start: build.gauges(
                "baton_job_next_start_timestamp_seconds",
                job,
                "The next slot of the job; 0 while it is suspended, and on a replica that does not lead its role.",
            ),
            active: build.gauges(
                "baton_job_active_runs",
                job,
                "Runs of the job that this leader has begun and not ended.",
            ),
            suspended: build.gauges(
                "baton_job_suspended",
                job,
                "1 while the job is suspended, by itself or with all others, as its leader knows.",
            ),
            ahead: build.gauges("baton_job_ledger_ahead_seconds", job, AHEAD),
            oldest: build.gauges("baton_job_oldest_run_seconds", job, OLDEST),
            duration: build.histograms(
                "baton_job_duration_seconds",
                job,
                &DURATION_BUCKETS,
                "Time from the start of an attempt to its end, however it ended.",
            ),
            attempts: build.counters(
                "baton_job_attempts_total",
                outcome,
                "Attempts by outcome: succeeded, failed, interrupted (the leader stopped leading), cancelled.",
            ),
            runs: build.counters(
                "baton_job_runs_total",
                outcome,
                "Runs that ended, by outcome: succeeded, backoff_limit_exceeded (its last attempt failed), \
                 deadline_exceeded, interrupted, replaced, cancelled.",
            ),
            slots: build.counters(
                "baton_job_slots_total",
                outcome,
                "Slots of the schedule by outcome: started, late (started more than a second after its time), missed \
                 (nobody could start it in time), skipped (another run went on), suspended.",
            ),
            paused: build.gauge("baton_jobs_paused", "1 while all jobs are suspended together, as this replica knows."),
            restored: build.counters(
                "baton_job_ledgers_restored_total",
                job,
                "Times that the store had lost what was written about the job, and its leader wrote it again.",
            ),
            lost: build.counters("baton_job_ledgers_lost_total", job, LOST),
        }
    }

    fn counters(&self) -> [(&IntCounterVec, Vec<&'static str>); 5] {
        let gaps = GapReason::ALL.map(GapReason::as_str);
        [
            (&self.attempts, Ending::ALL.map(Ending::as_str).to_vec()),
            (&self.runs, [&[Ending::Succeeded.as_str()], &RunFailure::ALL.map(RunFailure::as_str)[..]].concat()),
            (&self.slots, [&[STARTED, LATE], &gaps[..]].concat()),
            (&self.restored, Vec::new()),
            (&self.lost, Vec::new()),
        ]
    }

    fn gauges(&self) -> [&IntGaugeVec; 7] {
        let Self { last_success, last_start, next_start, active, suspended, ahead, oldest, .. } = self;
        [last_success, last_start, next_start, active, suspended, ahead, oldest]
    }

    fn add(&self, job: &JobName) {
        for gauge in self.gauges() {
            gauge.with_label_values(&[job.as_str()]);
        }
        self.duration.with_label_values(&[job.as_str()]);
        for (family, words) in self.counters() {
            if words.is_empty() {
                family.with_label_values(&[job.as_str()]);
            }
            for word in words {
                family.with_label_values(&[job.as_str(), word]);
            }
        }
    }

    /// Of jobs that were made at run time there is no next start, and none is suspended: they are many.
    fn add_runtime(&self) {
        for gauge in [&self.last_success, &self.last_start, &self.active] {
            gauge.with_label_values(&[RUNTIME]);
        }
        self.duration.with_label_values(&[RUNTIME]);
        for (family, words) in self.counters() {
            for word in words {
                family.with_label_values(&[RUNTIME, word]);
            }
        }
    }

    fn remove(&self, job: &JobName) {
        // Removing what is not there is what was asked for.
        for gauge in self.gauges() {
            let _ = gauge.remove_label_values(&[job.as_str()]);
        }
        let _ = self.duration.remove_label_values(&[job.as_str()]);
        for (family, words) in self.counters() {
            if words.is_empty() {
                let _ = family.remove_label_values(&[job.as_str()]);
            }
            for word in words {
                let _ = family.remove_label_values(&[job.as_str(), word]);
            }
        }
    }

    fn read(&self, job: &JobName, reading: &JobReading) {
        let label = [job.as_str()];
        if let Some(at) = reading.last_success {
            self.last_success.with_label_values(&label).set(seconds(at));
        }
        self.next_start.with_label_values(&label).set(reading.next.map_or(0, seconds));
        self.active.with_label_values(&label).set(i64::try_from(reading.active).unwrap_or(i64::MAX));
        self.suspended.with_label_values(&label).set(i64::from(reading.suspended));
        self.ahead.with_label_values(&label).set(whole(reading.ahead));
        self.oldest.with_label_values(&label).set(whole(reading.oldest.unwrap_or_default()));
    }

    fn count(&self, job: &str, event: &JobEvent, now: Wall) {
        let slot_is = |outcome: &str, count: u64| self.slots.with_label_values(&[job, outcome]).inc_by(count);
        match event {
            JobEvent::Started { slot, attempt, late } => {
                self.last_start.with_label_values(&[job]).set(seconds(now));
                if *attempt == 1 && matches!(slot, Slot::Scheduled(_)) {
                    slot_is(if is_late(*late) { LATE } else { STARTED }, 1);
                }
            }
            JobEvent::AttemptEnded { ending, took, .. } => {
                self.attempts.with_label_values(&[job, ending.as_str()]).inc();
                self.duration.with_label_values(&[job]).observe(took.as_secs_f64());
            }
            JobEvent::RunEnded { failure, .. } => {
                let word = failure.map_or(Ending::Succeeded.as_str(), RunFailure::as_str);
                self.runs.with_label_values(&[job, word]).inc();
            }
            JobEvent::Passed(gap) => slot_is(gap.reason.as_str(), gap.count),
            JobEvent::Restored => self.restored.with_label_values(&[job]).inc(),
            JobEvent::Opened { interrupted } => {
                let word = Ending::Interrupted.as_str();
                self.attempts.with_label_values(&[job, word]).inc_by(u64::try_from(*interrupted).unwrap_or(u64::MAX));
            }
            JobEvent::Superseded { .. } | JobEvent::Moved { .. } => self.lost.with_label_values(&[job]).inc(),
            JobEvent::TakenOver { .. } | JobEvent::ClockAhead { .. } => {}
        }
    }
}

fn whole(span: Duration) -> i64 {
    i64::try_from(span.as_secs()).unwrap_or(i64::MAX)
}

fn seconds(at: Wall) -> i64 {
    i64::try_from(at.as_millis() / 1_000).unwrap_or(i64::MAX)
}

impl Telemetry {
    /// Registers every series of a job at zero.
    pub fn add_job(&self, job: &JobName) {
        self.metrics().of_jobs().add(job);
    }

    /// Removes every series of a job that is no longer configured.
    pub fn remove_job(&self, job: &JobName) {
        self.metrics().of_jobs().remove(job);
    }

    /// What is known of a job now. A replica that does not lead knows nothing.
    pub fn job_is(&self, job: &JobName, reading: &JobReading) {
        self.metrics().of_jobs().read(job, reading);
    }

    /// Whether all jobs are suspended together.
    pub fn jobs_are_paused(&self, paused: bool) {
        self.metrics().of_jobs().paused.set(i64::from(paused));
    }

    /// Logs and counts what happened to a job.
    pub fn record_job(&self, job: &JobName, event: &JobEvent, now: Wall) {
        self.metrics().of_jobs().count(job.as_str(), event, now);
        self.tell_of_job(job, event);
    }

    /// Registers what is counted of jobs that are made at run time, at zero.
    pub fn add_runtime_jobs(&self) {
        self.metrics().of_jobs().add_runtime();
    }

    /// How many attempts of jobs that were made at run time go on here.
    pub fn runtime_jobs_active(&self, count: usize) {
        self.metrics().of_jobs().active.with_label_values(&[RUNTIME]).set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Logs and counts what happened to jobs that were made at run time.
    pub fn record_runtime_job(&self, role: &RoleName, event: &TakerEvent, now: Wall) {
        match event {
            TakerEvent::Job(job, event) => {
                let families = self.metrics().of_jobs();
                families.count(RUNTIME, event, now);
                if let JobEvent::RunEnded { failure: None, .. } = event {
                    families.last_success.with_label_values(&[RUNTIME]).set(seconds(now));
                }
                self.tell_of_job(job, event);
            }
            TakerEvent::Expired(job) => warn!(%job, "a job made at run time is removed: its ttl ended before it began"),
            TakerEvent::Unreadable(job) => {
                warn!(%job, "a job made at run time cannot be read by this release; it is tried again in a minute");
            }
            TakerEvent::Shadowed(job) => {
                warn!(%job, "a job made at run time is removed: the configuration has a job of that name");
            }
            TakerEvent::Superseded { fence } => {
                warn!(%role, token = %fence, "a later leader has the jobs made at run time");
            }
        }
    }

    fn tell_of_job(&self, job: &JobName, event: &JobEvent) {
        match event {
            JobEvent::Opened { interrupted: 0 } => debug!(%job, "the job's ledger is open"),
            JobEvent::Opened { interrupted } => {
                warn!(%job, interrupted, "the job's ledger is open; attempts of an earlier leader were interrupted");
            }
            JobEvent::Started { slot, attempt, late } => {
                let run = RunId { job: job.clone(), slot: *slot };
                info!(%job, %run, attempt, late_ms = ms(*late), "an attempt starts");
            }
            JobEvent::AttemptEnded { slot, attempt, ending, took, note } => {
                let run = RunId { job: job.clone(), slot: *slot };
                self.traces().attempt(&run, *attempt, *ending, *took);
                log_attempt(&run, *attempt, *ending, *took, note);
            }
            JobEvent::RunEnded { slot, failure: None, attempts } => {
                let run = RunId { job: job.clone(), slot: *slot };
                info!(%job, %run, attempts, "a run succeeded");
            }
            JobEvent::RunEnded { slot, failure: Some(failure), attempts } => {
                let run = RunId { job: job.clone(), slot: *slot };
                warn!(%job, %run, attempts, reason = failure.as_str(), "a run failed");
            }
            JobEvent::Passed(gap) => {
                let first = gap.first.as_millis() / 1_000;
                warn!(%job, reason = gap.reason.as_str(), count = gap.count, first, "slots have no run");
            }
            JobEvent::Restored => warn!(%job, "the store had lost the job's ledger; it is written again"),
            JobEvent::TakenOver { from } => {
                // An earlier release of Baton wrote no role down, and who wishes for something has none.
                let from = from.as_ref().map_or("nobody", RoleName::as_str);
                info!(%job, from, "the job's ledger is this role's from now on");
            }
            JobEvent::Superseded { fence } => {
                warn!(%job, token = %fence, "a later leader of the role has the job; looking again in a minute");
            }
            JobEvent::Moved { to } => {
                warn!(%job, role = %to, "another role's leader has the job; looking again in a minute");
            }
            JobEvent::ClockAhead { by, reopened: true } => {
                let duration_ms = ms(*by);
                warn!(%job, duration_ms, "the job's ledger was ahead of this clock; slots that had no run begin now");
            }
            JobEvent::ClockAhead { by, reopened: false } => {
                let duration_ms = ms(*by);
                warn!(%job, duration_ms, "the job's ledger is ahead of this clock; no slot is due until then");
            }
        }
    }
}

fn log_attempt(run: &RunId, attempt: u32, ending: Ending, took: Duration, note: &str) {
    let (job, duration_ms, outcome) = (&run.job, ms(took), ending.as_str());
    if ending == Ending::Succeeded {
        info!(%job, %run, attempt, outcome, duration_ms, reason = note, "an attempt ended");
    } else {
        warn!(%job, %run, attempt, outcome, duration_ms, reason = note, "an attempt ended");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;

    use super::*;
    use crate::protocol::jobs::Gap;
    use crate::telemetry::Metrics;

    fn telemetry() -> (Telemetry, JobName) {
        let telemetry = Telemetry::new(Arc::new(Metrics::new(Timestamp::UNIX_EPOCH)));
        let job = JobName::new("nightly").unwrap();
        telemetry.add_job(&job);
        (telemetry, job)
    }

    fn lines(telemetry: &Telemetry) -> Vec<String> {
        let text = telemetry.metrics().render(Vec::new(), true).unwrap();
        text.lines().filter(|line| line.starts_with("baton_job_")).map(str::to_owned).collect()
    }

    #[test]
    fn every_series_of_a_job_is_there_at_zero_and_gone_with_it() {
        let (telemetry, job) = telemetry();
        let found = lines(&telemetry);
        assert_eq!(found.iter().filter(|line| line.contains("_total{")).count(), 4 + 6 + 5 + 1 + 1, "{found:?}");
        assert!(found.iter().all(|line| line.ends_with(" 0")), "{found:?}");
        telemetry.remove_job(&job);
        assert_eq!(lines(&telemetry), Vec::<String>::new());
    }

    #[test]
    fn each_outcome_of_a_slot_is_counted_apart() {
        let (telemetry, job) = telemetry();
        let slot = Slot::Scheduled(Wall::from_millis(60_000));
        let start = |late| JobEvent::Started { slot, attempt: 1, late };
        let gap = |reason, count| JobEvent::Passed(Gap { reason, first: slot.at(), last: slot.at(), count });
        let manual = Slot::Manual(Wall::from_millis(60_001));
        for event in [
            start(Duration::ZERO),
            start(Duration::from_secs(2)),
            JobEvent::Started { slot, attempt: 2, late: Duration::ZERO },
            JobEvent::Started { slot: manual, attempt: 1, late: Duration::ZERO },
            gap(GapReason::Missed, 3),
            gap(GapReason::Concurrency, 2),
            gap(GapReason::Suspended, 5),
            JobEvent::Opened { interrupted: 2 },
        ] {
            telemetry.record_job(&job, &event, Wall::from_millis(61_000));
        }
        let found = lines(&telemetry);
        for (outcome, count) in [("started", 1), ("late", 1), ("missed", 3), ("skipped", 2), ("suspended", 5)] {
            let line = format!("baton_job_slots_total{{job_name=\"nightly\",outcome=\"{outcome}\"}} {count}");
            assert!(found.contains(&line), "{line} in {found:?}");
        }
        assert!(found.contains(&"baton_job_last_start_timestamp_seconds{job_name=\"nightly\"} 61".to_owned()));
        assert!(found.contains(&"baton_job_attempts_total{job_name=\"nightly\",outcome=\"interrupted\"} 2".to_owned()));
    }
}
