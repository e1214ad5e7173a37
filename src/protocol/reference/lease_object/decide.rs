//! The decisions: what a request does to what was seen (R1, R3, R4, R5, R7).

use std::time::Duration;

use super::super::super::ids::{Mono, StoreTime, Token};
use super::super::super::messages::{
    CampaignReply, CampaignRequest, GuardCause, RecordVersion, ReleaseReply, ReleaseRequest, RenewReply, RenewRequest,
};
use super::super::super::rules::Rules;
use super::super::lease::{TokensExhausted, next_token};
use super::observation::{Observation, Seen};
use super::record::{LeaseRecord, Mark, Tenure, micros};

/// What is to be done for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step<R> {
    /// Nothing; this is the answer.
    Reply(R),
    /// Write this on the version that was seen, or make the object when it was absent. Done, this is the answer; a
    /// conflict means that something was overlooked, so look and decide anew; without an answer nothing is known (R2).
    Write {
        record: LeaseRecord,
        /// The answer once it is written.
        reply: R,
    },
}

/// The moment of a decision.
#[derive(Clone, Copy)]
struct Moment {
    now: Mono,
    /// This replica's time of day: for tokens (R3) and for people.
    wall: StoreTime,
}

/// R1 with R3 and R5, on what was seen. `now` is this replica's own clock, `wall` its time of day, which only raises
/// tokens and tells people.
///
/// # Errors
/// [`TokensExhausted`] when the next token would reach 2^53.
pub fn campaign(
    observation: &Observation,
    request: &CampaignRequest,
    rules: Rules,
    (now, wall): (Mono, StoreTime),
) -> Result<Step<CampaignReply>, TokensExhausted> {
    let case = Campaign { observation, request, rules, moment: Moment { now, wall } };
    match observation.record() {
        None => case.absent(),
        Some(record) => case.present(record),
    }
}

struct Campaign<'a> {
    observation: &'a Observation,
    request: &'a CampaignRequest,
    rules: Rules,
    moment: Moment,
}

impl Campaign<'_> {
    /// What is left of `lease` until what was seen has been so for all of it; none when it has.
    fn left_of(&self, lease: Duration) -> Option<Duration> {
        let observed = match self.observation.record().and_then(|record| record.renewed_us) {
            Some(renewed_us) if !self.observation.caution().own_clock => {
                let age = micros(self.moment.wall).saturating_sub(renewed_us);
                Duration::from_micros(u64::try_from(age).unwrap_or(0))
            }
            _ => self.observation.unchanged_for(self.moment.now),
        };
        lease.checked_sub(observed).filter(|left| !left.is_zero())
    }

    /// The longest lease that may stand unseen.
    fn lease_max(&self) -> Duration {
        let lost = self.observation.lost().and_then(|record| record.mark.as_ref());
        self.request.lease_duration.max(lost.map_or(Duration::ZERO, |mark| mark.lease_duration))
    }

    fn absent(&self) -> Result<Step<CampaignReply>, TokensExhausted> {
        let careful = self.request.guard && self.observation.caution().absence;
        match self.left_of(self.lease_max()).filter(|_| careful) {
            Some(left) => Ok(self.guarded(GuardCause::Empty, left)),
            None => self.grant(None),
        }
    }

    fn present(&self, record: &LeaseRecord) -> Result<Step<CampaignReply>, TokensExhausted> {
        let me = self.request.candidate;
        let behind = self.rules.tokens && record.token() < self.request.floor.max(record.floor());
        let whole = |lease| self.left_of(lease).filter(|_| self.request.guard);
        match record.tenure() {
            Tenure::Vacant => self.vacant(record, behind),
            Tenure::Released { ours } => {
                let last = record.mark.as_ref().filter(|_| ours).map(|mark| mark.candidate);
                if last.is_some_and(|last| last.session == me.session && last.attempt >= me.attempt) {
                    return Ok(self.stale());
                }
                // A record that is older than a token which was seen: the server has forgotten what came after.
                match whole(self.request.lease_duration).filter(|_| behind) {
                    Some(left) => Ok(self.regressed(record, left)),
                    None => self.grant(Some(record)),
                }
            }
            Tenure::Ours(mark) if mark.candidate.session == me.session => {
                if mark.candidate.attempt > me.attempt {
                    return Ok(self.stale());
                }
                let doubted = self.observation.unanswered() || behind;
                match whole(mark.lease_duration).filter(|_| doubted) {
                    Some(left) => Ok(self.regressed(record, left)),
                    None if mark.candidate == me && !doubted => Ok(self.extend(record, mark)),
                    None => self.grant(Some(record)),
                }
            }
            Tenure::Ours(mark) => self.rival(record, mark.lease_duration),
            Tenure::Foreign(lease) => {
                // Whoever waits as it should writes over a term of Baton's when that is over. A person does not, and
                // may have said a shorter time than the term's holder goes on counting with.
                let ours = self.observation.mark().filter(|mark| !mark.released);
                let ours = ours.map_or(Duration::ZERO, |mark| mark.lease_duration);
                self.rival(record, lease.unwrap_or(self.request.lease_duration).max(ours))
            }
        }
    }

    /// Nobody is named. Whose name was taken away may still lead: as with absence, nobody new for a lease.
    fn vacant(&self, record: &LeaseRecord, behind: bool) -> Result<Step<CampaignReply>, TokensExhausted> {
        let mark = record.mark.as_ref();
        let mine = mark.filter(|mark| {
            mark.candidate == self.request.candidate && !mark.released && record.renewed_us == Some(mark.renewed_us)
        });
        if let Some(mine) = mine.filter(|_| !behind && !self.observation.unanswered()) {
            // The same campaign once more, after no more than the name was taken away.
            return Ok(self.extend(record, mine));
        }
        let last = self.observation.mark().map_or(Duration::ZERO, |mark| mark.lease_duration);
        let lease = self.request.lease_duration.max(last);
        match self.left_of(lease).filter(|_| self.request.guard && self.observation.caution().absence) {
            Some(left) => Ok(self.guarded(GuardCause::Vanished, left)),
            None => self.grant(Some(record)),
        }
    }

    /// Another has it, until it has been seen unchanged for its whole lease.
    fn rival(&self, record: &LeaseRecord, lease: Duration) -> Result<Step<CampaignReply>, TokensExhausted> {
        match (self.left_of(lease), record.holder()) {
            (Some(remaining), Some(holder)) => {
                let (token, writer) = (record.token(), Some(holder.session));
                let version = RecordVersion { token, count: record.count(), writer };
                Ok(Step::Reply(CampaignReply::Held { holder, token, remaining, version }))
            }
            _ => self.grant(Some(record)),
        }
    }

    fn grant(&self, before: Option<&LeaseRecord>) -> Result<Step<CampaignReply>, TokensExhausted> {
        let stored = before.map_or(Token::NONE, |before| before.token().max(before.floor()));
        let stored = stored.max(self.observation.top());
        let token = next_token(self.rules, stored, self.request.floor, self.moment.wall)?;
        let record = LeaseRecord::granted(before, self.request, token, self.moment.wall);
        let reply = CampaignReply::Granted { token, count: record.count() };
        Ok(Step::Write { record, reply })
    }

    /// The same campaign once more: the same token, with a write that extends it.
    fn extend(&self, record: &LeaseRecord, mark: &Mark) -> Step<CampaignReply> {
        let mark = Mark {
            count: mark.count + 1,
            lease_duration: self.request.lease_duration,
            renewed_us: micros(self.moment.wall),
            ..mark.clone()
        };
        let reply = CampaignReply::Granted { token: mark.token, count: mark.count };
        Step::Write { record: record.renewed(mark), reply }
    }

    fn known(&self) -> (Token, u64) {
        let record = self.observation.record().or_else(|| self.observation.lost());
        record.map_or((Token::NONE, 0), |record| (record.token(), record.count()))
    }

    fn version(&self) -> RecordVersion {
        let (token, count) = self.known();
        RecordVersion { token, count, writer: None }
    }

    fn guarded(&self, cause: GuardCause, remaining: Duration) -> Step<CampaignReply> {
        Step::Reply(CampaignReply::Guarded { cause, remaining, version: self.version() })
    }

    /// The record is older than a token that was seen. That is noted on the object, so that others know; it counts from
    /// that write on.
    fn regressed(&self, record: &LeaseRecord, left: Duration) -> Step<CampaignReply> {
        let cause = GuardCause::Regression;
        let version = self.version();
        match record.noting(self.request.floor) {
            Some(record) => {
                let remaining = self.request.lease_duration;
                Step::Write { record, reply: CampaignReply::Guarded { cause, remaining, version } }
            }
            None => self.guarded(cause, left),
        }
    }

    fn stale(&self) -> Step<CampaignReply> {
        let (token, count) = self.known();
        Step::Reply(CampaignReply::Stale { token, count })
    }
}

/// Extends a lease, or puts it back where the object is gone, was emptied, or has an earlier term's record (R4).
pub fn renew(observation: &Observation, request: &RenewRequest, rules: Rules, wall: StoreTime) -> Step<RenewReply> {
    let record = match observation.seen() {
        Some(Seen::Present(record)) => Some(record),
        Some(Seen::Absent) | None => None,
    };
    let before = record.or_else(|| observation.lost());
    let overtaken = observation.top() > request.token;
    let reasserted = match record.map(LeaseRecord::tenure) {
        Some(Tenure::Ours(mark)) if mark.candidate == request.candidate && mark.token == request.token => Some(false),
        _ if !rules.reassert || overtaken => None,
        None => Some(true).filter(|_| may_return(observation.lost(), request)),
        // Over a record of the past, which a restored backup has brought back.
        Some(Tenure::Ours(mark)) => Some(true).filter(|_| mark.token < request.token),
        Some(Tenure::Vacant) => Some(true).filter(|_| is_mine_or_earlier(record, request)),
        Some(Tenure::Released { ours }) => {
            Some(true).filter(|_| ours && record.is_some_and(|record| record.token() < request.token))
        }
        Some(Tenure::Foreign(_)) => None,
    };
    let Some(reasserted) = reasserted else {
        let token = record.map_or(Token::NONE, LeaseRecord::token).max(observation.top());
        return Step::Reply(RenewReply::Lost { token, holder: record.and_then(LeaseRecord::holder) });
    };
    let count = before.map_or(0, LeaseRecord::count).max(request.count) + 1;
    let mark = Mark {
        candidate: request.candidate,
        identity: request.identity.clone(),
        token: request.token,
        floor: before.map_or(Token::NONE, LeaseRecord::floor),
        count,
        lease_duration: request.lease_duration,
        released: false,
        renewed_us: micros(wall),
    };
    let mine = before.filter(|before| before.mark.as_ref().is_some_and(|mark| mark.candidate == request.candidate));
    let record = match (mine, before) {
        (Some(mine), _) => mine.renewed(mark),
        (None, Some(before)) => LeaseRecord { transitions: before.transitions, ..LeaseRecord::held_by(mark) },
        (None, None) => LeaseRecord::held_by(mark),
    };
    Step::Write { record, reply: RenewReply::Renewed { count, reasserted, audience: 0 } }
}

/// The object is gone: it may be put back unless the last thing seen of it was a release or another's.
fn may_return(lost: Option<&LeaseRecord>, request: &RenewRequest) -> bool {
    let Some(lost) = lost else { return true };
    match lost.tenure() {
        Tenure::Ours(_) | Tenure::Vacant => is_mine_or_earlier(Some(lost), request),
        Tenure::Released { ours } => ours && lost.token() < request.token,
        Tenure::Foreign(_) => false,
    }
}

fn is_mine_or_earlier(record: Option<&LeaseRecord>, request: &RenewRequest) -> bool {
    let mark = record.and_then(|record| record.mark.as_ref());
    mark.is_none_or(|mark| {
        mark.token < request.token
            || (mark.token == request.token && mark.candidate == request.candidate && !mark.released)
    })
}

/// R7: empties the holder, if it is this candidate's. Never another's.
pub fn release(observation: &Observation, request: &ReleaseRequest, wall: StoreTime) -> Step<ReleaseReply> {
    if let Some(record) = observation.record()
        && let Tenure::Ours(mark) = record.tenure()
        && request.is_of(mark.candidate)
        && (request.token == Token::NONE || mark.token == request.token)
    {
        return Step::Write { record: record.released(mark, wall), reply: ReleaseReply::Released };
    }
    Step::Reply(ReleaseReply::NotHeld)
}
