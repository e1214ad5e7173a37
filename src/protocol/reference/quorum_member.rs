//! A member's side: what one atomic step does to its lease and its record of a role. The reference for
//! `member_campaign.lua`, `member_raise.lua`, `member_renew.lua` (mostly `member_renew_again.lua`) and
//! `member_release.lua`, with `member.lua` and `common.lua`.

use std::sync::Arc;
use std::time::Duration;

use super::super::ids::{Attempt, Candidate, StoreTime, Token};
use super::super::messages::{
    Announcement, AnnouncementKind, CampaignRequest, GuardCause, Holder, ReleaseReply, ReleaseRequest, RenewReply,
    RenewRequest,
};
use super::super::quorum::{LastTerm, MemberCampaignReply, MemberReply, MemberRequest, RaiseReply, RaiseRequest};
use super::super::rules::Rules;
use super::guard::Guard;
use super::lease::{Server, TokensExhausted, next_token};

/// What part of a lease a grant holds its member until it is raised.
const PROVISIONAL: u32 = 3;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Lease {
    candidate: Candidate,
    identity: Arc<str>,
    token: Token,
    /// Raised or renewed: its candidate may lead.
    confirmed: bool,
    /// How long it was given for: more than this is never left of it.
    duration: Duration,
    expires_at: StoreTime,
}

impl Lease {
    fn holder(&self) -> Holder {
        Holder { session: self.candidate.session, identity: Arc::clone(&self.identity) }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Record {
    /// The greatest token granted or raised here.
    token: Token,
    /// The greatest token of a term that its holder gave back. That a token was confirmed here says nothing: its
    /// campaign may have failed elsewhere.
    over: Token,
    /// The greatest token that was confirmed here.
    confirmed: Token,
    count: u64,
    /// Who was granted last.
    writer: Option<Candidate>,
    /// For how long the lease was given that was confirmed last, or longer while a guard stands that was set for
    /// longer.
    span: Duration,
    /// When that lease ends by its TTL; past, once its holder has given it back.
    until: StoreTime,
    /// By which lists of members it was last granted or confirmed, and until when another list is an objection: for a
    /// lease after the last one that was confirmed by them has ended.
    lists: Arc<str>,
    listed_until: StoreTime,
    guard: Guard,
}

impl Record {
    /// A lease by these lists was confirmed or extended.
    fn list_record(&mut self, lists: &str, until: StoreTime) {
        let agree = lists_agree(&self.lists, lists);
        self.listed_until = if agree { self.listed_until.max(until) } else { until };
        if &*self.lists != lists {
            self.lists = Arc::from(lists);
        }
    }

    /// A grant by these lists, which may come to nothing: what a term has told before is not forgotten for it.
    fn list_grant(&mut self, lists: &str, now: StoreTime, until: StoreTime) {
        if now >= self.listed_until || &*self.lists == lists {
            self.list_record(lists, until);
        }
    }

    /// A lease was confirmed or extended. A guard that stands keeps the length it was set for.
    fn confirm(&mut self, token: Token, now: StoreTime, lease: Duration) {
        self.token = self.token.max(token);
        self.confirmed = self.confirmed.max(token);
        self.guard.end(now);
        self.span = if self.guard.active(now).is_some() { self.span.max(lease) } else { lease };
        self.until = now.plus(lease);
    }

    /// Whether the last term that was confirmed here was given back by its holder.
    fn is_released(&self) -> bool {
        self.confirmed > Token::NONE && self.over >= self.confirmed
    }

    fn last(&self) -> LastTerm {
        match self.confirmed {
            Token::NONE => LastTerm::Unknown,
            _ if self.is_released() => LastTerm::GivenBack,
            token => LastTerm::Of(token),
        }
    }
}

/// The lease and the record of one role on one member.
#[derive(Clone, Debug, Hash)]
pub struct MemberCell {
    rules: Rules,
    lease: Option<Lease>,
    record: Option<Record>,
}

/// An answer, and what is published with it in the same step.
pub type MemberOutcome<R> = (R, Option<Announcement>);

impl MemberCell {
    /// A role that the member knows nothing of.
    pub fn new(rules: Rules) -> Self {
        Self { rules, lease: None, record: None }
    }

    /// One step, whichever it is.
    ///
    /// # Errors
    /// As [`Self::campaign`].
    pub fn step(
        &mut self,
        server: Server<'_>,
        lists: &str,
        ask: &MemberRequest,
    ) -> Result<MemberOutcome<MemberReply>, TokensExhausted> {
        Ok(match ask {
            MemberRequest::Campaign(request) => {
                let (reply, news) = self.campaign(server, lists, request)?;
                (MemberReply::Campaign(reply), news)
            }
            MemberRequest::Raise(request) => {
                let (reply, news) = self.raise(server, lists, request);
                (MemberReply::Raise(reply), news)
            }
            MemberRequest::Renew(request) => {
                let (reply, news) = self.renew(server, lists, request);
                (MemberReply::Renew(reply), news)
            }
            MemberRequest::Release(request) => {
                let (reply, news) = self.release(server, request);
                (MemberReply::Release(reply), news)
            }
        })
    }

    /// Grants the lease for a third of its time. Of that nothing is published: nobody leads by it yet.
    ///
    /// # Errors
    /// [`TokensExhausted`] when the next token would reach 2^53; nothing is changed then.
    pub fn campaign(
        &mut self,
        server: Server<'_>,
        lists: &str,
        request: &CampaignRequest,
    ) -> Result<MemberOutcome<MemberCampaignReply>, TokensExhausted> {
        let mut record = self.prepare(server, request.lease_duration, request.guard);
        // Whoever is granted in the end, with a floor or without, gets a greater one (R3). One that has no successor is
        // no token that anybody had.
        if self.rules.tokens && request.floor > record.token && request.floor.get() + 1 < Token::LIMIT {
            record.token = request.floor;
            self.record = Some(record.clone());
        }
        if server.now < record.listed_until && !lists_agree(&record.lists, lists) {
            let remaining = record.listed_until.since(server.now);
            return Ok((MemberCampaignReply::Unlisted { theirs: record.lists, remaining, token: record.token }, None));
        }
        let news = self.drop_released(&mut record, request);
        Ok((self.grant(server, lists, request, record)?, news))
    }

    /// The candidate has heard that this term's holder gave it back: this member has not, or not yet.
    fn drop_released(&mut self, record: &mut Record, request: &CampaignRequest) -> Option<Announcement> {
        let (session, token) = request.released?;
        let lease = self
            .lease
            .take_if(|lease| lease.confirmed && lease.candidate.session == session && lease.token == token)?;
        record.until = StoreTime(0);
        record.count += 1;
        self.record = Some(record.clone());
        announce(AnnouncementKind::Release, token, record.count, lease.holder(), 0)
    }

    fn grant(
        &mut self,
        server: Server<'_>,
        lists: &str,
        request: &CampaignRequest,
        mut record: Record,
    ) -> Result<MemberCampaignReply, TokensExhausted> {
        let (now, me, last) = (server.now, request.candidate, record.last());
        if let Some(lease) = &self.lease {
            if lease.candidate == me {
                return Ok(MemberCampaignReply::Granted { token: lease.token, last });
            }
            if lease.candidate.session == me.session {
                if lease.candidate.attempt > me.attempt {
                    return Ok(MemberCampaignReply::Stale { token: record.token });
                }
            } else {
                return Ok(MemberCampaignReply::Held {
                    holder: lease.holder(),
                    token: lease.token,
                    remaining: lease.expires_at.since(now),
                    confirmed: lease.confirmed,
                });
            }
        }
        if record.writer.is_some_and(|writer| writer.session == me.session && writer.attempt >= me.attempt) {
            return Ok(MemberCampaignReply::Stale { token: record.token });
        }
        if let Some((cause, remaining)) = record.guard.active(now).filter(|_| request.guard) {
            return Ok(MemberCampaignReply::Guarded { cause, remaining, token: record.token });
        }
        if self.rules.until && request.guard && self.lease.is_none() && now < record.until {
            let (cause, remaining) = (GuardCause::Vanished, record.until.since(now));
            return Ok(MemberCampaignReply::Guarded { cause, remaining, token: record.token });
        }
        let token = next_token(self.rules, record.token, request.floor, now)?;
        record.token = token;
        record.writer = Some(me);
        record.list_grant(lists, now, now.plus(request.lease_duration / PROVISIONAL));
        record.guard.end(now);
        self.record = Some(record);
        self.lease = Some(Lease {
            candidate: me,
            identity: Arc::clone(&request.identity),
            token,
            confirmed: false,
            duration: request.lease_duration / PROVISIONAL,
            expires_at: now.plus(request.lease_duration / PROVISIONAL),
        });
        Ok(MemberCampaignReply::Granted { token, last })
    }

    /// Confirms a grant: from now on it objects to others. Not across a restart: what else this member
    /// granted meanwhile may be forgotten.
    pub fn raise(&mut self, server: Server<'_>, lists: &str, request: &RaiseRequest) -> MemberOutcome<RaiseReply> {
        let mut record = self.prepare(server, request.lease_duration, request.guard);
        let guarded = request.guard && record.guard.active(server.now).is_some();
        let Some(lease) = self
            .lease
            .as_mut()
            .filter(|lease| lease.candidate == request.candidate && lease.token <= request.token && !guarded)
        else {
            return (RaiseReply::Gone { token: record.token }, None);
        };
        lease.token = request.token;
        lease.confirmed = true;
        lease.duration = request.lease_duration;
        lease.expires_at = server.now.plus(request.lease_duration);
        record.confirm(request.token, server.now, request.lease_duration);
        record.list_record(lists, server.now.plus(request.lease_duration * 2));
        record.count += 1;
        let (count, holder) = (record.count, lease.holder());
        self.record = Some(record);
        (RaiseReply::Raised { count }, announce(AnnouncementKind::Grant, request.token, count, holder, 0))
    }

    /// Extends a term's lease, or puts it back where this member has lost it or missed it (R4). `audience` of the reply
    /// is the member's to fill in.
    pub fn renew(&mut self, server: Server<'_>, lists: &str, request: &RenewRequest) -> MemberOutcome<RenewReply> {
        let mut record = self.prepare(server, request.lease_duration, request.guard);
        let reasserted = match &self.lease {
            // Under whatever token: where the grant's answer was lost, this member was not raised.
            Some(lease) if lease.candidate == request.candidate => false,
            present if self.yields(present.as_ref(), &record, request.token) => true,
            present => {
                let holder = present.as_ref().map(Lease::holder);
                return (RenewReply::Lost { token: record.token, holder }, None);
            }
        };
        self.lease = Some(Lease {
            candidate: request.candidate,
            identity: Arc::clone(&request.identity),
            token: request.token,
            confirmed: true,
            duration: request.lease_duration,
            expires_at: server.now.plus(request.lease_duration),
        });
        record.confirm(request.token, server.now, request.lease_duration);
        record.list_record(lists, server.now.plus(request.lease_duration * 2));
        // The members count together, so that one renewal is told by one count.
        record.count = record.count.max(request.count) + 1;
        let count = record.count;
        self.record = Some(record);
        let holder = Holder { session: request.candidate.session, identity: Arc::clone(&request.identity) };
        let news = announce(AnnouncementKind::Heartbeat, request.token, count, holder, request.audience);
        (RenewReply::Renewed { count, reasserted, audience: 0 }, news)
    }

    /// R4: whether an incumbent's renewal may put its lease here. A later term stands in the way, and the holder's own
    /// release. An earlier term does not, and neither does a grant: that is a question, and the incumbent the answer.
    fn yields(&self, present: Option<&Lease>, record: &Record, term: Token) -> bool {
        let later = |lease: &Lease| lease.confirmed && lease.token > term;
        self.rules.reassert && record.over < term && !present.is_some_and(later)
    }

    /// R7: gives the lease back, if it is this candidate's. Never another's. A term that is over is over here too, even
    /// if this member never had it; without a token it was none, only a campaign that came to nothing.
    pub fn release(&mut self, server: Server<'_>, request: &ReleaseRequest) -> MemberOutcome<ReleaseReply> {
        self.expire(server.now);
        // Confirmed, it has the term's token; a grant has this member's own.
        let token_fits =
            |lease: &Lease| request.token == Token::NONE || !lease.confirmed || lease.token == request.token;
        let lease = self.lease.take_if(|lease| request.is_of(lease.candidate) && token_fits(lease));
        // Of a term that another says is over it is not sure that a majority ever had it: whose renewals do not reach
        // that far may lead under a smaller token.
        let ended_by_itself = request.token != Token::NONE && request.candidate.attempt != Attempt::ANY;
        if lease.is_none() && !ended_by_itself {
            return (ReleaseReply::NotHeld, None);
        }
        let mut record = self.record_or_new(server.now);
        record.token = record.token.max(request.token);
        record.over = record.over.max(request.token);
        if lease.as_ref().is_some_and(|lease| lease.confirmed) || record.is_released() {
            record.until = StoreTime(0);
            record.listed_until = record.listed_until.min(server.now.plus(record.span));
        }
        if lease.as_ref().is_some_and(|lease| !lease.confirmed && record.listed_until <= lease.expires_at) {
            // Nobody else's question is refused for one that came to nothing.
            record.listed_until = StoreTime(0);
        }
        record.count += 1;
        let count = record.count;
        self.record = Some(record);
        let Some(lease) = lease else { return (ReleaseReply::NotHeld, None) };
        let news = announce(AnnouncementKind::Release, lease.token, count, lease.holder(), request.audience);
        // Of a grant that came to nothing nobody has heard.
        (ReleaseReply::Released, news.filter(|_| lease.confirmed))
    }

    /// Whether somebody has the lease now, confirmed or not.
    pub fn is_held(&self, now: StoreTime) -> bool {
        self.lease.as_ref().is_some_and(|lease| now < lease.expires_at)
    }

    /// A fault: the lease goes away without a release, as by an eviction or a DEL.
    pub fn evict_lease(&mut self) {
        self.lease = None;
    }

    /// A fault: everything is forgotten, as by FLUSHALL or a restart without data.
    pub fn forget(&mut self) {
        self.lease = None;
        self.record = None;
    }

    /// A new record counts from the member's clock, so that what was known of a lost one never fits it by chance.
    fn record_or_new(&self, now: StoreTime) -> Record {
        self.record.clone().unwrap_or_else(|| Record { count: now.0, ..Record::default() })
    }

    /// Lets the TTL take its course. More than its whole time cannot be left of a lease: the clock was stepped back,
    /// and the lease of one who is gone would object for as long as that takes to catch up.
    fn expire(&mut self, now: StoreTime) {
        self.lease.take_if(|lease| lease.expires_at <= now);
        if let Some(lease) = &mut self.lease {
            lease.expires_at = now.plus(lease.duration).min(lease.expires_at);
        }
    }

    /// What every step does first: lets the TTL take its course, and notices another generation of the server (R5).
    /// Returns the record to go on with; what it found out stays, whatever the step does.
    fn prepare(&mut self, server: Server<'_>, lease_duration: Duration, guard: bool) -> Record {
        self.expire(server.now);
        let mut record = self.record_or_new(server.now);
        let span = if self.rules.longest { lease_duration.max(record.span) } else { lease_duration };
        let longest = server.now.plus(span);
        let is_new = self.record.is_none();
        // Ends that are further away than that were set before the clock was stepped back.
        let mut changed = record.guard.clamp(longest);
        changed |= record.until > longest || record.listed_until > longest.plus(span);
        record.until = record.until.min(longest);
        record.listed_until = record.listed_until.min(longest.plus(span));
        if guard && self.rules.generation && record.guard.notice(server, span, is_new, self.rules) {
            record.span = span;
            // It may be of an earlier time, with a release that was the last one then.
            record.confirmed = Token::NONE;
            changed = true;
        }
        if changed {
            self.record = Some(record.clone());
        }
        record
    }
}

/// Whether two replicas' lists of members have one in common: `|` stands between the two of a change. Nothing is known
/// of one that is empty.
pub fn lists_agree(one: &str, other: &str) -> bool {
    one.is_empty() || other.is_empty() || one.split('|').any(|list| other.split('|').any(|another| another == list))
}

#[expect(clippy::unnecessary_wraps, reason = "every caller wants an Option")]
fn announce(kind: AnnouncementKind, token: Token, count: u64, holder: Holder, audience: u32) -> Option<Announcement> {
    Some(Announcement { kind, token, count, holder, audience })
}
