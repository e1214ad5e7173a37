//! A lock that goes from request to request beside one sidecar, and who is not passed by.

use super::super::super::super::locks::{TURN_MAX, TurnSeat};
use super::*;

fn in_turn(name: &str, session: u128, id: u128) -> AcquireRequest {
    AcquireRequest { tokens: TURN_MAX, ..waiting(name, session, id, Queueing::Plain) }
}

fn seat(id: u128, served: &[u128]) -> Option<TurnSeat> {
    Some(TurnSeat { id: LockId::from_u128(id), served: served.iter().map(|id| LockId::from_u128(*id)).collect() })
}

/// Request 5 has the lock from request 1, under the third token.
fn passed(token: Token) -> ExtendRequest {
    let third = Token::new(token.get() + 2);
    let last = Token::new(token.get() + u64::from(TURN_MAX) - 1).unwrap();
    let owner = Arc::from("owner-5");
    let restore = lost(third.unwrap()).map(|known| Box::new(Restore { owner, last, ..*known }));
    ExtendRequest { seat: seat(1, &[3, 5]), restore, ..extension("a", 5) }
}

#[test]
fn a_turn_has_a_block_of_tokens_which_nobody_else_ever_has() {
    let mut store = Store::new();
    let first = store.granted(&in_turn("a", 1, 1));
    assert_eq!(first.tokens, TURN_MAX);
    assert_eq!(store.granted(&in_turn("a", 1, 1)), first, "the answer was lost");
    // Its sidecar dies.
    store.pass(LEASE);
    let next = store.granted(&ask("a", 2, 2));
    assert!(next.token.get() >= first.token.get() + u64::from(TURN_MAX));
    let several = AcquireRequest { names: vec![lock("b"), lock("c")], ..in_turn("b", 1, 3) };
    assert_eq!(store.granted(&several).tokens, 1);
    assert_eq!(store.granted(&AcquireRequest { permits: 2, ..in_turn("d", 1, 4) }).tokens, 1);
}

#[test]
fn where_fair_requests_are_nobody_has_a_turn() {
    let mut store = Store::new();
    assert_eq!(store.granted(&in_turn("a", 1, 1)).tokens, TURN_MAX);
    store.acquire(&waiting("a", 2, 2, Queueing::Fair));
    store.release(&["a"], 1);
    assert!(is_held(&store.acquire(&in_turn("a", 1, 3))));
    store.granted(&waiting("a", 2, 2, Queueing::Fair));
    store.release(&["a"], 2);
    assert_eq!(store.granted(&in_turn("a", 1, 3)).tokens, 1, "another may come");
}

#[test]
fn the_store_hears_of_who_has_the_seat_by_an_extension() {
    let mut store = Store::new();
    let token = store.granted(&in_turn("a", 1, 1)).token;
    for id in [3, 4, 5] {
        store.acquire(&waiting("a", 1, id, Queueing::Plain));
    }
    let ExtendReply::Extended { token: told, restored: false, .. } = store.extend(&passed(token)) else { panic!() };
    assert_eq!(told.get(), token.get() + 2);
    let insight = store.look("a");
    assert_eq!((&*insight.holders[0].owner, insight.holders[0].token, insight.waiting), ("owner-5", told, 1));
    assert!(matches!(store.extend(&passed(token)), ExtendReply::Extended { .. }), "repeated");
    let through_another = LockReleaseRequest { session: SessionId::from_u128(2), ..giving_back(&["a"], 5) };
    assert_eq!(store.release(&["a"], 9).0, LockReleaseReply::NotHeld);
    assert_eq!(store.space.release(store.server(), &through_another).0, RELEASED);
}

#[test]
fn until_then_nobody_else_extends_or_releases_it() {
    let mut store = Store::new();
    store.granted(&in_turn("a", 1, 1));
    let theirs = SessionId::from_u128(2);
    let release = LockReleaseRequest { session: theirs, ..giving_back(&["a"], 1) };
    assert_eq!(store.space.release(store.server(), &release).0, LockReleaseReply::NotHeld);
    assert_eq!(store.extend(&ExtendRequest { session: theirs, ..extension("a", 1) }), ExtendReply::Lost);
    assert_eq!(store.look("a").holders.len(), 1, "another request may have it by now");
}

#[test]
fn at_the_end_of_a_turn_the_tickets_of_those_who_were_served_go_and_the_next_is_woken() {
    let mut store = Store::new();
    let token = store.granted(&in_turn("a", 1, 1)).token;
    for (session, id) in [(1, 3), (1, 5), (2, 6)] {
        store.acquire(&waiting("a", session, id, Queueing::Plain));
    }
    let end = LockReleaseRequest { seat: seat(1, &[3, 5]), ..giving_back(&["a"], 5) };
    assert_eq!(store.space.release(store.server(), &end), (RELEASED, vec![wake("a", 2, 6)]));
    assert_eq!(store.space.release(store.server(), &end).0, RELEASED, "repeated");
    assert_eq!(store.extend(&passed(token)), ExtendReply::Lost, "nothing of the turn comes again");
    assert!(is_held(&store.acquire(&in_turn("a", 1, 1))));
    assert_eq!(store.look("a").holders, []);
}

#[test]
fn a_seat_that_the_store_lost_is_put_back_with_all_of_its_tokens() {
    let mut store = Store::new();
    let token = store.granted(&in_turn("a", 1, 1)).token;
    store.space.forget();
    let ExtendReply::Extended { restored: true, token: third, .. } = store.extend(&passed(token)) else { panic!() };
    assert_eq!(third.get(), token.get() + 2);
    // Its clock is set back besides.
    store.now = StoreTime(START - 1_000_000);
    store.release(&["a"], 5);
    assert!(store.granted(&AcquireRequest { guard: None, ..ask("a", 1, 7) }).token.get() > token.get() + 31);
}

#[test]
fn one_that_yields_overtakes_nobody_who_waits() {
    let mut store = Store::new();
    store.granted(&ask("a", 1, 1));
    store.acquire(&waiting("a", 2, 2, Queueing::Plain));
    store.release(&["a"], 1);
    let mine = AcquireRequest { yields: true, ..waiting("a", 1, 3, Queueing::Plain) };
    assert!(is_held(&store.acquire(&mine)));
    store.granted(&waiting("a", 2, 2, Queueing::Plain));
    assert_eq!(store.release(&["a"], 2).1, [wake("a", 1, 3)]);
    store.granted(&mine);
    store.acquire(&waiting("a", 2, 4, Queueing::Plain));
    store.release(&["a"], 3);
    store.pass(TICKET_SPAN);
    store.granted(&AcquireRequest { yields: true, ..waiting("a", 1, 5, Queueing::Plain) });
}

#[test]
fn who_waits_for_several_names_as_a_fair_one_is_not_overtaken_and_nobody_waits_in_a_circle() {
    let mut store = Store::new();
    let both = |id, queueing| AcquireRequest { names: vec![lock("a"), lock("b")], queueing, ..ask("a", id, id) };
    store.granted(&ask("a", 1, 1));
    store.granted(&ask("b", 1, 2));
    store.acquire(&both(3, Queueing::Plain));
    store.acquire(&waiting("a", 4, 4, Queueing::Plain));
    assert!(is_held(&store.acquire(&both(3, Queueing::Fair))), "it has waited for long");
    store.acquire(&both(5, Queueing::Fair));
    store.release(&["a"], 1);
    assert!(is_held(&store.acquire(&waiting("a", 4, 4, Queueing::Plain))), "nor by who is queued behind it");
    assert!(is_held(&store.acquire(&both(5, Queueing::Fair))));
    let (reply, wakes) = store.acquire_waking(&both(3, Queueing::Fair));
    assert!(is_held(&reply) && wakes.is_empty(), "b is held, and nobody could have a: {wakes:?}");
    assert_eq!(store.release(&["b"], 2).1, [wake("b", 3, 3)]);
    store.granted(&both(3, Queueing::Fair));
}
