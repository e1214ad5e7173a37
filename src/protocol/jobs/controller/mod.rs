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
//!    them. There is one exception: a slot that was passed over in a leap of the clock, and had no run, is decided anew
//!    under a clock that is behind it ([`super::Leaps`]). No slot has two runs, whatever clocks show.
//! 4. Who finds a later term's fence, or another role's, cancels what runs and writes no more. While it leads it looks
//!    again now and then, as if its term began: the job may be its own, or come back to it.
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
use super::ledger::{Gap, LEAP, Ledger};
use super::policy::{JobPolicy, Timetable};
use super::run::{Ending, Phase, RunFailure};
use super::{LedgerTerm, OpenReply, Revision, Stored, WriteReply, WriteRequest};
use crate::protocol::{Mono, Random, RoleName, Token};

/// How long to wait before an unanswered request is repeated.
const REPEAT_MIN: Duration = Duration::from_millis(100);
const REPEAT_MAX: Duration = Duration::from_millis(400);
/// How long who found another leader in possession of the ledger waits before it looks again. Long enough for a changed
/// configuration to reach every replica: while two roles' leaders both believe that a job is theirs, each takes it from
/// the other.
const LOOK_AGAIN: Duration = Duration::from_secs(60);
/// How often the clock of the day is looked at, at least: it may have been set.
const LOOK: Duration = Duration::from_secs(30);
/// How soon to look again whether there is time enough left in the term.
const ROOM_LOOK: Duration = Duration::from_millis(100);

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
    Open { id: JobRequestId, term: LedgerTerm },
    /// Write the ledger.
    Write { id: JobRequestId, request: Box<WriteRequest<Ledger>> },
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
    /// The ledger was another role's, or nobody's, and is this one's from now on.
    TakenOver { from: Option<RoleName> },
    /// A later term has opened the ledger.
    Superseded { fence: Token },
    /// Another role's leader has the ledger.
    Moved { to: RoleName },
    /// The ledger is ahead of this clock: this one is behind, or one that it was written under was ahead. What was
    /// passed over so is open again; or everything up to there is decided for good, and nothing is due until then.
    ClockAhead { by: Duration, reopened: bool },
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
    term: LedgerTerm,
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
    /// The ledger of another role, which is taken over by writing it as it is, and whose it is.
    found: Option<(Stored<Ledger>, Option<RoleName>)>,
    /// When to look again, once another leader was found to have the ledger.
    again_at: Option<Mono>,
    repeat_at: Option<Mono>,
    live: BTreeMap<Slot, Live>,
    /// The slot that was caught up last, and when it was claimed.
    caught_up: Option<(Slot, Mono)>,
    /// What the clocks showed last; and where the clock of the day was stepped ahead, until the slots from there on are
    /// decided.
    clocks: (Mono, Wall),
    stepped: Option<Wall>,
    /// That the ledger is ahead of this clock has been told.
    ahead_told: bool,
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
    /// A job, for this term. It asks for its ledger at once.
    pub fn new(profile: JobProfile, term: LedgerTerm, seed: u64, now: Moment) -> Self {
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
            found: None,
            again_at: None,
            repeat_at: None,
            live: BTreeMap::new(),
            caught_up: None,
            clocks: (now.mono, now.wall),
            stepped: None,
            ahead_told: false,
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
                self.again_at = None;
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

    /// Whether another leader has the job, for now at least.
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
        let ledger = &self.ledger;
        (!ledger.suspension.holds()).then(|| ledger.next_slot(&*self.profile.timetable, ledger.decided))?
    }

    fn proceed(&mut self, now: Moment) {
        // What still ends belongs to the look before.
        if self.again_at.is_some_and(|at| at <= now.mono) && self.live.is_empty() {
            self.begin_again();
        }
        if self.stage == Stage::Over {
            self.wake = self.again_at.filter(|at| *at > now.mono);
            return;
        }
        if self.repeat_at.is_some_and(|at| at <= now.mono) {
            self.repeat_at = None;
        }
        let mut wake = now.mono + LOOK;
        self.held_back = false;
        let (mono, wall) = std::mem::replace(&mut self.clocks, (now.mono, now.wall));
        let expected = wall.plus(now.mono.since(mono));
        if now.wall.since(expected) > LEAP {
            self.stepped.get_or_insert(expected);
        }
        self.stepped.take_if(|from| *from >= now.wall);
        if self.stage == Stage::Ready {
            self.end_what_is_cancelled(now);
            self.end_what_is_too_long(now);
        }
        self.start_confirmed(now);
        if self.stage == Stage::Ready {
            self.doubt_the_clock(now);
            self.mark_suspension(now);
            wake = wake.min(self.begin_attempts(now));
            // What begins next may be decided already.
            self.doubt_the_clock(now);
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
        let term = self.term.clone();
        let action = if let Some((found, _)) = &self.found {
            let request = WriteRequest { term: Some(term), base: Some(found.revision), body: found.body.clone() };
            JobAction::Write { id, request: Box::new(request) }
        } else if self.dirty && self.stage != Stage::Opening {
            // It finds out what a look would have, and is not put off by one look after the other.
            let request = WriteRequest { term: Some(term), base: self.base, body: self.ledger.clone() };
            JobAction::Write { id, request: Box::new(request) }
        } else if self.look {
            JobAction::Open { id, term }
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
            self.look_anew();
            return;
        }
        self.claims.splice(0..0, flight.claims);
        self.news.splice(0..0, flight.news);
        // An `Open` that came to nothing is repeated as well: the write that follows finds out what it would have.
        self.dirty = true;
    }

    fn opened(&mut self, now: Moment, reply: OpenReply<Ledger>) {
        match reply {
            OpenReply::Stale { fence } => self.superseded(now, JobEvent::Superseded { fence }),
            OpenReply::OtherRole { owner, stored } if self.stage == Stage::Opening => match stored.filter(|_| now.room)
            {
                Some(stored) => self.found = Some((stored, owner)),
                // A term that is nearly over, or was without anybody's notice, takes nothing from whoever leads.
                None => {
                    self.look_anew();
                    self.repeat_at = Some(now.mono + REPEAT_MAX);
                }
            },
            OpenReply::OtherRole { owner, stored } => self.lost_or_moved(now, owner, stored),
            OpenReply::Opened(stored) if self.stage == Stage::Opening => self.begin_term(now, stored),
            OpenReply::Opened(stored) => {
                if stored.as_ref().map(|stored| stored.revision) != self.base {
                    self.take_in(now, stored, Some(self.term.token));
                }
            }
        }
    }

    fn wrote(&mut self, now: Moment, flight: Flight, reply: WriteReply<Ledger>) {
        if let Some((found, from)) = self.found.take() {
            return match reply {
                WriteReply::Written { revision } => {
                    self.tell(JobEvent::TakenOver { from });
                    self.begin_term(now, Some(Stored { revision, body: found.body }));
                }
                WriteReply::Stale { fence } => self.superseded(now, JobEvent::Superseded { fence }),
                // Somebody has written since: what is there now is to be known first.
                WriteReply::OtherRole { .. } | WriteReply::Diverged(_) => self.look_anew(),
            };
        }
        match reply {
            WriteReply::Written { revision } => {
                self.base = Some(revision);
                self.confirmed.extend(flight.claims);
                self.actions.extend(flight.news.into_iter().map(JobAction::Tell));
            }
            WriteReply::Stale { fence } => self.superseded(now, JobEvent::Superseded { fence }),
            WriteReply::OtherRole { owner, stored } => {
                self.give_back(flight);
                self.lost_or_moved(now, owner, stored);
            }
            WriteReply::Diverged(stored) => {
                self.give_back(flight);
                self.take_in(now, stored, Some(self.term.token));
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

    /// A job is not stopped for years by a ledger from the future, and no slot of it has two runs.
    fn doubt_the_clock(&mut self, now: Moment) {
        let timetable = Arc::clone(&self.profile.timetable);
        let ahead = |ledger: &Ledger| ledger.decided_until(&*timetable).since(now.wall);
        let by = ahead(&self.ledger);
        if by <= LEAP {
            self.ahead_told = false;
            return;
        }
        self.dirty |= self.ledger.reopen(&*timetable, now.wall);
        let reopened = ahead(&self.ledger) <= LEAP;
        if reopened || !self.ahead_told {
            self.ahead_told = !reopened;
            self.tell(JobEvent::ClockAhead { by, reopened });
        }
    }

    /// By how much what is decided is ahead of the clock.
    pub fn ahead(&self, now: Wall) -> Duration {
        self.ledger().map_or(Duration::ZERO, |ledger| ledger.decided_until(&*self.profile.timetable).since(now))
    }

    /// The ledger that this leader has written is another role's: it was taken over, unless the store has lost what was
    /// written since it was that role's. Or it is nobody's: the store has lost all, and somebody wished for something.
    fn lost_or_moved(&mut self, now: Moment, owner: Option<RoleName>, stored: Option<Stored<Ledger>>) {
        let is_older = stored.as_ref().map(|stored| stored.revision) < self.base;
        match owner.filter(|_| !is_older) {
            Some(to) => self.superseded(now, JobEvent::Moved { to }),
            None => self.take_in(now, stored, None),
        }
    }

    /// What was found is not what is there, or nobody knows.
    fn look_anew(&mut self) {
        self.found = None;
        self.look = true;
    }

    /// As if the term had just begun. What was known is in the ledger, or is another leader's to say.
    fn begin_again(&mut self) {
        self.stage = Stage::Opening;
        (self.again_at, self.ahead_told) = (None, false);
        (self.flight, self.base, self.dirty, self.repeat_at) = (None, None, false, None);
        self.claims.clear();
        self.confirmed.clear();
        self.news.clear();
        self.resumes.clear();
        self.deadlines.clear();
        self.look_anew();
    }

    /// The store has another ledger than the one that was written last.
    fn take_in(&mut self, now: Moment, stored: Option<Stored<Ledger>>, term: Option<Token>) {
        let revision = stored.as_ref().map(|stored| stored.revision);
        if revision < self.base {
            self.tell(JobEvent::Restored);
        }
        self.base = revision;
        if let Some(stored) = stored {
            self.ledger.adopt(stored.body, term);
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

    fn superseded(&mut self, now: Moment, event: JobEvent) {
        self.again_at = (self.stage != Stage::Closing).then(|| now.mono + LOOK_AGAIN);
        self.stage = Stage::Over;
        self.found = None;
        let live: Vec<_> = self.live.iter().map(|(slot, live)| (*slot, live.attempt)).collect();
        for (slot, attempt) in live {
            self.actions.push_back(JobAction::Cancel { slot, attempt, why: RunFailure::Interrupted });
        }
        self.tell(event);
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
