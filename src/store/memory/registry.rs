//! Jobs that are made at run time, in this process: the reference itself, and who is told of them.

use async_trait::async_trait;
use bytes::Bytes;

use super::MemoryStore;
use crate::protocol::StoreTime;
use crate::protocol::jobs::{
    JobName, JobPut, JobPutReply, JobSettle, JobSettleReply, JobTake, JobTakeReply, JobWish, JobWishReply, Revision,
    StoredJob,
};
use crate::store::{RegistryStore, StoreError};

#[async_trait]
impl RegistryStore for MemoryStore {
    async fn put(&self, job: &JobName, put: JobPut<Bytes>) -> Result<JobPutReply, StoreError> {
        let now = StoreTime(self.clock.now().as_nanos() / 1_000);
        let (reply, news) = self.registry.lock().put(job, put, now)?;
        if news {
            self.tell_of_job(job);
        }
        Ok(reply)
    }

    async fn get(&self, job: &JobName) -> Result<Option<StoredJob<Bytes>>, StoreError> {
        Ok(self.registry.lock().get(job))
    }

    async fn list(&self, after: Option<&JobName>, most: usize) -> Result<Vec<(JobName, StoredJob<Bytes>)>, StoreError> {
        Ok(self.registry.lock().list(after, most))
    }

    async fn delete(&self, job: &JobName) -> Result<bool, StoreError> {
        let (deleted, news) = self.registry.lock().delete(job);
        if news {
            self.tell_of_job(job);
        }
        Ok(deleted)
    }

    async fn wish(&self, job: &JobName, revision: Revision, wish: JobWish) -> Result<JobWishReply, StoreError> {
        let reply = self.registry.lock().wish(job, revision, wish);
        if matches!(reply, JobWishReply::Granted { .. }) {
            self.tell_of_job(job);
        }
        Ok(reply)
    }

    async fn take(&self, take: JobTake) -> Result<JobTakeReply<Bytes>, StoreError> {
        Ok(self.registry.lock().take(&take))
    }

    async fn settle(&self, job: &JobName, settle: JobSettle<Bytes>) -> Result<JobSettleReply, StoreError> {
        Ok(self.registry.lock().settle(job, settle))
    }
}
