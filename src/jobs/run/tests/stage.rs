//! A role that leads, over a store that can be cut off, and attempts under its term.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use rustix::process::{Pid, test_kill_process};
use tempfile::TempDir;
use testkit::{wait_until, wait_until_async};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use super::super::{Assignment, Ended, Order, OrderSender, attempt, grace_of, orders};
use crate::base::Subscription;
use crate::base::clock::{BootClock, SharedClock};
use crate::base::process::{Entropy, StallWatch};
use crate::config::{ExecRun, RunConfig};
use crate::protocol::jobs::{JobName, RunId, Slot, Wall};
use crate::protocol::{
    CampaignReply, CampaignRequest, ReleaseReply, ReleaseRequest, RenewReply, RenewRequest, RoleName, Rules, SessionId,
    Stamped, Timing, Token,
};
use crate::role::{RoleContext, RoleHandle, RoleSpec, WorkTerm, role};
use crate::store::memory::MemoryStore;
use crate::store::{LeaseStore, News, Purge, StoreError, StoreHealth};
use crate::telemetry::{Metrics, Telemetry};

/// Longer than anything here takes.
pub const PATIENCE: Duration = Duration::from_secs(20);

pub fn assignment() -> Assignment {
    let at = Wall::from_millis(1_763_690_400_000);
    Assignment {
        run: RunId { job: JobName::new("nightly").unwrap(), slot: Slot::Scheduled(at) },
        scheduled: at,
        attempt: 2,
        token: Token::new(1_763_690_400_000_007).unwrap(),
        data: None,
        shard: None,
    }
}

/// A memory that can be out of reach.
struct Cuttable {
    memory: MemoryStore,
    cut: AtomicBool,
}

impl Cuttable {
    fn reach<T>(&self, reply: Result<T, StoreError>) -> Result<T, StoreError> {
        match self.cut.load(Ordering::SeqCst) {
            true => Err(StoreError::Unknown { after: Duration::from_millis(1) }),
            false => reply,
        }
    }
}

#[async_trait]
impl LeaseStore for Cuttable {
    async fn campaign(&self, role: &RoleName, request: CampaignRequest) -> Result<Stamped<CampaignReply>, StoreError> {
        self.reach(Ok(()))?;
        self.memory.campaign(role, request).await
    }

    async fn renew(&self, role: &RoleName, request: RenewRequest) -> Result<Stamped<RenewReply>, StoreError> {
        self.reach(Ok(()))?;
        self.memory.renew(role, request).await
    }

    async fn release(&self, role: &RoleName, request: ReleaseRequest) -> Result<Stamped<ReleaseReply>, StoreError> {
        self.reach(Ok(()))?;
        LeaseStore::release(&self.memory, role, request).await
    }

    fn subscribe(&self, role: &RoleName, but: Option<SessionId>) -> Subscription<News> {
        self.memory.subscribe(role, but)
    }

    fn health(&self) -> watch::Receiver<StoreHealth> {
        self.memory.health()
    }

    fn notes(&self) -> Vec<String> {
        self.memory.notes()
    }

    fn rules(&self) -> Rules {
        self.memory.rules()
    }

    async fn purge(&self, role: &RoleName) -> Result<Purge, StoreError> {
        self.memory.purge(role).await
    }
}

pub struct Stage {
    pub role: RoleHandle,
    pub files: TempDir,
    timing: Timing,
    clock: SharedClock,
    store: Arc<Cuttable>,
    /// Ended with the stage.
    _tasks: JoinSet<()>,
}

impl Stage {
    /// A lease that no machine is too busy to keep.
    pub async fn calm() -> Self {
        Self::leading(Timing::from_lease(Duration::from_secs(60)).unwrap()).await
    }

    /// A lease that is soon over when it is cut off: its deadline is at most 3 s after, its end at the store a second
    /// later.
    pub async fn short() -> Self {
        let second = Duration::from_secs(1);
        Self::leading(Timing::new(4 * second, second, second, second).unwrap()).await
    }

    pub async fn leading(timing: Timing) -> Self {
        let clock: SharedClock = Arc::new(BootClock);
        let memory = MemoryStore::new(Arc::clone(&clock));
        let store = Arc::new(Cuttable { memory, cut: AtomicBool::new(false) });
        let stall = Arc::new(StallWatch::new(Arc::clone(&clock)));
        let mut entropy = Entropy::from_system();
        let spec = RoleSpec {
            name: RoleName::new("scheduler").unwrap(),
            identity: "web-0".into(),
            session: entropy.session(),
            attempts: Default::default(),
            timing,
            guard: true,
            app_checked: false,
            shard_stagger: Duration::ZERO,
            role_stagger: Duration::ZERO,
            seed: entropy.seed(),
        };
        let context = RoleContext {
            store: Arc::clone(&store) as _,
            clock: Arc::clone(&clock),
            telemetry: Telemetry::new(Arc::new(Metrics::new(jiff::Timestamp::UNIX_EPOCH))),
            stall: Arc::clone(&stall),
        };
        let (role, task) = role(spec, context);
        let mut tasks = JoinSet::new();
        tasks.spawn(task);
        tasks.spawn(async move { stall.run().await });
        until("it leads", || role.leads()).await;
        Self { role, files: tempfile::tempdir().unwrap(), timing, clock, store, _tasks: tasks }
    }

    /// From now on no request reaches the store.
    pub fn cut_off(&self) {
        self.store.cut.store(true, Ordering::SeqCst);
    }

    /// Whether the store still keeps the lease for this replica, so that it can be nobody else's.
    pub async fn is_held(&self) -> bool {
        self.store.purge(self.role.name()).await == Ok(Purge::InUse)
    }

    /// Waits until the lease is given back.
    pub async fn until_given_back(&self) {
        wait_until_async(PATIENCE, "the lease is given back", async || !self.is_held().await).await;
    }

    pub fn term(&self, run: &RunConfig) -> WorkTerm {
        let (token, _) = self.role.remaining().unwrap();
        let grace = grace_of(run, &self.timing).unwrap();
        let (role, clock) = (self.role.clone(), Arc::clone(&self.clock));
        WorkTerm { role, token, grace, finish_within: Duration::ZERO, clock }
    }

    pub fn timing(&self) -> Timing {
        self.timing
    }

    /// A whole attempt under any term.
    pub async fn make(&self, run: &RunConfig, term: WorkTerm) -> Ended {
        let (_orders, inbox) = orders();
        within("the attempt ends", attempt(run, &assignment(), term, inbox, || {})).await
    }

    pub fn begin(&self, run: RunConfig) -> Attempt {
        self.begin_given(run, None)
    }

    /// The same of a run that was given this.
    pub fn begin_given(&self, run: RunConfig, data: Option<&str>) -> Attempt {
        self.begin_with(run, data, Duration::ZERO)
    }

    /// One that may go on for so long when the role is handed over.
    pub fn begin_and_finish_within(&self, run: RunConfig, finish_within: Duration) -> Attempt {
        self.begin_with(run, None, finish_within)
    }

    fn begin_with(&self, run: RunConfig, data: Option<&str>, finish_within: Duration) -> Attempt {
        let assignment = Assignment { data: data.map(Arc::from), ..assignment() };
        let term = WorkTerm { finish_within, ..self.term(&run) };
        let (orders, inbox) = orders();
        let accepted = Arc::new(AtomicBool::new(false));
        let mark = Arc::clone(&accepted);
        let task = tokio::spawn(async move {
            attempt(&run, &assignment, term, inbox, move || mark.store(true, Ordering::SeqCst)).await
        });
        Attempt { orders, accepted, task }
    }

    /// A script that runs in the stage's directory, with so much time between TERM and KILL.
    pub fn script(&self, script: &str, grace_ms: u64) -> RunConfig {
        let script = format!("cd {}; {script}", self.files.path().display());
        RunConfig::Exec(ExecRun {
            command: ["sh", "-c", &script].map(str::to_owned).to_vec(),
            env: Vec::new(),
            grace: Duration::from_millis(grace_ms),
            output_max: 64 << 10,
        })
    }

    /// Waits for a file with a whole line in it, and returns that.
    pub async fn written(&self, name: &str) -> String {
        let path = self.files.path().join(name);
        until(name, || read(&path).ends_with('\n')).await;
        read(&path).trim_end().to_owned()
    }

    /// The process that wrote its id into this file.
    pub async fn process(&self, name: &str) -> Process {
        Process(Pid::from_raw(self.written(name).await.parse().unwrap()).unwrap())
    }
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// A process that is not our child.
#[derive(Clone, Copy)]
pub struct Process(Pid);

impl Process {
    /// Whether it runs; one that waits to be taken in by its parent does not.
    pub fn runs(self) -> bool {
        let stat = read(Path::new(&format!("/proc/{}/stat", self.0.as_raw_nonzero())));
        let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().next());
        test_kill_process(self.0).is_ok() && !matches!(state, None | Some("Z" | "X"))
    }
}

/// See [`Stage::begin`].
pub struct Attempt {
    orders: OrderSender,
    accepted: Arc<AtomicBool>,
    task: JoinHandle<Ended>,
}

impl Attempt {
    pub fn order(&self, order: Order) {
        assert!(self.orders.send(order), "the attempt goes on");
    }

    pub async fn is_accepted(&self) {
        until("the app accepts", || self.accepted.load(Ordering::SeqCst)).await;
    }

    /// Whether every order was taken.
    pub fn has_taken_orders(&self) -> bool {
        self.orders.are_taken()
    }

    /// The same, with nobody left to give orders.
    pub fn without_orders(self) -> Self {
        let (orders, _) = orders();
        Self { orders, ..self }
    }

    pub fn goes_on(&self) -> bool {
        !self.task.is_finished()
    }

    pub async fn ends(self) -> Ended {
        within("the attempt ends", self.task).await.unwrap()
    }

    /// Drops the attempt's future.
    pub async fn drop_it(self) {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
    }
}

pub fn succeeded(note: &str) -> Ended {
    Ended::Succeeded { note: Some(note.to_owned()) }
}

pub fn failed(note: &str) -> Ended {
    Ended::Failed { note: note.to_owned() }
}

pub fn interrupted(note: &str) -> Ended {
    Ended::Interrupted { note: note.to_owned() }
}

/// Waits until a state is reached.
pub async fn until(what: &str, reached: impl FnMut() -> bool) {
    wait_until(PATIENCE, what, reached).await;
}

/// A future's output, with a bound.
pub async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("not within {PATIENCE:?}: {what}"))
}
