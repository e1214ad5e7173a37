//! What is put back beside others, who must agree, and what a sweep and a look leave.

use super::super::super::super::locks::TurnSeat;
use super::*;

fn token(number: u64) -> Token {
    Token::new(START + number).unwrap()
}

/// Request `id` puts a permit of two back, granted under the token; `last` is the last one that it knows of.
fn permit(id: u128, number: u64, last: u64) -> ExtendRequest {
    let restore = lost(token(number)).map(|lost| Box::new(Restore { permits: 2, last: token(last), ..*lost }));
    ExtendRequest { restore, ..extension("a", id) }
}

fn returns(store: &mut Store, request: &ExtendRequest) -> bool {
    matches!(store.extend(request), ExtendReply::Extended { restored: true, .. })
}

fn two(session: u128, id: u128, queueing: Queueing) -> AcquireRequest {
    AcquireRequest { permits: 2, queueing, ..ask("a", session, id) }
}

#[test]
fn permits_return_in_the_order_of_their_tokens_as_long_as_there_is_room() {
    let mut store = Store::new();
    assert!(returns(&mut store, &permit(1, 1, 9)));
    assert!(!returns(&mut store, &permit(5, 1, 9)), "another has that token");
    assert!(returns(&mut store, &permit(2, 2, 9)));
    assert!(!returns(&mut store, &permit(3, 3, 9)), "there are two");
    store.space.forget();
    assert!(returns(&mut store, &permit(2, 2, 9)));
    assert!(!returns(&mut store, &permit(1, 1, 9)), "somebody came since");
    store.release(&["a"], 2);
    assert!(!returns(&mut store, &permit(5, 2, 9)), "it was given back");
    assert!(returns(&mut store, &permit(5, 3, 9)));
}

#[test]
fn what_returns_with_other_permits_finds_nobody_there() {
    let mut store = Store::new();
    store.granted(&ask("a", 1, 1));
    assert!(!returns(&mut store, &permit(3, 1_000, 1_000)), "it is held");
    store.acquire(&waiting("a", 2, 2, Queueing::Plain));
    store.release(&["a"], 1);
    assert!(!returns(&mut store, &permit(3, 1_000, 1_000)), "somebody waits");
    store.pass(TICKET_SPAN);
    assert!(returns(&mut store, &permit(3, 1_000, 1_000)));
    let none = lost(token(1)).map(|lost| Box::new(Restore { permits: 0, ..*lost }));
    assert!(!returns(&mut store, &ExtendRequest { restore: none, ..extension("b", 4) }), "of none there is nothing");
    let mut store = Store { uptime: Duration::ZERO, ..Store::new() };
    assert!(matches!(store.acquire(&ask("a", 2, 2)), AcquireReply::Guarded { .. }));
    let never = ExtendRequest { restore: lost(Token::NONE), ..extension("a", 1) };
    assert_eq!(store.extend(&never), ExtendReply::Lost, "it never had a token");
}

#[test]
fn who_waits_alone_may_ask_for_other_permits_and_who_comes_beside_may_not() {
    let mut store = Store::new();
    store.granted(&two(1, 1, Queueing::No));
    store.granted(&two(1, 2, Queueing::No));
    store.acquire(&two(2, 3, Queueing::Fair));
    store.release(&["a"], 1);
    store.release(&["a"], 2);
    let differ = AcquireReply::PermitsDiffer { name: lock("a"), permits: 2 };
    assert_eq!(store.acquire(&ask("a", 3, 4)), differ);
    let mut beside = Store { space: store.space.clone(), ..store };
    beside.granted(&two(3, 5, Queueing::No));
    store.granted(&ask("a", 2, 3));
}

#[test]
fn a_turn_that_was_given_back_is_over_under_each_of_its_tokens() {
    let mut store = Store::new();
    let first = store.granted(&AcquireRequest { tokens: 4, ..ask("a", 1, 1) }).token;
    store.release(&["a"], 1);
    let request = UnlockRequest { name: lock("a"), token: Token::new(first.get() + 2).unwrap() };
    assert_eq!(store.space.unlock(store.server(), &request).0, UnlockReply::Unlocked { holder: None });
}

#[test]
fn the_next_is_woken_at_the_end_of_a_turn_that_ran_out() {
    let mut store = Store::new();
    store.granted(&AcquireRequest { tokens: 4, ..ask("a", 1, 1) });
    store.pass(LEASE);
    store.acquire(&waiting("a", 3, 3, Queueing::Fair));
    store.release(&["a"], 1);
    store.granted(&waiting("a", 3, 3, Queueing::Fair));
    store.acquire(&waiting("a", 2, 2, Queueing::Fair));
    store.pass(LEASE);
    store.space.beat(store.server(), SessionId::from_u128(2));
    let seat = |served| Some(TurnSeat { id: LockId::from_u128(1), served });
    let mut end = |served| {
        let request = LockReleaseRequest { seat: seat(served), ..giving_back(&["a"], 5) };
        store.space.release(store.server(), &request).1
    };
    assert_eq!(end(vec![]), []);
    assert_eq!(end(vec![LockId::from_u128(7)]), [wake("a", 2, 2)], "those who were served were before it");
}

#[test]
fn a_repetition_that_finds_only_some_of_its_names_extends_none() {
    let mut store = Store::new();
    let both = AcquireRequest { names: vec![lock("a"), lock("b")], ..ask("a", 1, 1) };
    store.granted(&both);
    store.space.cells.remove(&lock("b"));
    store.granted(&ask("b", 2, 9));
    store.pass(Duration::from_secs(5));
    assert!(is_held(&store.acquire(&both)));
    assert_eq!(store.look("a").holders[0].remaining, LEASE - Duration::from_secs(5));
}

#[test]
fn who_does_not_wait_gives_no_sign_of_life() {
    let mut store = Store::new();
    store.granted(&ask("a", 1, 1));
    store.acquire(&waiting("a", 2, 2, Queueing::Plain));
    store.pass(TICKET_SPAN);
    store.acquire(&ask("b", 1, 3));
    store.acquire(&ask("b", 2, 4));
    assert_eq!(store.look("a").waiting, 0);
}

#[test]
fn a_look_tells_the_permits_of_what_is_held_or_waited_for_and_a_sweep_drops_neither() {
    let mut store = Store::new();
    assert!(store.space.is_empty());
    store.granted(&two(1, 1, Queueing::No));
    assert_eq!((store.look("a").permits, store.look("a").waiting), (Some(2), 0));
    store.granted(&two(1, 2, Queueing::No));
    store.acquire(&two(2, 3, Queueing::Plain));
    store.space.sweep(store.now);
    assert!(!store.space.is_empty());
    assert_eq!((store.look("a").holders.len(), store.look("a").waiting), (2, 1));
    store.release(&["a"], 1);
    store.release(&["a"], 2);
    assert_eq!(store.look("a"), LockInsight { holders: vec![], permits: Some(2), waiting: 1 });
}

#[test]
fn of_a_long_queue_those_behind_are_counted_without_a_look() {
    let mut store = Store::new();
    store.granted(&ask("a", 1, 1));
    for id in 2..=1_012 {
        store.acquire(&waiting("a", 2, id, Queueing::Plain));
    }
    assert_eq!(store.look("a").waiting, 1_011);
}

#[test]
fn an_owner_takes_several_names_again_that_it_has_under_one_token() {
    let mut store = Store::new();
    let names = || vec![lock("a"), lock("b")];
    store.granted(&AcquireRequest { names: names(), ..ask("a", 1, 1) });
    assert_eq!(store.granted(&AcquireRequest { names: names(), ..again("a", 1, 2) }).holds, 2);
}

#[test]
fn a_fair_one_that_waits_for_another_name_passes_the_word_on_where_two_are_free() {
    let mut store = Store::new();
    let of = |names: &[&str], session, id, queueing| {
        let names = names.iter().map(|name| lock(name)).collect();
        AcquireRequest { names, ..two(session, id, queueing) }
    };
    for (name, id) in [("a", 1), ("a", 2), ("b", 3), ("b", 4)] {
        store.granted(&of(&[name], 1, id, Queueing::No));
    }
    let both = of(&["a", "b"], 2, 5, Queueing::Fair);
    store.acquire(&both);
    store.acquire(&of(&["a"], 3, 6, Queueing::Fair));
    store.release(&["a"], 1);
    assert_eq!(store.acquire_waking(&both).1, [], "the one that is free is its own");
    store.release(&["a"], 2);
    assert_eq!(store.acquire_waking(&both).1, [wake("a", 3, 6)]);
}
