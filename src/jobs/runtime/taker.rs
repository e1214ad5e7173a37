//! The task of one term: carries the taker's requests to the store and the answers back, starts attempts and tells how
//! they ended. It decides nothing.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::task::JoinSet;

use super::super::registry_store::{only, spec_of, state_of};
use super::super::run::{Assignment, CancelReason, Ended, Order, attempt, orders};
use super::super::task::{Pause, wall_now};
use super::{Running, RuntimeJobs};
use crate::base::subscription::Publisher;
use crate::base::{Backoff, Complaint, Turn};
use crate::config::{RoleConfig, RunConfig};
use crate::protocol::jobs::{
    ClaimedPlan, Ending, JobName, JobSettle, JobTake, JobTaker, Moment, Quit, Revision, RunId, RuntimeState, Slot,
    StoredJob, TakeId, TakerAction, TakerInput, Wall,
};
use crate::protocol::{Grace, RoleName, State, Token};
use crate::role::{RoleHandle, Work as RoleWork, WorkTerm};
use crate::store::{JobNews, StoreError};

/// The pauses before what failed is repeated.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// How long to rest when there is nothing to wake for.
const ROUND_MAX: Duration = Duration::from_secs(30);
/// What tokio's timers can tell apart.
const TIMER_GRAIN: Duration = Duration::from_millis(1);

/// What starting an attempt takes.
#[derive(Debug)]
struct Work {
    run: RunConfig,
    /// What the run is given.
    data: Option<Arc<str>>,
    finish_within: Duration,
}

type Input = TakerInput<Arc<Work>>;
/// What the store said, or that it did not.
type Reply = Pin<Box<dyn Future<Output = (Input, Option<StoreError>)> + Send>>;

struct Task {
    service: Arc<RuntimeJobs>,
    role: RoleHandle,
    term: Token,
    grace: Grace,
    taker: JobTaker<Arc<Work>>,
    /// A drain waits until what has ended is settled: else the next leader would make it again.
    unsettled: Option<RoleWork>,
    replies: FuturesUnordered<Reply>,
    attempts: JoinSet<(JobName, Token, Ended)>,
    backoff: Backoff,
    complaint: Complaint,
}

/// Runs the jobs of a role for one term; its name, once that is over and everything has ended.
pub(super) async fn run(service: Arc<RuntimeJobs>, role: RoleHandle, term: Token, grace: Grace) -> RoleName {
    let name = role.name().clone();
    let (publisher, mut news) = Publisher::open();
    service.takers.lock().insert(name.clone(), publisher);
    let mut changes = role.changes();
    let now = moment(&service, &role, term, &grace);
    let mut task = Task {
        taker: JobTaker::new(name.clone(), term, now),
        unsettled: None,
        replies: FuturesUnordered::new(),
        attempts: JoinSet::new(),
        backoff: Backoff::new(term.get(), PAUSE_MIN),
        complaint: Complaint::default(),
        service,
        role,
        term,
        grace,
    };
    while task.follows() {
        task.act();
        let pause = task.until_wake();
        tokio::select! {
            // An error means that the role has ended, which is seen at once.
            _ = changes.changed() => {}
            Some(news) = news.recv() => task.input(match news {
                JobNews::Changed(name) => TakerInput::Changed(name),
                JobNews::Gap => TakerInput::Gap,
            }),
            Some((input, error)) = task.replies.next(), if !task.replies.is_empty() => {
                task.complain(error);
                task.input(input);
            }
            Some(end) = task.attempts.join_next(), if !task.attempts.is_empty() => {
                // A panic ends the process before this is reached.
                if let Ok((name, token, ended)) = end {
                    task.ended(name, token, ended);
                }
            }
            () = tokio::time::sleep(pause) => {}
        }
    }
    task.service.takers.lock().remove(&name);
    // They end with the term. What is to be said of them, the next leader finds out.
    while let Some(end) = task.attempts.join_next().await {
        if let Ok((name, token, _)) = end {
            task.forget(&name, token);
        }
    }
    name
}

fn moment(service: &RuntimeJobs, role: &RoleHandle, term: Token, grace: &Grace) -> Moment {
    // Nothing is taken, and nothing starts, while all jobs are suspended, or before that is known.
    let goes_on = match *service.context.pause.borrow() {
        Pause::Unknown => false,
        Pause::Known(word) => word.is_none_or(|(suspend, _)| !suspend),
    };
    Moment {
        mono: service.context.clock.now(),
        wall: wall_now(),
        room: goes_on && role.remaining().is_some_and(|(token, left)| token == term && grace.allows(left)),
        // An attempt waits for its place once it is started.
        places: usize::MAX,
    }
}

impl Task {
    fn now(&self) -> Moment {
        moment(&self.service, &self.role, self.term, &self.grace)
    }

    /// Whether the term goes on, if only to be handed over.
    fn follows(&mut self) -> bool {
        self.unsettled.take_if(|_| self.taker.is_settled());
        if self.role.remaining().is_some_and(|(token, _)| token == self.term) {
            return true;
        }
        let draining = self.role.snapshot().view.state == State::Draining;
        if draining {
            self.input(TakerInput::Closing);
        }
        draining
    }

    fn input(&mut self, input: Input) {
        let now = self.now();
        self.taker.handle_input(now, input);
    }

    fn act(&mut self) {
        let now = self.now();
        if self.taker.poll_timeout().is_some_and(|at| at <= now.mono) {
            self.taker.handle_timeout(now);
        }
        while let Some(action) = self.taker.poll_action() {
            match action {
                TakerAction::Take { id, take } => self.take(id, take),
                TakerAction::Settle { name, settle } => self.settle(name, settle),
                TakerAction::Look { name, of } => self.look(name, of),
                TakerAction::Start { name, slot, scheduled, attempt, token, work } => {
                    self.start(name, (slot, scheduled), attempt, token, work);
                }
                TakerAction::Cancel { name, token, why } => self.cancel(&name, token, why),
                TakerAction::Tell(event) => {
                    self.service.context.telemetry.record_runtime_job(self.role.name(), &event, now.wall);
                }
            }
        }
        self.service.context.telemetry.runtime_jobs_active(self.service.running.lock().len());
    }

    fn until_wake(&self) -> Duration {
        let now = self.service.context.clock.now();
        self.taker.poll_timeout().map_or(ROUND_MAX, |at| at.since(now)).clamp(TIMER_GRAIN, ROUND_MAX)
    }

    /// How long what fails waits before it is told: longer and longer while all does.
    fn pause(&mut self) -> Duration {
        if self.complaint.reason().is_none() {
            self.backoff.reset();
        }
        self.backoff.next(PAUSE_MAX)
    }

    fn take(&mut self, id: TakeId, take: JobTake) {
        let (service, pause) = (Arc::clone(&self.service), self.pause());
        self.replies.push(Box::pin(async move {
            let known = service.surroundings.borrow().clone();
            let roles = only(&known.roles, &take.role);
            let reads = |name: &JobName, job: &StoredJob<bytes::Bytes>| {
                if known.names.contains(name) { ClaimedPlan::Shadowed } else { read(job, &roles) }
            };
            match service.registry.take(take, reads).await {
                Ok(answer) => (TakerInput::Took(id, answer), None),
                Err(error) => unanswered(pause, TakerInput::TakeUnanswered(id), error).await,
            }
        }));
    }

    fn settle(&mut self, name: JobName, settle: JobSettle<RuntimeState>) {
        let (service, pause) = (Arc::clone(&self.service), self.pause());
        let ticket = settle.ticket;
        self.replies.push(Box::pin(async move {
            match service.registry.settle(&name, settle).await {
                Ok(reply) => (TakerInput::Settled { name, ticket, reply }, None),
                Err(error) => unanswered(pause, TakerInput::SettleUnanswered { name, ticket }, error).await,
            }
        }));
    }

    fn look(&mut self, name: JobName, of: Revision) {
        let (service, pause) = (Arc::clone(&self.service), self.pause());
        self.replies.push(Box::pin(async move {
            match service.registry.get(&name).await {
                Ok(job) => (TakerInput::Looked { name, of, revision: job.map(|job| job.revision) }, None),
                // It is asked for anew.
                Err(error) => unanswered(pause, TakerInput::Changed(name), error).await,
            }
        }));
    }

    /// Says once what is wrong with the store, and once that it is well again.
    fn complain(&mut self, error: Option<StoreError>) {
        let role = self.role.name();
        match self.complaint.note(error.map(|error| error.to_string())) {
            Some(Turn::Wrong(reason)) => tracing::warn!(%role, %reason, "jobs made at run time cannot be used"),
            Some(Turn::Well) => tracing::info!(%role, "jobs made at run time can be used again"),
            None => {}
        }
    }

    fn start(&mut self, name: JobName, (slot, scheduled): (Slot, Wall), number: u32, token: Token, work: Arc<Work>) {
        let (orders, inbox) = orders();
        let run = RunId { job: name.clone(), slot };
        let (data, shard) = (work.data.clone(), self.role.name().shard_number());
        let assignment = Assignment { run, scheduled, attempt: number, token, data, shard };
        let guarded = WorkTerm {
            role: self.role.clone(),
            token: self.term,
            grace: self.grace,
            finish_within: work.finish_within,
            clock: Arc::clone(&self.service.context.clock),
        };
        self.unsettled.get_or_insert_with(|| self.role.begin_work(work.finish_within));
        self.service.running.lock().insert(name.clone(), Running { slot, attempt: number, token, orders });
        let service = Arc::clone(&self.service);
        self.attempts.spawn(async move {
            // `maxConcurrentRuns` is about all jobs.
            let places = &service.context.places;
            let _place = if places.is_limited() { Some(places.next().await) } else { None };
            let accepted = {
                let run = assignment.run.clone();
                move || tracing::debug!(%run, attempt = number, "the app will say when it has finished")
            };
            (name, token, attempt(&work.run, &assignment, guarded, inbox, accepted).await)
        });
    }

    fn cancel(&self, name: &JobName, token: Token, why: Quit) {
        let reason = match why {
            Quit::Deadline => CancelReason::Deadline,
            Quit::Gone | Quit::Superseded => CancelReason::Removed,
        };
        if let Some(ours) = self.service.running.lock().get(name).filter(|ours| ours.token == token) {
            // One that is gone needs not be told.
            let _ = ours.orders.send(Order::Cancel(reason));
        }
    }

    fn forget(&self, name: &JobName, token: Token) {
        let mut running = self.service.running.lock();
        if running.get(name).is_some_and(|ours| ours.token == token) {
            running.remove(name);
        }
    }

    fn ended(&mut self, name: JobName, ticket: Token, ended: Ended) {
        self.forget(&name, ticket);
        let (ending, note) = match ended {
            Ended::Succeeded { note } => (Ending::Succeeded, note.unwrap_or_default()),
            Ended::Failed { note } => (Ending::Failed, note),
            Ended::Interrupted { note } => (Ending::Interrupted, note),
            Ended::Cancelled => (Ending::Cancelled, String::new()),
        };
        self.input(TakerInput::Ended { name, ticket, ending, note });
    }
}

/// What a record asks for.
fn read(job: &StoredJob<bytes::Bytes>, roles: &[RoleConfig]) -> ClaimedPlan<Arc<Work>> {
    match (spec_of(job, roles), state_of(job)) {
        (Some(spec), Some(state)) => {
            let (plan, finish_within) = (spec.plan(), spec.finish_within);
            let work = Work { run: RunConfig::Http(spec.http), data: spec.data, finish_within };
            ClaimedPlan::Known { plan, state, work: Arc::new(work) }
        }
        _ => ClaimedPlan::Unreadable,
    }
}

/// What is said after the pause, where the store said nothing.
async fn unanswered(pause: Duration, input: Input, error: StoreError) -> (Input, Option<StoreError>) {
    tokio::time::sleep(pause).await;
    (input, Some(error))
}
