//! What is shut for a time at least, though it is given back before.

use super::super::super::super::locks::TurnSeat;
use super::*;

const SOON: Duration = Duration::from_secs(2);
const AT_LEAST: Duration = Duration::from_secs(5);

fn kept(name: &str, session: u128, id: u128) -> AcquireRequest {
    AcquireRequest { at_least: AT_LEAST, ..ask(name, session, id) }
}

#[test]
fn a_lock_that_is_given_back_early_is_shut_for_as_long_as_was_asked_for() {
    let mut store = Store::new();
    let first = store.granted(&kept("a", 1, 1)).token;
    store.acquire(&waiting("a", 2, 2, Queueing::Plain));
    store.pass(SOON);
    assert_eq!(store.release(&["a"], 1), (RELEASED, vec![wake("a", 2, 2)]), "who waits learns when it ends");
    assert_eq!(store.release(&["a"], 1).0, RELEASED, "once more");
    let AcquireReply::Held { holder: Some(holder), .. } = store.acquire(&waiting("a", 2, 2, Queueing::Plain)) else {
        panic!("it is free")
    };
    assert_eq!((holder.token, holder.remaining), (first, AT_LEAST - SOON));
    store.pass(AT_LEAST - SOON);
    assert!(store.granted(&waiting("a", 2, 2, Queueing::Plain)).token > first);
}

#[test]
fn while_it_rests_not_even_its_owner_has_it() {
    let mut store = Store::new();
    let first = store.granted(&kept("a", 1, 1)).token;
    store.release(&["a"], 1);
    assert!(is_held(&store.acquire(&kept("a", 1, 1))), "the same request, late");
    assert!(is_held(&store.acquire(&again("a", 1, 2))), "beside it");
    let restore = ExtendRequest { restore: lost(first), ..extension("a", 1) };
    assert_eq!(store.extend(&restore), ExtendReply::Lost);
    assert_eq!(store.cancel("a", 1, 1), Vec::new());
    assert_eq!(store.look("a").holders.len(), 1, "nor does a late cancellation end it");
    store.pass(AT_LEAST);
    assert_eq!(store.look("a"), LockInsight::default());
}

#[test]
fn what_is_given_back_later_is_free_at_once_and_each_hold_rests_by_itself() {
    let mut store = Store::new();
    store.granted(&kept("a", 1, 1));
    store.granted(&again("a", 1, 2));
    store.pass(SOON);
    store.release(&["a"], 1);
    assert_eq!(store.release(&["a"], 2).0, RELEASED);
    assert!(is_held(&store.acquire(&ask("a", 2, 3))));
    store.pass(AT_LEAST - SOON);
    store.granted(&kept("a", 2, 3));
    store.pass(AT_LEAST);
    store.release(&["a"], 3);
    store.granted(&ask("a", 2, 4));
}

#[test]
fn a_permit_rests_and_the_others_do_not() {
    let mut store = Store::new();
    let two = |request| AcquireRequest { permits: 2, ..request };
    store.granted(&two(kept("s", 1, 1)));
    store.granted(&two(ask("s", 1, 2)));
    for id in [1, 2] {
        store.release(&["s"], id);
    }
    store.granted(&two(ask("s", 1, 3)));
    assert!(is_held(&store.acquire(&two(ask("s", 1, 4)))));
    store.pass(AT_LEAST);
    store.granted(&two(ask("s", 1, 4)));
}

#[test]
fn what_is_put_back_is_shut_for_as_long_as_is_left() {
    let mut store = Store::new();
    let first = store.granted(&kept("a", 1, 1)).token;
    store.space.forget();
    let restore = lost(first).map(|lost| Box::new(Restore { at_least: SOON, ..*lost }));
    assert!(matches!(store.extend(&ExtendRequest { restore, ..extension("a", 1) }), ExtendReply::Extended { .. }));
    store.release(&["a"], 1);
    assert!(is_held(&store.acquire(&ask("a", 2, 2))));
    store.pass(SOON);
    store.granted(&ask("a", 2, 2));
}

#[test]
fn a_clock_that_is_set_back_keeps_it_shut_for_no_longer_than_a_lease() {
    let mut store = Store::new();
    store.granted(&kept("a", 1, 1));
    store.now = StoreTime(START - 3_600_000_000);
    store.release(&["a"], 1);
    assert!(is_held(&store.acquire(&ask("a", 2, 2))));
    store.pass(LEASE);
    store.granted(&ask("a", 2, 2));
}

#[test]
fn an_operator_ends_what_rests() {
    let mut store = Store::new();
    let token = store.granted(&kept("a", 1, 1)).token;
    store.release(&["a"], 1);
    let request = UnlockRequest { name: lock("a"), token };
    assert!(matches!(store.space.unlock(store.server(), &request).0, UnlockReply::Unlocked { holder: Some(_) }));
    store.granted(&ask("a", 2, 2));
}

#[test]
fn what_may_rest_has_no_turn() {
    let mut store = Store::new();
    assert_eq!(store.granted(&AcquireRequest { tokens: 32, ..kept("a", 1, 1) }).tokens, 1);
}

#[test]
fn what_rests_is_not_found_in_the_place_of_another_hold() {
    let mut store = Store::new();
    let two = |request| AcquireRequest { permits: 2, ..request };
    store.granted(&two(kept("s", 1, 1)));
    store.granted(&two(ask("s", 2, 2)));
    store.release(&["s"], 1);
    let seat = Some(TurnSeat { id: LockId::from_u128(2), served: Vec::new() });
    assert_eq!(store.extend(&ExtendRequest { seat, ..extension("s", 1) }), ExtendReply::Lost);
    assert!(matches!(
        store.extend(&ExtendRequest { session: SessionId::from_u128(2), ..extension("s", 2) }),
        ExtendReply::Extended { .. }
    ));
}
