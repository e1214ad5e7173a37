//! The task of one job: follows the role, carries the controller's requests to the ledger and the answers back, starts
//! attempts and tells how they ended. It decides nothing.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;

use super::ledger_store::{LedgerError, Ledgers};
use super::places::{Place, Places};
use super::run::{Assignment, CancelReason, Ended, Order, OrderSender, attempt, orders};
use crate::base::clock::{SharedClock, wall_time};
use crate::base::{Backoff, Complaint, Turn};
use crate::config::RunConfig;
use crate::protocol::jobs::{
    Ending, JobAction, JobController, JobInput, JobName, JobPolicy, JobProfile, JobRequestId, Ledger, LedgerTerm,
    Moment, RunFailure, RunId, Slot, Timetable, Wall, WriteRequest,
};
use crate::protocol::{Grace, Mono, State, Token};
use crate::role::{RoleHandle, Snapshot, Work, WorkTerm};
use crate::telemetry::{JobReading, Telemetry};

/// The limit of the pause after a first failure of the store; it grows up to [`PAUSE_MAX`]. The controller adds its own
/// pause.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// How long a job that is no longer configured may take to end.
const RETIRE_MAX: Duration = Duration::from_secs(30);
/// How long to rest when there is nothing to wake for: a round now and then costs nothing.
const ROUND_MAX: Duration = Duration::from_secs(30);
/// What tokio's timers can tell apart.
const TIMER_GRAIN: Duration = Duration::from_millis(1);

/// What all jobs of a replica have in common.
pub(super) struct Context {
    pub(super) ledgers: Ledgers,
    pub(super) clock: SharedClock,
    pub(super) telemetry: Telemetry,
    pub(super) identity: Arc<str>,
    /// What somebody last asked of all jobs; nothing runs before it is known.
    pub(super) pause: watch::Sender<Pause>,
    pub(super) places: Places,
}

/// What this replica knows of a word about all jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pause {
    /// It has not asked the store yet.
    Unknown,
    /// Whether they are suspended, and since when somebody wants it so; none when nobody ever said.
    Known(Option<(bool, Wall)>),
}

impl Pause {
    pub(super) const fn word(self) -> Option<(bool, Wall)> {
        match self {
            Self::Unknown => None,
            Self::Known(word) => word,
        }
    }
}

/// A job as it is to be run from now on.
#[derive(Clone)]
pub(super) struct JobSpec {
    pub(super) name: JobName,
    pub(super) policy: JobPolicy,
    pub(super) timetable: Arc<dyn Timetable>,
    pub(super) run: Arc<RunConfig>,
    pub(super) grace: Grace,
    pub(super) finish_within: Duration,
    pub(super) role: RoleHandle,
}

/// What a job's task is told.
pub(super) enum Command {
    /// The configuration has changed.
    Configure(Box<JobSpec>),
    /// The app's word on an attempt that it answered with 202.
    Order { slot: Slot, attempt: Option<u32>, order: Order, done: oneshot::Sender<bool> },
    /// The job is gone from the configuration: end its attempts, and then the task.
    Retire,
}

/// What a leader's task shows of its job.
#[derive(Clone, Debug)]
pub(super) struct LeaderView {
    pub(super) ledger: Ledger,
    pub(super) next: Option<Wall>,
}

/// The other ends of a task.
pub(super) struct Ends {
    pub(super) commands: mpsc::Receiver<Command>,
    /// The role has changed.
    pub(super) role: watch::Receiver<Arc<Snapshot>>,
    /// Somebody may have written in the ledger.
    pub(super) changes: watch::Receiver<u64>,
    pub(super) view: watch::Sender<Option<Arc<LeaderView>>>,
}

/// The answer to a request of a term, or why there is none.
type Reply = Pin<Box<dyn Future<Output = (Token, JobInput, Option<LedgerError>)> + Send>>;

/// An attempt that goes on. The term is part of the key, because one of an earlier term may still be ending.
type AttemptKey = (Token, Slot, u32);

struct Task {
    context: Arc<Context>,
    spec: JobSpec,
    seed: u64,
    term: Option<(Token, JobController)>,
    replies: FuturesUnordered<Reply>,
    attempts: JoinSet<(AttemptKey, Ended)>,
    orders: BTreeMap<AttemptKey, OrderSender>,
    view: watch::Sender<Option<Arc<LeaderView>>>,
    /// How long what failed is not told to the controller, which then repeats it.
    backoff: Backoff,
    complaint: Complaint,
    /// A place for the next attempt.
    spare: Option<Place>,
    /// From the start of an attempt until its end is written: a drain waits for that, lest the next leader make again
    /// what was done.
    work: Option<Work>,
    /// Until when the task may go on though its job is gone.
    retired_until: Option<Mono>,
}

/// Runs a job until it is retired.
pub(super) async fn run(context: Arc<Context>, spec: JobSpec, seed: u64, mut ends: Ends) {
    let mut task = Task {
        context,
        spec,
        seed,
        term: None,
        replies: FuturesUnordered::new(),
        attempts: JoinSet::new(),
        orders: BTreeMap::new(),
        view: ends.view,
        backoff: Backoff::new(seed, PAUSE_MIN),
        complaint: Complaint::default(),
        spare: None,
        work: None,
        retired_until: None,
    };
    let mut role_ended = false;
    let mut pause = task.context.pause.subscribe();
    // Kept from round to round, for it has its turn.
    let mut next_place: Option<Pin<Box<dyn Future<Output = Place> + Send>>> = None;
    loop {
        task.follow(role_ended);
        task.act();
        if task.is_done() {
            return;
        }
        if task.wants_place() {
            next_place.get_or_insert_with(|| Box::pin(task.context.places.next()));
        } else {
            next_place = None;
        }
        let rest = task.until_wake();
        tokio::select! {
            change = ends.role.changed(), if !role_ended => role_ended = change.is_err(),
            command = ends.commands.recv() => match command {
                Some(Command::Configure(spec)) => {
                    ends.role = spec.role.changes();
                    role_ended = false;
                    task.configure(*spec);
                }
                Some(Command::Order { slot, attempt, order, done }) => {
                    // Who asked may be gone.
                    let _ = done.send(task.order(slot, attempt, order));
                }
                Some(Command::Retire) | None => task.retire(),
            },
            Ok(()) = ends.changes.changed() => {
                ends.changes.mark_unchanged();
                task.input(JobInput::Changed);
            }
            Some((term, input, error)) = task.replies.next(), if !task.replies.is_empty() => {
                task.complain(error);
                task.input_of(term, input);
            }
            Some(end) = task.attempts.join_next(), if !task.attempts.is_empty() => {
                // A panic ends the process before this is reached.
                if let Ok((key, ended)) = end {
                    task.ended(key, ended);
                }
            }
            Ok(()) = pause.changed() => task.reconfigured(),
            place = or_never(next_place.as_mut()) => {
                next_place = None;
                task.take(place);
            }
            () = tokio::time::sleep(rest) => {}
        }
    }
}

impl Task {
    fn moment(&self, term: Token) -> Moment {
        let room = |(token, left)| token == term && self.spec.grace.allows(left);
        Moment {
            mono: self.context.clock.now(),
            wall: wall_now(),
            room: self.retired_until.is_none() && self.spec.role.remaining().is_some_and(room),
            places: self.places(term),
        }
    }

    /// How many attempts of this term may go on at once, those that do included.
    fn places(&self, term: Token) -> usize {
        if !self.context.places.is_limited() {
            return usize::MAX;
        }
        let going_on = self.orders.keys().filter(|(of, ..)| *of == term).count();
        going_on + usize::from(self.spare.is_some())
    }

    fn wants_place(&self) -> bool {
        let wanted = self.term.as_ref().is_some_and(|(_, controller)| controller.places_wanted() > 0);
        wanted && self.spare.is_none() && self.context.places.is_limited()
    }

    /// A place is free, and is this job's turn.
    fn take(&mut self, place: Place) {
        self.spare = Some(place);
        let Some(now) = self.term.as_ref().map(|(term, _)| self.moment(*term)) else { return };
        if let Some((_, controller)) = &mut self.term {
            controller.handle_timeout(now);
        }
    }

    /// Begins a term when the role does, and ends it with the role's.
    fn follow(&mut self, role_ended: bool) {
        if self.is_settled() {
            self.work = None;
        }
        let leads = self.spec.role.remaining().map(|(token, _)| token).filter(|_| !role_ended);
        let state = self.spec.role.snapshot().view.state;
        match (&self.term, leads) {
            (Some((term, _)), Some(token)) if *term == token => {}
            (Some(_), _) if state == State::Draining && !role_ended => self.input(JobInput::Closing),
            (Some(_), _) => {
                self.term = None;
                self.view.send_replace(None);
                self.context.telemetry.job_is(&self.spec.name, &JobReading::default());
            }
            (None, _) => {}
        }
        let knows_pause = *self.context.pause.borrow() != Pause::Unknown;
        if let (None, Some(token), None, true) = (&self.term, leads, self.retired_until, knows_pause) {
            self.seed = self.seed.wrapping_add(1);
            let term = LedgerTerm { role: self.spec.role.name().clone(), token };
            let controller = JobController::new(self.profile(), term, self.seed, self.moment(token));
            self.term = Some((token, controller));
        }
    }

    fn profile(&self) -> JobProfile {
        JobProfile {
            policy: self.spec.policy.clone(),
            timetable: Arc::clone(&self.spec.timetable),
            identity: Arc::clone(&self.context.identity),
            pause: self.context.pause.borrow().word(),
        }
    }

    fn input(&mut self, input: JobInput) {
        if let Some((term, _)) = self.term {
            self.input_of(term, input);
        }
    }

    fn input_of(&mut self, of: Token, input: JobInput) {
        let now = self.moment(of);
        if let Some((_, controller)) = self.term.as_mut().filter(|(term, _)| *term == of) {
            controller.handle_input(now, input);
        }
    }

    /// Does what the controller asks for, and shows what it knows.
    fn act(&mut self) {
        let Some(term) = self.term.as_ref().map(|(term, _)| *term) else {
            self.spare = None;
            return;
        };
        let now = self.moment(term);
        if let Some((_, controller)) =
            self.term.as_mut().filter(|(_, c)| c.poll_timeout().is_some_and(|at| at <= now.mono))
        {
            controller.handle_timeout(now);
        }
        let mut acted = false;
        while let Some(action) = self.term.as_mut().and_then(|(_, controller)| controller.poll_action()) {
            acted = true;
            match action {
                JobAction::Open { id, term } => self.open(id, term),
                JobAction::Write { id, request } => self.write(term, id, *request),
                JobAction::Start { slot, attempt, token } => self.start(term, slot, attempt, token),
                JobAction::Cancel { slot, attempt, why } => self.cancel((term, slot, attempt), why),
                JobAction::Tell(event) => self.context.telemetry.record_job(&self.spec.name, &event, now.wall),
            }
        }
        self.show(acted, now.wall);
        // Others may need it.
        self.spare.take_if(|_| self.term.as_ref().is_none_or(|(_, controller)| controller.places_wanted() == 0));
    }

    /// What the ledger says is shown when it may have changed; what passes with time, each time.
    fn show(&self, changed: bool, now: Wall) {
        let Some((_, controller)) = &self.term else { return };
        let ledger = controller.ledger();
        let next = controller.next_slot();
        let reading = ledger.map(|ledger| JobReading {
            last_success: ledger.last_success,
            next,
            active: ledger.active().count(),
            suspended: ledger.suspension.holds(),
            ahead: controller.ahead(now),
            oldest: ledger.active().filter_map(|(_, run)| run.began).map(|began| now.since(began)).max(),
        });
        self.context.telemetry.job_is(&self.spec.name, &reading.unwrap_or_default());
        if changed {
            let view = ledger.map(|ledger| Arc::new(LeaderView { ledger: ledger.clone(), next }));
            self.view.send_replace(view);
        }
    }

    fn until_wake(&self) -> Duration {
        let now = self.context.clock.now();
        let controller = self.term.as_ref().and_then(|(_, controller)| controller.poll_timeout());
        let wake = [controller, self.retired_until].into_iter().flatten().min();
        wake.map_or(ROUND_MAX, |at| at.since(now)).max(TIMER_GRAIN)
    }

    fn open(&mut self, id: JobRequestId, term: LedgerTerm) {
        let (context, name, pause) = (Arc::clone(&self.context), self.spec.name.clone(), self.backoff.next(PAUSE_MAX));
        self.replies.push(Box::pin(async move {
            let reply = context.ledgers.open(&name, &term).await;
            answered(term.token, id, pause, reply.map(|reply| JobInput::Opened(id, reply))).await
        }));
    }

    fn write(&mut self, term: Token, id: JobRequestId, request: WriteRequest<Ledger>) {
        let (context, name, pause) = (Arc::clone(&self.context), self.spec.name.clone(), self.backoff.next(PAUSE_MAX));
        self.replies.push(Box::pin(async move {
            let WriteRequest { term: writer, base, body } = &request;
            let request = WriteRequest { term: writer.clone(), base: *base, body };
            let reply = context.ledgers.write(&name, request).await;
            answered(term, id, pause, reply.map(|reply| JobInput::Wrote(id, reply))).await
        }));
    }

    /// Says once what is wrong with the store, and once that it is well again.
    fn complain(&mut self, error: Option<LedgerError>) {
        if error.is_none() {
            self.backoff.reset();
        }
        let job = &self.spec.name;
        match self.complaint.note(error.map(|error| error.to_string())) {
            Some(Turn::Wrong(reason)) => tracing::warn!(%job, %reason, "the job's ledger cannot be used"),
            Some(Turn::Well) => tracing::info!(%job, "the job's ledger can be used again"),
            None => {}
        }
    }

    fn start(&mut self, term: Token, slot: Slot, number: u32, token: Token) {
        let key = (term, slot, number);
        let (sender, inbox) = orders();
        let run = RunId { job: self.spec.name.clone(), slot };
        let ledger = self.term.as_ref().and_then(|(_, controller)| controller.ledger());
        let data = ledger.and_then(|ledger| ledger.runs.get(&slot)?.data.clone());
        let shard = self.spec.role.name().shard_number();
        let assignment = Assignment { run, scheduled: slot.at(), attempt: number, token, data, shard };
        let guarded = WorkTerm {
            role: self.spec.role.clone(),
            token: term,
            grace: self.spec.grace,
            finish_within: self.spec.finish_within,
            clock: Arc::clone(&self.context.clock),
        };
        if self.work.is_none() {
            self.work = Some(self.spec.role.begin_work(self.spec.finish_within));
        }
        let (config, place) = (Arc::clone(&self.spec.run), self.spare.take());
        self.orders.insert(key, sender);
        self.attempts.spawn(async move {
            let _place = place;
            let accepted = {
                let run = assignment.run.clone();
                move || tracing::debug!(%run, attempt = number, "the app will say when it has finished")
            };
            (key, attempt(&config, &assignment, guarded, inbox, accepted).await)
        });
    }

    fn cancel(&mut self, key: AttemptKey, why: RunFailure) {
        let reason = match why {
            RunFailure::DeadlineExceeded => CancelReason::Deadline,
            RunFailure::Replaced => CancelReason::Replaced,
            RunFailure::Cancelled => CancelReason::Asked,
            // A later leader has the job, or its runs are over: they end as those of a job that is gone.
            RunFailure::Interrupted | RunFailure::BackoffLimitExceeded => CancelReason::Removed,
        };
        self.send_order(key, Order::Cancel(reason));
    }

    /// False when the attempt is gone, or is too far behind with the app's words. A cancellation always arrives.
    fn send_order(&self, key: AttemptKey, order: Order) -> bool {
        self.orders.get(&key).is_some_and(|orders| orders.send(order))
    }

    /// The app's word on an attempt of the present term.
    fn order(&self, slot: Slot, attempt: Option<u32>, order: Order) -> bool {
        let Some((term, _)) = &self.term else { return false };
        let fits = |key: &&AttemptKey| key.0 == *term && key.1 == slot && attempt.is_none_or(|number| number == key.2);
        self.orders.keys().rev().find(fits).is_some_and(|key| self.send_order(*key, order))
    }

    fn ended(&mut self, key: AttemptKey, ended: Ended) {
        self.orders.remove(&key);
        let (term, slot, attempt) = key;
        let (ending, note) = match ended {
            Ended::Succeeded { note } => (Ending::Succeeded, note.unwrap_or_default()),
            Ended::Failed { note } => (Ending::Failed, note),
            Ended::Interrupted { note } => (Ending::Interrupted, note),
            Ended::Cancelled if self.retired_until.is_some() => {
                (Ending::Interrupted, CancelReason::Removed.to_string())
            }
            Ended::Cancelled => (Ending::Cancelled, String::new()),
        };
        self.input_of(term, JobInput::Ended { slot, attempt, ending, note });
    }

    fn configure(&mut self, spec: JobSpec) {
        self.spec = spec;
        self.reconfigured();
    }

    fn reconfigured(&mut self) {
        let profile = self.profile();
        self.input(JobInput::Configured(profile));
    }

    fn retire(&mut self) {
        if self.retired_until.is_some() {
            return;
        }
        self.retired_until = Some(self.context.clock.now() + RETIRE_MAX);
        let keys: Vec<AttemptKey> = self.orders.keys().copied().collect();
        for key in keys {
            self.send_order(key, Order::Cancel(CancelReason::Removed));
        }
        self.input(JobInput::Closing);
    }

    /// Nothing goes on, and nothing is left to be written.
    fn is_settled(&self) -> bool {
        self.attempts.is_empty() && self.term.as_ref().is_none_or(|(_, controller)| controller.is_settled())
    }

    fn is_done(&self) -> bool {
        let Some(until) = self.retired_until else { return false };
        self.is_settled() || self.context.clock.now() >= until
    }
}

/// What it comes to, if there is any; else this never ends.
async fn or_never<F: Future>(future: Option<F>) -> F::Output {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

/// An answer for the controller, or why there is none, which is told only after the pause.
async fn answered(
    term: Token,
    id: JobRequestId,
    pause: Duration,
    reply: Result<JobInput, LedgerError>,
) -> (Token, JobInput, Option<LedgerError>) {
    match reply {
        Ok(input) => (term, input, None),
        Err(error) => {
            tokio::time::sleep(pause).await;
            (term, JobInput::Unanswered(id), Some(error))
        }
    }
}

/// The time of day.
pub(super) fn wall_now() -> Wall {
    Wall::from_millis(u64::try_from(wall_time().as_millisecond()).unwrap_or(0))
}
