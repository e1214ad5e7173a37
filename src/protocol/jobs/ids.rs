//! Names of jobs, their slots and runs, and moments of the day.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The name of a job: a DNS label of at most 52 bytes, as Kubernetes takes them for a CronJob, so that run ids fit
/// wherever a name does. A job that fans out has a part on each shard, `<job>/<number>`, which is a job of its own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobName(String);

/// The longest name of a job, in bytes.
const NAME_BYTES_MAX: usize = 52;
/// What stands for all jobs. The dot keeps it from being one's name, and lets Kubernetes have it in a name.
const EVERY: &str = "all.jobs";

/// Why a text is not a job's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobNameError {
    /// The offending text.
    pub given: String,
}

impl fmt::Display for JobNameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is not a job's name: use a DNS label, 1 to {NAME_BYTES_MAX} of a-z, 0-9 and '-', beginning and \
             ending with a letter or digit",
            self.given
        )
    }
}

impl std::error::Error for JobNameError {}

impl JobName {
    /// Checks a name.
    ///
    /// # Errors
    /// It is not a DNS label, or too long.
    pub fn new(name: impl Into<String>) -> Result<Self, JobNameError> {
        let given = name.into();
        let alphanumeric = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        let bytes = given.as_bytes();
        let fits = (1..=NAME_BYTES_MAX).contains(&bytes.len())
            && bytes.iter().all(|b| alphanumeric(b) || *b == b'-')
            && bytes.first().is_some_and(alphanumeric)
            && bytes.last().is_some_and(alphanumeric);
        if fits { Ok(Self(given)) } else { Err(JobNameError { given }) }
    }

    /// What a store keeps under a job's name that concerns all jobs. No job is called so.
    pub fn every() -> Self {
        Self(EVERY.to_owned())
    }

    /// A name as a store tells it: that of a job or of its part on a shard, or what stands for all jobs.
    pub fn stored(text: &str) -> Option<Self> {
        if text == EVERY { Some(Self::every()) } else { Self::known(text) }
    }

    /// The name of a job, or of its part on a shard: `nightly`, `nightly/3`.
    pub fn known(text: &str) -> Option<Self> {
        let Some((job, number)) = text.split_once('/') else { return Self::new(text).ok() };
        let shard = Self::new(job).ok()?.on_shard(number.parse().ok()?);
        (shard.as_str() == text).then_some(shard)
    }

    /// The part of a job that fans out which is this shard's.
    #[must_use]
    pub fn on_shard(&self, number: u16) -> Self {
        Self(format!("{}/{number}", self.job()))
    }

    /// The job that this is, or is a part of.
    pub fn job(&self) -> &str {
        self.0.split_once('/').map_or(&self.0, |(job, _)| job)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for JobName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A moment of the day: milliseconds since the Unix epoch, as this replica's clock tells it. It says when a slot is
/// due, and nothing else is decided by it: a clock that is stepped moves a start, never makes two of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Wall(u64);

impl Wall {
    /// The moment `ms` milliseconds after the Unix epoch.
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms)
    }

    /// Milliseconds since the Unix epoch.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// The moment `span` later.
    pub fn plus(self, span: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(span.as_millis()).unwrap_or(u64::MAX)))
    }

    /// The moment `span` earlier.
    pub fn minus(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(u64::try_from(span.as_millis()).unwrap_or(u64::MAX)))
    }

    /// How long after `earlier` this is; zero when it is not after it.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

/// What one run of a job is for. Runs are told apart by it: a slot has one run, however many attempts that takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Slot {
    /// A moment of the schedule, to the second.
    Scheduled(Wall),
    /// Somebody asked for it, at this moment.
    Manual(Wall),
    /// A moment of the schedule that had passed when somebody asked for it.
    Backfill(Wall),
}

impl Slot {
    /// When it is, or was asked to be.
    pub const fn at(self) -> Wall {
        match self {
            Self::Scheduled(at) | Self::Manual(at) | Self::Backfill(at) => at,
        }
    }
}

const MANUAL: &str = "manual-";
const BACKFILL: &str = "backfill-";

/// `1763690400` (seconds) for a slot of the schedule, `manual-1763690400123` (milliseconds) for one that was asked for,
/// `backfill-1763690400` (seconds) for one of the past.
impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scheduled(at) => write!(f, "{}", at.as_millis() / 1_000),
            Self::Manual(at) => write!(f, "{MANUAL}{}", at.as_millis()),
            Self::Backfill(at) => write!(f, "{BACKFILL}{}", at.as_millis() / 1_000),
        }
    }
}

/// Only what [`fmt::Display`] writes.
impl FromStr for Slot {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let number = |digits: &str| digits.parse::<u64>().ok();
        let seconds = |digits: &str| number(digits)?.checked_mul(1_000).map(Wall);
        let slot = match (text.strip_prefix(MANUAL), text.strip_prefix(BACKFILL)) {
            (Some(digits), _) => number(digits).map(|ms| Self::Manual(Wall(ms))),
            (None, Some(digits)) => seconds(digits).map(Self::Backfill),
            (None, None) => seconds(text).map(Self::Scheduled),
        };
        slot.filter(|slot| slot.to_string() == text).ok_or(())
    }
}

/// The id of a run, in headers and paths: `nightly-report-1763690400`. The same for all attempts of the run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId {
    /// Of which job.
    pub job: JobName,
    /// For what.
    pub slot: Slot,
}

impl RunId {
    /// The run of `job` with this id; none when the text is not one of them.
    pub fn of(job: &JobName, text: &str) -> Option<Self> {
        let slot = text.strip_prefix(job.as_str())?.strip_prefix('-')?.parse().ok()?;
        Some(Self { job: job.clone(), slot })
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.job, self.slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_dns_labels_that_leave_room_for_a_run() {
        for good in ["nightly-report", "a", "0", &"x".repeat(52)] {
            assert_eq!(JobName::new(good).unwrap().as_str(), good);
        }
        for bad in ["", "-a", "a-", "A", "a.b", "a/b", "ä", &"x".repeat(53)] {
            assert_eq!(JobName::new(bad).unwrap_err().given, bad);
        }
        let part = JobName::new("nightly").unwrap().on_shard(3);
        assert_eq!((part.as_str(), part.job(), part.on_shard(11).as_str()), ("nightly/3", "nightly", "nightly/11"));
        assert_eq!(
            (JobName::known("nightly/3"), JobName::known("nightly")),
            (Some(part), JobName::new("nightly").ok())
        );
        for bad in ["nightly/", "nightly/03", "nightly/+3", "nightly/65536", "/3", "nightly/3/4", "all.jobs"] {
            assert_eq!(JobName::known(bad), None, "{bad}");
        }
        let every = JobName::every();
        assert_eq!((JobName::new(every.as_str()).is_err(), JobName::stored(every.as_str())), (true, Some(every)));
        assert_eq!((JobName::stored("a"), JobName::stored("A")), (JobName::new("a").ok(), None));
    }

    #[test]
    fn a_slot_and_a_run_have_one_text_each() {
        let job = JobName::new("nightly-report").unwrap();
        let scheduled = Slot::Scheduled(Wall::from_millis(1_763_690_400_000));
        let manual = Slot::Manual(Wall::from_millis(1_763_690_400_123));
        let backfill = Slot::Backfill(scheduled.at());
        let texts = [(scheduled, "1763690400"), (manual, "manual-1763690400123"), (backfill, "backfill-1763690400")];
        for (slot, text) in texts {
            assert_eq!(slot.to_string(), text);
            assert_eq!(text.parse(), Ok(slot));
            let run = RunId { job: job.clone(), slot };
            assert_eq!(run.to_string(), format!("nightly-report-{text}"));
            assert_eq!(RunId::of(&job, &run.to_string()), Some(run));
        }
        for bad in ["", "+1", "01", "1.5", "manual-", "manual-x", "99999999999999999999", "18446744073709551615"] {
            assert_eq!(bad.parse::<Slot>(), Err(()), "{bad}");
        }
        assert_eq!(RunId::of(&job, "nightly-1763690400"), None);
    }
}
