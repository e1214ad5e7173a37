//! Locks in Redis: one atomic script per request, all keys in one slot.

use std::time::Duration;

use async_trait::async_trait;

use super::scripts::locks::{self, ACQUIRE, BEAT, CANCEL, CONFIRM, EXTEND, INSPECT, LockKeys, NAMES, RELEASE, UNLOCK};
use super::scripts::{Fields, Script};
use super::{Done, RedisStore};
use crate::base::Subscription;
use crate::protocol::{
    AcquireReply, AcquireRequest, CancelRequest, ExtendReply, ExtendRequest, LockInsight, LockName, LockReleaseReply,
    LockReleaseRequest, SessionId, UnlockReply, UnlockRequest,
};
use crate::store::{LockStore, StoreError, WakeNews};

/// How many keys of the database one look for names passes, whosever they are: a part of a millisecond of Redis's.
const SCANNED: usize = 500;

impl RedisStore {
    /// Runs a script of locks and reads its answer. Nothing is executed after the deadline.
    async fn run_lock<R>(
        &self,
        script: &Script,
        names: &[LockName],
        args: &[String],
        read: fn(Fields) -> Result<R, StoreError>,
    ) -> Result<Done<R>, StoreError> {
        let keys = LockKeys::new(&self.settings.namespace);
        let call = |latest| keys.call(script, names, args, Some(latest));
        self.run_in_time(&self.lock_clock, keys.slot(), call, read).await
    }

    /// The answer to a request for a lock, once it counts.
    async fn counting(&self, guard: Option<Duration>, done: Done<AcquireReply>) -> Result<AcquireReply, StoreError> {
        match done.reply {
            AcquireReply::Granted(_) => {
                let confirm = LockKeys::new(&self.settings.namespace).call(&CONFIRM, &[], &[], None);
                self.confirmed(confirm, guard.is_some(), done).await
            }
            AcquireReply::Held { .. } | AcquireReply::Guarded { .. } | AcquireReply::PermitsDiffer { .. } => {
                Ok(done.reply)
            }
        }
    }
}

#[async_trait]
impl LockStore for RedisStore {
    async fn acquire(&self, request: AcquireRequest) -> Result<AcquireReply, StoreError> {
        let args = locks::acquire_args(&request, self.asked());
        let done = self.run_lock(&ACQUIRE, &request.names, &args, locks::acquire_reply).await?;
        self.counting(request.guard, done).await
    }

    async fn extend(&self, request: ExtendRequest) -> Result<ExtendReply, StoreError> {
        let args = locks::extend_args(&request, self.asked());
        let done = self.run_lock(&EXTEND, &request.names, &args, locks::extend_reply).await?;
        match done.reply {
            ExtendReply::Extended { .. } => self.acknowledged(done).await,
            ExtendReply::Lost => Ok(done.reply),
        }
    }

    async fn release(&self, request: LockReleaseRequest) -> Result<LockReleaseReply, StoreError> {
        let args = locks::release_args(&request);
        Ok(self.run_lock(&RELEASE, &request.names, &args, locks::release_reply).await?.reply)
    }

    async fn cancel(&self, request: CancelRequest) -> Result<(), StoreError> {
        let args = locks::cancel_args(&request);
        self.run_lock(&CANCEL, &request.names, &args, locks::cancel_reply).await.map(|_| ())
    }

    async fn beat(&self, session: SessionId) -> Result<(), StoreError> {
        self.run_lock(&BEAT, &[], &[session.to_string()], locks::beat_reply).await.map(|_| ())
    }

    async fn inspect(&self, name: LockName) -> Result<LockInsight, StoreError> {
        Ok(self.run_lock(&INSPECT, &[name], &[], locks::inspect_reply).await?.reply)
    }

    async fn unlock(&self, request: UnlockRequest) -> Result<UnlockReply, StoreError> {
        let args = [request.token.to_string()];
        Ok(self.run_lock(&UNLOCK, &[request.name], &args, locks::unlock_reply).await?.reply)
    }

    async fn names(&self, from: u64) -> Result<(Vec<LockName>, u64), StoreError> {
        let base = LockKeys::new(&self.settings.namespace).records();
        let args = [from.to_string(), SCANNED.to_string(), base];
        Ok(self.run_lock(&NAMES, &[], &args, locks::names_reply).await?.reply)
    }

    fn wakes(&self, session: SessionId) -> Subscription<WakeNews> {
        self.listeners.add(LockKeys::new(&self.settings.namespace).wakes_of(session), None)
    }
}
