//! Locks as the app asks for them: what may be asked, and what all requests share.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::acquire::{Claim, Want, acquire};
use super::extend::extend;
use super::held::Held;
use super::hold::{Hold, hold};
use super::listener::listen;
use super::operator::{self, LockPage};
use super::release::release;
use super::turns::Lines;
use super::upkeep::Upkeep;
use super::waiters::Waiters;
use crate::base::Backoff;
use crate::base::clock::SharedClock;
use crate::base::process::Entropy;
use crate::protocol::{LockHolder, LockId, LockInsight, LockName, Mono, Random, SessionId, Token};
use crate::store::{LockStore, StoreError, timed};
use crate::telemetry::{StoreCommand, Telemetry};

/// The longest pause after a first failure, and after many.
const PAUSE_MIN: Duration = Duration::from_millis(100);
pub(super) const PAUSE_MAX: Duration = Duration::from_secs(2);
/// How long an app waits for the answer to an extension or a release while the store does not answer.
pub(super) const ANSWER_SPAN: Duration = Duration::from_secs(5);

/// What the service is told at its beginning.
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
    /// How many of the app's health checks fail. While one does, nothing is renewed for connections that hold locks.
    pub failing_checks: watch::Receiver<usize>,
}

/// A lock that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Granted {
    /// What it is extended and released by.
    pub id: LockId,
    /// Its fencing token; the same for all holds of its owner.
    pub token: Token,
    /// How many holds its owner had then.
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
    /// An operator saw another's.
    #[error("{}", differs(name, *token, holders))]
    TokenDiffers {
        /// Which name.
        name: LockName,
        /// What was to be ended.
        token: Token,
        /// Who has it.
        holders: Vec<LockHolder>,
    },
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
    /// An app that hangs keeps its connections, and shall not keep locks by them.
    #[error("the app fails its health check (appCheck); meanwhile nothing is held for its connections")]
    AppFails,
    /// Nothing new is taken on.
    #[error("this replica is ending; locks are taken through others")]
    ShuttingDown,
}

fn differs(name: &LockName, token: Token, holders: &[LockHolder]) -> String {
    let tokens: Vec<String> = holders.iter().map(|holder| holder.token.to_string()).collect();
    match tokens.as_slice() {
        [] => format!("{name} is not held under the token {token}: nobody holds it"),
        [_, ..] => format!("{name} is not held under the token {token}, but under {}", tokens.join(", ")),
    }
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

/// See the module. Every future may be dropped at any time.
pub struct LockService {
    pub(super) store: Arc<dyn LockStore>,
    pub(super) clock: SharedClock,
    pub(super) telemetry: Telemetry,
    pub(super) settings: LockSettings,
    /// This sidecar, as the store knows it.
    pub(super) session: SessionId,
    pub(super) waiters: Waiters,
    pub(super) lines: Lines,
    pub(super) held: Held,
    pub(super) upkeep: Upkeep,
    entropy: Mutex<Entropy>,
}

impl std::fmt::Debug for LockService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LockService").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl LockService {
    /// Opens a service in the runtime that this is called in, and starts its listener: a task that runs until it is
    /// aborted; any other end is a bug.
    pub fn open(
        store: Arc<dyn LockStore>,
        settings: LockSettings,
        clock: SharedClock,
        telemetry: Telemetry,
        mut entropy: Entropy,
    ) -> (Arc<Self>, JoinHandle<()>) {
        let session = entropy.session();
        let wakes = store.wakes(session);
        let service = Arc::new(Self {
            waiters: Waiters::new(settings.waiters_max, telemetry.clone()),
            lines: Lines::default(),
            held: Held::new(telemetry.clone()),
            upkeep: Upkeep::new(settings.waiters_max),
            entropy: Mutex::new(entropy),
            store,
            clock,
            telemetry,
            settings,
            session,
        });
        let listener = tokio::spawn(listen(Arc::clone(&service), wakes));
        (service, listener)
    }

    /// What the service was told.
    pub fn settings(&self) -> &LockSettings {
        &self.settings
    }

    /// Asks for a lock. Dropping the future ends the request: what it is granted afterwards is given back.
    ///
    /// # Errors
    /// See [`Refusal`]; never [`Refusal::Lost`] or [`Refusal::AppFails`].
    pub async fn acquire(self: &Arc<Self>, want: Want) -> Result<Claim, Refusal> {
        acquire(self, want).await
    }

    /// The same, and keeps the lock for as long as the [`Hold`] lives, the app is well, and `max` has not passed.
    ///
    /// # Errors
    /// As [`Self::acquire`]; [`Refusal::AppFails`].
    pub async fn hold(self: &Arc<Self>, want: Want, max: Option<Duration>) -> Result<Hold, Refusal> {
        hold(self, want, max).await
    }

    /// Extends a hold by `lease`, or by what it was granted for, and never shortens it. `name`: any of its names. One
    /// that this sidecar did not grant is extended by its name and id alone.
    ///
    /// # Errors
    /// [`Refusal::Lost`], [`Refusal::Store`] after some seconds of trying, [`Refusal::TooLate`].
    pub async fn extend(
        self: &Arc<Self>,
        name: LockName,
        id: LockId,
        lease: Option<Duration>,
    ) -> Result<Extended, Refusal> {
        extend(self, name, id, lease).await
    }

    /// Gives a hold back.
    ///
    /// # Errors
    /// [`Refusal::Lost`]; [`Refusal::Store`] after some seconds, and then it is tried on in the background.
    pub async fn release(self: &Arc<Self>, name: LockName, id: LockId) -> Result<(), Refusal> {
        release(self, name, id).await
    }

    /// A lock as it stands.
    ///
    /// # Errors
    /// [`Refusal::Store`].
    pub async fn inspect(&self, name: LockName) -> Result<LockInsight, Refusal> {
        let insight = self.timed(StoreCommand::LockInspect, self.store.inspect(name)).await.map_err(Refusal::Store)?;
        insight.holders.iter().for_each(|holder| self.held.saw(holder.token));
        Ok(insight)
    }

    /// Some of the store's locks that are held or waited for, through whatever sidecar: from this place on, 0 being the
    /// beginning.
    ///
    /// # Errors
    /// [`Refusal::Store`].
    pub async fn list(&self, from: u64) -> Result<LockPage, Refusal> {
        operator::list(self, from).await
    }

    /// Ends what is held under this token, whoever has it. Who had it; nobody where it was ended before.
    ///
    /// # Errors
    /// [`Refusal::TokenDiffers`]; [`Refusal::Store`] after some seconds.
    pub async fn unlock(self: &Arc<Self>, name: LockName, token: Token) -> Result<Option<LockHolder>, Refusal> {
        operator::unlock(self, name, token).await
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
        self.held.each_name(self.now(), |name| count(name, 1, 0));
        self.waiters.each_name(|name| count(name, 0, 1));
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
        self.upkeep.stop();
    }

    /// Whether [`Self::begin_shutdown`] was called.
    pub fn is_stopping(&self) -> bool {
        self.upkeep.is_stopping()
    }

    /// Waits, for a few seconds at the most, until nothing is on its way to the store. After
    /// [`Self::begin_shutdown`].
    pub async fn all_ended(&self) {
        self.upkeep.ended().await;
    }

    pub(super) fn now(&self) -> Mono {
        self.clock.now()
    }

    pub(super) fn new_id(&self) -> LockId {
        self.entropy.lock().lock_id()
    }

    pub(super) fn random(&self) -> Random {
        Random::new(self.entropy.lock().seed())
    }

    /// Pauses between tries, for [`Backoff::next`] up to [`PAUSE_MAX`].
    pub(super) fn backoff(&self) -> Backoff {
        Backoff::new(self.entropy.lock().seed(), PAUSE_MIN)
    }

    /// Awaits a request to the store, and counts it.
    pub(super) async fn timed<T>(
        &self,
        command: StoreCommand,
        request: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        timed(&self.telemetry, &self.clock, command, None, request).await
    }

    /// Asks until there is an answer or `until` has come, at least once.
    pub(super) async fn insist<T, F: Future<Output = Result<T, StoreError>>>(
        &self,
        until: Mono,
        mut ask: impl FnMut() -> F,
    ) -> Result<T, StoreError> {
        let mut backoff = self.backoff();
        loop {
            let error = match ask().await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let pause = backoff.next(PAUSE_MAX);
            if self.now() + pause >= until {
                return Err(error);
            }
            tokio::time::sleep(pause).await;
        }
    }
}
