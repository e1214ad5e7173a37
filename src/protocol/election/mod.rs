//! The state machine of one role on one replica, in the shape of quinn-proto's `Connection`: inputs and the passing of
//! time go in, actions come out, and somebody else owns the clock, the store and the network. Extra calls are harmless.

mod app_hold;
mod candidate;
mod clock_step;
mod event;
mod flights;
mod fork;
mod incumbent;
mod knowledge;
mod leadership;
mod stagger;
mod takeover;
mod term_guard;

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::ids::{Attempt, Attempts, Candidate, Mono, SessionId, Token};
use super::messages::{
    Announcement, CampaignReply, CampaignRequest, ReleaseReply, ReleaseRequest, RenewReply, RenewRequest, Stamped,
};
use super::random::Random;
use super::rules::Rules;
use super::timing::Timing;
pub use app_hold::{AppHoldEnd, AppHoldId, AppHoldScope};
pub use event::{CampaignOutcome, Event, LossReason, ReleaseReason, RenewalOutcome, State, View};
pub use flights::RequestId;
pub use leadership::{Leadership, Promise};
pub use term_guard::{Grace, GraceError, Sight, TermGuard, Verdict};

use flights::{Flight, Flights, Kind};
use knowledge::Knowledge;
use takeover::Takeover;

/// Who campaigns, and how.
#[derive(Clone, Debug, Hash)]
pub struct Profile {
    /// This start of this process.
    pub session: SessionId,
    /// The session's.
    pub attempts: Attempts,
    /// Its name for people.
    pub identity: Arc<str>,
    pub timing: Timing,
    /// False for `guard: off` (R5).
    pub guard: bool,
    /// The app has a health check: it counts as unwell until the first one succeeds.
    pub app_checked: bool,
    /// The rules in force: the store's, outside the simulation.
    pub rules: Rules,
    /// Where a process has many roles, how much later than its first it looks when all of them would in one moment:
    /// after a start, after a period in which none is granted, and when messages may have been missed. Zero where there
    /// are few.
    pub role_stagger: Duration,
    /// Seeds the spreading of wake-ups and retries.
    pub seed: u64,
}

/// For how long a release that is on its way is waited for when everything shall end at once.
const ABANDON_PATIENCE: Duration = Duration::from_secs(1);

/// What the driver shall do.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Send this and bring the reply back as [`Input::Campaigned`].
    Campaign { id: RequestId, request: CampaignRequest },
    /// Send this and bring the reply back as [`Input::Renewed`].
    Renew { id: RequestId, request: RenewRequest },
    /// Send this and bring the reply back as [`Input::Released`].
    Release { id: RequestId, request: ReleaseRequest },
    /// Log and count this.
    Tell(Event),
}

/// Why a request has no reply. Whether it was executed is not known (R2), whatever the reason.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NoReply {
    /// In words for people.
    pub reason: String,
    /// Whether the store does not let this replica, so that asking again soon changes nothing.
    pub is_denied: bool,
}

impl NoReply {
    /// For this reason, which may be gone at the next try.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), is_denied: false }
    }
}

/// What happened to an election.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    /// The answer to [`Action::Campaign`], or none.
    Campaigned { id: RequestId, reply: Result<Stamped<CampaignReply>, NoReply> },
    /// The answer to [`Action::Renew`], or none.
    Renewed { id: RequestId, reply: Result<Stamped<RenewReply>, NoReply> },
    /// The answer to [`Action::Release`], or none.
    Released { id: RequestId, reply: Result<Stamped<ReleaseReply>, NoReply> },
    /// The store published this (R8).
    Heard(Announcement),
    /// Messages may have been missed: a new subscription, or this process was paused. Look once.
    Gap,
    /// The app's health check.
    AppHealth { healthy: bool },
    /// Hand over and stay out for the cooldown. Ignored unless leading.
    Resign { cooldown: Duration },
    /// The same, because another should lead this shard (see [`super::Balance`]).
    HandOver { cooldown: Duration },
    /// From now on wait so much longer before each look, so that others may go first. Nothing changes for a leader, nor
    /// for a campaign without an answer, which may have been granted.
    Stagger { by: Duration },
    /// The process of this session has ended, as its node has seen, and will send nothing more. What its app was told
    /// is good for `promise` from now on at the most, by any clock that is up to 1 % off; then a candidate gives the
    /// lease back in its place. Nothing happens if the session has none. A heartbeat of it refutes this.
    Departed { session: SessionId, promise: Duration },
    /// The app has stopped acting on the promises given. Ignored unless draining.
    Drained,
    /// Nothing is left of what this replica itself did as leader (see [`Leadership::begin_work`]).
    WorkEnded,
    /// The last connection has ended by which the app showed that it lives (see [`Leadership::close_hold`]): as
    /// [`Self::Resign`], if it has not opened another by now.
    AppLeft { cooldown: Duration },
    /// Hand over and end.
    Shutdown,
    /// End now: release only if no promise is outstanding.
    Abandon,
}

/// What has become of a candidate's last campaign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Pending {
    /// There is none, or it was answered, or another was heard to lead: the next one is a new attempt.
    None,
    /// Its answer is waited for.
    Out,
    /// The same, but a release was heard since, or messages were missed: the answer may be older than that.
    OutAndStale,
    /// No answer came: the next request repeats its attempt (R1, R2).
    Unanswered,
}

/// What only a candidate knows.
#[derive(Clone, Copy, Debug, Hash)]
struct Candidacy {
    /// The current campaign's, or the last one's.
    attempt: Attempt,
    pending: Pending,
    /// When it campaigns next, unless it hears something better.
    look_at: Mono,
    /// It has had its stagger, and nobody is known to have come first: it has it once for each vacancy. What it knew
    /// at its first look would be too old at its second otherwise (R5 *vanished*), each time anew.
    waited: bool,
    /// How many times in a row a quorum was divided among several.
    divided: u32,
    /// Its last campaign went out although news of another keep it quiet: they have done so for long (R8).
    doubts_news: bool,
    /// Since when, and when last, grants of its own were heard that no answer has told of.
    own_grants: Option<(Mono, Mono)>,
}

impl Candidacy {
    /// `attempt`: the last one, of an earlier candidacy.
    fn new(attempt: Attempt, look_at: Mono) -> Self {
        let pending = Pending::None;
        Self { attempt, pending, look_at, waited: false, divided: 0, doubts_news: false, own_grants: None }
    }

    fn awaits_answer(&self) -> bool {
        matches!(self.pending, Pending::Out | Pending::OutAndStale)
    }

    /// An answer to this attempt came. Returns what stood until then, if this is the answer that was waited for.
    fn answered(&mut self, attempt: Attempt) -> Option<Self> {
        let before = (attempt == self.attempt && self.awaits_answer()).then_some(*self)?;
        self.pending = Pending::None;
        Some(before)
    }
}

/// One unbroken period of having the lease.
#[derive(Clone, Copy, Debug, Hash)]
struct Term {
    attempt: Attempt,
    token: Token,
    since: Mono,
    deadline: Mono,
    /// The renewal count after the last acknowledged request.
    count: u64,
    next_renewal: Mono,
}

/// A term that no longer leads.
#[derive(Clone, Copy, Debug, Hash)]
struct Drain {
    term: Term,
    reason: ReleaseReason,
    begun: Mono,
    /// When the last promise runs out.
    until: Mono,
    cooldown: Duration,
}

/// A lease that is being given back.
#[derive(Clone, Copy, Debug, Hash)]
struct Release {
    attempt: Attempt,
    /// [`Token::NONE`] when it was never told.
    token: Token,
    reason: ReleaseReason,
    since: Mono,
    /// When to try again if no answer comes.
    retry_at: Mono,
    /// When to leave it to its TTL.
    give_up_at: Mono,
    /// As what it goes on then, unless it ends.
    then: Candidacy,
}

#[derive(Clone, Copy, Debug, Hash)]
enum Phase {
    /// Waiting for the moment to look, or for the answer to a campaign.
    Candidate(Candidacy),
    Leading(Term),
    Draining(Drain),
    Releasing(Release),
    /// Nothing more will happen.
    Ended,
}

impl Phase {
    fn term(&self) -> Option<Term> {
        match self {
            Self::Leading(term) | Self::Draining(Drain { term, .. }) => Some(*term),
            Self::Candidate(_) | Self::Releasing(_) | Self::Ended => None,
        }
    }

    /// As what it goes on when it has no lease any more, or turns out to have none.
    fn candidacy_after(&self, now: Mono) -> Candidacy {
        match self {
            Self::Candidate(candidacy) => Candidacy { pending: Pending::None, own_grants: None, ..*candidacy },
            Self::Leading(term) | Self::Draining(Drain { term, .. }) => Candidacy::new(term.attempt, now),
            Self::Releasing(release) => release.then,
            Self::Ended => Candidacy::new(Attempt::default(), now),
        }
    }

    fn term_mut(&mut self) -> Option<&mut Term> {
        match self {
            Self::Leading(term) | Self::Draining(Drain { term, .. }) => Some(term),
            Self::Candidate(_) | Self::Releasing(_) | Self::Ended => None,
        }
    }
}

#[derive(Debug, Hash)]
pub struct Election {
    profile: Profile,
    leadership: Arc<Leadership>,
    random: Random,
    phase: Phase,
    knowledge: Knowledge,
    takeover: Takeover,
    /// How much later than it would a candidate looks, to let others go first.
    shard_stagger: Duration,
    /// When it last campaigned, or began.
    looked_at: Mono,
    /// No grant is accepted before this without a release (R8).
    listen_until: Mono,
    /// A cooldown after a resignation, or one lease after the store's clock was stepped forwards.
    out_until: Mono,
    /// The store's last failure, until it answers again.
    trouble: Option<String>,
    app_healthy: bool,
    /// The store has answered once.
    answered: bool,
    /// When the last answer came, or when this began.
    answered_at: Mono,
    leaving: bool,
    flights: Flights,
    actions: VecDeque<Action>,
}

impl Election {
    /// A candidate that looks at once.
    pub fn new(profile: Profile, now: Mono) -> Self {
        Self {
            leadership: Arc::new(Leadership::new(profile.timing.answer_validity())),
            random: Random::new(profile.seed),
            phase: Phase::Candidate(Candidacy::new(Attempt::default(), now + profile.role_stagger)),
            knowledge: Knowledge::default(),
            takeover: Takeover::default(),
            shard_stagger: Duration::ZERO,
            looked_at: now,
            listen_until: if profile.rules.listening { now + profile.timing.listen_span() } else { now },
            out_until: now,
            trouble: None,
            app_healthy: !profile.app_checked,
            answered: false,
            answered_at: now,
            leaving: false,
            flights: Flights::default(),
            actions: VecDeque::new(),
            profile,
        }
    }

    /// What an app may be told, for any thread to read.
    pub fn leadership(&self) -> &Arc<Leadership> {
        &self.leadership
    }

    /// The next thing to do, until there is none.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When [`Self::handle_timeout`] has something to do, if nothing comes in before.
    pub fn poll_timeout(&self) -> Option<Mono> {
        match &self.phase {
            Phase::Candidate(candidacy) => {
                let look = self.may_look(candidacy).then(|| self.look_due(candidacy));
                look.into_iter().chain(self.vacate_due()).min()
            }
            Phase::Ended => None,
            Phase::Leading(term) => Some(self.renewal_due(term).map_or(term.deadline, |due| due.min(term.deadline))),
            Phase::Draining(drain) => {
                let due = self.renewal_due(&drain.term).filter(|_| drain.reason != ReleaseReason::Unhealthy);
                Some(due.map_or(drain.until, |due| due.min(drain.until)))
            }
            Phase::Releasing(release) => Some(release.retry_at.min(release.give_up_at)),
        }
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Mono) {
        match self.phase {
            Phase::Candidate(_) => self.candidate_timeout(now),
            Phase::Leading(term) => self.leading_timeout(now, term),
            Phase::Draining(drain) => self.draining_timeout(now, drain),
            Phase::Releasing(release) => self.releasing_timeout(now, release),
            Phase::Ended => {}
        }
    }

    /// Something came in. Does what time demands first, so that a reply that comes after a deadline finds the term
    /// over.
    pub fn handle_input(&mut self, now: Mono, input: Input) {
        if matches!(input, Input::Gap) {
            // Before anything that is due goes out: it would claim to know what was perhaps missed.
            self.listen_anew(now);
        }
        if let Input::Stagger { by: shard_stagger } = input {
            // Before as well: what was due may be so no longer.
            self.shard_stagger = shard_stagger;
        }
        // A look that is due would be in vain if another leads. If nobody does, it still is due.
        let hears_first = self.is_candidate() && matches!(input, Input::Heard(_));
        if !hears_first {
            self.handle_timeout(now);
        }
        match input {
            Input::Campaigned { id, reply } => self.campaigned(now, id, reply),
            Input::Renewed { id, reply } => self.renewed(now, id, reply),
            Input::Released { id, reply } => self.released(now, id, reply),
            Input::Heard(announcement) => self.heard(now, announcement),
            Input::Gap => self.missed_messages(now),
            Input::AppHealth { healthy } => self.app_health(now, healthy),
            Input::Resign { cooldown } => self.resign(now, ReleaseReason::Resigned, cooldown),
            Input::HandOver { cooldown } => self.resign(now, ReleaseReason::Balanced, cooldown),
            Input::Stagger { .. } => {}
            Input::Departed { session, promise } => self.departed(now, session, promise),
            Input::Drained => self.drained(now),
            Input::WorkEnded => self.mind_promises(now),
            Input::AppLeft { cooldown } => self.app_left(now, cooldown),
            Input::Shutdown => self.shutdown(now),
            Input::Abandon => self.abandon(now),
        }
    }

    /// Whether the store has answered once, or published something about the role: before that, nothing is known of it.
    pub fn has_answer(&self) -> bool {
        self.answered
    }

    /// Whether the election is over: nothing more will come of it.
    pub fn is_ended(&self) -> bool {
        matches!(self.phase, Phase::Ended)
    }

    /// Whether it wants the lease, or waits for its moment to ask.
    pub fn is_candidate(&self) -> bool {
        matches!(self.phase, Phase::Candidate(_))
    }

    /// Whether promises of a term that no longer leads are running out.
    pub fn is_draining(&self) -> bool {
        matches!(self.phase, Phase::Draining(_))
    }

    /// What readers see besides the [`Leadership`].
    pub fn view(&self, now: Mono) -> View {
        let holder = match &self.phase {
            Phase::Leading(term) => Some((Arc::clone(&self.profile.identity), term.deadline)),
            Phase::Draining(drain) => Some((Arc::clone(&self.profile.identity), drain.term.deadline)),
            Phase::Candidate(_) | Phase::Releasing(_) | Phase::Ended => self.knowledge.rival(now),
        };
        let (state, reason) = self.describe(now);
        View { state, holder, reason, stays_out: self.stays_out(now) }
    }

    /// Whether it would not take the role if that were free.
    fn stays_out(&self, now: Mono) -> bool {
        match &self.phase {
            Phase::Candidate(_) => now < self.out_until,
            Phase::Leading(_) => false,
            Phase::Draining(_) | Phase::Releasing(_) | Phase::Ended => true,
        }
    }

    fn describe(&self, now: Mono) -> (State, Option<Cow<'static, str>>) {
        let because = |state, reason| (state, Some(Cow::Borrowed(reason)));
        let written = |state, reason: String| (state, Some(Cow::Owned(reason)));
        match &self.phase {
            Phase::Leading(_) => (State::Leading, None),
            Phase::Draining(drain) if drain.reason == ReleaseReason::Unhealthy => {
                because(State::Unhealthy, "the app's health check fails")
            }
            Phase::Draining(drain) => written(State::Draining, format!("handing over: {}", drain.reason.as_str())),
            Phase::Releasing(_) => because(State::Draining, "giving the lease back"),
            Phase::Ended => because(State::Standby, "this replica no longer takes part"),
            Phase::Candidate(_) if !self.app_healthy => because(State::Unhealthy, "the app's health check fails"),
            Phase::Candidate(candidacy) => {
                if let Some(trouble) = &self.trouble {
                    written(State::Unreachable, trouble.clone())
                } else if let Some((holder, _)) = self.knowledge.rival(now) {
                    written(State::Standby, format!("{holder} leads"))
                } else if now < self.out_until {
                    because(
                        State::Standby,
                        "this replica stays out for a while: it resigned, or the store's clock was stepped",
                    )
                } else if let Some((cause, _)) = self.knowledge.guarded.filter(|(_, until)| now < *until) {
                    if self.knowledge.is_first(cause) {
                        because(State::Guarded, "the store knows of no term of this role: watching for one lease")
                    } else {
                        let forgot = format!("the store may have forgotten a lease that stands ({cause})");
                        written(State::Guarded, format!("{forgot}: nobody new may lead for one lease"))
                    }
                } else if !self.stagger_left(candidacy).is_zero() {
                    because(
                        State::Standby,
                        "left to others for a while: to those that lead less than their share, or are preferred",
                    )
                } else if self.knowledge.knows_of_release() {
                    because(State::Campaigning, "the last leader gave the lease back; asking the store")
                } else if now < self.listen_until && candidacy.attempt != Attempt::default() {
                    because(State::Campaigning, "nobody is known to lead; watching for a lease before the first grant")
                } else {
                    because(State::Campaigning, "nobody is known to lead; asking the store")
                }
            }
        }
    }

    fn candidate(&self, attempt: Attempt) -> Candidate {
        Candidate { session: self.profile.session, attempt }
    }

    fn tell(&mut self, event: Event) {
        self.actions.push_back(Action::Tell(event));
    }

    /// What every answer tells, whatever else it says. True when the store's clock was stepped forwards a moment ago:
    /// leases end early then. A step long ago is over; whoever was silent that long listened to heartbeats
    /// meanwhile.
    fn note_answer<T>(&mut self, now: Mono, flight: Flight, reply: &Result<Stamped<T>, NoReply>) -> bool {
        match reply {
            Ok(stamped) => {
                self.trouble = None;
                self.answered = true;
                self.answered_at = now;
                let step = self.knowledge.clock.observe(flight.sent_at, now, stamped.store_time);
                if let Some(step) = step {
                    self.tell(Event::StoreClockStepped { by_ms: step.by_ms });
                }
                let recent = self.profile.timing.knowledge_span();
                self.profile.rules.listening && step.is_some_and(|step| step.by_ms > 0 && step.within < recent)
            }
            Err(failure) => {
                self.trouble = Some(failure.reason.clone());
                false
            }
        }
    }

    fn app_health(&mut self, now: Mono, healthy: bool) {
        if self.app_healthy == healthy {
            return;
        }
        self.app_healthy = healthy;
        match self.phase {
            Phase::Leading(term) if !healthy => {
                let held_for = now.since(term.since);
                self.tell(Event::Lost { token: term.token, reason: LossReason::Unhealthy, held_for });
                self.drain(now, term, ReleaseReason::Unhealthy, Duration::ZERO);
            }
            Phase::Candidate(_) if healthy => self.look(now, now),
            Phase::Candidate(_) | Phase::Leading(_) | Phase::Draining(_) | Phase::Releasing(_) | Phase::Ended => {}
        }
    }

    fn shutdown(&mut self, now: Mono) {
        self.leaving = true;
        match self.phase {
            // The last campaign may have been granted, and its answer lost: session and attempt name the lease.
            Phase::Candidate(Candidacy { pending: Pending::Unanswered, attempt, .. }) => {
                self.give_back(now, attempt, Token::NONE, ReleaseReason::Unused, now);
            }
            Phase::Candidate(_) => self.end_if_idle(),
            Phase::Leading(term) => self.drain(now, term, ReleaseReason::Shutdown, Duration::ZERO),
            Phase::Draining(_) | Phase::Releasing(_) | Phase::Ended => {}
        }
    }

    fn abandon(&mut self, now: Mono) {
        self.leaving = true;
        let term = match self.phase {
            Phase::Leading(term) => term,
            Phase::Draining(drain) => drain.term,
            Phase::Candidate(_) => {
                self.phase = Phase::Ended;
                return;
            }
            Phase::Releasing(release) => {
                // It is on its way; a lost answer is not worth a wait any more.
                let patience = ABANDON_PATIENCE.min(self.profile.timing.renew_period() / 5);
                let give_up_at = release.give_up_at.min(now + patience);
                self.phase = Phase::Releasing(Release { give_up_at, ..release });
                return;
            }
            Phase::Ended => return,
        };
        let until = self.leadership.close();
        if until <= now {
            self.give_back(now, term.attempt, term.token, ReleaseReason::Shutdown, term.since);
        } else {
            self.tell(Event::Abandoned { token: term.token, remaining: until.since(now) });
            self.phase = Phase::Ended;
        }
    }

    /// A candidate that leaves waits for its campaigns' answers: a lease that was granted meanwhile shall not be left
    /// behind.
    fn end_if_idle(&mut self) {
        if self.leaving && self.is_candidate() && self.flights.is_empty() {
            self.phase = Phase::Ended;
        }
    }
}

#[cfg(test)]
mod tests;
