//! The leader's side of the jobs that were made at run time, for one role and one term: when it takes what is due, what
//! it starts, and what becomes of a job once its attempt has ended. Pure, as [`super::JobController`] is.
//!
//! ```text
//!            take                     there is room                it ended
//!   due ───────────► taken by us ──────────────────► runs ────────────────────► settled: gone, or due again
//!                        │                                                         ▲
//!                        └── too late, expired, interrupted too often ─────────────┘
//! ```
//!
//! # Invariants
//!
//! 1. No attempt starts that the store has not given to this term (P6), and none without the time to cancel it.
//! 2. One take is out at a time. One without an answer is repeated under its number, and so brings what it brought.
//! 3. Every attempt that was given is settled, or the job is gone, or a later term has it: what the store says is taken
//!    and nobody here knows of is asked for ([`JobTake::all`]).
//! 4. An attempt that has ended here is not made again, also where the store has lost the word on it, as long as it is
//!    remembered.
//! 5. A later term's fence ends this taker: it cancels what runs and writes no more.

mod claims;
mod plan;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

pub use plan::{ClaimedJob, ClaimedPlan, RunRecord, RuntimePlan, RuntimeState};

use super::controller::{JobEvent, Moment};
use super::ids::{JobName, Slot, Wall};
use super::run::Ending;
use super::{JobSettle, JobSettleReply, JobTake, Revision, Settlement};
use crate::protocol::{Mono, RoleName, Token};

/// The most attempts of jobs made at run time that one role has at a time: each is a connection to an app.
const ACTIVE_MAX: usize = 256;
/// The most that are taken at once: a script is not to keep the store busy for longer than a renewal may wait.
const BATCH_MAX: usize = 100;
/// How often to look while something waits, at least: the clock of the day may have been set.
const LOOK: Duration = Duration::from_secs(30);
/// The same while nothing waits: what is put is told, and messages are hardly ever lost without a word.
const LOOK_IDLE: Duration = Duration::from_secs(300);
/// How soon to look again whether there is time enough left in the term.
const ROOM_LOOK: Duration = Duration::from_millis(100);
/// How many settled attempts are remembered.
const REMEMBERED: usize = 1_000;

/// Which take an answer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TakeId(u64);

/// What the driver tells. Where a request had no answer, it waits a moment before it says so: then it is repeated.
#[derive(Clone, Debug)]
pub enum TakerInput<W> {
    /// The answer to [`TakerAction::Take`].
    Took(TakeId, TakeAnswer<W>),
    /// There was none.
    TakeUnanswered(TakeId),
    /// The answer to [`TakerAction::Settle`].
    Settled { name: JobName, ticket: Token, reply: JobSettleReply },
    /// There was none.
    SettleUnanswered { name: JobName, ticket: Token },
    /// The answer to [`TakerAction::Look`]: which version of the job is there, if any, in the place of that one.
    Looked { name: JobName, of: Revision, revision: Option<Revision> },
    /// An attempt ended.
    Ended { name: JobName, ticket: Token, ending: Ending, note: String },
    /// Somebody has made, changed or deleted this job.
    Changed(JobName),
    /// What was said may have been missed.
    Gap,
    /// This replica is about to stop leading: nothing starts any more.
    Closing,
}

/// The store's answer to a take, read.
#[derive(Clone, Debug)]
pub enum TakeAnswer<W> {
    Taken {
        jobs: Vec<ClaimedJob<W>>,
        next: Option<Wall>,
        held: usize,
    },
    /// A later term has taken.
    Stale {
        fence: Token,
    },
}

/// What the driver is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TakerAction<W> {
    Take {
        id: TakeId,
        take: JobTake,
    },
    Settle {
        name: JobName,
        settle: JobSettle<RuntimeState>,
    },
    /// See whether this version of a job is still the one that is there.
    Look {
        name: JobName,
        of: Revision,
    },
    /// Start an attempt; `token` is its own. [`TakerInput::Ended`] must follow.
    Start {
        name: JobName,
        slot: Slot,
        scheduled: Wall,
        attempt: u32,
        token: Token,
        work: W,
    },
    /// End an attempt that runs. [`TakerInput::Ended`] follows all the same.
    Cancel {
        name: JobName,
        token: Token,
        why: Quit,
    },
    /// Something to log and count.
    Tell(TakerEvent),
}

/// Why an attempt is cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quit {
    /// The run has taken as long as it may.
    Deadline,
    /// The job was deleted, or another was put in its place.
    Gone,
    /// A later term has the role.
    Superseded,
}

/// What happened, for logs and metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TakerEvent {
    /// To this job.
    Job(JobName, JobEvent),
    /// It was not begun within its `ttl`, and is removed.
    Expired(JobName),
    /// This release cannot read it; it is tried again later.
    Unreadable(JobName),
    /// The configuration has a job of that name, which goes before: this one is removed.
    Shadowed(JobName),
    /// A later term has taken.
    Superseded { fence: Token },
}

#[derive(Debug, PartialEq, Eq)]
enum Stage {
    Ready,
    Closing,
    Over,
}

/// An attempt of ours.
#[derive(Debug)]
struct Attempt<W> {
    claim: ClaimedJob<W>,
    plan: RuntimePlan,
    state: RuntimeState,
    /// What it was started under: the store may give it another since, where it has lost that one.
    token: Token,
    /// When it was started; not yet, for want of room.
    since: Option<Mono>,
    /// When its run must be over.
    deadline: Option<Mono>,
    quit: Option<Quit>,
    /// Another job of that name, which is to begin when this has ended.
    successor: Option<ClaimedJob<W>>,
}

/// An attempt that has ended.
#[derive(Debug)]
struct Settled {
    revision: Revision,
    slot: Wall,
    attempt: u32,
    ticket: Token,
    then: Settlement<RuntimeState>,
    /// What is told once the store has it.
    news: Vec<TakerEvent>,
}

/// See the module. `W` is what the driver needs for starting an attempt.
#[derive(Debug)]
pub struct JobTaker<W> {
    role: RoleName,
    term: Token,
    stage: Stage,
    /// How many takes there were.
    requests: u64,
    /// The take that is out, and what it was.
    flight: Option<(TakeId, JobTake)>,
    /// That one had no answer.
    repeat: bool,
    /// When to take next.
    look_at: Mono,
    /// To be done as soon as possible: what was heard of.
    look: bool,
    /// The earliest that became due since the last take, by our own doing.
    due_since: Option<Wall>,
    /// The store has given to this term what is not known here.
    recover: bool,
    floor: Token,
    last_id: u64,
    attempts: BTreeMap<JobName, Attempt<W>>,
    /// What has ended, and the store has not said that it has it.
    settling: BTreeMap<JobName, Settled>,
    /// What it has said so of.
    done: BTreeMap<JobName, Settled>,
    /// Whom of these to forget first.
    oldest: VecDeque<JobName>,
    wake: Option<Mono>,
    actions: VecDeque<TakerAction<W>>,
}

impl<W: Clone> JobTaker<W> {
    /// For the term with this token. It looks at once, which shuts earlier terms out.
    pub fn new(role: RoleName, term: Token, now: Moment) -> Self {
        let mut taker = Self {
            role,
            term,
            stage: Stage::Ready,
            requests: 0,
            flight: None,
            repeat: false,
            look_at: now.mono,
            look: true,
            due_since: None,
            recover: false,
            floor: Token::NONE,
            last_id: 0,
            attempts: BTreeMap::new(),
            settling: BTreeMap::new(),
            done: BTreeMap::new(),
            oldest: VecDeque::new(),
            wake: None,
            actions: VecDeque::new(),
        };
        taker.proceed(now);
        taker
    }

    /// Takes something in.
    pub fn handle_input(&mut self, now: Moment, input: TakerInput<W>) {
        if self.stage == Stage::Over && !matches!(input, TakerInput::Ended { .. }) {
            return;
        }
        match input {
            TakerInput::Took(id, answer) => {
                if self.flight.take_if(|(out, _)| *out == id).is_some() {
                    self.took(now, answer);
                }
            }
            TakerInput::TakeUnanswered(id) => self.repeat |= self.flight.as_ref().is_some_and(|(out, _)| *out == id),
            TakerInput::Settled { name, ticket, reply } => self.settled(now, &name, ticket, reply),
            TakerInput::SettleUnanswered { name, ticket } => self.settle_again(&name, ticket),
            TakerInput::Looked { name, of, revision } => self.looked(now, &name, of, revision),
            TakerInput::Ended { name, ticket, ending, note } => self.ended(now, &name, ticket, ending, note),
            TakerInput::Changed(name) => {
                self.look = true;
                if let Some(attempt) = self.attempts.get(&name) {
                    self.actions.push_back(TakerAction::Look { name, of: attempt.claim.revision });
                }
            }
            TakerInput::Gap => {
                self.look = true;
                let attempts = self.attempts.iter();
                let look = |(name, attempt): (&JobName, &Attempt<W>)| TakerAction::Look {
                    name: name.clone(),
                    of: attempt.claim.revision,
                };
                self.actions.extend(attempts.map(look));
            }
            TakerInput::Closing => {
                if self.stage == Stage::Ready {
                    self.stage = Stage::Closing;
                    self.hand_back_what_has_not_begun(now);
                }
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
    pub fn poll_action(&mut self) -> Option<TakerAction<W>> {
        self.actions.pop_front()
    }

    /// Whether a later term has taken.
    pub fn is_over(&self) -> bool {
        self.stage == Stage::Over
    }

    /// Whether nothing runs and nothing is left to be written.
    pub fn is_settled(&self) -> bool {
        let written = self.flight.is_none() && self.settling.is_empty();
        self.attempts.is_empty() && (self.stage == Stage::Over || written)
    }

    /// How many attempts go on.
    pub fn active(&self) -> usize {
        self.attempts.len()
    }

    /// How many the store says are ours, as far as is known here.
    fn known(&self) -> usize {
        self.attempts.len() + self.settling.len()
    }

    fn proceed(&mut self, now: Moment) {
        if self.stage == Stage::Over {
            self.wake = None;
            return;
        }
        self.end_what_is_too_long(now);
        self.start_what_waits(now);
        self.take(now);
        let waits = self.attempts.values().any(|attempt| attempt.since.is_none());
        let is_ready = self.stage == Stage::Ready;
        let due = self.flight.is_none() && (self.look || self.look_at <= now.mono);
        let room = (is_ready && !now.room && (waits || due)).then(|| now.mono + ROOM_LOOK);
        let look = (is_ready && self.look_at > now.mono).then_some(self.look_at);
        let deadlines = self.attempts.values().filter(|attempt| attempt.quit.is_none());
        let deadline = deadlines.filter_map(|attempt| attempt.deadline).min();
        self.wake = [room, look, deadline].into_iter().flatten().min();
    }

    fn take(&mut self, now: Moment) {
        if let Some((id, take)) = &mut self.flight {
            if self.repeat {
                self.repeat = false;
                // The moment is that of the first: what it took by then, it took. Who is about to stop leading asks
                // as well, and hands back what it brought.
                *id = TakeId(self.last_id + 1);
                self.last_id = id.0;
                self.actions.push_back(TakerAction::Take { id: *id, take: take.clone() });
            }
            return;
        }
        if self.stage != Stage::Ready {
            return;
        }
        let free = ACTIVE_MAX.saturating_sub(self.known());
        let all = std::mem::take(&mut self.recover);
        let due = self.look || self.look_at <= now.mono;
        if !all && (!due || free == 0 || !now.room) {
            return;
        }
        self.requests += u64::from(!all);
        let take = JobTake {
            role: self.role.clone(),
            token: self.term,
            request: self.requests,
            floor: self.floor,
            now: now.wall,
            most: free.min(BATCH_MAX),
            all,
        };
        self.last_id += 1;
        let id = TakeId(self.last_id);
        self.flight = Some((id, take.clone()));
        self.repeat = false;
        if !all {
            self.look = false;
            self.due_since = None;
            self.look_at = now.mono + LOOK;
        }
        self.actions.push_back(TakerAction::Take { id, take });
    }

    fn took(&mut self, now: Moment, answer: TakeAnswer<W>) {
        match answer {
            TakeAnswer::Stale { fence } => self.superseded(fence),
            TakeAnswer::Taken { jobs, next, held } => {
                for claim in jobs {
                    self.floor = self.floor.max(claim.ticket);
                    self.claimed(now, claim);
                }
                // What is settled meanwhile makes it fewer, never more.
                self.recover = held > self.known();
                let next = next.into_iter().chain(self.due_since).min();
                self.look_at = now.mono + next.map_or(LOOK_IDLE, |next| next.since(now.wall).min(LOOK));
            }
        }
    }

    fn superseded(&mut self, fence: Token) {
        self.stage = Stage::Over;
        let live = self.attempts.iter_mut().filter(|(_, attempt)| attempt.since.is_some());
        let cancels = live.map(|(name, attempt)| {
            attempt.quit = Some(Quit::Superseded);
            TakerAction::Cancel { name: name.clone(), token: attempt.token, why: Quit::Superseded }
        });
        self.actions.extend(cancels);
        self.attempts.retain(|_, attempt| attempt.since.is_some());
        self.actions.push_back(TakerAction::Tell(TakerEvent::Superseded { fence }));
    }

    fn settled(&mut self, now: Moment, name: &JobName, ticket: Token, reply: JobSettleReply) {
        if self.settling.get(name).is_none_or(|settled| settled.ticket != ticket) {
            return;
        }
        match reply {
            JobSettleReply::Stale { fence } => return self.superseded(fence),
            // Gone: an earlier request of the same was executed, or the job is not there any more.
            JobSettleReply::Settled | JobSettleReply::Gone => {}
        }
        let Some(mut settled) = self.settling.remove(name) else { return };
        self.actions.extend(std::mem::take(&mut settled.news).into_iter().map(TakerAction::Tell));
        if let Settlement::Again { due, .. } = settled.then {
            self.look_at = self.look_at.min(now.mono + due.since(now.wall));
            self.due_since = self.due_since.into_iter().chain([due]).min();
        }
        self.remember(name.clone(), settled);
    }

    /// An answer that is late may bring it again.
    fn remember(&mut self, name: JobName, settled: Settled) {
        self.done.insert(name.clone(), settled);
        self.oldest.push_back(name);
        if self.oldest.len() > REMEMBERED
            && let Some(oldest) = self.oldest.pop_front()
        {
            self.done.remove(&oldest);
        }
    }

    fn settle_again(&mut self, name: &JobName, ticket: Token) {
        if let Some(settled) = self.settling.get(name).filter(|settled| settled.ticket == ticket) {
            self.actions.push_back(self.settle_action(name, settled));
        }
    }

    fn settle_action(&self, name: &JobName, settled: &Settled) -> TakerAction<W> {
        let Settled { revision, ticket, then, .. } = settled;
        let settle = JobSettle { token: self.term, revision: *revision, ticket: *ticket, then: then.clone() };
        TakerAction::Settle { name: name.clone(), settle }
    }

    /// The job is looked for because somebody has changed it, or may have. What is said of one that has ended since
    /// says nothing about the one that is in its place now, which may not have been there yet.
    fn looked(&mut self, now: Moment, name: &JobName, of: Revision, revision: Option<Revision>) {
        let ours = self.attempts.get(name).map(|attempt| attempt.claim.revision);
        if ours == Some(of) && ours != revision {
            self.quit(now, name, Quit::Gone);
        }
    }

    fn quit(&mut self, now: Moment, name: &JobName, why: Quit) {
        let Some(attempt) = self.attempts.get_mut(name).filter(|attempt| attempt.quit.is_none()) else { return };
        attempt.quit = Some(why);
        if attempt.since.is_some() {
            self.actions.push_back(TakerAction::Cancel { name: name.clone(), token: attempt.token, why });
        } else if let Some(attempt) = self.attempts.remove(name) {
            let Attempt { claim, plan, state, successor, .. } = attempt;
            match why {
                Quit::Deadline => self.end_before_it_begins(now, &claim, &plan, state),
                Quit::Gone | Quit::Superseded => self.forget(&claim),
            }
            if let Some(successor) = successor {
                self.claimed(now, successor);
            }
        }
    }

    fn end_what_is_too_long(&mut self, now: Moment) {
        let over = |attempt: &Attempt<W>| attempt.quit.is_none() && attempt.deadline.is_some_and(|at| at <= now.mono);
        let names: Vec<JobName> =
            self.attempts.iter().filter(|(_, attempt)| over(attempt)).map(|(name, _)| name.clone()).collect();
        for name in names {
            self.quit(now, &name, Quit::Deadline);
        }
    }
}

#[cfg(test)]
mod tests;
