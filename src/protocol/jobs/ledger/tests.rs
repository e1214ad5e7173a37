//! What a ledger decides, keeps, forgets, and takes in of another.

use super::super::run::RunAttempt;
use super::super::wishes::RunOrder;
use super::leaps::Leaps;
use super::*;

const HOUR_MS: u64 = 3_600_000;

/// Slots on the hour, named by their number.
#[derive(Debug)]
struct Hourly;

impl Timetable for Hourly {
    fn next_after(&self, after: Wall) -> Option<Wall> {
        Some(Wall::from_millis((after.as_millis() / HOUR_MS + 1) * HOUR_MS))
    }

    fn name(&self) -> String {
        "hourly".to_owned()
    }
}

fn hour(number: u64) -> Wall {
    Wall::from_millis(number * HOUR_MS)
}

fn hours(stretches: &[(u64, u64)]) -> Vec<(Wall, Wall)> {
    stretches.iter().map(|(first, last)| (hour(*first), hour(*last))).collect()
}

fn at(number: u64) -> Slot {
    Slot::Scheduled(hour(number))
}

fn token(value: u64) -> Token {
    Token::new(value).unwrap()
}

/// A job whose slots are decided up to this hour.
fn decided(number: u64) -> Ledger {
    Ledger { decided: hour(number), ..Ledger::new(Hourly.name(), false, hour(0)) }
}

/// The same, with these stretches decided for good beyond the first hour.
fn closed(number: u64, stretches: &[(u64, u64)]) -> Ledger {
    let leaps = Leaps { settled: Some(hour(1)), closed: hours(stretches), reopened: None };
    Ledger { leaps, ..decided(number) }
}

fn gap(reason: GapReason, first: u64, last: u64) -> Gap {
    Gap { reason, first: hour(first), last: hour(last), count: last - first + 1 }
}

fn missed(first: u64, last: u64) -> Gap {
    gap(GapReason::Missed, first, last)
}

fn suspended(first: u64, last: u64) -> Gap {
    gap(GapReason::Suspended, first, last)
}

/// A run with one attempt, under a token that is its term's.
fn run(phase: Phase, term: u64) -> Run {
    let (term, by, claimed) = (token(term), Arc::from("me"), hour(0));
    let mut run = Run { began: Some(claimed), ..Run::new(phase) };
    let note = "first".to_owned();
    run.push(RunAttempt { number: 1, token: term, term, by, claimed, end: None, withdrawn: false, note });
    run
}

fn with_runs<const N: usize>(ledger: Ledger, runs: [(Slot, Run); N]) -> Ledger {
    let token = runs.iter().filter_map(|(_, run)| run.attempts.last()).map(|last| last.token).max();
    Ledger { runs: runs.into(), token: token.unwrap_or(Token::NONE), ..ledger }
}

fn slots(ledger: &Ledger) -> Vec<Slot> {
    ledger.runs.keys().copied().collect()
}

#[test]
fn a_pause_that_is_heard_of_twice_is_news_once() {
    let mut suspension = Suspension::default();
    let pause = Some((true, hour(1)));
    assert_eq!([suspension.hear(pause), suspension.hear(pause), suspension.hear(None)], [true, false, false]);
    assert!(suspension.is_paused());
}

#[test]
fn what_is_asked_of_a_run_comes_after_what_was_asked_before_also_under_a_clock_that_is_behind() {
    let mut run = Run::new(Phase::Running);
    run.ask(RunWish::Cancel, hour(5));
    run.ask(RunWish::Retry, hour(3));
    let order = run.order.expect("it was asked for");
    assert!(order.what == RunWish::Retry && order.at > hour(5));
}

#[test]
fn another_attempt_of_a_slot_decides_nothing_anew() {
    let mut ledger = decided(1);
    ledger.pass(missed(2, 4));
    ledger.claim(at(5), token(7), &Arc::from("me"), hour(5));
    ledger.pass(missed(6, 9));
    let before = ledger.leaps.clone();
    assert_eq!(before.closed, hours(&[(5, 5)]));
    assert_eq!(ledger.claim(at(5), token(7), &Arc::from("me"), hour(9)), 2);
    assert_eq!((ledger.leaps, ledger.decided), (before, hour(9)));
}

#[test]
fn what_ended_long_ago_is_needed_least_and_what_goes_on_most() {
    let over = |phase, ended| Run { ended: Some(hour(ended)), ..run(phase, 7) };
    let failed = Phase::Failed(RunFailure::Cancelled);
    let runs = [(at(1), run(Phase::Running, 7)), (at(2), over(Phase::Succeeded, 9)), (at(3), over(failed, 8))];
    assert_eq!(with_runs(decided(9), runs).least_needed_first(), [at(3), at(2), at(1)]);
}

#[test]
fn a_ledger_is_abridged_by_old_notes_then_old_attempts_then_runs_that_are_over() {
    let mut twice = run(Phase::Running, 7);
    twice.push(RunAttempt { number: 2, note: "second".to_owned(), ..twice.attempts[0].clone() });
    let mut ledger = with_runs(decided(9), [(at(1), twice), (at(2), run(Phase::Succeeded, 7))]);
    let notes = |ledger: &Ledger| -> Vec<String> {
        ledger.runs[&at(1)].attempts.iter().map(|attempt| attempt.note.clone()).collect()
    };
    ledger.abridge(at(1), Abridgement::OldNotes);
    assert_eq!(notes(&ledger), ["", "second"]);
    ledger.abridge(at(1), Abridgement::OldAttempts);
    assert_eq!(notes(&ledger), ["second"]);
    for slot in [at(1), at(2), at(3)] {
        ledger.abridge(slot, Abridgement::Run);
    }
    assert_eq!(slots(&ledger), [at(1)], "what goes on is kept");
}

#[test]
fn what_this_term_has_written_is_taken_in_and_what_an_earlier_one_has_is_not() {
    let asked = Slot::Manual(hour(3));
    let runs = [(at(4), run(Phase::Running, 7)), (at(5), run(Phase::Running, 6)), (asked, Run::new(Phase::Asked))];
    let stored = with_runs(decided(5), runs);
    for (term, taken) in [(Some(token(7)), vec![at(4), asked]), (None, vec![asked])] {
        let mut ledger = decided(1);
        ledger.adopt(stored.clone(), term);
        let decided = if term.is_some() { hour(5) } else { hour(1) };
        assert_eq!((slots(&ledger), ledger.decided), (taken, decided));
    }
    let mut ahead = Ledger { token: token(8), ..decided(1) };
    ahead.adopt(stored, Some(token(7)));
    assert_eq!(ahead.decided, hour(1), "more was claimed since");
}

#[test]
fn a_run_that_was_forgotten_does_not_come_back() {
    let ours = closed(2, &[(4, 5)]);
    let runs = [2, 3, 4, 5, 6].map(|slot| (at(slot), run(Phase::Running, 7)));
    let mut ledger = Ledger { leaps: Leaps { settled: None, ..ours.leaps.clone() }, ..ours };
    ledger.adopt(with_runs(decided(1), runs), Some(token(7)));
    assert_eq!(slots(&ledger), [at(3), at(6)]);
}

#[test]
fn of_two_words_on_a_run_that_counts_which_is_further_and_ours_of_two_that_are_as_far() {
    let order = |at, what| Some(RunOrder { at: hour(at), what, done: false });
    let ours = Run { order: order(9, RunWish::Cancel), ..run(Phase::Running, 7) };
    let theirs = |phase, term| Run { order: order(8, RunWish::Retry), ended: Some(hour(9)), ..run(phase, term) };
    let further = Phase::Succeeded;
    for (theirs, phase, ended) in [
        (theirs(further, 7), further, Some(hour(9))),
        (theirs(Phase::Running, 8), Phase::Running, Some(hour(9))),
        (theirs(Phase::Running, 7), Phase::Running, None),
    ] {
        let mut ledger = with_runs(decided(1), [(at(1), ours.clone())]);
        ledger.adopt(with_runs(decided(1), [(at(1), theirs)]), Some(token(7)));
        let run = &ledger.runs[&at(1)];
        assert_eq!((run.phase, run.ended, run.order), (phase, ended, ours.order));
    }
}

#[test]
fn of_two_orders_of_one_moment_the_one_that_is_known_holds() {
    let ordered = |suspend| {
        let mut ledger = decided(1);
        ledger.order(suspend, hour(1));
        ledger
    };
    let mut ledger = ordered(true);
    ledger.adopt(ordered(false), None);
    assert!(ledger.suspension.holds());
}

/// What this term has decided, as another request of it may have written.
fn of_this_term(number: u64) -> Ledger {
    let gaps = vec![missed(2, 2), missed(number, number)];
    Ledger { gaps, ..with_runs(closed(number, &[(3, 3)]), [(at(3), run(Phase::Running, 7))]) }
}

#[test]
fn what_was_decided_since_is_taken_in_with_its_gaps() {
    let mut ledger = Ledger { gaps: vec![missed(2, 2)], ..decided(2) };
    ledger.adopt(of_this_term(5), Some(token(7)));
    assert_eq!((ledger.decided, ledger.leaps), (hour(5), of_this_term(5).leaps));
    assert_eq!(ledger.gaps, [missed(2, 2), missed(5, 5)], "each once");
    let other = Ledger { timetable: "daily".to_owned(), ..decided(2) };
    let mut ledger = other.clone();
    ledger.adopt(of_this_term(5), Some(token(7)));
    assert_eq!((ledger.decided, ledger.leaps), (other.decided, other.leaps), "slots of another schedule");
}

#[test]
fn what_is_decided_as_far_here_or_was_opened_again_since_is_not_decided_by_the_store() {
    let reopened = |to| Leaps { reopened: Some(hour(to)), ..Leaps::default() };
    for (number, leaps, taken) in [
        (5, Leaps::default(), false),
        (6, Leaps::default(), false),
        (2, reopened(6), false),
        (2, reopened(5), false),
        (2, reopened(4), true),
    ] {
        let mut ledger = Ledger { leaps: leaps.clone(), ..decided(number) };
        ledger.adopt(of_this_term(5), Some(token(7)));
        let kept = (ledger.decided, ledger.leaps) == (hour(number), leaps);
        assert_eq!(kept, !taken, "{number}");
    }
}

#[test]
fn keys_that_both_know_are_kept_once() {
    let key = |name: &str, at| AskedKey { key: Arc::from(name), at: hour(at), print: 0 };
    let mut ledger = Ledger { keys: vec![key("a", 1)], ..decided(2) };
    ledger.adopt(Ledger { keys: vec![key("a", 1), key("b", 2)], ..decided(2) }, None);
    assert_eq!(ledger.keys, [key("a", 1), key("b", 2)]);
}

#[test]
fn the_last_ten_backfills_are_remembered() {
    let mut ledger = decided(20);
    for number in 1..=12 {
        ledger.backfill(&Hourly, (hour(number), hour(number)), hour(20)).expect("nothing goes on");
        ledger.backfills.decide(hour(number));
    }
    let from: Vec<Wall> = ledger.backfills.0.iter().map(|backfill| backfill.from).collect();
    assert_eq!(from, (3..=12).map(hour).collect::<Vec<_>>());
}

#[test]
fn gaps_are_one_where_nothing_that_ran_or_is_closed_lies_between_them() {
    let mut ledger = closed(4, &[(3, 3), (9, 9)]);
    ledger.pass(missed(5, 5));
    ledger.pass(missed(6, 6));
    assert_eq!(ledger.gaps, [missed(5, 6)]);
    let mut ledger = closed(2, &[(4, 4)]);
    ledger.pass(missed(3, 3));
    ledger.pass(missed(5, 5));
    assert_eq!(ledger.gaps, [missed(3, 3), missed(5, 5)], "four is closed");
    let mut ledger = decided(2);
    ledger.pass(suspended(3, 3));
    ledger.claim(at(4), token(7), &Arc::from("me"), hour(4));
    ledger.pass(suspended(5, 5));
    assert_eq!(ledger.gaps, [suspended(3, 3), suspended(5, 5)], "four ran");
}

#[test]
fn gaps_that_are_decided_for_good_are_one_as_well() {
    let mut ledger = closed(4, &[]);
    ledger.pass(suspended(5, 5));
    ledger.pass(suspended(6, 6));
    assert_eq!((&ledger.gaps[..], &ledger.leaps.closed), (&[suspended(5, 6)][..], &hours(&[(5, 6)])));
    // Of another schedule, in which nothing was due before.
    ledger.decide(hour(8), hour(8), false);
    ledger.pass(suspended(9, 9));
    assert_eq!(ledger.gaps, [Gap { count: 3, ..suspended(5, 9) }]);
}

#[test]
fn of_nine_closed_stretches_the_two_that_are_next_to_each_other_become_one() {
    let mut ledger = closed(4, &[]);
    for number in (10..=80).step_by(10) {
        ledger.decide(hour(number), hour(number), false);
        ledger.decide(hour(number + 1), hour(number + 1), true);
    }
    let eight: Vec<(u64, u64)> = (10..=80).step_by(10).map(|number| (number + 1, number + 1)).collect();
    assert_eq!(ledger.leaps.closed, hours(&eight));
    ledger.decide(hour(82), hour(82), false);
    ledger.decide(hour(83), hour(83), true);
    let closed = [&eight[..7], &[(81, 83)][..]].concat();
    assert_eq!((ledger.leaps.settled, ledger.leaps.closed), (Some(hour(1)), hours(&closed)));
}

#[test]
fn what_was_opened_again_is_remembered_until_it_is_decided() {
    let leaps = Leaps { closed: hours(&[(6, 6)]), reopened: Some(hour(6)), ..Leaps::default() };
    let mut ledger = Ledger { leaps: leaps.clone(), ..decided(2) };
    ledger.decide(hour(4), hour(4), true);
    assert_eq!(ledger.leaps, leaps);
    ledger.decide(hour(6), hour(6), true);
    assert_eq!(ledger.leaps, Leaps::default());
    ledger.decide(hour(6), hour(6), false);
    assert_eq!(ledger.leaps, Leaps::default(), "nothing is open before it");
}

#[test]
fn a_stretch_is_open_but_for_what_is_closed_in_it() {
    let ledger = closed(2, &[(3, 4), (8, 9)]);
    let (before, after) = (|number| hour(number).minus(MS), |number| hour(number).plus(MS));
    let open = [(hour(1), before(3)), (after(4), before(8)), (after(9), hour(10))];
    assert_eq!(ledger.open_between(hour(1), hour(10)), open);
    assert_eq!(ledger.open_between(hour(5), hour(7)), hours(&[(5, 7)]));
    assert_eq!([2, 3, 4, 5, 9].map(|slot| ledger.is_closed(hour(slot))), [false, true, true, false, true]);
}

#[test]
fn what_is_opened_again_is_counted_among_the_missed_no_longer() {
    let gaps = vec![missed(1, 1), missed(4, 4), suspended(5, 6), missed(7, 8)];
    let mut ledger = Ledger { gaps, ..closed(8, &[(5, 6)]) };
    assert!(ledger.reopen(&Hourly, hour(3)));
    assert_eq!((ledger.decided, &ledger.gaps[..]), (hour(3), &[missed(1, 1), suspended(5, 6)][..]));
    assert_eq!((ledger.leaps.reopened, ledger.leaps.closed), (Some(hour(8)), hours(&[(5, 6)])));
}

#[test]
fn the_last_slot_that_is_decided_is_opened_again_too() {
    let mut ledger = closed(4, &[]);
    assert!(!ledger.clone().reopen(&Hourly, hour(4)), "none is after this");
    assert!(ledger.reopen(&Hourly, hour(3)));
    assert_eq!(ledger.next_slot(&Hourly, ledger.decided), Some(hour(4)));
}

#[test]
fn a_slot_that_was_opened_again_is_bygone_once_the_clock_is_past_all_of_them() {
    let leaps = Leaps { reopened: Some(hour(5)), ..Leaps::default() };
    let ledger = Ledger { leaps, ..decided(2) };
    let bygone = [(5, 5), (4, 9), (6, 9), (4, 4)].map(|(slot, now)| ledger.is_bygone(hour(slot), hour(now)));
    assert_eq!(bygone, [true, true, false, false]);
    assert!(!decided(2).is_bygone(hour(3), hour(9)));
}

#[test]
fn a_gap_ends_with_its_last_slot_or_where_its_stretch_does_when_they_are_too_many_to_count() {
    let late = |number: u64| hour(number).plus(MS);
    let of = |last| counted(&Hourly, late(1), last, GapReason::Missed);
    assert_eq!(of(late(3)), Some(missed(2, 3)));
    assert_eq!(of(late(1)), None);
    let most = Gap { last: late(1_001), ..missed(2, 1_001) };
    assert_eq!((most.count, of(late(1_001))), (1_000, Some(most)));
}
