//! Times every command of a store, whichever it is.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{mpsc, watch};

use super::{LeaseStore, News, Purge, StoreError, StoreHealth};
use crate::clock::SharedClock;
use crate::protocol::{
    CampaignReply, CampaignRequest, ReleaseReply, ReleaseRequest, RenewReply, RenewRequest, RoleName, Stamped,
};
use crate::telemetry::{CommandOutcome, Metrics, StoreCommand};

/// A store that feeds `baton_store_command_duration_seconds`. It changes nothing else.
#[derive(Debug)]
pub struct Measured<S> {
    store: S,
    metrics: Arc<Metrics>,
    clock: SharedClock,
}

impl<S: LeaseStore> Measured<S> {
    /// Measures `store` by `clock`.
    pub fn new(store: S, metrics: Arc<Metrics>, clock: SharedClock) -> Self {
        Self { store, metrics, clock }
    }

    async fn time<T>(
        &self,
        command: StoreCommand,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let sent_at = self.clock.now();
        let result = work.await;
        let outcome = match &result {
            Ok(_) => CommandOutcome::Ok,
            Err(StoreError::Unknown { .. }) => CommandOutcome::Unknown,
            Err(StoreError::Unreachable { .. }) => CommandOutcome::Unreachable,
            Err(StoreError::Refused { .. }) => CommandOutcome::Refused,
            Err(StoreError::Garbage { .. }) => CommandOutcome::Garbage,
        };
        self.metrics.store_command(command, outcome, self.clock.now().since(sent_at));
        result
    }
}

#[async_trait]
impl<S: LeaseStore> LeaseStore for Measured<S> {
    async fn campaign(&self, role: &RoleName, request: CampaignRequest) -> Result<Stamped<CampaignReply>, StoreError> {
        self.time(StoreCommand::Campaign, self.store.campaign(role, request)).await
    }

    async fn renew(&self, role: &RoleName, request: RenewRequest) -> Result<Stamped<RenewReply>, StoreError> {
        self.time(StoreCommand::Renew, self.store.renew(role, request)).await
    }

    async fn release(&self, role: &RoleName, request: ReleaseRequest) -> Result<Stamped<ReleaseReply>, StoreError> {
        self.time(StoreCommand::Release, self.store.release(role, request)).await
    }

    fn listen(&self, role: &RoleName) -> mpsc::Receiver<News> {
        self.store.listen(role)
    }

    fn health(&self) -> watch::Receiver<StoreHealth> {
        self.store.health()
    }

    async fn purge(&self, role: &RoleName) -> Result<Purge, StoreError> {
        self.time(StoreCommand::Purge, self.store.purge(role)).await
    }

    fn command_timeout(&self) -> Duration {
        self.store.command_timeout()
    }
}
