//! The keys of jobs that are made at run time, what goes into their scripts and what comes out. The scripts say
//! themselves what they do.

use bytes::{BufMut, Bytes, BytesMut};

use super::{Call, Fields, Last, Script, flag, misunderstood, script};
use crate::protocol::StoreTime;
use crate::protocol::jobs::{
    JobName, JobPut, JobPutReply, JobSettle, JobSettleReply, JobTake, JobTakeReply, JobWish, JobWishReply, Revision,
    Settlement, StoredJob, Wall,
};
use crate::store::StoreError;
use crate::store::redis::namespace::Namespace;

pub static PUT: Script = script!("registry_common.lua", "registry_put.lua");
pub static GET: Script = script!("registry_common.lua", "registry_get.lua");
pub static LIST: Script = script!("registry_common.lua", "registry_list.lua");
pub static DELETE: Script = script!("registry_common.lua", "registry_delete.lua");
pub static WISH: Script = script!("registry_common.lua", "registry_wish.lua");
pub static TAKE: Script = script!("registry_common.lua", "registry_take.lua");
pub static SETTLE: Script = script!("registry_common.lua", "registry_settle.lua");

/// The keys of all of them: in the slot of the ledgers, whose connection they share.
pub struct RegistryKeys<'a> {
    namespace: &'a Namespace,
    base: String,
}

impl<'a> RegistryKeys<'a> {
    pub fn new(namespace: &'a Namespace) -> Self {
        Self { base: format!("{}:{{jobs}}:", namespace.prefix), namespace }
    }

    /// A script that shall be executed no later than `latest`.
    pub fn call<'s>(&self, script: &'s Script, request: &RegistryRequest, latest: StoreTime) -> Call<'s> {
        let channel = self.namespace.channel(format!("{}wishes", self.base));
        let mut args = vec![latest.0.to_string(), self.base.clone(), channel];
        args.extend_from_slice(&request.args);
        let keys = vec![format!("{}names", self.base)];
        Call { script, slot: self.slot(), keys, args, last: request.body.clone().map(Last::Body) }
    }

    /// Where all of them are in a cluster.
    pub fn slot(&self) -> u16 {
        fred::util::redis_keyslot(self.base.as_bytes())
    }
}

/// What a script is told besides the keys and the time.
#[derive(Default)]
pub struct RegistryRequest {
    pub args: Vec<String>,
    pub body: Option<Bytes>,
}

impl RegistryRequest {
    /// A job's name, and this.
    pub fn about(name: &JobName, more: impl IntoIterator<Item = String>) -> Self {
        Self { args: std::iter::once(name.to_string()).chain(more).collect(), body: None }
    }

    pub fn put(name: &JobName, put: &JobPut<Bytes>) -> Self {
        let slot = put.slot.as_millis().to_string();
        let length = put.spec.len().to_string();
        let args = [put.role.to_string(), slot, flag(put.suspended), flag(put.overwrite), length];
        let mut body = BytesMut::with_capacity(put.spec.len() + put.state.len());
        body.put_slice(&put.spec);
        body.put_slice(&put.state);
        Self { body: Some(body.freeze()), ..Self::about(name, args) }
    }

    pub fn wish(name: &JobName, revision: Revision, wish: JobWish) -> Self {
        let (word, moment) = match wish {
            JobWish::Run { now } => ("run", now),
            JobWish::Suspend => ("suspend", Wall::default()),
            JobWish::Resume { slot } => ("resume", slot),
        };
        Self::about(name, [revision.get().to_string(), word.to_owned(), moment.as_millis().to_string()])
    }

    pub fn take(take: &JobTake) -> Self {
        let args = vec![
            take.role.to_string(),
            take.token.to_string(),
            take.request.to_string(),
            take.floor.to_string(),
            take.now.as_millis().to_string(),
            take.most.to_string(),
            flag(take.all),
        ];
        Self { args, body: None }
    }

    pub fn settle(name: &JobName, settle: &JobSettle<Bytes>) -> Self {
        let JobSettle { token, revision, ticket, then } = settle;
        let mut request = Self::about(name, [token.to_string(), revision.get().to_string(), ticket.to_string()]);
        if let Settlement::Again { slot, due, attempt, state } = then {
            let moments = [slot.as_millis().to_string(), due.as_millis().to_string(), attempt.to_string()];
            request.args.extend(moments);
            request.body.clone_from(state);
        }
        request
    }
}

fn revision(fields: &mut Fields) -> Result<Revision, StoreError> {
    Revision::new(fields.number()?).ok_or_else(misunderstood)
}

fn wall(fields: &mut Fields) -> Result<Wall, StoreError> {
    fields.number().map(Wall::from_millis)
}

/// The jobs at the end of an answer.
fn jobs(fields: &mut Fields) -> Result<Vec<(JobName, StoredJob<Bytes>)>, StoreError> {
    let mut jobs = Vec::new();
    while fields.rest.len() > 0 {
        let name = JobName::new(fields.text()?).map_err(|_| misunderstood())?;
        let job = StoredJob {
            role: fields.text()?.parse().map_err(|_| misunderstood())?,
            revision: revision(fields)?,
            slot: wall(fields)?,
            due: wall(fields)?,
            attempt: u32::try_from(fields.number()?).map_err(|_| misunderstood())?,
            ticket: fields.token()?,
            suspended: fields.number()? == 1,
            taken: fields.number()? == 1,
            interrupted: fields.number()? == 1,
            // They shall not keep the whole message that they came in.
            spec: Bytes::copy_from_slice(&fields.bytes()?),
            state: Bytes::copy_from_slice(&fields.bytes()?),
        };
        jobs.push((name, job));
    }
    Ok(jobs)
}

pub fn put_reply(mut fields: Fields) -> Result<JobPutReply, StoreError> {
    Ok(match fields.name.as_str() {
        "created" => JobPutReply::Created(revision(&mut fields)?),
        "replaced" => JobPutReply::Replaced(revision(&mut fields)?),
        "unchanged" => JobPutReply::Unchanged(revision(&mut fields)?),
        "exists" => JobPutReply::Exists(revision(&mut fields)?),
        _ => return Err(misunderstood()),
    })
}

pub fn get_reply(mut fields: Fields) -> Result<Option<StoredJob<Bytes>>, StoreError> {
    if fields.name != "job" {
        return Err(misunderstood());
    }
    Ok(jobs(&mut fields)?.pop().map(|(_, job)| job))
}

pub fn list_reply(mut fields: Fields) -> Result<Vec<(JobName, StoredJob<Bytes>)>, StoreError> {
    if fields.name == "jobs" { jobs(&mut fields) } else { Err(misunderstood()) }
}

pub fn delete_reply(fields: Fields) -> Result<bool, StoreError> {
    match fields.name.as_str() {
        "deleted" => Ok(true),
        "absent" => Ok(false),
        _ => Err(misunderstood()),
    }
}

pub fn wish_reply(mut fields: Fields) -> Result<JobWishReply, StoreError> {
    Ok(match fields.name.as_str() {
        "granted" => JobWishReply::Granted { slot: wall(&mut fields)? },
        "busy" => JobWishReply::Busy,
        "gone" => JobWishReply::Gone,
        _ => return Err(misunderstood()),
    })
}

pub fn take_reply(mut fields: Fields) -> Result<JobTakeReply<Bytes>, StoreError> {
    Ok(match fields.name.as_str() {
        "taken" => {
            let next = fields.text()?;
            let next = if next.is_empty() { None } else { Some(next.parse().map_err(|_| misunderstood())?) };
            let held = usize::try_from(fields.number()?).map_err(|_| misunderstood())?;
            JobTakeReply::Taken { next: next.map(Wall::from_millis), held, jobs: jobs(&mut fields)? }
        }
        "stale" => JobTakeReply::Stale { fence: fields.token()? },
        _ => return Err(misunderstood()),
    })
}

pub fn settle_reply(mut fields: Fields) -> Result<JobSettleReply, StoreError> {
    Ok(match fields.name.as_str() {
        "settled" => JobSettleReply::Settled,
        "gone" => JobSettleReply::Gone,
        "stale" => JobSettleReply::Stale { fence: fields.token()? },
        _ => return Err(misunderstood()),
    })
}
