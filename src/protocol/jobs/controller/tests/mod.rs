//! One job, one leader after the other, one store: the controller without a network.

mod attempts;
mod backfill;
mod claims;
mod clocks;
mod ledgers;
mod manual;
mod moments;
mod orders;
mod places;
mod roles;
mod slots;
mod suspension;
mod terms;

use super::super::LedgerCell;
use super::super::ledger::{GapReason, Leaps};
use super::super::policy::{
    ACTIVE_MAX, ASKED_MAX, BackoffPolicy, CatchUp, Concurrency, DATA_BYTES_MAX, DATA_BYTES_SUM_MAX, HistoryLimits,
    KEYS_MAX, OnInterrupt,
};
use super::super::run::{Run, RunAttempt};
use super::super::wishes::{AskRefusal, RunRefusal, RunRequest, RunWish};
use super::*;
use crate::protocol::StoreTime;

/// Every so many seconds of the day's clock.
#[derive(Debug)]
struct Every(u64);

impl Timetable for Every {
    fn next_after(&self, after: Wall) -> Option<Wall> {
        let every = self.0 * 1_000;
        Some(Wall::from_millis((after.as_millis() / every + 1) * every))
    }

    fn name(&self) -> String {
        format!("every {} s", self.0)
    }
}

/// A full hour, when every stage begins.
const BEGIN_S: u64 = 3_600 * 333_333;
const TERM: u64 = 1_000;

/// A slot so many seconds after the beginning.
fn at(seconds: u64) -> Slot {
    Slot::Scheduled(wall(seconds))
}

fn wall(seconds: u64) -> Wall {
    Wall::from_millis((BEGIN_S + seconds) * 1_000)
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn token(value: u64) -> Token {
    Token::new(value).unwrap()
}

fn term(value: u64) -> LedgerTerm {
    LedgerTerm { role: role("ours"), token: token(value) }
}

fn role(name: &str) -> RoleName {
    RoleName::new(name).unwrap()
}

fn policy() -> JobPolicy {
    JobPolicy {
        concurrency: Concurrency::Forbid,
        starting_deadline: None,
        catch_up: CatchUp::Latest,
        suspend: false,
        backoff: BackoffPolicy { limit: 3, initial: secs(10), max: secs(360) },
        active_deadline: None,
        on_interrupt: OnInterrupt::Retry,
        history: HistoryLimits { succeeded: 3, failed: 1 },
    }
}

/// A policy that remembers all.
fn long_memory() -> JobPolicy {
    JobPolicy { history: HistoryLimits { succeeded: 1_000, failed: 1_000 }, ..policy() }
}

fn profile(policy: JobPolicy, every: u64) -> JobProfile {
    JobProfile { policy, timetable: Arc::new(Every(every)), identity: Arc::from("me"), pause: None }
}

/// A controller with its clocks, its store and what it has done.
struct Stage {
    controller: JobController,
    profile: JobProfile,
    mono: Mono,
    wall: Wall,
    room: bool,
    places: usize,
    cell: LedgerCell<Ledger>,
    /// Requests are answered at once.
    serves: bool,
    out: VecDeque<JobAction>,
    started: Vec<(Slot, u32, Token)>,
    running: Vec<(Slot, u32)>,
    cancelled: Vec<(Slot, u32, RunFailure)>,
    events: Vec<JobEvent>,
}

impl Stage {
    fn new(policy: JobPolicy, every: u64) -> Self {
        Self::on(LedgerCell::default(), profile(policy, every), true)
    }

    /// Requests stay out until the test answers them.
    fn unserved(policy: JobPolicy, every: u64) -> Self {
        Self::on(LedgerCell::default(), profile(policy, every), false)
    }

    fn on(cell: LedgerCell<Ledger>, profile: JobProfile, serves: bool) -> Self {
        let (mono, wall) = (Mono::from_nanos(5_000_000_000_000), wall(0));
        let controller =
            JobController::new(profile.clone(), term(TERM), 7, Moment { mono, wall, room: true, places: usize::MAX });
        let mut stage = Self {
            controller,
            profile,
            mono,
            wall,
            room: true,
            places: usize::MAX,
            cell,
            serves,
            out: VecDeque::new(),
            started: Vec::new(),
            running: Vec::new(),
            cancelled: Vec::new(),
            events: Vec::new(),
        };
        stage.follow();
        stage
    }

    /// The leader is gone with what it ran; another leads under this token.
    fn next_leader(&mut self, value: u64) -> &mut Self {
        self.replace_leader(term(value));
        self
    }

    /// The job is another role's now, whose leader has this token.
    fn move_to(&mut self, name: &str, value: u64) -> JobController {
        self.replace_leader(LedgerTerm { role: role(name), token: token(value) })
    }

    /// The same; the controller of the earlier term is still there.
    fn replace_leader(&mut self, term: LedgerTerm) -> JobController {
        let seed = term.token.get();
        let next = JobController::new(self.profile.clone(), term, seed, self.now());
        self.out.clear();
        self.running.clear();
        let before = std::mem::replace(&mut self.controller, next);
        self.follow();
        before
    }

    fn now(&self) -> Moment {
        Moment { mono: self.mono, wall: self.wall, room: self.room, places: self.places }
    }

    /// Takes the actions, and answers the store's. In every step: an extra call changes nothing, and what is due next
    /// is not due already.
    fn follow(&mut self) {
        for round in 0.. {
            assert!(round < 1_000, "a busy loop: {:?}", self.controller);
            let mut acted = self.take_actions();
            self.controller.handle_timeout(self.now());
            assert!(self.controller.poll_action().is_none(), "an extra call did something: {:?}", self.controller);
            if let Some(due) = self.controller.poll_timeout() {
                assert!(due > self.mono, "due in the past, and nothing to do: {:?}", self.controller);
            }
            if self.serves
                && let Some(request) = self.out.pop_front()
            {
                let input = self.execute(&request);
                self.controller.handle_input(self.now(), input);
                acted = true;
            }
            if !acted {
                break;
            }
        }
        assert!(self.out.len() <= 1, "two requests are out: {:?}", self.out);
    }

    fn take_actions(&mut self) -> bool {
        let mut acted = false;
        while let Some(action) = self.controller.poll_action() {
            acted = true;
            match action {
                JobAction::Tell(event) => self.events.push(event),
                JobAction::Start { slot, attempt, token } => {
                    assert!(self.room, "started without room");
                    assert!(self.running.len() < self.places, "started without a place");
                    self.started.push((slot, attempt, token));
                    assert!(self.running.iter().all(|(other, _)| *other != slot), "two attempts of {slot} at once");
                    self.running.push((slot, attempt));
                }
                JobAction::Cancel { slot, attempt, why } => self.cancelled.push((slot, attempt, why)),
                request => self.out.push_back(request),
            }
        }
        acted
    }

    /// What the store does with a request, and its answer.
    fn execute(&mut self, request: &JobAction) -> JobInput {
        let store_time = StoreTime(self.mono.as_nanos() / 1_000);
        match request {
            JobAction::Open { id, term } => JobInput::Opened(*id, self.cell.open(term)),
            JobAction::Write { id, request } => JobInput::Wrote(*id, self.cell.write((**request).clone(), store_time)),
            other => panic!("no request: {other:?}"),
        }
    }

    fn input(&mut self, input: JobInput) -> &mut Self {
        self.controller.handle_input(self.now(), input);
        self.follow();
        self
    }

    /// The request that is out.
    fn request(&mut self) -> JobAction {
        self.out.pop_front().expect("a request is out")
    }

    /// It is executed and answered.
    fn answer(&mut self) -> &mut Self {
        let request = self.request();
        let input = self.execute(&request);
        self.input(input)
    }

    /// Nobody knows what came of it.
    fn unanswered(&mut self, request: &JobAction) -> &mut Self {
        let (JobAction::Open { id, .. } | JobAction::Write { id, .. }) = request else { panic!("{request:?}") };
        self.input(JobInput::Unanswered(*id))
    }

    /// Time passes, and what becomes due is done when it is.
    fn pass(&mut self, span: Duration) -> &mut Self {
        let end = self.mono + span;
        while let Some(due) = self.controller.poll_timeout().filter(|due| *due <= end) {
            self.advance(due.since(self.mono));
        }
        let left = end.since(self.mono);
        self.advance(left);
        self
    }

    /// Time passes in one go, as for a process that stood still.
    fn advance(&mut self, span: Duration) -> &mut Self {
        // The clock of the day shows milliseconds that are complete.
        let begin = Mono::from_nanos(self.mono.as_nanos() / 1_000_000 * 1_000_000);
        self.mono = self.mono + span;
        self.wall = self.wall.plus(self.mono.since(begin));
        self.controller.handle_timeout(self.now());
        self.follow();
        self
    }

    /// The attempt that runs ends.
    fn end(&mut self, slot: Slot, ending: Ending) -> &mut Self {
        let at = self.running.iter().position(|(other, _)| *other == slot).expect("it runs");
        let (slot, attempt) = self.running.remove(at);
        self.input(JobInput::Ended { slot, attempt, ending, note: "done".to_owned() })
    }

    fn configure(&mut self, policy: JobPolicy, every: u64) -> &mut Self {
        self.profile = profile(policy, every);
        let profile = self.profile.clone();
        self.input(JobInput::Configured(profile))
    }

    /// Somebody suspends or resumes all jobs.
    fn pause(&mut self, suspend: bool) -> &mut Self {
        self.profile.pause = Some((suspend, self.wall));
        let profile = self.profile.clone();
        self.input(JobInput::Configured(profile))
    }

    /// Somebody who need not lead changes the ledger.
    fn wish(&mut self, wish: impl FnOnce(&mut Ledger, Wall)) -> &mut Self {
        let stored = self.cell.read();
        let base = stored.as_ref().map(|stored| stored.revision);
        let mut body = stored.map_or_else(
            || Ledger::new(self.profile.timetable.name(), self.profile.policy.suspend, self.wall),
            |stored| stored.body,
        );
        wish(&mut body, self.wall);
        let store_time = StoreTime(self.mono.as_nanos() / 1_000);
        let reply = self.cell.write(WriteRequest { term: None, base, body }, store_time);
        assert!(matches!(reply, WriteReply::Written { .. }));
        self
    }

    fn ask(&mut self) -> Slot {
        let mut asked = None;
        self.wish(|ledger, now| asked = ledger.ask(now).ok());
        self.input(JobInput::Changed);
        asked.unwrap()
    }

    fn order(&mut self, suspend: bool) -> &mut Self {
        self.wish(|ledger, now| ledger.order(suspend, now));
        self.input(JobInput::Changed)
    }

    /// Somebody who need not lead cancels a run.
    fn cancel(&mut self, slot: Slot) -> &mut Self {
        self.wish(|ledger, now| ledger.cancel(slot, now).expect("it can be cancelled"));
        self.input(JobInput::Changed)
    }

    /// The same with a retry.
    fn retry(&mut self, slot: Slot) -> &mut Self {
        self.wish(|ledger, now| ledger.retry(slot, now).expect("it can be retried"));
        self.input(JobInput::Changed)
    }

    /// FLUSHALL
    fn flush(&mut self) -> &mut Self {
        self.cell = LedgerCell::default();
        self
    }

    fn stored(&self) -> Ledger {
        self.cell.read().expect("something is stored").body
    }

    fn run(&self, slot: Slot) -> Run {
        self.stored().runs.get(&slot).expect("it has a run").clone()
    }

    fn phase(&self, slot: Slot) -> Phase {
        self.run(slot).phase
    }

    fn attempts(&self, slot: Slot) -> Vec<RunAttempt> {
        self.run(slot).attempts
    }

    /// The attempts that were started since this was asked last.
    fn starts(&mut self) -> Vec<(Slot, u32)> {
        self.started.drain(..).map(|(slot, attempt, _)| (slot, attempt)).collect()
    }

    /// The stretches without runs that were told: why, from and to when in seconds, and how many.
    fn gaps(&self) -> Vec<(GapReason, u64, u64, u64)> {
        let second = |wall: Wall| wall.as_millis() / 1_000 - BEGIN_S;
        let gap = |event: &JobEvent| match event {
            JobEvent::Passed(gap) => Some((gap.reason, second(gap.first), second(gap.last), gap.count)),
            _ => None,
        };
        self.events.iter().filter_map(gap).collect()
    }

    /// How the runs ended that did.
    fn endings(&self) -> Vec<(Slot, Option<RunFailure>, u32)> {
        let ended = |event: &JobEvent| match event {
            JobEvent::RunEnded { slot, failure, attempts } => Some((*slot, *failure, *attempts)),
            _ => None,
        };
        self.events.iter().filter_map(ended).collect()
    }

    fn tells(&self, event: &JobEvent) -> bool {
        self.events.contains(event)
    }
}
