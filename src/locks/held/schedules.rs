//! The table of what is held, while its locks are released, extended and taken again, in many orders.

use shuttle::thread;

use super::super::schedules::{LEASE, START, grant, id, request, telemetry};
use super::*;
use crate::base::sync::schedules::{hold, is_caught};

/// One lock that is held, with a turn of which the store has not been told.
fn held() -> Arc<Held> {
    let held = Held::new(telemetry());
    let (grant, turn) = grant();
    held.granted(grant, &request(1), None, START + LEASE, Some(turn));
    Arc::new(held)
}

/// Nothing is left of a name when nothing is held under it.
fn assert_empty(held: &Held) {
    assert!(held.locks.lock().is_empty() && held.by_name.lock().is_empty());
}

type Begin = fn(&Held, LockId, Mono) -> Option<(HeldLock, bool)>;

/// Its owner gives a lock back and takes it again at the same time: it is not passed on to another if the second hold
/// counts on the first.
fn taken_again_while_it_is_given_back(begin_release: Begin) {
    let held = held();
    let again = {
        let held = Arc::clone(&held);
        thread::spawn(move || held.beside(&request(2), START))
    };
    let tidy = {
        let held = Arc::clone(&held);
        thread::spawn(move || held.tidy(START))
    };
    let (_, passes) = begin_release(&held, id(1), START).expect("it is held");
    let beside = again.join().unwrap();
    tidy.join().unwrap();
    assert!(!(passes && beside.is_some()), "it is passed on, and its owner has been told that it has it still");
    assert_empty(&held);
}

#[test]
fn a_lock_that_its_owner_takes_again_is_not_passed_on_to_another() {
    hold(|| taken_again_while_it_is_given_back(Held::begin_release));
}

/// What must not be done: what is known of a lock is read in one step, and the lock forgotten in another.
fn begin_release_in_two_steps(held: &Held, id: LockId, now: Mono) -> Option<(HeldLock, bool)> {
    let known = held.get(id, now)?;
    held.forget(id);
    let passes = known.passes;
    Some((known, passes))
}

#[test]
fn a_release_that_reads_before_it_takes_is_caught() {
    is_caught(|| taken_again_while_it_is_given_back(begin_release_in_two_steps));
}

/// The same release twice, as by a client that repeats it, and an extension: the lock is given back by one of them.
fn given_back_twice(begin_release: Begin) {
    let held = held();
    let id = id(1);
    let extended = {
        let held = Arc::clone(&held);
        thread::spawn(move || held.extended(id, LEASE, START + LEASE * 2))
    };
    let second = {
        let held = Arc::clone(&held);
        thread::spawn(move || begin_release(&held, id, START).is_some())
    };
    let first = begin_release(&held, id, START).is_some();
    let both = [first, second.join().unwrap()];
    extended.join().unwrap();
    assert_eq!(both.iter().filter(|begun| **begun).count(), 1, "it is given back by {both:?}");
    assert_empty(&held);
}

#[test]
fn of_two_releases_of_one_hold_one_gives_it_back() {
    hold(|| given_back_twice(Held::begin_release));
}

#[test]
fn two_releases_that_read_before_they_take_are_caught() {
    is_caught(|| given_back_twice(begin_release_in_two_steps));
}
