//! The side that wants the lease: when to look, and what the answers mean (R1, R5, R8).

use std::sync::Arc;
use std::time::Duration;

use super::super::ids::{Attempt, Mono, Token};
use super::super::messages::{
    Announcement, AnnouncementKind, CampaignReply, CampaignRequest, Holder, RecordVersion, Stamped,
};
use super::event::{CampaignOutcome, Event, ReleaseReason};
use super::{Action, Candidacy, Election, Flight, Kind, NoReply, Pending, Phase, RequestId, Term};

/// How long after the end of the known TTL a candidate looks that hears nothing. The lease ends in the very moment of a
/// later renewal, which comes some milliseconds late: a look just before it would find two thirds of a lease left each
/// time, and come back half again as often as one just after it.
fn past_renewal(lease: Duration) -> Duration {
    (lease / 20).min(Duration::from_millis(20))
}

impl Election {
    /// A candidate may look unless its app is unwell, it is leaving, or a look is out already.
    pub(super) fn may_look(&self, candidacy: &Candidacy) -> bool {
        self.app_healthy && !self.leaving && !candidacy.awaits_answer()
    }

    fn candidacy(&mut self) -> Option<&mut Candidacy> {
        match &mut self.phase {
            Phase::Candidate(candidacy) => Some(candidacy),
            Phase::Leading(_) | Phase::Draining(_) | Phase::Releasing(_) | Phase::Ended => None,
        }
    }

    pub(super) fn candidate_timeout(&mut self, now: Mono) {
        if self.vacate_due().is_some_and(|due| now >= due) {
            self.vacate(now);
        }
        if let Phase::Candidate(candidacy) = self.phase
            && self.may_look(&candidacy)
            && now >= self.look_due(&candidacy)
        {
            self.campaign(now, candidacy);
        }
    }

    /// When it looks, with the stagger that it was told to have.
    pub(super) fn look_due(&self, candidacy: &Candidacy) -> Mono {
        candidacy.look_at + self.stagger_left(candidacy)
    }

    /// A campaign without an answer may have been granted: it is asked for again without stagger.
    pub(super) fn stagger_left(&self, candidacy: &Candidacy) -> Duration {
        let has_none = candidacy.pending == Pending::Unanswered || candidacy.waited;
        if has_none { Duration::ZERO } else { self.shard_stagger }
    }

    /// Plans the next look: not before a cooldown is over, and not within a lease of a heartbeat.
    pub(super) fn look(&mut self, now: Mono, at: Mono) {
        let quiet = self.quiet_until().map(|until| until.min(self.looked_at + self.profile.timing.quiet_span()));
        let soonest = quiet.filter(|until| now < *until).map_or(at, |until| until.max(at)).max(self.out_until);
        let look_at = soonest + self.stagger();
        if let Some(candidacy) = self.candidacy() {
            candidacy.look_at = look_at;
        }
    }

    /// Until when news of another keep this candidate from looking (R8).
    fn quiet_until(&self) -> Option<Mono> {
        let lease = self.profile.timing.lease_duration();
        self.knowledge.quiet_until(lease).filter(|_| self.profile.rules.heartbeats)
    }

    /// Plans the look after a release.
    pub(super) fn look_for_vacancy(&mut self, now: Mono) {
        self.mistrust_answer();
        if now < self.out_until {
            return self.look(now, now);
        }
        let look_at = now + self.stagger_after_release();
        if let Some(candidacy) = self.candidacy() {
            candidacy.look_at = look_at;
        }
    }

    /// The answer that is waited for may be older than what is known now.
    fn mistrust_answer(&mut self) {
        if let Some(candidacy) = self.candidacy()
            && candidacy.pending == Pending::Out
        {
            candidacy.pending = Pending::OutAndStale;
        }
    }

    fn campaign(&mut self, now: Mono, before: Candidacy) {
        let repeats = before.pending == Pending::Unanswered;
        let attempt = if repeats { before.attempt } else { self.profile.attempts.take() };
        // News postpone, and no more: now the store shall say whether they are its own.
        let doubts_news = self.quiet_until().is_some_and(|until| now < until);
        self.phase =
            Phase::Candidate(Candidacy { attempt, pending: Pending::Out, waited: true, doubts_news, ..before });
        self.looked_at = now;
        let timing = self.profile.timing;
        // Within the listening period only a release opens the role; a candidate that claims to know nothing gets just
        // that.
        let knowledge = self.knowledge.of_record(now, &timing, now < self.listen_until);
        let request = CampaignRequest {
            candidate: self.candidate(attempt),
            identity: self.profile.identity.clone(),
            lease_duration: timing.lease_duration(),
            floor: self.knowledge.floor,
            knowledge,
            released: self.knowledge.released,
            guard: self.profile.guard,
        };
        let id = self.flights.depart(now, Kind::Campaign, attempt);
        self.actions.push_back(Action::Campaign { id, request });
    }

    pub(super) fn campaigned(&mut self, now: Mono, id: RequestId, reply: Result<Stamped<CampaignReply>, NoReply>) {
        let Some(flight) = self.flights.arrive(id, Kind::Campaign) else { return };
        let stepped = self.note_answer(now, flight, &reply);
        self.mind_step(now, stepped);
        let current = self.candidacy().and_then(|candidacy| candidacy.answered(flight.attempt));
        match reply {
            Ok(Stamped { reply, .. }) => {
                if let Some(candidacy) = self.candidacy() {
                    candidacy.own_grants = None;
                }
                if current.is_some_and(|before| before.doubts_news) {
                    self.knowledge.compare_with_store(reply.holder());
                }
                if let CampaignReply::Granted { token, count } = reply {
                    self.granted(now, flight, token, count, current.is_some() && !stepped);
                } else {
                    self.refused(now, flight, reply, current);
                }
            }
            Err(_) => {
                self.tell(Event::Campaigned { outcome: CampaignOutcome::Error });
                if let Some(before) = current {
                    self.unanswered(now, before);
                }
            }
        }
        self.end_if_idle();
    }

    /// No answer to the current campaign: it may have been granted. Session and attempt name it, though its token is
    /// not known.
    fn unanswered(&mut self, now: Mono, before: Candidacy) {
        let in_the_way = self.is_in_the_way(now, before.own_grants);
        if self.leaving || in_the_way {
            if !self.leaving {
                self.out_until = now + self.profile.timing.lease_duration();
            }
            return self.give_back(now, before.attempt, Token::NONE, ReleaseReason::Unused, now);
        }
        let repeat = self.profile.rules.repeat;
        if let Some(candidacy) = self.candidacy()
            && repeat
        {
            candidacy.pending = Pending::Unanswered;
        }
        let at = now + self.retry_delay();
        self.look(now, at);
    }

    /// After a step of the store's clock, whatever lease ended since may have ended early. By the time this is over,
    /// its holder has stepped down.
    pub(super) fn mind_step(&mut self, now: Mono, stepped: bool) {
        if stepped && self.is_candidate() {
            self.out_until = self.out_until.max(now + self.profile.timing.lease_duration());
        }
    }

    fn granted(&mut self, now: Mono, flight: Flight, token: Token, count: u64, current: bool) {
        self.tell(Event::Campaigned { outcome: CampaignOutcome::Granted });
        let behind = self.profile.rules.tokens && token <= self.knowledge.floor;
        self.knowledge.learn(RecordVersion { token, count, writer: Some(self.profile.session) }, now);
        let deadline = self.deadline(flight, now);
        let candidate = self.is_candidate();
        if candidate && (self.leaving || !self.app_healthy) {
            self.give_back(now, flight.attempt, token, ReleaseReason::Unused, now);
        } else if !current || behind {
            // Another leads, as a heartbeat, a later token or a stepped clock tells, though the store does not know it.
            // The lease is left to its TTL: a release would invite somebody else who does not know it
            // either.
            if candidate {
                self.look(now, now);
            }
        } else if now >= deadline {
            let at = now + self.retry_delay();
            self.look(now, at);
        } else {
            self.knowledge.guarded = None;
            self.knowledge.forget_rival(token);
            let next_renewal = now.max(flight.sent_at + self.first_period());
            let term = Term { attempt: flight.attempt, token, since: now, deadline, count, next_renewal };
            self.phase = Phase::Leading(term);
            self.leadership.open(token, deadline);
            self.tell(Event::Elected { token });
        }
    }

    fn refused(&mut self, now: Mono, flight: Flight, reply: CampaignReply, current: Option<Candidacy>) {
        let timing = self.profile.timing;
        let (outcome, wait) = match reply {
            CampaignReply::Held { holder, token, remaining, version } => {
                if current.is_some() && token > self.knowledge.floor && self.knowledge.floor > Token::NONE {
                    self.tell(Event::Contended { winner: holder.identity.clone(), token });
                }
                self.knowledge.learn(version, now);
                self.knowledge.guarded = None;
                // Counted from when the store may have read its clock at the earliest.
                let until = flight.sent_at + remaining.min(timing.lease_duration());
                self.follow(holder, token, until);
                (CampaignOutcome::Held, (remaining + past_renewal(timing.lease_duration())).min(timing.look_span()))
            }
            CampaignReply::Guarded { cause, remaining, version } => {
                self.knowledge.learn(version, now);
                let remaining = remaining.min(timing.lease_duration());
                if self.knowledge.guarded.is_none_or(|(known, until)| known != cause || until <= now) {
                    let is_first = self.knowledge.is_first(cause);
                    self.tell(Event::Guarded { cause, remaining, is_first });
                }
                self.knowledge.guarded = Some((cause, now + remaining));
                // Once in between as well: a guard that is due by then (a replica came, R6) begins when somebody asks.
                let wait = if self.profile.rules.still { remaining.min(timing.listen_span()) } else { remaining };
                (CampaignOutcome::Guarded, wait + self.profile.role_stagger)
            }
            CampaignReply::LookAgain { version, span } => {
                self.knowledge.learn(version, now);
                self.knowledge.guarded = None;
                // Long enough that the record is known to have stood still, or to be renewed; and a moment at least
                // where it was known already and could not be told (listening).
                let still = (self.knowledge.known_since().unwrap_or(now) + span).max(self.listen_until);
                let wait = if still > now { still.since(now) } else { timing.listen_span() / 10 };
                (CampaignOutcome::Guarded, wait + self.profile.role_stagger)
            }
            CampaignReply::Divided { token, after } => {
                self.knowledge.floor = self.knowledge.floor.max(token);
                self.knowledge.guarded = None;
                let divided = self.divided();
                (CampaignOutcome::Held, self.pause_between_rounds(divided, now.since(flight.sent_at), after))
            }
            CampaignReply::Stale { token, count } => {
                self.knowledge.learn(RecordVersion { token, count, writer: Some(self.profile.session) }, now);
                (CampaignOutcome::Error, Duration::ZERO)
            }
            CampaignReply::Granted { .. } => return,
        };
        self.tell(Event::Campaigned { outcome });
        if let Some(before) = current {
            let wait = if before.pending == Pending::OutAndStale { Duration::ZERO } else { wait };
            self.look(now, now + wait);
        }
    }

    /// How many times in a row a quorum was divided before this.
    fn divided(&mut self) -> u32 {
        let Some(candidacy) = self.candidacy() else { return 0 };
        candidacy.divided += 1;
        candidacy.divided - 1
    }

    fn follow(&mut self, holder: Holder, token: Token, until: Mono) {
        let identity = holder.identity.clone();
        if let Some(candidacy) = self.candidacy() {
            (candidacy.divided, candidacy.waited) = (0, false);
        }
        if self.knowledge.follow(holder, token, until) {
            self.tell(Event::Following { holder: identity, token });
        }
    }

    pub(super) fn heard(&mut self, now: Mono, news: Announcement) {
        if news.holder.session == self.profile.session {
            self.heard_own(now, &news);
            return;
        }
        if self.knowledge.disbelieves(news.holder.session) {
            return;
        }
        // Whoever has just been granted may not know yet how many listen, and a store need not say. A number that falls
        // does so step by step.
        if news.audience > 0 {
            self.knowledge.audience = news.audience.max(self.knowledge.audience / 2);
        }
        match news.kind {
            AnnouncementKind::Release => self.heard_release(now, &news),
            AnnouncementKind::Grant | AnnouncementKind::Heartbeat => self.heard_incumbent(now, news),
        }
    }

    /// A candidate hears of a grant that is its own, as a rule right before the answer.
    fn heard_own(&mut self, now: Mono, news: &Announcement) {
        let lease = self.profile.timing.lease_duration();
        if let Some(candidacy) = self.candidacy()
            && news.kind == AnnouncementKind::Grant
        {
            let unbroken = candidacy.own_grants.filter(|(_, last)| now.since(*last) < lease);
            candidacy.own_grants = Some((unbroken.map_or(now, |(first, _)| first), now));
        }
    }

    /// The store gives it the role, again and again, and for a whole lease no answer has counted: its acknowledgements
    /// do not come, say, or it is too far away. Others shall try, whom its lease keeps out.
    fn is_in_the_way(&self, now: Mono, own_grants: Option<(Mono, Mono)>) -> bool {
        let timing = &self.profile.timing;
        let is_deaf = now.since(self.answered_at) >= timing.lease_duration();
        self.profile.rules.makes_way
            && is_deaf
            && own_grants.is_some_and(|(first, _)| now.since(first) >= timing.renew_period())
    }

    fn heard_release(&mut self, now: Mono, news: &Announcement) {
        if !self.is_candidate() || !self.knowledge.forget_rival(news.token) {
            return;
        }
        let Announcement { token, count, .. } = *news;
        self.knowledge.released = Some((news.holder.session, token));
        self.knowledge.learn(RecordVersion { token, count, writer: Some(news.holder.session) }, now);
        self.look_for_vacancy(now);
    }

    fn heard_incumbent(&mut self, now: Mono, news: Announcement) {
        // A grant may be one that it had asked for before it ended.
        if news.kind == AnnouncementKind::Heartbeat {
            self.refute_departure(&news.holder);
        }
        if news.holder.identity == self.profile.identity && self.knowledge.is_new_clash(news.holder.session) {
            self.tell(Event::IdentityClash { session: news.holder.session });
        }
        if !self.is_candidate() || !self.profile.rules.heartbeats {
            self.knowledge.floor = self.knowledge.floor.max(news.token);
            self.doubt(now, news.token);
            return;
        }
        if !self.knowledge.hear(news.holder.session, news.token, news.count, now) {
            return;
        }
        self.answered = true;
        self.end_attempt(&news);
        self.knowledge.guarded = None;
        self.follow(news.holder, news.token, now + self.profile.timing.lease_duration());
        self.look(now, now);
    }

    /// Another leads: whatever answer is still out is about the past. The next campaign is a new attempt.
    fn end_attempt(&mut self, news: &Announcement) {
        let Phase::Candidate(candidacy) = &mut self.phase else { return };
        let awaited = candidacy.awaits_answer();
        candidacy.pending = Pending::None;
        if awaited {
            candidacy.attempt = self.profile.attempts.take();
        }
        if awaited && news.kind == AnnouncementKind::Grant {
            self.tell(Event::Contended { winner: Arc::clone(&news.holder.identity), token: news.token });
        }
    }

    /// From now on half a lease of listening comes before a grant that no release has opened (R8).
    pub(super) fn listen_anew(&mut self, now: Mono) {
        if self.profile.rules.listening {
            self.listen_until = self.listen_until.max(now + self.profile.timing.listen_span());
        }
    }

    /// Something may have been missed. If it was a release, the look finds the role open; if it was a heartbeat, half a
    /// lease of listening brings the next one, and until then this candidate counts as knowing nothing (R8).
    pub(super) fn missed_messages(&mut self, now: Mono) {
        let Phase::Candidate(Candidacy { attempt, look_at, .. }) = self.phase else { return };
        if attempt != Attempt::default() {
            self.mistrust_answer();
            let soon = (now + self.profile.role_stagger + self.stagger()).max(self.out_until);
            if let Some(candidacy) = self.candidacy() {
                candidacy.look_at = look_at.min(soon);
            }
        }
    }
}
