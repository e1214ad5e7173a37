//! Jobs that are made at run time, in Redis: one hash each, and for each role a queue by due time. One atomic script
//! per request, and none that is executed after its deadline: see [`super::ledgers`], of which all else holds here.

use async_trait::async_trait;
use bytes::Bytes;

use super::scripts::registry::{self, DELETE, GET, LIST, PUT, RegistryKeys, RegistryRequest, SETTLE, TAKE, WISH};
use super::scripts::{Fields, Script};
use super::{Done, RedisStore};
use crate::protocol::jobs::{
    JobName, JobPut, JobPutReply, JobSettle, JobSettleReply, JobTake, JobTakeReply, JobWish, JobWishReply, Revision,
    StoredJob,
};
use crate::store::{RegistryStore, StoreError};

impl RedisStore {
    async fn run_registry<R>(
        &self,
        script: &Script,
        request: RegistryRequest,
        read: fn(Fields) -> Result<R, StoreError>,
    ) -> Result<Done<R>, StoreError> {
        let keys = RegistryKeys::new(&self.settings.namespace);
        let call = |latest| keys.call(script, &request, latest);
        self.run_in_time(&self.ledger_clock, keys.slot(), call, read).await
    }
}

#[async_trait]
impl RegistryStore for RedisStore {
    async fn put(&self, job: &JobName, put: JobPut<Bytes>) -> Result<JobPutReply, StoreError> {
        let done = self.run_registry(&PUT, RegistryRequest::put(job, &put), registry::put_reply).await?;
        match done.reply {
            JobPutReply::Created(_) | JobPutReply::Replaced(_) => self.acknowledged(done).await,
            JobPutReply::Unchanged(_) | JobPutReply::Exists(_) => Ok(done.reply),
        }
    }

    async fn get(&self, job: &JobName) -> Result<Option<StoredJob<Bytes>>, StoreError> {
        Ok(self.run_registry(&GET, RegistryRequest::about(job, []), registry::get_reply).await?.reply)
    }

    async fn list(&self, after: Option<&JobName>, most: usize) -> Result<Vec<(JobName, StoredJob<Bytes>)>, StoreError> {
        let after = after.map_or_else(String::new, JobName::to_string);
        let request = RegistryRequest { args: vec![after, most.to_string()], body: None };
        Ok(self.run_registry(&LIST, request, registry::list_reply).await?.reply)
    }

    async fn delete(&self, job: &JobName) -> Result<bool, StoreError> {
        let done = self.run_registry(&DELETE, RegistryRequest::about(job, []), registry::delete_reply).await?;
        if done.reply { self.acknowledged(done).await } else { Ok(false) }
    }

    async fn wish(&self, job: &JobName, revision: Revision, wish: JobWish) -> Result<JobWishReply, StoreError> {
        let done = self.run_registry(&WISH, RegistryRequest::wish(job, revision, wish), registry::wish_reply).await?;
        match done.reply {
            JobWishReply::Granted { .. } => self.acknowledged(done).await,
            JobWishReply::Busy | JobWishReply::Gone => Ok(done.reply),
        }
    }

    async fn take(&self, take: JobTake) -> Result<JobTakeReply<Bytes>, StoreError> {
        let done = self.run_registry(&TAKE, RegistryRequest::take(&take), registry::take_reply).await?;
        match done.reply {
            // Nothing starts whose claim a failover could forget.
            JobTakeReply::Taken { .. } if !take.all => self.acknowledged(done).await,
            JobTakeReply::Taken { .. } | JobTakeReply::Stale { .. } => Ok(done.reply),
        }
    }

    async fn settle(&self, job: &JobName, settle: JobSettle<Bytes>) -> Result<JobSettleReply, StoreError> {
        let done = self.run_registry(&SETTLE, RegistryRequest::settle(job, &settle), registry::settle_reply).await?;
        match done.reply {
            JobSettleReply::Settled => self.acknowledged(done).await,
            JobSettleReply::Gone | JobSettleReply::Stale { .. } => Ok(done.reply),
        }
    }
}
