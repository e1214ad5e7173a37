//! One run of a job, and its attempts.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::ids::Wall;
use super::ledger::GapReason;
use super::wishes::{RunOrder, RunWish};
use crate::protocol::Token;

/// How many attempts of one run are remembered one by one.
const ATTEMPTS_KEPT: usize = 10;

/// One run: a slot's, or one that was asked for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Run {
    /// How far it is.
    pub phase: Phase,
    /// When its first attempt was claimed.
    pub began: Option<Wall>,
    /// When it ended.
    pub ended: Option<Wall>,
    /// Its last attempts, oldest first.
    pub attempts: Vec<RunAttempt>,
    /// How many attempts it had when it was last retried: `backoffLimit` counts those after them.
    pub spent: u32,
    /// What somebody last asked for, whoever leads.
    pub order: Option<RunOrder>,
    /// What it is given, for as long as it may be needed.
    pub data: Option<Arc<str>>,
}

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Somebody asked for it; no leader has begun it yet.
    Asked,
    /// An attempt is claimed.
    Running,
    /// The next attempt comes then.
    Waiting { until: Wall },
    /// It succeeded.
    Succeeded,
    /// It failed for good.
    Failed(RunFailure),
}

impl Phase {
    /// Whether there will be no other attempt.
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed(_))
    }

    /// As it is told.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Asked => "asked",
            Self::Running => "running",
            Self::Waiting { .. } => "waiting",
            Self::Succeeded => "succeeded",
            Self::Failed(_) => "failed",
        }
    }

    /// Whether the run has begun and goes on.
    pub const fn is_active(self) -> bool {
        matches!(self, Self::Running | Self::Waiting { .. })
    }
}

/// Why a run failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RunFailure {
    /// Its last allowed attempt failed.
    BackoffLimitExceeded,
    /// It took longer than `activeDeadlineSeconds`.
    DeadlineExceeded,
    /// Its leader stopped leading, and `onInterrupt` is `fail`.
    Interrupted,
    /// Another slot took its place (`Replace`).
    Replaced,
    /// Somebody cancelled it.
    Cancelled,
}

impl RunFailure {
    pub const ALL: [Self; 5] =
        [Self::BackoffLimitExceeded, Self::DeadlineExceeded, Self::Interrupted, Self::Replaced, Self::Cancelled];

    /// As it is told, counted and stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BackoffLimitExceeded => "backoff_limit_exceeded",
            Self::DeadlineExceeded => "deadline_exceeded",
            Self::Interrupted => "interrupted",
            Self::Replaced => "replaced",
            Self::Cancelled => "cancelled",
        }
    }
}

/// One attempt of a run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunAttempt {
    /// Counts from 1.
    pub number: u32,
    /// Its own fencing token: greater than that of every earlier attempt of the job.
    pub token: Token,
    /// The term of the leader that claimed it.
    pub term: Token,
    /// That leader, for people.
    pub by: Arc<str>,
    pub claimed: Wall,
    /// How it ended, and when.
    pub end: Option<(Wall, Ending)>,
    /// It is known not to have started: its leader was about to stop leading. The next attempt has its number.
    pub withdrawn: bool,
    /// What is to be said of it, for people.
    pub note: String,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ending {
    /// It did what was asked.
    Succeeded,
    /// It did not.
    Failed,
    /// Its leader stopped leading before it ended.
    Interrupted,
    /// It was cancelled: its time was over, another slot took its place, or somebody asked for it.
    Cancelled,
}

impl Ending {
    pub const ALL: [Self; 4] = [Self::Succeeded, Self::Failed, Self::Interrupted, Self::Cancelled];

    /// As it is told, counted and stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
            Self::Cancelled => "cancelled",
        }
    }
}

impl Run {
    pub(super) const fn new(phase: Phase) -> Self {
        Self { phase, began: None, ended: None, attempts: Vec::new(), spent: 0, order: None, data: None }
    }

    /// What was asked of it and is not done yet.
    pub fn wish(&self) -> Option<RunWish> {
        self.order.filter(|order| !order.done).map(|order| order.what)
    }

    /// Whether somebody asked for it, or for another try of it, and no leader has begun that yet.
    pub(super) fn is_asked_for(&self) -> bool {
        match self.phase {
            Phase::Asked => true,
            Phase::Failed(_) => self.wish() == Some(RunWish::Retry),
            Phase::Running | Phase::Waiting { .. } | Phase::Succeeded => false,
        }
    }

    /// Whether it is over for good, so that it may be forgotten.
    pub(super) fn is_forgettable(&self) -> bool {
        self.phase.is_over() && !self.is_asked_for()
    }

    pub(super) fn data_bytes(&self) -> usize {
        self.data.as_ref().map_or(0, |data| data.len())
    }

    pub(super) fn ask(&mut self, what: RunWish, now: Wall) {
        if self.wish() != Some(what) {
            let after = self.order.map(|order| Wall::from_millis(order.at.as_millis() + 1)).unwrap_or_default();
            self.order = Some(RunOrder { at: now.max(after), what, done: false });
        }
    }

    /// What was asked of it is done, or needs not be done any more.
    pub(super) fn heeded(&mut self) {
        if let Some(order) = &mut self.order {
            order.done = true;
        }
    }

    /// It is tried again as if it were new, but for the numbers of its attempts.
    pub(super) fn begin_anew(&mut self) {
        (self.began, self.ended) = (None, None);
        self.spent = self.attempts_made();
        self.heeded();
    }

    /// Grows with everything that happens to a run. Of two attempts of the same number, that of the later term counts.
    pub(super) fn progress(&self) -> (Token, u8) {
        let token = self.attempts.last().map_or(Token::NONE, |last| last.token);
        let step = match self.phase {
            Phase::Asked => 0,
            Phase::Running => 1,
            Phase::Waiting { .. } => 2,
            Phase::Succeeded | Phase::Failed(_) => 3,
        };
        (token, step)
    }

    /// How many attempts have begun.
    pub(super) fn attempts_made(&self) -> u32 {
        self.attempts.last().map_or(0, |last| if last.withdrawn { last.number - 1 } else { last.number })
    }

    /// One more attempt.
    pub(super) fn push(&mut self, attempt: RunAttempt) {
        self.attempts.push(attempt);
        if self.attempts.len() > ATTEMPTS_KEPT {
            self.attempts.remove(0);
        }
    }

    /// The attempt that goes on.
    pub(super) fn open_attempt(&mut self) -> Option<&mut RunAttempt> {
        self.attempts.last_mut().filter(|last| last.end.is_none())
    }
}

/// Each is read by the word that it is written as.
macro_rules! words {
    ($($of:ty),+) => {$(
        impl fmt::Display for $of {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl FromStr for $of {
            type Err = ();

            fn from_str(word: &str) -> Result<Self, ()> {
                Self::ALL.into_iter().find(|one| one.as_str() == word).ok_or(())
            }
        }
    )+};
}

words!(RunFailure, Ending, GapReason, RunWish);

#[cfg(test)]
mod tests {
    use super::*;

    /// They stand in answers, metrics and ledgers.
    #[test]
    fn words_are_part_of_the_contract() {
        use Phase::{Asked, Failed, Running, Succeeded, Waiting};
        let phases = [Asked, Running, Waiting { until: Wall::default() }, Succeeded, Failed(RunFailure::Cancelled)];
        assert_eq!(phases.map(Phase::as_str), ["asked", "running", "waiting", "succeeded", "failed"]);
        let failures = ["backoff_limit_exceeded", "deadline_exceeded", "interrupted", "replaced", "cancelled"];
        assert_eq!(RunFailure::ALL.map(RunFailure::as_str), failures);
        assert_eq!(Ending::ALL.map(Ending::as_str), ["succeeded", "failed", "interrupted", "cancelled"]);
        assert_eq!(GapReason::ALL.map(GapReason::as_str), ["missed", "skipped", "suspended"]);
        assert_eq!(RunWish::ALL.map(RunWish::as_str), ["cancel", "retry"]);
        assert_eq!("skipped".parse(), Ok(GapReason::Concurrency));
    }
}
