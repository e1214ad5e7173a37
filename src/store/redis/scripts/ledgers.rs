//! The keys of ledgers, what goes into their scripts and what comes out. The scripts say themselves what they do.

use bytes::Bytes;

use super::{Call, Fields, Last, Script, misunderstood, script};
use crate::protocol::jobs::{JobName, LedgerTerm, OpenReply, Revision, Stored, WriteReply, WriteRequest};
use crate::protocol::{RoleName, StoreTime};
use crate::store::StoreError;
use crate::store::redis::namespace::Namespace;

pub static OPEN: Script = script!("job_common.lua", "job_open.lua");
pub static WRITE: Script = script!("job_common.lua", "job_write.lua");
pub static READ: Script = script!("job_common.lua", "job_read.lua");
pub static FORGET: Script = script!("job_common.lua", "job_forget.lua");

/// The keys of all ledgers. The braces make a cluster keep them together, so that jobs need one connection there and
/// not one each.
pub struct LedgerKeys<'a> {
    namespace: &'a Namespace,
    base: String,
}

impl<'a> LedgerKeys<'a> {
    pub fn new(namespace: &'a Namespace) -> Self {
        Self { base: format!("{}:{{jobs}}:", namespace.prefix), namespace }
    }

    /// The channel on which wishes are told. A role that is called `jobs` has another.
    pub fn wishes(&self) -> String {
        self.namespace.channel(format!("{}wishes", self.base))
    }

    /// A script on this job's ledger, which shall be executed no later than `latest`.
    pub fn call<'s>(&self, script: &'s Script, job: &JobName, request: &LedgerRequest, latest: StoreTime) -> Call<'s> {
        let mut args = vec![latest.0.to_string()];
        args.extend_from_slice(&request.args);
        let keys = vec![format!("{}ledger:{job}", self.base)];
        Call { script, slot: self.slot(), keys, args, last: request.body.clone().map(Last::Body) }
    }

    /// Where all of them are in a cluster.
    pub fn slot(&self) -> u16 {
        fred::util::redis_keyslot(self.base.as_bytes())
    }

    pub fn write_request(&self, job: &JobName, request: WriteRequest<Bytes>) -> LedgerRequest {
        let (token, role) = request.term.as_ref().map(words).unwrap_or_default();
        let base = request.base.map_or_else(String::new, |base| base.get().to_string());
        LedgerRequest { args: vec![token, role, base, self.wishes(), job.to_string()], body: Some(request.body) }
    }
}

/// What a script is told besides the ledger and the time.
#[derive(Default)]
pub struct LedgerRequest {
    pub args: Vec<String>,
    pub body: Option<Bytes>,
}

pub fn open_request(term: &LedgerTerm) -> LedgerRequest {
    let (token, role) = words(term);
    LedgerRequest { args: vec![token, role], body: None }
}

fn words(term: &LedgerTerm) -> (String, String) {
    (term.token.to_string(), term.role.to_string())
}

/// Whose ledger it is; none where an earlier release has written it.
fn owner(fields: &mut Fields) -> Result<Option<RoleName>, StoreError> {
    let role = fields.text()?;
    if role.is_empty() { Ok(None) } else { role.parse().map(Some).map_err(|_| misunderstood()) }
}

fn revision(fields: &mut Fields) -> Result<Revision, StoreError> {
    Revision::new(fields.number()?).ok_or_else(misunderstood)
}

fn stored(fields: &mut Fields) -> Result<Option<Stored<Bytes>>, StoreError> {
    if fields.rest.len() == 0 {
        return Ok(None);
    }
    Ok(Some(Stored { revision: revision(fields)?, body: fields.bytes()? }))
}

pub fn open_reply(mut fields: Fields) -> Result<OpenReply<Bytes>, StoreError> {
    Ok(match fields.name.as_str() {
        "opened" => OpenReply::Opened(stored(&mut fields)?),
        "stale" => OpenReply::Stale { fence: fields.token()? },
        "other-role" => OpenReply::OtherRole { owner: owner(&mut fields)?, stored: stored(&mut fields)? },
        _ => return Err(misunderstood()),
    })
}

pub fn write_reply(mut fields: Fields) -> Result<WriteReply<Bytes>, StoreError> {
    Ok(match fields.name.as_str() {
        "written" => WriteReply::Written { revision: revision(&mut fields)? },
        "stale" => WriteReply::Stale { fence: fields.token()? },
        "other-role" => WriteReply::OtherRole { owner: owner(&mut fields)?, stored: stored(&mut fields)? },
        "diverged" => WriteReply::Diverged(stored(&mut fields)?),
        _ => return Err(misunderstood()),
    })
}

pub fn read_reply(mut fields: Fields) -> Result<Option<Stored<Bytes>>, StoreError> {
    if fields.name == "ledger" { stored(&mut fields) } else { Err(misunderstood()) }
}

pub fn forget_reply(fields: Fields) -> Result<bool, StoreError> {
    match fields.name.as_str() {
        "forgotten" => Ok(true),
        "absent" => Ok(false),
        _ => Err(misunderstood()),
    }
}
