//! A lock that is passed on while those it is passed to go, in many orders.

use shuttle::future::block_on;
use shuttle::thread;

use super::super::schedules::{START, grant, name, request};
use super::*;
use crate::base::sync::schedules::{hold, is_caught};

fn turn() -> Given {
    Given { turn: grant().1, served: Vec::new() }
}

/// How a waiter ends its wait, because its own answer came or its time is over.
type Close = fn(&Slot, oneshot::Receiver<Passed>) -> Option<Passed>;

/// One gives a lock back, and two that wait for it go at the same time; whoever was passed it gives it back as well. In
/// the end the store is told of the turn, once: until then one has it, and nobody else.
fn passed_on_while_they_go(close: Close) {
    let lines = Arc::new(Lines::default());
    let wait = |number| {
        let waiter = Arc::new(Waiter::new(request(number)));
        let offer = waiter.slot.open();
        lines.0.lock().entry(name()).or_default().push_back(Arc::clone(&waiter));
        (waiter, offer)
    };
    let waits = [wait(1), wait(2)];
    let waits = waits.map(|(waiter, offer)| {
        let lines = Arc::clone(&lines);
        thread::spawn(move || {
            let passed = close(&waiter.slot, offer);
            lines.leave(&waiter);
            let Passed { token, given } = passed?;
            Some((token, lines.pass(&name(), given, START).err()))
        })
    });
    let first = lines.pass(&name(), turn(), START).err();
    let ends = waits.map(|wait| wait.join().unwrap());
    let mut tokens: Vec<Token> = ends.iter().flatten().map(|(token, _)| *token).collect();
    tokens.dedup();
    assert_eq!(tokens.len(), ends.iter().flatten().count(), "two have it under one token");
    let told = first.iter().chain(ends.iter().flatten().filter_map(|(_, rest)| rest.as_ref())).count();
    assert_eq!(told, 1, "the turn is lost, or there are two: {tokens:?}");
    assert!(lines.0.lock().is_empty());
}

#[test]
fn a_turn_is_neither_lost_nor_doubled_whenever_a_waiter_goes() {
    hold(|| passed_on_while_they_go(|slot, offer| block_on(slot.close(offer))));
}

/// What must not be done: whether it was passed something is looked at in one step, and the slot closed in another.
fn close_in_two_steps(slot: &Slot, offer: oneshot::Receiver<Passed>) -> Option<Passed> {
    if slot.is_open() {
        slot.take();
        return None;
    }
    block_on(offer).ok()
}

#[test]
fn a_slot_that_is_closed_after_it_was_looked_at_is_caught() {
    is_caught(|| passed_on_while_they_go(close_in_two_steps));
}
