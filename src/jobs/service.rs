//! The jobs of this replica, started and retired as the configuration changes, and what may be asked of them.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::ready;
use futures_util::{Stream, StreamExt, stream};
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use super::ledger_store::{LedgerError, Ledgers};
use super::places::Places;
use super::run::{Order, grace_of, rfc3339};
use super::runtime::RuntimeJobs;
use super::task::{self, Command, Context, Ends, JobSpec, LeaderView, Pause, wall_now};
use crate::base::clock::SharedClock;
use crate::base::process::Entropy;
use crate::base::{Complaint, Turn};
use crate::config::{JobConfig, RoleConfig};
use crate::protocol::jobs::{
    self, AskRefusal, Backfill, BackfillRefusal, JobName, Ledger, RunId, RunRefusal, RunRequest, RunWish, Slot,
    Timetable, Wall, WriteReply, WriteRequest,
};
use crate::role::{RoleHandle, Roles};
use crate::store::{JobNews, LedgerStore, RegistryStore, StoreError};
use crate::telemetry::Telemetry;

/// How many commands may wait for a job's task.
const COMMANDS: usize = 64;
/// How often a wish is written anew because somebody else wrote first.
const TRIES: usize = 10;
/// How many ledgers are read at once to list all jobs.
const READS: usize = 32;
/// How often it is asked whether all jobs are suspended, though nothing was heard; and when that failed.
const PAUSE_LOOK: Duration = Duration::from_secs(60);
const PAUSE_LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Why nothing came of a request. The texts hold no secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JobError {
    /// The configuration has no such job, but these.
    #[error("there is no job {name}")]
    UnknownJob { name: String, known: Vec<String> },
    /// The job has no such run, or has forgotten it.
    #[error("{job} has no run {id}, or has forgotten it")]
    UnknownRun { job: JobName, id: String },
    /// Only the attempt that goes on can be reported on, and only here where it was started.
    #[error(
        "{run} has no such attempt that goes on on this replica: it ended, was cut off, or another replica made it"
    )]
    NotRunning { run: RunId },
    /// It has ended, as the phase tells, and cannot be cancelled any more.
    #[error("{run} has ended: it {phase}")]
    RunEnded { run: RunId, phase: &'static str },
    /// Only what has failed can be retried.
    #[error("{run} has not failed, so it cannot be retried: it is {phase}; ask for a run of its own instead")]
    NotFailed { run: RunId, phase: &'static str },
    /// What was asked for is no range of the past.
    #[error("a backfill of {job}: {why}")]
    BadBackfill { job: JobName, why: String },
    /// It cannot begin now.
    #[error("a backfill of {job} cannot begin: {why}")]
    BackfillRefused { job: JobName, why: String },
    /// So many runs were asked for that have not begun.
    #[error("{job} has {most} runs that were asked for and have not begun, as many as may be", most = jobs::ASKED_MAX)]
    TooManyAsked { job: JobName },
    /// Those that go on were given as much as is kept.
    #[error(
        "the runs of {job} that have not ended were given {most} bytes, or would be with this one, and no more is kept",
        most = jobs::DATA_BYTES_SUM_MAX
    )]
    TooMuchData { job: JobName },
    /// The job's runs cannot be given anything.
    #[error("a run of {job} would not see what it is given: {why}")]
    NoData { job: JobName, why: &'static str },
    /// The key stands for another request.
    #[error("the Idempotency-Key is that of an earlier request for a run of {job}, which was given something else")]
    OtherData { job: JobName },
    /// The ledger cannot be had.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// Others write faster.
    #[error("{job}: its ledger changes all the time; ask again")]
    Busy { job: JobName },
}

/// A job as it stands.
#[derive(Clone, Debug)]
pub struct JobView {
    /// What the configuration says.
    pub config: JobConfig,
    /// Who leads its role, as far as this replica knows.
    pub holder: Option<Arc<str>>,
    /// Whether this replica starts its runs.
    pub leads: bool,
    /// What is written about it; none before a leader first saw it.
    pub ledger: Option<Ledger>,
    /// The next slot; none while the job is suspended or nobody has seen it.
    pub next: Option<Wall>,
    /// Whether all jobs are suspended.
    pub paused: bool,
}

struct Entry {
    config: JobConfig,
    role: RoleHandle,
    commands: mpsc::Sender<Command>,
    changes: watch::Sender<u64>,
    view: watch::Receiver<Option<Arc<LeaderView>>>,
    task: JoinHandle<()>,
}

/// See the module. Shared by reference.
pub struct JobService {
    context: Arc<Context>,
    entropy: Mutex<Entropy>,
    jobs: Mutex<BTreeMap<JobName, Entry>>,
    /// Those that are made at run time, where the store has room for them.
    runtime: OnceLock<Arc<RuntimeJobs>>,
    /// There are jobs, or this replica leads what may have some.
    has_jobs: Arc<Notify>,
}

impl std::fmt::Debug for JobService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JobService").field("jobs", &self.entries().keys().collect::<Vec<_>>()).finish_non_exhaustive()
    }
}

impl JobService {
    /// Begins without jobs, in the runtime that this is called in, and starts the listener: a task that hears of
    /// wishes. It runs until it is aborted; any other end is a bug.
    pub fn open(
        store: Arc<dyn LedgerStore>,
        identity: Arc<str>,
        clock: SharedClock,
        telemetry: Telemetry,
        entropy: Entropy,
    ) -> (Arc<Self>, JoinHandle<()>) {
        let ledgers = Ledgers::new(store, telemetry.clone(), Arc::clone(&clock));
        let pause = watch::Sender::new(Pause::Unknown);
        let places = Places::unlimited();
        let context = Arc::new(Context { ledgers, clock, telemetry, identity, pause, places });
        let entropy = Mutex::new(entropy);
        let (jobs, runtime) = (Mutex::default(), OnceLock::new());
        let service = Arc::new(Self { context, entropy, jobs, runtime, has_jobs: Arc::default() });
        let listener = tokio::spawn(listen(Arc::clone(&service)));
        (service, listener)
    }

    /// From now on jobs can be made at run time, and are kept in this store. Must be called inside a tokio runtime.
    pub fn add_registry(&self, store: Arc<dyn RegistryStore>) {
        self.context.telemetry.add_runtime_jobs();
        self.runtime.get_or_init(|| RuntimeJobs::open(store, &self.context, &self.has_jobs));
    }

    /// Those that are made at run time, where there can be any.
    pub(super) fn runtime(&self) -> Option<&Arc<RuntimeJobs>> {
        self.runtime.get()
    }

    /// News, once those have heard them who run jobs that were made at run time.
    fn told(&self, news: Option<JobNews>) -> Option<JobNews> {
        self.runtime().into_iter().zip(&news).for_each(|(runtime, news)| runtime.hear(news));
        news
    }

    fn entries(&self) -> MutexGuard<'_, BTreeMap<JobName, Entry>> {
        self.jobs.lock()
    }

    /// Makes so many attempts at once from now on; none: however many.
    pub fn limit(&self, attempts: Option<usize>) {
        self.context.places.limit(attempts);
    }

    /// Runs these jobs from now on, under these roles: starts new ones, retires those that are gone, tells the others
    /// what has changed. A job whose role is another is retired and started anew.
    pub async fn run(&self, jobs: &[JobConfig], roles: &[RoleConfig], handles: &Roles) {
        let mut specs: BTreeMap<JobName, (JobConfig, JobSpec)> =
            jobs.iter().filter_map(|job| Some((job.name.clone(), (job.clone(), spec(job, roles, handles)?)))).collect();
        let stays = |job: &JobConfig| specs.get(&job.name).is_some_and(|(new, _)| new.role == job.role);
        let mut told = Vec::new();
        let retired = {
            let mut entries = self.entries();
            let (staying, retired) = std::mem::take(&mut *entries)
                .into_iter()
                .partition::<BTreeMap<_, _>, _>(|(_, entry)| stays(&entry.config));
            *entries = staying;
            for (name, entry) in entries.iter_mut() {
                let Some((config, spec)) = specs.remove(name) else { continue };
                entry.config = config;
                entry.role = spec.role.clone();
                told.push((entry.commands.clone(), spec));
            }
            retired
        };
        // First: until they are told, they follow roles that may be gone, and those that are retired may take their
        // grace.
        for (commands, spec) in told {
            // A task that is gone has panicked, which ends the process.
            let _ = commands.send(Command::Configure(Box::new(spec))).await;
        }
        stream::iter(retired)
            .for_each_concurrent(None, |(name, entry)| async move {
                retire(entry).await;
                self.context.telemetry.remove_job(&name);
            })
            .await;
        let mut entries = self.entries();
        for (name, (config, spec)) in specs {
            entries.insert(name, self.start(config, spec));
        }
        if let Some(runtime) = self.runtime() {
            runtime.follow(jobs, roles, handles);
        }
        if !entries.is_empty() {
            self.has_jobs.notify_one();
        }
    }

    fn start(&self, config: JobConfig, spec: JobSpec) -> Entry {
        self.context.telemetry.add_job(&config.name);
        let (commands, inbox) = mpsc::channel(COMMANDS);
        let (changes, changed) = watch::channel(0);
        let (shown, view) = watch::channel(None);
        let seed = self.entropy.lock().seed();
        let role = spec.role.clone();
        let ends = Ends { commands: inbox, role: role.changes(), changes: changed, view: shown };
        let task = tokio::spawn(task::run(Arc::clone(&self.context), spec, seed, ends));
        Entry { config, role, commands, changes, view, task }
    }

    /// Ends every attempt that is left, and waits for that. The roles are gone by now, so nothing starts any more.
    pub async fn all_ended(&self) {
        let entries = std::mem::take(&mut *self.entries());
        let retiring = entries.into_values().map(retire);
        stream::iter(retiring).for_each_concurrent(None, |retiring| retiring).await;
        if let Some(runtime) = self.runtime() {
            runtime.all_ended().await;
        }
    }

    /// Every job, by name, each seen when it is asked for.
    ///
    /// # Errors
    /// [`JobError::Ledger`]
    pub fn all(&self) -> impl Stream<Item = Result<JobView, JobError>> + Send {
        let names: Vec<JobName> = self.entries().keys().cloned().collect();
        let views = stream::iter(names).map(move |name| async move { self.view(name.as_str()).await });
        // One that a reload has just removed is not there any more.
        views.buffered(READS).filter(|view| ready(!matches!(view, Err(JobError::UnknownJob { .. }))))
    }

    /// A job as it stands: as its leader sees it if that is this replica, else as the store has it.
    ///
    /// # Errors
    /// [`JobError::UnknownJob`], [`JobError::Ledger`]
    pub async fn view(&self, name: &str) -> Result<JobView, JobError> {
        let (config, holder, view) =
            self.known(name, |entry| (entry.config.clone(), entry.role.holder(), entry.view.borrow().clone()))?;
        let word = self.context.pause.borrow().word();
        let paused = |ledger: Option<&Ledger>| is_paused(word, ledger.and_then(|ledger| ledger.suspension.pause));
        if let Some(view) = view {
            let (ledger, next) = (Some(view.ledger.clone()), view.next);
            let paused = paused(ledger.as_ref());
            return Ok(JobView { config, holder, leads: true, ledger, next, paused });
        }
        let ledger = self.context.ledgers.read(&config.name).await?.map(|stored| stored.body);
        let paused = paused(ledger.as_ref());
        let next = ledger.as_ref().filter(|ledger| !ledger.suspension.is_own() && !paused);
        let next = next.and_then(|ledger| ledger.next_slot(&*config.schedule, ledger.decided));
        Ok(JobView { config, holder, leads: false, ledger, next, paused })
    }

    /// Asks for a run now, whoever leads.
    ///
    /// # Errors
    /// [`JobError`]
    pub async fn ask(&self, name: &str, request: &RunRequest) -> Result<RunId, JobError> {
        let job = self.known(name, |entry| entry.config.clone())?;
        if let Some(why) = job.run.without_data().filter(|_| request.data.is_some()) {
            return Err(JobError::NoData { job: job.name, why });
        }
        let refused = |refusal| {
            let job = job.name.clone();
            match refusal {
                AskRefusal::TooMany => JobError::TooManyAsked { job },
                AskRefusal::TooMuchData => JobError::TooMuchData { job },
                AskRefusal::OtherData => JobError::OtherData { job },
            }
        };
        let slot: Slot = self.wish(&job, |ledger, now| ledger.ask_with(now, request).map_err(refused)).await?;
        Ok(RunId { job: job.name, slot })
    }

    /// Asks for a run of each slot of the past in this range, whoever leads.
    ///
    /// # Errors
    /// [`JobError`]
    pub async fn backfill(&self, name: &str, from: Wall, to: Wall) -> Result<Backfill, JobError> {
        let job = self.known(name, |entry| entry.config.clone())?;
        let bad = |why: String| JobError::BadBackfill { job: job.name.clone(), why };
        let now = wall_now();
        if from > to {
            return Err(bad(format!("`from`, {}, is after `to`, {}", rfc3339(from), rfc3339(to))));
        }
        if to > now {
            let why =
                format!("`to`, {}, is to come (it is {}); the schedule runs its slots", rfc3339(to), rfc3339(now));
            return Err(bad(why));
        }
        let refused = |why: String| JobError::BackfillRefused { job: job.name.clone(), why };
        self.wish(&job, |ledger, now| {
            ledger.backfill(&*job.schedule, (from, to), now).map_err(|refusal| match refusal {
                BackfillRefusal::TooMany => bad(format!(
                    "the range has more than {} slots, which is the most; ask for a part of it",
                    jobs::BACKFILL_MAX
                )),
                BackfillRefusal::NoSlot => bad("the schedule has no slot in the range".to_owned()),
                BackfillRefusal::GoesOn(other) => refused(format!(
                    "that from {} to {} goes on, and has done up to {}",
                    rfc3339(other.from),
                    rfc3339(other.to),
                    rfc3339(other.done)
                )),
                BackfillRefusal::Undecided(decided) => refused(format!(
                    "the slots after {} may be run by the schedule yet: the job is suspended, or its leader is behind",
                    rfc3339(decided)
                )),
                BackfillRefusal::Done => {
                    refused("each slot has a run that is remembered, or was in a backfill before".to_owned())
                }
            })
        })
        .await
    }

    /// Suspends or resumes a job, whoever leads.
    ///
    /// # Errors
    /// [`JobError`]
    pub async fn suspend(&self, name: &str, suspend: bool) -> Result<(), JobError> {
        let job = self.known(name, |entry| entry.config.clone())?;
        self.wish(&job, |ledger, now| {
            ledger.order(suspend, now);
            Ok(())
        })
        .await
    }

    /// Suspends or resumes all jobs, whoever leads them, those of later as well. What each is by itself stays.
    ///
    /// # Errors
    /// [`JobError::Ledger`], [`JobError::Busy`]
    pub async fn suspend_all(&self, suspend: bool) -> Result<(), JobError> {
        let ledgers = &self.context.ledgers;
        let mut stored = ledgers.read_pause().await?;
        for _ in 0..TRIES {
            let (base, last) = stored.map(|stored| (stored.revision, stored.body)).unzip();
            let known = latest(last, self.context.pause.borrow().word());
            let after = known.map(|(_, at)| at.plus(Duration::from_millis(1))).unwrap_or_default();
            let word = (suspend, wall_now().max(after));
            match ledgers.write_pause(base, word).await? {
                WriteReply::Written { .. } => {
                    self.hear_pause(Some(word));
                    return Ok(());
                }
                WriteReply::Diverged(other) => stored = other,
                WriteReply::Stale { .. } | WriteReply::OtherRole { .. } => break,
            }
        }
        Err(JobError::Busy { job: JobName::every() })
    }

    /// Takes in what somebody asked of all jobs, unless something later is known.
    fn hear_pause(&self, word: Option<(bool, Wall)>) {
        self.context.pause.send_if_modified(|known| {
            let later = latest(known.word(), word);
            let is_news = *known != Pause::Known(later);
            *known = Pause::Known(later);
            is_news
        });
        let paused = is_paused(self.context.pause.borrow().word(), None);
        self.context.telemetry.jobs_are_paused(paused);
    }

    /// Asks the store whether all jobs are suspended; when to ask again.
    async fn look_at_pause(&self, complaint: &mut Complaint) -> Duration {
        let read = self.context.ledgers.read_pause().await;
        match complaint.note(read.as_ref().err().map(ToString::to_string)) {
            Some(Turn::Wrong(reason)) => tracing::warn!(%reason, "whether all jobs are suspended is not known"),
            Some(Turn::Well) => tracing::info!("whether all jobs are suspended is known again"),
            None => {}
        }
        match read {
            Ok(stored) => self.hear_pause(stored.map(|stored| stored.body)),
            // As good as no answer: nothing can be claimed then, either.
            Err(LedgerError::Store(StoreError::Unknown { .. } | StoreError::Unreachable { .. })) => {
                return PAUSE_LOOK_AGAIN;
            }
            // What cannot be read stops nothing.
            Err(_) => self.hear_pause(None),
        }
        PAUSE_LOOK
    }

    /// Cancels or retries a run, whoever leads.
    ///
    /// # Errors
    /// [`JobError`]
    pub async fn order_run(&self, name: &str, id: &str, what: RunWish) -> Result<RunId, JobError> {
        let job = self.known(name, |entry| entry.config.clone())?;
        let run = run_of(&job.name, id)?;
        self.wish(&job, |ledger, now| {
            let refused = match what {
                RunWish::Cancel => ledger.cancel(run.slot, now),
                RunWish::Retry => ledger.retry(run.slot, now),
            };
            refused.map_err(|refusal| match refusal {
                RunRefusal::Unknown => unknown_run(&job.name, id),
                RunRefusal::Over(phase) => JobError::RunEnded { run: run.clone(), phase: phase.as_str() },
                RunRefusal::NotFailed(phase) => JobError::NotFailed { run: run.clone(), phase: phase.as_str() },
            })
        })
        .await?;
        Ok(run)
    }

    /// Passes the app's word on to an attempt that goes on on this replica.
    ///
    /// # Errors
    /// [`JobError::UnknownJob`], [`JobError::UnknownRun`], [`JobError::NotRunning`]
    pub async fn order(&self, name: &str, id: &str, attempt: Option<u32>, order: Order) -> Result<(), JobError> {
        let (job, commands) = self.known(name, |entry| (entry.config.name.clone(), entry.commands.clone()))?;
        let run = run_of(&job, id)?;
        let (done, answer) = oneshot::channel();
        // A task that is gone runs nothing.
        let _ = commands.send(Command::Order { slot: run.slot, attempt, order, done }).await;
        if answer.await.unwrap_or(false) { Ok(()) } else { Err(JobError::NotRunning { run }) }
    }

    fn known<T>(&self, name: &str, take: impl FnOnce(&Entry) -> T) -> Result<T, JobError> {
        let entries = self.entries();
        let entry = JobName::known(name).and_then(|name| entries.get(&name));
        let known = || entries.keys().map(JobName::to_string).collect();
        let shown = || name.chars().take(80).collect();
        entry.map(take).ok_or_else(|| JobError::UnknownJob { name: shown(), known: known() })
    }

    /// Writes something in a ledger that its leader, whoever that is, hears of.
    async fn wish<T>(
        &self,
        job: &JobConfig,
        mut wish: impl FnMut(&mut Ledger, Wall) -> Result<T, JobError>,
    ) -> Result<T, JobError> {
        let ledgers = &self.context.ledgers;
        let mut stored = ledgers.read(&job.name).await?;
        for _ in 0..TRIES {
            let (base, ledger) = stored.map(|stored| (stored.revision, stored.body)).unzip();
            let now = wall_now();
            let mut ledger = ledger.unwrap_or_else(|| Ledger::new(job.schedule.name(), job.policy.suspend, now));
            let wished = wish(&mut ledger, now)?;
            match ledgers.write(&job.name, WriteRequest { term: None, base, body: &ledger }).await? {
                WriteReply::Written { .. } => return Ok(wished),
                WriteReply::Diverged(other) => stored = other,
                // Only who writes for a term can be late, or another role's.
                WriteReply::Stale { .. } | WriteReply::OtherRole { .. } => break,
            }
        }
        Err(JobError::Busy { job: job.name.clone() })
    }
}

fn unknown_run(job: &JobName, id: &str) -> JobError {
    JobError::UnknownRun { job: job.clone(), id: id.chars().take(80).collect() }
}

fn run_of(job: &JobName, id: &str) -> Result<RunId, JobError> {
    RunId::of(job, id).ok_or_else(|| unknown_run(job, id))
}

/// What a task needs to know of a job; none when its role is not run, which the configuration does not let through.
fn spec(job: &JobConfig, roles: &[RoleConfig], handles: &Roles) -> Option<JobSpec> {
    let role = handles.get(job.role.as_str());
    let grace = roles.iter().find(|role| role.name == job.role).and_then(|role| grace_of(&job.run, &role.timing).ok());
    let (Some(role), Some(grace)) = (role, grace) else {
        tracing::error!(job = %job.name, role = %job.role, "the job's role cannot run it; this is a bug in Baton");
        return None;
    };
    Some(JobSpec {
        name: job.name.clone(),
        policy: job.policy.clone(),
        timetable: Arc::clone(&job.schedule) as Arc<dyn Timetable>,
        run: Arc::new(job.run.clone()),
        grace,
        finish_within: job.finish_within,
        role,
    })
}

async fn retire(entry: Entry) {
    // A task that is gone needs not be told, and one that panicked has ended the process.
    let _ = entry.commands.send(Command::Retire).await;
    let _ = entry.task.await;
}

/// The later of two words about all jobs.
fn latest(one: Option<(bool, Wall)>, other: Option<(bool, Wall)>) -> Option<(bool, Wall)> {
    [one, other].into_iter().flatten().max_by_key(|(_, at)| *at)
}

fn is_paused(one: Option<(bool, Wall)>, other: Option<(bool, Wall)>) -> bool {
    latest(one, other).is_some_and(|(suspend, _)| suspend)
}

/// Listens from the first job on: without one there is nothing to hear of, and the right to listen may be missing.
async fn listen(service: Arc<JobService>) {
    service.has_jobs.notified().await;
    let mut news = service.context.ledgers.changes();
    let changed = |entry: &Entry| entry.changes.send_modify(|count| *count = count.wrapping_add(1));
    let now = || service.context.clock.now();
    let (every, mut complaint, mut look_at) = (JobName::every(), Complaint::default(), now());
    loop {
        let rest = look_at.since(now());
        tokio::select! {
            heard = news.recv() => match service.told(heard) {
                Some(JobNews::Changed(job)) if job == every => look_at = now(),
                Some(JobNews::Changed(job)) => service.entries().get(&job).into_iter().for_each(changed),
                Some(JobNews::Gap) => {
                    service.entries().values().for_each(changed);
                    look_at = now();
                }
                None => return,
            },
            () = tokio::time::sleep(rest) => look_at = now() + service.look_at_pause(&mut complaint).await,
        }
    }
}
