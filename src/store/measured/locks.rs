//! Times every command of a store of locks.

use std::sync::Arc;

use async_trait::async_trait;

use super::Stopwatch;
use crate::base::Subscription;
use crate::base::clock::SharedClock;
use crate::protocol::{
    AcquireReply, AcquireRequest, CancelRequest, ExtendReply, ExtendRequest, HandOverRequest, LockInsight, LockName,
    LockReleaseReply, LockReleaseRequest, SessionId,
};
use crate::store::{HandedOver, LockStore, StoreError, WakeNews};
use crate::telemetry::{Metrics, StoreCommand};

/// A store of locks that feeds `baton_store_command_duration_seconds`. It changes nothing else.
pub struct MeasuredLocks {
    store: Arc<dyn LockStore>,
    stopwatch: Stopwatch,
}

impl MeasuredLocks {
    /// Measures `store` by `clock`.
    pub fn new(store: Arc<dyn LockStore>, metrics: Arc<Metrics>, clock: SharedClock) -> Self {
        Self { store, stopwatch: Stopwatch { metrics, clock } }
    }
}

#[async_trait]
impl LockStore for MeasuredLocks {
    async fn acquire(&self, request: AcquireRequest) -> Result<AcquireReply, StoreError> {
        self.stopwatch.time(StoreCommand::LockAcquire, self.store.acquire(request)).await
    }

    async fn extend(&self, request: ExtendRequest) -> Result<ExtendReply, StoreError> {
        self.stopwatch.time(StoreCommand::LockExtend, self.store.extend(request)).await
    }

    async fn release(&self, request: LockReleaseRequest) -> Result<LockReleaseReply, StoreError> {
        self.stopwatch.time(StoreCommand::LockRelease, self.store.release(request)).await
    }

    async fn hand_over(&self, request: HandOverRequest) -> Result<HandedOver, StoreError> {
        self.stopwatch.time(StoreCommand::LockHandOver, self.store.hand_over(request)).await
    }

    async fn cancel(&self, request: CancelRequest) -> Result<(), StoreError> {
        self.stopwatch.time(StoreCommand::LockCancel, self.store.cancel(request)).await
    }

    async fn beat(&self, session: SessionId) -> Result<(), StoreError> {
        self.stopwatch.time(StoreCommand::LockBeat, self.store.beat(session)).await
    }

    async fn inspect(&self, name: LockName) -> Result<LockInsight, StoreError> {
        self.stopwatch.time(StoreCommand::LockInspect, self.store.inspect(name)).await
    }

    fn wakes(&self, session: SessionId) -> Subscription<WakeNews> {
        self.store.wakes(session)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::BootClock;
    use crate::protocol::{LockId, Queueing, Token};
    use crate::store::memory::MemoryStore;

    #[tokio::test]
    async fn every_command_of_locks_is_counted_under_its_own_word() {
        let clock: SharedClock = Arc::new(BootClock);
        let metrics = Arc::new(Metrics::new(jiff::Timestamp::UNIX_EPOCH));
        let store = Arc::new(MemoryStore::new(Arc::clone(&clock)));
        let locks = MeasuredLocks::new(store, Arc::clone(&metrics), clock);
        let words = ["acquire", "extend", "release", "hand_over", "cancel", "beat", "inspect"];
        let count = |word: &str| {
            let series =
                format!("baton_store_command_duration_seconds_count{{command=\"lock_{word}\",outcome=\"ok\"}} ");
            let text = metrics.render(Vec::new(), true).unwrap();
            text.lines().find_map(|line| line.strip_prefix(&series)?.parse::<u64>().ok())
        };
        assert!(words.iter().all(|word| count(word) == Some(0)), "present at zero from the start");

        let (names, id) = (vec![LockName::new("a").unwrap()], LockId::from_u128(1));
        let session = SessionId::from_u128(1);
        let lease = std::time::Duration::from_secs(1);
        let asked = AcquireRequest {
            names: names.clone(),
            session,
            id,
            owner: Arc::from("worker"),
            identity: Arc::from("web-0"),
            lease,
            permits: 1,
            floor: Token::NONE,
            queueing: Queueing::No,
            guard: None,
        };
        locks.acquire(asked.clone()).await.unwrap();
        let extension = ExtendRequest { names: names.clone(), id, lease: None, restore: None, guard: None };
        locks.extend(extension).await.unwrap();
        locks.inspect(names[0].clone()).await.unwrap();
        let release = LockReleaseRequest { names: names.clone(), id, request: id, entirely: true };
        locks.release(release.clone()).await.unwrap();
        locks.hand_over(HandOverRequest { release, acquire: asked, yields: false }).await.unwrap();
        locks.cancel(CancelRequest { names, session, id }).await.unwrap();
        locks.beat(session).await.unwrap();
        assert!(words.iter().all(|word| count(word) == Some(1)));
    }
}
