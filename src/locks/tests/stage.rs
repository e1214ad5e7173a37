//! The real rules in memory, behind a store whose answers are late, lost or refused when a test says so.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;

use super::super::{Granted, LockService, LockSettings, Refusal, Want};
use crate::base::Subscription;
use crate::base::clock::{BootClock, SharedClock};
use crate::base::process::Entropy;
use crate::protocol::{
    AcquireReply, AcquireRequest, CancelRequest, ExtendReply, ExtendRequest, LockInsight, LockName, LockReleaseReply,
    LockReleaseRequest, SessionId, UnlockReply, UnlockRequest,
};
use crate::store::memory::MemoryStore;
use crate::store::{LockStore, StoreError, WakeNews};
use crate::telemetry::{Metrics, Telemetry};

/// Longer than anything here takes.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// Shorter than a waiter goes without looking by itself, so that whoever is granted within it was woken.
pub const WOKEN: Duration = Duration::from_secs(4);

/// A request to the store.
#[derive(Clone, Debug)]
pub(super) enum Asked {
    Acquire(AcquireRequest),
    Extend(ExtendRequest),
    Release(LockReleaseRequest),
    Cancel(CancelRequest),
    Unlock,
}

/// What happens to one.
#[derive(Clone, Debug)]
pub(super) enum Act {
    /// It does not arrive.
    Refuse,
    /// It is executed, and its answer is lost.
    LoseReply,
    /// It is executed, and its answer waits for this.
    Delay(Arc<Notify>),
}

/// Which requests an act is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Acquire,
    Extend,
    Release,
    Cancel,
    Unlock,
}

impl Asked {
    fn op(&self) -> Op {
        match self {
            Self::Acquire(_) => Op::Acquire,
            Self::Extend(_) => Op::Extend,
            Self::Release(_) => Op::Release,
            Self::Cancel(_) => Op::Cancel,
            Self::Unlock => Op::Unlock,
        }
    }
}

/// See the module.
pub(super) struct Scripted {
    pub memory: Arc<MemoryStore>,
    acts: Mutex<VecDeque<(Op, Act)>>,
    asked: Mutex<Vec<Asked>>,
    /// Says something to the service's waiters.
    pub wakes: mpsc::Sender<WakeNews>,
    listener: Mutex<Option<Subscription<WakeNews>>>,
}

impl Scripted {
    /// The next request of this sort meets this.
    pub fn next(&self, op: Op, act: Act) {
        self.acts.lock().unwrap().push_back((op, act));
    }

    /// Every request so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    pub fn count(&self, op: Op) -> usize {
        self.asked().iter().filter(|asked| asked.op() == op).count()
    }

    async fn meet<T>(&self, asked: Asked, work: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        let op = asked.op();
        self.asked.lock().unwrap().push(asked);
        let act = {
            let mut acts = self.acts.lock().unwrap();
            let at = acts.iter().position(|(wanted, _)| *wanted == op);
            at.and_then(|at| acts.remove(at)).map(|(_, act)| act)
        };
        let unknown = Err(StoreError::Unknown { after: Duration::from_millis(1) });
        match act {
            None => work.await,
            Some(Act::Refuse) => unknown,
            Some(Act::LoseReply) => work.await.and(unknown),
            Some(Act::Delay(gate)) => {
                let reply = work.await;
                gate.notified().await;
                reply
            }
        }
    }
}

#[async_trait]
impl LockStore for Scripted {
    async fn acquire(&self, request: AcquireRequest) -> Result<AcquireReply, StoreError> {
        self.meet(Asked::Acquire(request.clone()), self.memory.acquire(request)).await
    }

    async fn extend(&self, request: ExtendRequest) -> Result<ExtendReply, StoreError> {
        self.meet(Asked::Extend(request.clone()), self.memory.extend(request)).await
    }

    async fn release(&self, request: LockReleaseRequest) -> Result<LockReleaseReply, StoreError> {
        self.meet(Asked::Release(request.clone()), LockStore::release(&*self.memory, request)).await
    }

    async fn cancel(&self, request: CancelRequest) -> Result<(), StoreError> {
        self.meet(Asked::Cancel(request.clone()), self.memory.cancel(request)).await
    }

    async fn beat(&self, session: SessionId) -> Result<(), StoreError> {
        self.memory.beat(session).await
    }

    async fn inspect(&self, name: LockName) -> Result<LockInsight, StoreError> {
        self.memory.inspect(name).await
    }

    async fn unlock(&self, request: UnlockRequest) -> Result<UnlockReply, StoreError> {
        self.meet(Asked::Unlock, self.memory.unlock(request)).await
    }

    async fn names(&self, from: u64) -> Result<(Vec<LockName>, u64), StoreError> {
        self.memory.names(from).await
    }

    fn wakes(&self, session: SessionId) -> Subscription<WakeNews> {
        let mut heard = self.memory.wakes(session);
        let say = self.wakes.clone();
        tokio::spawn(async move {
            while let Some(news) = heard.recv().await {
                // The service of a test that has ended listens no more.
                let _ = say.send(news).await;
            }
        });
        self.listener.lock().unwrap().take().unwrap()
    }
}

/// A service over such a store.
pub(super) struct Stage {
    pub service: Arc<LockService>,
    pub store: Arc<Scripted>,
    pub telemetry: Telemetry,
    /// How many of the app's health checks fail.
    pub app: watch::Sender<usize>,
    listener: JoinHandle<()>,
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

impl Stage {
    pub fn new() -> Self {
        Self::over(Arc::new(MemoryStore::new(Arc::new(BootClock))), 100)
    }

    /// One more service over the same memory, with room for `waiters_max`.
    pub fn over(memory: Arc<MemoryStore>, waiters_max: usize) -> Self {
        let clock: SharedClock = Arc::new(BootClock);
        let telemetry = Telemetry::new(Arc::new(Metrics::new(jiff::Timestamp::UNIX_EPOCH)));
        let (wakes, listener) = mpsc::channel(64);
        let (app, failing_checks) = watch::channel(0);
        let store = Arc::new(Scripted {
            memory,
            acts: Mutex::default(),
            asked: Mutex::default(),
            wakes,
            listener: Mutex::new(Some(listener)),
        });
        let settings = LockSettings {
            identity: "web-0".into(),
            lease: Duration::from_secs(60),
            lease_max: Duration::from_secs(3_600),
            guard: None,
            waiters_max,
            failing_checks,
        };
        let (service, listener) =
            LockService::open(Arc::clone(&store) as _, settings, clock, telemetry.clone(), Entropy::from_system());
        Self { service, store, telemetry, app, listener }
    }

    /// Takes a lock at once.
    pub async fn take(&self, want: Want) -> Granted {
        self.service.acquire(want).await.unwrap().take()
    }

    /// Begins to ask.
    pub fn ask(&self, want: Want) -> JoinHandle<Result<Granted, Refusal>> {
        let service = Arc::clone(&self.service);
        tokio::spawn(async move { service.acquire(want).await.map(super::super::Claim::take) })
    }

    pub async fn insight(&self) -> LockInsight {
        self.store.memory.inspect(lock("a")).await.unwrap()
    }

    /// Waits until the store has as many holders of `a` and tickets for it.
    pub async fn until(&self, holders: usize, waiting: u32) {
        until("the store is as wanted", async || {
            let insight = self.insight().await;
            (insight.holders.len(), insight.waiting) == (holders, waiting)
        })
        .await;
    }

    /// Waits until as many requests of this sort were made.
    pub async fn until_asked(&self, op: Op, count: usize) {
        until("the store was asked", async || self.store.count(op) >= count).await;
    }

    /// The value of a metric.
    pub fn metric(&self, series: &str) -> f64 {
        let text = self.telemetry.metrics().render(Vec::new(), true).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {series}")).parse().unwrap()
    }
}

/// Waits until a state is reached.
pub async fn until(what: &str, reached: impl AsyncFnMut() -> bool) {
    testkit::wait_until_async(PATIENCE, what, reached).await;
}

/// A future's output, with a bound.
pub async fn within<T>(bound: Duration, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(bound, future).await.unwrap_or_else(|_| panic!("not within {bound:?}"))
}

pub fn lock(name: &str) -> LockName {
    LockName::new(name).unwrap()
}

/// The lock `a`, at once, for a minute.
pub fn want() -> Want {
    Want {
        names: vec![lock("a")],
        owner: None,
        once: false,
        wait: Duration::ZERO,
        lease: Duration::from_secs(60),
        at_least: Duration::ZERO,
        permits: 1,
        fair: false,
    }
}

/// The same, waiting for as long as any test takes.
pub fn patient() -> Want {
    Want { wait: PATIENCE * 2, ..want() }
}
