//! Requests to a store as tests make them, of sessions that are numbers.

use std::sync::Arc;
use std::time::Duration;

use baton::protocol::{
    Attempt, CampaignRequest, Candidate, KnownRecord, RecordVersion, ReleaseRequest, RenewRequest, SessionId, Token,
};

/// Long enough that no test waits for it by accident.
pub const LEASE: Duration = Duration::from_secs(60);

/// Milliseconds.
pub fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// One campaign of a session.
pub fn candidate(session: u128, attempt: u64) -> Candidate {
    Candidate { session: SessionId::from_u128(session), attempt: Attempt(attempt) }
}

/// A campaign of a session that knows nothing and has seen no token.
pub fn ask(session: u128, attempt: u64) -> CampaignRequest {
    CampaignRequest {
        candidate: candidate(session, attempt),
        identity: Arc::from(format!("web-{session}")),
        lease_duration: LEASE,
        floor: Token::NONE,
        knowledge: None,
        released: None,
        guard: true,
    }
}

/// The same, without R5: the quickest way to a term.
pub fn unguarded(session: u128, attempt: u64) -> CampaignRequest {
    CampaignRequest { guard: false, ..ask(session, attempt) }
}

/// What a candidate knows that heard of this version a while ago.
pub fn knows(version: RecordVersion, age: Duration) -> Option<KnownRecord> {
    Some(KnownRecord { version, age, unchanged_for: age, remaining: Duration::ZERO })
}

/// The version of a record that this session has just written.
pub fn version_of(writer: u128, (token, count): (Token, u64)) -> RecordVersion {
    RecordVersion { token, count, writer: Some(SessionId::from_u128(writer)) }
}

/// What a candidate knows that has watched a lease of this length run out.
pub fn knows_for(known: RecordVersion, lease: Duration) -> Option<KnownRecord> {
    knows(known, lease).map(|known| KnownRecord { age: Duration::ZERO, ..known })
}

/// What a candidate knows that found nothing.
pub const NOTHING: RecordVersion = RecordVersion { token: Token::NONE, count: 0, writer: None };

/// A renewal by the incumbent that won with this attempt.
pub fn renewal(session: u128, attempt: u64, token: Token) -> RenewRequest {
    RenewRequest {
        candidate: candidate(session, attempt),
        identity: Arc::from(format!("web-{session}")),
        token,
        count: 0,
        lease_duration: LEASE,
        audience: 0,
        guard: true,
    }
}

/// A release by it.
pub fn giving_back(session: u128, attempt: u64, token: Token) -> ReleaseRequest {
    ReleaseRequest { candidate: candidate(session, attempt), token, audience: 0 }
}
