//! What requests for locks are answered.

use std::time::Duration;

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{HeaderName, HeaderValue};
use serde::Serialize;

use super::super::hold::HoldState;
use super::super::operator::LockPage;
use super::super::owner;
use super::super::service::{Extended, Granted, Refusal, Used};
use crate::http::{Problem, ProblemKind, Response, json, json_line, no_content};
use crate::protocol::{LockHolder, LockInsight, LockName, Mono};

const VALID_FOR: HeaderName = HeaderName::from_static("baton-valid-for-ms");
/// How soon to ask again when nothing better is known.
const RETRY_AFTER: Duration = Duration::from_secs(1);

fn ms(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[derive(Serialize)]
struct GrantShape {
    lock: String,
    token: u64,
    holds: u32,
    valid_for_ms: u64,
}

impl GrantShape {
    fn new(granted: &Granted, now: Mono) -> Self {
        Self {
            lock: granted.id.to_string(),
            token: granted.token.get(),
            holds: granted.holds,
            valid_for_ms: ms(granted.valid_until.since(now)),
        }
    }
}

/// 201
pub(super) fn granted(granted: &Granted, now: Mono) -> Response {
    json(StatusCode::CREATED, &GrantShape::new(granted, now))
}

/// 204 with the header that says for how long.
pub(super) fn extended(extended: Extended, now: Mono) -> Response {
    let mut response = no_content();
    let left = ms(extended.valid_until.since(now));
    response.headers_mut().insert(VALID_FOR, HeaderValue::from(left));
    response
}

/// The first line of a hold.
pub(super) fn first_line(granted: &Granted, now: Mono) -> Bytes {
    json_line(&GrantShape::new(granted, now))
}

/// A further line of a hold; none when there is nothing more to say.
pub(super) fn next_line(state: HoldState, now: Mono) -> Option<Bytes> {
    Some(match state {
        HoldState::Held { valid_until } => {
            json_line(&serde_json::json!({ "valid_for_ms": ms(valid_until.since(now)) }))
        }
        HoldState::Lost { reason } => json_line(&serde_json::json!({ "lost": reason })),
        HoldState::Ending { valid_until } => json_line(
            &serde_json::json!({ "ending": "this replica is ending", "valid_for_ms": ms(valid_until.since(now)) }),
        ),
        HoldState::Left => return None,
    })
}

#[derive(Serialize)]
struct HolderShape<'a> {
    owner: Option<&'a str>,
    identity: &'a str,
    token: u64,
    holds: u32,
    ends_in_ms: u64,
}

impl<'a> From<&'a LockHolder> for HolderShape<'a> {
    fn from(holder: &'a LockHolder) -> Self {
        Self {
            owner: owner::shown(&holder.owner),
            identity: &holder.identity,
            token: holder.token.get(),
            holds: holder.holds,
            ends_in_ms: ms(holder.remaining),
        }
    }
}

#[derive(Serialize)]
struct InsightShape<'a> {
    name: &'a str,
    holders: Vec<HolderShape<'a>>,
    permits: Option<u32>,
    waiting: u32,
}

impl<'a> InsightShape<'a> {
    fn new(name: &'a LockName, insight: &'a LockInsight) -> Self {
        Self {
            name: name.as_str(),
            holders: insight.holders.iter().map(HolderShape::from).collect(),
            permits: insight.permits,
            waiting: insight.waiting,
        }
    }
}

/// A lock as it stands.
pub(super) fn insight(name: &LockName, insight: &LockInsight) -> Response {
    json(StatusCode::OK, &InsightShape::new(name, insight))
}

#[derive(Serialize)]
struct UsedShape<'a> {
    #[serde(flatten)]
    lock: InsightShape<'a>,
    held_here: usize,
    waiting_here: usize,
}

#[derive(Serialize)]
struct ListShape<'a> {
    locks: Vec<UsedShape<'a>>,
    more: usize,
}

/// 200: the locks that are used here, out of `all`.
pub(super) fn list(seen: &[(Used, LockInsight)], all: usize) -> Response {
    let locks = seen.iter().map(|(used, insight)| UsedShape {
        lock: InsightShape::new(&used.name, insight),
        held_here: used.held,
        waiting_here: used.waiting,
    });
    json(StatusCode::OK, &ListShape { locks: locks.collect(), more: all - seen.len() })
}

#[derive(Serialize)]
struct PageShape<'a> {
    locks: Vec<InsightShape<'a>>,
    /// A text: it may be greater than what JavaScript's numbers hold.
    next: Option<String>,
}

/// 200: some of the store's locks.
pub(super) fn page(page: &LockPage) -> Response {
    let locks = page.locks.iter().map(|(name, insight)| InsightShape::new(name, insight)).collect();
    json(StatusCode::OK, &PageShape { locks, next: (page.next > 0).then(|| page.next.to_string()) })
}

#[derive(Serialize)]
struct UnlockedShape<'a> {
    name: &'a str,
    holder: Option<HolderShape<'a>>,
}

/// 200: it is free; whose it was.
pub(super) fn unlocked(name: &LockName, holder: Option<&LockHolder>) -> Response {
    json(StatusCode::OK, &UnlockedShape { name: name.as_str(), holder: holder.map(HolderShape::from) })
}

/// Why there is no lock.
pub(super) fn refused(refusal: Refusal) -> Problem {
    let detail = refusal.to_string();
    match refusal {
        Refusal::Held { holder, ahead, .. } => {
            let detail = match &holder {
                None => format!("{detail} by nobody at the moment, but others came first"),
                Some(_) if ahead > 0 => format!("{detail}, and {ahead} others wait"),
                Some(_) => detail,
            };
            let after = holder.as_ref().map_or(RETRY_AFTER, |holder| holder.remaining);
            let shape = serde_json::to_value(holder.as_ref().map(HolderShape::from)).unwrap_or_default();
            Problem::new(ProblemKind::LockHeld, detail).with("holder", shape).with_retry_after(after)
        }
        Refusal::Guarded { remaining } => Problem::new(ProblemKind::StoreGuarded, detail).with_retry_after(remaining),
        Refusal::PermitsDiffer { permits, .. } => {
            Problem::new(ProblemKind::PermitsDiffer, detail).with("permits", permits.into())
        }
        Refusal::TokenDiffers { holders, .. } => {
            let shapes: Vec<HolderShape<'_>> = holders.iter().map(HolderShape::from).collect();
            let shape = serde_json::to_value(shapes).unwrap_or_default();
            Problem::new(ProblemKind::TokenDiffers, detail).with("holders", shape)
        }
        Refusal::Lost => Problem::new(ProblemKind::LockLost, detail),
        Refusal::TooManyWaiters { .. } => {
            Problem::new(ProblemKind::TooManyWaiters, detail).with_retry_after(RETRY_AFTER)
        }
        Refusal::Store(_) | Refusal::TooLate { .. } => {
            Problem::new(ProblemKind::StoreUnavailable, detail).with_retry_after(RETRY_AFTER)
        }
        Refusal::AppFails => Problem::new(ProblemKind::AppUnhealthy, detail).with_retry_after(RETRY_AFTER),
        Refusal::ShuttingDown => Problem::new(ProblemKind::ShuttingDown, detail).with_retry_after(RETRY_AFTER),
    }
}

/// The store did not answer while a lock was given back: it is tried on, and the lease ends it at the latest.
pub(super) fn not_released(refusal: Refusal) -> Problem {
    let Refusal::Store(error) = refusal else { return refused(refusal) };
    let detail = format!("{error}; it is tried on in the background, and the lock ends by its lease at the latest");
    Problem::new(ProblemKind::StoreUnavailable, detail).with_retry_after(RETRY_AFTER)
}
