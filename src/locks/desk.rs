//! The desk: where requests for locks are taken, and what all of them share.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

use super::table::Table;
use super::waiting::{Heard, Waiting};
use crate::base::Subscription;
use crate::base::clock::SharedClock;
use crate::base::process::Entropy;
use crate::protocol::{
    AcquireReply, LockHolder, LockId, LockInsight, LockName, Mono, Random, SessionId, TICKET_SPAN, Token,
};
use crate::store::{LockStore, StoreError, WakeNews};
use crate::telemetry::Telemetry;

/// How often the attendant looks after what nobody waits for, while there is anything: with nothing asked for and
/// nothing held it sleeps.
const ROUND: Duration = Duration::from_secs(1);
/// The pause after a first failure; it doubles up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// How many tasks besides those of who waits and holds may be busy before cancellations are left out.
const CHORES_MAX: usize = 1_000;
/// How long the end of the process waits for what is on its way to the store.
const PATIENCE: Duration = Duration::from_secs(3);

/// What a desk is told at its beginning.
#[derive(Clone, Debug)]
pub struct LockSettings {
    /// This replica's name for people.
    pub identity: Arc<str>,
    /// How long a lock lasts whose request names no lease.
    pub lease: Duration,
    /// The longest lease that may be asked for.
    pub lease_max: Duration,
    /// For how long nobody new is granted after the store may have forgotten locks (R5); none: it is not guarded.
    pub guard: Option<Duration>,
    /// How many requests may wait, and connections hold, at once.
    pub waiters_max: usize,
}

/// A lock that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Granted {
    /// What it is extended and released by.
    pub id: LockId,
    /// Its fencing token.
    pub token: Token,
    /// How many times its owner has taken it.
    pub holds: u32,
    /// How long it lasts from each extension on.
    pub lease: Duration,
    /// Until when it may be acted upon (R2).
    pub valid_until: Mono,
}

/// A lock that was extended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extended {
    /// How long it lasts from each extension on.
    pub lease: Duration,
    /// Until when it may be acted upon now.
    pub valid_until: Mono,
}

/// Why there is no lock. The texts hold no secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// For as long as the request waited.
    #[error("{name} is held")]
    Held {
        /// Which of the names.
        name: LockName,
        /// Whose lease ends first; none when the lock is free but others came first.
        holder: Option<LockHolder>,
        /// How many were ahead.
        ahead: u32,
        /// Whether the request waited.
        waited: bool,
    },
    /// R5.
    #[error("the store may have forgotten locks that still stand; nobody new is granted for another {remaining:?}")]
    Guarded {
        /// For how long.
        remaining: Duration,
    },
    /// Others use the name otherwise.
    #[error("{name} is in use with {permits} permits; all who use a name must ask for the same number")]
    PermitsDiffer {
        /// Which of the names.
        name: LockName,
        /// The number that is in force.
        permits: u32,
    },
    /// It is not held under this id, or no longer.
    #[error("the lock is not held under this id: it was released, its lease ended, or it never was")]
    Lost,
    /// As many wait or hold as may.
    #[error("{max} requests wait for locks or hold one, as many as may (locks.maxWaiters)")]
    TooManyWaiters {
        /// How many.
        max: usize,
    },
    /// No usable answer.
    #[error("{0}")]
    Store(StoreError),
    /// The store's answer came when the lease it granted was over.
    #[error("the store took longer to answer than the lease of {lease:?} lasts")]
    TooLate {
        /// The lease that was asked for.
        lease: Duration,
    },
    /// Nothing new is taken on.
    #[error("this replica is ending; locks are taken through others")]
    ShuttingDown,
}

/// A name that is held or waited for through this sidecar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Used {
    /// Which.
    pub name: LockName,
    /// How many locks were granted here that still stand.
    pub held: usize,
    /// How many requests wait here.
    pub waiting: usize,
}

/// See the module of its parent. Shared by reference; every future may be dropped at any time.
#[derive(Debug)]
pub struct LockDesk {
    pub(super) core: Arc<Core>,
}

/// What all requests share.
pub(super) struct Core {
    pub(super) store: Arc<dyn LockStore>,
    pub(super) clock: SharedClock,
    pub(super) telemetry: Telemetry,
    pub(super) settings: LockSettings,
    pub(super) session: SessionId,
    pub(super) waiting: Arc<Waiting>,
    table: Mutex<Table>,
    chance: Mutex<(Entropy, Random)>,
    /// The greatest token seen of any lock (R3).
    floor: AtomicU64,
    /// Where tasks run: what is given back when a request is dropped may be dropped anywhere.
    runtime: Handle,
    /// A request has come.
    pub(super) begun: Notify,
    /// How many tasks have something on its way to the store, or may have.
    chores: watch::Sender<usize>,
    /// True once nothing new is taken on.
    stopping: watch::Sender<bool>,
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl LockDesk {
    /// Opens a desk in the runtime that this is called in, and starts its attendant: a task that hears wake-ups and
    /// gives signs of life while anybody waits. It runs until it is aborted; any other end is a bug.
    pub fn open(
        store: Arc<dyn LockStore>,
        settings: LockSettings,
        clock: SharedClock,
        telemetry: Telemetry,
        mut entropy: Entropy,
    ) -> (Arc<Self>, JoinHandle<()>) {
        let session = entropy.session();
        let dice = Random::new(entropy.seed());
        let wakes = store.wakes(session);
        let waiting = Arc::new(Waiting::new(settings.waiters_max, telemetry.clone()));
        let core = Arc::new(Core {
            store,
            clock,
            telemetry,
            settings,
            session,
            waiting,
            table: Mutex::default(),
            chance: Mutex::new((entropy, dice)),
            floor: AtomicU64::new(0),
            runtime: Handle::current(),
            begun: Notify::new(),
            chores: watch::Sender::new(0),
            stopping: watch::Sender::new(false),
        });
        let attendant = tokio::spawn(attend(Arc::clone(&core), wakes));
        (Arc::new(Self { core }), attendant)
    }

    /// What the desk was told.
    pub fn settings(&self) -> &LockSettings {
        &self.core.settings
    }

    /// A lock as it stands.
    ///
    /// # Errors
    /// [`Refusal::Store`].
    pub async fn inspect(&self, name: LockName) -> Result<LockInsight, Refusal> {
        let core = Arc::clone(&self.core);
        let insight = self.core.chore(async move { core.store.inspect(name).await }).await?.map_err(Refusal::Store)?;
        insight.holders.iter().for_each(|holder| self.core.saw(holder.token));
        Ok(insight)
    }

    /// The names that are held or waited for through this sidecar: those most waited for first, then by name, `limit`
    /// of them at the most; and how many there are.
    pub fn used(&self, limit: usize) -> (Vec<Used>, usize) {
        let mut names: BTreeMap<LockName, (usize, usize)> = BTreeMap::new();
        // An entry for each name once, though thousands may wait for the same.
        let mut count = |name: &LockName, held: usize, waiting: usize| match names.get_mut(name) {
            Some(counts) => (counts.0, counts.1) = (counts.0 + held, counts.1 + waiting),
            None => drop(names.insert(name.clone(), (held, waiting))),
        };
        self.core.table().each_name(self.core.now(), |name| count(name, 1, 0));
        self.core.waiting.each_name(|name| count(name, 0, 1));
        let all = names.len();
        let used = names.into_iter().map(|(name, (held, waiting))| Used { name, held, waiting });
        let mut used: Vec<Used> = used.collect();
        used.sort_by_key(|used| std::cmp::Reverse(used.waiting));
        used.truncate(limit);
        (used, all)
    }

    /// Takes on nothing new: waiting requests end, and connections that hold a lock are told. Locks that were asked for
    /// by themselves stay until their lease ends, for their owners may still be at work.
    pub fn begin_shutdown(&self) {
        self.core.stopping.send_replace(true);
    }

    /// Waits, for a few seconds at the most, until nothing is on its way to the store. After
    /// [`Self::begin_shutdown`].
    pub async fn all_ended(&self) {
        let mut chores = self.core.chores.subscribe();
        // What is left after that ends by its lease.
        let _ = tokio::time::timeout(PATIENCE, chores.wait_for(|count| *count == 0)).await;
    }
}

impl Core {
    pub(super) fn now(&self) -> Mono {
        self.clock.now()
    }

    pub(super) fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock()
    }

    fn chance(&self) -> MutexGuard<'_, (Entropy, Random)> {
        self.chance.lock()
    }

    pub(super) fn new_id(&self) -> LockId {
        self.chance().0.lock_id()
    }

    pub(super) fn between(&self, least: Duration, most: Duration) -> Duration {
        self.chance().1.between(least, most)
    }

    /// The pause after this many failures in a row, with jitter.
    pub(super) fn pause(&self, failures: u32) -> Duration {
        let least = PAUSE_MIN.saturating_mul(1 << failures.saturating_sub(1).min(8)).min(PAUSE_MAX);
        self.between(least, least * 3)
    }

    /// A token was seen.
    pub(super) fn saw(&self, token: Token) {
        self.floor.fetch_max(token.get(), Ordering::Relaxed);
    }

    pub(super) fn floor(&self) -> Token {
        Token::new(self.floor.load(Ordering::Relaxed)).unwrap_or(Token::NONE)
    }

    /// What an answer tells of tokens.
    pub(super) fn learn(&self, reply: &AcquireReply) {
        match reply {
            AcquireReply::Granted(grant) => self.saw(grant.token),
            AcquireReply::Held { holder: Some(holder), .. } => self.saw(holder.token),
            _ => {}
        }
    }

    pub(super) fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    /// Completes once nothing new is taken on.
    pub(super) async fn stopping(&self) {
        // The sender is our own, so this only ends as it should.
        let _ = self.stopping.subscribe().wait_for(|stop| *stop).await;
    }

    /// Whether there is so much to clean up that more would only be a burden: while the store is away for long, every
    /// request leaves something behind.
    pub(super) fn is_swamped(&self) -> bool {
        *self.chores.borrow() > self.settings.waiters_max.saturating_add(CHORES_MAX)
    }

    /// Runs something that must not be dropped half-way in a task of its own.
    pub(super) fn start<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.chores.send_modify(|count| *count += 1);
        let ending = Ending(Arc::clone(self));
        self.runtime.spawn(async move {
            let _ending = ending;
            work.await
        })
    }

    /// The same, and waits for it. Dropping this future does not stop the work.
    ///
    /// # Errors
    /// [`Refusal::ShuttingDown`] when the runtime ends.
    pub(super) async fn chore<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Refusal> {
        self.start(work).await.map_err(|_| Refusal::ShuttingDown)
    }

    /// Whether nothing is asked for, held, remembered or on its way to the store.
    fn has_nothing(&self) -> bool {
        *self.chores.borrow() == 0 && self.table().len() == 0 && self.waiting.is_empty()
    }

    /// The table has changed.
    pub(super) fn count_held(&self) {
        let held = self.table().len();
        self.telemetry.locks_held(held);
    }

    fn heard(self: &Arc<Self>, news: WakeNews) {
        match news {
            WakeNews::Gap => self.waiting.wake_all(),
            WakeNews::Wake { id, name } => {
                if self.waiting.wake(id) == Heard::Unknown && self.table().get(id, self.now()).is_none() {
                    self.cancel_later(vec![name], id, TICKET_SPAN, false);
                }
            }
        }
    }
}

/// Counts a chore down, also when its task is aborted.
struct Ending(Arc<Core>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.chores.send_modify(|count| *count -= 1);
    }
}

async fn attend(core: Arc<Core>, mut wakes: Subscription<WakeNews>) {
    let mut rounds = tokio::time::interval(ROUND);
    rounds.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut at_rest = false;
    let mut signs = Signs { beaten_at: core.now(), seen_at: Arc::new(AtomicU64::new(core.now().as_nanos())) };
    loop {
        tokio::select! {
            Some(news) = wakes.recv() => core.heard(news),
            () = core.begun.notified(), if at_rest => {
                at_rest = false;
                rounds.reset();
                signs.nobody_waited(core.now());
            }
            _ = rounds.tick(), if !at_rest => {
                let now = core.now();
                core.table().tidy(now);
                core.waiting.tidy(now);
                core.count_held();
                signs.give(&core, now);
                at_rest = core.has_nothing();
            }
        }
    }
}

/// Signs of life, while anybody waits.
struct Signs {
    beaten_at: Mono,
    /// When the store last took one, or when there was nobody to wait for.
    seen_at: Arc<AtomicU64>,
}

impl Signs {
    fn nobody_waited(&self, now: Mono) {
        self.seen_at.store(now.as_nanos(), Ordering::Relaxed);
    }

    fn give(&mut self, core: &Arc<Core>, now: Mono) {
        if core.waiting.count() == 0 {
            return self.nobody_waited(now);
        }
        // A third of the span, less what a round may be late.
        if now.since(self.beaten_at) + ROUND < TICKET_SPAN / 3 {
            return;
        }
        self.beaten_at = now;
        let (keeper, seen_at) = (Arc::clone(core), Arc::clone(&self.seen_at));
        core.start(async move {
            if keeper.store.beat(keeper.session).await.is_err() {
                return;
            }
            let seen = Mono::from_nanos(seen_at.swap(keeper.now().as_nanos(), Ordering::Relaxed));
            if keeper.now().since(seen) >= TICKET_SPAN {
                // The tickets have been thrown away meanwhile: whoever waits must take a new one.
                keeper.waiting.wake_all();
            }
        });
    }
}
