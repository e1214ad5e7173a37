//! A place with a role that nobody else uses, and what cases do with it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use baton::protocol::{
    CampaignReply, CampaignRequest, GuardCause, ReleaseReply, ReleaseRequest, RenewReply, RenewRequest, RoleName, Token,
};
use baton::store::{LeaseStore, PresenceStore};
use testkit::wait_until_async;

use super::{Fault, Place};
use crate::requests::{LEASE, ask, giving_back, knows_for, renewal};

/// How long any state may take: failovers take seconds, and machines are busy.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// See the module.
pub struct Stage {
    place: Box<dyn Place>,
    role: RoleName,
}

impl Stage {
    pub(super) fn new(place: Box<dyn Place>) -> Self {
        Self { place, role: another_role() }
    }

    /// From now on the cases are about a role that the store knows nothing of.
    pub(super) fn another_role(&mut self) {
        self.role = another_role();
    }

    pub fn store(&self) -> Arc<dyn LeaseStore> {
        self.place.store()
    }

    pub fn presence(&self) -> Arc<dyn PresenceStore> {
        self.place.presence()
    }

    pub(super) fn faults(&self) -> &'static [Fault] {
        self.place.faults()
    }

    pub fn role(&self) -> &RoleName {
        &self.role
    }

    /// See [`Place::acknowledged`].
    pub async fn acknowledged(&self) -> Arc<dyn LeaseStore> {
        self.place.acknowledged().await
    }

    /// Does this to the role, and waits until the store answers if it has to come back first.
    pub async fn inflict(&mut self, fault: Fault) {
        assert!(self.faults().contains(&fault), "the case does not say that it needs {fault:?}");
        self.place.inflict(fault, &self.role).await;
        if fault == Fault::AnotherServer {
            let store = self.store();
            wait_until_async(PATIENCE, "the store answers again", async || {
                // A session that asks for a role's release which it never had changes nothing.
                store.release(&self.role, giving_back(99, 1, Token::NONE)).await.is_ok()
            })
            .await;
        }
    }

    /// See [`Place::relieve`].
    pub async fn relieve(&mut self, fault: Fault) {
        self.place.relieve(fault, &self.role).await;
    }

    pub async fn campaign(&self, request: CampaignRequest) -> CampaignReply {
        self.store().campaign(&self.role, request).await.expect("an answer").reply
    }

    pub async fn renew(&self, request: RenewRequest) -> RenewReply {
        self.store().renew(&self.role, request).await.expect("an answer").reply
    }

    pub async fn release(&self, request: ReleaseRequest) -> ReleaseReply {
        self.store().release(&self.role, request).await.expect("an answer").reply
    }

    /// Wins a term and says its token and count.
    pub async fn win(&self, request: CampaignRequest) -> (Token, u64) {
        match self.campaign(request).await {
            CampaignReply::Granted { token, count } => (token, count),
            other => panic!("not granted: {other:?}"),
        }
    }

    /// A term under R5, on a server that may have started just now: the guard of a short lease is over soon.
    pub async fn win_guarded(&self, session: u128, lease: Duration) -> (Token, u64) {
        let (mut won, mut knowledge) = (None, None);
        wait_until_async(PATIENCE, "the guard of a young server ends", async || {
            match self.campaign(CampaignRequest { lease_duration: lease, knowledge, ..ask(session, 1) }).await {
                CampaignReply::Granted { token, count } => won = Some((token, count)),
                CampaignReply::Guarded { cause: GuardCause::Empty, version, .. }
                | CampaignReply::LookAgain { version, .. } => knowledge = knows_for(version, lease),
                other => panic!("{other:?}"),
            }
            won.is_some()
        })
        .await;
        won.expect("waited for")
    }

    /// A term of the lease that the cases use, which the store knows to be renewed by this server process.
    pub async fn win_and_renew(&self, session: u128) -> (Token, u64) {
        let (token, _) = self.win_guarded(session, LEASE / 60).await;
        match self.renew(renewal(session, 1, token)).await {
            RenewReply::Renewed { count, .. } => (token, count),
            RenewReply::Lost { .. } => panic!("lost within a second: the machine is too busy for this test"),
        }
    }
}

fn another_role() -> RoleName {
    static ROLES: AtomicU64 = AtomicU64::new(0);
    let name = format!("role-{}", ROLES.fetch_add(1, Ordering::Relaxed));
    RoleName::new(name).expect("a DNS label")
}
