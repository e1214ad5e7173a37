//! The leader's side of one job for one term: which slot is due, which attempt comes next, what is written before it
//! starts. Pure: time, answers and the ends of attempts go in, [`JobAction`]s come out.
//!
//! ```text
//!            due, or asked for                            the store has it
//!   slot ───────────────────────► claimed in the ledger ──────────────────► Start ──► the attempt runs
//!     │                              ▲                                                     │
//!     └─ too late, suspended, …      └──── the pause is over ◄── failed, interrupted ◄──────┤ ended
//!        counted as a gap                                                                  ▼
//!                                                             succeeded, failed for good: written
//! ```
//!
//! # Invariants
//!
//! 1. No attempt starts before the store has its claim under this term's token (P6).
//! 2. One write is out at a time, and each carries the whole ledger; so what the store has is always something that
//!    this controller, or one before it, wanted to be true.
//! 3. A slot is decided once. Slots are decided in their order, and never again once [`Ledger::decided`] has passed
//!    them, whatever the clock says later.
//! 4. A later term's fence ends this controller: it cancels what runs and writes no more.
//! 5. What the store lost, the next write puts back ([`Ledger::adopt`]).
//! 6. No attempt starts without the time left to cancel it ([`Moment::room`]), however late the word comes that its
//!    claim is written.
//! 7. No more attempts are claimed or go on than there are places ([`Moment::places`]).
//! 8. What became of a run or a slot is told once it is written: a leader that is told to be stale meanwhile has
//!    nothing to say on it.

mod attempts;
mod slots;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::ids::{Slot, Wall};
use super::ledger::{Gap, Ledger};
use super::policy::{JobPolicy, Timetable};
use super::run::{Ending, Phase, RunFailure};
use super::{OpenReply, Revision, Stored, WriteReply, WriteRequest};
use crate::protocol::{Mono, Random, Token};

/// How long to wait before an unanswered request is repeated.
const REPEAT_MIN: Duration = Duration::from_millis(100);
const REPEAT_MAX: Duration = Duration::from_millis(400);
/// How often the clock of the day is looked at, at least: it may have been set.
const LOOK: Duration = Duration::from_secs(30);
/// How soon to look again whether there is time enough left in the term.
const ROOM_LOOK: Duration = Duration::from_millis(100);
/// A ledger that is so far ahead of this replica's clock was written under a clock that was wrong. Less than that is
/// waited for: its slots have had their runs, and must not have them twice.
const AHEAD_MAX: Duration = Duration::from_secs(24 * 3_600);

/// A job as the configuration has it.
#[derive(Clone, Debug)]
pub struct JobProfile {
    /// How its runs are to be.
    pub policy: JobPolicy,
    /// When they are.
    pub timetable: Arc<dyn Timetable>,
    /// This replica, for people.
    pub identity: Arc<str>,
    /// What somebody last asked of all jobs, and when: whether they are suspended.
    pub pause: Option<(bool, Wall)>,
}

/// A moment, as the driver sees it.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// On the clock that goes on.
    pub mono: Mono,
    /// On the clock of the day.
    pub wall: Wall,
    /// Whether an attempt could still be cancelled before the lease could be another's.
    pub room: bool,
    /// How many attempts of the job this replica has a place for, those that go on included.
    pub places: usize,
}

/// Which request to the store an answer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobRequestId(u64);

/// What the driver tells.
#[derive(Clone, Debug)]
pub enum JobInput {
    /// The answer to [`JobAction::Open`].
    Opened(JobRequestId, OpenReply<Ledger>),
    /// The answer to [`JobAction::Write`].
    Wrote(JobRequestId, WriteReply<Ledger>),
    /// There was none: the request may or may not have been executed, or may be executed yet.
    Unanswered(JobRequestId),
    /// An attempt ended.
    Ended { slot: Slot, attempt: u32, ending: Ending, note: String },
    /// Somebody else may have written in the ledger.
    Changed,
    /// The configuration of the job is another now.
    Configured(JobProfile),
    /// This replica is about to stop leading: nothing starts any more.
    Closing,
}

/// What the driver is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobAction {
    /// Look at the ledger and shut it to earlier terms.
    Open { id: JobRequestId, token: Token },
    /// Write the ledger.
    Write { id: JobRequestId, request: WriteRequest<Ledger> },
    /// Start an attempt. [`JobInput::Ended`] must follow.
    Start { slot: Slot, attempt: u32, token: Token },
    /// End an attempt that runs. [`JobInput::Ended`] follows all the same.
    Cancel { slot: Slot, attempt: u32, why: RunFailure },
    /// Something to log and count.
    Tell(JobEvent),
}

/// What happened, for logs and metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobEvent {
    /// The ledger is there; so many runs of an earlier leader were found interrupted.
    Opened { interrupted: usize },
    /// An attempt was started, so long after its slot's time (the first attempt) or after it was due.
    Started { slot: Slot, attempt: u32, late: Duration },
    /// An attempt ended after so long.
    AttemptEnded { slot: Slot, attempt: u32, ending: Ending, took: Duration, note: String },
    /// A run is over, and the ledger says so.
    RunEnded { slot: Slot, failure: Option<RunFailure>, attempts: u32 },
    /// Slots have no run, and the ledger says so.
    Passed(Gap),
    /// The store had lost what is written again now.
    Restored,
    /// A later term has opened the ledger.
    Superseded { fence: Token },
    /// The ledger was written under a clock far ahead of this one.
    ClockAhead { by: Duration },
}

#[derive(Debug, PartialEq, Eq)]
enum Stage {
    Opening,
    Ready,
    Closing,
    Over,
}

#[derive(Debug)]
struct Flight {
    id: JobRequestId,
    claims: Vec<(Slot, u32)>,
    news: Vec<JobEvent>,
}

#[derive(Debug)]
struct Live {
    attempt: u32,
    since: Mono,
    cancelled: Option<RunFailure>,
}

#[derive(Debug)]
pub struct JobController {
    profile: JobProfile,
    term: Token,
    random: Random,
    stage: Stage,
    /// When this term first saw the ledger: slots before that were nobody's to start.
    began: Wall,
    ledger: Ledger,
    base: Option<Revision>,
    /// The ledger holds what the store has not got yet.
    dirty: bool,
    /// Claims that were not sent yet.
    claims: Vec<(Slot, u32)>,
    /// Claims that are written. Their attempts start as soon as there is room.
    confirmed: Vec<(Slot, u32)>,
    /// What is told once it is written.
    news: Vec<JobEvent>,
    flight: Option<Flight>,
    /// Somebody else may have written since the ledger was last looked at.
    look: bool,
    repeat_at: Option<Mono>,
    live: BTreeMap<Slot, Live>,
    /// When a run that waits goes on, and when a run must be over.
    resumes: BTreeMap<Slot, Mono>,
    deadlines: BTreeMap<Slot, Mono>,
    /// Something would have begun, were there a place.
    held_back: bool,
    wake: Option<Mono>,
    last_id: u64,
    actions: VecDeque<JobAction>,
}

impl JobController {
    /// A job, for the term with this token. It asks for its ledger at once.
    pub fn new(profile: JobProfile, term: Token, seed: u64, now: Moment) -> Self {
        let ledger = Ledger::new(profile.timetable.name(), profile.policy.suspend, now.wall);
        let mut controller = Self {
            profile,
            term,
            random: Random::new(seed),
            stage: Stage::Opening,
            began: now.wall,
            ledger,
            base: None,
            dirty: false,
            claims: Vec::new(),
            confirmed: Vec::new(),
            news: Vec::new(),
            flight: None,
            look: true,
            repeat_at: None,
            live: BTreeMap::new(),
            resumes: BTreeMap::new(),
            deadlines: BTreeMap::new(),
            held_back: false,
            wake: None,
            last_id: 0,
            actions: VecDeque::new(),
        };
        controller.proceed(now);
        controller
    }

    /// Takes something in.
    pub fn handle_input(&mut self, now: Moment, input: JobInput) {
        match input {
            JobInput::Opened(id, reply) => {
                if self.landed(id).is_some() {
                    self.opened(now, reply);
                }
            }
            JobInput::Wrote(id, reply) => {
                if let Some(flight) = self.landed(id) {
                    self.wrote(now, flight, reply);
                }
            }
            JobInput::Unanswered(id) => {
                if let Some(flight) = self.landed(id) {
                    self.give_back(flight);
                    self.repeat_at = Some(now.mono + self.random.between(REPEAT_MIN, REPEAT_MAX));
                }
            }
            JobInput::Ended { slot, attempt, ending, note } => self.ended(now, slot, attempt, ending, note),
            JobInput::Changed => self.look = true,
            JobInput::Configured(profile) => {
                self.profile = profile;
                self.declare(now);
            }
            JobInput::Closing => {
                // Who has not seen the ledger has nothing to write in it.
                let seen = matches!(self.stage, Stage::Ready | Stage::Closing);
                self.stage = if seen { Stage::Closing } else { Stage::Over };
                self.flight.take_if(|_| !seen);
            }
        }
        self.proceed(now);
    }

    /// Does what has become due. Extra calls change nothing.
    pub fn handle_timeout(&mut self, now: Moment) {
        self.proceed(now);
    }

    /// When to call [`Self::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Mono> {
        self.wake
    }

    /// What to do next.
    pub fn poll_action(&mut self) -> Option<JobAction> {
        self.actions.pop_front()
    }

    /// The ledger as this leader wants it; the store may be a write behind.
    pub fn ledger(&self) -> Option<&Ledger> {
        matches!(self.stage, Stage::Ready | Stage::Closing).then_some(&self.ledger)
    }

    /// Whether a later term has taken the job.
    pub fn is_over(&self) -> bool {
        self.stage == Stage::Over
    }

    /// Whether nothing runs and nothing is left to be written.
    pub fn is_settled(&self) -> bool {
        let written = self.flight.is_none() && !self.dirty && self.claims.is_empty();
        self.stage == Stage::Over || (written && self.live.is_empty())
    }

    /// How many places it could use besides those of what goes on: for what is claimed, and for what waits for a place
    /// alone.
    pub fn places_wanted(&self) -> usize {
        if self.stage == Stage::Ready { self.claimed() + usize::from(self.held_back) } else { 0 }
    }

    /// How many attempts are claimed and not started.
    fn claimed(&self) -> usize {
        self.claims.len() + self.confirmed.len() + self.flight.as_ref().map_or(0, |flight| flight.claims.len())
    }

    /// Whether an attempt may be claimed.
    fn may_claim(&mut self, now: Moment) -> bool {
        let has_place = self.live.len() + self.claimed() < now.places;
        self.held_back |= now.room && !has_place;
        now.room && has_place
    }

    /// The next slot that is not decided.
    pub fn next_slot(&self) -> Option<Wall> {
        (!self.ledger.suspension.holds()).then(|| self.profile.timetable.next_after(self.ledger.decided))?
    }

    fn proceed(&mut self, now: Moment) {
        if self.stage == Stage::Over {
            self.wake = None;
            return;
        }
        if self.repeat_at.is_some_and(|at| at <= now.mono) {
            self.repeat_at = None;
        }
        let mut wake = now.mono + LOOK;
        self.held_back = false;
        self.start_confirmed(now);
        if self.stage == Stage::Ready {
            self.doubt_the_clock(now);
            self.end_what_is_cancelled(now);
            self.end_what_is_too_long(now);
            self.mark_suspension(now);
            wake = wake.min(self.begin_attempts(now));
            self.dirty |= self.ledger.trim(self.profile.policy.history);
        }
        self.send();
        let repeat = self.repeat_at.filter(|_| self.flight.is_none() && (self.look || self.dirty));
        // One that is past was acted on, or is as soon as its claim has landed.
        let deadline = self.deadlines.values().copied().filter(|at| *at > now.mono).min();
        self.wake = [Some(wake), repeat, deadline].into_iter().flatten().min();
    }

    /// The request that this answers; none when it is not awaited any more.
    fn landed(&mut self, id: JobRequestId) -> Option<Flight> {
        self.flight.take_if(|flight| flight.id == id)
    }

    fn send(&mut self) {
        if self.flight.is_some() || self.repeat_at.is_some() {
            return;
        }
        let id = JobRequestId(self.last_id + 1);
        let action = if self.dirty && self.stage != Stage::Opening {
            // It finds out what a look would have, and is not put off by one look after the other.
            let request = WriteRequest { token: Some(self.term), base: self.base, body: self.ledger.clone() };
            JobAction::Write { id, request }
        } else if self.look {
            JobAction::Open { id, token: self.term }
        } else {
            return;
        };
        let writes = matches!(action, JobAction::Write { .. });
        let (claims, news) = if writes {
            (std::mem::take(&mut self.claims), std::mem::take(&mut self.news))
        } else {
            (Vec::new(), Vec::new())
        };
        self.dirty &= !writes;
        self.look = false;
        self.flight = Some(Flight { id, claims, news });
        self.actions.push_back(action);
        self.last_id = id.0;
    }

    /// A request came to nothing: what it was for is still to be done.
    fn give_back(&mut self, flight: Flight) {
        if self.stage == Stage::Opening {
            self.look = true;
            return;
        }
        self.claims.splice(0..0, flight.claims);
        self.news.splice(0..0, flight.news);
        // An `Open` that came to nothing is repeated as well: the write that follows finds out what it would have.
        self.dirty = true;
    }

    fn opened(&mut self, now: Moment, reply: OpenReply<Ledger>) {
        match reply {
            OpenReply::Stale { fence } => self.superseded(fence),
            OpenReply::Opened(stored) if self.stage == Stage::Opening => self.begin_term(now, stored),
            OpenReply::Opened(stored) => {
                if stored.as_ref().map(|stored| stored.revision) != self.base {
                    self.take_in(now, stored);
                }
            }
        }
    }

    fn wrote(&mut self, now: Moment, flight: Flight, reply: WriteReply<Ledger>) {
        match reply {
            WriteReply::Written { revision } => {
                self.base = Some(revision);
                self.confirmed.extend(flight.claims);
                self.actions.extend(flight.news.into_iter().map(JobAction::Tell));
            }
            WriteReply::Stale { fence } => self.superseded(fence),
            WriteReply::Diverged(stored) => {
                self.give_back(flight);
                self.take_in(now, stored);
            }
        }
    }

    /// The first look of this term.
    fn begin_term(&mut self, now: Moment, stored: Option<Stored<Ledger>>) {
        self.stage = Stage::Ready;
        self.began = now.wall;
        self.base = stored.as_ref().map(|stored| stored.revision);
        match stored {
            Some(stored) => self.ledger = stored.body,
            None => self.dirty = true,
        }
        self.doubt_the_clock(now);
        self.declare(now);
        let interrupted = self.interrupt_what_is_not_ours(now);
        self.tell(JobEvent::Opened { interrupted });
    }

    /// A job is not stopped for years by a ledger from the future.
    fn doubt_the_clock(&mut self, now: Moment) {
        let ahead = self.ledger.decided.since(now.wall);
        if ahead > AHEAD_MAX {
            self.ledger.decided = now.wall;
            self.dirty = true;
            self.tell(JobEvent::ClockAhead { by: ahead });
        }
    }

    /// The store has another ledger than the one that was written last.
    fn take_in(&mut self, now: Moment, stored: Option<Stored<Ledger>>) {
        let revision = stored.as_ref().map(|stored| stored.revision);
        if revision < self.base {
            self.tell(JobEvent::Restored);
        }
        self.base = revision;
        if let Some(stored) = stored {
            self.ledger.adopt(stored.body, self.term);
        }
        self.dirty = true;
        self.interrupt_what_is_not_ours(now);
    }

    fn declare(&mut self, now: Moment) {
        if self.stage == Stage::Ready {
            let name = self.profile.timetable.name();
            self.dirty |= self.ledger.declare(&name, &self.profile.policy, now.wall);
            self.dirty |= self.ledger.suspension.hear(self.profile.pause);
        }
    }

    fn superseded(&mut self, fence: Token) {
        self.stage = Stage::Over;
        let live: Vec<_> = self.live.iter().map(|(slot, live)| (*slot, live.attempt)).collect();
        for (slot, attempt) in live {
            self.actions.push_back(JobAction::Cancel { slot, attempt, why: RunFailure::Interrupted });
        }
        self.tell(JobEvent::Superseded { fence });
    }

    fn phase(&self, slot: Slot) -> Option<Phase> {
        self.ledger.runs.get(&slot).map(|run| run.phase)
    }

    fn tell(&mut self, event: JobEvent) {
        self.actions.push_back(JobAction::Tell(event));
    }

    /// Writes something down, and tells it then.
    fn record(&mut self, event: JobEvent) {
        self.news.push(event);
        self.dirty = true;
    }
}

#[cfg(test)]
mod tests;
