//! Jobs that are made at run time: what may be asked of them, by any replica, and the tasks that run them on the one
//! that leads their role.

mod taker;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::task::{JoinHandle, JoinSet};

use super::registry_store::{Registry, state_of};
use super::run::{Order, OrderSender};
use super::service::JobError;
use super::task::{Context, wall_now};
use crate::base::subscription::Publisher;
use crate::config::{ConfigProblem, JobConfig, RoleConfig, RuntimeJob, runtime_job};
use crate::protocol::jobs::{
    JobName, JobPutReply, JobWish, JobWishReply, RunId, RuntimeState, Slot, StoredJob, Timetable,
};
use crate::protocol::{Grace, RoleName, Token};
use crate::role::{RoleHandle, Roles};
use crate::store::{JobNews, RegistryStore, StoreError};

/// How often a wish is made anew because the job has changed.
const TRIES: usize = 10;
/// How long the takers may take to end, once their roles have.
const END_MAX: Duration = Duration::from_secs(10);

/// Why nothing came of a request. The texts hold no secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuntimeError {
    /// The name belongs to the configuration.
    #[error("{job} is a job of the configuration file (under `jobs`): change it there")]
    OfTheFile { job: JobName },
    /// What was put is not right.
    #[error("{}", listed(.0))]
    Wrong(Vec<ConfigProblem>),
    /// Another job has the name, and is not to be overwritten.
    #[error("there is another job {job}, and overwrite is false")]
    Exists { job: JobName },
    /// There is no such job.
    #[error("there is no job {job}")]
    Unknown { job: JobName },
    /// Its run goes on.
    #[error("{job} runs already; its runs never overlap")]
    Runs { job: JobName },
    /// It changes all the time.
    #[error("{job} changes all the time; ask again")]
    Busy { job: JobName },
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn listed(problems: &[ConfigProblem]) -> String {
    let one = |problem: &ConfigProblem| match problem.path.as_str() {
        "" => problem.message.clone(),
        path => format!("{path}: {}", problem.message),
    };
    problems.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// A job as it stands.
#[derive(Clone, Debug)]
pub struct RuntimeView {
    pub name: JobName,
    pub job: StoredJob<Bytes>,
    /// What leaders have written; none where a later release did.
    pub state: Option<RuntimeState>,
    /// Who leads its role, as far as this replica knows.
    pub holder: Option<Arc<str>>,
    /// Whether this replica runs it.
    pub leads: bool,
    /// Whether all jobs are suspended.
    pub paused: bool,
}

/// What the configuration says of them.
#[derive(Clone, Default)]
struct Surroundings {
    /// Names that are taken.
    names: Arc<BTreeSet<JobName>>,
    roles: Arc<[RoleConfig]>,
    handles: Roles,
}

/// An attempt that goes on here.
struct Running {
    slot: Slot,
    attempt: u32,
    token: Token,
    orders: OrderSender,
}

/// See the module. Shared by reference.
pub(super) struct RuntimeJobs {
    registry: Registry,
    context: Arc<Context>,
    surroundings: watch::Sender<Surroundings>,
    /// Those who run jobs, and hear of them.
    takers: Mutex<BTreeMap<RoleName, Publisher<JobNews>>>,
    running: Mutex<BTreeMap<JobName, Running>>,
    /// Somebody here runs jobs, and is to hear of them.
    listens: Arc<Notify>,
    /// The task that keeps the takers.
    keeper: Mutex<Option<JoinHandle<()>>>,
}

impl RuntimeJobs {
    /// Begins without roles, in the runtime that this is called in. `listens` is told once somebody here is to hear of
    /// jobs.
    pub(super) fn open(store: Arc<dyn RegistryStore>, context: &Arc<Context>, listens: &Arc<Notify>) -> Arc<Self> {
        let registry = Registry::new(store, context.telemetry.clone(), Arc::clone(&context.clock));
        let service = Arc::new(Self {
            registry,
            context: Arc::clone(context),
            surroundings: watch::Sender::new(Surroundings::default()),
            takers: Mutex::default(),
            running: Mutex::default(),
            listens: Arc::clone(listens),
            keeper: Mutex::default(),
        });
        let keeper = tokio::spawn(keep(Arc::clone(&service), service.surroundings.subscribe()));
        *service.keeper.lock() = Some(keeper);
        service
    }

    /// Runs the jobs of these roles from now on. The names of the configuration's jobs are not to be had.
    pub(super) fn follow(&self, jobs: &[JobConfig], roles: &[RoleConfig], handles: &Roles) {
        let names = Arc::new(jobs.iter().map(|job| job.name.clone()).collect());
        self.surroundings.send_replace(Surroundings { names, roles: roles.into(), handles: handles.clone() });
    }

    /// Waits until what goes on has ended. The roles are gone by now.
    pub(super) async fn all_ended(&self) {
        self.surroundings.send_replace(Surroundings::default());
        let keeper = self.keeper.lock().take();
        if let Some(keeper) = keeper {
            // One that panics ends the process.
            let _ = tokio::time::timeout(END_MAX, keeper).await;
        }
    }

    /// Tells whoever runs jobs here.
    pub(super) fn hear(&self, news: &JobNews) {
        self.takers.lock().values_mut().for_each(|taker| taker.tell(news.clone()));
    }

    fn free(&self, name: &JobName) -> Result<(), RuntimeError> {
        if self.surroundings.borrow().names.contains(name) {
            return Err(RuntimeError::OfTheFile { job: name.clone() });
        }
        Ok(())
    }

    /// Makes a job of what somebody sent.
    pub(super) async fn put(
        &self,
        name: &JobName,
        body: &[u8],
        overwrite: bool,
    ) -> Result<(JobPutReply, RuntimeJob), RuntimeError> {
        self.free(name)?;
        let now = wall_now();
        let roles = Arc::clone(&self.surroundings.borrow().roles);
        let job = runtime_job(body, &roles, now).map_err(RuntimeError::Wrong)?;
        let reply = self.registry.put(name, &job, job.first(now).unwrap_or(now), overwrite).await?;
        match reply {
            JobPutReply::Exists(_) => Err(RuntimeError::Exists { job: name.clone() }),
            JobPutReply::Created(_) | JobPutReply::Replaced(_) | JobPutReply::Unchanged(_) => Ok((reply, job)),
        }
    }

    /// A job as it stands.
    pub(super) async fn view(&self, name: &JobName) -> Result<RuntimeView, RuntimeError> {
        let job = self.registry.get(name).await?.ok_or_else(|| RuntimeError::Unknown { job: name.clone() })?;
        Ok(self.shown(name.clone(), job))
    }

    fn shown(&self, name: JobName, job: StoredJob<Bytes>) -> RuntimeView {
        let role = self.surroundings.borrow().handles.get(job.role.as_str());
        let (holder, leads) = role.map_or((None, false), |role| (role.holder(), role.leads()));
        let paused = self.context.pause.borrow().word().is_some_and(|(suspend, _)| suspend);
        RuntimeView { state: state_of(&job), holder, leads, paused, name, job }
    }

    /// The jobs after this name: so many at the most.
    pub(super) async fn page(&self, after: Option<&JobName>, most: usize) -> Result<Vec<RuntimeView>, RuntimeError> {
        let jobs = self.registry.list(after, most).await?;
        Ok(jobs.into_iter().map(|(name, job)| self.shown(name, job)).collect())
    }

    /// Removes a job. What runs is cancelled.
    pub(super) async fn delete(&self, name: &JobName) -> Result<(), RuntimeError> {
        self.free(name)?;
        if self.registry.delete(name).await? { Ok(()) } else { Err(RuntimeError::Unknown { job: name.clone() }) }
    }

    /// Asks for a run now.
    pub(super) async fn ask(&self, name: &JobName) -> Result<RunId, RuntimeError> {
        let slot = self.wish(name, |_| JobWish::Run { now: wall_now() }).await?;
        Ok(RunId { job: name.clone(), slot: Slot::Manual(slot) })
    }

    /// Suspends or resumes a job.
    pub(super) async fn suspend(&self, name: &JobName, suspend: bool) -> Result<(), RuntimeError> {
        let roles = Arc::clone(&self.surroundings.borrow().roles);
        let resumed = |job: &StoredJob<Bytes>| {
            let spec = super::registry_store::spec_of(job, &roles);
            let next = spec.and_then(|spec| spec.schedule).and_then(|schedule| schedule.next_after(wall_now()));
            // One that runs once runs when it was to, or now.
            JobWish::Resume { slot: next.unwrap_or(job.slot) }
        };
        self.wish(name, |job| if suspend { JobWish::Suspend } else { resumed(job) }).await.map(drop)
    }

    async fn wish(
        &self,
        name: &JobName,
        wish: impl Fn(&StoredJob<Bytes>) -> JobWish,
    ) -> Result<crate::protocol::jobs::Wall, RuntimeError> {
        for _ in 0..TRIES {
            let job = self.registry.get(name).await?.ok_or_else(|| RuntimeError::Unknown { job: name.clone() })?;
            match self.registry.wish(name, job.revision, wish(&job)).await? {
                JobWishReply::Granted { slot } => return Ok(slot),
                JobWishReply::Busy => return Err(RuntimeError::Runs { job: name.clone() }),
                JobWishReply::Gone => {}
            }
        }
        Err(RuntimeError::Busy { job: name.clone() })
    }

    /// Passes the app's word on to an attempt that goes on on this replica.
    pub(super) fn order(&self, job: &JobName, id: &str, attempt: Option<u32>, order: Order) -> Result<(), JobError> {
        let unknown = || JobError::UnknownRun { job: job.clone(), id: id.chars().take(80).collect() };
        let run = RunId::of(job, id).ok_or_else(unknown)?;
        let running = self.running.lock();
        let ours = running.get(job).filter(|ours| ours.slot == run.slot);
        let ours = ours.filter(|ours| attempt.is_none_or(|attempt| attempt == ours.attempt));
        if ours.is_some_and(|ours| ours.orders.send(order)) {
            return Ok(());
        }
        Err(JobError::NotRunning { run })
    }
}

/// Keeps a task for each role that this replica leads.
async fn keep(service: Arc<RuntimeJobs>, mut surroundings: watch::Receiver<Surroundings>) {
    let mut waiting = FuturesUnordered::new();
    let mut takers: JoinSet<RoleName> = JoinSet::new();
    let mut busy: BTreeSet<RoleName> = BTreeSet::new();
    let mut known = Surroundings::default();
    loop {
        tokio::select! {
            changed = surroundings.changed() => {
                if changed.is_err() {
                    return;
                }
                known = surroundings.borrow_and_update().clone();
                waiting.clear();
                let idle = known.handles.all().into_iter().filter(|role| !busy.contains(role.name()));
                waiting.extend(idle.map(until_led));
                if known.roles.is_empty() {
                    // They end with their roles, which are gone.
                    while takers.join_next().await.is_some() {}
                    return;
                }
            }
            Some((role, term)) = waiting.next() => {
                let timing = known.roles.iter().find(|of| of.name == *role.name()).map(|of| of.timing);
                let Some(timing) = timing else { continue };
                busy.insert(role.name().clone());
                service.listens.notify_one();
                takers.spawn(taker::run(Arc::clone(&service), role, term, Grace::of_request(&timing)));
            }
            Some(ended) = takers.join_next() => {
                // A panic ends the process before this is reached.
                let Ok(role) = ended else { continue };
                busy.remove(&role);
                waiting.extend(known.handles.get(role.as_str()).map(until_led));
            }
        }
    }
}

/// Waits until this replica leads a role.
async fn until_led(role: RoleHandle) -> (RoleHandle, Token) {
    let mut changes = role.changes();
    loop {
        changes.mark_unchanged();
        if let Some((term, _)) = role.remaining() {
            return (role, term);
        }
        if changes.changed().await.is_err() {
            // The role's task has ended; another may follow with the next configuration.
            std::future::pending::<()>().await;
        }
    }
}
