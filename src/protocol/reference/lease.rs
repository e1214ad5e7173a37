//! The store's side of the protocol: what one atomic step does to the lease and the record of one role.
//!
//! This is the reference. The memory store runs it, the simulation runs it, and the Lua scripts of the Redis store are
//! held against it by random operations: `campaign.lua`, `renew.lua`, `release.lua`, `confirm.lua` and `purge.lua`,
//! with what they share in `common.lua`, and the layout in `single.lua`. What mostly happens is done by less of it:
//! `campaign_held.lua`, `renew_again.lua`. What is a function here and there has one name.
//!
//! A role has two things in the store. The **lease** is there while somebody holds the role and goes away by its TTL.
//! The **record** stays: the last token, a count of every grant, renewal and release, whether the last term was
//! released, who had it and for how long, when its lease ends, under which generation of the server all that was
//! written, and until when R5 holds the role shut.

use std::sync::Arc;
use std::time::Duration;

use super::super::ids::{Attempt, Candidate, SessionId, StoreTime, Token};
use super::super::messages::{
    Announcement, AnnouncementKind, CampaignReply, CampaignRequest, GuardCause, Holder, KnownRecord, RecordVersion,
    ReleaseReply, ReleaseRequest, RenewReply, RenewRequest,
};
use super::super::rules::Rules;
use super::guard::Guard;

/// What a step may know of the server that runs it.
#[derive(Clone, Copy, Debug)]
pub struct Server<'a> {
    pub now: StoreTime,
    /// How long it has been running. Only locks ask.
    pub uptime: Duration,
    /// Differs for every start and every promotion of every server and, where replies count with acknowledgements (R6),
    /// also from the moment that a replica comes which may have followed another master. Empty where nobody asks for it
    /// (`guard: heard`): R5 *generation* is not in force then, the rest of R5 is.
    pub generation: &'a str,
}

impl Server<'_> {
    /// Nobody asks of which generation it is.
    pub(super) const fn is_unasked(&self) -> bool {
        self.generation.is_empty()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Lease {
    candidate: Candidate,
    identity: Arc<str>,
    token: Token,
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
    /// The last term's.
    token: Token,
    /// The greatest token that a candidate has seen and this store knew nothing of (R5 *regression*).
    floor: Token,
    count: u64,
    released: bool,
    /// Who had the last term.
    writer: Option<Candidate>,
    /// How long the last term's lease was given for, or longer while a guard stands that was set for longer.
    span: Duration,
    /// When the last term's lease ends by its TTL.
    until: StoreTime,
    guard: Guard,
}

impl Record {
    fn version(&self) -> RecordVersion {
        RecordVersion { token: self.token, count: self.count, writer: self.writer.map(|writer| writer.session) }
    }

    /// R5: for how long a guard lasts that this request begins: by the longer of both leases.
    fn guard_span(&self, rules: Rules, asked: Duration) -> Duration {
        if rules.longest { asked.max(self.span) } else { asked }
    }

    /// Shuts the role for a span, unless it is shut already.
    fn shut(&mut self, cause: GuardCause, now: StoreTime, span: Duration) {
        if self.guard.active(now).is_none() {
            self.guard.shut(cause, now.plus(span));
            self.span = self.span.max(span);
        }
    }

    /// What anybody knows of the record, and what it says of a release, is from before something was forgotten: whoever
    /// wants the role watches it anew. By its own clock, because a guard ends by the store's, which may be stepped.
    fn begin_watch(&mut self, rules: Rules, now: StoreTime) {
        if rules.still {
            self.writer = None;
            // A count that nobody can have come to elsewhere, nor an incumbent by renewals that were not answered.
            self.count = (self.count + WATCH_STEP + self.guard.salt()).max(now.0);
        }
    }

    /// The lease was given or extended now.
    fn extend_record(&mut self, now: StoreTime, lease: Duration) {
        self.guard.end(now);
        // A guard that stands keeps the length it was set for.
        self.span = if self.guard.active(now).is_some() { self.span.max(lease) } else { lease };
        self.until = now.plus(lease);
    }
}

/// The lease and the record of one role.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LeaseCell {
    rules: Rules,
    lease: Option<Lease>,
    record: Option<Record>,
}

/// By how much a lease's TTL may end before the moment that its record remembers: Redis counts it in whole
/// milliseconds.
const TTL_ROUNDING: Duration = Duration::from_millis(2);

/// By how much a count rises at the least when a watch begins: further than by the renewals of many leases.
const WATCH_STEP: u64 = 4_096;

/// A reply, and what is published with it in the same step.
pub type Outcome<R> = (R, Option<Announcement>);

impl LeaseCell {
    /// A role that the store knows nothing of.
    pub fn new(rules: Rules) -> Self {
        Self { rules, lease: None, record: None }
    }

    /// A role of a store that cannot have forgotten anything, because it lives and dies with its users: free, as after
    /// a release, so that the first campaign is granted at once. `generation`: of the server that it belongs to.
    pub fn never_held(rules: Rules, generation: &str) -> Self {
        let nobody = Candidate { session: SessionId::from_u128(0), attempt: Attempt::ANY };
        let record =
            Record { released: true, writer: Some(nobody), guard: Guard::open(generation), ..Record::default() };
        Self { rules, lease: None, record: Some(record) }
    }

    /// R1 with R3 and R5.
    ///
    /// # Errors
    /// [`TokensExhausted`] when the next token would reach 2^53; nothing is changed then.
    pub fn campaign(
        &mut self,
        server: Server<'_>,
        request: &CampaignRequest,
    ) -> Result<Outcome<CampaignReply>, TokensExhausted> {
        self.prepare(server, request.lease_duration, request.guard);
        let mut record = self.record_or_new(server.now);
        let (now, me) = (server.now, request.candidate);
        let span = record.guard_span(self.rules, request.lease_duration);
        self.cut(&mut record, now.plus(span));
        let stale = CampaignReply::Stale { token: record.token, count: record.count };
        let is_guarded = request.guard && record.guard.active(now).is_some();
        if let Some(lease) = &mut self.lease {
            // More than its whole time cannot be left of a lease: the clock was stepped back.
            lease.expires_at = lease.expires_at.min(now.plus(lease.duration));
            let is_known = !request.guard || (record.writer == Some(me) && !is_guarded);
            if lease.candidate == me && (is_known || !self.rules.fresh_repeat) {
                lease.expires_at = now.plus(request.lease_duration);
                lease.duration = request.lease_duration;
                // An extension counts like any renewal: others conclude from an unchanged count that nobody renewed.
                record.count += 1;
                record.extend_record(now, request.lease_duration);
                let reply = CampaignReply::Granted { token: lease.token, count: record.count };
                let news = announce(AnnouncementKind::Grant, lease.token, record.count, lease.holder(), 0);
                self.record = Some(record);
                return Ok((reply, Some(news)));
            }
            if lease.candidate.session == me.session {
                if lease.candidate.attempt > me.attempt {
                    return Ok((stale, None));
                }
            } else if !(self.rules.heartbeats && stood_still(&record, request, lease.duration)) {
                let remaining = lease.expires_at.since(now);
                let (holder, token, version) = (lease.holder(), lease.token, record.version());
                if is_guarded && self.learn_floor(&mut record, request) {
                    self.record = Some(record);
                }
                return Ok((CampaignReply::Held { holder, token, remaining, version }, None));
            }
        } else {
            let last = record.writer.filter(|writer| writer.session == me.session);
            if self.rules.reassert && !self.rules.fresh_repeat && last == Some(me) && !record.released {
                // The same campaign once more, after its lease ran out.
                return Ok(self.grant(record, request, now, None));
            }
            if last.is_some_and(|last| last.attempt > me.attempt || (last.attempt == me.attempt && record.released)) {
                return Ok((stale, None));
            }
        }
        if request.guard {
            self.suspect(&mut record, request, now, span);
            if let Some((cause, remaining)) = record.guard.active(now) {
                let reply = CampaignReply::Guarded { cause, remaining, version: record.version() };
                self.record = Some(record);
                return Ok((reply, None));
            }
            if self.must_look_again(&record, request, span) {
                let reply = CampaignReply::LookAgain { version: record.version(), span };
                self.record = Some(record);
                return Ok((reply, None));
            }
        }
        let token = next_token(self.rules, record.token.max(record.floor), request.floor, now)?;
        Ok(self.grant(record, request, now, Some(token)))
    }

    /// No guard, and no lease, ends later than this: what seems to was set before the clock was stepped back. It stays
    /// so, or it would be cut anew at every question, and end as late as the last of them.
    fn cut(&mut self, record: &mut Record, longest: StoreTime) {
        record.guard.clamp(longest);
        record.until = record.until.min(longest);
        if let Some(stored) = &mut self.record {
            stored.clone_from(record);
        }
    }

    /// Notes a token that the candidate has seen and the record knows nothing of. True when it has one.
    fn learn_floor(&self, record: &mut Record, request: &CampaignRequest) -> bool {
        let is_behind = self.rules.tokens && record.token.max(record.floor) < request.floor;
        if is_behind {
            // The last term's token stays: an incumbent may still renew.
            record.floor = request.floor;
        }
        is_behind
    }

    /// R5 *regression* and *vanished*: shuts the role where a lease may stand that the store does not know of.
    fn suspect(&self, record: &mut Record, request: &CampaignRequest, now: StoreTime, span: Duration) {
        // Under a guard, also while a lease stands, the floor is noted and no more: what it tells of was forgotten
        // before the guard began, and a second guard after the first would only cost time.
        if self.learn_floor(record, request) && record.guard.active(now).is_none() {
            record.shut(GuardCause::Regression, now, span);
            record.begin_watch(self.rules, now);
        }
        // Whoever had it has stepped down, however early its lease went.
        let is_over = self.rules.still && stood_still(record, request, span);
        if !self.may_have_vanished(record, request) || is_over {
            return;
        }
        if self.rules.until && now.plus(TTL_ROUNDING) < record.until {
            // Not by its TTL, then. Whoever had it has stepped down when that would have ended.
            record.shut(GuardCause::Vanished, now, record.until.since(now));
        }
        // What it knows of an earlier term says nothing of this one.
        if let Some(known) = request.knowledge.filter(|known| known.version.token == record.token) {
            let renewed_since = known.version.count < record.count && known.age < span * 5 / 4;
            let gone_early = known.version.count == record.count && !known.remaining.is_zero();
            if renewed_since || gone_early {
                record.shut(GuardCause::Vanished, now, span);
            }
        }
    }

    /// Whether the lease of another's term is gone without a release. A session cannot be in doubt about its own term:
    /// it is here because that is over.
    fn may_have_vanished(&self, record: &Record, request: &CampaignRequest) -> bool {
        let of_another = record.writer.is_some_and(|writer| writer.session != request.candidate.session);
        self.rules.vanished && self.lease.is_none() && of_another && !record.released
    }

    /// The candidate knows nothing recent of the last term, or not for long enough that whoever had it has stepped
    /// down, whatever the store's clock says.
    fn must_look_again(&self, record: &Record, request: &CampaignRequest, span: Duration) -> bool {
        if self.rules.still {
            let is_mine = record.writer.is_some_and(|writer| writer.session == request.candidate.session);
            // A release that is known to be the last word on the role: no watch has begun since.
            let is_free = record.released && record.writer.is_some();
            return !is_free && !is_mine && !stood_still(record, request, span);
        }
        let is_recent = |known: KnownRecord| known.version.token == record.token && known.age < span * 5 / 4;
        self.may_have_vanished(record, request) && !request.knowledge.is_some_and(is_recent)
    }

    /// R6: whether the grant of this token, which the replicas have acknowledged, counts. Not if the server is of
    /// another generation by now than when it was given: a replica has come since, and may have acknowledged another
    /// master's grant. Nor if somebody else has asked since and noticed that: a watch has begun then.
    pub fn confirm(&self, server: Server<'_>, token: Token) -> bool {
        self.record.as_ref().is_some_and(|record| {
            let is_watched = record.writer.is_none() || record.guard.active(server.now).is_some();
            record.token == token && record.guard.is_of(server) && !is_watched
        })
    }

    /// Under which generation the record was written, if it is as this renewal's sender was answered last. Such a
    /// renewal need not ask of which generation the server is now: the next campaign does.
    pub fn left_by(&self, now: StoreTime, request: &RenewRequest) -> Option<&str> {
        let lease = self.lease.as_ref().filter(|lease| now < lease.expires_at)?;
        let record = self.record.as_ref()?;
        let is_same = lease.candidate == request.candidate
            && (lease.token, record.token, record.count) == (request.token, request.token, request.count)
            && record.writer == Some(request.candidate)
            && record.span == request.lease_duration
            && !record.guard.is_known();
        if is_same { record.guard.generation() } else { None }
    }

    /// Extends a lease, or puts it back (R4). `audience` of a `Renewed` reply is the store's to fill in.
    pub fn renew(&mut self, server: Server<'_>, request: &RenewRequest) -> Outcome<RenewReply> {
        self.prepare(server, request.lease_duration, request.guard);
        let mut record = self.record_or_new(server.now);
        let expires_at = server.now.plus(request.lease_duration);
        // Whatever has lost a term has begun a watch. Once somebody has been granted the role since, an earlier token
        // is a later term's: of a server whose clock was behind, and a candidate that had not heard of this one. This
        // renewal is late. Where nobody asks of which generation the server is, nobody knows that it has lost anything.
        let begins_watches = request.guard && self.rules.generation && self.rules.still && !server.is_unasked();
        let is_watched = record.writer.is_none() || !begins_watches;
        let reasserted = match &mut self.lease {
            Some(lease) if lease.candidate == request.candidate && lease.token == request.token => {
                lease.expires_at = expires_at;
                lease.duration = request.lease_duration;
                false
            }
            None if self.rules.reassert && record.token == request.token && !record.released => true,
            // Also over the lease of an earlier term, which a failover to a lagging replica has brought back.
            _ if self.rules.reassert && record.token < request.token && is_watched => true,
            other => {
                let holder = other.as_ref().map(Lease::holder);
                return (RenewReply::Lost { token: record.token, holder }, None);
            }
        };
        // Its sender was answered since a watch began, if one did: a request from before is behind by thousands.
        let is_up_to_date = request.count >= record.count;
        // The incumbent's own count goes on where a store has lost it: a count that came round again would look like
        // nobody had renewed.
        record.count = record.count.max(request.count) + 1;
        // The record may have been lost while the lease was not.
        record.token = record.token.max(request.token);
        record.extend_record(server.now, request.lease_duration);
        // Then the incumbent has the last word again, and so has its release.
        let is_doubted = !is_up_to_date || record.guard.active(server.now).is_some();
        let has_the_word = !(self.rules.still && is_doubted);
        if has_the_word || reasserted {
            record.released = false;
            record.writer = has_the_word.then_some(request.candidate);
        }
        if reasserted {
            self.lease = Some(Lease {
                candidate: request.candidate,
                identity: Arc::clone(&request.identity),
                token: request.token,
                duration: request.lease_duration,
                expires_at,
            });
        }
        let count = record.count;
        self.record = Some(record);
        let holder = Holder { session: request.candidate.session, identity: Arc::clone(&request.identity) };
        let news = announce(AnnouncementKind::Heartbeat, request.token, count, holder, request.audience);
        (RenewReply::Renewed { count, reasserted, audience: 0 }, Some(news))
    }

    /// R7: gives the lease back, if it is this candidate's. Never another's.
    pub fn release(&mut self, server: Server<'_>, request: &ReleaseRequest) -> Outcome<ReleaseReply> {
        self.expire(server.now);
        let ours = |lease: &Lease| {
            request.is_of(lease.candidate) && (request.token == Token::NONE || lease.token == request.token)
        };
        let Some(lease) = self.lease.take_if(|lease| ours(lease)) else {
            return (ReleaseReply::NotHeld, None);
        };
        let mut record = self.record_or_new(server.now);
        record.count += 1;
        record.released = true;
        record.token = record.token.max(lease.token);
        let count = record.count;
        self.record = Some(record);
        let news = announce(AnnouncementKind::Release, lease.token, count, lease.holder(), request.audience);
        (ReleaseReply::Released, Some(news))
    }

    /// Whether somebody has the lease now.
    pub fn is_held(&self, now: StoreTime) -> bool {
        self.lease.as_ref().is_some_and(|lease| now < lease.expires_at)
    }

    /// Whether the store knows anything of the role.
    pub fn is_known(&self) -> bool {
        self.lease.is_some() || self.record.is_some()
    }

    /// A fault: the lease is evicted or deleted behind our back. The record stays.
    pub fn evict_lease(&mut self) {
        self.lease = None;
    }

    /// A fault: everything is forgotten, as by FLUSHALL or a restart without data.
    pub fn forget(&mut self) {
        self.lease = None;
        self.record = None;
    }

    /// A new record counts from the store's clock, so that what was known of a lost one never fits it by chance.
    fn record_or_new(&self, now: StoreTime) -> Record {
        self.record.clone().unwrap_or_else(|| Record { count: now.0, ..Record::default() })
    }

    /// Gives the lease to the candidate: under `token`, or under the last one again.
    fn grant(
        &mut self,
        mut record: Record,
        request: &CampaignRequest,
        now: StoreTime,
        token: Option<Token>,
    ) -> Outcome<CampaignReply> {
        let (token, count) = (token.unwrap_or(record.token), record.count + 1);
        record.extend_record(now, request.lease_duration);
        self.record = Some(Record { token, count, released: false, writer: Some(request.candidate), ..record });
        let lease = self.lease.insert(Lease {
            candidate: request.candidate,
            identity: Arc::clone(&request.identity),
            token,
            duration: request.lease_duration,
            expires_at: now.plus(request.lease_duration),
        });
        let news = announce(AnnouncementKind::Grant, token, count, lease.holder(), 0);
        (CampaignReply::Granted { token, count }, Some(news))
    }

    fn expire(&mut self, now: StoreTime) {
        self.lease.take_if(|lease| lease.expires_at <= now);
    }

    /// What every step does first: lets the TTL take its course, and notices another generation of the server (R5).
    fn prepare(&mut self, server: Server<'_>, lease_duration: Duration, guard: bool) {
        self.expire(server.now);
        if !(guard && self.rules.generation) {
            return;
        }
        let is_new = self.record.is_none();
        let mut record = self.record_or_new(server.now);
        let span = record.guard_span(self.rules, lease_duration);
        if record.guard.notice(server, span, is_new, self.rules) {
            record.span = record.span.max(span);
            if !is_new {
                record.begin_watch(self.rules, server.now);
            }
        }
        self.record = Some(record);
    }
}

/// The next token would reach 2^53: the store's clock, or a replica's floor, is centuries ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokensExhausted;

/// R3: above everything that is remembered, by the record, by the candidate, or by the store's clock.
pub(super) fn next_token(rules: Rules, stored: Token, floor: Token, now: StoreTime) -> Result<Token, TokensExhausted> {
    let before = if rules.tokens { stored.get().max(floor.get()).max(now.0) } else { stored.get() };
    Token::new(before.saturating_add(1)).ok_or(TokensExhausted)
}

/// The candidate has known the record to stand still for a whole lease, on its own clock: nobody renewed, so the
/// holder's deadline has passed, whatever the store's clock says of the TTL.
fn stood_still(record: &Record, request: &CampaignRequest, lease: Duration) -> bool {
    request.knowledge.is_some_and(|known| {
        let RecordVersion { token, count, writer } = record.version();
        let is_same = (known.version.token, known.version.count) == (token, count)
            // While a watch goes on, heartbeats name the incumbent all the same, and the count is this server's own.
            && (writer.is_none() || known.version.writer == writer);
        is_same && known.unchanged_for >= lease
    })
}

fn announce(kind: AnnouncementKind, token: Token, count: u64, holder: Holder, audience: u32) -> Announcement {
    Announcement { kind, token, count, holder, audience }
}

#[cfg(test)]
mod tests;
