//! The sidecars: each a process with a clock, an app beside it, connections to Redis, and one task that runs the real
//! `Election`; for a while two, where a reload has removed the role and added it again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use baton::protocol::{Action, AppHoldId, Attempts, Election, Event, Input, Profile, RequestId, SessionId, Timing};

use crate::checker::Watched;
use crate::clockwork::{AppHabit, LocalClock, MS, Nanos, SECOND};
use crate::departures::Pod;
use crate::network::{Request, Sent};
use crate::world::{Happening, World};

pub const ANSWER_VALIDITY_MS: u64 = 3_000;

/// One task of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    pub process: usize,
    pub task: usize,
}

pub struct Task {
    pub election: Election,
    /// Until when, in true time, the app may act on an answer it has read.
    pub promised_until: Nanos,
    /// The connection by which the app shows that it lives.
    pub hold: Option<AppHoldId>,
    pub outstanding: BTreeMap<RequestId, Sent>,
    wake_planned: Option<Nanos>,
}

pub struct Process {
    pub session: SessionId,
    pub pod: Pod,
    pub clock: LocalClock,
    pub alive: bool,
    /// The last is the one that a reload added.
    pub tasks: Vec<Task>,
    /// A reload wants the role again.
    pub wanted_again: bool,
    pub paused_until: Nanos,
    pub cut: Cut,
    /// The server that its commands go to, and the one that it is subscribed at.
    pub to: usize,
    pub ears: usize,
    /// It does not hear that another server is the master now.
    pub stays: bool,
    /// How many times its subscription breaks and comes back, a moment apart.
    pub flaps_until: Nanos,
    pub lease: Nanos,
    /// What its connection was told of the server last.
    pub told: Option<String>,
    /// Where all of its tasks take their attempts from.
    attempts: Attempts,
    habit: AppHabit,
    /// Until when the app is not there.
    pub app_down_until: Nanos,
    place: Duration,
    /// Until when it acts, as the trace of the run has it.
    pub traced_until_us: u64,
}

/// Until when what does not get through.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cut {
    pub requests: Nanos,
    pub replies: Nanos,
    pub news: Nanos,
}

impl Watched for Process {
    fn leads(&self, now: Nanos) -> bool {
        self.alive && self.tasks.iter().any(|task| task.election.leadership().leads(self.clock.shows(now)))
    }

    fn serves(&self, now: Nanos) -> bool {
        self.leads(now) && now >= self.app_down_until
    }

    fn acts(&self, now: Nanos) -> bool {
        self.leads(now) || self.tasks.iter().any(|task| now < task.promised_until)
    }
}

fn timing(lease: Nanos) -> Timing {
    let length = Duration::from_nanos(lease);
    let validity = Duration::from_millis(ANSWER_VALIDITY_MS).min(length / 3);
    Timing::new(length, length / 3, length / 20, validity).expect("the table's timings")
}

impl World {
    pub fn join(&mut self) {
        self.start_in(Pod(self.processes.len()));
    }

    /// A new process in this pod.
    pub fn start_in(&mut self, pod: Pod) {
        let living = self.processes.iter().filter(|process| process.alive).count();
        if living >= self.scenario.living_max {
            return;
        }
        let lease = self.scenario.leases[self.rng.usize(0..2)];
        let clock = LocalClock::any(&mut self.rng);
        let habit = AppHabit::any(&mut self.rng);
        // Where a process has many roles, some look later than others.
        let place = if self.rng.u8(0..6) == 0 { Duration::from_millis(self.rng.u64(0..3_000)) } else { Duration::ZERO };
        let process = Process {
            session: SessionId::from_u128(self.processes.len() as u128 + 1),
            pod,
            clock,
            alive: true,
            tasks: Vec::new(),
            wanted_again: false,
            paused_until: 0,
            cut: Cut::default(),
            to: self.official,
            ears: self.official,
            stays: false,
            flaps_until: 0,
            lease,
            told: None,
            attempts: Attempts::default(),
            habit,
            app_down_until: 0,
            place,
            traced_until_us: 0,
        };
        let new = self.processes.len();
        self.processes.push(process);
        self.note(|_| format!("process {new} joins, with a lease of {} s", lease / SECOND));
        self.watch_from(new);
        self.start_task(new);
    }

    /// The role begins in this process.
    pub fn start_task(&mut self, process: usize) {
        let seed = self.rng.u64(..);
        let of = &self.processes[process];
        let profile = Profile {
            session: of.session,
            attempts: if self.scenario.around.attempts_rise { of.attempts.clone() } else { Attempts::default() },
            identity: Arc::from(format!("process-{process}")),
            timing: timing(of.lease),
            guard: self.scenario.around.guard,
            app_checked: false,
            rules: self.scenario.rules,
            role_stagger: of.place,
            seed,
        };
        let election = Election::new(profile, of.clock.shows(self.now));
        let task = Task { election, promised_until: 0, hold: None, outstanding: BTreeMap::new(), wake_planned: None };
        self.processes[process].tasks.push(task);
        self.processes[process].wanted_again = false;
        let at = At { process, task: self.processes[process].tasks.len() - 1 };
        self.note(|_| format!("{at} begins"));
        self.serve(at);
    }

    pub fn task(&mut self, at: At) -> &mut Task {
        &mut self.processes[at.process].tasks[at.task]
    }

    /// The task that stands for the role in this process now.
    pub fn newest(&self, process: usize) -> At {
        At { process, task: self.processes[process].tasks.len() - 1 }
    }

    /// Lets the apps ask, and holds the answers against the promises.
    pub fn look_around(&mut self) {
        let (now, app) = (self.now, self.scenario.app);
        for process in 0..self.processes.len() {
            let sometimes = self.rng.u8(0..16) == 0;
            let of = &mut self.processes[process];
            let asks = match of.habit {
                AppHabit::Always | AppHabit::Drains => true,
                AppHabit::Sometimes => sometimes,
            };
            if !(asks && of.alive) || now < of.paused_until.max(of.app_down_until) {
                continue;
            }
            let local = of.clock.shows(now);
            for task in 0..of.tasks.len() {
                let asked = &mut of.tasks[task];
                if let Some(promise) = asked.tell_app(local, app) {
                    let until = of.clock.when(local + promise.valid_for, now);
                    asked.promised_until = asked.promised_until.max(until);
                } else if let Some(hold) = asked.hold {
                    let soon = now + self.rng.u64(0..500 * MS);
                    self.timeline.plan(soon, Happening::AppStops { at: At { process, task }, hold });
                } else if matches!(of.habit, AppHabit::Drains) && asked.election.is_draining() {
                    let soon = now + self.rng.u64(0..500 * MS);
                    self.timeline.plan(soon, Happening::AppDrained(At { process, task }));
                }
            }
        }
        self.checker.observe(now, &self.processes);
    }

    /// Whether a process can take this now. A paused one takes it when it goes on.
    pub fn awake(&mut self, process: usize, happening: impl FnOnce() -> Happening) -> bool {
        let of = &self.processes[process];
        if !of.alive {
            return false;
        }
        if self.now < of.paused_until {
            let later = of.paused_until + MS;
            self.at(later, happening());
            return false;
        }
        true
    }

    pub fn wake(&mut self, at: At) {
        let now = self.now;
        let task = self.task(at);
        if task.wake_planned == Some(now) {
            task.wake_planned = None;
        }
        if self.awake(at.process, || Happening::Wake(at)) {
            let local = self.processes[at.process].clock.shows(now);
            self.task(at).election.handle_timeout(local);
            self.serve(at);
        }
    }

    pub fn input(&mut self, at: At, input: Input) {
        self.note(|world| {
            let of = &world.processes[at.process];
            let state = of.tasks[at.task].election.view(of.clock.shows(world.now)).state;
            format!("{at} <- {input:?} (state {state})")
        });
        let local = self.processes[at.process].clock.shows(self.now);
        self.task(at).election.handle_input(local, input);
        self.serve(at);
    }

    /// What every task of a process is told.
    pub fn input_all(&mut self, process: usize, input: &Input) {
        for task in 0..self.processes[process].tasks.len() {
            self.input(At { process, task }, input.clone());
        }
    }

    /// Does what the election asks for.
    fn serve(&mut self, at: At) {
        let mut starts = false;
        while let Some(action) = self.task(at).election.poll_action() {
            match action {
                Action::Campaign { id, request } => {
                    self.send(at, id, Sent::Campaign, Request::Campaign(request));
                }
                Action::Renew { id, request } => self.send(at, id, Sent::Renew, Request::Renew(request)),
                Action::Release { id, request } => self.send(at, id, Sent::Release, Request::Release(request)),
                Action::Tell(event) => {
                    self.note(|_| format!("{at} tells {event:?}"));
                    if let Event::Elected { token } = event {
                        self.checker.elected(self.now, at.process, token);
                        starts = true;
                    }
                }
            }
        }
        self.trace_leadership(at.process, starts);
        self.plan_wake(at);
        self.mind_the_end(at);
    }

    /// How much later than alone the first of those that live comes to a look.
    pub fn least_place(&self) -> Nanos {
        let places = self.processes.iter().filter(|of| of.alive).map(|of| of.place);
        places.min().map_or(0, |place| u64::try_from(place.as_nanos()).expect("seconds"))
    }

    fn plan_wake(&mut self, at: At) {
        let now = self.now;
        let of = &mut self.processes[at.process];
        let task = &mut of.tasks[at.task];
        let Some(due) = task.election.poll_timeout() else { return };
        let when = of.clock.when(due, now);
        if task.wake_planned.is_none_or(|planned| when < planned) {
            task.wake_planned = Some(when);
            self.at(when, Happening::Wake(at));
        }
    }

    /// A task that is over: the process ends with it, unless a reload wants the role again.
    fn mind_the_end(&mut self, at: At) {
        let of = &mut self.processes[at.process];
        let over = of.alive && of.tasks.iter().all(|task| task.election.is_ended());
        if !over {
            return;
        }
        if of.wanted_again {
            self.start_task(at.process);
            return;
        }
        of.alive = false;
        self.note(|_| format!("process {} ends", at.process));
        self.end(at.process);
        let when = self.now + self.span(0, 5 * SECOND);
        self.at(when, Happening::Join);
    }

    /// A reload adds the role again.
    pub fn add_again(&mut self, process: usize) {
        if !self.awake(process, || Happening::AddAgain(process)) || !self.processes[process].wanted_again {
            return;
        }
        let ended = self.processes[process].tasks.iter().all(|task| task.election.is_ended());
        if ended || !self.scenario.around.waits_for_the_old_task {
            self.start_task(process);
        }
    }
}

impl std::fmt::Display for At {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "process-{}", self.process)?;
        (0..self.task).try_for_each(|_| write!(f, "'"))
    }
}
