//! Times every command of a store of ledgers.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use super::Stopwatch;
use crate::base::Subscription;
use crate::base::clock::SharedClock;
use crate::protocol::Token;
use crate::protocol::jobs::{JobName, OpenReply, Stored, WriteReply, WriteRequest};
use crate::store::{JobNews, LedgerStore, StoreError};
use crate::telemetry::{Metrics, StoreCommand};

/// A store of ledgers that feeds `baton_store_command_duration_seconds`. It changes nothing else.
pub struct MeasuredLedgers {
    store: Arc<dyn LedgerStore>,
    stopwatch: Stopwatch,
}

impl MeasuredLedgers {
    /// Measures `store` by `clock`.
    pub fn new(store: Arc<dyn LedgerStore>, metrics: Arc<Metrics>, clock: SharedClock) -> Self {
        Self { store, stopwatch: Stopwatch { metrics, clock } }
    }
}

#[async_trait]
impl LedgerStore for MeasuredLedgers {
    async fn open(&self, job: &JobName, token: Token) -> Result<OpenReply<Bytes>, StoreError> {
        self.stopwatch.time(StoreCommand::JobOpen, self.store.open(job, token)).await
    }

    async fn write(&self, job: &JobName, request: WriteRequest<Bytes>) -> Result<WriteReply<Bytes>, StoreError> {
        self.stopwatch.time(StoreCommand::JobWrite, self.store.write(job, request)).await
    }

    async fn read(&self, job: &JobName) -> Result<Option<Stored<Bytes>>, StoreError> {
        self.stopwatch.time(StoreCommand::JobRead, self.store.read(job)).await
    }

    /// Counted with the other purges.
    async fn forget(&self, job: &JobName) -> Result<bool, StoreError> {
        self.stopwatch.time(StoreCommand::Purge, self.store.forget(job)).await
    }

    fn changes(&self) -> Subscription<JobNews> {
        self.store.changes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::BootClock;
    use crate::store::LEDGER_BYTES_MAX;
    use crate::store::memory::MemoryStore;

    #[tokio::test]
    async fn every_command_of_ledgers_is_counted_under_its_own_word() {
        let clock: SharedClock = Arc::new(BootClock);
        let metrics = Arc::new(Metrics::new(jiff::Timestamp::UNIX_EPOCH));
        let store = Arc::new(MemoryStore::new(Arc::clone(&clock)));
        let ledgers = MeasuredLedgers::new(store, Arc::clone(&metrics), clock);
        let words = ["job_open", "job_write", "job_read", "purge"];
        let count = |word: &str, outcome: &str| {
            let series =
                format!("baton_store_command_duration_seconds_count{{command=\"{word}\",outcome=\"{outcome}\"}} ");
            let text = metrics.render(Vec::new(), true).unwrap();
            text.lines().find_map(|line| line.strip_prefix(&series)?.parse::<u64>().ok())
        };
        assert!(words.iter().all(|word| count(word, "ok") == Some(0)), "present at zero from the start");

        let job = JobName::new("nightly").unwrap();
        let write = |body| WriteRequest { token: None, base: None, body };
        assert_eq!(ledgers.open(&job, Token::new(7).unwrap()).await, Ok(OpenReply::Opened(None)));
        assert!(matches!(ledgers.write(&job, write(Bytes::new())).await, Ok(WriteReply::Written { .. })));
        assert!(ledgers.read(&job).await.unwrap().is_some());
        assert_eq!(ledgers.forget(&job).await, Ok(true));
        assert!(words.iter().all(|word| count(word, "ok") == Some(1)));
        let too_long = Bytes::from(vec![b' '; LEDGER_BYTES_MAX + 1]);
        assert!(matches!(ledgers.write(&job, write(too_long)).await, Err(StoreError::Refused { .. })));
        assert_eq!((count("job_write", "ok"), count("job_write", "refused")), (Some(1), Some(1)));
    }
}
