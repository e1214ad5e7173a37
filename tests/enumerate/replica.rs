//! One of the two replicas: the real election, its connection's view of what is out, and its app, which asks whenever
//! it can and acts on every answer to its very end.

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use baton::protocol::{
    Action, AppHoldEnd, AppHoldId, Attempts, Election, Event, Input, Profile, RequestId, SessionId, Token,
};

use crate::app::End;
use crate::bounds::Bounds;
use crate::clock::{FAST, Nanos, Ppm, SECOND, SLOW, shows, when};
use crate::message::{Kind, Request, Task};

/// When a process gives a request up.
const COMMAND_TIMEOUT: Nanos = SECOND;

/// A request that an answer is waited for.
#[derive(Clone, Debug, Hash)]
struct Outstanding {
    id: RequestId,
    give_up_at: Nanos,
    kind: Kind,
}

#[derive(Debug)]
pub struct Replica {
    election: Election,
    /// Another after it was killed, and after a reload.
    pub task: Task,
    outstanding: Vec<Outstanding>,
    /// The greatest attempt that it sent.
    attempt: u64,
    rate: Ppm,
    /// Until when, in true time, its app may act on an answer that it has read.
    pub promised_until: Nanos,
    pub paused: bool,
    /// The connection by which its app shows that it lives.
    hold: Option<AppHoldId>,
    /// That app's end, while the process stands still and cannot see it.
    unseen: Option<End>,
    /// A reload has removed the role and adds it again.
    wanted_again: bool,
}

/// What came of a step of an election.
#[derive(Default)]
pub struct Outcome {
    pub sent: Vec<(RequestId, Request)>,
    pub elected: Option<Token>,
}

impl Clone for Replica {
    fn clone(&self) -> Self {
        Self { election: self.election.fork(), outstanding: self.outstanding.clone(), ..*self }
    }
}

impl Hash for Replica {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.election.hash(state);
        self.outstanding.hash(state);
        (self.task, self.attempt, self.promised_until, self.paused, self.wanted_again).hash(state);
        (self.hold, self.unseen).hash(state);
    }
}

impl Replica {
    pub fn new(bounds: &Bounds, at: usize, session: u8, now: Nanos) -> Self {
        let rate = if at == 0 { SLOW } else { FAST };
        let task = Task { session: SessionId::from_u128(u128::from(session)), number: 0 };
        let election = election(bounds, at, task.session, Attempts::default(), rate, now);
        Self {
            election,
            task,
            outstanding: Vec::new(),
            attempt: 0,
            rate,
            promised_until: 0,
            paused: false,
            hold: None,
            unseen: None,
            wanted_again: false,
        }
    }

    /// Whether it would say so if it were asked now.
    pub fn leads(&self, now: Nanos) -> bool {
        self.election.leadership().leads(shows(self.rate, now))
    }

    /// Whether its app may act: because it would be told so now, or by an answer that is still valid.
    pub fn acts(&self, now: Nanos) -> bool {
        now < self.promised_until || self.leads(now)
    }

    /// Whether it takes the role if that is free.
    pub fn would_lead(&self, now: Nanos) -> bool {
        !self.paused && self.election.is_candidate() && !self.election.view(shows(self.rate, now)).stays_out
    }

    pub fn state(&self, now: Nanos) -> &'static str {
        self.election.view(shows(self.rate, now)).state.as_str()
    }

    /// Its app asks, or is told over its connection.
    pub fn ask(&mut self, bounds: &Bounds, now: Nanos) {
        let (local, leadership) = (shows(self.rate, now), self.election.leadership());
        let promise = match bounds.app.scope() {
            None => leadership.promise(local),
            Some(scope) => self.hold.and_then(|hold| leadership.promise_held(local, hold)).or_else(|| {
                // The term of the one before is over.
                self.hold.take().map(|hold| leadership.close_hold(hold, AppHoldEnd::Broken));
                let (hold, promise) = leadership.open_hold(local, scope)?;
                self.hold = Some(hold);
                Some(promise)
            }),
        };
        if let Some(promise) = promise {
            self.promised_until = self.promised_until.max(when(self.rate, local + promise.valid_for));
        }
    }

    /// Whether it has an app whose end would be seen.
    pub fn has_app(&self) -> bool {
        self.hold.is_some() && self.unseen.is_none()
    }

    /// Its app ends, and another begins once its sidecar has seen that.
    pub fn app_ends(&mut self, bounds: &Bounds, at: usize, end: End, now: Nanos) -> Outcome {
        if end.is_whole(bounds.app) {
            self.promised_until = self.promised_until.min(now);
        }
        self.unseen = Some(end);
        if self.paused { Outcome::default() } else { self.see_app(bounds, at, now) }
    }

    /// Sees the end of its app, if that has ended.
    pub fn see_app(&mut self, bounds: &Bounds, at: usize, now: Nanos) -> Outcome {
        let Some(end) = self.unseen.take() else { return Outcome::default() };
        let Some(hold) = self.hold.take() else { return Outcome::default() };
        if self.election.leadership().close_hold(hold, end.seen()) {
            return self.input(bounds, at, Input::AppLeft { cooldown: bounds.timing(at).renew_period() }, now);
        }
        Outcome::default()
    }

    /// The next moment at which it does something by itself.
    pub fn due(&self) -> Option<Nanos> {
        self.election.poll_timeout().map(|at| when(self.rate, at))
    }

    /// The next moment at which it gives a request up, and which.
    pub fn give_up_due(&self) -> Option<(Nanos, RequestId)> {
        self.outstanding.iter().map(|out| (out.give_up_at, out.id)).min()
    }

    pub fn wake(&mut self, bounds: &Bounds, at: usize, now: Nanos) -> Outcome {
        self.election.handle_timeout(shows(self.rate, now));
        self.obey(bounds, at, now)
    }

    /// Whether anybody still waits for this answer.
    pub fn awaits(&self, task: Task, id: RequestId) -> bool {
        self.task == task && self.outstanding.iter().any(|out| out.id == id)
    }

    pub fn give_up(&mut self, bounds: &Bounds, at: usize, id: RequestId, now: Nanos) -> Outcome {
        let Some(found) = self.outstanding.iter().position(|out| out.id == id) else { return Outcome::default() };
        let out = self.outstanding.remove(found);
        self.election.handle_input(shows(self.rate, now), out.kind.unanswered(id));
        self.obey(bounds, at, now)
    }

    pub fn answered(&mut self, bounds: &Bounds, at: usize, id: RequestId, answer: Input, now: Nanos) -> Outcome {
        self.outstanding.retain(|out| out.id != id);
        self.input(bounds, at, answer, now)
    }

    pub fn input(&mut self, bounds: &Bounds, at: usize, input: Input, now: Nanos) -> Outcome {
        self.election.handle_input(shows(self.rate, now), input);
        self.obey(bounds, at, now)
    }

    /// A reload removes the role, and adds it again as soon as its task has ended.
    pub fn reload(&mut self, bounds: &Bounds, at: usize, now: Nanos) -> Outcome {
        self.wanted_again = true;
        self.input(bounds, at, Input::Shutdown, now)
    }

    /// Does what the election asks for.
    fn obey(&mut self, bounds: &Bounds, at: usize, now: Nanos) -> Outcome {
        let mut outcome = Outcome::default();
        while let Some(action) = self.election.poll_action() {
            let (id, request) = match action {
                Action::Campaign { id, request } => {
                    self.attempt = self.attempt.max(request.candidate.attempt.0);
                    (id, Request::Campaign(request))
                }
                Action::Renew { id, request } => (id, Request::Renew(request)),
                Action::Release { id, request } => (id, Request::Release(request)),
                Action::Tell(event) => {
                    if let Event::Elected { token } = event {
                        outcome.elected = Some(token);
                    }
                    continue;
                }
            };
            let out = Outstanding { id, give_up_at: now + COMMAND_TIMEOUT, kind: request.kind() };
            self.outstanding.push(out);
            outcome.sent.push((id, request));
        }
        if self.wanted_again && self.election.is_ended() {
            self.wanted_again = false;
            let attempts = Attempts::default();
            if bounds.attempts_rise {
                (0..self.attempt).for_each(|_| _ = attempts.take());
            }
            self.election = election(bounds, at, self.task.session, attempts, self.rate, now);
            self.outstanding.clear();
            (self.hold, self.unseen) = (None, None);
            self.task.number += 1;
        }
        outcome
    }
}

fn election(bounds: &Bounds, at: usize, session: SessionId, attempts: Attempts, rate: Ppm, now: Nanos) -> Election {
    let profile = Profile {
        session,
        attempts,
        identity: Arc::from(["r1", "r2"][at]),
        timing: bounds.timing(at),
        guard: true,
        app_checked: false,
        rules: bounds.rules,
        role_stagger: Duration::ZERO,
        seed: 1,
    };
    Election::new(profile, shows(rate, now))
}
