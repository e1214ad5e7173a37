//! The scripts, what goes into them and what comes out. The scripts say themselves what they do.

pub mod ledgers;
pub mod locks;
pub mod presence;
pub mod registry;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use fred::bytes_utils::Str;
use fred::types::Value;

use super::messages;
use super::namespace::Namespace;
use crate::protocol::{
    CampaignReply, CampaignRequest, Candidate, GuardCause, Holder, LastTerm, MemberCampaignReply, MemberReply,
    RaiseReply, RaiseRequest, RecordVersion, ReleaseReply, ReleaseRequest, RenewReply, RenewRequest, RoleName,
    SessionId, Stamped, StoreTime, Token,
};
use crate::store::{Purge, StoreError};

/// A script: the files that it is made of, in this order. Its text is put together when it is first needed, so that
/// what scripts share is in the program once.
pub(super) struct Script {
    parts: &'static [&'static str],
    made: OnceLock<(Str, Str)>,
    /// The same for servers whose scripts may not ask for INFO.
    told: OnceLock<(Str, Str)>,
}

/// Of which generation the server is, as a script asks, and as it is told.
const ASKED: &str = include_str!("generation.lua");
const TOLD: &str = include_str!("generation_told.lua");

impl Script {
    pub const fn of(parts: &'static [&'static str]) -> Self {
        Self { parts, made: OnceLock::new(), told: OnceLock::new() }
    }

    /// Whether it wants to know of which generation the server is.
    pub fn asks(&self) -> bool {
        self.parts.contains(&ASKED)
    }

    /// The text that Redis is given, and the hash that it knows it by.
    pub fn text(&self) -> &(Str, Str) {
        self.made.get_or_init(|| made_of(self.parts))
    }

    /// The same, told of the generation instead of asking for it.
    pub fn told_text(&self) -> &(Str, Str) {
        self.told.get_or_init(|| {
            let parts: Vec<&str> = self.parts.iter().map(|part| if *part == ASKED { TOLD } else { part }).collect();
            made_of(&parts)
        })
    }
}

fn made_of(parts: &[&str]) -> (Str, Str) {
    let text = without_comments(parts);
    let sha = fred::util::sha1_hash(&text);
    (text.into(), sha.into())
}

/// The lines of code, not indented: half of the files is comments, for whoever reads them.
fn without_comments(parts: &[&str]) -> String {
    let mut text = String::new();
    for line in parts.iter().flat_map(|part| part.lines()).map(str::trim) {
        if !line.is_empty() && !line.starts_with("--") {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

/// A script of this folder, after what it shares with others; the order is theirs.
macro_rules! script {
    ($($file:literal),+) => {
        $crate::store::redis::scripts::Script::of(&[$(include_str!($file)),+])
    };
}
pub(super) use script;

/// A script about a role, after the layout of its keys and what all of these have in common.
macro_rules! of_role {
    ($layout:literal, $file:literal) => {
        script!($layout, "generation.lua", "common.lua", $file)
    };
    // What mostly suffices comes first: it does without what the others have in common.
    ($first:literal, $layout:literal, $file:literal) => {
        script!($first, $layout, "generation.lua", "common.lua", $file)
    };
}

pub(super) static CAMPAIGN: Script =
    script!("generation.lua", "campaign_held.lua", "single.lua", "common.lua", "campaign.lua");
pub(super) static RENEW: Script = of_role!("renew_again.lua", "single.lua", "renew.lua");
pub(super) static CONFIRM: Script = of_role!("single.lua", "confirm.lua");
pub(super) static RELEASE: Script = of_role!("single.lua", "release.lua");
pub(super) static PURGE: Script = of_role!("single.lua", "purge.lua");

pub(super) static MEMBER_CAMPAIGN: Script = of_role!("member.lua", "member_campaign.lua");
pub(super) static MEMBER_RAISE: Script = of_role!("member.lua", "member_raise.lua");
pub(super) static MEMBER_RENEW: Script = of_role!("member_renew_again.lua", "member.lua", "member_renew.lua");
pub(super) static MEMBER_RELEASE: Script = of_role!("member.lua", "member_release.lua");
pub(super) static MEMBER_PURGE: Script = of_role!("member.lua", "purge.lua");

/// The keys and the channel of one role.
pub(super) struct Keys {
    pub lease: String,
    pub record: String,
    pub channel: String,
}

impl Keys {
    /// The braces make a cluster keep the keys of one role together.
    pub fn new(namespace: &Namespace, role: &RoleName) -> Self {
        Self::of(namespace, role.as_str())
    }

    /// The same for whatever has a name.
    pub fn of(namespace: &Namespace, name: &str) -> Self {
        let key = |what| namespace.key(name, what);
        Self { lease: key("lease"), record: key("record"), channel: news(namespace, name) }
    }

    /// A script with this role's keys; its channel is the first of the arguments.
    pub fn call<'a>(&self, script: &'a Script, args: Vec<String>) -> Call<'a> {
        let Self { lease, record, channel } = self;
        Self { lease: lease.clone(), record: record.clone(), channel: channel.clone() }.into_call(script, args)
    }

    /// The same with keys that nobody else needs.
    pub fn into_call(self, script: &Script, mut args: Vec<String>) -> Call<'_> {
        let slot = self.slot();
        args.insert(0, self.channel);
        Call { script, keys: vec![self.lease, self.record], slot, args, last: None }
    }

    /// The slot of the role in a cluster.
    pub fn slot(&self) -> u16 {
        fred::util::redis_keyslot(self.lease.as_bytes())
    }
}

/// The channel of what has this name.
pub(super) fn news(namespace: &Namespace, name: &str) -> String {
    namespace.channel(namespace.key(name, "news"))
}

/// A script with everything that it needs.
pub(super) struct Call<'a> {
    pub script: &'a Script,
    pub keys: Vec<String>,
    /// Where the keys are in a cluster.
    pub slot: u16,
    pub args: Vec<String>,
    pub last: Option<Last>,
}

/// A last argument.
#[derive(Clone)]
pub(super) enum Last {
    /// It need not be text.
    Body(Bytes),
    /// The generation of the server, as the connection was told that it is sent on.
    Generation,
}

impl Call<'_> {
    /// EVALSHA's or EVAL's arguments: the script, its keys and its arguments. `generation`: what a renewal is told of
    /// the server. `evidence`: what a script is that may not ask.
    pub fn arguments(&self, script: &Str, generation: Option<Bytes>, evidence: Option<String>) -> Vec<Value> {
        // All words in one piece of memory, of which each is a part: the client shares every one of them with its queue
        // of what is to be sent, and it would take three pieces for each otherwise.
        let words = || self.keys.iter().chain(&self.args).map(String::as_bytes);
        let count = self.keys.len().to_string();
        let mut text = Vec::with_capacity(count.len() + words().map(<[u8]>::len).sum::<usize>());
        text.extend_from_slice(count.as_bytes());
        words().for_each(|word| text.extend_from_slice(word));
        let mut text = Bytes::from(text);
        let mut all = Vec::with_capacity(self.keys.len() + self.args.len() + 4);
        // A text of many kilobytes is not copied for each of its calls.
        all.push(Value::String(script.clone()));
        all.push(Value::Bytes(text.split_to(count.len())));
        all.extend(words().map(|word| Value::Bytes(text.split_to(word.len()))));
        all.extend(self.last.clone().map(|last| match last {
            Last::Body(body) => body.into(),
            Last::Generation => generation.unwrap_or(UNTOLD).into(),
        }));
        all.extend(evidence.map(Value::from));
        all
    }
}

/// No server's generation.
const UNTOLD: Bytes = Bytes::from_static(b"?");

/// Whole milliseconds, rounded up: a lease may last longer than promised, not shorter.
fn ceil_ms(span: Duration) -> String {
    span.as_micros().div_ceil(1_000).to_string()
}

/// The same in microseconds.
fn ceil_us(span: Duration) -> u64 {
    u64::try_from(span.as_micros().div_ceil(1_000) * 1_000).unwrap_or(u64::MAX)
}

pub(super) fn flag(on: bool) -> String {
    if on { "1".to_owned() } else { "0".to_owned() }
}

/// The first two arguments of every request, and room for the others: none has more than these and the channel.
fn room_for(candidate: Candidate) -> Vec<String> {
    let mut args = Vec::with_capacity(13);
    args.extend([candidate.session.to_string(), candidate.attempt.0.to_string()]);
    args
}

/// What a script asks of its server (R5 *generation*), in the words of generation.lua.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// Which history it serves.
    Replication,
    /// That, and who has synchronised with it: replies count once replicas have acknowledged them (R6).
    Synchronisations,
    /// Nothing: all servers are one.
    Nothing,
}

impl Asked {
    pub const fn word(self) -> &'static str {
        match self {
            Self::Replication => "1",
            Self::Synchronisations => "2",
            Self::Nothing => "3",
        }
    }
}

/// R5, and what it asks of the server.
fn guard(on: bool, asked: Asked) -> String {
    if on { asked.word().to_owned() } else { flag(false) }
}

pub(super) fn campaign_args(request: &CampaignRequest, asked: Asked) -> Vec<String> {
    let mut args = room_for(request.candidate);
    args.extend([request.identity.to_string(), ceil_ms(request.lease_duration), guard(request.guard, asked)]);
    args.push(request.floor.to_string());
    match request.knowledge {
        // Rounded towards caution: a younger knowledge and a longer remaining lease shut the role sooner.
        Some(known) => args.extend([
            known.version.token.to_string(),
            known.version.count.to_string(),
            known.version.writer.map_or_else(String::new, |writer| writer.to_string()),
            known.age.as_millis().to_string(),
            known.unchanged_for.as_millis().to_string(),
            ceil_ms(known.remaining),
        ]),
        None => args.extend([const { String::new() }; 6]),
    }
    args
}

/// What a member of a quorum is asked with: the same without the knowledge, and with the term that is known to be over.
/// Members have no replicas.
pub(super) fn member_campaign_args(request: &CampaignRequest) -> Vec<String> {
    let mut args = room_for(request.candidate);
    args.extend([request.identity.to_string(), ceil_ms(request.lease_duration), flag(request.guard)]);
    args.push(request.floor.to_string());
    args.extend(match request.released {
        Some((session, token)) => [session.to_string(), token.to_string()],
        None => [const { String::new() }; 2],
    });
    args
}

pub(super) fn raise_args(request: &RaiseRequest) -> Vec<String> {
    let mut args = room_for(request.candidate);
    args.extend([request.identity.to_string(), ceil_ms(request.lease_duration), flag(request.guard)]);
    args.push(request.token.to_string());
    args
}

/// A renewal. With acknowledgements the server is asked of which generation it is each time, for any replica that has
/// come makes it another. `lists`: on a member of a quorum only.
pub(super) fn renewal<'a>(
    script: &'a Script,
    keys: Keys,
    request: &RenewRequest,
    asked: Asked,
    lists: Option<&str>,
) -> Call<'a> {
    let mut args = room_for(request.candidate);
    args.extend([ceil_ms(request.lease_duration), request.token.to_string(), request.count.to_string()]);
    args.extend([(request.count + 1).to_string(), messages::heartbeat(request), guard(request.guard, asked)]);
    args.extend(lists.map(str::to_owned));
    let last = if request.guard && asked == Asked::Synchronisations { Last::Body(UNTOLD) } else { Last::Generation };
    Call { last: Some(last), ..keys.into_call(script, args) }
}

pub(super) fn release_args(request: &ReleaseRequest) -> Vec<String> {
    let mut args = room_for(request.candidate);
    args.extend([request.token.to_string(), request.audience.to_string()]);
    args
}

/// The answer of confirm.lua and lock_confirm.lua.
pub(super) fn confirm_reply(reply: Value) -> Result<bool, StoreError> {
    let fields = Fields::new(reply)?;
    match fields.name.as_str() {
        "confirmed" => Ok(true),
        "changed" => Ok(false),
        _ => Err(misunderstood()),
    }
}

/// A script's answer, field by field.
pub(super) struct Fields {
    pub name: String,
    pub rest: std::vec::IntoIter<Value>,
    pub store_time: StoreTime,
}

pub(super) fn misunderstood() -> StoreError {
    StoreError::Refused { reason: "it answered a script with something else: is there a proxy in between?".to_owned() }
}

impl Fields {
    pub fn new(reply: Value) -> Result<Self, StoreError> {
        let Value::Array(fields) = reply else { return Err(misunderstood()) };
        let (name, store_time) = (String::new(), StoreTime::default());
        let mut fields = Self { name, rest: fields.into_iter(), store_time };
        fields.name = fields.text()?;
        fields.store_time = StoreTime(fields.number()?);
        match fields.name.as_str() {
            "garbage" => Err(StoreError::Garbage { key: fields.text()?, why: fields.text()? }),
            "foreign" => {
                let (key, theirs, ours) = (fields.text()?, fields.text()?, fields.text()?);
                Err(StoreError::Refused { reason: foreign(&key, &theirs, &ours) })
            }
            "untold" => Err(StoreError::Refused { reason: untold(&fields.text()?) }),
            "exhausted" => Err(StoreError::Refused {
                reason: "the next token would reach 2^53: its clock is centuries ahead, or a token was".to_owned(),
            }),
            _ => Ok(fields),
        }
    }

    pub fn text(&mut self) -> Result<String, StoreError> {
        self.rest.next().and_then(Value::into_string).ok_or_else(misunderstood)
    }

    pub fn bytes(&mut self) -> Result<Bytes, StoreError> {
        self.rest.next().and_then(Value::into_bytes).ok_or_else(misunderstood)
    }

    pub fn number(&mut self) -> Result<u64, StoreError> {
        self.text()?.parse().map_err(|_| misunderstood())
    }

    pub fn token(&mut self) -> Result<Token, StoreError> {
        Token::new(self.number()?).ok_or_else(misunderstood)
    }

    fn audience(&mut self) -> Result<u32, StoreError> {
        Ok(u32::try_from(self.number()?).unwrap_or(u32::MAX))
    }

    fn guard(&mut self) -> Result<(Duration, GuardCause), StoreError> {
        let remaining = Duration::from_micros(self.number()?);
        Ok((remaining, GuardCause::parse(&self.text()?).ok_or_else(misunderstood)?))
    }

    /// A session, or nothing.
    fn writer(&mut self) -> Result<Option<SessionId>, StoreError> {
        let text = self.text()?;
        if text.is_empty() { Ok(None) } else { text.parse().map(Some).map_err(|_| misunderstood()) }
    }

    fn holder(&mut self) -> Result<Holder, StoreError> {
        let session = self.text()?.parse().map_err(|_| misunderstood())?;
        Ok(Holder { session, identity: Arc::from(self.text()?) })
    }
}

/// Without it nobody would notice that leases were forgotten.
fn untold(field: &str) -> String {
    format!(
        "its INFO tells no {field}, so that a restart or a failover would go unnoticed and could make two leaders \
         (R5): use a server that tells it, or set `guard: heard` (not in a quorum) or `guard: off` and do without that \
         protection"
    )
}

/// Two stores in one Redis: neither may read the other's keys, nor overwrite them.
fn foreign(key: &str, theirs: &str, ours: &str) -> String {
    format!(
        "{key} was written by a replica whose store is {theirs}, and this one's is {ours}: they would both lead. Give \
         all replicas the same store; when no replica uses {theirs} any more, `baton purge` with the old configuration \
         removes the key, or choose another keyPrefix"
    )
}

pub(super) fn member_campaign_reply(reply: Value) -> Result<Stamped<MemberReply>, StoreError> {
    let mut fields = Fields::new(reply)?;
    let token = fields.token()?;
    let reply = match fields.name.as_str() {
        "granted" => {
            let (is_given_back, confirmed) = (fields.number()? == 1, fields.token()?);
            let last = match confirmed {
                Token::NONE => LastTerm::Unknown,
                _ if is_given_back => LastTerm::GivenBack,
                token => LastTerm::Of(token),
            };
            MemberCampaignReply::Granted { token, last }
        }
        "unlisted" => {
            let remaining = Duration::from_micros(fields.number()?);
            MemberCampaignReply::Unlisted { theirs: fields.text()?.into(), remaining, token }
        }
        "stale" => MemberCampaignReply::Stale { token },
        "held" => {
            let (remaining, confirmed) = (Duration::from_millis(fields.number()?), fields.number()? == 1);
            MemberCampaignReply::Held { holder: fields.holder()?, token, remaining, confirmed }
        }
        "guarded" => {
            let (remaining, cause) = fields.guard()?;
            MemberCampaignReply::Guarded { cause, remaining, token }
        }
        _ => return Err(misunderstood()),
    };
    Ok(Stamped { reply: MemberReply::Campaign(reply), store_time: fields.store_time })
}

pub(super) fn raise_reply(reply: Value) -> Result<Stamped<MemberReply>, StoreError> {
    let mut fields = Fields::new(reply)?;
    let reply = match fields.name.as_str() {
        "raised" => RaiseReply::Raised { count: fields.number()? },
        "gone" => RaiseReply::Gone { token: fields.token()? },
        _ => return Err(misunderstood()),
    };
    Ok(Stamped { reply: MemberReply::Raise(reply), store_time: fields.store_time })
}

pub(super) fn campaign_reply(reply: Value) -> Result<Stamped<CampaignReply>, StoreError> {
    let mut fields = Fields::new(reply)?;
    let (token, count) = (fields.token()?, fields.number()?);
    let reply = match fields.name.as_str() {
        "granted" => CampaignReply::Granted { token, count },
        "look" => {
            let version = RecordVersion { token, count, writer: fields.writer()? };
            CampaignReply::LookAgain { version, span: Duration::from_millis(fields.number()?) }
        }
        "stale" => CampaignReply::Stale { token, count },
        "held" => {
            let version = RecordVersion { token, count, writer: fields.writer()? };
            let (token, remaining) = (fields.token()?, Duration::from_millis(fields.number()?));
            CampaignReply::Held { holder: fields.holder()?, token, remaining, version }
        }
        "guarded" => {
            let version = RecordVersion { token, count, writer: fields.writer()? };
            let (remaining, cause) = fields.guard()?;
            CampaignReply::Guarded { cause, remaining, version }
        }
        _ => return Err(misunderstood()),
    };
    Ok(Stamped { reply, store_time: fields.store_time })
}

/// The answer to a renewal, and of which generation the server is, if it was asked.
pub(super) type Renewed = (Stamped<RenewReply>, Option<Bytes>);

pub(super) fn renew_reply(reply: Value, request: &RenewRequest) -> Result<Renewed, StoreError> {
    let mut fields = Fields::new(reply)?;
    let reply = match fields.name.as_str() {
        "again" => {
            fields.store_time = StoreTime(fields.store_time.0.saturating_sub(ceil_us(request.lease_duration)));
            RenewReply::Renewed { count: request.count + 1, reasserted: false, audience: fields.audience()? }
        }
        "renewed" => RenewReply::Renewed {
            count: fields.number()?,
            reasserted: fields.number()? == 1,
            audience: fields.audience()?,
        },
        "lost" => {
            let token = fields.token()?;
            let holder = if fields.rest.len() == 0 { None } else { Some(fields.holder()?) };
            RenewReply::Lost { token, holder }
        }
        _ => return Err(misunderstood()),
    };
    // It shall not keep the whole message that it came in.
    let generation = fields.rest.next().and_then(Value::into_bytes).map(|told| Bytes::copy_from_slice(&told));
    Ok((Stamped { reply, store_time: fields.store_time }, generation))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_the_code_of_its_files_in_their_order_and_nothing_else() {
        let parts: &[&str] = &["-- why\nlocal a = 1 -- one\n\n  -- in between\nif a then\n", "  a = 2\n--\nend"];
        assert_eq!(*Script::of(parts).text().0, *"local a = 1 -- one\nif a then\na = 2\nend\n");
        for script in [&CAMPAIGN, &RENEW, &CONFIRM, &RELEASE, &PURGE, &MEMBER_CAMPAIGN, &MEMBER_RAISE] {
            assert!(script.parts.iter().all(|part| !part.contains("[[")), "a text over several lines would change");
            assert_eq!(script.text().1.len(), 40);
            assert!(script.asks() && !script.told_text().0.contains("'INFO'"), "what is told asks for nothing");
        }
        assert_ne!(CAMPAIGN.text().1, RENEW.text().1);
        assert_ne!(CAMPAIGN.text().1, CAMPAIGN.told_text().1);
    }
}
