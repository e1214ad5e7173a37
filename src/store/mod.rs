//! Where leases, locks and the ledgers of jobs are kept: what is asked of a store, and the stores.
//!
//! | | [`LeaseStore`] | [`PresenceStore`] | [`LockStore`] | [`LedgerStore`] | [`RegistryStore`] |
//! |---|---|---|---|---|---|
//! | [`redis`]: one Redis, those behind Sentinels, a cluster | yes | yes | yes | yes | yes |
//! | [`quorum`]: several of them that know nothing of each other | yes | | | | |
//! | [`kubernetes`]: Lease objects | yes | | | yes | |
//! | [`memory`]: this process | yes | yes | yes | yes | yes |
//!
//! A store carries requests to where things are kept and brings the replies back; it decides nothing, and says by no
//! default which rules it keeps. It never retries by itself: a request that got no answer in time is
//! [`StoreError::Unknown`], and who asked decides what follows. [`timed()`] counts requests, where they are awaited.

pub mod kubernetes;
pub mod memory;
pub mod quorum;
pub mod redis;
mod timed;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::watch;

pub use timed::timed;

use crate::base::Subscription;
use crate::base::subscription::Lossy;
use crate::protocol::jobs::{
    JobName, JobPut, JobPutReply, JobSettle, JobSettleReply, JobTake, JobTakeReply, JobWish, JobWishReply, LedgerTerm,
    OpenReply, Revision, Stored, StoredJob, WriteReply, WriteRequest,
};
use crate::protocol::{
    AcquireReply, AcquireRequest, Announcement, CampaignReply, CampaignRequest, CancelRequest, ExtendReply,
    ExtendRequest, LockId, LockInsight, LockName, LockReleaseReply, LockReleaseRequest, Participant, PresenceRequest,
    ReleaseReply, ReleaseRequest, RenewReply, RenewRequest, RoleName, Rules, SessionId, Stamped, TokensExhausted,
    UnlockReply, UnlockRequest,
};

/// How long a command that is run once waits for a connection: longer than any connect that succeeds.
pub const CONNECT_PATIENCE: Duration = Duration::from_secs(5);

/// The shortest lease of any role, which a reload may change: a store finds out within a part of it that a connection
/// is dead, and that its server is back. Clones are one.
#[derive(Clone, Debug)]
pub struct ShortestLease(Arc<AtomicU64>);

impl ShortestLease {
    /// As it is now.
    pub fn get(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }

    /// From now on it is this.
    pub fn set(&self, lease: Duration) {
        self.0.store(nanos(lease), Ordering::Relaxed);
    }
}

impl From<Duration> for ShortestLease {
    fn from(lease: Duration) -> Self {
        Self(Arc::new(AtomicU64::new(nanos(lease))))
    }
}

fn nanos(lease: Duration) -> u64 {
    u64::try_from(lease.as_nanos()).unwrap_or(u64::MAX)
}

/// A store of leases. Every future returned here ends by itself within the adapter's command timeout; dropping one
/// early does not undo its request.
#[async_trait]
pub trait LeaseStore: Send + Sync + 'static {
    /// Asks for a role's lease (R1).
    async fn campaign(&self, role: &RoleName, request: CampaignRequest) -> Result<Stamped<CampaignReply>, StoreError>;

    /// Extends or reasserts a lease (R4).
    async fn renew(&self, role: &RoleName, request: RenewRequest) -> Result<Stamped<RenewReply>, StoreError>;

    /// Gives a lease back (R7).
    async fn release(&self, role: &RoleName, request: ReleaseRequest) -> Result<Stamped<ReleaseReply>, StoreError>;

    /// Begins to hear of a role (R8) until the receiver is dropped. A slow receiver loses messages, then hears
    /// [`News::Gap`]. May be called before the store is reachable. What the session `but` does is no news to whoever
    /// asks, so that a store may leave it out.
    fn subscribe(&self, role: &RoleName, but: Option<SessionId>) -> Subscription<News>;

    /// What is known of the store's well-being; changes are pushed.
    fn health(&self) -> watch::Receiver<StoreHealth>;

    /// What works, but not as well as it should: for people, and without secrets. It is told beside every reason for
    /// not leading.
    fn notes(&self) -> Vec<String>;

    /// The rules under which an election runs on this store.
    fn rules(&self) -> Rules;

    /// Forgets everything about a role that is no longer configured, its token included; refused while it has a lease.
    async fn purge(&self, role: &RoleName) -> Result<Purge, StoreError>;
}

/// A store in which the replicas of a role that is split over shards find each other. Not every store is one
/// (`StoreConfig::without_presence` in the configuration). Futures end as a [`LeaseStore`]'s do.
#[async_trait]
pub trait PresenceStore: Send + Sync + 'static {
    /// Says that this replica takes part in a role, and what it leads of it, and asks who else does: in the order of
    /// their sessions, this replica included. A hint for [`crate::protocol::Balance`]; nothing that must be safe rests
    /// on it.
    async fn presence(&self, role: &RoleName, request: PresenceRequest) -> Result<Vec<Participant>, StoreError>;
}

/// A store of locks. As with leases, every future ends by itself within the adapter's command timeout, and dropping one
/// early does not undo its request. An error may mean that the request was executed, though never after the answer:
/// repeat it, or cancel it. Wait for the answer to a request before sending the next about the same id.
#[async_trait]
pub trait LockStore: Send + Sync + 'static {
    /// Asks for a lock, or several.
    async fn acquire(&self, request: AcquireRequest) -> Result<AcquireReply, StoreError>;

    /// Extends a lock, or puts it back.
    async fn extend(&self, request: ExtendRequest) -> Result<ExtendReply, StoreError>;

    /// Gives a lock back.
    async fn release(&self, request: LockReleaseRequest) -> Result<LockReleaseReply, StoreError>;

    /// Ends a request that waited, or whose answer never came.
    async fn cancel(&self, request: CancelRequest) -> Result<(), StoreError>;

    /// A sidecar's sign of life, while any of its requests waits; at least every third of
    /// [`crate::protocol::TICKET_SPAN`].
    async fn beat(&self, session: SessionId) -> Result<(), StoreError>;

    /// A lock as it stands.
    async fn inspect(&self, name: LockName) -> Result<LockInsight, StoreError>;

    /// Ends what is held under a token, whoever has it.
    async fn unlock(&self, request: UnlockRequest) -> Result<UnlockReply, StoreError>;

    /// The names of which there is a record, some of them in use, from this place on (0: the beginning), and the place
    /// to go on from: 0 at the end. What comes or goes meanwhile may be missing, and a name may be told twice.
    async fn names(&self, from: u64) -> Result<(Vec<LockName>, u64), StoreError>;

    /// Begins to hear what is said to a session's waiters and holders, until the receiver is dropped. A slow receiver
    /// loses messages, then hears [`WakeNews::Gap`].
    fn wakes(&self, session: SessionId) -> Subscription<WakeNews>;
}

/// The longest ledger that Redis and memory take, in bytes: a store that others use, too, is not to be stopped by one.
pub const LEDGER_BYTES_MAX: usize = 1 << 20;

/// Whether a ledger is short enough for a store that takes so many bytes. Every store asks before it sends it.
pub(crate) fn check_ledger_size(body: &Bytes, bytes_max: usize) -> Result<(), StoreError> {
    if body.len() <= bytes_max {
        return Ok(());
    }
    let bytes = body.len();
    Err(StoreError::Refused {
        reason: format!(
            "a job's ledger of {bytes} bytes is over {bytes_max}: lower the job's successfulJobsHistoryLimit and \
             failedJobsHistoryLimit"
        ),
    })
}

/// A store of the ledgers of jobs: one register each, with a fence. As with leases, every future ends by itself within
/// the adapter's command timeout, and an error may mean that the request was executed, or will be.
#[async_trait]
pub trait LedgerStore: Send + Sync + 'static {
    /// The longest ledger that it takes, in bytes.
    fn ledger_bytes_max(&self) -> usize;

    /// A leader's first look in its term: shuts the ledger to every earlier term of its role, if it is the role's.
    async fn open(&self, job: &JobName, term: &LedgerTerm) -> Result<OpenReply<Bytes>, StoreError>;

    /// Puts a ledger in the place of the one that the writer knows. What somebody wishes who need not lead
    /// ([`WriteRequest::term`]) is published. A ledger over the store's bound is refused and not sent.
    async fn write(&self, job: &JobName, request: WriteRequest<Bytes>) -> Result<WriteReply<Bytes>, StoreError>;

    /// The ledger as it stands.
    async fn read(&self, job: &JobName) -> Result<Option<Stored<Bytes>>, StoreError>;

    /// Forgets a job that is no longer configured, its fence included; whether there was anything.
    async fn forget(&self, job: &JobName) -> Result<bool, StoreError>;

    /// Begins to hear of wishes, until the receiver is dropped. A slow receiver loses messages, then hears
    /// [`JobNews::Gap`].
    fn changes(&self) -> Subscription<JobNews>;
}

/// A store of jobs that are made at run time, beside the ledgers of all others: what is put, deleted and wished is told
/// to those who listen to [`LedgerStore::changes`], where it concerns what runs or is due next. As with ledgers, every
/// future ends by itself within the adapter's command timeout, and an error may mean that the request was executed, or
/// will be. What each request does, [`crate::protocol::jobs::JobRegistry`] says.
#[async_trait]
pub trait RegistryStore: Send + Sync + 'static {
    /// Makes a job, or puts another in its place.
    async fn put(&self, job: &JobName, put: JobPut<Bytes>) -> Result<JobPutReply, StoreError>;

    /// A job as it stands.
    async fn get(&self, job: &JobName) -> Result<Option<StoredJob<Bytes>>, StoreError>;

    /// The jobs after this name, in their order: so many at the most.
    async fn list(&self, after: Option<&JobName>, most: usize) -> Result<Vec<(JobName, StoredJob<Bytes>)>, StoreError>;

    /// Removes a job; whether there was one.
    async fn delete(&self, job: &JobName) -> Result<bool, StoreError>;

    /// Does what somebody wishes who need not lead, and knows this version of the job.
    async fn wish(&self, job: &JobName, revision: Revision, wish: JobWish) -> Result<JobWishReply, StoreError>;

    /// A leader takes what is due.
    async fn take(&self, take: JobTake) -> Result<JobTakeReply<Bytes>, StoreError>;

    /// A leader ends an attempt that it has taken.
    async fn settle(&self, job: &JobName, settle: JobSettle<Bytes>) -> Result<JobSettleReply, StoreError>;
}

/// What is heard about jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobNews {
    /// Somebody who need not lead has written in this job's ledger, or has made, changed or deleted the job.
    Changed(JobName),
    /// The subscription is new or was renewed: messages may have been missed, so look at each ledger once.
    Gap,
}

impl Lossy for JobNews {
    const GAP: Self = Self::Gap;
}

/// What the waiters and holders of a session hear.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WakeNews {
    /// An operator has ended this hold.
    Unlocked {
        /// Which, as the store knows it.
        id: LockId,
        /// Of what.
        name: LockName,
    },
    /// This request should ask again.
    Wake {
        /// Which.
        id: LockId,
        /// What has become free.
        name: LockName,
    },
    /// The subscription is new or was renewed: messages may have been missed, so every waiter should ask once.
    Gap,
}

impl Lossy for WakeNews {
    const GAP: Self = Self::Gap;
}

/// What a listener hears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// The store published this. Boxed: a queue has room for many, and as a rule none.
    Said(Box<Announcement>),
    /// The subscription is new or was renewed: messages may have been missed, so look once.
    Gap,
}

impl Lossy for News {
    const GAP: Self = Self::Gap;
}

/// How the store is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreHealth {
    /// Not reached yet, or no more; why, in words for people (no secret in them).
    Down { reason: String },
    /// It answers.
    Up,
}

/// Pushes what is another than before, and says whether it was.
fn push_change<T: PartialEq>(to: &watch::Sender<T>, value: T) -> bool {
    to.send_if_modified(|present| {
        let changed = *present != value;
        *present = value;
        changed
    })
}

/// The outcome of [`LeaseStore::purge`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purge {
    /// Its keys are gone.
    Purged,
    /// There was nothing.
    Absent,
    /// It has a lease: it is in use.
    InUse,
}

/// Why a request has no reply. The texts hold no secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Sent, or perhaps sent, and not answered in time: neither granted nor refused (R2).
    #[error("no answer from the store within {after:?}")]
    Unknown {
        /// How long it was waited for.
        after: Duration,
    },
    /// There is no connection, so that nothing was sent, or the connection broke.
    #[error("the store cannot be reached: {reason}")]
    Unreachable {
        /// Why, in words.
        reason: String,
    },
    /// The store answered that it will not: wrong password, read-only replica, out of memory, too old, …
    #[error("the store refuses: {reason}")]
    Refused {
        /// What it said, and what would help.
        reason: String,
    },
    /// It answered that it will not, whoever asks again: it does not know this replica, or does not let it.
    #[error("the store refuses: {reason}")]
    Denied {
        /// What it said, and what would help.
        reason: String,
    },
    /// A key of ours holds what we did not write. It is left as it is.
    #[error("{key} holds something that is not Baton's ({why}); move it away or choose another keyPrefix")]
    Garbage {
        /// Which key.
        key: String,
        /// What is wrong with it.
        why: String,
    },
}

/// Where tokens are made of this machine's clock.
impl From<TokensExhausted> for StoreError {
    fn from(TokensExhausted: TokensExhausted) -> Self {
        let reason = "the next token would reach 2^53: this machine's clock is centuries ahead".to_owned();
        Self::Refused { reason }
    }
}
