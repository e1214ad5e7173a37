//! The world: true time, a network that delays and loses, leaders, and one store with a ledger for each job.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use baton::protocol::StoreTime;
use baton::protocol::jobs::{
    BackoffPolicy, CatchUp, Concurrency, HistoryLimits, JobInput, JobPolicy, JobProfile, Ledger, LedgerCell,
    OnInterrupt, OpenReply, Phase, RunOrder, RunRequest, RunWish, Slot, Wall, WriteReply, WriteRequest,
};

use super::checker::{Checker, Writer};
use super::leader::Leader;
pub use super::scenario::{Call, Every, Focus, Happening, Reply, Rules, Scenario, Verdict, Wish};
use crate::clockwork::{MS, Timeline};
pub use crate::clockwork::{Nanos, SECOND};

pub const JOBS: usize = 2;
/// Each has leaders of its own, and tokens that say nothing about the other's.
pub const ROLES: usize = 2;
/// How long it takes at most until every replica knows that a job is another role's.
pub const RELOADED_WITHIN: Nanos = 10 * SECOND;
/// When a request counts as unanswered.
pub const TIMEOUT: Nanos = 500 * MS;
pub const BEGIN_MS: u64 = 3_600_000 * 333_333;
const FAULTS_UNTIL: Nanos = 120 * SECOND;
/// From here on all is well, and in the end everything must be done.
const END: Nanos = FAULTS_UNTIL + 120 * SECOND;

const LINE_MAX: usize = 400;
/// More than any run plans in all, and at a time: one that does goes round in circles, or takes all memory there is.
const PLANNED_MAX: (u64, usize) = (1_000_000, 20_000);

pub struct World {
    pub scenario: Scenario,
    pub rng: fastrand::Rng,
    pub now: Nanos,
    pub leaders: Vec<Leader>,
    /// The leader of each role.
    pub current: [Option<usize>; ROLES],
    pub tokens: [u64; ROLES],
    /// Whose each job is, since when, and whether that changes in this run.
    pub role_of: [usize; JOBS],
    pub moved_at: [Nanos; JOBS],
    pub moves: bool,
    /// Clocks of the day may be days off in this run.
    pub far: bool,
    pub cells: Vec<LedgerCell<Ledger>>,
    pub snapshots: VecDeque<Vec<LedgerCell<Ledger>>>,
    pub up: bool,
    pub checker: Checker,
    pub seen: Verdict,
    pub config: Vec<(u64, JobPolicy)>,
    /// How many attempts a replica makes at once; none: however many.
    pub places: Option<usize>,
    /// The last word about all jobs.
    pub pause: Option<(bool, Wall)>,
    timeline: Timeline<Happening>,
}

impl World {
    pub fn play(scenario: Scenario) -> Verdict {
        let mut world = Self {
            scenario,
            rng: fastrand::Rng::with_seed(scenario.seed),
            now: 0,
            leaders: Vec::new(),
            current: [None; ROLES],
            tokens: [1_000; ROLES],
            role_of: [0; JOBS],
            moved_at: [0; JOBS],
            moves: false,
            far: false,
            cells: vec![LedgerCell::default(); JOBS],
            snapshots: VecDeque::new(),
            up: true,
            checker: Checker::new(JOBS),
            seen: Verdict::default(),
            config: Vec::new(),
            places: None,
            pause: None,
            timeline: Timeline::new(),
        };
        world.checker.remembers = world.one_in(2);
        world.places = world.one_in(3).then(|| world.rng.usize(1..4));
        world.moves = world.one_in(2);
        world.far = world.one_in(2);
        if scenario.focus != Focus::All {
            world.places = None;
            world.checker.remembers = false;
            (world.moves, world.far) = (scenario.focus == Focus::Moves, scenario.focus == Focus::Clocks);
        }
        world.checker.far = world.far;
        world.tokens[1] = world.rng.u64(1..3_000_000);
        for job in 0..JOBS {
            let policy = world.any_policy();
            let every = world.rng.u64(2..8);
            world.config.push((every, policy));
            let first = world.span(0, 10 * SECOND);
            world.at(first, Happening::Wishes { job });
        }
        let first = world.span(5 * SECOND, 60 * SECOND);
        world.at(first, Happening::Pauses);
        world.at(0, Happening::Tick);
        world.at(0, Happening::Snapshot);
        let first = world.span(2 * SECOND, 15 * SECOND);
        world.at(first, Happening::Fault);
        world.at(FAULTS_UNTIL, Happening::Calm);
        while let Some((when, happening)) = world.timeline.next(END) {
            world.now = when;
            match world.paused(&happening) {
                Some(until) => world.at(until, happening),
                None => world.happen(happening),
            }
            let (planned, to_come) = world.timeline.extent();
            if planned > PLANNED_MAX.0 || to_come > PLANNED_MAX.1 {
                world.complain(format!("{planned} happenings, {to_come} to come: it comes to no end"));
            }
            if world.checker.first.is_some() {
                break;
            }
        }
        world.judge_the_end();
        let World { checker, mut seen, leaders, .. } = world;
        (seen.complaints, seen.first, seen.terms) = (checker.complaints, checker.first, leaders.len() as u64);
        seen
    }

    pub fn at(&mut self, when: Nanos, happening: Happening) {
        self.timeline.plan(when, happening);
    }

    pub fn after(&mut self, span: Nanos, happening: Happening) {
        self.at(self.now + span, happening);
    }

    pub fn span(&mut self, least: Nanos, most: Nanos) -> Nanos {
        self.rng.u64(least..=most)
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.rng.u64(0..n) == 0
    }

    pub fn note(&mut self, what: impl FnOnce(&Self) -> String) {
        if self.scenario.log {
            // Of a ledger, the beginning will do.
            let what: String = what(self).chars().take(LINE_MAX).collect();
            let line = format!("{:9.4} {what}", self.now as f64 / SECOND as f64);
            self.seen.log.push(line);
        }
    }

    pub fn complain(&mut self, what: String) {
        self.checker.complain(self.now, what);
    }

    pub fn is_calm(&self) -> bool {
        self.now >= FAULTS_UNTIL
    }

    pub fn any_policy(&mut self) -> JobPolicy {
        let clocks = self.scenario.focus == Focus::Clocks;
        let concurrency = [Concurrency::Allow, Concurrency::Forbid, Concurrency::Replace][self.rng.usize(0..3)];
        let catch_up =
            if clocks { CatchUp::All } else { [CatchUp::None, CatchUp::Latest, CatchUp::All][self.rng.usize(0..3)] };
        let seconds = |rng: &mut fastrand::Rng, most| Duration::from_secs(rng.u64(1..most));
        let any = |rng: &mut fastrand::Rng| [(0, 0), (3, 1), (1, 3)][rng.usize(0..3)];
        let (succeeded, failed) = if self.checker.remembers {
            (10_000, 10_000)
        } else if clocks {
            (0, 0)
        } else {
            any(&mut self.rng)
        };
        JobPolicy {
            concurrency,
            catch_up,
            starting_deadline: (!clocks && self.one_in(3)).then(|| seconds(&mut self.rng, 20)),
            suspend: self.one_in(8),
            backoff: BackoffPolicy {
                limit: self.rng.u32(0..5),
                initial: seconds(&mut self.rng, 4),
                max: Duration::from_secs(8),
            },
            active_deadline: self.one_in(3).then(|| seconds(&mut self.rng, 30)),
            on_interrupt: if self.one_in(3) { OnInterrupt::Fail } else { OnInterrupt::Retry },
            history: HistoryLimits { succeeded, failed },
        }
    }

    pub fn profile(&self, job: usize) -> JobProfile {
        let (every, policy) = self.config[job].clone();
        JobProfile { policy, timetable: Arc::new(Every(every)), identity: Arc::from("replica"), pause: self.pause }
    }

    fn paused(&self, happening: &Happening) -> Option<Nanos> {
        let leader = match happening {
            Happening::Renew(leader)
            | Happening::Wake { leader, .. }
            | Happening::Answered { leader, .. }
            | Happening::TimedOut { leader, .. }
            | Happening::Ends { leader, .. }
            | Happening::Guard { leader, .. }
            | Happening::Configured { leader, .. }
            | Happening::Reloads { leader, .. }
            | Happening::Changed { leader, .. } => *leader,
            _ => return None,
        };
        let leader = &self.leaders[leader];
        (leader.alive && leader.paused_until > self.now).then_some(leader.paused_until)
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Tick => {
                for role in 0..ROLES {
                    let led = self.current[role].is_some_and(|id| self.now < self.leaders[id].tenure_until);
                    if !led && self.up && (self.moves || role == 0) && self.one_in(2) {
                        self.elect(role);
                    }
                }
                self.after(200 * MS, Happening::Tick);
            }
            Happening::Renew(leader) => self.renew(leader),
            Happening::Wake { leader, job, number } => self.wake(leader, job, number),
            Happening::Arrives { leader, job, request, call, sent_at, life } => {
                self.arrives(leader, job, request, call, sent_at, life);
            }
            Happening::Answered { leader, job, request, reply, life } => {
                self.answered(leader, job, request, *reply, life);
            }
            Happening::TimedOut { leader, job, request, life } => {
                if self.leaders[leader].alive && self.leaders[leader].lives[job] == life {
                    self.tell(leader, job, JobInput::Unanswered(request));
                }
            }
            Happening::Ends { leader, job, slot, attempt, ending } => self.ends(leader, job, slot, attempt, ending),
            Happening::Guard { leader, job, slot, attempt, wanted } => self.guard(leader, job, slot, attempt, wanted),
            Happening::Configured { leader, job } => {
                if self.leaders[leader].alive {
                    let profile = self.profile(job);
                    self.leaders[leader].profiles[job] = profile.clone();
                    self.tell(leader, job, JobInput::Configured(profile));
                }
            }
            Happening::Reloads { leader, job } => self.moved(leader, job, self.role_of[job]),
            Happening::Changed { leader, job } => {
                if self.leaders[leader].alive {
                    self.tell(leader, job, JobInput::Changed);
                }
            }
            Happening::Wishes { job } => self.wishes(job),
            Happening::Again { job, wish } => self.wish(job, wish, 5),
            Happening::Pauses => self.pauses(),
            Happening::WishArrives { job, wish, of, request, tries } => {
                self.wish_arrives(job, (wish, of), *request, tries);
            }
            Happening::Snapshot => {
                self.snapshots.push_back(self.cells.clone());
                if self.snapshots.len() > 8 {
                    self.snapshots.pop_front();
                }
                self.after(500 * MS, Happening::Snapshot);
            }
            Happening::ClockRight(leader) => self.leaders[leader].offset_ms = 0,
            Happening::Fault => self.fault(),
            Happening::StoreUp => self.up = true,
            Happening::Calm => self.calm(),
        }
    }

    fn store_time(&self) -> StoreTime {
        StoreTime(BEGIN_MS * 1_000 + self.now / 1_000)
    }

    /// One atomic step of the store, for a leader.
    pub fn execute(&mut self, id: usize, job: usize, call: Call, sent_at: Nanos) -> Reply {
        let store_time = self.store_time();
        let before = self.cells[job].read().map(|stored| stored.body);
        let (token, role, fence) = (self.leaders[id].token, self.leaders[id].role, self.scenario.rules.fence);
        let owns = self.cells[job].owner().is_none_or(|owner| owner.as_str() == format!("role-{role}"));
        let writer = Writer { id, role, token, sent_at, owns, is_current: self.current[role] == Some(id) };
        match call {
            Call::Open(term) => {
                let cell = &mut self.cells[job];
                if !self.scenario.rules.taken_by_writing && cell.owner() != Some(&term.role) {
                    *cell = LedgerCell::new(Some(term.role.clone()), term.token, cell.read());
                }
                let reply = if fence { cell.open(&term) } else { OpenReply::Opened(cell.read()) };
                if matches!(reply, OpenReply::Opened(_)) {
                    self.checker.opened(job, writer);
                }
                self.note(|_| format!("store: leader-{id} job-{job} open: {reply:?}"));
                Reply::Opened(reply)
            }
            Call::Write(request) => {
                let after = request.body.clone();
                let term = request.term.clone().filter(|_| fence);
                let reply = self.cells[job].write(WriteRequest { term, ..*request }, store_time);
                self.note(|_| format!("store: leader-{id} job-{job} write: {reply:?}"));
                if matches!(reply, WriteReply::Written { .. }) {
                    let leader = &self.leaders[id];
                    let ends = leader.closing || leader.retiring[job];
                    // Who takes a ledger over writes it as it is.
                    let limits = (!ends && before.as_ref() != Some(&after) && leader.tenure_until > self.now)
                        .then_some(leader.profiles[job].policy.history);
                    self.checker.written(self.now, job, writer, before.as_ref(), &after, limits);
                }
                Reply::Wrote(reply)
            }
        }
    }

    fn wishes(&mut self, job: usize) {
        if self.is_calm() {
            // An order may have been older than one that the store had lost and the leader remembered.
            return self.wish(job, Wish::Resume, 5);
        }
        use Wish::{Backfill, Cancel, Keyed, Resume, Retry, Run, Suspend};
        let key = self.rng.u64(..);
        let wishes = [Run, Keyed(key), Keyed(key), Suspend, Resume, Resume, Cancel, Cancel, Retry, Retry, Backfill];
        // A backfill waits for what is caught up, which is all the time there.
        let most = if self.scenario.focus == Focus::Clocks { wishes.len() - 1 } else { wishes.len() };
        let wish = wishes[self.rng.usize(0..most)];
        if let Keyed(_) = wish {
            // Whoever asked has no answer, and asks again.
            let again = self.span(MS, 20 * SECOND);
            self.after(again, Happening::Again { job, wish });
        }
        self.wish(job, wish, 5);
        let next = self.span(SECOND, 25 * SECOND);
        self.after(next, Happening::Wishes { job });
    }

    /// All jobs are suspended or resumed, and the leader hears of it.
    fn pauses(&mut self) {
        if self.is_calm() {
            return;
        }
        let (offset, suspend) = (self.rng.i64(-3_000..=3_000), self.rng.bool());
        let after = self.pause.map_or(Wall::default(), |(_, at)| at.plus(Duration::from_millis(1)));
        self.pause = Some((suspend, self.wall(offset).max(after)));
        self.tell_configuration();
        let next = self.span(5 * SECOND, 40 * SECOND);
        self.after(next, Happening::Pauses);
    }

    /// Whoever leads hears of what has changed, sooner or later.
    pub fn tell_configuration(&mut self) {
        for leader in self.current.into_iter().flatten() {
            for job in 0..JOBS {
                let delay = self.span(0, 10 * SECOND);
                self.after(delay, Happening::Configured { leader, job });
            }
        }
    }

    /// Any replica: it reads, changes and writes.
    pub fn wish(&mut self, job: usize, wish: Wish, tries: u32) {
        if !self.up || tries == 0 {
            return;
        }
        let offset = self.rng.i64(-3_000..=3_000);
        let wall = self.wall(offset);
        let stored = self.cells[job].read();
        let base = stored.as_ref().map(|stored| stored.revision);
        let profile = self.profile(job);
        let mut body = stored
            .map_or_else(|| Ledger::new(profile.timetable.name(), profile.policy.suspend, wall), |stored| stored.body);
        let mut of = None;
        match wish {
            Wish::Run => {
                if body.ask(wall).is_err() {
                    return;
                }
            }
            Wish::Keyed(key) => {
                let request = RunRequest { key: Some(Arc::from(key.to_string())), data: None };
                let Ok(slot) = body.ask_with(wall, &request) else { return };
                of = Some(slot);
            }
            Wish::Backfill => {
                let to = body.decided.minus(Duration::from_secs(self.rng.u64(0..30)));
                let from = to.minus(Duration::from_secs(self.rng.u64(0..30)));
                if body.backfill(&*profile.timetable, (from, to), wall).is_err() {
                    return;
                }
            }
            Wish::Suspend => body.order(true, wall),
            Wish::Resume => body.order(false, wall),
            Wish::Cancel | Wish::Retry => {
                of = self.order_any(&mut body, wish, wall);
                if of.is_none() {
                    return;
                }
            }
        }
        let request = Box::new(WriteRequest { term: None, base, body });
        let delay = self.span(MS / 5, 30 * MS);
        self.after(delay, Happening::WishArrives { job, wish, of, request, tries });
    }

    /// Cancels or retries any run with which that can be done; which.
    fn order_any(&mut self, body: &mut Ledger, wish: Wish, wall: Wall) -> Option<Slot> {
        let cancels = matches!(wish, Wish::Cancel);
        let fits = |phase: Phase| if cancels { !phase.is_over() } else { matches!(phase, Phase::Failed(_)) };
        let slots: Vec<Slot> = body.runs.iter().filter(|(_, run)| fits(run.phase)).map(|(slot, _)| *slot).collect();
        let slot = *slots.get(self.rng.usize(0..slots.len().max(1)))?;
        let refused = if cancels { body.cancel(slot, wall) } else { body.retry(slot, wall) };
        refused.is_ok().then_some(slot)
    }

    fn wish_arrives(
        &mut self,
        job: usize,
        (wish, of): (Wish, Option<Slot>),
        request: WriteRequest<Ledger>,
        tries: u32,
    ) {
        // In the end nothing is suspended.
        if !self.up || (self.is_calm() && matches!(wish, Wish::Suspend)) {
            return;
        }
        let store_time = self.store_time();
        let backfill = request.body.backfills.going_on().filter(|_| matches!(wish, Wish::Backfill)).copied();
        let order: Option<(Slot, RunOrder)> = of.and_then(|slot| Some((slot, request.body.runs.get(&slot)?.order?)));
        let reply = self.cells[job].write(request, store_time);
        self.note(|_| format!("store: job-{job} {wish:?} {of:?}: {reply:?}"));
        match reply {
            WriteReply::Diverged(_) => self.wish(job, wish, tries - 1),
            WriteReply::Written { .. } => {
                self.seen.wishes += 1;
                if let Some(backfill) = backfill {
                    self.seen.backfills += 1;
                    self.checker.wanted(job, backfill.asked);
                }
                if let (Wish::Keyed(key), Some(slot)) = (wish, of) {
                    self.checker.asked(self.now, job, key, slot);
                }
                if let Some((slot, order)) = order.filter(|_| matches!(wish, Wish::Cancel | Wish::Retry)) {
                    self.seen.retried += u64::from(order.what == RunWish::Retry);
                    self.checker.ordered(job, slot, order);
                }
                if let Some(leader) = self.current[self.role_of[job]].filter(|_| self.rng.bool()) {
                    self.after(MS, Happening::Changed { leader, job });
                }
            }
            WriteReply::Stale { .. } | WriteReply::OtherRole { .. } => {
                self.complain("a wish was told to be stale".to_owned())
            }
        }
    }

    /// The configuration asks for what can be judged, and everybody has it.
    fn calm(&mut self) {
        self.up = true;
        for leader in &mut self.leaders {
            (leader.paused_until, leader.cut_until) = (0, 0);
            leader.offset_ms = leader.offset_ms.clamp(-20_000, 20_000);
        }
        let after = self.pause.map_or(Wall::default(), |(_, at)| at.plus(Duration::from_millis(1)));
        self.pause = Some((false, after.max(self.wall(0))));
        for job in 0..JOBS {
            self.config[job].1.suspend = false;
            self.wish(job, Wish::Resume, 5);
            self.after(10 * SECOND, Happening::Wishes { job });
            for leader in 0..self.leaders.len() {
                self.after(0, Happening::Configured { leader, job });
                self.after(SECOND, Happening::Changed { leader, job });
            }
        }
    }

    fn judge_the_end(&mut self) {
        if self.checker.first.is_some() {
            return;
        }
        self.now = END;
        for job in 0..JOBS {
            let Some(stored) = self.cells[job].read() else {
                self.complain(format!("job-{job} has no ledger in the end"));
                continue;
            };
            // Steps of the clock are at most so far ahead.
            let done = self.wall(-25_000).minus(Duration::from_secs(2 * self.config[job].0));
            // One that began under a clock that was days ahead, or was resumed under it, waits for that time, and its
            // leader has said so.
            let next = stored.body.next_slot(&Every(self.config[job].0), stored.body.decided);
            if next.is_some_and(|next| next > self.wall(60_000)) {
                self.seen.waits += 1;
                if !self.checker.waits(job) {
                    self.complain(format!("job-{job} is ahead in the end: {:?}", stored.body));
                }
                continue;
            }
            if stored.body.decided < done {
                self.complain(format!("job-{job} stands still in the end: {:?}", stored.body));
            }
            let stuck = |slot: &Slot, run: &baton::protocol::jobs::Run| match run.phase {
                Phase::Asked => true,
                Phase::Running | Phase::Waiting { .. } => slot.at() < self.wall(-40_000),
                Phase::Succeeded | Phase::Failed(_) => false,
            };
            if let Some((slot, run)) = stored.body.runs.iter().find(|(slot, run)| stuck(slot, run)) {
                self.complain(format!("job-{job}: {slot} is stuck in the end: {run:?}"));
            }
            if let Some(complaint) = self.checker.unheeded(job, &stored.body) {
                self.complain(complaint);
            }
        }
    }
}
