//! The quorum, answer by answer: the members, the rounds that ask them, and the heard of what they publish.

mod counts;
mod heard;
mod member;
mod rounds;
mod seats;

use super::super::ids::{Attempt, SessionId, StoreTime};
use super::super::messages::{Announcement, AnnouncementKind};
use super::*;

const LEASE: Duration = Duration::from_secs(9);

fn candidate(session: u128, attempt: u64) -> Candidate {
    Candidate { session: SessionId::from_u128(session), attempt: Attempt(attempt) }
}

fn holder(session: u128) -> Holder {
    Holder { session: SessionId::from_u128(session), identity: Arc::from(format!("pod-{session}")) }
}

fn token(value: u64) -> Token {
    Token::new(value).unwrap()
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn campaign(session: u128, attempt: u64) -> CampaignRequest {
    CampaignRequest {
        candidate: candidate(session, attempt),
        identity: holder(session).identity,
        lease_duration: LEASE,
        floor: Token::NONE,
        knowledge: None,
        released: None,
        guard: true,
    }
}

fn raise(session: u128, attempt: u64, token: Token) -> RaiseRequest {
    let identity = holder(session).identity;
    RaiseRequest { candidate: candidate(session, attempt), identity, token, lease_duration: LEASE, guard: true }
}

fn renew(session: u128, attempt: u64, token: Token) -> RenewRequest {
    RenewRequest {
        candidate: candidate(session, attempt),
        identity: holder(session).identity,
        token,
        count: 0,
        lease_duration: LEASE,
        audience: 3,
        guard: true,
    }
}

fn release(session: u128, attempt: u64, token: Token) -> ReleaseRequest {
    ReleaseRequest { candidate: candidate(session, attempt), token, audience: 3 }
}
