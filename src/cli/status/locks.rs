//! Locks of a running sidecar, as rows.

use hyper::StatusCode;
use serde::Deserialize;

use super::roles::{or_dash, seconds};
use crate::cli::client::{Api, ClientError, Reply};

/// `GET /locks`, as far as it is shown.
#[derive(Debug, Deserialize)]
struct LocksAnswer {
    locks: Vec<LockAnswer>,
    more: usize,
}

#[derive(Debug, Deserialize)]
pub(in crate::cli) struct LockAnswer {
    name: String,
    holders: Vec<HolderAnswer>,
    waiting: u32,
}

#[derive(Debug, Deserialize)]
struct HolderAnswer {
    owner: Option<String>,
    identity: String,
    token: u64,
    ends_in_ms: u64,
}

/// Asks. None where there can be none: the store has no locks.
pub(super) async fn ask(api: &Api) -> Result<Option<Reply>, ClientError> {
    let reply = api.get("/locks").await?;
    match reply.status {
        StatusCode::OK => Ok(Some(reply)),
        StatusCode::NOT_IMPLEMENTED => Ok(None),
        status => Err(api.foreign(format!("GET /locks is answered with {status}"))),
    }
}

/// The table; no row without locks.
pub(super) fn rows(reply: &Reply) -> Result<Vec<Vec<String>>, ClientError> {
    let LocksAnswer { locks, more } = reply.json()?;
    if locks.is_empty() {
        return Ok(Vec::new());
    }
    let mut rows = table(&locks);
    if more > 0 {
        rows.push(vec![format!("({more} more)")]);
    }
    Ok(rows)
}

/// A row for each, below their header. A lock that several share has a row for each of them.
pub(in crate::cli) fn table(locks: &[LockAnswer]) -> Vec<Vec<String>> {
    let mut rows = vec![["LOCK", "OWNER", "REPLICA", "TOKEN", "TIME LEFT", "WAITING"].map(str::to_owned).to_vec()];
    for lock in locks {
        let waiting = lock.waiting.to_string();
        if lock.holders.is_empty() {
            let none = || "-".to_owned();
            rows.push(vec![lock.name.clone(), none(), none(), none(), none(), waiting.clone()]);
        }
        rows.extend(lock.holders.iter().map(|holder| {
            vec![
                lock.name.clone(),
                or_dash(holder.owner.as_deref()),
                holder.identity.clone(),
                holder.token.to_string(),
                seconds(holder.ends_in_ms),
                waiting.clone(),
            ]
        }));
    }
    rows
}
