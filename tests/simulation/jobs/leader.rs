//! A replica in its term: what the driver does, as small as it may be.

use std::collections::BTreeMap;

use baton::protocol::jobs::{
    Backfills, Ending, JobAction, JobController, JobInput, JobProfile, JobRequestId, Leaps, Ledger, LedgerTerm, Moment,
    OpenReply, Phase, Slot, Stored, Wall, WriteReply,
};
use baton::protocol::{RoleName, Token};

use super::world::{Call, Focus, Happening, JOBS, Nanos, RELOADED_WITHIN, Reply, Rules, SECOND, TIMEOUT, World};
use crate::clockwork::{LocalClock, MS};

/// How long a lease is, and how much of it must be left for a start.
pub const LEASE: Nanos = 6 * SECOND;
pub const CANCEL: Nanos = SECOND;
/// More than any step has reason to do.
const ACTIONS_MAX: usize = 400;

pub struct Leader {
    pub id: usize,
    pub role: usize,
    pub token: Token,
    pub clock: LocalClock,
    /// How far its clock of the day is off.
    pub offset_ms: i64,
    pub alive: bool,
    pub closing: bool,
    /// No other leads before this.
    pub tenure_until: Nanos,
    pub paused_until: Nanos,
    pub cut_until: Nanos,
    /// Those that it takes for its role's.
    pub jobs: [Option<JobController>; JOBS],
    /// Jobs that are another role's now, and may still be ending here.
    pub retiring: [bool; JOBS],
    /// How often each was begun: what was asked for an earlier one is nothing to a later one.
    pub lives: [u64; JOBS],
    /// The configuration that each job was given last.
    pub profiles: Vec<JobProfile>,
    pub running: BTreeMap<(usize, Slot), u32>,
    wakes: [u64; JOBS],
}

impl World {
    pub fn moment(&self, leader: &Leader) -> Moment {
        let room = !self.scenario.rules.room || self.now + CANCEL <= leader.tenure_until;
        Moment { mono: leader.clock.shows(self.now), wall: self.wall(leader.offset_ms), room, places: usize::MAX }
    }

    /// The same for one of its jobs, which has places for what it runs and for what no job runs.
    pub fn moment_of(&self, leader: &Leader, job: usize) -> Moment {
        let Some(most) = self.places.filter(|_| self.scenario.rules.places) else { return self.moment(leader) };
        let ours = leader.running.keys().filter(|(of, _)| *of == job).count();
        let places = ours + most.saturating_sub(leader.running.len());
        Moment { places, ..self.moment(leader) }
    }

    pub fn wall(&self, offset_ms: i64) -> Wall {
        Wall::from_millis((super::world::BEGIN_MS + self.now / MS).saturating_add_signed(offset_ms))
    }

    pub fn elect(&mut self, role: usize) {
        let id = self.leaders.len();
        let step = if self.one_in(2) { self.rng.u64(1..4) } else { self.rng.u64(1..1_000_000) };
        self.tokens[role] += step;
        let token = Token::new(self.tokens[role]).expect("small");
        let is_far = self.far && !self.is_calm() && self.one_in(4);
        let offset_ms = if is_far { self.far_offset() } else { self.rng.i64(-3_000..=3_000) };
        if is_far {
            let wrong_for = self.span(SECOND, 30 * SECOND);
            self.after(wrong_for, Happening::ClockRight(id));
        }
        let mut profiles: Vec<JobProfile> = (0..JOBS).map(|job| self.profile(job)).collect();
        let deaf = self.one_in(2);
        if deaf {
            // It has not heard of a pause yet.
            profiles.iter_mut().for_each(|profile| profile.pause = None);
        }
        let leader = Leader {
            id,
            role,
            token,
            clock: LocalClock::any(&mut self.rng),
            offset_ms,
            alive: true,
            closing: false,
            tenure_until: self.now + LEASE,
            paused_until: 0,
            cut_until: 0,
            jobs: [const { None }; JOBS],
            retiring: [false; JOBS],
            lives: [0; JOBS],
            profiles,
            running: BTreeMap::new(),
            wakes: [0; JOBS],
        };
        self.note(|_| format!("leader-{id} leads role-{role} under {token}"));
        self.leaders.push(leader);
        self.current[role] = Some(id);
        if deaf {
            self.tell_configuration();
        }
        for job in 0..JOBS {
            let told = self.role_of[job];
            let moved_at = self.moved_at[job];
            let is_late = moved_at > 0 && self.now < moved_at + RELOADED_WITHIN && self.one_in(2);
            self.moved(id, job, if is_late { 1 - told } else { told });
            if is_late {
                self.at(moved_at + RELOADED_WITHIN, Happening::Reloads { leader: id, job });
            }
        }
        self.after(SECOND, Happening::Renew(id));
    }

    /// The job's task begins.
    fn begin(&mut self, id: usize, job: usize) {
        let now = self.moment(&self.leaders[id]);
        let seed = self.rng.u64(..);
        let leader = &mut self.leaders[id];
        let role = if self.scenario.rules.roles { leader.role } else { 0 };
        let role = RoleName::new(format!("role-{role}")).expect("a good name");
        let term = LedgerTerm { role, token: leader.token };
        leader.lives[job] += 1;
        leader.jobs[job] = Some(JobController::new(leader.profiles[job].clone(), term, seed, now));
        self.follow(id, job);
    }

    /// A replica reads whose the job is: it begins it, or ends it as one that is gone.
    pub fn moved(&mut self, id: usize, job: usize, role: usize) {
        let leader = &mut self.leaders[id];
        if !leader.alive {
            return;
        }
        let ours = leader.role == role;
        match (&leader.jobs[job], leader.retiring[job]) {
            (None, _) if ours && !leader.closing => self.begin(id, job),
            (Some(_), true) if ours => self.after(SECOND, Happening::Reloads { leader: id, job }),
            (Some(_), false) if !ours => {
                leader.retiring[job] = true;
                self.checker.gives_up(job, id);
                self.close(id, job);
            }
            _ => {}
        }
    }

    /// Ends what runs of a job, and begins nothing more.
    fn close(&mut self, id: usize, job: usize) {
        let of_job = |((of, slot), attempt): (&(usize, Slot), &u32)| (*of == job).then_some((*slot, *attempt));
        let running: Vec<(Slot, u32)> = self.leaders[id].running.iter().filter_map(of_job).collect();
        self.tell(id, job, JobInput::Closing);
        for (slot, attempt) in running {
            self.cancel(id, job, slot, attempt);
        }
    }

    pub fn tell(&mut self, id: usize, job: usize, input: JobInput) {
        let now = self.moment_of(&self.leaders[id], job);
        if self.leaders[id].jobs[job].is_some() {
            self.note(|_| format!("leader-{id} job-{job} <- {input:?}"));
        }
        let Some(controller) = &mut self.leaders[id].jobs[job] else { return };
        controller.handle_input(now, input);
        self.follow(id, job);
    }

    /// Does what the controller says, and looks at how it says it.
    pub fn follow(&mut self, id: usize, job: usize) {
        let now = self.moment_of(&self.leaders[id], job);
        let mut actions = 0;
        while let Some(action) = self.leaders[id].jobs[job].as_mut().and_then(JobController::poll_action) {
            actions += 1;
            self.act(id, job, action);
        }
        let Some(controller) = &mut self.leaders[id].jobs[job] else { return };
        controller.handle_timeout(now);
        let spurious = controller.poll_action();
        let due = controller.poll_timeout();
        if let Some(action) = spurious {
            self.complain(format!("an extra call did {action:?}"));
        }
        if actions > ACTIONS_MAX {
            self.complain(format!("{actions} actions in one step"));
        }
        let Some(due) = due else { return };
        if due <= now.mono {
            self.complain("due in the past, and nothing to do: a busy loop".to_owned());
        }
        let at = self.leaders[id].clock.when(due, self.now);
        self.leaders[id].wakes[job] += 1;
        let number = self.leaders[id].wakes[job];
        self.at(at, Happening::Wake { leader: id, job, number });
    }

    pub fn wake(&mut self, id: usize, job: usize, number: u64) {
        if self.leaders[id].alive && self.leaders[id].wakes[job] == number {
            let now = self.moment_of(&self.leaders[id], job);
            let Some(controller) = &mut self.leaders[id].jobs[job] else { return };
            controller.handle_timeout(now);
            self.follow(id, job);
        }
    }

    fn act(&mut self, id: usize, job: usize, action: JobAction) {
        self.note(|_| format!("leader-{id} job-{job} -> {action:?}"));
        match action {
            JobAction::Open { id: request, term } => self.send(id, job, request, Call::Open(term)),
            JobAction::Write { id: request, request: write } => {
                if !self.scenario.rules.confirmed {
                    self.start_what_is_claimed(id, job, &write.body);
                }
                self.send(id, job, request, Call::Write(write));
            }
            JobAction::Start { slot, attempt, token } => {
                if self.scenario.rules.confirmed {
                    self.start(id, job, slot, attempt, token);
                }
            }
            JobAction::Cancel { slot, attempt, .. } => self.cancel(id, job, slot, attempt),
            JobAction::Tell(event) => {
                self.checker.told(self.now, job, id, &event);
                self.seen.count(&event);
            }
        }
    }

    /// What a leader does that does not wait for the store.
    fn start_what_is_claimed(&mut self, id: usize, job: usize, ledger: &Ledger) {
        let term = self.leaders[id].token;
        for (slot, run) in &ledger.runs {
            let Some(last) = run.attempts.last().filter(|last| last.end.is_none() && last.term == term) else {
                continue;
            };
            if run.phase == Phase::Running && self.leaders[id].running.get(&(job, *slot)) != Some(&last.number) {
                self.start(id, job, *slot, last.number, last.token);
            }
        }
    }

    fn start(&mut self, id: usize, job: usize, slot: Slot, attempt: u32, token: Token) {
        let span = if self.is_calm() {
            self.span(50 * MS, 300 * MS)
        } else if self.one_in(5) {
            self.span(SECOND, 20 * SECOND)
        } else {
            self.span(10 * MS, 3 * SECOND)
        };
        let ending = if self.is_calm() || self.rng.u32(0..10) < 6 { Ending::Succeeded } else { Ending::Failed };
        let leader = &self.leaders[id];
        // Whatever happens to the replica, its attempts end with its tenure.
        let until = (self.now + span).min(leader.tenure_until);
        let ending = if self.now + span <= leader.tenure_until { ending } else { Ending::Interrupted };
        let (writer, tenure, policy) = (leader.id, leader.tenure_until, leader.profiles[job].policy.clone());
        self.checker.starts(self.now, job, (slot, attempt, token), (writer, tenure, until), &policy);
        self.seen.starts += 1;
        if self.places.is_some_and(|most| self.leaders[id].running.len() >= most) {
            self.complain(format!("leader-{id} has no place for {slot}"));
        }
        self.leaders[id].running.insert((job, slot), attempt);
        if self.leaders[id].tenure_until > self.now + span {
            self.after(span, Happening::Ends { leader: id, job, slot, attempt, ending });
        } else {
            self.at(until.max(self.now), Happening::Guard { leader: id, job, slot, attempt, wanted: self.now + span });
        }
    }

    /// Its time is over at the end of its tenure; until then the tenure may be longer.
    pub fn guard(&mut self, id: usize, job: usize, slot: Slot, attempt: u32, wanted: Nanos) {
        let tenure = self.leaders[id].tenure_until;
        if tenure > self.now && wanted > self.now {
            let until = wanted.min(tenure);
            self.checker.goes_on(job, slot, attempt, until);
            self.at(until, Happening::Guard { leader: id, job, slot, attempt, wanted });
        } else {
            let ending = if wanted <= self.now { Ending::Succeeded } else { Ending::Interrupted };
            self.ends(id, job, slot, attempt, ending);
        }
    }

    fn cancel(&mut self, id: usize, job: usize, slot: Slot, attempt: u32) {
        let ending = if self.one_in(10) { Ending::Succeeded } else { Ending::Interrupted };
        let span = self.span(0, 500 * MS);
        self.after(span, Happening::Ends { leader: id, job, slot, attempt, ending });
    }

    /// An attempt has ended, and its leader hears of it if it still can.
    pub fn ends(&mut self, id: usize, job: usize, slot: Slot, attempt: u32, ending: Ending) {
        if self.leaders[id].running.get(&(job, slot)) != Some(&attempt) {
            return;
        }
        self.leaders[id].running.remove(&(job, slot));
        self.checker.stops(job, slot, attempt);
        if self.leaders[id].alive {
            self.tell(id, job, JobInput::Ended { slot, attempt, ending, note: String::new() });
            // There is a place, for whichever wants it.
            let waiting = if self.places.is_some() { 0..JOBS } else { 0..0 };
            for job in waiting {
                let now = self.moment_of(&self.leaders[id], job);
                if let Some(controller) = &mut self.leaders[id].jobs[job] {
                    controller.handle_timeout(now);
                }
                self.follow(id, job);
            }
        }
    }

    fn send(&mut self, id: usize, job: usize, request: JobRequestId, call: Call) {
        let (sent_at, life) = (self.now, self.leaders[id].lives[job]);
        let fate = self.rng.u32(0..100);
        self.after(TIMEOUT, Happening::TimedOut { leader: id, job, request, life });
        let late = if self.scenario.focus == Focus::Moves { 30 } else { 6 };
        if fate >= 3 || self.is_calm() {
            let delay =
                if fate < late && !self.is_calm() { self.span(MS, 8 * SECOND) } else { self.span(MS / 5, 20 * MS) };
            self.after(delay, Happening::Arrives { leader: id, job, request, call, sent_at, life });
        }
    }

    pub fn arrives(&mut self, id: usize, job: usize, request: JobRequestId, call: Call, sent_at: Nanos, life: u64) {
        if !self.up || self.now < self.leaders[id].cut_until {
            return;
        }
        let reply = self.execute(id, job, call, sent_at);
        if self.rng.u32(0..100) >= 4 || self.is_calm() {
            let (delay, reply) = (self.span(MS / 5, 20 * MS), Box::new(reply));
            self.after(delay, Happening::Answered { leader: id, job, request, reply, life });
        }
    }

    pub fn answered(&mut self, id: usize, job: usize, request: JobRequestId, reply: Reply, life: u64) {
        if !self.leaders[id].alive || self.leaders[id].lives[job] != life {
            return;
        }
        let is_set_back = |stored: &Option<Stored<Ledger>>, ledger: Option<&Ledger>| {
            let decided = stored.as_ref().map(|stored| stored.body.decided);
            ledger.is_some_and(|ledger| decided < Some(ledger.decided))
        };
        let reply = without_wishes(reply, self.scenario.rules);
        let input = match reply {
            Reply::Opened(mut reply) => {
                if let (false, OpenReply::Opened(Some(stored))) = (self.scenario.rules.counted, &mut reply) {
                    forget_what_was_interrupted(&mut stored.body);
                }
                if let (false, OpenReply::Opened(Some(stored))) = (self.scenario.rules.leaps, &mut reply) {
                    // It takes its own clock for right.
                    let now = self.wall(self.leaders[id].offset_ms);
                    stored.body.decided = now.min(stored.body.decided);
                    stored.body.leaps = Leaps::default();
                }
                JobInput::Opened(request, reply)
            }
            Reply::Wrote(WriteReply::Diverged(stored))
                if !self.scenario.rules.restore && is_set_back(&stored, self.leaders[id].ledger(job)) =>
            {
                // It believes the store, and begins anew with what that has.
                self.begin(id, job);
                return;
            }
            Reply::Wrote(reply) => JobInput::Wrote(request, reply),
        };
        self.tell(id, job, input);
    }

    /// Once a second: the lease is renewed, or over.
    pub fn renew(&mut self, id: usize) {
        let leader = &self.leaders[id];
        if !leader.alive {
            return;
        }
        let is_over = self.now >= leader.tenure_until;
        if !is_over && !leader.closing && self.up && self.now >= leader.cut_until {
            self.leaders[id].tenure_until = self.now + LEASE;
        }
        let free = leader_is_idle(&self.leaders[id]);
        if is_over && self.one_in(3) {
            // It was late to notice, and is gone now.
            self.leaders[id].alive = false;
        } else if is_over && self.one_in(2) {
            (0..JOBS).for_each(|job| self.tell(id, job, JobInput::Closing));
        } else if self.leaders[id].closing && !is_over && free {
            self.leaders[id].tenure_until = self.now;
            self.leaders[id].alive = false;
        } else {
            // Somebody may have written, and the word of it may be lost.
            (0..JOBS).for_each(|job| {
                if self.one_in(5) {
                    self.tell(id, job, JobInput::Changed);
                }
            });
        }
        for job in 0..JOBS {
            let leader = &mut self.leaders[id];
            let runs = leader.running.keys().any(|(of, _)| *of == job);
            if leader.retiring[job] && !runs && leader.jobs[job].as_ref().is_none_or(JobController::is_settled) {
                (leader.jobs[job], leader.retiring[job]) = (None, false);
            }
        }
        if self.leaders[id].alive {
            self.after(SECOND, Happening::Renew(id));
        }
    }

    pub fn resign(&mut self, id: usize) {
        self.leaders[id].closing = true;
        (0..JOBS).for_each(|job| self.close(id, job));
    }
}

impl Leader {
    /// What it knows of a job.
    pub fn ledger(&self, job: usize) -> Option<&Ledger> {
        self.jobs[job].as_ref().and_then(JobController::ledger)
    }
}

fn leader_is_idle(leader: &Leader) -> bool {
    leader.running.is_empty()
}

/// An interrupted attempt is taken for one that never was.
fn forget_what_was_interrupted(ledger: &mut Ledger) {
    for run in ledger.runs.values_mut().filter(|run| run.phase == Phase::Running) {
        run.attempts.pop();
    }
}

/// What others asked for is not looked at where it should not be: of runs, under keys, or of all jobs.
fn without_wishes(reply: Reply, rules: Rules) -> Reply {
    let strip = |stored: Option<Stored<Ledger>>| {
        stored.map(|mut stored| {
            if !rules.orders {
                stored.body.runs.values_mut().for_each(|run| run.order = None);
            }
            if !rules.pause {
                stored.body.suspension.pause = None;
            }
            if !rules.backfills {
                stored.body.backfills = Backfills::default();
            }
            if !rules.keys {
                stored.body.keys.clear();
            }
            stored
        })
    };
    match reply {
        Reply::Opened(OpenReply::Opened(stored)) => Reply::Opened(OpenReply::Opened(strip(stored))),
        Reply::Wrote(WriteReply::Diverged(stored)) => Reply::Wrote(WriteReply::Diverged(strip(stored))),
        reply => reply,
    }
}
