//! Times every command of a store, whichever it is: its leases here, its locks in `locks`, its ledgers of jobs in
//! `ledgers`.

mod ledgers;
mod locks;

pub use ledgers::MeasuredLedgers;
pub use locks::MeasuredLocks;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;

use super::{LeaseStore, News, Purge, StoreError, StoreHealth};
use crate::base::Subscription;
use crate::base::clock::SharedClock;
use crate::protocol::{
    CampaignReply, CampaignRequest, Participant, PresenceRequest, ReleaseReply, ReleaseRequest, RenewReply,
    RenewRequest, RoleName, Rules, SessionId, Stamped,
};
use crate::telemetry::{CommandOutcome, Metrics, StoreCommand, Traces};

/// A store that feeds `baton_store_command_duration_seconds`, and traces. It changes nothing else.
pub struct Measured {
    store: Arc<dyn LeaseStore>,
    stopwatch: Stopwatch,
    traces: Traces,
}

/// Times commands by a clock.
struct Stopwatch {
    metrics: Arc<Metrics>,
    clock: SharedClock,
}

impl Measured {
    /// Measures `store` by `clock`.
    pub fn new(store: Arc<dyn LeaseStore>, metrics: Arc<Metrics>, clock: SharedClock) -> Self {
        Self { store, stopwatch: Stopwatch { metrics, clock }, traces: Traces::default() }
    }

    /// The same, with a span for each command of an election.
    pub fn with_traces(self, traces: Traces) -> Self {
        Self { traces, ..self }
    }

    async fn time<T>(
        &self,
        command: StoreCommand,
        role: &RoleName,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let (result, outcome, took) = self.stopwatch.lap(command, work).await;
        self.traces.command(command, role, outcome, took);
        result
    }
}

impl Stopwatch {
    async fn time<T>(
        &self,
        command: StoreCommand,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        self.lap(command, work).await.0
    }

    /// The same, with what was measured.
    async fn lap<T>(
        &self,
        command: StoreCommand,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> (Result<T, StoreError>, CommandOutcome, Duration) {
        let sent_at = self.clock.now();
        let result = work.await;
        let outcome = match &result {
            Ok(_) => CommandOutcome::Ok,
            Err(StoreError::Unknown { .. }) => CommandOutcome::Unknown,
            Err(StoreError::Unreachable { .. }) => CommandOutcome::Unreachable,
            Err(StoreError::Refused { .. }) => CommandOutcome::Refused,
            Err(StoreError::Garbage { .. }) => CommandOutcome::Garbage,
        };
        let took = self.clock.now().since(sent_at);
        self.metrics.store_command(command, outcome, took);
        (result, outcome, took)
    }
}

#[async_trait]
impl LeaseStore for Measured {
    async fn campaign(&self, role: &RoleName, request: CampaignRequest) -> Result<Stamped<CampaignReply>, StoreError> {
        self.time(StoreCommand::Campaign, role, self.store.campaign(role, request)).await
    }

    async fn renew(&self, role: &RoleName, request: RenewRequest) -> Result<Stamped<RenewReply>, StoreError> {
        self.time(StoreCommand::Renew, role, self.store.renew(role, request)).await
    }

    async fn release(&self, role: &RoleName, request: ReleaseRequest) -> Result<Stamped<ReleaseReply>, StoreError> {
        self.time(StoreCommand::Release, role, self.store.release(role, request)).await
    }

    fn listen(&self, role: &RoleName) -> Subscription<News> {
        self.store.listen(role)
    }

    fn listen_but(&self, role: &RoleName, own: SessionId) -> Subscription<News> {
        self.store.listen_but(role, own)
    }

    fn health(&self) -> watch::Receiver<StoreHealth> {
        self.store.health()
    }

    async fn purge(&self, role: &RoleName) -> Result<Purge, StoreError> {
        self.stopwatch.time(StoreCommand::Purge, self.store.purge(role)).await
    }

    async fn presence(&self, role: &RoleName, request: PresenceRequest) -> Result<Vec<Participant>, StoreError> {
        self.stopwatch.time(StoreCommand::Presence, self.store.presence(role, request)).await
    }

    fn notes(&self) -> Vec<String> {
        self.store.notes()
    }

    fn members(&self) -> watch::Receiver<Vec<bool>> {
        self.store.members()
    }

    fn rules(&self) -> Rules {
        self.store.rules()
    }

    fn command_timeout(&self) -> Duration {
        self.store.command_timeout()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::BootClock;

    /// A store that answers every purge with the same error.
    struct Failing(Option<StoreError>);

    #[async_trait]
    impl LeaseStore for Failing {
        async fn campaign(&self, _: &RoleName, _: CampaignRequest) -> Result<Stamped<CampaignReply>, StoreError> {
            unreachable!("only purges are asked for")
        }

        async fn renew(&self, _: &RoleName, _: RenewRequest) -> Result<Stamped<RenewReply>, StoreError> {
            unreachable!("only purges are asked for")
        }

        async fn release(&self, _: &RoleName, _: ReleaseRequest) -> Result<Stamped<ReleaseReply>, StoreError> {
            unreachable!("only purges are asked for")
        }

        fn listen(&self, _: &RoleName) -> Subscription<News> {
            tokio::sync::mpsc::channel(1).1
        }

        fn health(&self) -> watch::Receiver<StoreHealth> {
            watch::channel(StoreHealth::Up).1
        }

        async fn purge(&self, _: &RoleName) -> Result<Purge, StoreError> {
            self.0.clone().map_or(Ok(Purge::Purged), Err)
        }

        fn command_timeout(&self) -> Duration {
            Duration::from_secs(1)
        }
    }

    #[tokio::test]
    async fn every_outcome_is_counted_under_its_word_and_passed_on() {
        let text = String::new;
        let outcomes = [
            (None, "ok"),
            (Some(StoreError::Unknown { after: Duration::ZERO }), "unknown"),
            (Some(StoreError::Unreachable { reason: text() }), "unreachable"),
            (Some(StoreError::Refused { reason: text() }), "refused"),
            (Some(StoreError::Garbage { key: text(), why: text() }), "garbage"),
        ];
        for (error, word) in outcomes {
            let metrics = Arc::new(Metrics::new(jiff::Timestamp::UNIX_EPOCH));
            let store = Measured::new(Arc::new(Failing(error.clone())), Arc::clone(&metrics), Arc::new(BootClock));
            let role = RoleName::new("scheduler").unwrap();
            assert_eq!(store.purge(&role).await, error.map_or(Ok(Purge::Purged), Err));
            let exposed = metrics.render(&[], true).unwrap();
            let counted: Vec<_> = exposed.lines().filter(|l| l.contains("_count{") && l.ends_with(" 1")).collect();
            let series =
                format!("baton_store_command_duration_seconds_count{{command=\"purge\",outcome=\"{word}\"}} 1");
            assert_eq!(counted, [series.as_str()]);
        }
    }
}
