//! A candidate that learns, not from the store, that the leader's process has ended: it gives the lease back in its
//! place (R7), so that nobody has to wait for its end.
//!
//! Three things make that as safe as a release by the leader itself. The process is named by its session, which no
//! other process ever has: it cannot be confused with the one that was started in its place. It is not done before the
//! app's last promise has run out, which outlives the process (P3). And the store compares session and token: if the
//! lease is another's by now, nothing happens. What the dead process had sent and what arrives late finds a released
//! term; a campaign of its own that arrives late costs one more release.
//!
//! Whoever is heard to renew after its end has not ended, whatever was said: nothing of the kind is believed of it
//! again.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::super::ids::{Attempt, Candidate, Mono, SessionId, Token};
use super::super::messages::{Holder, ReleaseReply, ReleaseRequest, Stamped};
use super::event::Event;
use super::{Action, Election, Kind, NoReply, RequestId};

/// How many ended processes are remembered: a lease that one of them had asked for may still be granted.
const REMEMBERED: usize = 64;
/// A promise of the app's clock lasts so much of itself longer on this one: each may be 1 % off.
const DRIFT_FRACTION: u32 = 50;

/// The processes that are known to have ended.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Takeover {
    /// The oldest first.
    known: Vec<Departure>,
    /// Who was heard of after they were said to have ended, the latest first.
    refuted: VecDeque<SessionId>,
    /// The term that a release is out for.
    vacating: Option<Term>,
}

#[derive(Clone, Debug, Hash)]
struct Departure {
    session: SessionId,
    /// Its lease is not given back before this.
    due: Mono,
}

#[derive(Clone, Debug, Hash)]
struct Term {
    session: SessionId,
    token: Token,
    identity: Arc<str>,
}

impl Takeover {
    /// The earliest word counts: what was promised before it does not last longer for being told again.
    fn learn(&mut self, session: SessionId, due: Mono) {
        if self.refuted.contains(&session) {
            return;
        }
        if let Some(known) = self.known.iter_mut().find(|known| known.session == session) {
            known.due = known.due.min(due);
            return;
        }
        if self.known.len() == REMEMBERED {
            self.known.remove(0);
        }
        self.known.push(Departure { session, due });
    }

    /// It lives. True when it was taken for ended.
    fn refute(&mut self, session: SessionId) -> bool {
        let before = self.known.len();
        self.known.retain(|known| known.session != session);
        if self.known.len() == before {
            return false;
        }
        self.refuted.truncate(REMEMBERED - 1);
        self.refuted.push_front(session);
        true
    }

    fn due(&self, session: SessionId) -> Option<Mono> {
        self.known.iter().find(|known| known.session == session).map(|known| known.due)
    }

    fn put_off(&mut self, session: SessionId, due: Mono) {
        if let Some(known) = self.known.iter_mut().find(|known| known.session == session) {
            known.due = due;
        }
    }
}

impl Election {
    /// [`super::Input::Departed`].
    pub(super) fn departed(&mut self, now: Mono, session: SessionId, promise: Duration) {
        // Whoever says so of this process is wrong.
        if session != self.profile.session {
            let due = now + promise + promise / DRIFT_FRACTION + self.stagger();
            self.takeover.learn(session, due);
        }
    }

    /// A renewal of this session was heard: it has not ended.
    pub(super) fn refute_departure(&mut self, holder: &Holder) {
        if self.takeover.refute(holder.session) {
            self.tell(Event::DepartureRefuted { holder: Arc::clone(&holder.identity), session: holder.session });
        }
    }

    /// When the lease of the one that leads is given back in its place.
    pub(super) fn vacate_due(&self) -> Option<Mono> {
        let idle = self.app_healthy && !self.leaving && !self.flights.has(Kind::Vacate, Attempt::ANY);
        let (holder, token) = self.knowledge.rival_term().filter(|_| idle)?;
        self.takeover.due(holder.session).filter(|_| token != Token::NONE)
    }

    pub(super) fn vacate(&mut self, now: Mono) {
        let Some((holder, token)) = self.knowledge.rival_term() else { return };
        let term = Term { session: holder.session, token, identity: Arc::clone(&holder.identity) };
        let candidate = Candidate { session: term.session, attempt: Attempt::ANY };
        let request = ReleaseRequest { candidate, token, audience: self.knowledge.audience };
        // Not again and again where a store cannot do it.
        let again = now + self.retry_delay();
        self.takeover.put_off(term.session, again);
        self.takeover.vacating = Some(term);
        let id = self.flights.depart(now, Kind::Vacate, Attempt::ANY);
        self.actions.push_back(Action::Release { id, request });
    }

    pub(super) fn vacated(&mut self, now: Mono, id: RequestId, reply: Result<Stamped<ReleaseReply>, NoReply>) {
        let Some(flight) = self.flights.arrive(id, Kind::Vacate) else { return };
        let stepped = self.note_answer(now, flight, &reply);
        self.mind_step(now, stepped);
        if let (Some(term), Ok(Stamped { reply, .. })) = (self.takeover.vacating.take(), reply) {
            if reply == ReleaseReply::Released {
                self.tell(Event::Departed { holder: Arc::clone(&term.identity), token: term.token });
            }
            self.see_vacant(now, &term);
        }
        self.end_if_idle();
    }

    /// The lease is not there (any more): as when its release is heard.
    fn see_vacant(&mut self, now: Mono, term: &Term) {
        let follows = self.knowledge.rival_term().is_some_and(|(holder, _)| holder.session == term.session);
        if follows && self.is_candidate() && self.knowledge.forget_rival(term.token) {
            self.knowledge.released = Some((term.session, term.token));
            self.look_for_vacancy(now);
        }
    }
}
