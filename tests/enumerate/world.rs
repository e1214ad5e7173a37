//! Two replicas, one Redis, the network between them, and what was promised so far: one state of the search.
//!
//! All that happens happens in no time, in any order, and nothing waits for long: time passes, to the next moment that
//! matters to anybody, when nothing is left to happen before. Whatever departs from that is a fault and costs one of
//! the budget: a message that is lost, or late, so that time passes while it is on its way; a process that stands
//! still; a server that forgets.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use baton::protocol::{Input, RequestId, Token};

use crate::app::End;
use crate::bounds::{Bounds, Fault, LEASE, P2, P5};
use crate::clock::{MS, Nanos};
use crate::message::{Content, Message, Request, Task, name};
use crate::replica::{Outcome, Replica};
use crate::search::Explored;
use crate::server::{Data, Redis};

/// One thing that may happen next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The message that was sent as the so many-th of those on their way arrives.
    Arrive(usize),
    Lose(usize),
    Delay(usize),
    /// A replica does what is due.
    Wake(usize),
    /// It waits no longer for an answer.
    GiveUp(usize, RequestId),
    Pass,
    Pause(usize),
    Resume(usize),
    Kill(usize),
    Reload(usize),
    Resign(usize),
    AppEnds(usize, End),
    Restart(Data),
    Flush,
    Evict,
    Forward,
    Back,
}

#[derive(Clone, Debug)]
pub struct World {
    now: Nanos,
    replicas: [Arc<Replica>; 2],
    redis: Arc<Redis>,
    network: Vec<Message>,
    /// How many faults there may still be.
    budget: u8,
    /// How many processes there were.
    processes: u8,
    /// The greatest token of a term so far.
    top: Token,
    /// The last token that each replica was granted.
    granted: [Token; 2],
    /// A token that rightly may not be greater: when it was given, neither its asker nor the store's clock remembered
    /// the greatest.
    unremembered: Option<Token>,
    /// Since when the role is free by a release, with nothing amiss since.
    free_since: Option<Nanos>,
    /// A promise was broken that no later state shows.
    broken: Option<&'static str>,
}

impl Hash for World {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.now, self.budget, self.processes, self.broken).hash(state);
        (self.top, self.granted, self.unremembered, self.free_since).hash(state);
        (&self.replicas, &self.redis, &self.network).hash(state);
    }
}

/// How soon a role is led that was given back with nothing amiss (P4): "milliseconds".
const PROMPTLY: Nanos = 100 * MS;

impl World {
    /// In order on its link, unless it is late; and not at a process that stands still.
    fn may_arrive(&self, at: usize) -> bool {
        let message = &self.network[at];
        let is_first = || !self.network[..at].iter().any(|other| !other.is_late && other.link() == message.link());
        let is_heard = matches!(message.content, Content::Request(..)) || !self.replicas[message.replica].paused;
        is_heard && (message.is_late || is_first())
    }

    fn faults(&self, bounds: &Bounds, steps: &mut Vec<Step>) {
        let mut may = |fault, step| {
            if bounds.may(fault) {
                steps.push(step);
            }
        };
        for (at, replica) in self.replicas.iter().enumerate() {
            may(Fault::Kill, Step::Kill(at));
            if replica.has_app() {
                may(Fault::AppDies, Step::AppEnds(at, End::Dies));
                may(Fault::AppStops, Step::AppEnds(at, End::Stops));
            }
            if replica.paused {
                continue;
            }
            may(Fault::Pause, Step::Pause(at));
            if replica.leads(self.now) {
                may(Fault::Reload, Step::Reload(at));
                may(Fault::Resign, Step::Resign(at));
            }
        }
        if self.redis.is_known() {
            may(Fault::Restart, Step::Restart(Data::All));
            may(Fault::Loss, Step::Restart(Data::None));
            may(Fault::Flush, Step::Flush);
            may(Fault::Forward, Step::Forward);
            may(Fault::Back, Step::Back);
        }
        if self.redis.is_held(self.now) {
            may(Fault::Evict, Step::Evict);
        }
        for copy in 0..self.redis.copies() {
            may(Fault::Failover, Step::Restart(Data::Copy(copy)));
        }
    }

    /// The next moment that matters to anybody: something is due, a request is given up, or a lease ends while what may
    /// meet it is under way.
    fn next_moment(&self) -> Option<Nanos> {
        let is_late = self.network.iter().any(|message| message.is_late);
        let lease_ends =
            (is_late || self.replicas.iter().any(|replica| replica.paused)).then_some(self.redis.lease_ends);
        let of_replicas = self.replicas.iter().flat_map(|replica| {
            let promise = Some(replica.promised_until).filter(|_| is_late || replica.paused);
            [replica.due(), replica.give_up_due().map(|(when, _)| when), promise]
        });
        of_replicas.flatten().chain(lease_ends).filter(|when| *when > self.now).min()
    }

    fn take(&mut self, bounds: &Bounds, step: &Step) {
        match *step {
            Step::Arrive(at) => self.arrive(bounds, at),
            Step::Wake(at) => {
                let (now, replica) = (self.now, Arc::make_mut(&mut self.replicas[at]));
                let outcome = replica.wake(bounds, at, now);
                self.note(at, outcome);
            }
            Step::GiveUp(at, id) => {
                let (now, replica) = (self.now, Arc::make_mut(&mut self.replicas[at]));
                let outcome = replica.give_up(bounds, at, id, now);
                self.note(at, outcome);
            }
            Step::Pass => self.now = self.next_moment().expect("there is one"),
            Step::Resume(at) => self.resume(bounds, at),
            _ => {
                self.budget -= 1;
                self.free_since = None;
                self.suffer(bounds, step);
                if self.budget == 0 {
                    Arc::make_mut(&mut self.redis).forget_copies();
                }
            }
        }
    }

    fn suffer(&mut self, bounds: &Bounds, step: &Step) {
        let by = i128::from(LEASE) * 3 / 2;
        match *step {
            Step::Lose(at) => drop(self.network.remove(at)),
            Step::Delay(at) => self.network[at].is_late = true,
            Step::Pause(at) => Arc::make_mut(&mut self.replicas[at]).paused = true,
            Step::Kill(at) => self.kill(bounds, at),
            Step::Reload(at) => {
                let (now, replica) = (self.now, Arc::make_mut(&mut self.replicas[at]));
                let outcome = replica.reload(bounds, at, now);
                self.note(at, outcome);
            }
            Step::Resign(at) => self.input(bounds, at, Input::Resign { cooldown: bounds.timing(at).renew_period() }),
            Step::AppEnds(at, end) => {
                let (now, replica) = (self.now, Arc::make_mut(&mut self.replicas[at]));
                let outcome = replica.app_ends(bounds, at, end, now);
                self.note(at, outcome);
            }
            Step::Restart(data) => Arc::make_mut(&mut self.redis).restart(bounds.rules, data),
            Step::Flush => Arc::make_mut(&mut self.redis).flush(),
            Step::Evict => Arc::make_mut(&mut self.redis).evict(),
            Step::Forward => Arc::make_mut(&mut self.redis).step_clock(by),
            Step::Back => Arc::make_mut(&mut self.redis).step_clock(-by),
            Step::Arrive(_) | Step::Wake(_) | Step::GiveUp(..) | Step::Pass | Step::Resume(_) => {
                unreachable!("no fault")
            }
        }
    }

    fn input(&mut self, bounds: &Bounds, at: usize, input: Input) {
        let outcome = Arc::make_mut(&mut self.replicas[at]).input(bounds, at, input, self.now);
        self.note(at, outcome);
    }

    /// The process ends, and another starts. What the app was told stands; answers and news find nobody.
    fn kill(&mut self, bounds: &Bounds, at: usize) {
        self.processes += 1;
        let mut new = Replica::new(bounds, at, self.processes, self.now);
        new.promised_until = self.replicas[at].promised_until;
        self.replicas[at] = Arc::new(new);
        self.network.retain(|message| message.replica != at || matches!(message.content, Content::Request(..)));
    }

    /// What was published while it stood still is dropped, and it looks by itself.
    fn resume(&mut self, bounds: &Bounds, at: usize) {
        Arc::make_mut(&mut self.replicas[at]).paused = false;
        self.network.retain(|message| message.replica != at || !matches!(message.content, Content::News(_)));
        self.input(bounds, at, Input::Gap);
        let (now, replica) = (self.now, Arc::make_mut(&mut self.replicas[at]));
        let outcome = replica.see_app(bounds, at, now);
        self.note(at, outcome);
    }

    fn arrive(&mut self, bounds: &Bounds, at: usize) {
        let Message { replica, task, content, .. } = self.network.remove(at);
        match content {
            Content::Request(id, request) => self.execute(bounds, (replica, task), id, &request),
            Content::Answer(id, answer) => {
                let (now, to) = (self.now, Arc::make_mut(&mut self.replicas[replica]));
                if to.awaits(task, id) {
                    let outcome = to.answered(bounds, replica, id, answer, now);
                    self.note(replica, outcome);
                }
            }
            Content::News(news) => self.input(bounds, replica, Input::Heard(news)),
        }
    }

    fn execute(&mut self, bounds: &Bounds, from: (usize, Task), id: RequestId, request: &Request) {
        let (at, task) = from;
        let keeps = bounds.may(Fault::Failover) && self.budget > 0;
        let reply = Arc::make_mut(&mut self.redis).execute(bounds, id, request, self.now, keeps);
        if let (Some(token), Request::Campaign(request)) = (reply.granted, request) {
            self.granted[at] = token;
            let clock = self.redis.shows(self.now);
            if token <= self.top && request.floor < self.top && clock.0 < self.top.get() {
                self.unremembered = Some(token);
            }
        }
        if let Some(token) = reply.refused {
            self.judge_refusal(at, token);
        }
        if reply.released && self.replicas[1 - at].would_lead(self.now) {
            self.free_since = Some(self.now);
        }
        if let Some(news) = reply.news.filter(|_| bounds.rules.heartbeats) {
            for to in 0..2 {
                let (task, content) = (self.replicas[to].task, Content::News(news.clone()));
                self.network.push(Message { replica: to, task, is_late: false, content });
            }
        }
        if self.replicas[at].awaits(task, id) {
            let content = Content::Answer(id, reply.answer);
            self.network.push(Message { replica: at, task, is_late: false, content });
        }
    }

    /// P5: an incumbent is refused only where another has been granted a later term.
    fn judge_refusal(&mut self, at: usize, token: Token) {
        let is_overtaken = self.granted[1 - at] > token || self.granted[at] != token;
        if !is_overtaken && self.replicas[at].leads(self.now) {
            self.broken = Some(P5);
        }
    }

    fn note(&mut self, at: usize, outcome: Outcome) {
        for (id, request) in outcome.sent {
            let (task, content) = (self.replicas[at].task, Content::Request(id, request));
            self.network.push(Message { replica: at, task, is_late: false, content });
        }
        if let Some(token) = outcome.elected {
            if token <= self.top && self.unremembered != Some(token) {
                self.broken = Some(P2);
            }
            self.top = self.top.max(token);
        }
    }
}

impl Explored for World {
    type Step = Step;

    fn new(bounds: &Bounds) -> Self {
        let replica = |at: usize| Arc::new(Replica::new(bounds, at, u8::try_from(at).expect("two") + 1, 0));
        Self {
            now: 0,
            replicas: [replica(0), replica(1)],
            redis: Arc::new(Redis::new(bounds.rules, bounds.is_known)),
            network: Vec::new(),
            budget: bounds.faults_max,
            processes: 2,
            top: Token::NONE,
            granted: [Token::NONE; 2],
            unremembered: None,
            free_since: None,
            broken: None,
        }
    }

    fn now(&self) -> Nanos {
        self.now
    }

    fn replicas(&self) -> [&Replica; 2] {
        [&self.replicas[0], &self.replicas[1]]
    }

    fn broken(&self) -> Option<&'static str> {
        self.broken
    }

    fn has_led(&self) -> [bool; 2] {
        self.granted.map(|token| token > Token::NONE)
    }

    fn is_prompt(&self) -> bool {
        self.free_since.is_none_or(|since| self.now <= since + PROMPTLY)
    }

    fn steps(&self, bounds: &Bounds, steps: &mut Vec<Step>) {
        let mut is_quiet = true;
        for at in 0..2 {
            let replica = &self.replicas[at];
            if replica.paused {
                continue;
            }
            if let Some((_, id)) = replica.give_up_due().filter(|(when, _)| *when <= self.now) {
                steps.push(Step::GiveUp(at, id));
                is_quiet = false;
            }
            if replica.due().is_some_and(|when| when <= self.now) {
                steps.push(Step::Wake(at));
                is_quiet = false;
            }
        }
        for (at, message) in self.network.iter().enumerate() {
            if !self.may_arrive(at) {
                continue;
            }
            steps.push(Step::Arrive(at));
            if message.is_late {
                continue;
            }
            is_quiet = false;
            for (fault, step) in [(Fault::Lost, Step::Lose(at)), (Fault::Late, Step::Delay(at))] {
                if self.budget > 0 && bounds.may(fault) {
                    steps.push(step);
                }
            }
        }
        if is_quiet {
            let paused = (0..2).filter(|at| self.replicas[*at].paused);
            steps.extend(paused.map(Step::Resume));
        }
        if is_quiet && self.next_moment().is_some_and(|next| next <= bounds.until) {
            steps.push(Step::Pass);
        }
        if self.budget > 0 {
            self.faults(bounds, steps);
        }
    }

    fn after(&self, bounds: &Bounds, step: &Step) -> Self {
        let mut next = self.clone();
        next.take(bounds, step);
        for replica in &mut next.replicas {
            if !replica.paused && replica.leads(next.now) {
                Arc::make_mut(replica).ask(bounds, next.now);
            }
        }
        if next.replicas.iter().any(|replica| replica.leads(next.now)) {
            next.free_since = None;
        }
        next
    }

    fn words(&self, step: &Step) -> String {
        match step {
            Step::Arrive(at) => format!("{} arrives", self.network[*at].words()),
            Step::Lose(at) => format!("{} IS LOST", self.network[*at].words()),
            Step::Delay(at) => format!("{} IS LATE", self.network[*at].words()),
            Step::Wake(at) => format!("{} does what is due", name(*at)),
            Step::GiveUp(at, _) => format!("{} gives a request up", name(*at)),
            Step::Pass => "time passes".to_owned(),
            Step::Pause(at) => format!("{} STANDS STILL", name(*at)),
            Step::Resume(at) => format!("{} goes on", name(*at)),
            Step::Kill(at) => format!("{} IS KILLED, and another starts in its place", name(*at)),
            Step::Reload(at) => format!("{}'s ROLE IS REMOVED, and added again", name(*at)),
            Step::Resign(at) => format!("{} IS ASKED TO HAND OVER", name(*at)),
            Step::AppEnds(at, End::Dies) => format!("{}'s APP IS KILLED", name(*at)),
            Step::AppEnds(at, End::Stops) => format!("{}'s APP STOPS", name(*at)),
            Step::Restart(Data::All) => "REDIS IS RESTARTED, with its data".to_owned(),
            Step::Restart(Data::None) => "REDIS IS RESTARTED, without data".to_owned(),
            Step::Restart(Data::Copy(at)) => format!("A REPLICA OF REDIS TAKES OVER, as it was after {at} writes"),
            Step::Flush => "FLUSHALL".to_owned(),
            Step::Evict => "THE LEASE IS DELETED".to_owned(),
            Step::Forward => "THE CLOCK OF REDIS IS SET FORWARD by 15 s".to_owned(),
            Step::Back => "THE CLOCK OF REDIS IS SET BACK by 15 s".to_owned(),
        }
    }
}
