//! The side that has the lease: renewing it, losing it, draining it and giving it back (R2, R4, R7).

use std::time::Duration;

use super::super::ids::{Attempt, Mono, Token};
use super::super::messages::{RecordVersion, ReleaseReply, ReleaseRequest, RenewReply, RenewRequest, Stamped};
use super::event::{Event, LossReason, ReleaseReason, RenewalOutcome};
use super::{Action, Drain, Election, Flight, Kind, NoReply, Phase, Release, RequestId, Term};

/// For how long it is tried to give a lease back, at most a renewal period. A process that ends waits for it.
const RELEASE_PATIENCE: Duration = Duration::from_secs(5);

/// The same for one that may not have been granted at all.
const UNSURE_PATIENCE: Duration = Duration::from_secs(2);

impl Election {
    /// When the next renewal goes out; none while one is out.
    pub(super) fn renewal_due(&self, term: &Term) -> Option<Mono> {
        (!self.flights.has(Kind::Renew, term.attempt)).then_some(term.next_renewal)
    }

    pub(super) fn leading_timeout(&mut self, now: Mono, term: Term) {
        if now >= term.deadline {
            self.lose(now, LossReason::Expired);
        } else if self.renewal_due(&term).is_some_and(|due| now >= due) {
            self.renew(now);
        }
    }

    pub(super) fn draining_timeout(&mut self, now: Mono, drain: Drain) {
        if now >= drain.until {
            self.out_until = now + drain.cooldown;
            self.give_back(now, drain.term.attempt, drain.term.token, drain.reason, drain.term.since);
        } else if drain.reason != ReleaseReason::Unhealthy
            && self.renewal_due(&drain.term).is_some_and(|due| now >= due)
        {
            self.renew(now);
        }
    }

    fn renew(&mut self, now: Mono) {
        let Some(term) = self.phase.term() else { return };
        let request = RenewRequest {
            candidate: self.candidate(term.attempt),
            identity: self.profile.identity.clone(),
            token: term.token,
            count: term.count,
            lease_duration: self.profile.timing.lease_duration(),
            audience: self.knowledge.audience,
            guard: self.profile.guard,
        };
        let id = self.flights.depart(now, Kind::Renew, term.attempt);
        self.actions.push_back(Action::Renew { id, request });
        // Each renewal counts further, answered or not: two sides of a split would count alike otherwise, and a count
        // that one of them tells would seem to stand still on the other.
        if let Some(term) = self.phase.term_mut() {
            term.count += 1;
        }
    }

    pub(super) fn renewed(&mut self, now: Mono, id: RequestId, reply: Result<Stamped<RenewReply>, NoReply>) {
        let Some(flight) = self.flights.arrive(id, Kind::Renew) else { return };
        self.note_answer(now, flight, &reply);
        let took = now.since(flight.sent_at);
        let outcome = match &reply {
            Ok(Stamped { reply: RenewReply::Renewed { reasserted: true, .. }, .. }) => RenewalOutcome::Reasserted,
            Ok(Stamped { reply: RenewReply::Renewed { .. }, .. }) => RenewalOutcome::Ok,
            Ok(Stamped { reply: RenewReply::Lost { .. }, .. }) => RenewalOutcome::Lost,
            Err(_) => RenewalOutcome::Error,
        };
        // A term past its deadline is over for good, even if a late renewal succeeds (R2).
        let Some(term) = self.phase.term().filter(|term| term.attempt == flight.attempt) else {
            self.end_if_idle();
            return;
        };
        let failure = reply.as_ref().err().map(|failure| failure.reason.clone());
        self.tell(Event::Renewed { outcome, took, token: term.token, failure });
        match reply {
            Ok(Stamped { reply: RenewReply::Renewed { count, audience, .. }, .. }) => {
                let writer = Some(self.profile.session);
                self.knowledge.learn(RecordVersion { token: term.token, count, writer }, now);
                self.knowledge.audience = audience;
                let next_renewal = now.max(self.with_others(flight.sent_at + self.profile.timing.renew_period()));
                self.extend(count, self.deadline(flight, now), next_renewal);
            }
            Ok(Stamped { reply: RenewReply::Lost { token, holder }, .. }) => {
                self.knowledge.floor = self.knowledge.floor.max(token);
                if let Some(holder) = holder.filter(|holder| holder.session != self.profile.session) {
                    let until = flight.sent_at + self.profile.timing.lease_duration();
                    self.knowledge.follow(holder, token, until);
                }
                self.lose(now, LossReason::Superseded);
            }
            Err(_) => {
                let next_renewal = now + self.retry_delay();
                if let Some(term) = self.phase.term_mut() {
                    term.next_renewal = next_renewal;
                }
            }
        }
    }

    /// Until when an answered request lets this replica lead (R2).
    pub(super) fn deadline(&self, flight: Flight, now: Mono) -> Mono {
        let from = if self.profile.rules.sent_at { flight.sent_at } else { now };
        from + self.profile.timing.term_span()
    }

    /// Another was heard with a later token: the store shall say now, not at the next period, whether this term still
    /// stands.
    pub(super) fn doubt(&mut self, now: Mono, token: Token) {
        if let Phase::Leading(term) = &mut self.phase
            && token > term.token
        {
            term.next_renewal = now;
        }
    }

    /// A renewal counts. A draining term stays closed to readers.
    fn extend(&mut self, count: u64, deadline: Mono, next_renewal: Mono) {
        let Some(term) = self.phase.term_mut() else { return };
        term.count = term.count.max(count);
        term.deadline = term.deadline.max(deadline);
        term.next_renewal = next_renewal;
        match &mut self.phase {
            Phase::Leading(term) => self.leadership.open(term.token, term.deadline),
            // What this replica itself still does may have so much longer.
            Phase::Draining(drain) => drain.until = self.leadership.linger(drain.begun, drain.term.deadline),
            Phase::Candidate(_) | Phase::Releasing(_) | Phase::Ended => {}
        }
    }

    /// A term ends against this replica's will. Its promises need no care: none outlives the deadline, and where the
    /// store says that it is superseded there is nothing left to keep for them.
    fn lose(&mut self, now: Mono, reason: LossReason) {
        let Some(term) = self.phase.term() else { return };
        self.leadership.close();
        // A term that ended because the app was unwell was told of then.
        let mut is_told = false;
        if let Phase::Draining(drain) = self.phase {
            self.out_until = now + drain.cooldown;
            is_told = drain.reason == ReleaseReason::Unhealthy;
        }
        if !is_told {
            self.tell(Event::Lost { token: term.token, reason, held_for: now.since(term.since) });
        }
        self.phase = Phase::Candidate(self.phase.candidacy_after(now));
        let at = now + self.retry_delay();
        self.look(now, at);
        self.end_if_idle();
    }

    pub(super) fn resign(&mut self, now: Mono, reason: ReleaseReason, cooldown: Duration) {
        if let Phase::Leading(term) = self.phase {
            self.drain(now, term, reason, cooldown);
        }
    }

    pub(super) fn app_left(&mut self, now: Mono, cooldown: Duration) {
        match self.phase {
            Phase::Leading(term) if !self.leadership.is_held() => {
                self.drain(now, term, ReleaseReason::AppLeft, cooldown);
            }
            // What it was told may be over sooner than was said.
            Phase::Draining(_) => self.mind_promises(now),
            Phase::Leading(_) | Phase::Candidate(_) | Phase::Releasing(_) | Phase::Ended => {}
        }
    }

    pub(super) fn drained(&mut self, now: Mono) {
        if matches!(self.phase, Phase::Draining(_)) {
            self.leadership.forget_app_promises();
            self.mind_promises(now);
        }
    }

    /// Fewer promises may stand than when the drain began.
    pub(super) fn mind_promises(&mut self, now: Mono) {
        if let Phase::Draining(drain) = &mut self.phase {
            drain.until = self.leadership.promised_until();
            self.handle_timeout(now);
        }
    }

    /// R7: stops leading at once, and keeps the lease until the last promise has run out.
    pub(super) fn drain(&mut self, now: Mono, term: Term, reason: ReleaseReason, cooldown: Duration) {
        let closed = self.leadership.drain();
        // An app that is not well keeps the lease for nobody.
        let lingers = reason != ReleaseReason::Unhealthy;
        let promised = if lingers { self.leadership.linger(now, term.deadline) } else { closed };
        let until = if self.profile.rules.promises { promised } else { now };
        self.tell(Event::Draining { token: term.token, reason, remaining: until.since(now) });
        self.phase = Phase::Draining(Drain { term, reason, begun: now, until, cooldown });
        self.handle_timeout(now);
    }

    /// Sends the release; the lease is not the replica's from now on, whatever the answer.
    pub(super) fn give_back(&mut self, now: Mono, attempt: Attempt, token: Token, reason: ReleaseReason, since: Mono) {
        let patience = if token == Token::NONE { UNSURE_PATIENCE } else { RELEASE_PATIENCE };
        let give_up_at = now + patience.min(self.profile.timing.renew_period());
        let then = self.phase.candidacy_after(now);
        let release = Release { attempt, token, reason, since, retry_at: give_up_at, give_up_at, then };
        self.phase = Phase::Releasing(release);
        self.send_release(now, release);
    }

    fn send_release(&mut self, now: Mono, release: Release) {
        let request = ReleaseRequest {
            candidate: self.candidate(release.attempt),
            token: release.token,
            audience: self.knowledge.audience,
        };
        let id = self.flights.depart(now, Kind::Release, release.attempt);
        self.actions.push_back(Action::Release { id, request });
    }

    pub(super) fn releasing_timeout(&mut self, now: Mono, release: Release) {
        if now >= release.give_up_at {
            self.after_release(now, release);
        } else if now >= release.retry_at && !self.flights.has(Kind::Release, release.attempt) {
            self.phase = Phase::Releasing(Release { retry_at: release.give_up_at, ..release });
            self.send_release(now, release);
        }
    }

    pub(super) fn released(&mut self, now: Mono, id: RequestId, reply: Result<Stamped<ReleaseReply>, NoReply>) {
        let Some(flight) = self.flights.arrive(id, Kind::Release) else { return self.vacated(now, id, reply) };
        self.note_answer(now, flight, &reply);
        let Phase::Releasing(release) = self.phase else {
            self.end_if_idle();
            return;
        };
        if release.attempt != flight.attempt {
            return;
        }
        match reply {
            Ok(Stamped { reply, .. }) => {
                if reply == ReleaseReply::Released {
                    let held_for = now.since(release.since);
                    self.tell(Event::Released { token: release.token, reason: release.reason, held_for });
                }
                self.after_release(now, release);
            }
            // As when an uninstall has taken the rights away: the lease is left to its TTL. Whoever stays has the time
            // to find out whether it was for a moment only.
            Err(failure) if failure.is_denied && self.leaving => {
                if release.token != Token::NONE {
                    self.tell(Event::Abandoned { token: release.token, remaining: Duration::ZERO });
                }
                self.after_release(now, release);
            }
            Err(_) => {
                let retry_at = now + self.retry_delay();
                self.phase = Phase::Releasing(Release { retry_at, ..release });
            }
        }
    }

    fn after_release(&mut self, now: Mono, release: Release) {
        if self.leaving {
            self.phase = Phase::Ended;
        } else {
            self.phase = Phase::Candidate(release.then);
            self.look(now, now);
        }
    }
}
