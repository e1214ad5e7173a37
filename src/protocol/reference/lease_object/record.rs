//! A Lease object as the protocol sees it: what every client of Kubernetes' leader election writes, and what Baton
//! adds.

use std::sync::Arc;
use std::time::Duration;

use super::super::super::ids::{Candidate, SessionId, StoreTime, Token};
use super::super::super::messages::{Announcement, AnnouncementKind, CampaignRequest, Holder};

/// Stands for a holder that is no Baton: no process has this session.
pub const FOREIGN: SessionId = SessionId::from_u128(0);
/// What listeners are told of how many they are. Nobody counts the watchers of an object; so many spread their
/// wake-ups over 30 ms, which lets one grant be heard before many have written.
const AUDIENCE: u32 = 100;
/// What client-go's release writes for a duration.
const RELEASED_SECONDS: u32 = 1;

/// The fields of a Lease object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseRecord {
    /// `spec.holderIdentity`; empty when nobody holds it.
    pub identity: Arc<str>,
    /// `spec.leaseDurationSeconds`: what client-go waits for.
    pub lease_seconds: Option<u32>,
    /// `spec.leaseTransitions`: how often the holder's name changed.
    pub transitions: u32,
    /// `spec.acquireTime` in µs since the Unix epoch, on some writer's clock: for people, never believed.
    pub acquired_us: Option<i64>,
    /// `spec.renewTime`, likewise. Beside [`Mark::renewed_us`] it tells whether Baton wrote last.
    pub renewed_us: Option<i64>,
    /// What Baton's annotations say; none when Baton never wrote this object.
    pub mark: Option<Mark>,
}

/// What Baton keeps in the annotations of a Lease object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Whose term it is, or was.
    pub candidate: Candidate,
    /// Its name for people. The same as the record's, unless released, or unless somebody else wrote.
    pub identity: Arc<str>,
    /// The term's token.
    pub token: Token,
    /// The greatest token that a candidate has seen and this object knew nothing of (R5 *regression*), else none.
    pub floor: Token,
    /// Grants, renewals and releases of this object.
    pub count: u64,
    /// How long the lease lasts, to the millisecond.
    pub lease_duration: Duration,
    /// The term was given back.
    pub released: bool,
    /// The record's `renewed_us` as it was written with this mark. Others keep annotations that they do not know, so
    /// a mark that does not fit its record is about an earlier term.
    pub renewed_us: i64,
}

/// Who has a record, judged without any clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tenure<'a> {
    /// It was given back, by Baton or as client-go does it.
    Released {
        /// By Baton.
        ours: bool,
    },
    /// It names nobody, and nobody gave it back: it was made in advance, or somebody has emptied it by hand.
    Vacant,
    /// A Baton has it.
    Ours(&'a Mark),
    /// Something else has it: client-go, or a person. For how long, if it says so.
    Foreign(Option<Duration>),
}

impl LeaseRecord {
    /// Who has it.
    pub fn tenure(&self) -> Tenure<'_> {
        let mark = self.mark.as_ref().filter(|mark| self.renewed_us == Some(mark.renewed_us));
        match mark {
            Some(mark) if mark.released && self.identity.is_empty() => Tenure::Released { ours: true },
            Some(mark) if !mark.released && self.identity == mark.identity => Tenure::Ours(mark),
            // Not only the name is gone, but everything is as client-go's release leaves it.
            None if self.identity.is_empty() && self.lease_seconds == Some(RELEASED_SECONDS) => {
                Tenure::Released { ours: false }
            }
            _ if self.identity.is_empty() => Tenure::Vacant,
            _ => Tenure::Foreign(self.lease_seconds.map(|seconds| Duration::from_secs(seconds.into()))),
        }
    }

    /// The last token that Baton gave out here.
    pub fn token(&self) -> Token {
        self.mark.as_ref().map_or(Token::NONE, |mark| mark.token)
    }

    /// The greatest token that this object should have known of.
    pub(super) fn floor(&self) -> Token {
        self.mark.as_ref().map_or(Token::NONE, |mark| mark.floor)
    }

    /// The same with a token noted that it should have known of; none when there is nothing to note it beside.
    pub(super) fn noting(&self, floor: Token) -> Option<Self> {
        let mark = self.mark.as_ref().filter(|mark| mark.floor < floor && mark.token < floor)?;
        Some(Self { mark: Some(Mark { floor, ..mark.clone() }), ..self.clone() })
    }

    /// The count after the last write of Baton's.
    pub fn count(&self) -> u64 {
        self.mark.as_ref().map_or(0, |mark| mark.count)
    }

    /// Who has it, for others; none when nobody does.
    pub fn holder(&self) -> Option<Holder> {
        let session = match self.tenure() {
            Tenure::Ours(mark) => mark.candidate.session,
            Tenure::Foreign(_) => FOREIGN,
            Tenure::Released { .. } | Tenure::Vacant => return None,
        };
        Some(Holder { session, identity: Arc::clone(&self.identity) })
    }

    /// A new term on top of `before`. `acquireTime` and `leaseTransitions` as client-go keeps them: a transition is
    /// another name than the last one, and a new object begins at zero.
    pub(super) fn granted(before: Option<&Self>, request: &CampaignRequest, token: Token, wall: StoreTime) -> Self {
        let now_us = micros(wall);
        let same_name = before.filter(|before| before.identity == request.identity);
        let transitions = match (before, same_name) {
            (_, Some(same)) => same.transitions,
            (Some(before), None) => before.transitions.saturating_add(1),
            (None, None) => 0,
        };
        let count = before.and_then(|before| before.mark.as_ref()).map_or(wall.0, |mark| mark.count) + 1;
        let mark = Mark {
            candidate: request.candidate,
            identity: Arc::clone(&request.identity),
            token,
            floor: Token::NONE,
            count,
            lease_duration: request.lease_duration,
            released: false,
            renewed_us: now_us,
        };
        let acquired_us = same_name.and_then(|same| same.acquired_us).or(Some(now_us));
        Self { transitions, acquired_us, ..Self::held_by(mark) }
    }

    /// The fields that follow from a mark.
    pub(super) fn held_by(mark: Mark) -> Self {
        // Rounded up: others must not take it early.
        let seconds = mark.lease_duration.as_millis().div_ceil(1_000).max(1);
        Self {
            identity: Arc::clone(&mark.identity),
            lease_seconds: Some(u32::try_from(seconds).unwrap_or(u32::MAX)),
            transitions: 0,
            acquired_us: Some(mark.renewed_us),
            renewed_us: Some(mark.renewed_us),
            mark: Some(mark),
        }
    }

    /// The same term, renewed now.
    pub(super) fn renewed(&self, mark: Mark) -> Self {
        Self { transitions: self.transitions, acquired_us: self.acquired_us, ..Self::held_by(mark) }
    }

    /// The same term given back, as client-go's release writes it; the mark keeps what it was.
    pub(super) fn released(&self, mark: &Mark, wall: StoreTime) -> Self {
        let now_us = micros(wall);
        let mark = Mark { count: mark.count + 1, released: true, renewed_us: now_us, ..mark.clone() };
        Self {
            identity: Arc::from(""),
            lease_seconds: Some(RELEASED_SECONDS),
            transitions: self.transitions,
            acquired_us: Some(now_us),
            renewed_us: Some(now_us),
            mark: Some(mark),
        }
    }
}

/// A moment as the object keeps it.
pub(super) fn micros(wall: StoreTime) -> i64 {
    i64::try_from(wall.0).unwrap_or(i64::MAX)
}

/// What a change of the record says to listeners (R8); none when there is nothing to say but "look".
pub fn news(before: Option<&LeaseRecord>, now: &LeaseRecord) -> Option<Announcement> {
    let (token, count) = (now.token(), now.count());
    let (kind, holder) = match now.tenure() {
        Tenure::Ours(mark) => {
            let same_term = before.is_some_and(|before| match before.tenure() {
                Tenure::Ours(old) => old.token == mark.token,
                Tenure::Released { .. } | Tenure::Vacant | Tenure::Foreign(_) => false,
            });
            let kind = if same_term { AnnouncementKind::Heartbeat } else { AnnouncementKind::Grant };
            (kind, Holder { session: mark.candidate.session, identity: Arc::clone(&mark.identity) })
        }
        Tenure::Foreign(_) => {
            (AnnouncementKind::Heartbeat, Holder { session: FOREIGN, identity: Arc::clone(&now.identity) })
        }
        Tenure::Released { ours } => {
            let gone = now.mark.as_ref().filter(|_| ours);
            let session = gone.map_or(FOREIGN, |mark| mark.candidate.session);
            let identity = gone.map_or_else(|| Arc::from(""), |mark| Arc::clone(&mark.identity));
            (AnnouncementKind::Release, Holder { session, identity })
        }
        Tenure::Vacant => return None,
    };
    Some(Announcement { kind, token, count, holder, audience: AUDIENCE })
}
