//! The store of jobs that are made at run time, typed. What was put is kept as it was checked: JSON in the words of the
//! configuration, which is checked again whenever it is read. What leaders write of it is JSON, too, with a version in
//! front.

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::base::clock::SharedClock;
use crate::config::{RoleConfig, RuntimeJob, stored_runtime_job};
use crate::protocol::RoleName;
use crate::protocol::jobs::{
    ClaimedJob, ClaimedPlan, JobName, JobPut, JobPutReply, JobSettle, JobSettleReply, JobTake, JobTakeReply, JobWish,
    JobWishReply, Revision, RunFailure, RunRecord, RuntimeState, Settlement, StoredJob, TakeAnswer, Wall,
};
use crate::store::{RegistryStore, StoreError, timed};
use crate::telemetry::{StoreCommand, Telemetry};

/// What this release writes. It reads nothing else.
const VERSION: u32 = 1;

/// Every job of the store that was made at run time.
pub(super) struct Registry {
    store: Arc<dyn RegistryStore>,
    telemetry: Telemetry,
    clock: SharedClock,
}

impl Registry {
    /// Those in `store`; requests are timed by `clock`.
    pub(super) fn new(store: Arc<dyn RegistryStore>, telemetry: Telemetry, clock: SharedClock) -> Self {
        Self { store, telemetry, clock }
    }

    async fn timed<T>(
        &self,
        command: StoreCommand,
        request: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        timed(&self.telemetry, &self.clock, command, None, request).await
    }

    /// Makes a job, or puts it in another's place; `slot`: its first run.
    pub(super) async fn put(
        &self,
        name: &JobName,
        job: &RuntimeJob,
        slot: Wall,
        overwrite: bool,
    ) -> Result<JobPutReply, StoreError> {
        let put = JobPut {
            role: job.role.clone(),
            slot,
            suspended: job.policy.suspend,
            spec: Bytes::from(job.text.clone()),
            state: encode(&RuntimeState::default()),
            overwrite,
        };
        self.timed(StoreCommand::RegistryPut, self.store.put(name, put)).await
    }

    /// A job as it stands.
    pub(super) async fn get(&self, name: &JobName) -> Result<Option<StoredJob<Bytes>>, StoreError> {
        self.timed(StoreCommand::RegistryGet, self.store.get(name)).await
    }

    /// See [`RegistryStore::list`].
    pub(super) async fn list(
        &self,
        after: Option<&JobName>,
        most: usize,
    ) -> Result<Vec<(JobName, StoredJob<Bytes>)>, StoreError> {
        self.timed(StoreCommand::RegistryList, self.store.list(after, most)).await
    }

    /// Removes a job; whether there was one.
    pub(super) async fn delete(&self, name: &JobName) -> Result<bool, StoreError> {
        self.timed(StoreCommand::RegistryDelete, self.store.delete(name)).await
    }

    /// Does what somebody wishes who knows this version.
    pub(super) async fn wish(
        &self,
        name: &JobName,
        revision: Revision,
        wish: JobWish,
    ) -> Result<JobWishReply, StoreError> {
        self.timed(StoreCommand::RegistryWish, self.store.wish(name, revision, wish)).await
    }

    /// Takes what is due. `reads`: what becomes of each job that was taken.
    pub(super) async fn take<W>(
        &self,
        take: JobTake,
        reads: impl Fn(&JobName, &StoredJob<Bytes>) -> ClaimedPlan<W>,
    ) -> Result<TakeAnswer<W>, StoreError> {
        Ok(match self.timed(StoreCommand::RegistryTake, self.store.take(take)).await? {
            JobTakeReply::Stale { fence } => TakeAnswer::Stale { fence },
            JobTakeReply::Taken { jobs, next, held } => {
                let read = |(name, job): (JobName, StoredJob<Bytes>)| {
                    let plan = reads(&name, &job);
                    ClaimedJob::of(name, &job, plan)
                };
                TakeAnswer::Taken { jobs: jobs.into_iter().map(read).collect(), next, held }
            }
        })
    }

    /// Ends an attempt.
    pub(super) async fn settle(
        &self,
        name: &JobName,
        settle: JobSettle<RuntimeState>,
    ) -> Result<JobSettleReply, StoreError> {
        let JobSettle { token, revision, ticket, then } = settle;
        let then = match then {
            Settlement::Remove => Settlement::Remove,
            Settlement::Again { slot, due, attempt, state } => {
                Settlement::Again { slot, due, attempt, state: state.as_ref().map(encode) }
            }
        };
        let settle = JobSettle { token, revision, ticket, then };
        self.timed(StoreCommand::RegistrySettle, self.store.settle(name, settle)).await
    }
}

/// What was put, read again. None when a later release wrote it, or it is none of ours.
pub(super) fn spec_of(job: &StoredJob<Bytes>, roles: &[RoleConfig]) -> Option<RuntimeJob> {
    stored_runtime_job(&job.spec, roles).ok().filter(|spec| spec.role == job.role)
}

/// What is needed of a role to read the jobs of it.
pub(super) fn only(roles: &[RoleConfig], role: &RoleName) -> Vec<RoleConfig> {
    roles.iter().filter(|known| known.name == *role).cloned().collect()
}

pub(super) fn encode(state: &RuntimeState) -> Bytes {
    let RuntimeState { runs, began, last } = state;
    let last = last.as_ref().map(|last| RecordShape {
        slot: last.slot,
        attempts: last.attempts,
        ended: last.ended,
        failure: last.failure,
        note: last.note.clone(),
    });
    let shape = StateShape { v: VERSION, runs: *runs, began: *began, last };
    // Strings and numbers: writing them into memory does not fail.
    serde_json::to_vec(&shape).unwrap_or_default().into()
}

/// What leaders have written. None when a later release did, or nobody of ours.
pub(super) fn state_of(job: &StoredJob<Bytes>) -> Option<RuntimeState> {
    let StateShape { v, runs, began, last } = serde_json::from_slice(&job.state).ok()?;
    let last = last.map(|RecordShape { slot, attempts, ended, failure, note }| RunRecord {
        slot,
        attempts,
        ended,
        failure,
        note,
    });
    (v == VERSION).then_some(RuntimeState { runs, began, last })
}

#[derive(Serialize, Deserialize)]
struct StateShape {
    v: u32,
    runs: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    began: Option<Wall>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last: Option<RecordShape>,
}

#[derive(Serialize, Deserialize)]
struct RecordShape {
    slot: Wall,
    attempts: u32,
    ended: Wall,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failure: Option<RunFailure>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    note: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Token;

    #[test]
    fn what_leaders_write_is_read_again_and_what_others_write_is_not() {
        let at = Wall::from_millis;
        let failure = Some(RunFailure::BackoffLimitExceeded);
        let last = Some(RunRecord { slot: at(5), attempts: 2, ended: at(7), failure, note: "no disk".to_owned() });
        for state in [RuntimeState::default(), RuntimeState { runs: 3, began: Some(at(9)), last }] {
            let mut job = StoredJob {
                role: RoleName::new("scheduler").unwrap(),
                revision: Revision::new(1).unwrap(),
                slot: at(5),
                due: at(5),
                attempt: 0,
                ticket: Token::NONE,
                suspended: false,
                taken: false,
                interrupted: false,
                spec: Bytes::new(),
                state: encode(&state),
            };
            assert_eq!(state_of(&job), Some(state));
            for other in ["", "{}", r#"{"v":2,"runs":1}"#] {
                job.state = Bytes::from_static(other.as_bytes());
                assert_eq!(state_of(&job), None, "{other}");
            }
        }
    }
}
