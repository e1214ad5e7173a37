//! Ledgers of jobs as Lease objects: one each, `<prefix>-job.<job>`. What one step does to a ledger is decided by the
//! reference ([`LedgerCell`]); here are the requests.
//!
//! - *Every write is on the version that was read*, or makes an object that was not there. After a conflict the object
//!   is read and the step decided anew, within the command timeout. So a request that is executed after its sender gave
//!   it up does nothing once a later leader has looked: that look has changed the object.
//! - *Nothing is remembered here.* A look costs a read, and a write a read besides: some requests per run of a job.
//! - *Revisions* come from this machine's time of day by the reference's rule: they rise with every write, whatever it
//!   shows, and after somebody deleted the object they are others than before.
//! - *Wishes* are told by touching one more object, `<prefix>-jobs.wishes`, which every replica that runs jobs watches
//!   by its name: RBAC could not allow to watch just the ledgers.
//!
//! Nothing here is urgent as a renewal is, so all of it waits while the API server is to be left alone.

mod object;
mod wishes;

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use k8s_openapi::api::coordination::v1::Lease;

pub(super) use self::object::{BODY_BYTES_MAX, name, read};
pub(super) use self::wishes::{Wishes, name as wishes_name};
use super::{DECISIONS_MAX, KubernetesStore, too_often, wall};
use crate::base::Subscription;
use crate::kube::Failure;
use crate::protocol::Mono;
use crate::protocol::jobs::{JobName, LedgerCell, LedgerTerm, OpenReply, Revision, Stored, WriteReply, WriteRequest};
use crate::store::{JobNews, LedgerStore, StoreError, check_ledger_size};

/// What is to be done to an object that was read.
enum Act {
    Leave,
    Put(Box<Lease>),
    Delete,
}

impl KubernetesStore {
    /// Reads an object, and does to it what is decided on what was read; reads and decides anew after a conflict.
    async fn change<R>(
        &self,
        name: &str,
        deadline: Mono,
        decide: impl Fn(Option<&Lease>) -> Result<(Act, R), StoreError>,
    ) -> Result<R, StoreError> {
        for _ in 0..DECISIONS_MAX {
            let seen = self.api.get(name, deadline).await?;
            let (act, reply) = decide(seen.as_ref())?;
            let done = match (act, &seen) {
                (Act::Put(lease), Some(_)) => self.api.update(name, &lease, deadline).await.map(drop),
                (Act::Put(lease), None) => self.api.create(name, &lease, deadline).await.map(drop),
                (Act::Delete, Some(seen)) => self.api.delete(name, seen, deadline).await,
                (Act::Delete, None) | (Act::Leave, _) => Ok(()),
            };
            match done {
                Ok(()) => return Ok(reply),
                Err(Failure::Conflict | Failure::Missing) => {}
                Err(failure) => return Err(failure.into()),
            }
        }
        Err(too_often(name))
    }

    /// One step of a ledger.
    async fn step<R>(
        &self,
        job: &JobName,
        deadline: Mono,
        step: impl Fn(&mut LedgerCell<Bytes>) -> R,
    ) -> Result<R, StoreError> {
        self.awake()?;
        let name = name(&self.prefix, job);
        self.change(&name, deadline, |seen| {
            let before = object::cell(seen)?;
            let mut cell = before.clone();
            let reply = step(&mut cell);
            if cell == before {
                return Ok((Act::Leave, reply));
            }
            Ok((Act::Put(Box::new(object::write(seen, &name, job, &cell)?)), reply))
        })
        .await
    }

    /// Tells who watches the wishes of a job's ledger that was written.
    async fn touch(&self, job: &JobName, revision: Revision, deadline: Mono) -> Result<(), StoreError> {
        let name = wishes_name(&self.prefix);
        let told = self
            .change(&name, deadline, |seen| Ok((Act::Put(Box::new(wishes::write(seen, &name, job, revision)?)), ())));
        told.await.map_err(|error| match error {
            StoreError::Refused { reason } | StoreError::Denied { reason } => {
                StoreError::Refused { reason: format!("it is written, but the leader is not told of it: {reason}") }
            }
            error @ (StoreError::Unknown { .. } | StoreError::Unreachable { .. } | StoreError::Garbage { .. }) => error,
        })
    }

    /// Whether the API server is to be left alone.
    fn awake(&self) -> Result<(), StoreError> {
        self.api.resting().map_or(Ok(()), |(_, error)| Err(error))
    }
}

#[async_trait]
impl LedgerStore for KubernetesStore {
    fn ledger_bytes_max(&self) -> usize {
        BODY_BYTES_MAX
    }

    async fn open(&self, job: &JobName, term: &LedgerTerm) -> Result<OpenReply<Bytes>, StoreError> {
        self.step(job, self.api.deadline(), |cell| cell.open(term)).await
    }

    async fn write(&self, job: &JobName, request: WriteRequest<Bytes>) -> Result<WriteReply<Bytes>, StoreError> {
        check_ledger_size(&request.body, self.ledger_bytes_max())?;
        object::text(&request.body)?;
        let deadline = self.api.deadline();
        let reply = self.step(job, deadline, |cell| cell.write(request.clone(), wall())).await?;
        if let (None, WriteReply::Written { revision }) = (&request.term, &reply) {
            self.touch(job, *revision, deadline).await?;
        }
        Ok(reply)
    }

    async fn read(&self, job: &JobName) -> Result<Option<Stored<Bytes>>, StoreError> {
        self.step(job, self.api.deadline(), |cell| cell.read()).await
    }

    async fn forget(&self, job: &JobName) -> Result<bool, StoreError> {
        self.change(&name(&self.prefix, job), self.api.deadline(), |seen| {
            Ok((Act::Delete, object::cell(seen)?.read().is_some()))
        })
        .await
    }

    fn changes(&self) -> Subscription<JobNews> {
        let (listener, first) = self.wishes.listen();
        if first {
            self.watch(Arc::clone(&self.wishes), "wishes");
        }
        listener
    }
}
