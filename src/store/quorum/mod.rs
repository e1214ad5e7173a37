//! Leases on several independent stores that know nothing of each other: a quorum of them is the store.
//!
//! ```text
//!   QuorumStore ── campaign, renew, release ──> round ─ one task for each question ──> Member 0 … N-1
//!       │                                        └── a Round (protocol/quorum) counts, and says what to ask next
//!       ├── subscribe ──> one task for each listener, which puts the members' news together (Heard)
//!       └── health, notes <── one task that watches the members
//! ```
//!
//! Which answers make a leader is decided by the rounds; this only carries questions and answers. A question runs to
//! its own end, whoever waits for it, so that nothing is sent twice; but nobody waits for it longer than the members'
//! command timeout. So a member that is slow, frozen or gone holds up a campaign, which asks every member twice, for
//! that long each time, and a renewal not at all.

mod health;
mod listen;
mod refusals;
mod round;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use self::health::QuorumStatus;
use self::refusals::Refusals;
use super::{LeaseStore, News, Purge, StoreError, StoreHealth};
use crate::base::Subscription;
use crate::base::clock::SharedClock;
use crate::protocol::{
    CampaignReply, CampaignRequest, CampaignRound, MemberReply, MemberRequest, ReleaseReply, ReleaseRequest,
    ReleaseRound, RenewReply, RenewRequest, RenewRound, RoleName, Round, Rules, Seats, SessionId, Stamped, StoreTime,
};

/// One of the stores. Every future returned here ends by itself within the command timeout.
#[async_trait]
pub trait QuorumMember: Send + Sync + 'static {
    /// Where it is, for people: host and port.
    fn name(&self) -> &str;

    /// One atomic step there.
    async fn ask(&self, role: &RoleName, ask: &MemberRequest) -> Result<MemberReply, StoreError>;

    /// As [`LeaseStore::subscribe`], to all that is said.
    fn subscribe(&self, role: &RoleName) -> Subscription<News>;

    /// As [`LeaseStore::health`].
    fn health(&self) -> watch::Receiver<StoreHealth>;

    /// Why it cannot be asked at the moment; none when it can.
    fn trouble(&self) -> Option<StoreError>;

    /// Which process of a store it is, once that is known. Two members that are the same one would be counted twice.
    fn process(&self) -> Option<String>;

    /// As [`LeaseStore::notes`].
    fn notes(&self) -> Vec<String>;

    /// As [`LeaseStore::purge`].
    async fn purge(&self, role: &RoleName) -> Result<Purge, StoreError>;
}

/// See the module.
pub struct QuorumStore {
    quorum: Arc<Quorum>,
    clock: SharedClock,
    status: Arc<QuorumStatus>,
    watcher: AbortHandle,
}

impl fmt::Debug for QuorumStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.quorum.members.iter().map(|member| member.name()).collect();
        f.debug_struct("QuorumStore")
            .field("members", &names)
            .field("seats", &self.quorum.seats)
            .finish_non_exhaustive()
    }
}

impl Drop for QuorumStore {
    fn drop(&mut self) {
        self.watcher.abort();
    }
}

/// The members, and how many of them it takes.
struct Quorum {
    members: Vec<Arc<dyn QuorumMember>>,
    seats: Seats,
    /// For how long a member's answer is waited for.
    timeout: Duration,
    refusals: Refusals,
    /// How long each one's last answer took, in microseconds.
    took_us: Vec<AtomicU64>,
}

impl Quorum {
    /// Why a member does not count: it is in trouble, it is another one once more, or it refuses what it is asked.
    fn why_not(&self, member: usize) -> Option<StoreError> {
        self.cannot_count(member).or_else(|| self.refusals.of(member))
    }

    /// The same, as far as it holds for all roles.
    fn cannot_count(&self, member: usize) -> Option<StoreError> {
        let all = || self.refusals.of(member).filter(|_| self.refusals.are_all(member));
        self.members[member].trouble().or_else(|| self.twin(member)).or_else(all)
    }

    /// Two members that lead to one server would be two votes of one voice. The first of them counts.
    fn twin(&self, member: usize) -> Option<StoreError> {
        let process = self.members[member].process()?;
        let first = self.members[..member]
            .iter()
            .find(|other| other.trouble().is_none() && other.process().as_ref() == Some(&process))?;
        let reason = format!("it is the same server as {}: give each member a server of its own", first.name());
        Some(StoreError::Refused { reason })
    }

    /// An answer of this member took so long.
    fn note_pace(&self, member: usize, took: Duration) {
        self.took_us[member].store(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Whether its last answer took longer than this.
    fn is_slower(&self, member: usize, than: Duration) -> bool {
        Duration::from_micros(self.took_us[member].load(Ordering::Relaxed)) > than
    }

    /// An error with the member's name, for people.
    fn describe(&self, member: usize, error: &StoreError) -> String {
        let name = self.members[member].name();
        match error {
            StoreError::Unknown { after } => format!("{name}: no answer within {after:?}"),
            StoreError::Unreachable { reason } if reason.starts_with(name) => reason.clone(),
            StoreError::Unreachable { reason } => format!("{name}: {reason}"),
            StoreError::Refused { reason } | StoreError::Denied { reason } => format!("{name} refuses: {reason}"),
            StoreError::Garbage { .. } => format!("{name}: {error}"),
        }
    }
}

impl QuorumStore {
    /// A store over these members, of which `seats` says how many it takes. `timeout`: when a member's answer is no
    /// longer waited for. `clock`: this machine's. Must be called inside a tokio runtime.
    ///
    /// # Panics
    /// When `seats` speaks of another number of members.
    pub fn new(members: Vec<Arc<dyn QuorumMember>>, seats: Seats, timeout: Duration, clock: SharedClock) -> Self {
        assert_eq!(members.len(), seats.places(), "a seat for each member");
        let refusals = Refusals::new(seats.places());
        let took_us = members.iter().map(|_| AtomicU64::new(0)).collect();
        let quorum = Arc::new(Quorum { members, seats, timeout, refusals, took_us });
        let status = Arc::new(QuorumStatus::new(seats.places()));
        let watcher = tokio::spawn(health::run(Arc::clone(&quorum), Arc::clone(&status))).abort_handle();
        Self { quorum, clock, status, watcher }
    }

    /// Which members count at the moment, in the order of the configuration. Changes are pushed.
    pub fn members(&self) -> watch::Receiver<Vec<bool>> {
        self.status.members.subscribe()
    }

    async fn decide<R: Round>(&self, role: &RoleName, round: R) -> Result<Stamped<R::Reply>, StoreError> {
        let reply = round::drive(&self.quorum, role, round).await?;
        // Each member has a clock of its own, of which nobody is to conclude anything; this one never steps.
        Ok(Stamped { reply, store_time: StoreTime(self.clock.now().as_nanos() / 1_000) })
    }
}

#[async_trait]
impl LeaseStore for QuorumStore {
    async fn campaign(&self, role: &RoleName, request: CampaignRequest) -> Result<Stamped<CampaignReply>, StoreError> {
        self.decide(role, CampaignRound::new(self.quorum.seats, self.rules(), request)).await
    }

    async fn renew(&self, role: &RoleName, request: RenewRequest) -> Result<Stamped<RenewReply>, StoreError> {
        self.decide(role, RenewRound::new(self.quorum.seats, request)).await
    }

    async fn release(&self, role: &RoleName, request: ReleaseRequest) -> Result<Stamped<ReleaseReply>, StoreError> {
        self.decide(role, ReleaseRound::new(self.quorum.seats, request)).await
    }

    fn subscribe(&self, role: &RoleName, _but: Option<SessionId>) -> Subscription<News> {
        listen::listen(self.quorum.members.iter().map(|member| member.subscribe(role)).collect(), self.quorum.seats)
    }

    fn health(&self) -> watch::Receiver<StoreHealth> {
        self.status.health.subscribe()
    }

    fn notes(&self) -> Vec<String> {
        let theirs = self.quorum.members.iter().flat_map(|member| {
            let notes = member.notes().into_iter();
            notes.map(|note| format!("{}: {note}", member.name())).collect::<Vec<_>>()
        });
        self.status.missing().into_iter().chain(theirs).collect()
    }

    fn rules(&self) -> Rules {
        Rules::QUORUM
    }

    /// Every member must answer: what one that is away remembers would come back with it.
    async fn purge(&self, role: &RoleName) -> Result<Purge, StoreError> {
        round::purge(&self.quorum, role).await
    }
}
