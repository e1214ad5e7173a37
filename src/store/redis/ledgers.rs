//! Ledgers of jobs in Redis: one hash each, one atomic script per request.
//!
//! With acknowledgements (R6) a look and a write count only once enough replicas have them, so that no attempt starts
//! whose claim a failover could forget, as long as every replica that may be promoted is among those that acknowledge.
//!
//! Nothing here waits at a server process that is new to the ledger, as R5 has it of leases. That guard gives a lease
//! of which the new master knows nothing the time to end. A claim does not end by itself, so waiting would not bring it
//! back. What the wait is for is there already: whoever leads anew was guarded until the lease of the one before had
//! ended, and so writes after the last write that an old master could have acknowledged. What the new master has lost
//! by then is put back by the leader, if it still leads; if not, it is gone (P6).

use async_trait::async_trait;
use bytes::Bytes;

use super::scripts::ledgers::{self, FORGET, LedgerKeys, LedgerRequest, OPEN, READ, WRITE};
use super::scripts::{Fields, Script};
use super::{Done, RedisStore};
use crate::base::Subscription;
use crate::protocol::jobs::{JobName, LedgerTerm, OpenReply, Stored, WriteReply, WriteRequest};
use crate::store::{JobNews, LEDGER_BYTES_MAX, LedgerStore, StoreError, check_ledger_size};

impl RedisStore {
    /// Runs a script of ledgers and reads its answer. Nothing is executed after the deadline: a write that was stuck on
    /// the way must not become the first on a ledger that the store has lost meanwhile.
    async fn run_ledger<R>(
        &self,
        script: &Script,
        job: &JobName,
        request: LedgerRequest,
        read: fn(Fields) -> Result<R, StoreError>,
    ) -> Result<Done<R>, StoreError> {
        let keys = LedgerKeys::new(&self.settings.namespace);
        let call = |latest| keys.call(script, job, &request, latest);
        self.run_in_time(&self.ledger_clock, keys.slot(), call, read).await
    }
}

#[async_trait]
impl LedgerStore for RedisStore {
    fn ledger_bytes_max(&self) -> usize {
        LEDGER_BYTES_MAX
    }

    async fn open(&self, job: &JobName, term: &LedgerTerm) -> Result<OpenReply<Bytes>, StoreError> {
        let done = self.run_ledger(&OPEN, job, ledgers::open_request(term), ledgers::open_reply).await?;
        match done.reply {
            // Also for what it tells: the leader acts on that.
            OpenReply::Opened(_) => self.acknowledged(done).await,
            OpenReply::Stale { .. } | OpenReply::OtherRole { .. } => Ok(done.reply),
        }
    }

    async fn write(&self, job: &JobName, request: WriteRequest<Bytes>) -> Result<WriteReply<Bytes>, StoreError> {
        check_ledger_size(&request.body, self.ledger_bytes_max())?;
        let request = LedgerKeys::new(&self.settings.namespace).write_request(job, request);
        let done = self.run_ledger(&WRITE, job, request, ledgers::write_reply).await?;
        match done.reply {
            WriteReply::Written { .. } => self.acknowledged(done).await,
            WriteReply::Stale { .. } | WriteReply::OtherRole { .. } | WriteReply::Diverged(_) => Ok(done.reply),
        }
    }

    async fn read(&self, job: &JobName) -> Result<Option<Stored<Bytes>>, StoreError> {
        Ok(self.run_ledger(&READ, job, LedgerRequest::default(), ledgers::read_reply).await?.reply)
    }

    async fn forget(&self, job: &JobName) -> Result<bool, StoreError> {
        Ok(self.run_ledger(&FORGET, job, LedgerRequest::default(), ledgers::forget_reply).await?.reply)
    }

    fn changes(&self) -> Subscription<JobNews> {
        self.listeners.add(LedgerKeys::new(&self.settings.namespace).wishes(), None)
    }
}
