//! MemoryLedgers of jobs in this process: the reference itself, and who is told of wishes.

use parking_lot::MutexGuard;
use std::collections::HashMap;

use async_trait::async_trait;
use bytes::Bytes;

use super::MemoryStore;
use crate::base::Subscription;
use crate::base::subscription::Subscribers;
use crate::protocol::StoreTime;
use crate::protocol::jobs::{JobName, LedgerCell, LedgerTerm, OpenReply, Stored, WriteReply, WriteRequest};
use crate::store::{JobNews, LEDGER_BYTES_MAX, LedgerStore, StoreError, check_ledger_size};

#[derive(Debug, Default)]
pub(super) struct MemoryLedgers {
    cells: HashMap<JobName, LedgerCell<Bytes>>,
    listeners: Subscribers<JobNews>,
}

impl MemoryStore {
    /// Tells all who listen of this job.
    pub(super) fn tell_of_job(&self, job: &JobName) {
        self.ledgers().listeners.tell(&JobNews::Changed(job.clone()));
    }

    fn ledgers(&self) -> MutexGuard<'_, MemoryLedgers> {
        // A cell is valid after every step, also after one that another thread panicked behind.
        self.ledgers.lock()
    }
}

#[async_trait]
impl LedgerStore for MemoryStore {
    fn ledger_bytes_max(&self) -> usize {
        LEDGER_BYTES_MAX
    }

    async fn open(&self, job: &JobName, term: &LedgerTerm) -> Result<OpenReply<Bytes>, StoreError> {
        Ok(self.ledgers().cells.entry(job.clone()).or_default().open(term))
    }

    async fn write(&self, job: &JobName, request: WriteRequest<Bytes>) -> Result<WriteReply<Bytes>, StoreError> {
        check_ledger_size(&request.body, self.ledger_bytes_max())?;
        let now = StoreTime(self.clock.now().as_nanos() / 1_000);
        let is_wish = request.term.is_none();
        let mut ledgers = self.ledgers();
        let reply = ledgers.cells.entry(job.clone()).or_default().write(request, now);
        if is_wish && matches!(reply, WriteReply::Written { .. }) {
            ledgers.listeners.tell(&JobNews::Changed(job.clone()));
        }
        Ok(reply)
    }

    async fn read(&self, job: &JobName) -> Result<Option<Stored<Bytes>>, StoreError> {
        Ok(self.ledgers().cells.get(job).and_then(LedgerCell::read))
    }

    async fn forget(&self, job: &JobName) -> Result<bool, StoreError> {
        Ok(self.ledgers().cells.remove(job).is_some_and(|cell| cell.read().is_some()))
    }

    fn changes(&self) -> Subscription<JobNews> {
        let mut ledgers = self.ledgers();
        // Few begin to listen: that is soon enough to forget who has gone.
        ledgers.listeners.count();
        ledgers.listeners.add(true)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::base::clock::BootClock;
    use crate::protocol::{RoleName, Token};

    fn job() -> JobName {
        JobName::new("nightly").unwrap()
    }

    #[tokio::test]
    async fn a_wish_is_heard_and_a_leaders_own_write_is_not() {
        let store = MemoryStore::new(Arc::new(BootClock));
        let mut news = store.changes();
        assert_eq!(news.try_recv(), Ok(JobNews::Gap));
        let term = LedgerTerm { role: RoleName::new("scheduler").unwrap(), token: Token::new(7).unwrap() };
        store.open(&job(), &term).await.unwrap();
        let write = |term, base| WriteRequest { term, base, body: Bytes::from_static(b"{}") };
        let Ok(WriteReply::Written { revision }) = store.write(&job(), write(Some(term), None)).await else {
            panic!("refused")
        };
        assert!(news.try_recv().is_err());
        store.write(&job(), write(None, None)).await.unwrap();
        assert!(news.try_recv().is_err(), "nothing was written");
        store.write(&job(), write(None, Some(revision))).await.unwrap();
        assert_eq!(news.try_recv(), Ok(JobNews::Changed(job())));
    }

    #[tokio::test]
    async fn a_forgotten_ledger_is_gone() {
        let store = MemoryStore::new(Arc::new(BootClock));
        assert_eq!(store.forget(&job()).await, Ok(false));
        store.write(&job(), WriteRequest { term: None, base: None, body: Bytes::new() }).await.unwrap();
        assert_eq!(store.forget(&job()).await, Ok(true));
        assert_eq!(store.read(&job()).await, Ok(None));
    }
}
