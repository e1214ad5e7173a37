//! Who takes part in a role that is split over shards, or led by who is preferred: the key, what goes into the script
//! and what comes out.

use fred::types::Value;

use super::{Call, Fields, Script, misunderstood, script};
use crate::protocol::{Participant, Portion, PresenceRequest, RoleName, ShardSet};
use crate::store::StoreError;

pub static PRESENCE: Script = script!("presence.lua");

/// The whole key goes this many spans after the last sign of anybody.
const TTL_SPANS: u128 = 4;

/// The key of this role. In a cluster it is where its own role's keys would be; each shard has keys, and a slot, of its
/// own.
pub fn key(prefix: &str, role: &RoleName) -> String {
    format!("{prefix}:{{{}}}:presence", role.role())
}

/// The script with its arguments.
pub fn call(prefix: &str, role: &RoleName, request: &PresenceRequest) -> Call<'static> {
    let key = key(prefix, role);
    let span = request.portion.map_or_else(String::new, |_| request.span.as_micros().to_string());
    let Portion { leads, shuns, rank } = request.portion.unwrap_or_default();
    let rank = rank.map_or_else(String::new, |rank| rank.to_string());
    let ttl_ms = (request.span.as_millis() * TTL_SPANS).max(1).to_string();
    Call {
        script: &PRESENCE,
        slot: fred::util::redis_keyslot(key.as_bytes()),
        keys: vec![key],
        args: vec![request.session.to_string(), span, leads.to_string(), shuns.to_string(), ttl_ms, rank],
        last: None,
    }
}

fn shards(fields: &mut Fields) -> Result<ShardSet, StoreError> {
    fields.text()?.parse().map_err(|_| misunderstood())
}

/// Those that take part, in the order of their sessions; the script's own order is none.
pub fn reply(reply: Value) -> Result<Vec<Participant>, StoreError> {
    let mut fields = Fields::new(reply)?;
    if fields.name != "present" {
        return Err(misunderstood());
    }
    let mut members = Vec::new();
    while fields.rest.len() > 0 {
        let session = fields.text()?.parse().map_err(|_| misunderstood())?;
        let (leads, shuns) = (shards(&mut fields)?, shards(&mut fields)?);
        let rank = match fields.text()?.as_str() {
            "" => None,
            rank => Some(rank.parse().map_err(|_| misunderstood())?),
        };
        let portion = Portion { leads, shuns, rank };
        members.push(Participant { session, portion });
    }
    members.sort_by_key(|member| member.session);
    Ok(members)
}
