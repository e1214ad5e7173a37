//! What a record says of a job that was made at run time, as far as its leader must know.

use std::sync::Arc;
use std::time::Duration;

use crate::protocol::Token;
use crate::protocol::jobs::ids::{JobName, Slot, Wall};
use crate::protocol::jobs::policy::{BackoffPolicy, OnInterrupt, Timetable};
use crate::protocol::jobs::run::RunFailure;
use crate::protocol::jobs::{Revision, StoredJob};

/// What was asked for. Checked by who took it in.
#[derive(Clone, Debug)]
pub struct RuntimePlan {
    /// When it is due after the first time; none: it runs once.
    pub timetable: Option<Arc<dyn Timetable>>,
    /// How many runs it has in all; none: no bound.
    pub repeats: Option<u32>,
    /// No run begins after this.
    pub expires: Option<Wall>,
    /// How late a run may begin; none: however late.
    pub starting_deadline: Option<Duration>,
    /// Failed attempts, and when they are repeated.
    pub backoff: BackoffPolicy,
    /// How long a run may take in all, repeated attempts included.
    pub active_deadline: Option<Duration>,
    /// What a run is whose leader stopped leading.
    pub on_interrupt: OnInterrupt,
}

/// What leaders have written of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuntimeState {
    /// How many runs have ended, or were missed.
    pub runs: u32,
    /// When the present run began.
    pub began: Option<Wall>,
    /// The last run that ended.
    pub last: Option<RunRecord>,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRecord {
    pub slot: Wall,
    pub attempts: u32,
    pub ended: Wall,
    /// Why it failed; none: it succeeded.
    pub failure: Option<RunFailure>,
    /// What is to be said of its last attempt, for people.
    pub note: String,
}

/// A job that a take has brought, read.
#[derive(Clone, Debug)]
pub struct ClaimedJob<W> {
    pub name: JobName,
    pub revision: Revision,
    /// The moment that the run is for.
    pub slot: Wall,
    /// When the attempt was due.
    pub due: Wall,
    pub attempt: u32,
    /// The attempt's own token.
    pub ticket: Token,
    /// The attempt before was never settled.
    pub interrupted: bool,
    pub plan: ClaimedPlan<W>,
}

/// What was read in its record.
#[derive(Clone, Debug)]
pub enum ClaimedPlan<W> {
    Known {
        plan: RuntimePlan,
        state: RuntimeState,
        work: W,
    },
    /// Nothing that this release knows.
    Unreadable,
    /// The configuration has a job of that name.
    Shadowed,
}

impl<W> ClaimedJob<W> {
    /// Of what the store keeps, without what it does not read.
    pub fn of<B>(name: JobName, job: &StoredJob<B>, plan: ClaimedPlan<W>) -> Self {
        let StoredJob { revision, slot, due, attempt, ticket, interrupted, .. } = *job;
        Self { name, revision, slot, due, attempt, ticket, interrupted, plan }
    }
}

impl RuntimePlan {
    /// What the run for this moment is called: only those of a timetable are slots of a schedule.
    pub fn slot(&self, at: Wall) -> Slot {
        let whole = at.as_millis().is_multiple_of(1_000);
        if whole && self.timetable.is_some() { Slot::Scheduled(at) } else { Slot::Manual(at) }
    }

    /// When the run after so many is due, if there is one. Slots that have passed have none: neither those of an
    /// outage nor those that came while a run went on.
    pub fn next(&self, runs: u32, now: Wall) -> Option<Wall> {
        if self.repeats.is_some_and(|repeats| runs >= repeats) {
            return None;
        }
        let next = self.timetable.as_ref()?.next_after(now)?;
        (!self.is_expired(next)).then_some(next)
    }

    /// Whether no run begins any more at this moment.
    pub fn is_expired(&self, at: Wall) -> bool {
        self.expires.is_some_and(|expires| at > expires)
    }
}
