//! One decision each.

mod edges;

use std::sync::Arc;

use super::*;
use crate::protocol::jobs::policy::{BackoffPolicy, OnInterrupt, Timetable};
use crate::protocol::jobs::{Gap, GapReason, RunFailure};

const MS: u64 = 1_000_000;

#[derive(Debug)]
struct Every(u64);

impl Timetable for Every {
    fn next_after(&self, after: Wall) -> Option<Wall> {
        Some(Wall::from_millis((after.as_millis() / self.0 + 1) * self.0))
    }

    fn name(&self) -> String {
        format!("every {} ms", self.0)
    }
}

fn token(value: u64) -> Token {
    Token::new(value).unwrap()
}

fn name(text: &str) -> JobName {
    JobName::new(text).unwrap()
}

fn revision(value: u64) -> Revision {
    Revision::new(value).unwrap()
}

fn at(ms: u64) -> Wall {
    Wall::from_millis(ms)
}

/// The clock of the day and the other one show the same here, in milliseconds.
fn moment(ms: u64) -> Moment {
    Moment { mono: Mono::from_nanos(ms * MS), wall: at(ms), room: true, places: usize::MAX }
}

fn once() -> RuntimePlan {
    let (initial, max) = (Duration::from_millis(100), Duration::from_secs(1));
    RuntimePlan {
        timetable: None,
        repeats: None,
        expires: None,
        starting_deadline: None,
        backoff: BackoffPolicy { limit: 2, initial, max },
        active_deadline: None,
        on_interrupt: OnInterrupt::Retry,
    }
}

fn every(ms: u64) -> RuntimePlan {
    RuntimePlan { timetable: Some(Arc::new(Every(ms))), ..once() }
}

fn claim(slot: u64, attempt: u32, plan: RuntimePlan) -> ClaimedJob<()> {
    let plan = ClaimedPlan::Known { plan, state: RuntimeState::default(), work: () };
    let (slot, ticket) = (at(slot), token(50 + u64::from(attempt)));
    ClaimedJob { name: name("a"), revision: revision(1), slot, due: slot, attempt, ticket, interrupted: false, plan }
}

struct Stage {
    taker: JobTaker<()>,
    now: u64,
}

impl Stage {
    /// At 1,000 ms; the first take is out.
    fn new() -> Self {
        let mut stage =
            Self { taker: JobTaker::new(RoleName::new("scheduler").unwrap(), token(50), moment(1_000)), now: 1_000 };
        let take = stage.take();
        assert_eq!((take.1.request, take.1.token, take.1.all), (1, token(50), false));
        stage.answer(take.0, vec![], None, 0);
        assert_eq!(stage.actions(), []);
        stage
    }

    fn actions(&mut self) -> Vec<TakerAction<()>> {
        std::iter::from_fn(|| self.taker.poll_action()).collect()
    }

    fn input(&mut self, input: TakerInput<()>) {
        self.taker.handle_input(moment(self.now), input);
    }

    /// The take that is asked for now, and nothing else.
    fn take(&mut self) -> (TakeId, JobTake) {
        match &self.actions()[..] {
            [TakerAction::Take { id, take }] => (*id, take.clone()),
            other => panic!("{other:?}"),
        }
    }

    fn answer(&mut self, id: TakeId, jobs: Vec<ClaimedJob<()>>, next: Option<u64>, held: usize) {
        self.input(TakerInput::Took(id, TakeAnswer::Taken { jobs, next: next.map(at), held }));
    }

    /// Somebody says that there is something, which is taken.
    fn brings(&mut self, jobs: Vec<ClaimedJob<()>>) -> Vec<TakerAction<()>> {
        let held = jobs.len();
        self.input(TakerInput::Changed(name("z")));
        let (id, _) = self.take();
        self.answer(id, jobs, None, held);
        self.actions().into_iter().filter(|action| !matches!(action, TakerAction::Tell(_))).collect()
    }

    fn starts(&mut self, claim: ClaimedJob<()>) {
        let actions = self.brings(vec![claim]);
        assert!(matches!(&actions[..], [TakerAction::Start { .. }]), "{actions:?}");
    }

    fn ends(&mut self, ticket: u64, ending: Ending) -> Settlement<RuntimeState> {
        let ended = TakerInput::Ended { name: name("a"), ticket: token(ticket), ending, note: "so".to_owned() };
        self.input(ended);
        self.settlement()
    }

    fn settlement(&mut self) -> Settlement<RuntimeState> {
        let actions = self.actions();
        let settled = actions.iter().find_map(|action| match action {
            TakerAction::Settle { settle, .. } => Some(settle.then.clone()),
            _ => None,
        });
        settled.unwrap_or_else(|| panic!("{actions:?}"))
    }

    fn settled(&mut self, ticket: u64) -> Vec<TakerAction<()>> {
        self.input(TakerInput::Settled { name: name("a"), ticket: token(ticket), reply: JobSettleReply::Settled });
        self.actions()
    }
}

fn again(then: &Settlement<RuntimeState>) -> (u64, u64, u32) {
    let Settlement::Again { slot, due, attempt, .. } = then else { panic!("{then:?}") };
    (slot.as_millis(), due.as_millis(), *attempt)
}

#[test]
fn it_looks_again_when_the_next_is_due_and_hardly_ever_when_nothing_waits() {
    let mut stage = Stage::new();
    assert_eq!(stage.taker.poll_timeout(), Some(moment(1_000).mono + LOOK_IDLE));
    stage.input(TakerInput::Changed(name("a")));
    let (id, take) = stage.take();
    assert_eq!(take.request, 2);
    stage.answer(id, vec![], Some(5_000), 0);
    assert_eq!(stage.taker.poll_timeout(), Some(moment(5_000).mono));
    stage.now = 4_999;
    stage.taker.handle_timeout(moment(4_999));
    assert_eq!(stage.actions(), []);
    stage.now = 5_000;
    stage.taker.handle_timeout(moment(5_000));
    assert_eq!(stage.take().1.now, at(5_000));
}

#[test]
fn what_is_heard_of_while_a_take_is_out_is_looked_for_afterwards() {
    let mut stage = Stage::new();
    stage.input(TakerInput::Changed(name("a")));
    let (id, _) = stage.take();
    stage.input(TakerInput::Changed(name("b")));
    assert_eq!(stage.actions(), []);
    stage.answer(id, vec![], None, 0);
    assert_eq!(stage.take().1.request, 3);
}

#[test]
fn a_take_without_an_answer_is_repeated_as_it_was() {
    let mut stage = Stage::new();
    stage.input(TakerInput::Changed(name("a")));
    let (id, take) = stage.take();
    stage.now = 2_000;
    stage.input(TakerInput::TakeUnanswered(id));
    let (second, repeated) = stage.take();
    assert_eq!(repeated, take);
    // The first answer comes after all: it is too late.
    stage.answer(id, vec![claim(900, 1, once())], None, 1);
    assert_eq!(stage.actions(), []);
    stage.answer(second, vec![claim(900, 1, once())], None, 1);
    assert!(matches!(&stage.actions()[..], [TakerAction::Start { .. }, TakerAction::Tell(_)]));
}

#[test]
fn a_one_shot_runs_is_told_of_when_that_is_written_and_is_gone() {
    let mut stage = Stage::new();
    stage.starts(claim(900, 1, once()));
    assert_eq!(stage.ends(51, Ending::Succeeded), Settlement::Remove);
    assert!(!stage.taker.is_settled());
    let told = stage.settled(51);
    let ended = JobEvent::RunEnded { slot: Slot::Manual(at(900)), failure: None, attempts: 1 };
    assert_eq!(told, [TakerAction::Tell(TakerEvent::Job(name("a"), ended))]);
    assert_eq!(stage.settled(51), [], "twice");
}

#[test]
fn a_settlement_without_an_answer_is_repeated() {
    let mut stage = Stage::new();
    stage.starts(claim(900, 1, once()));
    assert_eq!(stage.ends(51, Ending::Succeeded), Settlement::Remove);
    stage.input(TakerInput::SettleUnanswered { name: name("a"), ticket: token(51) });
    assert_eq!(stage.settlement(), Settlement::Remove);
    stage.settled(51);
    stage.input(TakerInput::SettleUnanswered { name: name("a"), ticket: token(51) });
    assert_eq!(stage.actions(), [], "it was answered meanwhile");
}

#[test]
fn a_failed_attempt_is_repeated_after_a_pause_until_the_limit() {
    let mut stage = Stage::new();
    for (attempt, pause) in [(1, 100), (2, 200)] {
        stage.starts(claim(900, attempt, once()));
        assert_eq!(again(&stage.ends(50 + u64::from(attempt), Ending::Failed)), (900, 1_000 + pause, attempt));
        stage.settled(50 + u64::from(attempt));
    }
    stage.starts(claim(900, 3, once()));
    assert_eq!(stage.ends(53, Ending::Failed), Settlement::Remove);
    let told = stage.settled(53);
    let failure = Some(RunFailure::BackoffLimitExceeded);
    let ended = JobEvent::RunEnded { slot: Slot::Manual(at(900)), failure, attempts: 3 };
    assert_eq!(told, [TakerAction::Tell(TakerEvent::Job(name("a"), ended))]);
}

#[test]
fn when_it_is_due_again_is_known_without_a_look() {
    let mut stage = Stage::new();
    stage.starts(claim(900, 1, once()));
    stage.ends(51, Ending::Failed);
    stage.settled(51);
    assert_eq!(stage.taker.poll_timeout(), Some(moment(1_100).mono));
    stage.now = 1_100;
    stage.taker.handle_timeout(moment(1_100));
    let (id, _) = stage.take();
    stage.starts_after(id);
}

impl Stage {
    /// While a take is out, another attempt is settled, to be due before anything that the take tells of.
    fn starts_after(&mut self, id: TakeId) {
        self.answer(id, vec![claim(900, 2, once())], None, 1);
        assert!(matches!(&self.actions()[..], [TakerAction::Start { .. }, TakerAction::Tell(_)]));
        self.input(TakerInput::Changed(name("z")));
        let (id, _) = self.take();
        assert_eq!(again(&self.ends(52, Ending::Failed)), (900, 1_300, 2));
        self.settled(52);
        self.answer(id, vec![], None, 0);
        assert_eq!(self.taker.poll_timeout(), Some(moment(1_300).mono));
    }
}

#[test]
fn a_schedule_goes_on_with_the_next_slot_that_is_not_past() {
    let mut stage = Stage::new();
    stage.starts(claim(400, 1, every(400)));
    let then = stage.ends(51, Ending::Succeeded);
    assert_eq!(again(&then), (1_200, 1_200, 0), "800 has passed");
    let Settlement::Again { state: Some(state), .. } = then else { panic!() };
    assert_eq!((state.runs, state.began), (1, None));
    let last = RunRecord { slot: at(400), attempts: 1, ended: at(1_000), failure: None, note: "so".to_owned() };
    assert_eq!(state.last, Some(last));
}

#[test]
fn a_clock_that_is_set_back_repeats_no_slot() {
    let mut stage = Stage::new();
    stage.starts(claim(2_000, 1, every(400)));
    assert_eq!(again(&stage.ends(51, Ending::Succeeded)), (2_400, 2_400, 0));
}

#[test]
fn repeats_and_ttl_end_a_schedule() {
    for plan in [RuntimePlan { repeats: Some(1), ..every(400) }, RuntimePlan { expires: Some(at(1_199)), ..every(400) }]
    {
        let mut stage = Stage::new();
        stage.starts(claim(400, 1, plan));
        assert_eq!(stage.ends(51, Ending::Succeeded), Settlement::Remove);
    }
}

#[test]
fn what_is_too_late_or_expired_does_not_begin() {
    let late = RuntimePlan { starting_deadline: Some(Duration::from_millis(99)), ..once() };
    let mut stage = Stage::new();
    let actions = stage.brings(vec![claim(900, 1, late)]);
    assert!(matches!(&actions[..], [TakerAction::Settle { settle, .. }] if settle.then == Settlement::Remove));
    let gap = Gap { reason: GapReason::Missed, first: at(900), last: at(900), count: 1 };
    let missed = TakerAction::Tell(TakerEvent::Job(name("a"), JobEvent::Passed(gap)));
    assert_eq!(stage.settled(51), [missed]);

    let mut stage = Stage::new();
    let expired = RuntimePlan { expires: Some(at(999)), ..once() };
    let actions = stage.brings(vec![claim(900, 1, expired.clone())]);
    assert!(matches!(&actions[..], [TakerAction::Settle { settle, .. }] if settle.then == Settlement::Remove));
    assert_eq!(stage.settled(51), [TakerAction::Tell(TakerEvent::Expired(name("a")))]);
    let mut stage = Stage::new();
    stage.starts(claim(900, 2, expired));
}

#[test]
fn an_interrupted_attempt_counts_and_may_end_the_run() {
    let interrupted = |attempt, plan| ClaimedJob { interrupted: true, ..claim(900, attempt, plan) };
    let mut stage = Stage::new();
    stage.starts(interrupted(2, once()));
    for bad in [interrupted(4, once()), interrupted(2, RuntimePlan { on_interrupt: OnInterrupt::Fail, ..once() })] {
        let mut stage = Stage::new();
        let actions = stage.brings(vec![bad]);
        assert!(matches!(&actions[..], [TakerAction::Settle { settle, .. }] if settle.then == Settlement::Remove));
    }
}

#[test]
fn a_run_that_takes_too_long_is_cancelled_also_over_attempts() {
    let plan = RuntimePlan { active_deadline: Some(Duration::from_millis(500)), ..once() };
    let mut stage = Stage::new();
    stage.starts(claim(900, 1, plan.clone()));
    assert_eq!(stage.taker.poll_timeout(), Some(moment(1_500).mono));
    stage.now = 1_500;
    stage.taker.handle_timeout(moment(1_500));
    let cancel = TakerAction::Cancel { name: name("a"), token: token(51), why: Quit::Deadline };
    assert_eq!(stage.actions(), [cancel]);
    assert_eq!(stage.ends(51, Ending::Cancelled), Settlement::Remove);

    let mut stage = Stage::new();
    let began = RuntimeState { began: Some(at(500)), ..RuntimeState::default() };
    let late = ClaimedJob { plan: ClaimedPlan::Known { plan, state: began, work: () }, ..claim(400, 2, once()) };
    let actions = stage.brings(vec![late]);
    assert!(matches!(&actions[..], [TakerAction::Settle { settle, .. }] if settle.then == Settlement::Remove));
}

#[test]
fn an_attempt_that_waits_for_room_until_the_time_of_its_run_is_over_does_not_begin() {
    let plan = RuntimePlan { active_deadline: Some(Duration::from_millis(500)), ..once() };
    let mut stage = Stage::new();
    let began = RuntimeState { began: Some(at(1_000)), ..RuntimeState::default() };
    let late = ClaimedJob { plan: ClaimedPlan::Known { plan, state: began, work: () }, ..claim(900, 2, once()) };
    let shut = |ms| Moment { room: false, ..moment(ms) };
    stage.input(TakerInput::Changed(name("z")));
    let (id, _) = stage.take();
    let taken = TakeAnswer::Taken { jobs: vec![late], next: None, held: 1 };
    stage.taker.handle_input(shut(1_000), TakerInput::Took(id, taken));
    assert_eq!(stage.actions(), []);
    for ms in (1_000..1_500).step_by(100) {
        stage.taker.handle_timeout(shut(ms));
        assert_eq!((stage.actions(), stage.taker.poll_timeout()), (vec![], Some(moment(ms + 100).mono)));
    }
    stage.now = 1_500;
    stage.taker.handle_timeout(moment(1_500));
    assert_eq!(stage.settlement(), Settlement::Remove);
    let told = stage.settled(52);
    let ended =
        JobEvent::RunEnded { slot: once().slot(at(900)), failure: Some(RunFailure::DeadlineExceeded), attempts: 1 };
    assert!(told.contains(&TakerAction::Tell(TakerEvent::Job(name("a"), ended))), "{told:?}");
}

#[test]
fn a_job_that_is_deleted_while_it_runs_is_cancelled_and_not_settled() {
    let mut stage = Stage::new();
    stage.starts(claim(900, 1, once()));
    stage.input(TakerInput::Changed(name("a")));
    let of = revision(1);
    assert!(stage.actions().contains(&TakerAction::Look { name: name("a"), of }));
    stage.input(TakerInput::Looked { name: name("a"), of, revision: Some(of) });
    assert_eq!(stage.actions(), [], "it is there");
    stage.input(TakerInput::Looked { name: name("a"), of, revision: None });
    let cancel = TakerAction::Cancel { name: name("a"), token: token(51), why: Quit::Gone };
    assert_eq!(stage.actions(), [cancel]);
    let (ticket, note) = (token(51), String::new());
    stage.input(TakerInput::Ended { name: name("a"), ticket, ending: Ending::Cancelled, note });
    assert!(matches!(&stage.actions()[..], [TakerAction::Tell(_)]));
    assert_eq!(stage.taker.active(), 0);
}

#[test]
fn a_job_that_takes_anothers_place_begins_when_that_has_ended() {
    let mut stage = Stage::new();
    stage.starts(claim(900, 1, once()));
    let other = ClaimedJob { revision: revision(2), ticket: token(60), ..claim(950, 1, once()) };
    let actions = stage.brings(vec![other]);
    assert_eq!(actions, [TakerAction::Cancel { name: name("a"), token: token(51), why: Quit::Gone }]);
    let (ticket, note) = (token(51), String::new());
    stage.input(TakerInput::Ended { name: name("a"), ticket, ending: Ending::Cancelled, note });
    let started = |action: &TakerAction<()>| matches!(action, TakerAction::Start { token: of, .. } if *of == token(60));
    assert!(stage.actions().iter().any(started));
}

#[test]
fn what_the_store_has_given_and_nobody_knows_of_is_asked_for() {
    let mut stage = Stage::new();
    stage.input(TakerInput::Changed(name("z")));
    let (id, take) = stage.take();
    stage.answer(id, vec![], None, 1);
    let (id, all) = stage.take();
    assert_eq!((all.all, all.request), (true, take.request));
    stage.answer(id, vec![claim(900, 1, once())], None, 1);
    assert!(matches!(&stage.actions()[..], [TakerAction::Start { .. }, TakerAction::Tell(_)]));
}

#[test]
fn what_has_ended_here_is_not_made_again_though_the_store_has_lost_the_word() {
    let mut stage = Stage::new();
    stage.starts(claim(900, 1, once()));
    stage.ends(51, Ending::Succeeded);
    stage.settled(51);
    let actions = stage.brings(vec![ClaimedJob { ticket: token(77), ..claim(900, 1, once()) }]);
    let [TakerAction::Settle { settle, .. }] = &actions[..] else { panic!("{actions:?}") };
    assert_eq!((settle.ticket, &settle.then), (token(77), &Settlement::Remove));
}

#[test]
fn without_room_nothing_is_taken_and_nothing_starts() {
    let mut stage = Stage::new();
    let tight = Moment { room: false, ..moment(1_000) };
    stage.taker.handle_input(tight, TakerInput::Changed(name("a")));
    assert_eq!((stage.actions(), stage.taker.poll_timeout()), (vec![], Some(tight.mono + ROOM_LOOK)));
    stage.taker.handle_timeout(moment(1_000));
    let (id, _) = stage.take();
    let taken = TakeAnswer::Taken { jobs: vec![claim(900, 1, once())], next: None, held: 1 };
    stage.taker.handle_input(tight, TakerInput::Took(id, taken));
    assert_eq!(stage.actions(), []);
    stage.taker.handle_timeout(moment(1_000));
    assert!(matches!(&stage.actions()[..], [TakerAction::Start { .. }, TakerAction::Tell(_)]));
}

#[test]
fn who_stops_leading_gives_back_what_has_not_begun_and_what_it_interrupts() {
    let mut stage = Stage::new();
    stage.starts(claim(900, 1, once()));
    stage.input(TakerInput::Changed(name("z")));
    let (id, _) = stage.take();
    stage.input(TakerInput::Closing);
    stage.input(TakerInput::TakeUnanswered(id));
    let (id, _) = stage.take();
    let other = ClaimedJob { name: name("b"), ticket: token(60), ..claim(900, 1, once()) };
    stage.answer(id, vec![other], None, 2);
    assert_eq!(again(&stage.settlement()), (900, 1_000, 0), "it does not count");
    assert_eq!(again(&stage.ends(51, Ending::Interrupted)), (900, 1_000, 1), "it counts");
    stage.settled(51);
    assert!(!stage.taker.is_settled());
    let (name, ticket, reply) = (name("b"), token(60), JobSettleReply::Settled);
    stage.input(TakerInput::Settled { name, ticket, reply });
    assert!(stage.taker.is_settled());
    stage.input(TakerInput::Gap);
    assert_eq!(stage.actions(), [], "nothing is taken any more");
}

#[test]
fn a_later_term_ends_it_at_once() {
    let mut stage = Stage::new();
    stage.starts(claim(900, 1, once()));
    stage.input(TakerInput::Changed(name("z")));
    let (id, _) = stage.take();
    stage.input(TakerInput::Took(id, TakeAnswer::Stale { fence: token(60) }));
    let cancel = TakerAction::Cancel { name: name("a"), token: token(51), why: Quit::Superseded };
    assert_eq!(stage.actions(), [cancel, TakerAction::Tell(TakerEvent::Superseded { fence: token(60) })]);
    let (ticket, note) = (token(51), String::new());
    stage.input(TakerInput::Ended { name: name("a"), ticket, ending: Ending::Succeeded, note });
    assert!(matches!(&stage.actions()[..], [TakerAction::Tell(_)]), "the word on it is another leader's");
    assert!(stage.taker.is_over() && stage.taker.is_settled() && stage.taker.poll_timeout().is_none());
}

#[test]
fn what_cannot_be_read_is_tried_later_and_what_the_file_has_is_removed() {
    let mut stage = Stage::new();
    stage.brings(vec![]);
    for (plan, wanted) in [(ClaimedPlan::Unreadable, Some((900, 61_000, 0))), (ClaimedPlan::Shadowed, None)] {
        let mut stage = Stage::new();
        let actions = stage.brings(vec![ClaimedJob { plan, ..claim(900, 1, once()) }]);
        let [TakerAction::Settle { settle, .. }] = &actions[..] else { panic!("{actions:?}") };
        match wanted {
            Some(wanted) => assert_eq!(again(&settle.then), wanted),
            None => assert_eq!(settle.then, Settlement::Remove),
        }
    }
}

#[test]
fn what_is_seen_of_a_job_that_has_ended_says_nothing_about_the_next_of_its_name() {
    let mut stage = Stage::new();
    stage.starts(claim(900, 1, once()));
    let of = revision(1);
    stage.input(TakerInput::Gap);
    let look = TakerAction::Look { name: name("a"), of };
    let Some(TakerAction::Take { id, .. }) = stage.actions().into_iter().find(|action| *action != look) else {
        panic!("it takes, too")
    };
    stage.ends(51, Ending::Succeeded);
    stage.settled(51);
    let next = ClaimedJob { revision: revision(2), ..claim(950, 1, once()) };
    stage.answer(id, vec![next], None, 1);
    assert!(matches!(&stage.actions()[..], [TakerAction::Start { .. }, TakerAction::Tell(_)]));
    // The look was made when neither was there.
    stage.input(TakerInput::Looked { name: name("a"), of, revision: None });
    assert_eq!(stage.actions(), []);
}

#[test]
fn a_job_that_was_deleted_is_not_made_again_by_an_answer_that_is_late() {
    for runs in [true, false] {
        let mut stage = Stage::new();
        stage.input(TakerInput::Changed(name("a")));
        let (id, _) = stage.take();
        if !runs {
            stage.taker.handle_input(
                Moment { room: false, ..moment(1_000) },
                TakerInput::Took(id, TakeAnswer::Taken { jobs: vec![claim(900, 1, once())], next: None, held: 2 }),
            );
        } else {
            stage.answer(id, vec![claim(900, 1, once())], None, 2);
        }
        // The store has given more than that, and all is asked for. Meanwhile the job is deleted.
        let asked = stage.actions();
        let all = asked.iter().find_map(|action| match action {
            TakerAction::Take { id, take } if take.all => Some(*id),
            _ => None,
        });
        let of = revision(1);
        let gone = TakerInput::Looked { name: name("a"), of, revision: None };
        stage.taker.handle_input(Moment { room: runs, ..moment(1_000) }, gone);
        if runs {
            let (ticket, note) = (token(51), String::new());
            stage.input(TakerInput::Ended { name: name("a"), ticket, ending: Ending::Cancelled, note });
        }
        stage.actions();
        stage.answer(all.expect("all is asked for"), vec![claim(900, 1, once())], None, 1);
        let starts = |action: &TakerAction<()>| matches!(action, TakerAction::Start { .. });
        assert!(!stage.actions().iter().any(starts), "{runs}");
    }
}
