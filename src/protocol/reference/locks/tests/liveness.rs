//! The dead, forgotten names, and clocks that are set back.

use super::super::super::super::locks::{DEAD_DROPPED_MAX, RECORD_SPAN, is_reminder};
use super::*;

#[test]
fn the_tickets_of_a_sidecar_that_gives_no_sign_of_life_are_skipped() {
    let mut store = Store::new();
    store.granted(&ask("a", 1, 1));
    store.acquire(&waiting("a", 2, 2, Queueing::Fair));
    store.pass(TICKET_SPAN / 2);
    store.acquire(&waiting("a", 3, 3, Queueing::Fair));
    store.pass(TICKET_SPAN / 2);
    assert_eq!(store.release(&["a"], 1).1, [wake("a", 3, 3)]);
    store.granted(&waiting("a", 3, 3, Queueing::Fair));
    store.acquire(&waiting("a", 2, 2, Queueing::Fair));
    store.pass(TICKET_SPAN / 2);
    store.space.beat(store.server(), SessionId::from_u128(2));
    store.pass(TICKET_SPAN / 2);
    assert_eq!(store.release(&["a"], 3).1, [wake("a", 2, 2)], "one that gives signs of life keeps its place");
}

#[test]
fn the_dead_are_dropped_as_they_are_met_and_not_counted_among_those_who_wait() {
    let mut store = Store::new();
    store.granted(&ask("a", 1, 1));
    for (session, id) in [(2, 2), (2, 3), (3, 4), (2, 5)] {
        store.acquire(&waiting("a", session, id, Queueing::Plain));
    }
    store.pass(TICKET_SPAN / 2);
    store.space.beat(store.server(), SessionId::from_u128(3));
    store.pass(TICKET_SPAN / 2);
    assert_eq!(store.look("a").waiting, 1);
    let AcquireReply::Held { ahead, .. } = store.acquire(&waiting("a", 4, 6, Queueing::Plain)) else { panic!() };
    assert_eq!(ahead, 2, "those at the head are gone, though the lock is held; nobody has met the other yet");
    assert_eq!(store.release(&["a"], 1).1, [wake("a", 3, 4)]);
    let name = lock("a");
    assert_eq!(store.space.cells[&name].tickets.len(), 3, "those before the first that lives are gone");
}

#[test]
fn a_refused_request_drops_so_many_of_the_dead_and_whoever_frees_the_lock_all() {
    let mut store = Store::new();
    store.granted(&ask("a", 1, 1));
    for id in 0..DEAD_DROPPED_MAX as u128 + 5 {
        store.acquire(&waiting("a", 2, 100 + id, Queueing::Fair));
    }
    store.pass(TICKET_SPAN);
    let AcquireReply::Held { ahead, .. } = store.acquire(&waiting("a", 3, 2, Queueing::Plain)) else { panic!() };
    assert_eq!(ahead, 5);
    assert_eq!(store.release(&["a"], 1).1, [wake("a", 3, 2)]);
}

#[test]
fn a_clock_that_is_set_back_keeps_the_dead_no_longer_than_their_own_length() {
    let hour = Duration::from_secs(3_600).as_micros() as u64;
    let mut store = Store::new();
    let first = store.granted(&ask("a", 1, 1)).token;
    store.acquire(&waiting("a", 2, 2, Queueing::Fair));
    store.now = StoreTime(store.now.0 - hour);
    let AcquireReply::Held { holder: Some(holder), ahead: 1, .. } = store.acquire(&waiting("a", 3, 3, Queueing::Plain))
    else {
        panic!()
    };
    assert_eq!(holder.remaining, LEASE);
    store.pass(LEASE);
    assert!(store.granted(&waiting("a", 3, 3, Queueing::Plain)).token > first, "those before it are gone");
}

#[test]
fn a_clock_that_is_set_back_begins_no_guard_that_is_over() {
    let mut store = Store::new();
    store.run_id = "two";
    store.acquire(&ask("a", 1, 1));
    store.pass(GUARD);
    store.granted(&ask("a", 1, 1));
    store.now = StoreTime(store.now.0 - 3_600_000_000);
    store.granted(&ask("b", 1, 2));
}

#[test]
fn tokens_rise_although_the_clock_was_set_back_and_the_name_forgotten_since() {
    let mut store = Store::new();
    let first = store.granted(&ask("a", 1, 1)).token;
    store.release(&["a"], 1);
    store.now = StoreTime(store.now.0 - 3_600_000_000);
    let second = store.granted(&ask("b", 1, 2)).token;
    store.release(&["b"], 2);
    store.pass(LEASE + RECORD_SPAN);
    // By its clock the first is used in an hour.
    store.space.cells.clear();
    assert!(second > first);
    for (at, name) in (3..).zip(["a", "b"]) {
        assert!(store.granted(&ask(name, 1, at)).token > second, "{name}");
    }
}

#[test]
fn looking_changes_nothing_and_old_records_are_swept() {
    let mut store = Store::new();
    assert_eq!(store.look("a"), LockInsight::default());
    let token = store.granted(&ask("a", 1, 1)).token;
    store.release(&["a"], 1);
    store.pass(RECORD_SPAN);
    store.space.sweep(store.now);
    assert_eq!(store.space.cells.len(), 1, "it could be put back for as long as its lease");
    store.pass(LEASE);
    store.space.sweep(store.now);
    assert!(store.space.cells.is_empty());
    assert!(store.granted(&ask("a", 1, 2)).token > token, "tokens start from the clock");
}

/// What was cancelled comes back where the store loses its last writes, and its sidecar lives.
#[test]
fn tickets_that_nobody_waits_under_are_reminded_by_those_behind_them_until_they_go() {
    let mut store = Store::new();
    store.granted(&ask("a", 1, 1));
    for id in [2, 3] {
        store.acquire(&waiting("a", 2, id, Queueing::Fair));
    }
    store.acquire(&waiting("a", 3, 4, Queueing::Plain));
    // Its lease ends by itself, and wakes nobody.
    for _ in 0..(LEASE.as_secs() + 1) {
        store.pass(Duration::from_secs(1));
        for session in [2, 3] {
            store.space.beat(store.server(), SessionId::from_u128(session));
        }
    }
    let last = waiting("a", 3, 4, Queueing::Plain);
    for gone in [2, 3] {
        assert_eq!(store.acquire_waking(&last).1, []);
        let reminds = AcquireRequest { reminds: true, ..last.clone() };
        assert_eq!(store.acquire_waking(&reminds).1, [wake("a", 2, gone)]);
        store.cancel("a", 2, gone);
    }
    assert_eq!((1..=10).filter(|looks| is_reminder(*looks)).collect::<Vec<_>>(), [5, 10]);
    store.granted(&last);
}
