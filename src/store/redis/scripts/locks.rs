//! The keys of locks, what goes into their scripts and what comes out. The scripts say themselves what they do.

use std::sync::Arc;
use std::time::Duration;

use super::{Asked, Call, Fields, Script, flag, misunderstood, script};
use crate::protocol::{
    AcquireReply, AcquireRequest, CancelRequest, ExtendReply, ExtendRequest, LockGrant, LockHolder, LockInsight,
    LockName, LockReleaseReply, LockReleaseRequest, Queueing, Restore, SessionId, StoreTime, TurnSeat, UnlockReply,
};
use crate::store::StoreError;
use crate::store::redis::namespace::Namespace;

pub static ACQUIRE: Script =
    script!("generation.lua", "lock_head.lua", "lock_free.lua", "lock_common.lua", "lock_acquire.lua");
pub static EXTEND: Script = script!("generation.lua", "lock_head.lua", "lock_common.lua", "lock_extend.lua");
pub static CONFIRM: Script = script!("generation.lua", "lock_head.lua", "lock_common.lua", "lock_confirm.lua");
pub static RELEASE: Script =
    script!("generation.lua", "lock_head.lua", "lock_only.lua", "lock_common.lua", "lock_release.lua");
pub static CANCEL: Script = script!("generation.lua", "lock_head.lua", "lock_common.lua", "lock_cancel.lua");
pub static BEAT: Script = script!("generation.lua", "lock_head.lua", "lock_common.lua", "lock_beat.lua");
pub static UNLOCK: Script = script!("generation.lua", "lock_head.lua", "lock_common.lua", "lock_unlock.lua");
pub static INSPECT: Script = script!("generation.lua", "lock_head.lua", "lock_common.lua", "lock_inspect.lua");
pub static NAMES: Script = script!("generation.lua", "lock_head.lua", "lock_common.lua", "lock_names.lua");

/// The keys of all locks. The braces make a cluster keep them together: several names are one step.
pub struct LockKeys<'a> {
    namespace: &'a Namespace,
    base: String,
}

impl<'a> LockKeys<'a> {
    pub fn new(namespace: &'a Namespace) -> Self {
        Self { base: format!("{}:{{locks}}:", namespace.prefix), namespace }
    }

    fn key(&self, what: &str) -> String {
        format!("{}{what}", self.base)
    }

    /// The channel on which this session's waiters are woken.
    pub fn wakes_of(&self, session: SessionId) -> String {
        format!("{}{session}", self.wakes())
    }

    /// What all of these channels begin with.
    fn wakes(&self) -> String {
        format!("{}:", self.namespace.channel(self.key("wake")))
    }

    /// A script on these names. `latest`: no later than this shall it be executed.
    pub fn call<'s>(
        &self,
        script: &'s Script,
        names: &[LockName],
        args: &[String],
        latest: Option<StoreTime>,
    ) -> Call<'s> {
        let mut keys = vec![self.key("store"), self.key("sessions"), self.key("floor")];
        let of_name = |name| ["lock", "queue", "fair"].map(|what| self.key(&format!("{what}:{name}")));
        keys.extend(names.iter().flat_map(of_name));
        let mut words = vec![latest.map_or_else(String::new, |latest| latest.0.to_string()), self.wakes()];
        words.extend(names.iter().map(ToString::to_string));
        words.extend_from_slice(args);
        Call { script, slot: self.slot(), keys, args: words, last: None }
    }

    /// What the keys of records begin with, before the name.
    pub fn records(&self) -> String {
        self.key("lock:")
    }

    /// Where all of them are in a cluster.
    pub fn slot(&self) -> u16 {
        fred::util::redis_keyslot(self.base.as_bytes())
    }
}

/// Whole microseconds, rounded up: a lease may last longer than promised, not shorter.
fn ceil_us(span: Duration) -> String {
    span.as_nanos().div_ceil(1_000).to_string()
}

fn optional(span: Option<Duration>) -> String {
    span.map_or_else(String::new, ceil_us)
}

pub fn acquire_args(request: &AcquireRequest, asked: Asked) -> Vec<String> {
    let queueing = match request.queueing {
        Queueing::No => "no",
        Queueing::Plain => "plain",
        Queueing::Fair => "fair",
    };
    vec![
        request.session.to_string(),
        request.id.to_string(),
        request.owner.to_string(),
        request.identity.to_string(),
        ceil_us(request.lease),
        request.permits.to_string(),
        request.floor.to_string(),
        queueing.to_owned(),
        optional(request.guard),
        asked.word().to_owned(),
        request.beside.map_or_else(String::new, |id| id.to_string()),
        flag(request.yields),
        request.tokens.to_string(),
        ceil_us(request.at_least),
        flag(request.reminds),
    ]
}

pub fn extend_args(request: &ExtendRequest, asked: Asked) -> Vec<String> {
    let mut args = vec![request.id.to_string(), optional(request.lease), optional(request.guard)];
    args.push(asked.word().to_owned());
    args.push(request.session.to_string());
    args.extend(seat_args(request.seat.as_ref()));
    if let Some(lost) = request.restore.as_deref() {
        let Restore { owner, identity, token, last, permits, lease, at_least } = lost;
        args.extend([owner.to_string(), identity.to_string(), token.to_string(), last.to_string()]);
        args.extend([permits.to_string(), ceil_us(*lease), ceil_us(*at_least)]);
    }
    args
}

/// The seat's id and those that were served in its turn.
fn seat_args(seat: Option<&TurnSeat>) -> [String; 2] {
    let Some(TurnSeat { id, served }) = seat else { return [String::new(), String::new()] };
    let served: Vec<String> = served.iter().map(ToString::to_string).collect();
    [id.to_string(), served.join(" ")]
}

pub fn release_args(request: &LockReleaseRequest) -> Vec<String> {
    let [seat, served] = seat_args(request.seat.as_ref());
    vec![request.id.to_string(), request.session.to_string(), seat, served]
}

pub fn cancel_args(request: &CancelRequest) -> Vec<String> {
    vec![request.session.to_string(), request.id.to_string(), flag(request.keeps)]
}

fn name(fields: &mut Fields) -> Result<LockName, StoreError> {
    LockName::new(fields.text()?).map_err(|_| misunderstood())
}

fn small(fields: &mut Fields) -> Result<u32, StoreError> {
    u32::try_from(fields.number()?).map_err(|_| misunderstood())
}

fn span(fields: &mut Fields) -> Result<Duration, StoreError> {
    fields.number().map(Duration::from_micros)
}

fn holder(fields: &mut Fields) -> Result<LockHolder, StoreError> {
    Ok(LockHolder {
        owner: Arc::from(fields.text()?),
        identity: Arc::from(fields.text()?),
        token: fields.token()?,
        holds: small(fields)?,
        remaining: span(fields)?,
    })
}

pub fn acquire_reply(mut fields: Fields) -> Result<AcquireReply, StoreError> {
    Ok(match fields.name.as_str() {
        "granted" => AcquireReply::Granted(LockGrant {
            token: fields.token()?,
            holds: small(&mut fields)?,
            tokens: small(&mut fields)?,
        }),
        "held" => {
            let (name, ahead) = (name(&mut fields)?, small(&mut fields)?);
            let holder = if fields.rest.len() == 0 { None } else { Some(holder(&mut fields)?) };
            AcquireReply::Held { name, holder, ahead }
        }
        "guarded" => AcquireReply::Guarded { remaining: span(&mut fields)? },
        "differ" => AcquireReply::PermitsDiffer { name: name(&mut fields)?, permits: small(&mut fields)? },
        _ => return Err(misunderstood()),
    })
}

pub fn extend_reply(mut fields: Fields) -> Result<ExtendReply, StoreError> {
    Ok(match fields.name.as_str() {
        "extended" => ExtendReply::Extended {
            token: fields.token()?,
            holds: small(&mut fields)?,
            lease: span(&mut fields)?,
            restored: fields.number()? == 1,
        },
        "lost" => ExtendReply::Lost,
        _ => return Err(misunderstood()),
    })
}

pub fn release_reply(fields: Fields) -> Result<LockReleaseReply, StoreError> {
    Ok(match fields.name.as_str() {
        "released" => LockReleaseReply::Released,
        "notheld" => LockReleaseReply::NotHeld,
        _ => return Err(misunderstood()),
    })
}

pub fn cancel_reply(fields: Fields) -> Result<(), StoreError> {
    if fields.name == "cancelled" { Ok(()) } else { Err(misunderstood()) }
}

pub fn beat_reply(fields: Fields) -> Result<(), StoreError> {
    if fields.name == "alive" { Ok(()) } else { Err(misunderstood()) }
}

pub fn inspect_reply(mut fields: Fields) -> Result<LockInsight, StoreError> {
    if fields.name != "insight" {
        return Err(misunderstood());
    }
    let permits = fields.text()?;
    let permits = if permits.is_empty() { None } else { Some(permits.parse().map_err(|_| misunderstood())?) };
    let waiting = small(&mut fields)?;
    Ok(LockInsight { holders: holders(fields)?, permits, waiting })
}

fn holders(mut fields: Fields) -> Result<Vec<LockHolder>, StoreError> {
    let mut holders = Vec::new();
    while fields.rest.len() > 0 {
        holders.push(holder(&mut fields)?);
    }
    Ok(holders)
}

pub fn unlock_reply(fields: Fields) -> Result<UnlockReply, StoreError> {
    Ok(match fields.name.as_str() {
        "unlocked" => UnlockReply::Unlocked { holder: holders(fields)?.pop() },
        "differs" => UnlockReply::Differs { holders: holders(fields)? },
        _ => return Err(misunderstood()),
    })
}

/// The names, without keys that are not ours, and the place to go on from.
pub fn names_reply(mut fields: Fields) -> Result<(Vec<LockName>, u64), StoreError> {
    if fields.name != "names" {
        return Err(misunderstood());
    }
    let (next, mut names) = (fields.number()?, Vec::new());
    while fields.rest.len() > 0 {
        names.extend(LockName::new(fields.text()?));
    }
    Ok((names, next))
}
