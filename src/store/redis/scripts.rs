//! The scripts, what goes into them and what comes out. The scripts say themselves what they do.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use fred::types::Value;

use crate::protocol::{
    CampaignReply, CampaignRequest, Candidate, GuardCause, Holder, ReleaseReply, ReleaseRequest, RenewReply,
    RenewRequest, RoleName, Stamped, StoreTime, Token,
};
use crate::store::{Purge, StoreError};

/// A script's text, and the hash that Redis knows it by.
pub(super) struct Script {
    pub body: &'static str,
    pub sha: LazyLock<String>,
}

macro_rules! script {
    ($file:literal) => {
        Script {
            body: concat!(include_str!("scripts/common.lua"), "\n", include_str!($file)),
            sha: LazyLock::new(|| {
                fred::util::sha1_hash(concat!(include_str!("scripts/common.lua"), "\n", include_str!($file)))
            }),
        }
    };
}

pub(super) static CAMPAIGN: Script = script!("scripts/campaign.lua");
pub(super) static RENEW: Script = script!("scripts/renew.lua");
pub(super) static CONFIRM: Script = script!("scripts/confirm.lua");
pub(super) static RELEASE: Script = script!("scripts/release.lua");
pub(super) static PURGE: Script = script!("scripts/purge.lua");

/// The keys and the channel of one role.
pub(super) struct Keys {
    pub lease: String,
    pub record: String,
    pub channel: String,
}

impl Keys {
    /// The braces make a cluster keep the keys of one role together.
    pub fn new(prefix: &str, role: &RoleName) -> Self {
        let key = |what| format!("{prefix}:{{{role}}}:{what}");
        Self { lease: key("lease"), record: key("record"), channel: key("news") }
    }

    /// The role whose channel this is.
    pub fn role_of_channel(prefix: &str, channel: &str) -> Option<RoleName> {
        let name = channel.strip_prefix(prefix)?.strip_prefix(":{")?.strip_suffix("}:news")?;
        RoleName::new(name).ok()
    }

    /// The slot of the role in a cluster.
    pub fn slot(&self) -> u16 {
        fred::util::redis_keyslot(self.lease.as_bytes())
    }
}

/// EVALSHA's or EVAL's arguments: the script, its keys, and `args` after the channel.
pub(super) fn arguments(script: &str, keys: &Keys, args: &[String]) -> Vec<Value> {
    let mut all: Vec<Value> = vec![script.into(), "2".into(), keys.lease.as_str().into(), keys.record.as_str().into()];
    all.push(keys.channel.as_str().into());
    all.extend(args.iter().map(|arg| Value::from(arg.as_str())));
    all
}

/// Whole milliseconds, rounded up: a lease may last longer than promised, not shorter.
fn ceil_ms(span: Duration) -> String {
    span.as_micros().div_ceil(1_000).to_string()
}

fn flag(on: bool) -> String {
    if on { "1".to_owned() } else { "0".to_owned() }
}

fn candidate(candidate: Candidate) -> [String; 2] {
    [candidate.session.to_string(), candidate.attempt.0.to_string()]
}

/// R5, and whether it must wait for R6.
fn guard(on: bool, acks: bool) -> String {
    if on && acks { "2".to_owned() } else { flag(on) }
}

/// `acks`: the reply counts only once replicas have acknowledged it.
pub(super) fn campaign_args(request: &CampaignRequest, acks: bool) -> Vec<String> {
    let mut args = candidate(request.candidate).to_vec();
    args.extend([request.identity.to_string(), ceil_ms(request.lease_duration), guard(request.guard, acks)]);
    args.push(request.floor.to_string());
    match request.knowledge {
        // Rounded towards caution: a younger knowledge and a longer remaining lease shut the role sooner.
        Some(known) => args.extend([
            known.token.to_string(),
            known.count.to_string(),
            known.age.as_millis().to_string(),
            ceil_ms(known.remaining),
        ]),
        None => args.extend([const { String::new() }; 4]),
    }
    args
}

/// `acks` as in [`campaign_args`].
pub(super) fn renew_args(request: &RenewRequest, acks: bool) -> Vec<String> {
    let mut args = candidate(request.candidate).to_vec();
    args.extend([request.identity.to_string(), ceil_ms(request.lease_duration), guard(request.guard, acks)]);
    args.extend([request.token.to_string(), request.count.to_string(), request.audience.to_string()]);
    args
}

pub(super) fn release_args(request: &ReleaseRequest) -> Vec<String> {
    let mut args = candidate(request.candidate).to_vec();
    args.extend([request.token.to_string(), request.audience.to_string()]);
    args
}

pub(super) fn confirm_args(lease: Duration) -> Vec<String> {
    vec![ceil_ms(lease)]
}

/// Whether a reply says that no replica has acknowledged a write of this server process yet. A holder whose identity is
/// this word is confirmed once more, which changes nothing.
pub(super) fn is_unconfirmed(reply: &Value) -> bool {
    match reply {
        Value::Array(fields) => fields.last().and_then(Value::as_str).is_some_and(|last| last == "unconfirmed"),
        _ => false,
    }
}

/// A script's answer, field by field.
struct Fields {
    name: String,
    rest: std::vec::IntoIter<String>,
    store_time: StoreTime,
}

fn misunderstood() -> StoreError {
    StoreError::Refused { reason: "it answered a script with something else: is there a proxy in between?".to_owned() }
}

impl Fields {
    fn new(reply: Value) -> Result<Self, StoreError> {
        let fields: Vec<String> = reply.convert().map_err(|_| misunderstood())?;
        let mut rest = fields.into_iter();
        let name = rest.next().ok_or_else(misunderstood)?;
        let mut fields = Self { name, rest, store_time: StoreTime::default() };
        fields.store_time = StoreTime(fields.number()?);
        match fields.name.as_str() {
            "garbage" => Err(StoreError::Garbage { key: fields.text()?, why: fields.text()? }),
            "exhausted" => Err(StoreError::Refused {
                reason: "the next token would reach 2^53: its clock is centuries ahead, or a token was".to_owned(),
            }),
            _ => Ok(fields),
        }
    }

    fn text(&mut self) -> Result<String, StoreError> {
        self.rest.next().ok_or_else(misunderstood)
    }

    fn number(&mut self) -> Result<u64, StoreError> {
        self.text()?.parse().map_err(|_| misunderstood())
    }

    fn token(&mut self) -> Result<Token, StoreError> {
        Token::new(self.number()?).ok_or_else(misunderstood)
    }

    fn holder(&mut self) -> Result<Holder, StoreError> {
        let session = self.text()?.parse().map_err(|_| misunderstood())?;
        Ok(Holder { session, identity: Arc::from(self.text()?) })
    }
}

pub(super) fn campaign_reply(reply: Value) -> Result<Stamped<CampaignReply>, StoreError> {
    let mut fields = Fields::new(reply)?;
    let (token, count) = (fields.token()?, fields.number()?);
    let reply = match fields.name.as_str() {
        "granted" => CampaignReply::Granted { token, count },
        "look" => CampaignReply::LookAgain { token, count },
        "stale" => CampaignReply::Stale { token, count },
        "held" => {
            let remaining = Duration::from_millis(fields.number()?);
            CampaignReply::Held { holder: fields.holder()?, token, remaining, count }
        }
        "guarded" => {
            let remaining = Duration::from_micros(fields.number()?);
            let cause = GuardCause::parse(&fields.text()?).ok_or_else(misunderstood)?;
            CampaignReply::Guarded { cause, remaining, token, count }
        }
        _ => return Err(misunderstood()),
    };
    Ok(Stamped { reply, store_time: fields.store_time })
}

pub(super) fn renew_reply(reply: Value) -> Result<Stamped<RenewReply>, StoreError> {
    let mut fields = Fields::new(reply)?;
    let reply = match fields.name.as_str() {
        "renewed" => RenewReply::Renewed {
            count: fields.number()?,
            reasserted: fields.number()? == 1,
            audience: u32::try_from(fields.number()?).unwrap_or(u32::MAX),
        },
        "lost" => {
            let token = fields.token()?;
            let holder = if fields.rest.len() == 0 { None } else { Some(fields.holder()?) };
            RenewReply::Lost { token, holder }
        }
        _ => return Err(misunderstood()),
    };
    Ok(Stamped { reply, store_time: fields.store_time })
}

pub(super) fn release_reply(reply: Value) -> Result<Stamped<ReleaseReply>, StoreError> {
    let fields = Fields::new(reply)?;
    let reply = match fields.name.as_str() {
        "released" => ReleaseReply::Released,
        "notheld" => ReleaseReply::NotHeld,
        _ => return Err(misunderstood()),
    };
    Ok(Stamped { reply, store_time: fields.store_time })
}

pub(super) fn purge_reply(reply: Value) -> Result<Purge, StoreError> {
    match Fields::new(reply)?.name.as_str() {
        "inuse" => Ok(Purge::InUse),
        "absent" => Ok(Purge::Absent),
        "purged" => Ok(Purge::Purged),
        _ => Err(misunderstood()),
    }
}
